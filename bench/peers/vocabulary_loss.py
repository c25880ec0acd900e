#!/usr/bin/env python3
"""A vocabulary's loss and its gradients in PyTorch: median time of a call, and bytes beyond inputs and gradients.

  python vocabulary_loss.py --way chunked --tokens 2048 --hidden 896 --vocabulary 151936 [--dtype bf16] [--frozen]

--way: linear (cross_entropy of linear), reference (linear_cross_entropy as it is called), chunked (the same with
LinearCrossEntropyOptions(), which never holds all logits). --frozen: no gradient of the weight. Prints JSON.
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.nn.functional as F

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def memory(key):
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(f"{key}:"))


def loss_of(way, x, weight, labels):
    if way == "linear":
        return F.cross_entropy(F.linear(x, weight), labels)
    options = torch.nn.LinearCrossEntropyOptions() if way == "chunked" else None
    return F.linear_cross_entropy(x, weight, labels, options=options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=("linear", "reference", "chunked"), required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--hidden", type=int, required=True)
    parser.add_argument("--vocabulary", type=int, required=True)
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="fp32")
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--calls", type=int, default=1, help="one more is made before them")
    args = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    dtype = DTYPES[args.dtype]
    x = torch.full((args.tokens, args.hidden), 0.01, dtype=dtype, requires_grad=True)
    weight = torch.full((args.vocabulary, args.hidden), 0.01, dtype=dtype, requires_grad=not args.frozen)
    labels = torch.arange(args.tokens) * 7919 % args.vocabulary
    wanted = [x] if args.frozen else [x, weight]
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the peak begins anew
    before = memory("VmRSS")
    seconds = []
    for _ in range(args.calls + 1):
        begin = time.perf_counter()
        gradients = torch.autograd.grad(loss_of(args.way, x, weight, labels), wanted)
        seconds.append(time.perf_counter() - begin)
        gradient_bytes = sum(gradient.nbytes for gradient in gradients)
        del gradients
    result = {"seconds": statistics.median(seconds[1:]), "workspace_bytes": memory("VmHWM") - before - gradient_bytes}
    print(json.dumps({**result, "versions": {"torch": torch.__version__}}))


if __name__ == "__main__":
    main()
