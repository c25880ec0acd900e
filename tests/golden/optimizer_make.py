"""Makes optimizer.json: what 50 steps of torch.optim, Lion, transformers' Adafactor, LOMO and AdaLOMO leave in weights.

Weights and gradients come from an integer hash that the C++ test repeats, so the file holds results only, as the bits
of float32. Needs torch, transformers and lomo_optim; run it in this folder.
"""
import json

import numpy as np
import torch
from lomo_optim import AdaLomo, Lomo
from transformers.optimization import Adafactor

SHAPES = [(1,), (17,), (131,)]
MATRICES = [(70, 19), (17,), (3, 131)]
MORE_DIMENSIONS = [(2, 70, 19), (17,), (2, 3, 4, 31)]
STEPS = 50


def hashed(tensor, step, count):
    """Numbers in [-0.5, 0.5) with 24 bits: exact in float32."""
    i = np.arange(count, dtype=np.uint64)
    mixed = (i + 1) * np.uint64(2654435761) + np.uint64((step + 1) * 40503 * 65537 + (tensor + 1) * 97 * 8191)
    mixed = (mixed ^ (mixed >> np.uint64(15))) * np.uint64(2246822519) & np.uint64(0xFFFFFFFF)
    mixed = mixed ^ (mixed >> np.uint64(13))
    return torch.from_numpy(((mixed >> np.uint64(8)).astype(np.float64) / 2**24 - 0.5).astype(np.float32))


def learning_rate(step):
    return float(np.float32(0.01) * np.float32((STEPS - step) / STEPS))


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of "Symbolic discovery of optimization algorithms" (2023)."""

    def __init__(self, groups, betas):
        super().__init__(groups, {"lr": 0.0, "betas": betas, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                moment = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                direction = (beta1 * moment + (1 - beta1) * p.grad).sign()
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * direction)
                moment.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class UpdateInBackward:
    """LOMO and AdaLOMO update when a gradient arrives; here it is there already. They have one decay for a model."""

    def __init__(self, make, groups):
        self.param_groups = groups
        torch.Tensor.cuda = lambda tensor: tensor
        models = [torch.nn.ParameterList(group["params"]) for group in groups]
        self.parts = [make(model, group["weight_decay"]) for model, group in zip(models, groups)]

    def step(self):
        for part, group in zip(self.parts, self.param_groups):
            part.lr, part.step_num = group["lr"], getattr(part, "step_num", 0) + 1
            part.grad_func(0)


def run(make, shapes, sets_learning_rate=True):
    counts = [int(np.prod(shape)) for shape in shapes]
    weights = [torch.nn.Parameter(hashed(t, -1, n).reshape(shape)) for t, (n, shape) in enumerate(zip(counts, shapes))]
    # The last tensor is not decayed.
    optimizer = make([{"params": weights[:2], "weight_decay": 0.1}, {"params": weights[2:], "weight_decay": 0.0}])
    for step in range(STEPS):
        for group in optimizer.param_groups if sets_learning_rate else []:
            group["lr"] = learning_rate(step)
        for t, weight in enumerate(weights):
            # Three magnitudes, the smallest near the square of epsilon.
            weight.grad = (hashed(t, step, counts[t]) * 2.0 ** (-10 * t)).reshape(shapes[t])
        optimizer.step()
    return [w.detach().numpy().view(np.uint32).ravel().tolist() for w in weights]


CASES = {
    "adamw": lambda groups: torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=1e-8, fused=True),
    "adamw_betas": lambda groups: torch.optim.AdamW(groups, betas=(0.8, 0.95), eps=1e-6, fused=True),
    "sgd": lambda groups: torch.optim.SGD(groups, lr=1.0),
    "sgd_momentum": lambda groups: torch.optim.SGD(groups, lr=1.0, momentum=0.9),
    "sgd_nesterov": lambda groups: torch.optim.SGD(groups, lr=1.0, momentum=0.9, nesterov=True),
    "adagrad": lambda groups: torch.optim.Adagrad(groups, lr=1.0),
    "adagrad_decay": lambda groups: torch.optim.Adagrad(groups, lr=1.0, lr_decay=0.1, eps=1e-6),
    "rmsprop": lambda groups: torch.optim.RMSprop(groups, lr=1.0),
    "rmsprop_momentum": lambda groups: torch.optim.RMSprop(groups, lr=1.0, alpha=0.9, eps=1e-6, momentum=0.9),
    "rmsprop_centered": lambda groups: torch.optim.RMSprop(groups, lr=1.0, alpha=0.9, eps=1e-6, momentum=0.5, centered=True),
    "lion": lambda groups: Lion(groups, betas=(0.9, 0.99)),
}
LOMOS = {
    "lomo": lambda model, decay: Lomo(model, weight_decay=decay),
    "adalomo": lambda model, decay: AdaLomo(model, weight_decay=decay, loss_scale=None),
}
TRAINERS = {"scale_parameter": False, "relative_step": False, "lr": 1.0}
ADAFACTORS = {
    "adafactor": TRAINERS,
    "adafactor_moment": {**TRAINERS, "beta1": 0.9, "clip_threshold": 0.5, "decay_rate": -0.7},
    "adafactor_scaled": {**TRAINERS, "scale_parameter": True, "eps": (1e-12, 1e-3)},
    "adafactor_relative": {"scale_parameter": True, "relative_step": True},
    "adafactor_warmup": {"scale_parameter": False, "relative_step": True, "warmup_init": True},
}

if __name__ == "__main__":
    results = {name: run(make, SHAPES) for name, make in CASES.items()}
    for name, options in ADAFACTORS.items():
        results[name] = run(lambda groups: Adafactor(groups, **options), MATRICES, not options["relative_step"])
    for name, make in LOMOS.items():
        results[name] = run(lambda groups: UpdateInBackward(make, groups), MATRICES)
    options = {**TRAINERS, "scale_parameter": True, "beta1": 0.9, "clip_threshold": 0.5}
    results["adafactor_dimensions"] = run(lambda groups: Adafactor(groups, **options), MORE_DIMENSIONS)
    with open("optimizer.json", "w") as file:
        json.dump({"torch": torch.__version__.split("+")[0], **results}, file)
        file.write("\n")
