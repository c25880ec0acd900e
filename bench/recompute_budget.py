#!/usr/bin/env python3
"""What a step takes when the bytes that recomputation may leave are halved and quartered, measured in turns.

  bench/recompute_budget.py [--model bert-large] [--flags '--bf16 …'] [--rounds 3] [--steps 3] [--json FILE]

The bytes are those of a step above the plan that recomputes every layer; 1 recomputes nothing, and --activation_budget has
shares of them. Each setting is planned, and then runs in processes of its own, in rounds over the settings; the time of a
setting is the median over rounds of its step ÷ that of the same round that recomputes nothing. The JSON has every run.
Exit: 0 both goals met, 1 one missed, 2 nothing could be measured.
"""

import argparse
import json
import os
import shlex
import statistics

import compare

# Setting -> flags.
SETTINGS = {
    "nothing": [],
    "half": ["--activation_budget", "0.5"],
    "quarter": ["--activation_budget", "0.25"],
    "every layer": ["--gradient_checkpointing"],
}
# Greatest share of the bytes, and of the time, that a setting is to take.
GOALS = {"half": (0.5, 1.10), "quarter": (0.25, 1.16)}


def planned_bytes(args, flags, environment):
    """The bytes of the arena of a step."""
    output, _, _ = compare.run_process([args.shoehorn, "plan", *flags, "--json"], environment, args.timeout_seconds)
    return next(arena["bytes"] for arena in json.loads(output)["arenas"] if arena["name"] == "transient")


def shares(planned):
    """Setting -> its bytes above those of `every layer`, in the unit of those of `nothing`."""
    least = planned["every layer"]
    return {setting: (of_setting - least) / (planned["nothing"] - least) for setting, of_setting in planned.items()}


def times(runs):
    """Setting -> median over rounds of its step ÷ that of `nothing`."""
    steps = {setting: [run["step_seconds"] for run in made] for setting, made in runs.items()}
    return {setting: statistics.median(a / b for a, b in zip(made, steps["nothing"])) for setting, made in steps.items()}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-large")
    parser.add_argument("--per_device_train_batch_size", type=int, default=8)
    parser.add_argument("--sequence_length", type=int, default=512)
    parser.add_argument("--flags", default="--bf16 --optim adamw_8bit --update_in_backward --max_grad_norm 0", help="of every run, one string")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="of a process; the first does not count")
    compare.add_program_arguments(parser)
    return parser.parse_args()


def main():
    args = parse_arguments()
    environment = dict(os.environ)
    flags = {
        setting: [
            "--model", args.model, "--per_device_train_batch_size", str(args.per_device_train_batch_size),
            "--sequence_length", str(args.sequence_length), *shlex.split(args.flags), *of_setting,
        ]
        for setting, of_setting in SETTINGS.items()
    }  # fmt: skip
    planned = {setting: planned_bytes(args, of_setting, environment) for setting, of_setting in flags.items()}
    if planned["nothing"] <= planned["every layer"]:
        raise compare.CompareError(f"[--model] expected a step that recomputation makes smaller, got {planned}; give longer sequences")

    def step(setting):
        command = [args.shoehorn, "bench", "step", *flags[setting], "--no_limits", "--max_steps", str(args.steps), "--json"]
        return compare.run_once(command, environment, args.timeout_seconds)

    runs = compare.run_in_turns({setting: lambda setting=setting: step(setting) for setting in SETTINGS}, args.rounds)
    share_of, time_of = shares(planned), times(runs)
    met = {setting: share_of[setting] <= most and time_of[setting] <= slowest for setting, (most, slowest) in GOALS.items()}
    if args.json != "-":
        print(f"{'recomputed':<14}{'step arena, MiB':>16}{'share':>8}{'step, s':>10}{'times':>8}")
        for setting, made in runs.items():
            seconds = statistics.median(run["step_seconds"] for run in made)
            print(f"{setting:<14}{planned[setting] / 2**20:>16,.0f}{share_of[setting]:>8.3f}{seconds:>10.3f}{time_of[setting]:>8.3f}")
        for setting, is_met in met.items():
            print(f"{'MET ' if is_met else 'MISS'}  {setting}: bytes ≤ {GOALS[setting][0]}, time ≤ {GOALS[setting][1]}")
    if args.json:
        compare.write_json(args.json, {"model": args.model, "planned_bytes": planned, "runs": runs})
    return 0 if all(met.values()) else 1


if __name__ == "__main__":
    compare.run_main(main)
