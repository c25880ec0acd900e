#!/usr/bin/env python3
"""Shoehorn against llm.c's CPU program (train_gpt2) on the step of GPT-2 124M, measured in turns on this machine.

  bench/llm_c.py [--batch 4] [--sequence_length 64] [--rounds 3] [--steps 4] [--llm_c DIR] [--json FILE]

DIR is a checkout of llm.c; without it, its pinned commit is cloned into ~/.cache/shoehorn/llm.c once. It is built with its
own Makefile; the length of a sequence, which is a number in its source, is set in a copy. Weights are random in a file of
its format, tokens are random. Neither side has dropout, clipping or weight decay; both are fp32 with AdamW. The first step
of a process is not counted. The JSON has every step's time. Exit: 0 measured; 1 below --speed_goal; 2 nothing measured.
"""

import argparse
import array
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile

import compare

REPOSITORY = "https://github.com/karpathy/llm.c"
COMMIT = "f1e2ace651495b74ae22d45d1723443fd00ecd3a"
LAYERS, HEADS, WIDTH, POSITIONS, VOCABULARY, PADDED_VOCABULARY = 12, 12, 768, 1024, 50257, 50304
PARAMETERS = 124_475_904  # with the padded rows
INTS_OF_HEADER = 256
WEIGHTS_MAGIC, WEIGHTS_VERSION = 20240326, 3
TOKENS_MAGIC, TOKENS_VERSION = 20240520, 1


def run_checked(command, **options):
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if result.returncode != 0:
        raise compare.CompareError(f"[{' '.join(map(str, command))}] expected exit 0, got {result.returncode}:\n{result.stderr[-2000:]}")
    return result.stdout


def cached_checkout():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "shoehorn/llm.c"


def checkout(directory):
    """The sources: those of the directory, or of the pinned commit in the cache."""
    if directory is not None:
        if not (directory / "train_gpt2.c").exists():
            raise compare.CompareError(f"[--llm_c] expected a checkout of llm.c, got no train_gpt2.c in {directory}")
        return directory
    cache = cached_checkout()
    if not (cache / "train_gpt2.c").exists():
        run_checked(["git", "clone", "--quiet", REPOSITORY, str(cache)])
        run_checked(["git", "-C", str(cache), "checkout", "--quiet", COMMIT])
    return cache


def build(sources, sequence_length, batch, scratch):
    """Builds the program for one shape of the batch; returns its path."""
    copy = scratch / "llm.c"
    run_checked(["cp", "-r", str(sources), str(copy)])
    file = copy / "train_gpt2.c"
    text = file.read_text()
    for name, old, new in (("T", 64, sequence_length), ("B", 4, batch)):
        if text.count(f"int {name} = {old};") != 1:
            raise compare.CompareError(f"[{file.name}] expected one 'int {name} = {old};', which sets the batch; use commit {COMMIT}")
        text = text.replace(f"int {name} = {old};", f"int {name} = {new};")
    file.write_text(text)
    run_checked(["make", "-C", str(copy), "train_gpt2", "CC=gcc"])
    return copy / "train_gpt2"


def write_files(scratch, batch_tokens, seed):
    """A checkpoint with random weights, and tokens for the steps, in llm.c's formats."""
    header = array.array("i", [0] * INTS_OF_HEADER)
    header[:8] = array.array(
        "i", [WEIGHTS_MAGIC, WEIGHTS_VERSION, POSITIONS, VOCABULARY, LAYERS, HEADS, WIDTH, PADDED_VOCABULARY]
    )
    drawn = random.Random(seed)
    block = array.array("f", (drawn.gauss(0, 0.02) for _ in range(1 << 16)))
    with open(scratch / "gpt2_124M.bin", "wb") as file:
        header.tofile(file)
        for begin in range(0, PARAMETERS, len(block)):
            block[: PARAMETERS - begin].tofile(file)
    folder = scratch / "dev/data/tinyshakespeare"
    folder.mkdir(parents=True)
    tokens = array.array("H", (drawn.randrange(VOCABULARY) for _ in range(64 * batch_tokens + 1)))
    header = array.array("i", [0] * INTS_OF_HEADER)
    header[:3] = array.array("i", [TOKENS_MAGIC, TOKENS_VERSION, len(tokens)])
    for name in ("train", "val"):
        with open(folder / f"tiny_shakespeare_{name}.bin", "wb") as file:
            header.tofile(file)
            tokens.tofile(file)


def run_theirs(program, scratch, steps, environment):
    """The seconds of each step but the first, and the peak in bytes. Its loop has no end before 40 steps: it is stopped."""
    seconds = []
    # Into a pipe the program would write its lines when they fill a buffer, after dozens of steps.
    command = ["stdbuf", "--output=L", str(program)]
    process = subprocess.Popen(command, cwd=scratch, stdout=subprocess.PIPE, text=True, env=environment)
    for line in process.stdout:
        if found := re.match(r"step \d+: train loss \S+ \(took (\S+) ms\)", line):
            seconds.append(float(found[1]) / 1000)
        if len(seconds) > steps:
            process.kill()
            break
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    if len(seconds) <= steps:
        raise compare.CompareError(f"[{program}] expected {steps + 1} steps, got {len(seconds)}")
    return {"step_seconds": seconds[1:], "peak_bytes": usage.ru_maxrss * 1024}


def run_ours(args, scratch, environment):
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "embd_pdrop": 0, "resid_pdrop": 0, "attn_pdrop": 0}
    (scratch / "config.json").write_text(json.dumps(config))
    command = [
        args.shoehorn, "bench", "step", "--model", str(scratch), "--per_device_train_batch_size", str(args.batch),
        "--sequence_length", str(args.sequence_length), "--max_grad_norm", "0",
        "--max_steps", str(args.steps + 1), "--json",
    ]  # fmt: skip
    result = compare.run_once(command, environment, args.timeout_seconds)
    return {"step_seconds": result["step_samples"], "peak_bytes": result["peak_bytes"], "limit_share": result["limit_share"]}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--sequence_length", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    parser.add_argument("--steps", type=int, default=4, help="steps of a process, one more is made before them")
    parser.add_argument("--llm_c", type=pathlib.Path, help="a checkout of llm.c; default: its pinned commit, cloned once")
    parser.add_argument("--shoehorn", default=str(compare.HERE.parent / "build" / "shoehorn"), help="our program")
    parser.add_argument("--speed_goal", type=float, default=5.0, help="least ratio of the steps' medians")
    parser.add_argument("--timeout_seconds", type=float, default=1800, help="for one process of ours")
    parser.add_argument("--json", metavar="FILE", help="write every step; - for standard output in place of the table")
    return parser.parse_args()


def main():
    args = parse_arguments()
    environment = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        program = build(checkout(args.llm_c), args.sequence_length, args.batch, scratch)
        write_files(scratch, args.batch * args.sequence_length, seed=42)
        sides = {
            "ours": lambda: run_ours(args, scratch, environment),
            "theirs": lambda: run_theirs(program, scratch, args.steps, environment),
        }
        runs = compare.run_in_turns(sides, args.rounds)
    record = {
        "date": compare.utc_now(), "model": "gpt2", "batch": args.batch, "sequence_length": args.sequence_length,
        "llm_c_commit": COMMIT if args.llm_c is None else "of --llm_c", "runs": runs,
    }  # fmt: skip
    medians = {
        side: {
            "step_seconds": statistics.median(statistics.median(run["step_seconds"]) for run in made),
            "peak_bytes": statistics.median(run["peak_bytes"] for run in made),
        }
        for side, made in runs.items()
    }
    speed = medians["theirs"]["step_seconds"] / medians["ours"]["step_seconds"]
    if args.json != "-":
        tokens = args.batch * args.sequence_length
        for side, name in (("ours", "Shoehorn"), ("theirs", "llm.c")):
            row = medians[side]
            print(f"{name:10}{row['step_seconds']:8.3f} s a step{tokens / row['step_seconds']:8.0f} tokens/s{row['peak_bytes'] / 2**20:8.0f} MiB")
        print(f"{'MET ' if speed >= args.speed_goal else 'MISS'}  speed x{speed:.2f}, goal >= {args.speed_goal}")
    if args.json:
        compare.write_json(args.json, record)
    return 0 if speed >= args.speed_goal else 1


if __name__ == "__main__":
    compare.run_main(main)
