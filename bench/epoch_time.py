#!/usr/bin/env python3
"""Predicted against measured times of an epoch on real text of unequal lengths.

  bench/epoch_time.py --calibrate --model_name_or_path DIR --train_file msr_paraphrase_train.txt [--rounds 3] [--json FILE]

Trains a pretrained classifier on MRPC's pairs for one epoch under each setting. In rounds over the settings, `shoehorn fit`
with nothing left open predicts the epoch from the lengths of the samples and the machine's clock of that minute, and `shoehorn
train` then takes it: train_runtime, without evaluation and saving. A setting's error is the median of its rounds' errors: a
machine that changes its clock between the two is worth a round. The JSON has every round.
Exit: 0 every error is within the goal, 1 one is not, 2 nothing could be measured.
"""

import argparse
import json
import os
import pathlib
import statistics
import tempfile

import compare
import predict_times

SETTINGS = {
    "batch 16": ["--per_device_train_batch_size", "16"],
    "batch 32": ["--per_device_train_batch_size", "32"],
    "batch 4 × 4": ["--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "4"],
    "batch 16, bf16": ["--per_device_train_batch_size", "16", "--bf16"],
    "batch 16, every layer recomputed": ["--per_device_train_batch_size", "16", "--gradient_checkpointing"],
    "batch 16, LoRA": ["--per_device_train_batch_size", "16", "--lora_rank", "8"],
}
# The greatest error of an epoch.
GOAL = 0.10


def medians_of(rounds):
    """Predicted and measured seconds in the median of the rounds, and the median of the rounds' errors."""
    predicted, measured = (statistics.median(made[key] for made in rounds) for key in ("predicted", "measured"))
    return predicted, measured, statistics.median(made["predicted"] / made["measured"] - 1 for made in rounds)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_name_or_path", required=True, help="directory of a BERT-type model with its tokenizer")
    parser.add_argument("--train_file", required=True, help="msr_paraphrase_train.txt")
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--max_train_samples", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calibrate", action="store_true", help="first, what `shoehorn calibrate` does")
    compare.add_program_arguments(parser)
    return parser.parse_args()


class Epochs:
    """The program, with the flags of every run."""

    def __init__(self, args):
        self.program = args.shoehorn
        self.timeout = args.timeout_seconds
        self.environment = dict(os.environ)
        self.flags = [
            "--model_name_or_path", args.model_name_or_path, "--train_file", args.train_file, "--text_column_names", "#1 String,#2 String",
            "--label_column_name", "Quality", "--max_seq_length", str(args.max_seq_length),
            "--max_train_samples", str(args.max_train_samples), "--num_train_epochs", "1",
        ]  # fmt: skip

    def predicted(self, flags):
        words = [self.program, "fit", *self.flags, *flags, "--fix", predict_times.FIXED, "--json"]
        output, _, _ = compare.run_process(words, self.environment, self.timeout)
        chosen = json.loads(output)["chosen"]
        if chosen["step_seconds_are"] != "calibrated":
            raise compare.CompareError("this machine is not calibrated: run `shoehorn calibrate` first")
        return chosen["epoch_seconds"]

    def measured(self, flags):
        with tempfile.TemporaryDirectory() as directory:
            words = [self.program, "train", *self.flags, *flags, "--save_strategy", "no", "--output_dir", directory]
            compare.run_process(words, self.environment, self.timeout)
            return json.loads((pathlib.Path(directory) / "all_results.json").read_text(encoding="utf-8"))["train_runtime"]


def main():
    args = parse_arguments()
    if args.calibrate:
        compare.run_process([args.shoehorn, "calibrate"], None, args.timeout_seconds)
    epochs = Epochs(args)
    rounds = {setting: [] for setting in SETTINGS}
    for _ in range(args.rounds):
        for setting, flags in SETTINGS.items():
            rounds[setting].append({"predicted": epochs.predicted(flags), "measured": epochs.measured(flags)})
    errors = {setting: medians_of(made)[2] for setting, made in rounds.items()}
    if args.json:
        compare.write_json(args.json, {"samples": args.max_train_samples, "rounds": rounds})
    if args.json != "-":
        print(f"{'setting':<36}{'predicted s':>13}{'measured s':>12}{'error %':>10}")
        for setting, made in rounds.items():
            predicted, measured, error = medians_of(made)
            print(f"{setting:<36}{predicted:>13.1f}{measured:>12.1f}{100 * error:>+10.1f}")
    return 0 if all(abs(error) <= GOAL for error in errors.values()) else 1


if __name__ == "__main__":
    compare.run_main(main)
