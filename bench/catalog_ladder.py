#!/usr/bin/env python3
"""The catalogue's V100 against the guides' own measurements of their ladder, rung by rung.

  bench/catalog_ladder.py [--program build/shoehorn] [--machine v100] [--json FILE]

The guides measured BERT-large, 512 tokens, on one V100 of 16 GB (Transformers 4.25's single-GPU guide). Times of the
catalogue are what a data sheet allows at best, so measured speeds lie below: what tells is whether the share that
is reached is the same in all rungs, and the ratios between rungs, whose error is printed. Nothing is run but plans.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

import compare

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


SAMPLES = 4  # of a step


def planned(program, machine):
    """A rung each: what the data sheet allows at best, and what the guides measured."""
    rungs = []
    for setting, flags, measured, mib in RUNGS:
        words = [program, "plan", *MODEL, *flags, "--machine_profile", machine, "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if not done.stdout:
            raise compare.CompareError(f"{' '.join(words)}: {done.stderr}")
        plan = json.loads(done.stdout)
        rungs.append({
            "setting": setting, "flags": flags, "best_samples_per_second": SAMPLES / plan["step_seconds"],
            "guides_samples_per_second": measured, "planned_bytes": plan["process_peak_bytes"], "guides_bytes": mib * 2**20,
        })  # fmt: skip
    return rungs


def reached(rung):
    """The share of what the data sheet allows that the guides reached."""
    return rung["guides_samples_per_second"] / rung["best_samples_per_second"]


def ratio_errors(rungs):
    """A number a rung: by how much its speed is predicted wrong where the median share is reached in all."""
    share = statistics.median(map(reached, rungs))
    return [share / reached(rung) - 1 for rung in rungs]


def print_table(rungs):
    print(f"{'setting':<42}{'at best':>10}{'guides':>10}{'reached':>10}{'of ratios':>11}{'MiB here':>10}{'guides':>9}")
    errors = ratio_errors(rungs)
    for rung, error in zip(rungs, errors):
        print(f"{rung['setting']:<42}{rung['best_samples_per_second']:>10.2f}{rung['guides_samples_per_second']:>10.2f}"
              f"{reached(rung):>9.0%} {100 * error:>+9.1f}%{rung['planned_bytes'] / 2**20:>10,.0f}{rung['guides_bytes'] / 2**20:>9,.0f}")
    print(f"reached: {statistics.median(map(reached, rungs)):.0%} in the median; error of ratios: "
          f"median {100 * statistics.median(map(abs, errors)):.1f} %, most {100 * max(map(abs, errors)):.1f} %. Samples a second; not validated.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(pathlib.Path(__file__).parent.parent / "build/shoehorn"))
    parser.add_argument("--machine", default="v100")
    parser.add_argument("--json", metavar="FILE", help="write every rung; - for standard output in place of the table")
    args = parser.parse_args()
    rungs = planned(args.program, args.machine)
    if args.json != "-":
        print_table(rungs)
    if args.json:
        compare.write_json(args.json, {"machine": args.machine, "rungs": rungs})
    return 0


if __name__ == "__main__":
    compare.run_main(main)
