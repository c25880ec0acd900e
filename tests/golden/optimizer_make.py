"""Makes optimizer.json: what torch.optim leaves in weights after 50 steps of AdamW and SGD.

Weights and gradients come from an integer hash that the C++ test repeats, so the file holds results only, as the bits
of float32. Needs torch; run it in this folder.
"""
import json

import numpy as np
import torch

SIZES = [1, 17, 131]
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


def run(make):
    weights = [torch.nn.Parameter(hashed(t, -1, n)) for t, n in enumerate(SIZES)]
    # The last tensor is not decayed.
    optimizer = make([{"params": weights[:2], "weight_decay": 0.1}, {"params": weights[2:], "weight_decay": 0.0}])
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        for t, weight in enumerate(weights):
            # Three magnitudes, the smallest near the square of epsilon.
            weight.grad = hashed(t, step, SIZES[t]) * 2.0 ** (-10 * t)
        optimizer.step()
    return [w.detach().numpy().view(np.uint32).tolist() for w in weights]


cases = {
    "adamw": lambda groups: torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=1e-8, fused=True),
    "adamw_betas": lambda groups: torch.optim.AdamW(groups, betas=(0.8, 0.95), eps=1e-6, fused=True),
    "sgd": lambda groups: torch.optim.SGD(groups, lr=1.0),
    "sgd_momentum": lambda groups: torch.optim.SGD(groups, lr=1.0, momentum=0.9),
    "sgd_nesterov": lambda groups: torch.optim.SGD(groups, lr=1.0, momentum=0.9, nesterov=True),
}
with open("optimizer.json", "w") as file:
    json.dump({"torch": torch.__version__.split("+")[0], **{name: run(make) for name, make in cases.items()}}, file)
    file.write("\n")
