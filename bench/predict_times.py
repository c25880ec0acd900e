#!/usr/bin/env python3
"""Predicted against measured times of a training step, over a grid of models, lengths, batches and settings.

  bench/predict_times.py --calibrate                            the small grid
  bench/predict_times.py --models bert-base gpt2 --lengths 128 512 --batches 1 4 --rounds 3 --json times.json

Each point is planned (`shoehorn plan --json`, whose time is that of the day of the calibration). Then, in rounds over the
grid, `shoehorn fit` with nothing left open predicts it by the machine's clock of that minute, and `shoehorn bench step`
measures it in a process of its own, in as many steps as take --seconds. Two errors are printed: of the seconds that fit
predicted, which is the median over the rounds, for each has a clock of its own; and of ratios between points, for which the
plans' times are scaled by one factor, the median of measured to predicted, and the fastest round of a point counts, since
other programs only slow a step. By how much the rounds of a point differ says how well such errors can be known.
A point whose plan does not fit is left out.
Exit: 0; 2 where this machine is not calibrated.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

import compare

SETTINGS = {
    "fp32": [],
    "bf16": ["--bf16"],
    "recompute": ["--gradient_checkpointing"],
    "adafactor": ["--optim", "adafactor"],
    "adamw_8bit": ["--optim", "adamw_8bit"],
    "accumulation": ["--gradient_accumulation_steps", "2"],
    "layer_major": ["--gradient_accumulation_steps", "2", "--accumulation_order", "layer_major"],
    "lora": ["--lora_rank", "8"],
    "update_in_backward": ["--update_in_backward", "--max_grad_norm", "0"],
}

MOST_STEPS = 100

# All that fit may choose.
FIXED = "batch,order,recompute,update_in_backward,precision,masters,optimizer,adapters,sharing,gathering,evaluation"


def output_of(words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def steps_for(seconds, least, predicted):
    """How many steps a run makes, of which the first does not count."""
    return min(MOST_STEPS, max(least, 1 + round(seconds / predicted)))


def summary_of(points):
    """Adds what was measured and the errors to each point; returns the median and the 95th percentile of these errors."""
    for point in points:
        measured = [made["measured"] for made in point["rounds"]]
        point["measured"] = min(measured)
        point["anchored_error"] = statistics.median(made["predicted"] / made["measured"] for made in point["rounds"]) - 1
        point["absolute_error"] = abs(point["anchored_error"])
        point["rounds_difference"] = statistics.median(measured) / min(measured) - 1
    scale = statistics.median(point["measured"] / point["predicted"] for point in points)
    for point in points:
        point["ratio_error"] = abs(point["predicted"] / point["measured"] * scale - 1)
    summary = {"points": len(points), "scale": scale}
    for kind in ("absolute_error", "ratio_error", "rounds_difference"):
        errors = [point[kind] for point in points]
        summary[kind] = {"median": statistics.median(errors), "p95": quantile(errors, 0.95)}
    return summary


def print_table(points, summary):
    print(f"{'point':<48}{'planned s':>12}{'fastest s':>12}{'error %':>10}{'of ratios':>11}{'rounds':>9}{'stated':>9}")
    for point in points:
        of_ratio = point["predicted"] / point["measured"] * summary["scale"] - 1
        print(f"{point['point']:<48}{point['predicted']:>12.4f}{point['measured']:>12.4f}{100 * point['anchored_error']:>+10.1f}"
              f"{100 * of_ratio:>+11.1f}{100 * point['rounds_difference']:>9.1f}{100 * point['error']:>9.1f}")
    for kind in ("absolute_error", "ratio_error", "rounds_difference"):
        errors = summary[kind]
        print(f"{kind.replace('_', ' ')}: median {100 * errors['median']:.1f} %, 95th percentile {100 * errors['p95']:.1f} % "
              f"of {summary['points']} points")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(pathlib.Path(__file__).parent.parent / "build/shoehorn"))
    parser.add_argument("--models", nargs="+", default=["bert-mini", "distilbert-base"])
    parser.add_argument("--lengths", nargs="+", type=int, default=[64, 256])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=4, help="least of a run, the first of which does not count")
    parser.add_argument("--seconds", type=float, default=0.5, help="of the steps of a run that count, as they are predicted")
    parser.add_argument("--calibrate", action="store_true", help="first, what `shoehorn calibrate` does")
    parser.add_argument("--json", metavar="FILE", help="write every point; - for standard output in place of the table")
    args = parser.parse_args()
    if args.calibrate:
        subprocess.run([args.program, "calibrate"], check=True, stdout=subprocess.DEVNULL)

    points = []
    for model in args.models:
        for length in args.lengths:
            for batch in args.batches:
                for setting in args.settings:
                    flags = ["--model", model, "--sequence_length", str(length), "--per_device_train_batch_size",
                             str(batch), *SETTINGS[setting]]
                    plan = output_of([args.program, "plan", *flags, "--json"])
                    if plan is None:
                        continue
                    if plan.get("step_seconds_are") != "calibrated":
                        parser.error("this machine is not calibrated: run `shoehorn calibrate` first")
                    points.append({"point": f"{model}, {batch} x {length}, {setting}", "flags": flags,
                                   "predicted": plan["step_seconds"], "error": plan["step_seconds_error"],
                                   "unmeasured_share": plan["unmeasured_share"], "rounds": []})
    for _ in range(args.rounds):
        for point in points:
            fit = output_of([args.program, "fit", *point["flags"], "--fix", FIXED, "--json"])
            steps = steps_for(args.seconds, args.steps, point["predicted"])
            run = output_of([args.program, "bench", "step", *point["flags"], "--json", "--no_limits", "--max_steps", str(steps)])
            if fit is not None and run is not None:
                point["rounds"].append({"predicted": fit["chosen"]["step_seconds"], "measured": run["step_seconds"]})
    points = [point for point in points if point["rounds"]]
    summary = summary_of(points)
    if args.json != "-":
        print_table(points, summary)
    if args.json:
        compare.write_json(args.json, {**summary, "rows": points})


if __name__ == "__main__":
    main()
