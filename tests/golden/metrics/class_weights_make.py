#!/usr/bin/env python3
"""Writes class_weights.json: torch's losses with weights of classes, in float64, and their gradients.

  python class_weights_make.py [--output class_weights.json]

cross_entropy         torch.nn.CrossEntropyLoss(weight=, label_smoothing=): logits, labels (-100: none), loss and dlogits
binary_cross_entropy  torch.nn.BCEWithLogitsLoss(pos_weight=): logits, labels in [0, 1], loss and dlogits
"""

import argparse
import json

import torch


def case(criterion, logits, labels, extra):
    logits = logits.clone().requires_grad_()
    loss = criterion(logits, labels)
    loss.backward()
    return {**extra, "logits": logits.tolist(), "labels": labels.tolist(), "loss": loss.item(),
            "dlogits": logits.grad.tolist()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default="class_weights.json")
    args = parser.parse_args()
    generator = torch.Generator().manual_seed(3)
    golden = {"cross_entropy": [], "binary_cross_entropy": []}
    for classes, rows in ((2, 9), (5, 12), (19, 7)):
        # Numbers that float32 holds exactly.
        logits = (3 * torch.randn(rows, classes, generator=generator)).double()
        weights = (torch.rand(classes, generator=generator) * 4).double()
        weights[0] = 0.0 if classes == 5 else weights[0]
        labels = torch.randint(0, classes, (rows,), generator=generator)
        labels[1] = -100
        labels[2] = classes - 1
        for smoothing in (0.0, 0.125):
            criterion = torch.nn.CrossEntropyLoss(weight=weights, label_smoothing=smoothing)
            golden["cross_entropy"].append(
                case(criterion, logits, labels, {"weights": weights.tolist(), "label_smoothing": smoothing}))
        set_classes = (torch.rand(rows, classes, generator=generator) < 0.4).double()
        set_classes[0, 0] = 0.25
        golden["binary_cross_entropy"].append(
            case(torch.nn.BCEWithLogitsLoss(pos_weight=weights), logits, set_classes, {"weights": weights.tolist()}))
    with open(args.output, "w") as file:
        json.dump(golden, file)
        file.write("\n")


if __name__ == "__main__":
    main()
