"""Writes reduce_lr_on_plateau.json: what torch's ReduceLROnPlateau, as transformers makes it, does with some metrics,
to be compared with optim/reduce_lr_on_plateau.

Run: python reduce_lr_on_plateau_make.py [OUTPUT]   (transformers 5.23, torch)

A case has the metric of each evaluation, and behind it [learning rate, best, bad evaluations, cooldown left]. NaN and
infinities are strings.
"""

import json
import math
import pathlib
import sys

import torch
from transformers import get_scheduler

LEARNING_RATE = 5e-4
NAN = float("nan")

METRICS = {
    "falling": [1 / (1 + 0.3 * i) for i in range(20)],
    "plateau": [1.0, 0.8, 0.7] + [0.7 - 1e-6 * i for i in range(17)],
    "rising": [0.3 + 0.02 * i for i in range(20)],
    "waves": [0.6 + 0.2 * (-1) ** i / (1 + i // 4) - 0.01 * i for i in range(24)],
    "equal": [0.5] * 12,
    "negative": [-0.5 - 0.02 * i + 0.05 * (i % 3) for i in range(20)],
    "zero": [0.0, 0.0, -1e-9, 1e-9, 0.0, -1.0, -1.0, -1.0],
    "not_finite": [NAN, NAN, 0.5, NAN, float("inf"), 0.4, float("-inf"), 0.3, NAN, float("inf"), 0.1],
}
KWARGS = [
    {},
    {"patience": 0},
    {"patience": 1, "factor": 0.5},
    {"patience": 0, "factor": 0.0},
    {"patience": 2, "cooldown": 3, "factor": 0.3},
    {"mode": "max", "patience": 1},
    {"mode": "max", "patience": 0, "threshold": 0.1, "cooldown": 1},
    {"mode": "min", "patience": 0, "threshold": 0.05, "threshold_mode": "abs"},
    {"mode": "max", "patience": 1, "threshold": 0.03, "threshold_mode": "abs", "factor": 0.7},
    {"patience": 0, "threshold": 1.5},
    {"patience": 0, "min_lr": 6e-5, "factor": 0.4},
    {"patience": 0, "min_lr": 1e-3},
    {"patience": 0, "factor": 0.9, "eps": 4e-5},
]


def plain(number):
    return number if math.isfinite(number) else str(number)


def run(kwargs, metrics):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LEARNING_RATE)
    # Warm-up steps are not read.
    scheduler = get_scheduler("reduce_lr_on_plateau", optimizer, 7, 100, scheduler_specific_kwargs=dict(kwargs))
    states = []
    for metric in metrics:
        scheduler.step(metric)
        rate = optimizer.param_groups[0]["lr"]
        states.append([rate, plain(scheduler.best), scheduler.num_bad_epochs, scheduler.cooldown_counter])
    return states


def main():
    cases = [
        {"kwargs": kwargs, "metrics": name, "states": run(kwargs, metrics)}
        for kwargs in KWARGS
        for name, metrics in METRICS.items()
    ]
    here = pathlib.Path(__file__)
    path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else here.with_name("reduce_lr_on_plateau.json"))
    metrics = {name: [plain(metric) for metric in values] for name, values in METRICS.items()}
    head = json.dumps({"learning_rate": LEARNING_RATE, "metrics": metrics})[1:-1]
    lines = ",\n".join(json.dumps(case) for case in cases)
    path.write_text("{" + head + ', "cases": [\n' + lines + "\n]}\n")


main()
