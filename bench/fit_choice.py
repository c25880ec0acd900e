#!/usr/bin/env python3
"""Is the choice of `fit` the fastest? It is measured against a grid of settings, at three memory budgets.

  bench/fit_choice.py --calibrate [--model distilbert-base] [--rounds 5] [--json FILE]

The grid has every division of an effective batch into micro-batches, both orders of their accumulation, what is recomputed
(nothing, every or every second layer, what three activation budgets leave) and the update in the backward or not: all that
`fit` may choose where no maths may change. Each point is planned and run once. At each budget those three that were fastest among the points
whose plans fit, the choice of `fit` and that of `fit --verify 3` then run in processes of their own, in rounds. A choice's
time is the median over rounds of its step ÷ the step of the point whose median is least. The JSON has every run.
Exit: 0 all goals met, 1 one missed, 2 nothing could be measured.
"""

import argparse
import json
import os
import shlex
import statistics
import sys

import compare

RECOMPUTE = {
    "nothing recomputed": [],
    "budget 0.75": ["--activation_budget", "0.75"],
    "budget 0.5": ["--activation_budget", "0.5"],
    "budget 0.25": ["--activation_budget", "0.25"],
    "every second layer recomputed": ["--gradient_checkpointing", "--gradient_checkpointing_kwargs", '{"every_n_layers": 2}'],
    "every layer recomputed": ["--gradient_checkpointing"],
}
UPDATES = {"": [], ", update in the backward": ["--update_in_backward"]}
# Budgets between the grid's least peak (0) and its greatest (1).
BUDGETS = (0.1, 0.5, 1.0)
FINALISTS = 3
# Choice -> flags of fit, and the most times the fastest point's step that it may take.
CHOICES = {"fit": ([], 1.06), "fit --verify 3": (["--verify", "3"], 1.03)}


def divisions(effective_batch):
    """Micro-batch, how many, and the order where there are several: name -> flags."""
    found = {}
    for batch in (b for b in range(effective_batch, 0, -1) if effective_batch % b == 0):
        count = effective_batch // batch
        for order in ("micro_batch", "layer_major") if count > 1 else ("",):
            flags = ["--per_device_train_batch_size", str(batch), "--gradient_accumulation_steps", str(count)]
            found[f"{batch} × {count} {order}".rstrip()] = [*flags, "--accumulation_order", order] if order else flags
    return found


def grid(effective_batch):
    """Name -> flags. A gradient that micro-batches accumulate in their own order is complete after the last one only."""
    return {
        f"{division}, {recompute}{update}": [*of_division, *RECOMPUTE[recompute], *UPDATES[update]]
        for division, of_division in divisions(effective_batch).items()
        for recompute in RECOMPUTE
        for update in UPDATES
        if not update or "micro_batch" not in of_division
    }


def budgets_of(points):
    """Budgets in bytes, from the peaks that were planned."""
    peaks = [point["planned_bytes"] for point in points]
    return [round(min(peaks) + share * (max(peaks) - min(peaks))) for share in BUDGETS]


def finalists(points, budget):
    """Names of the fastest points whose plans fit."""
    fitting = sorted((point for point in points if point["planned_bytes"] <= budget), key=lambda point: point["step_seconds"])
    return [point["name"] for point in fitting[:FINALISTS]]


def times_of(runs):
    """Choice -> its step ÷ the fastest finalist's, and that finalist's name. `runs`: lists of steps by name, a number a round."""
    fastest = min((name for name in runs if name not in CHOICES), key=lambda name: statistics.median(runs[name]))
    return {choice: statistics.median(a / b for a, b in zip(runs[choice], runs[fastest])) for choice in CHOICES}, fastest


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="distilbert-base")
    parser.add_argument("--sequence_length", type=int, default=128)
    parser.add_argument("--effective_batch_size", type=int, default=8)
    parser.add_argument("--flags", default="--bf16 --max_grad_norm 0", help="of every run, one string")
    parser.add_argument("--calibrate", action="store_true", help="first, what `shoehorn calibrate` does")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5, help="of a process; the first does not count")
    compare.add_program_arguments(parser)
    return parser.parse_args()


class Bench:
    """The program, with the flags of every run."""

    def __init__(self, args):
        self.program = args.shoehorn
        self.flags = ["--model", args.model, "--sequence_length", str(args.sequence_length), *shlex.split(args.flags)]
        self.effective_batch = str(args.effective_batch_size)
        self.steps = str(args.steps)
        self.timeout = args.timeout_seconds
        self.environment = dict(os.environ)

    def output_of(self, *words):
        output, _, _ = compare.run_process([self.program, *words, "--json"], self.environment, self.timeout)
        return json.loads(output)

    def planned_bytes(self, flags):
        return self.output_of("plan", *self.flags, *flags)["process_peak_bytes"]

    def step_seconds(self, flags):
        return self.output_of("bench", "step", *flags, "--no_limits", "--max_steps", self.steps)["step_seconds"]

    def choice(self, budget, more):
        """The flags that fit chooses."""
        words = ["--effective_batch_size", self.effective_batch, "--memory_budget", str(budget), *more]
        return self.output_of("fit", *self.flags, *words)["chosen"]["flags"]


def main():
    args = parse_arguments()
    bench = Bench(args)
    if args.calibrate:
        compare.run_process([args.shoehorn, "calibrate"], bench.environment, args.timeout_seconds)
    points = []
    for name, flags in grid(args.effective_batch_size).items():
        seconds = bench.step_seconds([*bench.flags, *flags])
        points.append({"name": name, "flags": flags, "planned_bytes": bench.planned_bytes(flags), "step_seconds": seconds})
        print(f"{name:<70}{points[-1]['planned_bytes'] / 2**20:>8,.0f} MiB{seconds:>9.4f} s", file=sys.stderr, flush=True)
    flags_of = {point["name"]: [*bench.flags, *point["flags"]] for point in points}
    rows, are_met = [], []
    for budget in budgets_of(points):
        run_flags = {name: flags_of[name] for name in finalists(points, budget)}
        chosen = {choice: bench.choice(budget, more) for choice, (more, _) in CHOICES.items()}
        run_flags.update(chosen)
        runs = compare.run_in_turns({name: lambda f=flags: bench.step_seconds(f) for name, flags in run_flags.items()}, args.rounds)
        times, fastest = times_of(runs)
        rows.append({"budget_bytes": budget, "chosen": chosen, "fastest": fastest, "times": times, "runs": runs})
        are_met += [times[choice] <= most for choice, (_, most) in CHOICES.items()]
    if args.json != "-":
        for row in rows:
            print(f"{row['budget_bytes'] / 2**20:,.0f} MiB; fastest of {len(points)}: {row['fastest']}")
            for choice, (_, most) in CHOICES.items():
                met = "MET " if row["times"][choice] <= most else "MISS"
                print(f"{met}  {choice}: ×{row['times'][choice]:.3f}, goal ≤ {most}; {shlex.join(row['chosen'][choice])}")
    if args.json:
        compare.write_json(args.json, {"model": args.model, "points": points, "budgets": rows})
    return 0 if all(are_met) else 1


if __name__ == "__main__":
    compare.run_main(main)
