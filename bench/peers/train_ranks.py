#!/usr/bin/env python3
"""PyTorch's DDP and FSDP on gloo: several processes of this host that train one model, with random weights on random tokens.

  train_ranks.py --model bert-base --method ddp --ranks 2 --per_device_train_batch_size 2 --sequence_length 512 [--bf16] …

Starts a process a rank, as torchrun does, each with --threads threads. Models, their configurations and the tokens are
those of train_step.py; --method ddp is DistributedDataParallel, fsdp is fully_shard of each layer and of the model, and
none is one process alone. AdamW, clipping to --max_grad_norm; --bf16 is autocast, weights stay float32.
Prints one JSON object (keys: bench/README.md): samples a second of all ranks together, the peak of the rank that has
most, the time from the start of the processes to the end of the first step.
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import common
import train_step

METHODS = ("ddp", "fsdp", "none")


def layers_of(model):
    """The blocks that FSDP gathers one after the other."""
    import torch

    return max((part for part in model.modules() if isinstance(part, torch.nn.ModuleList)), key=len)


def share(model, method):
    """The model as its ranks run it."""
    import torch

    if method == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if method == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
        for layer in layers_of(model):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def micro_batches(rows, args, rank):
    """Batches of this rank, again and again: every --ranks-th of the rows."""
    import torch

    size = args.per_device_train_batch_size
    own = rows[rank :: args.ranks]
    at = 0
    while True:
        chosen = [own[(at + i) % len(own)] for i in range(size)]
        at += size
        yield {key: torch.stack([row[key] for row in chosen]) for key in ("input_ids", "labels")}


def take_step(model, optimizer, batches, args):
    import torch

    for micro_batch in range(args.gradient_accumulation_steps):
        is_last = micro_batch + 1 == args.gradient_accumulation_steps
        waits = contextlib.nullcontext() if is_last or args.method != "ddp" else model.no_sync()
        if args.method == "fsdp":
            model.set_requires_gradient_sync(is_last)
        with waits:
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.bf16):
                loss = model(**next(batches)).loss / args.gradient_accumulation_steps
            loss.backward()
    if args.max_grad_norm > 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item() * args.gradient_accumulation_steps


def run_rank(args):
    """One rank's training; returns what it measured."""
    import torch
    import transformers

    torch.set_num_threads(args.threads)
    transformers.set_seed(args.seed)
    if args.method != "none":
        torch.distributed.init_process_group("gloo")  # by MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE
    config = train_step.load_configuration(args.model)
    rows = train_step.random_rows(config, args.sequence_length, args.seed)
    model = share(train_step.make_model(args, config), args.method)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    batches = micro_batches(rows, args, int(os.environ["RANK"]))
    ends, losses = [], []
    for _ in range(args.steps):
        losses.append(take_step(model, optimizer, batches, args))
        ends.append(common.now_seconds())
    peak = common.memory_bytes("VmHWM")
    if args.method != "none":
        torch.distributed.destroy_process_group()
    return {
        "first_step_seconds": ends[0] - common.process_start_seconds(),
        "step_samples": [end - start for start, end in zip(ends, ends[1:])],
        "peak_bytes": peak,
        "losses": losses,
        "versions": common.versions(),
    }


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_ranks(args):
    """Starts this program once a rank and waits for all; returns what each measured. Where one fails the others would wait for
    it: they are ended, and so is this program."""
    own = {"WORLD_SIZE": str(args.ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    environment = {**os.environ, **own, "OMP_NUM_THREADS": str(args.threads)}
    command = [sys.executable, __file__, *sys.argv[1:], "--is_rank"]
    outputs = [tempfile.TemporaryFile("w+") for _ in range(args.ranks)]
    ranks = [
        subprocess.Popen(command, env={**environment, "RANK": str(rank)}, stdout=output)
        for rank, output in enumerate(outputs)
    ]
    try:
        while any(rank.poll() is None for rank in ranks) and not any(rank.returncode for rank in ranks):
            time.sleep(0.05)
        for number, rank in enumerate(ranks):
            if rank.returncode:
                sys.exit(f"[rank {number}] expected exit 0, got {rank.returncode}; its error is above")
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    for output in outputs:
        output.seek(0)
    return [json.loads(output.read().splitlines()[-1]) for output in outputs]


def summary_of(args, ranks):
    # A step of all ranks ends with the last of them.
    steps = [max(of_ranks) for of_ranks in zip(*(rank["step_samples"] for rank in ranks))]
    median = statistics.median(steps)
    samples = args.ranks * args.per_device_train_batch_size * args.gradient_accumulation_steps
    return {
        "samples_per_second": samples / median,
        "step_seconds": median,
        "first_step_seconds": max(rank["first_step_seconds"] for rank in ranks),
        "peak_bytes": max(rank["peak_bytes"] for rank in ranks),
        "step_samples": steps,
        "ranks": ranks,
        "settings": vars(args),
        "versions": ranks[0]["versions"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-base", help=f"{', '.join(train_step.CONFIGURATIONS)}, or a directory with config.json")
    parser.add_argument("--method", choices=METHODS, default="ddp")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of a rank")
    parser.add_argument("--per_device_train_batch_size", type=int, default=2, help="of a rank")
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--sequence_length", type=int, default=512)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--max_grad_norm", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=4, help="optimizer steps; the first is not in the medians")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--attn_implementation", default="sdpa", choices=("sdpa", "eager"))
    parser.add_argument("--is_rank", action="store_true", help="what it starts itself with")
    # As train_step.make_model reads them: all of the model is trained, from weights of float32.
    parser.set_defaults(lora_rank=0, bf16_weights=False)
    args = parser.parse_args()
    if args.steps < 2:
        parser.error(f"[--steps] expected 2 or more, for the first is not in the medians, got {args.steps}")
    if (args.method == "none") != (args.ranks == 1):
        parser.error(f"[--method] expected none with --ranks 1, and ddp or fsdp with more, got {args.method} with {args.ranks}")
    with common.only_json_on_stdout() as print_result:
        print_result(run_rank(args) if args.is_rank else summary_of(args, run_ranks(args)))


if __name__ == "__main__":
    main()
