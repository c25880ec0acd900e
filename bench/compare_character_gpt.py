#!/usr/bin/env python3
"""Shoehorn against PyTorch on a small GPT from scratch, by characters, measured in turns on this machine.

  bench/compare_character_gpt.py [--steps 20] [--bf16] [--repeats 3] [--json FILE] FILE…

The model of examples/recipes/gpt-shakespeare.json (6 layers of 384, blocks of 256, batches of 64) on the text of the files, the
last tenth of which is for validation. Both sides start from the same weights and take the same batches, so that after as many
steps their validation losses are equal; the ratio of their times is the result. Dropout is 0, for its masks would differ.
Ours is train_runtime over all steps; theirs all steps after the first, which is slower there, times as many. Exit: 0 the goal is met, 1
it is not, 2 nothing could be compared.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

import compare

SIZES = "n_layer=6,n_head=6,n_embd=384,n_positions=256,vocab_size=257"
BLOCK_SIZE = 256
VALIDATION_SHARE = 0.1
# After the same steps: what fp32 and bf16 rounding makes of a loss of 2 to 5.
SAME_LOSS = {"fp32": 1e-3, "bf16": 2e-2}
KEYS = ("train_seconds", "peak_bytes", "eval_loss")


def peer(args, words):
    return [args.python, str(compare.HERE / "peers" / "train_blocks.py"), *words]


def prepare(args, directory):
    """The texts, the tokenizer and the weights that both sides start from."""
    text = "\n".join(pathlib.Path(path).read_text(encoding="utf-8") for path in args.files)
    held_out = int(len(text) * (1 - VALIDATION_SHARE))
    for name, part in (("train.jsonl", text[:held_out]), ("validation.jsonl", text[held_out:])):
        (directory / name).write_text(json.dumps({"text": part}) + "\n", encoding="utf-8")
    model = directory / "model"
    for command in (
        [args.shoehorn, "tokenizer", "train", "--output_dir", str(model), "--vocab_size", "257", *args.files],
        peer(args, ["--model_name_or_path", str(model), "--write_model", SIZES]),
    ):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise compare.CompareError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")


def shared_flags(args, directory):
    return [
        "--model_name_or_path", str(directory / "model"), "--train_file", str(directory / "train.jsonl"),
        "--validation_file", str(directory / "validation.jsonl"), "--block_size", str(BLOCK_SIZE),
        "--per_device_train_batch_size", str(args.per_device_train_batch_size), "--learning_rate", str(args.learning_rate),
        *(["--bf16"] if args.bf16 else []),
    ]  # fmt: skip


def ours_once(args, directory):
    with tempfile.TemporaryDirectory() as output:
        command = [
            args.shoehorn, "train", "--task", "causal-lm", *shared_flags(args, directory), "--block_remainder", "run_clm",
            "--max_steps", str(args.steps),
            "--logging_steps", str(args.steps), "--save_strategy", "no", "--do_eval", "--output_dir", output,
        ]  # fmt: skip
        _, peak, _ = compare.run_process(command, dict(os.environ), args.timeout_seconds)
        with open(pathlib.Path(output) / "all_results.json", encoding="utf-8") as file:
            results = json.load(file)
    return {**results, "train_seconds": results["train_runtime"], "peak_bytes": peak}


def theirs_once(args, directory):
    command = peer(args, [*shared_flags(args, directory), "--steps", str(args.steps)])
    result = compare.run_once(command, dict(os.environ), args.timeout_seconds)
    steps = result["step_samples"]
    return {**result, "train_seconds": sum(steps) / len(steps) * args.steps}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="a text, as all of Shakespeare's plays")
    parser.add_argument("--per_device_train_batch_size", type=int, default=64)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    compare.add_side_arguments(parser, timeout_seconds=3600)
    parser.add_argument("--speed_goal", type=float, default=2.0, help="least ratio of times")
    return parser.parse_args()


def print_table(args, setting, runs):
    """Prints medians and the goal; returns the exit code."""
    medians = {side: {key: compare.median_of(runs[side], key) for key in KEYS} for side in runs}
    print(f"{'who':<8}{'seconds':>12}{'peak MiB':>12}{'eval loss':>12}")
    for side, values in medians.items():
        print(f"{side:<8}{values['train_seconds']:>12.1f}{values['peak_bytes'] / 2**20:>12.0f}{values['eval_loss']:>12.4f}")
    speed = medians["theirs"]["train_seconds"] / medians["ours"]["train_seconds"]
    memory = medians["ours"]["peak_bytes"] / medians["theirs"]["peak_bytes"]
    apart = abs(medians["ours"]["eval_loss"] / medians["theirs"]["eval_loss"] - 1)
    met = speed >= args.speed_goal and apart <= SAME_LOSS[setting]
    print(
        f"{'MET ' if met else 'MISS'}  time x{1 / speed:.2f}, goal <= {1 / args.speed_goal:.2f}; losses {apart:.1e} apart, goal <= "
        f"{SAME_LOSS[setting]:.0e}; peak x{memory:.3f}"
    )
    return 0 if met else 1


def main():
    args = parse_arguments()
    setting = "bf16" if args.bf16 else "fp32"
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        prepare(args, directory)
        sides = {"ours": lambda: ours_once(args, directory), "theirs": lambda: theirs_once(args, directory)}
        runs = compare.run_in_turns(sides, args.repeats)
    if args.json:
        compare.write_json(args.json, {"date": compare.utc_now(), "setting": setting, "steps": args.steps, "runs": runs})
    return print_table(args, setting, runs) if args.json != "-" else 0


if __name__ == "__main__":
    compare.run_main(main)
