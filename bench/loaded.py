#!/usr/bin/env python3
"""Shoehorn and the Hugging Face Trainer on a machine that is idle, and on one that other programs use too.

  bench/loaded.py [--model bert-base] [--rounds 10] [--busy_loops 2] [--json FILE]
  bench/loaded.py --spins 0 300 1000 3000 10000 300000        # ours only, by libgomp's spin count (GOMP_SPINCOUNT)

A round runs each side once idle and once loaded; every second round goes backwards. Loaded: beside the side's threads
run --busy_loops processes that do nothing but use a processor. Both sides have their defaults, and the same number of
threads. Everything else on the machine should be quiet; --json has the load average before each process.

Printed: medians of the processes' median steps with least and most, our samples a second ÷ the Trainer's, and "of the
share": our loaded speed ÷ (our idle speed × the share of the processors that the scheduler grants our threads beside
the busy loops). Exit: 0 the goals are met, 1 one is missed, 2 nothing could be compared.
"""

import argparse
import contextlib
import os
import shlex
import signal
import statistics
import subprocess
import sys

import compare

STATES = ("idle", "loaded")
# What the user's shell may say about waiting threads does not count: both sides run as they are.
WAIT_VARIABLES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-base", help="bert-mini, bert-base, bert-large, or a directory with config.json")
    parser.add_argument("--per_device_train_batch_size", type=int, default=8)
    parser.add_argument("--sequence_length", type=int, default=128)
    parser.add_argument("--extra", default="", help="more flags of both sides, in one word")
    parser.add_argument("--steps", type=int, default=6, help="steps a process makes; the first is not in its median")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2, help="of both sides")
    parser.add_argument("--busy_loops", type=int, default=2, help="processes beside a loaded one")
    parser.add_argument("--spins", nargs="*", metavar="COUNT", help="compare these values of GOMP_SPINCOUNT; without the Trainer")
    parser.add_argument("--speed_goal", type=float, default=1.5, help="least ratio of samples per second, loaded")
    parser.add_argument("--share_goal", type=float, default=0.8, help="least part of our share of the processors")
    compare.add_side_arguments(parser)
    return parser.parse_args()


def share_of_processors(processors, threads, busy_loops):
    """What the threads get beside the loops ÷ what they have alone, where the scheduler treats all alike."""
    alone = min(threads, processors)
    return min(alone, processors * threads / (threads + busy_loops)) / alone


@contextlib.contextmanager
def busy(count):
    """Within it, `count` processes use a processor each."""
    loops = [subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"], stdin=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def environment_with(spins):
    environment = {name: value for name, value in os.environ.items() if name not in WAIT_VARIABLES}
    return environment if spins is None else {**environment, "GOMP_SPINCOUNT": spins}


def sides_of(args):
    """Side -> (command, environment)."""
    flags = [
        "--model", args.model,
        "--per_device_train_batch_size", str(args.per_device_train_batch_size),
        "--sequence_length", str(args.sequence_length),
        *shlex.split(args.extra),
    ]  # fmt: skip
    ours = [
        args.shoehorn, "bench", "step", *flags, "--max_steps", str(args.steps), "--num_threads", str(args.threads),
        "--json", "--no_limits",
    ]  # fmt: skip
    sides = {"ours": (ours, environment_with(None))}
    if args.spins is not None:
        sides |= {f"spins_{spins}": (ours, environment_with(spins)) for spins in args.spins}
        return sides
    theirs = [args.python, str(compare.HERE / "peers" / "train_step.py"), *flags, "--steps", str(args.steps)]
    return sides | {"theirs": ([*theirs, "--threads", str(args.threads)], environment_with(None))}


def measure(args):
    """Every run: side -> state -> list."""
    sides = sides_of(args)
    runs = {side: {state: [] for state in STATES} for side in sides}
    turns = [(side, state) for state in STATES for side in sides]
    for number in range(args.rounds):
        for side, state in turns if number % 2 == 0 else reversed(turns):
            print(f"{number + 1}/{args.rounds} {side} {state} …", file=sys.stderr, flush=True)
            command, environment = sides[side]
            load_average = os.getloadavg()[0]
            with busy(args.busy_loops if state == "loaded" else 0):
                run = compare.run_once(command, environment, args.timeout_seconds)
            runs[side][state].append({**run, "load_average": load_average})
    return runs


def median_speed(runs):
    return statistics.median(run["samples_per_second"] for run in runs)


def summary_of(args, runs, processors):
    share = share_of_processors(processors, args.threads, args.busy_loops)
    summary = {"share_of_processors": share, "of_the_share": {}, "ratio": {}}
    for side, by_state in runs.items():
        summary["of_the_share"][side] = median_speed(by_state["loaded"]) / (median_speed(by_state["idle"]) * share)
    if "theirs" in runs:
        for state in STATES:
            summary["ratio"][state] = median_speed(runs["ours"][state]) / median_speed(runs["theirs"][state])
    return summary


def print_table(args, runs, summary):
    """Prints the medians and the goals; returns the exit code."""
    print(f"{'who':<14}{'state':<8}{'samples/s':>10}{'step s':>9}{'least–most s':>16}")
    for side, by_state in runs.items():
        for state, made in by_state.items():
            seconds = [run["step_seconds"] for run in made]
            print(
                f"{side:<14}{state:<8}{median_speed(made):>10.3f}{statistics.median(seconds):>9.3f}"
                f"{f'{min(seconds):.3f}–{max(seconds):.3f}':>16}"
            )
    for side, part in summary["of_the_share"].items():
        print(f"{side}: loaded, {part:.2f} of its share of the processors ({summary['share_of_processors']:.2f} of those it has idle)")
    if not summary["ratio"]:
        return 0
    goals = {
        "speed": (summary["ratio"]["loaded"], args.speed_goal),
        "share": (summary["of_the_share"]["ours"], args.share_goal),
    }
    print(f"samples/s, ours ÷ theirs: idle x{summary['ratio']['idle']:.2f}, loaded x{summary['ratio']['loaded']:.2f}")
    for name, (reached, goal) in goals.items():
        print(f"{'MET ' if reached >= goal else 'MISS'}  {name} {reached:.2f}, goal >= {goal}")
    return 0 if all(reached >= goal for reached, goal in goals.values()) else 1


def main():
    args = parse_arguments()
    if args.rounds < 1:
        raise compare.CompareError(f"[--rounds] expected 1 or more, got {args.rounds}")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # which ends the busy loops
    processors = len(os.sched_getaffinity(0))
    runs = measure(args)
    summary = summary_of(args, runs, processors)
    record = {
        "date": compare.utc_now(),
        "model": args.model,
        "per_device_train_batch_size": args.per_device_train_batch_size,
        "sequence_length": args.sequence_length,
        "steps": args.steps,
        "rounds": args.rounds,
        "threads": args.threads,
        "processors": processors,
        "busy_loops": args.busy_loops,
        **summary,
        "runs": runs,
    }
    if args.json:
        compare.write_json(args.json, record)
    return print_table(args, runs, summary) if args.json != "-" else 0


if __name__ == "__main__":
    compare.run_main(main)
