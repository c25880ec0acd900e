"""Writes early_stopping.json: what transformers' EarlyStoppingCallback decides about some metrics, to be compared with
train/early_stopping.

Run: python early_stopping_make.py [OUTPUT]   (transformers 5.23)

A case has the arguments, the metric of each evaluation, and behind it [counter, whether training stops]. As in the
Trainer, the best metric moves behind the callback. NaN and infinities are strings.
"""

import json
import math
import pathlib
import sys
import types

from transformers import EarlyStoppingCallback, Trainer
from transformers.trainer_callback import TrainerControl, TrainerState

NAN = float("nan")

METRICS = {
    "falling": [1 / (1 + 0.3 * i) for i in range(8)],
    "rising": [0.3 + 0.02 * i for i in range(8)],
    "plateau": [0.5, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7, 0.71, 0.7],
    "waves": [0.6 + 0.2 * (-1) ** i / (1 + i // 4) - 0.01 * i for i in range(12)],
    "creeping": [0.5 + 0.004 * i for i in range(10)],
    "stairs": [0.5, 0.51, 0.51, 0.52, 0.6, 0.6, 0.601, 0.7, 0.65, 0.66, 0.7],
    "negative": [-0.5 - 0.02 * i + 0.05 * (i % 3) for i in range(10)],
    "zero": [0.0, 0.0, -1e-9, 1e-9, 0.0, -1.0, -1.0],
    "not_finite": [0.5, NAN, 0.4, NAN, NAN, float("inf"), 0.3, float("-inf"), 0.2, 0.1],
    "nan_first": [NAN, 0.5, 0.4, 0.6],
    "nan_only": [NAN, NAN, NAN, NAN],
    "infinite_first": [float("inf"), 0.5, float("-inf"), 0.4],
}
SETTINGS = [(1, 0.0), (2, 0.0), (3, 0.0), (1, 0.01), (2, 0.05), (3, 0.005), (4, 1.0)]


def plain(number):
    return number if math.isfinite(number) else str(number)


def decisions(metrics, patience, threshold, greater):
    callback = EarlyStoppingCallback(patience, threshold)
    arguments = types.SimpleNamespace(
        metric_for_best_model="quality",
        greater_is_better=greater,
        load_best_model_at_end=True,
        eval_strategy="steps",
        save_strategy="steps",
    )
    trainer = types.SimpleNamespace(args=arguments, state=TrainerState())
    control = TrainerControl()
    callback.on_train_begin(arguments, trainer.state, control)
    decided = []
    for step, value in enumerate(metrics, 1):
        trainer.state.global_step = step
        callback.on_evaluate(arguments, trainer.state, control, metrics={"eval_quality": value})
        Trainer._determine_best_metric(trainer, {"eval_quality": value}, None)
        decided.append([callback.early_stopping_patience_counter, control.should_training_stop])
    return decided


def main():
    cases = []
    for name, metrics in METRICS.items():
        for patience, threshold in SETTINGS:
            for greater in (False, True):
                cases.append(
                    {
                        "name": name,
                        "patience": patience,
                        "threshold": threshold,
                        "greater_is_better": greater,
                        "metrics": [plain(value) for value in metrics],
                        "decisions": decisions(metrics, patience, threshold, greater),
                    }
                )
    output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("early_stopping.json"))
    lines = ",\n".join(json.dumps(case) for case in cases)
    output.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
