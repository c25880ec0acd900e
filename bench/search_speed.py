#!/usr/bin/env python3
"""How long `plan` and `fit` take, and how much memory, on models that are hard to plan: many layers, every choice open.

  bench/search_speed.py [--program build/shoehorn] [--repeats 3] [--json FILE]

Each run is a process of its own with its children, in rounds over the cases: seconds from its start to its end, and the peak
of the largest of these processes. Exit: 0.
"""

import argparse
import json
import os
import pathlib
import sys

import compare

TIMEOUT_SECONDS = 600
LLAMA_70B = (
    "hidden_size=8192,intermediate_size=28672,num_hidden_layers=80,num_attention_heads=64,num_key_value_heads=8,"
    "vocab_size=128256,max_position_embeddings=8192"
)
LLAMA = ["--model_type", "llama", "--config_overrides", LLAMA_70B, "--task", "causal-lm", "--block_size", "2048"]
ALL = ["--allow", "numerics,adapters"]
CASES = {
    "fit of BERT-large in 3 GiB, every choice open": ["fit", "--model_name_or_path", "bert-large", "--memory_budget", "3GiB", *ALL],
    "fit of BERT-large in 6 GiB, every choice open": ["fit", "--model_name_or_path", "bert-large", "--memory_budget", "6GiB", *ALL],
    "fit of Llama 70B in 400 GiB, every choice open": ["fit", *LLAMA, "--memory_budget", "400GiB", *ALL],
    "plan of Llama 70B": ["plan", *LLAMA, "--memory_budget", "2000GiB"],
    "plan of Llama 70B, a rank of 1,024 with ZeRO 3": [
        "plan", *LLAMA, "--memory_budget", "2000GiB", "--world_size", "1024", "--zero_stage", "3",
    ],
}  # fmt: skip


def run(words):
    """Seconds, and the peak in bytes of the largest of the process and its children."""
    try:
        _, peak_bytes, seconds = compare.run_process(words, dict(os.environ), TIMEOUT_SECONDS)
    except compare.CompareError as error:
        sys.exit(str(error))
    return {"seconds": round(seconds, 3), "peak_bytes": peak_bytes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(pathlib.Path(__file__).parent.parent / "build/shoehorn"))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", dest="json_file", help="a file, or - for standard output")
    args = parser.parse_args()
    runs = {name: [] for name in CASES}
    for _ in range(args.repeats):
        for name, words in CASES.items():
            runs[name].append(run([args.program, *words]))
            last = runs[name][-1]
            print(f"{name:<50}{last['seconds']:>8.2f} s{last['peak_bytes'] / 2**20:>8.0f} MiB", file=sys.stderr, flush=True)
    text = json.dumps({"cases": [{"name": name, "runs": of_case} for name, of_case in runs.items()]}, indent=1)
    if args.json_file == "-":
        print(text)
    elif args.json_file:
        pathlib.Path(args.json_file).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
