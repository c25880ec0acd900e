#!/usr/bin/env python3
"""The vocabulary's loss with its gradients, beside the time of its products and beside PyTorch, measured in turns.

  bench/vocabulary_loss.py [--shape qwen2-0.5b] [--dtype fp32] [--frozen] [--rounds 3] [--json FILE]

Ours is the kernel in a process of its own (vocabulary_loss_bench.cc), and so are its products alone. PyTorch's ways are those
of peers/vocabulary_loss.py: cross_entropy of linear, linear_cross_entropy, and linear_cross_entropy in chunks. Bytes are those
beyond inputs and gradients. --frozen: the table is not trained, and has no gradient. The JSON has every time. Exit: 0
measured; 1 slower than --products_goal times the products, or than PyTorch's fastest way; 2 nothing measured.
"""

import argparse
import json
import os
import statistics

import compare

# Tokens, hidden size, vocabulary: those of vocabulary_loss_bench.cc.
SHAPES = {"small": (256, 64, 8192), "llama-135m": (512, 576, 49152), "qwen2-0.5b": (2048, 896, 151936)}
WAYS = ("linear", "reference", "chunked")


def run_ours(args, environment, what):
    """Seconds and workspace of the kernel (`loss`) or of the products alone."""
    weight = "frozen" if args.frozen else "trained"
    case = f"vocabulary_{what}/{args.dtype}_{weight}/{'/'.join(map(str, SHAPES[args.shape]))}/"
    command = [args.bench, f"--benchmark_filter=^{case}", "--benchmark_format=json"]
    found = json.loads(compare.run_process(command, environment, args.timeout_seconds)[0])["benchmarks"]
    if len(found) != 1:
        raise compare.CompareError(f"[{args.bench}] expected one case {case}, got {len(found)}")
    run = {"seconds": found[0]["real_time"] / 1000}
    if what == "loss":
        run["workspace_bytes"] = round(found[0]["MiB"] * 2**20)
    return run


def run_theirs(args, environment, way):
    tokens, hidden, vocabulary = SHAPES[args.shape]
    command = [
        args.python, str(compare.HERE / "peers" / "vocabulary_loss.py"), "--way", way, "--tokens", str(tokens),
        "--hidden", str(hidden), "--vocabulary", str(vocabulary), "--dtype", args.dtype, *(["--frozen"] if args.frozen else []),
    ]  # fmt: skip
    return json.loads(compare.run_process(command, environment, args.timeout_seconds)[0])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="qwen2-0.5b")
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--frozen", action="store_true", help="no gradient of the table")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="of PyTorch")
    parser.add_argument("--products_goal", type=float, help="most time, of the products'; default 1.25, of a frozen table 1.15")
    parser.add_argument("--bench", default=str(compare.HERE.parent / "build/src/exec/cpu/exec_cpu_bench"), help="our program")
    parser.add_argument("--python", default=compare.peers_python(), help="made by bench/peers/setup.sh")
    parser.add_argument("--timeout_seconds", type=float, default=1800, help="for one process")
    parser.add_argument("--json", metavar="FILE", help="write every run; - for standard output in place of the table")
    return parser.parse_args()


def main():
    args = parse_arguments()
    environment = dict(os.environ)
    sides = {"ours": lambda: run_ours(args, environment, "loss"), "products": lambda: run_ours(args, environment, "products")}
    for way in args.ways:
        sides[way] = lambda way=way: run_theirs(args, environment, way)
    runs = compare.run_in_turns(sides, args.rounds)
    seconds = {side: statistics.median(run["seconds"] for run in made) for side, made in runs.items()}
    goal = args.products_goal or (1.15 if args.frozen else 1.25)
    of_products = seconds["ours"] / seconds["products"]
    fastest = min(seconds[way] for way in args.ways)
    met = of_products <= goal and seconds["ours"] < fastest
    if args.json != "-":
        for side, made in runs.items():
            bytes_used = [run["workspace_bytes"] for run in made if "workspace_bytes" in run]
            of_bytes = f"{statistics.median(bytes_used) / 2**20:10.1f} MiB" if bytes_used else ""
            print(f"{side:10}{seconds[side]:10.3f} s{of_bytes}")
        print(f"{'MET ' if met else 'MISS'}  x{of_products:.2f} of the products, goal <= {goal}; PyTorch x{fastest / seconds['ours']:.2f}")
    if args.json:
        tokens, hidden, vocabulary = SHAPES[args.shape]
        shape = {"tokens": tokens, "hidden": hidden, "vocabulary": vocabulary, "dtype": args.dtype, "frozen": args.frozen}
        compare.write_json(args.json, {"date": compare.utc_now(), **shape, "runs": runs})
    return 0 if met else 1


if __name__ == "__main__":
    compare.run_main(main)
