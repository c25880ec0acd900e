#!/usr/bin/env python3
"""Shoehorn against the Hugging Face Trainer on real text of unequal lengths, measured in turns on this machine.

  bench/compare_text.py --model_name_or_path DIR --train_file msr_paraphrase_train.txt [--steps 60] [--repeats 3] [--json FILE]

Fine-tunes a pretrained classifier on MRPC's pairs, the same samples in the same batches on both sides. The Trainer pads
each batch to its longest sample, Shoehorn packs. Samples a second: ours over the whole of train_runtime, theirs over all
steps after the first, which is slower there. Exit: 0 the goal is met, 1 it is not, 2 nothing could be compared.
"""

import argparse
import json
import os
import pathlib
import tempfile

import compare


KEYS = ("samples_per_second", "peak_bytes", "loss")


def ours_once(args, environment):
    with tempfile.TemporaryDirectory() as directory:
        command = [
            args.shoehorn, "train", "--model_name_or_path", args.model_name_or_path, "--train_file", args.train_file,
            "--text_column_names", "#1 String,#2 String", "--label_column_name", "Quality",
            "--max_seq_length", str(args.max_seq_length), "--max_steps", str(args.steps), "--logging_steps", str(args.steps),
            "--per_device_train_batch_size", str(args.per_device_train_batch_size), "--save_strategy", "no",
            "--output_dir", directory, *(["--bf16"] if args.bf16 else []),
        ]  # fmt: skip
        _, peak, _ = compare.run_process(command, environment, args.timeout_seconds)
        with open(pathlib.Path(directory) / "all_results.json", encoding="utf-8") as file:
            results = json.load(file)
    return {
        **results, "samples_per_second": results["train_samples_per_second"], "peak_bytes": peak, "loss": results["train_loss"]
    }  # fmt: skip


def theirs_once(args, environment):
    command = [
        args.python, str(compare.HERE / "peers" / "train_text.py"), "--model_name_or_path", args.model_name_or_path,
        "--train_file", args.train_file, "--max_seq_length", str(args.max_seq_length), "--steps", str(args.steps),
        "--per_device_train_batch_size", str(args.per_device_train_batch_size), *(["--bf16"] if args.bf16 else []),
    ]  # fmt: skip
    result = compare.run_once(command, environment, args.timeout_seconds)
    return {**result, "samples_per_second": result["samples_per_second_mean"], "loss": result["train_loss"]}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_name_or_path", required=True, help="directory of a BERT-type model with its tokenizer")
    parser.add_argument("--train_file", required=True, help="msr_paraphrase_train.txt")
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--per_device_train_batch_size", type=int, default=16)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    compare.add_side_arguments(parser)
    parser.add_argument("--speed_goal", type=float, default=2.0, help="least ratio of samples per second")
    return parser.parse_args()


def print_table(args, runs):
    """Prints medians and the goal; returns the exit code."""
    medians = {side: {key: compare.median_of(runs[side], key) for key in KEYS} for side in runs}
    print(f"{'who':<8}{'samples/s':>12}{'peak MiB':>12}{'train loss':>12}")
    for side, values in medians.items():
        print(f"{side:<8}{values['samples_per_second']:>12.2f}{values['peak_bytes'] / 2**20:>12.0f}{values['loss']:>12.4f}")
    speed = medians["ours"]["samples_per_second"] / medians["theirs"]["samples_per_second"]
    memory = medians["ours"]["peak_bytes"] / medians["theirs"]["peak_bytes"]
    met = speed >= args.speed_goal
    print(f"{'MET ' if met else 'MISS'}  samples/s x{speed:.2f}, goal >= {args.speed_goal}; peak x{memory:.3f}")
    return 0 if met else 1


def main():
    args = parse_arguments()
    environment = dict(os.environ)
    sides = {"ours": lambda: ours_once(args, environment), "theirs": lambda: theirs_once(args, environment)}
    runs = compare.run_in_turns(sides, args.repeats)
    record = {"date": compare.utc_now(), "setting": "bf16" if args.bf16 else "fp32", "steps": args.steps, "runs": runs}
    if args.json:
        compare.write_json(args.json, record)
    return print_table(args, runs) if args.json != "-" else 0


if __name__ == "__main__":
    compare.run_main(main)
