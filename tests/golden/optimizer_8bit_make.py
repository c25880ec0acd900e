"""Makes optimizer_8bit.json: the codes of bitsandbytes' block-wise dynamic quantisation, and what 50 steps of its 8-bit
AdamW and Lion leave in weights and states. All on the CPU, in bitsandbytes' own library for it.

Weights, gradients and moments come from an integer hash that the C++ test repeats, so the file holds results only:
float32 as the integers of their bits, codes as hexadecimal digits. Needs torch and bitsandbytes; run it in this folder.
"""
import json

import bitsandbytes
import numpy as np
import torch
from bitsandbytes.functional import create_dynamic_map

from optimizer_make import STEPS, hashed, learning_rate

BLOCK = 256
COUNTS = [1, 255, 257, 700]
QUANTIZED = 3000


def bits(values):
    return np.ascontiguousarray(values, np.float32).view(np.uint32).ravel().tolist()


def quantize(values, code):
    codes, scales = torch.ops.bitsandbytes.quantize_blockwise(torch.from_numpy(values), code, BLOCK)
    return codes.numpy(), scales.numpy()


def moments(seed):
    """Numbers of all magnitudes down to 2^-27, a block of zeros, and single zeros."""
    exponents = np.floor(54 * np.abs(hashed(1, seed, QUANTIZED).numpy().astype(np.float64))).astype(int)
    values = np.ldexp(hashed(0, seed, QUANTIZED).numpy(), -exponents)
    values[512:768] = 0
    values[::97] = 0
    return values


def ordered(number):
    """The float32 at a place in the order of all: 0 is 0, 1 the smallest above it, -1 the largest below it."""
    number = np.asarray(number, np.int64)
    return np.where(number >= 0, number, -number | 0x80000000).astype(np.uint32).view(np.float32)


def codes_of(values, code):
    """Codes of numbers in [-1, 1]: each block starts with 1, so that its scale is 1."""
    rows = np.zeros((-(-len(values) // (BLOCK - 1)), BLOCK), np.float32)
    rows[:, 0] = 1
    padded = np.zeros(len(rows) * (BLOCK - 1), np.float32)
    padded[: len(values)] = values
    rows[:, 1:] = padded.reshape(len(rows), -1)
    return quantize(rows.ravel(), code)[0].reshape(rows.shape)[:, 1:].ravel()[: len(values)].astype(int)


def thresholds(code):
    """For codes 1 to 255 the smallest number in [-1, 1] that has it or a greater one, found by bisection."""
    one = int(np.float32(1).view(np.uint32))
    low, high = np.full(255, -one), np.full(255, one)
    wanted = np.arange(1, 256)
    while (low < high).any():
        middle = (low + high) // 2
        reached = codes_of(ordered(middle), code) >= wanted
        low, high = np.where(reached, low, middle + 1), np.where(reached, middle, high)
    assert (codes_of(ordered(low), code) >= wanted).all()
    return ordered(low)


def quantization(signed):
    code = create_dynamic_map(signed=signed)
    values = moments(7 if signed else 8)
    values = values if signed else np.abs(values)
    codes, scales = quantize(values, code)
    return {
        "map": bits(code.numpy()),
        "thresholds": bits(thresholds(code)),
        "codes": codes.tobytes().hex(),
        "scales": bits(scales),
    }


def run(make):
    """min_8bit_size 1 quantises every tensor; the last two are not decayed."""
    weights = [torch.nn.Parameter(hashed(t, -1, n)) for t, n in enumerate(COUNTS)]
    optimizer = make([{"params": weights[:2], "weight_decay": 0.1}, {"params": weights[2:], "weight_decay": 0.0}])
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        for t, weight in enumerate(weights):
            weight.grad = hashed(t, step, COUNTS[t]) * 2.0 ** (-10 * t)
        optimizer.step()
    states = [optimizer.state[weight] for weight in weights]
    names = [name for name in ("1", "2") if "state" + name in states[0]]
    return {
        "weights": [bits(weight.detach().numpy()) for weight in weights],
        "codes": [[state["state" + name].numpy().tobytes().hex() for name in names] for state in states],
        "scales": [[bits(state["absmax" + name].numpy()) for name in names] for state in states],
    }


if __name__ == "__main__":
    eight = {"optim_bits": 8, "min_8bit_size": 1}
    golden = {
        "bitsandbytes": bitsandbytes.__version__,
        "signed": quantization(True),
        "unsigned": quantization(False),
        "adamw_8bit": run(lambda groups: bitsandbytes.optim.AdamW(groups, betas=(0.9, 0.999), eps=1e-8, **eight)),
        "lion_8bit": run(lambda groups: bitsandbytes.optim.Lion(groups, betas=(0.9, 0.99), **eight)),
    }
    with open("optimizer_8bit.json", "w") as file:
        json.dump(golden, file, separators=(",", ":"))
        file.write("\n")
