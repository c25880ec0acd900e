#!/usr/bin/env python3
"""`fit` within rising budgets: what it predicts may not become slower, and what trains by its flags may not hold more.

  bench/rising_budgets.py --calibrate [--budgets 20] [--json FILE]

A model's run as asked for (BERT-mini's shape, an effective batch of 64 sequences of 128 tokens) is fitted into budgets at equal
distances from the least that `fit` reaches to what the fastest plan takes; each plan is then run for a few steps in a process of
its own. The JSON has of each budget the plan's flags, its predicted seconds and bytes, and the measured ones.
Exit: 0 no prediction is slower than that of a smaller budget by more than a percent, and no process holds more than its budget
and what predictions of whole processes may be off by; 1 one is or does; 2 nothing could be measured.
"""

import argparse
import json
import sys

import compare
import drawn_settings

RUN = ["--model_name_or_path", "bert-mini", "--max_seq_length", "128", "--effective_batch_size", "64"]
# A prediction may be so much slower than that of a smaller budget: candidates are alike within it.
ALIKE = 0.01


def tolerated(budget):
    """What a process may hold: so much more than its plan as is the goal of predictions of whole processes."""
    _, share, least_bytes = drawn_settings.GOALS[0]
    return budget + max(share * budget, least_bytes)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budgets", type=int, default=20)
    parser.add_argument("--calibrate", action="store_true", help="first, what `shoehorn calibrate` does")
    compare.add_program_arguments(parser)
    return parser.parse_args()


class Runs:
    """The program, as it is asked for plans and steps."""

    def __init__(self, args):
        self.program = args.shoehorn
        self.timeout = args.timeout_seconds

    def run(self, words):
        """What the program prints as JSON, and its peak in bytes."""
        output, peak, _ = compare.run_process([self.program, *words, "--json"], None, self.timeout)
        return json.loads(output), peak

    def fit(self, budget):
        return self.run(["fit", *RUN, *(["--memory_budget", str(budget)] if budget else [])])[0]

    def measured(self, flags):
        step, peak = self.run(["bench", "step", *flags, "--max_steps", "4", "--no_limits"])
        return {"step_seconds": step["step_seconds"], "process_peak_bytes": peak}


def budgets_between(frontier, count):
    least, most = (pick(row["process_peak_bytes"] for row in frontier) for pick in (min, max))
    spared = 2 << 20  # a plan leaves a mebibyte of a budget, and what a search finds of the process differs by a part of one
    return [least + spared + (most - least) * i // (count - 1) for i in range(count)]


def faults(rows):
    """What is not as promised, a line each."""
    lines = []
    for before, row in zip(rows, rows[1:]):
        if row["flags"] == before["flags"]:
            continue  # one plan, by the machine's clocks of two minutes
        if row["predicted"]["step_seconds"] > before["predicted"]["step_seconds"] * (1 + ALIKE):
            lines.append(f"within {row['budget_bytes']:,} bytes a step is predicted slower than within {before['budget_bytes']:,}")
    for row in rows:
        if row["measured"]["process_peak_bytes"] > tolerated(row["budget_bytes"]):
            lines.append(f"within {row['budget_bytes']:,} bytes the process held {row['measured']['process_peak_bytes']:,}")
    return lines


def main():
    args = parse_arguments()
    if args.calibrate:
        compare.run_process([args.shoehorn, "calibrate"], None, args.timeout_seconds)
    runs = Runs(args)
    rows = []
    for budget in budgets_between(runs.fit(None)["frontier"], args.budgets):
        chosen = runs.fit(budget)["chosen"]
        predicted = {key: chosen[key] for key in ("step_seconds", "process_peak_bytes")}
        rows.append({"budget_bytes": budget, "flags": chosen["added_flags"], "predicted": predicted, "measured": runs.measured(chosen["flags"])})
    if args.json:
        compare.write_json(args.json, {"run": RUN, "budgets": rows})
    if args.json != "-":
        print(f"{'budget MiB':>11}{'predicted s':>13}{'measured s':>12}{'planned MiB':>13}{'measured MiB':>14}  changes")
        for row in rows:
            planned, measured = row["predicted"], row["measured"]
            print(
                f"{row['budget_bytes'] / 2**20:>11.1f}{planned['step_seconds']:>13.3f}{measured['step_seconds']:>12.3f}"
                f"{planned['process_peak_bytes'] / 2**20:>13.1f}{measured['process_peak_bytes'] / 2**20:>14.1f}  {' '.join(row['flags'])}"
            )
    found = faults(rows)
    for line in found:
        print(f"rising_budgets: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    compare.run_main(main)
