#!/usr/bin/env python3
"""Writes metrics.json: what scikit-learn and scipy say of labels and predictions.

  python metrics_make.py [--output metrics.json]

single_label, multi_label  labels, predictions, metrics by our names, and of each class precision, recall, F1 and support;
                           a class may occur nowhere, or be the only one (zero_division 0)
regression                 float32 predictions and labels, with ties, constants and large means; null is NaN
balanced                   labels and scikit-learn's compute_class_weight("balanced") of the classes that occur
"""

import argparse
import json
import math
import warnings

import numpy as np
import scipy.stats
import sklearn.metrics as skm
from sklearn.utils.class_weight import compute_class_weight

AVERAGED = {"precision": skm.precision_score, "recall": skm.recall_score, "f1": skm.f1_score}


def averages(labels, predictions, names):
    return {f"{metric}_{average}": float(score(labels, predictions, average=average, zero_division=0))
            for metric, score in AVERAGED.items() for average in names}


def of_classes(labels, predictions, classes):
    p, r, f, s = skm.precision_recall_fscore_support(labels, predictions, labels=list(range(classes)), zero_division=0)
    return [[float(a), float(b), float(c), int(d)] for a, b, c, d in zip(p, r, f, s)]


def single(name, classes, labels, predictions):
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    kind = {"average": "binary"} if classes == 2 else {"average": "macro"}
    metrics = {metric: float(score(labels, predictions, zero_division=0, **kind)) for metric, score in AVERAGED.items()}
    metrics["accuracy"] = float(skm.accuracy_score(labels, predictions))
    metrics["matthews_correlation"] = float(skm.matthews_corrcoef(labels, predictions))
    metrics.update(averages(labels, predictions, ["macro", "micro", "weighted"]))
    return {"name": name, "num_labels": classes, "labels": labels.tolist(), "predictions": predictions.tolist(),
            "metrics": metrics, "classes": of_classes(labels, predictions, classes),
            "confusion": skm.confusion_matrix(labels, predictions, labels=list(range(classes))).tolist()}


def multi(name, labels, predictions):
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    metrics = averages(labels, predictions, ["macro", "micro", "weighted", "samples"])
    metrics.update({metric: metrics[metric + "_micro"] for metric in AVERAGED})
    metrics["accuracy"] = float(skm.accuracy_score(labels, predictions))
    metrics["hamming_loss"] = float(skm.hamming_loss(labels, predictions))
    return {"name": name, "labels": labels.tolist(), "predictions": predictions.tolist(), "metrics": metrics,
            "classes": of_classes(labels, predictions, labels.shape[1])}


def regression(name, predictions, labels):
    predictions, labels = (np.asarray(x, dtype=np.float32).astype(np.float64) for x in (predictions, labels))

    def number(value):
        return None if math.isnan(value) else float(value)

    return {"name": name, "predictions": predictions.tolist(), "labels": labels.tolist(),
            "metrics": {"mse": float(skm.mean_squared_error(labels, predictions)),
                        "rmse": float(skm.root_mean_squared_error(labels, predictions)),
                        "mae": float(skm.mean_absolute_error(labels, predictions)),
                        "pearson": number(scipy.stats.pearsonr(predictions, labels)[0]),
                        "spearmanr": number(scipy.stats.spearmanr(predictions, labels)[0])}}


def balanced(labels):
    present = np.unique(labels)
    return {"labels": [int(x) for x in labels], "classes": present.tolist(),
            "weights": compute_class_weight("balanced", classes=present, y=np.asarray(labels)).tolist()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="metrics.json")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of constants
    draw = np.random.default_rng(11)
    noisy = draw.integers(0, 7, 200)
    skewed = draw.choice(3, 300, p=[0.9, 0.08, 0.02])
    ties = draw.integers(0, 5, 120)
    values = draw.normal(size=150)
    golden = {
        "single_label": [
            single("two", 2, [1, 0, 1, 1, 0, 0, 1], [1, 1, 1, 0, 0, 0, 1]),
            single("two, never the second", 2, [0, 0, 0], [0, 0, 0]),
            single("two, all wrong", 2, [0, 1, 0, 1], [1, 0, 1, 0]),
            single("two, always the second", 2, [0, 1, 0, 1, 1], [1, 1, 1, 1, 1]),
            single("one class only", 3, [1, 1, 1], [1, 1, 1]),
            single("seven", 7, noisy, np.where(draw.random(200) < 0.6, noisy, draw.integers(0, 7, 200))),
            single("skewed", 3, skewed, np.where(draw.random(300) < 0.7, skewed, 0)),
            single("classes that never occur", 6, [0, 0, 2, 2, 4], [0, 2, 2, 5, 4]),
        ],
        "multi_label": [
            multi("three", [[1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 0]], [[1, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0]]),
            multi("nothing set", [[0, 0], [0, 0]], [[0, 0], [0, 0]]),
            multi("a class that never occurs", [[1, 0], [1, 0], [0, 0]], [[1, 1], [0, 0], [1, 0]]),
            multi("random", draw.random((80, 5)) < 0.3, draw.random((80, 5)) < 0.4),
        ],
        "regression": [
            regression("noisy", values, values + 0.5 * draw.normal(size=150)),
            regression("ties", ties, np.minimum(4, ties + draw.integers(0, 2, 120))),
            regression("reversed", [1, 2, 3, 4], [4, 3, 2, 1]),
            regression("large means", 4096 + values, 4096 + values**3),
            regression("constant predictions", [1, 1, 1, 1], [0, 2, 3, 4]),
            regression("constant labels", [0, 2, 3, 4], [1, 1, 1, 1]),
        ],
        "balanced": [balanced([0, 0, 0, 1]), balanced(skewed), balanced([0, 0, 2, 2, 2])],
    }
    for case in golden["multi_label"]:
        for key in ("labels", "predictions"):
            case[key] = [[int(x) for x in row] for row in case[key]]
    with open(args.output, "w") as file:
        json.dump(golden, file)
        file.write("\n")


if __name__ == "__main__":
    main()
