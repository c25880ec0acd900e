#!/usr/bin/env python3
"""Two builds of Shoehorn on the same training step, measured in turns on this machine.

  bench/compare_builds.py --first build/shoehorn --second ../before/build/shoehorn \\
      --models bert-base --settings fp32 bf16 --repeats 5 [--json FILE]

The builds may be of two commits, or of two Debians with their libraries: bench/README.md has the command of the second,
in a root that scripts/fresh_machine.sh left. Every measurement is a process of its own, in the order first, second,
first, …. The JSON has what `env` says of each build and every run.
Exit: 0 measured, 2 nothing could be compared.
"""

import argparse
import json
import os
import shlex
import sys

import compare

SIDES = ("first", "second")


def describe(program):
    """What `shoehorn env --json` says of a build and the machine."""
    output, _, _ = compare.run_process([*program, "env", "--json"], dict(os.environ), 600)
    return json.loads(output)


def measure(args, programs, model, setting):
    flags = [
        "bench", "step", "--model", model, "--per_device_train_batch_size", str(args.per_device_train_batch_size),
        "--sequence_length", str(args.sequence_length), "--max_steps", str(args.steps), *compare.SETTINGS[setting],
        *shlex.split(args.extra), "--json",
    ]  # fmt: skip
    runs = {side: [] for side in SIDES}
    for repeat in range(args.repeats):
        for side in SIDES:
            print(f"{model} {setting} {repeat + 1}/{args.repeats} {side} …", file=sys.stderr, flush=True)
            runs[side].append(compare.run_once([*programs[side], *flags], dict(os.environ), args.timeout_seconds))
    return {
        "model": model,
        "setting": setting,
        "command": shlex.join(["shoehorn", *flags]),
        "load_average": os.getloadavg()[0],
        "runs": runs,
    }


def print_table(names, records):
    print(f"{'model':<12}{'setting':<20}{'build':<28}{'samples/s':>10}{'step s':>9}{'peak MiB':>10}")
    for record in records:
        medians = {side: {key: compare.median_of(record["runs"][side], key) for key in compare.MEASURES} for side in SIDES}
        for side in SIDES:
            print(
                f"{record['model']:<12}{record['setting']:<20}{names[side]:<28}"
                f"{medians[side]['samples_per_second']:>10.3f}{medians[side]['step_seconds']:>9.3f}"
                f"{medians[side]['peak_bytes'] / 2**20:>10.0f}"
            )
        ratio = {key: compare.ratio(medians["second"][key], medians["first"][key]) for key in compare.MEASURES}
        print(f"{'':<32}{'second / first':<28}{ratio['samples_per_second']:>9.3f}x{ratio['step_seconds']:>8.3f}x{ratio['peak_bytes']:>9.3f}x")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", required=True, help="command that runs the first build")
    parser.add_argument("--second", required=True, help="command that runs the second build")
    parser.add_argument("--models", nargs="+", default=["bert-base"])
    parser.add_argument("--settings", nargs="+", default=["fp32", "bf16"], choices=sorted(compare.SETTINGS))
    parser.add_argument("--per_device_train_batch_size", type=int, default=4)
    parser.add_argument("--sequence_length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4, help="steps a process makes; the first is not in its median")
    parser.add_argument("--repeats", type=int, default=5, help="processes of each build")
    parser.add_argument("--extra", default="", help="more flags of bench step, one string")
    parser.add_argument("--timeout_seconds", type=float, default=1800, help="for one process")
    parser.add_argument("--json", metavar="FILE", help="write every run; - for standard output in place of the table")
    return parser.parse_args()


def main():
    args = parse_arguments()
    programs = {"first": shlex.split(args.first), "second": shlex.split(args.second)}
    environments = {side: describe(programs[side]) for side in SIDES}
    names = {side: str(environments[side].get("products", side)) for side in SIDES}
    records = [measure(args, programs, model, setting) for model in args.models for setting in args.settings]
    if args.json != "-":
        print_table(names, records)
    if args.json:
        compare.write_json(args.json, {"date": compare.utc_now(), "env": environments, "measurements": records})
    return 0


if __name__ == "__main__":
    compare.run_main(main)
