#!/usr/bin/env python3
"""Shoehorn against the Hugging Face Trainer on the same training step, measured in turns on this machine.

  bench/compare.py --models bert-base --settings fp32 bf16 --repeats 3 [--json FILE]

Every measurement is a process of its own, in the order ours, theirs, ours, theirs, …, so that a noisy machine is noisy
for both. Peak memory is the kernel's figure for the finished process (ru_maxrss of wait4), the same for both sides.
The JSON has every run as its program printed it and no medians: campaign.py keeps it as a record.
Exit: 0 all goals met, 1 a goal missed, 2 nothing could be compared. Commands and keys: bench/README.md.
"""

import argparse
import datetime
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SETTINGS = {
    "fp32": [],
    "bf16": ["--bf16"],
    "checkpointing": ["--gradient_checkpointing"],
    "bf16_checkpointing": ["--bf16", "--gradient_checkpointing"],
    "adafactor": ["--optim", "adafactor"],
    "sgd": ["--optim", "sgd", "--optim_args", "momentum=0.9"],
    "bf16_compile": ["--bf16", "--torch_compile"],
    # LoRA on weights of bfloat16.
    "lora_bf16": ["--bf16", "--lora_rank", "8", "--lora_target", "all-linear", "--gradient_checkpointing"],
}
# What one side needs besides, to do the same.
OURS_ONLY = {"lora_bf16": ["--lora_alpha", "16", "--master_weights", "none"]}
THEIRS_ONLY = {"lora_bf16": ["--bf16_weights"]}
# Keys whose medians go into the table; both sides print them.
MEASURES = ("samples_per_second", "step_seconds", "first_step_seconds", "peak_bytes")
PROCESS_SLACK_BYTES = 8 << 20
PROCESS_SLACK_RATIO = 0.02


class CompareError(Exception):
    """A measurement that could not be made; the message says what to do."""


def peers_python():
    """The Python that bench/peers/setup.sh makes, unless SHOEHORN_PEERS_PYTHON names another."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    return os.environ.get("SHOEHORN_PEERS_PYTHON") or str(cache / "shoehorn/peers/bin/python")


def last_json_object(text):
    """The last line that is a JSON object; None if there is none."""
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except json.JSONDecodeError:
                return None
    return None


def run_process(command, environment, timeout_seconds):
    """Runs one process to its end. Returns its standard output, its peak in bytes and its wall time in seconds."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        except OSError as error:
            raise CompareError(f"[{command[0]}] expected a program, got: {error.strerror}") from error
        while True:
            # wait4 and not Popen.wait: only it returns the child's own peak.
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - start > timeout_seconds:
                process.kill()
                os.wait4(process.pid, 0)
                process.returncode = -9
                raise CompareError(f"[{shlex.join(command)}] expected an end within {timeout_seconds} s, got none")
            time.sleep(0.05)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            tail = err.read().decode(errors="replace")[-2000:]
            raise CompareError(f"[{shlex.join(command)}] expected exit 0, got exit {process.returncode}:\n{tail}")
        return out.read().decode(errors="replace"), usage.ru_maxrss * 1024, time.monotonic() - start


def run_once(command, environment, timeout_seconds):
    """Runs one process; returns its JSON object with peak_bytes and process_seconds as this script measured them."""
    output, peak_bytes, seconds = run_process(command, environment, timeout_seconds)
    result = last_json_object(output)
    if result is None:
        raise CompareError(f"[{shlex.join(command)}] expected a JSON object, got:\n{output[-2000:]}")
    missing = [key for key in MEASURES if key not in result and key != "peak_bytes"]
    if missing:
        raise CompareError(f"[{shlex.join(command)}] expected the keys {', '.join(MEASURES)}, got none of {missing}")
    result["reported_peak_bytes"] = result.get("peak_bytes")
    result["peak_bytes"] = peak_bytes
    result["process_seconds"] = seconds
    return result


def commands_for(args, model, setting):
    flags = [
        "--model", model,
        "--per_device_train_batch_size", str(args.per_device_train_batch_size),
        "--sequence_length", str(args.sequence_length),
        "--gradient_accumulation_steps", str(args.gradient_accumulation_steps),
        "--max_grad_norm", str(args.max_grad_norm),
        *SETTINGS[setting],
        *shlex.split(args.extra),
    ]  # fmt: skip
    return {
        "ours": [args.shoehorn, "bench", "step", *flags, "--max_steps", str(args.steps), "--json", *OURS_ONLY.get(setting, []), *shlex.split(args.extra_ours)],
        "theirs": [args.python, str(HERE / "peers" / "train_step.py"), *flags, "--steps", str(args.steps), *THEIRS_ONLY.get(setting, []), *shlex.split(args.extra_theirs)],
    }


def median_of(runs, key):
    values = [run[key] for run in runs if run.get(key) is not None]
    return statistics.median(values) if values else None


def ratio(ours, theirs):
    return ours / theirs if ours and theirs else None


def judge(args, medians, runs):
    """Goal -> (met, text); None for met where it could not be judged."""
    if not all(medians.get(side) for side in ("ours", "theirs")):
        return {}
    ours, theirs = medians["ours"], medians["theirs"]
    speed = ratio(ours["samples_per_second"], theirs["samples_per_second"])
    memory = ratio(ours["peak_bytes"], theirs["peak_bytes"])
    first = ratio(ours["first_step_seconds"], theirs["first_step_seconds"])
    goals = {
        "speed": (speed and speed >= args.speed_goal, f"samples/s x{speed or 0:.2f}, goal >= {args.speed_goal}"),
        "memory": (memory and memory <= args.memory_goal, f"peak x{memory or 0:.3f}, goal <= {args.memory_goal}"),
        "first_step": (first and first <= args.first_step_goal, f"x{first or 0:.3f}, goal <= {args.first_step_goal}"),
    }
    predicted = [(run["memory_process_predicted_bytes"], run["peak_bytes"]) for run in runs["ours"] if run.get("memory_process_predicted_bytes")]
    if predicted:
        # The design's promise for a whole process: within 2% or 8 MiB, whichever is larger.
        misses = [abs(p - m) - max(PROCESS_SLACK_BYTES, PROCESS_SLACK_RATIO * m) for p, m in predicted]
        worst = max(predicted, key=lambda pair: abs(pair[0] - pair[1]))
        goals["predicted_peak"] = (
            max(misses) <= 0,
            f"predicted {worst[0] / 2**20:.1f} MiB, measured {worst[1] / 2**20:.1f} MiB, goal within max(2%, 8 MiB)",
        )
    return goals


def compare(args, model, setting):
    """Measures one model in one setting; returns its record, with every run."""
    commands = commands_for(args, model, setting)
    sides = [side for side in ("ours", "theirs") if side in args.sides]
    environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads)) if args.threads else dict(os.environ)
    runs = {side: [] for side in commands}
    for repeat in range(args.repeats):
        for side in sides:
            print(f"{model} {setting} {repeat + 1}/{args.repeats} {side} …", file=sys.stderr, flush=True)
            runs[side].append(run_once(commands[side], environment, args.timeout_seconds))
    return {
        "date": utc_now(),
        "load_average": os.getloadavg()[0],
        "model": model,
        "setting": setting,
        # Without directories: a record says what was run, not where it was installed.
        "commands": {
            side: shlex.join(os.path.basename(word) if os.path.isabs(word) else word for word in commands[side])
            for side in sides
        },
        "runs": {side: runs[side] for side in sides},
    }


def summary_of(args, record):
    """Medians of both sides, their ratio (None for one side) and the goals."""
    runs = record["runs"]
    medians = {side: {key: median_of(runs[side], key) for key in MEASURES} for side in runs}
    both = len(runs) == 2
    ratios = {key: ratio(medians["ours"][key], medians["theirs"][key]) for key in MEASURES} if both else None
    return {"medians": medians, "ratio": ratios, "goals": judge(args, medians, runs)}


def print_table(records, summaries):
    header = ("model", "setting", "who", "samples/s", "step s", "first step s", "peak MiB")
    rows = [header]
    for record, summary in zip(records, summaries):
        for side, medians in summary["medians"].items():
            numbers = [medians["samples_per_second"], medians["step_seconds"], medians["first_step_seconds"]]
            text = ["-" if number is None else f"{number:.3f}" for number in numbers]
            rows.append((record["model"], record["setting"], side, *text, f"{medians['peak_bytes'] / 2**20:.0f}"))
        if summary["ratio"]:
            text = ["-" if (value := summary["ratio"][key]) is None else f"x{value:.3f}" for key in MEASURES]
            rows.append(("", "", "ours/theirs", *text))
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    for row in rows:
        cells = [cell.ljust(width) if index < 3 else cell.rjust(width) for index, (cell, width) in enumerate(zip(row, widths))]
        print("  ".join(cells).rstrip())
    for record, summary in zip(records, summaries):
        for name, (met, text) in summary["goals"].items():
            print(f"{'MET ' if met else 'MISS'}  {record['model']} {record['setting']} {name}: {text}")


def run_in_turns(sides, rounds):
    """Calls each side's function once a round. `sides`: functions without arguments by name. Returns lists of results by name."""
    runs = {side: [] for side in sides}
    for round_number in range(rounds):
        print(f"round {round_number + 1}/{rounds} …", file=sys.stderr, flush=True)
        for side, run in sides.items():
            runs[side].append(run())
    return runs


def utc_now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def write_json(path, value):
    """Writes a JSON file as a whole or not at all; "-" is standard output."""
    text = json.dumps(value, indent=1) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_suffix(".partial")
    staging.write_text(text, encoding="utf-8")
    staging.replace(path)


def run_main(main):
    """Ends the program with main's exit code; 2, with the message, where nothing could be measured."""
    try:
        sys.exit(main())
    except CompareError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def add_side_arguments(parser, timeout_seconds=1800):
    """The programs of both sides, how long one of their processes may take, and where its runs go."""
    parser.add_argument("--python", default=peers_python(), help="made by bench/peers/setup.sh")
    add_program_arguments(parser, timeout_seconds)


def add_program_arguments(parser, timeout_seconds=1800):
    """Our program alone, and the same of its processes."""
    parser.add_argument("--shoehorn", default=str(HERE.parent / "build" / "shoehorn"), help="our program")
    parser.add_argument("--timeout_seconds", type=float, default=timeout_seconds, help="for one process")
    parser.add_argument("--json", metavar="FILE", help="write every run; - for standard output in place of the table")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["bert-base"], help="named shapes (bert-base, gpt2, llama-135m …) or directories")
    parser.add_argument("--settings", nargs="+", default=["fp32"], choices=sorted(SETTINGS))
    parser.add_argument("--per_device_train_batch_size", type=int, default=4)
    parser.add_argument("--sequence_length", type=int, default=512)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--max_grad_norm", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=4, help="steps a process makes; the first is not in its median")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each side")
    parser.add_argument("--threads", type=int, help="OMP_NUM_THREADS of both sides")
    parser.add_argument("--sides", nargs="+", default=["ours", "theirs"], choices=("ours", "theirs"))
    add_side_arguments(parser)
    parser.add_argument("--extra", default="", help="flags for both sides, one string")
    parser.add_argument("--extra_ours", default="", help="flags for our side only")
    parser.add_argument("--extra_theirs", default="", help="flags for their side only")
    parser.add_argument("--speed_goal", type=float, default=1.0, help="least ratio of samples per second")
    parser.add_argument("--memory_goal", type=float, default=1.0, help="greatest ratio of peak memory")
    parser.add_argument("--first_step_goal", type=float, default=1.0, help="greatest ratio of time to the first step's end")
    return parser.parse_args()


def main():
    args = parse_arguments()
    if "ours" in args.sides and not os.access(args.shoehorn, os.X_OK):
        raise CompareError(f"[--shoehorn] expected our program, got nothing at {args.shoehorn}; build it, or --sides theirs")
    if "theirs" in args.sides and not os.access(args.python, os.X_OK):
        raise CompareError(f"[--python] expected a Python with the peers, got nothing at {args.python}; run bench/peers/setup.sh")
    records = []
    try:
        for model in args.models:
            for setting in args.settings:
                records.append(compare(args, model, setting))
    finally:
        # What was measured before an error or an interrupt is not lost.
        summaries = [summary_of(args, record) for record in records]
        if records and args.json != "-":
            print_table(records, summaries)
        if records and args.json:
            write_json(args.json, records)
    return 0 if all(met for summary in summaries for met, _ in summary["goals"].values()) else 1


if __name__ == "__main__":
    run_main(main)
