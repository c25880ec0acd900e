#!/usr/bin/env python3
"""The catalogue's V100 against the guides' own measurements of their ladder, rung by rung.

  bench/catalog_ladder.py [--program build/shoehorn] [--machine v100]

The guides measured BERT-large, 512 tokens, on one V100 of 16 GB (Transformers 4.25's single-GPU guide). Times of the
catalogue are what a data sheet allows at best, so measured speeds lie below: what tells is whether the share that
is reached is the same in all rungs, and the ratios between rungs, whose error is printed.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

MODEL = ["--model", "bert-large", "--sequence_length", "512"]
ONE_BY_FOUR = ["--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "4"]
FOUR = ["--per_device_train_batch_size", "4"]
CHECKPOINTING = [*ONE_BY_FOUR, "--gradient_checkpointing"]
EIGHT_BIT = ["--optim", "adamw_bnb_8bit", "--optim_args", "embedding_bits=8"]
# Setting, flags, the guides' samples a second and MiB.
RUNGS = [
    ("batch 4", FOUR, 8.86, 14949),
    ("1 x 4 accumulation", ONE_BY_FOUR, 7.75, 8681),
    ("1 x 4, checkpointing", CHECKPOINTING, 5.99, 6775),
    ("batch 4, fp16", [*FOUR, "--fp16"], 18.64, 13939),
    ("1 x 4, checkpointing, fp16", [*CHECKPOINTING, "--fp16"], 10.09, 7275),
    ("batch 4, Adafactor", [*FOUR, "--optim", "adafactor"], 7.96, 12295),
    ("1 x 4, checkpointing, fp16, Adafactor", [*CHECKPOINTING, "--fp16", "--optim", "adafactor"], 9.06, 4847),
    ("batch 4, 8-bit AdamW", [*FOUR, *EIGHT_BIT], 9.15, 13085),
    ("1 x 4, checkpointing, fp16, 8-bit AdamW", [*CHECKPOINTING, "--fp16", *EIGHT_BIT], 10.35, 5363),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(pathlib.Path(__file__).parent.parent / "build/shoehorn"))
    parser.add_argument("--machine", default="v100")
    args = parser.parse_args()
    rows = []
    for setting, flags, measured, mib in RUNGS:
        words = [args.program, "plan", *MODEL, *flags, "--machine_profile", args.machine, "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if not done.stdout:
            sys.exit(f"{' '.join(words)}: {done.stderr}")
        plan = json.loads(done.stdout)
        rows.append((setting, 4 / plan["step_seconds"], measured, plan["process_peak_bytes"] / 2**20, mib))
    share = statistics.median(measured / predicted for _, predicted, measured, _, _ in rows)
    print(f"{'setting':<42}{'at best':>10}{'guides':>10}{'reached':>10}{'of ratios':>11}{'MiB here':>10}{'guides':>9}")
    errors = []
    for setting, predicted, measured, here, mib in rows:
        errors.append(predicted * share / measured - 1)
        print(f"{setting:<42}{predicted:>10.2f}{measured:>10.2f}{measured / predicted:>9.0%} {100 * errors[-1]:>+9.1f}%"
              f"{here:>10,.0f}{mib:>9,}")
    print(f"reached: {share:.0%} in the median; error of ratios: median {100 * statistics.median(map(abs, errors)):.1f} %, "
          f"most {100 * max(map(abs, errors)):.1f} %. Samples a second; not validated.")


if __name__ == "__main__":
    main()
