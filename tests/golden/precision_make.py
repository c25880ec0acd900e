#!/usr/bin/env python3
"""Writes precision.json: what PyTorch says of float types, rounds, and does with a loss scale.

  python precision_make.py [--output precision.json]

finfo        torch.finfo of each type
conversions  float32 numbers (as bits) and the bits of the float16 and bfloat16 that PyTorch makes of each
scalers      torch.amp.GradScaler: settings, whether each step's gradient overflowed, then the scale and the
             growth tracker after each step
"""

import argparse
import json
import random

import torch

TYPES = ["float64", "float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3fn"]
SHARES = [1 / 3, 0.1, 1e6, 65504.0, 65519.0, 65520.0, 6.1e-5, 5.97e-8, 2.98e-8, 2.99e-8, -1 / 3, 3.3e38]


def finfo(name):
    info = torch.finfo(getattr(torch, name))
    return {
        "bits": info.bits,
        "max": info.max,
        "min_normal": info.smallest_normal,
        "epsilon": info.eps,
        "resolution": info.resolution,
        "rounded": [str(torch.tensor(x, dtype=torch.float64).to(getattr(torch, name)).double().item()) for x in SHARES],
    }


def conversions():
    generator = torch.Generator().manual_seed(7)
    bits = torch.randint(-(2**31), 2**31 - 1, (300,), generator=generator, dtype=torch.int64).to(torch.int32)
    # Exponents around float16's range, where it rounds, overflows and has subnormals.
    near = torch.randn(300, generator=generator) * torch.exp2(torch.randint(-27, 18, (300,), generator=generator).float())
    values = torch.cat([bits.view(torch.float32), near, torch.tensor(SHARES, dtype=torch.float32)])
    values = values[~values.isnan()]
    as_bits = lambda x, kind: (x.view(kind).to(torch.int64) & (0xFFFFFFFF if kind == torch.int32 else 0xFFFF)).tolist()
    return {
        "float32": as_bits(values, torch.int32),
        "float16": as_bits(values.to(torch.float16), torch.int16),
        "bfloat16": as_bits(values.to(torch.bfloat16), torch.int16),
    }


def scaler(initial, interval, overflow_share, steps, seed):
    draw = random.Random(seed)
    scaler = torch.amp.GradScaler("cpu", init_scale=initial, growth_interval=interval)
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.0)
    overflows, scales, trackers = [], [], []
    for _ in range(steps):
        overflow = draw.random() < overflow_share
        scaler.scale(weight.sum()).backward()
        if overflow:
            weight.grad.fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        overflows.append(int(overflow))
        scales.append(scaler.get_scale())
        trackers.append(scaler.state_dict()["_growth_tracker"])
    return {
        "initial": initial,
        "growth_interval": interval,
        "overflows": overflows,
        "scales": scales,
        "trackers": trackers,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="precision.json")
    arguments = parser.parse_args()
    result = {
        "torch": torch.__version__.split("+")[0],
        "shares": SHARES,
        "finfo": {name: finfo(name) for name in TYPES},
        "conversions": conversions(),
        "scalers": [
            scaler(65536.0, 2000, 0.0, 4, 1),
            scaler(65536.0, 3, 0.3, 60, 2),
            scaler(2.0**120, 2, 0.0, 20, 3),
            scaler(1024.0, 5, 0.1, 80, 4),
        ],
    }
    with open(arguments.output, "w") as file:
        json.dump(result, file)
        file.write("\n")


if __name__ == "__main__":
    main()
