"""Writes schedules.json: multipliers of transformers' learning-rate schedules, to be compared with optim/schedule.

Run: python schedule_make.py [OUTPUT]   (transformers 5.23, torch)
"""

import json
import pathlib
import sys

import torch
from transformers import get_scheduler

LEARNING_RATE = 5e-5
TOTAL = 50

KWARGS = {
    "linear": [{}],
    "cosine": [{}, {"num_cycles": 1.25}],
    "cosine_with_restarts": [{}, {"num_cycles": 3}],
    "polynomial": [{}, {"power": 2.0, "lr_end": 1e-6}, {"power": 0.5}],
    "constant": [{}],
    "constant_with_warmup": [{}],
    "inverse_sqrt": [{}, {"timescale": 30}],
    "cosine_with_min_lr": [{"min_lr": 5e-6}, {"min_lr_rate": 0.25, "num_cycles": 0.75}],
    "cosine_warmup_with_min_lr": [{"min_lr_rate": 0.1}, {"min_lr": 1e-6, "warmup_lr_rate": 0.2}],
    "warmup_stable_decay": [
        {"num_decay_steps": 20},
        {"num_decay_steps": 10, "num_stable_steps": 15, "min_lr_ratio": 0.1, "decay_type": "linear"},
        {"num_decay_steps": 20, "warmup_type": "cosine", "decay_type": "1-sqrt", "num_cycles": 1.0},
        {"num_decay_steps": 20, "warmup_type": "1-sqrt", "min_lr_ratio": 0.05},
    ],
}


def main():
    cases = []
    for name, variants in KWARGS.items():
        for kwargs in variants:
            for warmup in (0, 1, 7, 25, 50, 60):
                optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LEARNING_RATE)
                scheduler = get_scheduler(name, optimizer, warmup, TOTAL, scheduler_specific_kwargs=dict(kwargs))
                multiplier = scheduler.lr_lambdas[0]
                values = []
                for step in range(TOTAL + 6):
                    try:
                        values.append(float(multiplier(step)))
                    except ZeroDivisionError:
                        values.append(None)
                cases.append({"type": name, "kwargs": kwargs, "warmup_steps": warmup, "values": values})
    golden = {"learning_rate": LEARNING_RATE, "total_steps": TOTAL, "cases": cases}
    path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("schedules.json"))
    lines = ",\n".join(json.dumps(case) for case in cases)
    head = json.dumps({k: v for k, v in golden.items() if k != "cases"})[1:-1]
    path.write_text("{" + head + ', "cases": [\n' + lines + "\n]}\n")


main()
