#!/usr/bin/env python3
"""Runs the measurements behind the figures of the docs and writes a record of each, as it ends.

  bench/campaign.py --list                                # what there is: minutes a run, memory, what it needs
  bench/campaign.py 2026-11-22-zen4 [--only PATTERN] [--continue] [--repeat N]

The entries are data: bench/campaign_entries.py. Records go to bench/results/2026-11-22-zen4/NAME.json (bench/README.md
lists their keys): every run of the command, as it printed it, less what names this machine. A record that exists is
never replaced: --continue leaves its entry out, and without it such a campaign is refused. Every requirement of the chosen
entries is looked at, and what they measure is built, before the first one runs. Nothing else should run meanwhile.
bench/tables.py then writes the tables.

Exit: 0; 1 where an entry failed (the others' records are written); 2 where something is missing.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import campaign_entries
import compare
import llm_c
import records

ROOT = records.ROOT
PEERS = ("torch", "transformers", "accelerate", "tokenizers", "bitsandbytes", "peft")


class Missing(Exception):
    """A requirement that is not there; the message says how to get it."""


# What entries need. Each function returns None or a message.


def lacks_peers():
    if not os.access(compare.peers_python(), os.X_OK):
        return "expected a Python with the peers; run bench/peers/setup.sh, or name one by SHOEHORN_PEERS_PYTHON"
    return None


def lacks_minilm():
    if not (ROOT / ".cache/minilm/model.safetensors").exists():
        return "expected all-MiniLM-L6-v2 in .cache/minilm; run scripts/fetch_minilm.sh"
    return None


def lacks_mrpc():
    files = [ROOT / campaign_entries.MRPC.replace("train", part) for part in ("train", "test")]
    if not all(file.exists() for file in files):
        return "expected msr_paraphrase_train.txt and msr_paraphrase_test.txt (MRPC) in .cache/mrpc"
    return None


def lacks_texts():
    missing = [file for file in campaign_entries.TEXTS if not (ROOT / file).exists()]
    return f"expected the texts that tokenizers are compared on; {', '.join(missing)} is missing" if missing else None


def lacks_fortunes():
    if not pathlib.Path("/usr/share/games/fortunes").is_dir():
        return "expected the package fortunes; run make setup"
    return None


def lacks_compiler():
    return None if shutil.which("g++") else "expected a C++ compiler for torch.compile; install g++"


def lacks_llm_c():
    if not (llm_c.cached_checkout() / "train_gpt2.c").exists():
        return "expected a clone of llm.c in ~/.cache/shoehorn/llm.c; bench/llm_c.py makes it"
    return None


def lacks_root():
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        return "expected root and debootstrap; run make setup-dev"
    return None


def lacks_trixie():
    if not (ROOT / campaign_entries.TRIXIE_ROOT / "root/shoehorn/build/shoehorn").exists():
        return f"expected a Debian 13 with a build in {campaign_entries.TRIXIE_ROOT}; bench/README.md says how to make it"
    return None


REQUIREMENTS = {
    "peers": lacks_peers,
    "minilm": lacks_minilm,
    "mrpc": lacks_mrpc,
    "texts": lacks_texts,
    "fortunes": lacks_fortunes,
    "compiler": lacks_compiler,
    "llm_c": lacks_llm_c,
    "root": lacks_root,
    "trixie": lacks_trixie,
}


def program_of(need):
    """The target that builds a need of the form build/PROGRAM, or None."""
    return need.rsplit("/", 1)[1] if need.startswith("build/") else None


def build_programs(needs):
    """Builds what is to be measured, so that it is of the commit that the record names."""
    targets = sorted({target for need in needs if (target := program_of(need))})
    if not (ROOT / "build/CMakeCache.txt").exists():
        raise Missing("[build] expected a configured build, got none; run make build, for kernels' benchmarks make setup-dev tests")
    done = subprocess.run(["cmake", "--build", ROOT / "build", "--target", *targets], capture_output=True, text=True)
    if done.returncode != 0:
        raise Missing(f"[build] expected {', '.join(targets)} to build; run make setup-dev tests:\n{(done.stdout + done.stderr)[-2000:]}")


def available_gib():
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:")) / 2**20


def few(names):
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def lacking(entries):
    """What the entries need and is not here, a line each."""
    found = {}
    for entry in entries:
        for need in entry.needs:
            if need not in found and not program_of(need):
                found[need] = REQUIREMENTS[need]()
    lines = [
        f"[{need}] {message} (for {few([entry.name for entry in entries if need in entry.needs])})"
        for need, message in found.items()
        if message
    ]
    available = available_gib()
    lines += [
        f"[{entry.name}] expected {entry.memory_gib} GiB of available memory, got {available:.1f}"
        for entry in entries
        if entry.memory_gib > available
    ]
    return lines


def commit_of_the_tree():
    """The commit that a record names. Changed pages and records do not count: they measure nothing."""
    git = ["git", "-C", str(ROOT)]
    status = subprocess.run([*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True)
    if status.returncode != 0:
        raise Missing("[git] expected a checkout, for a record names its commit")
    changed = [line[3:] for line in status.stdout.splitlines()]
    changed = [name for name in changed if not name.endswith(".md") and not name.startswith("bench/results/")]
    if changed:
        raise Missing(f"[git] expected files as they are committed, for a record names its commit; changed: {', '.join(changed)}")
    return subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


# How an output is read: (standard output, wall seconds) -> what the record keeps.


def read_json(text, seconds):
    """The JSON value that ends the text and begins a line."""
    for match in re.finditer(r"^[\[{]", text, re.M):
        with contextlib.suppress(json.JSONDecodeError):
            return json.loads(text[match.start() :])
    raise ValueError("its output ends with no JSON")


def read_demo_in(directory):
    """The reader of a demo whose model lies there."""

    def read(text, seconds):
        with open(ROOT / directory / "model/all_results.json", encoding="utf-8") as file:
            return {"seconds": seconds, "results": json.load(file), "lines": text.splitlines()}

    return read


def read_fresh_machine(text, seconds):
    match = re.search(r": exit 0 after (\d+) s$", text.strip())
    if not match:
        raise ValueError("the last line has no seconds")
    return {"seconds": int(match.group(1))}


READERS = {
    "json": read_json,
    "demo": read_demo_in(".cache/demo"),
    "demo_lm": read_demo_in(".cache/demo_lm"),
    "fresh_machine": read_fresh_machine,
}


def without_machine(value):
    """An output without what names this machine: its host name, its user's home, where the checkout and temporary files lie."""
    names = [(re.escape(str(ROOT)) + "/?", ""), (re.escape(str(pathlib.Path.home())) + r"(?=/|$)", "~")]
    names.append((re.escape(tempfile.gettempdir()) + r"/shoehorn-\w+", "TEMPORARY"))
    names.append((rf"(?<![\w.-]){re.escape(socket.gethostname())}(?![\w-])", "HOST"))

    def clean(part):
        if isinstance(part, dict):
            return {key: clean(item) for key, item in part.items() if key not in ("host_name", "executable")}
        if isinstance(part, list):
            return [clean(item) for item in part]
        if isinstance(part, str):
            for pattern, instead in names:
                part = re.sub(pattern, instead, part)
        return part

    return clean(value)


def environment_now():
    done = subprocess.run([ROOT / "build/shoehorn", "env", "--json"], capture_output=True, text=True, check=True)
    return without_machine(json.loads(done.stdout))


def versions_of_peers():
    program = (
        "import importlib.metadata as m, json, platform\n"
        f"found = {{d.metadata['Name']: d.version for d in m.distributions() if d.metadata['Name'] in {PEERS!r}}}\n"
        "print(json.dumps({'python': platform.python_version(), **dict(sorted(found.items()))}))"
    )
    done = subprocess.run([compare.peers_python(), "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def run_once(entry):
    """One run of an entry's command, as a record keeps it."""
    words = shlex.split(entry.command)
    if words[0] == "python":
        words[0] = compare.peers_python()
    environment = dict(os.environ, SHOEHORN_PEERS_PYTHON=compare.peers_python())
    load_average = os.getloadavg()[0]
    start = time.monotonic()
    done = subprocess.run(words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    seconds = time.monotonic() - start
    if done.returncode not in entry.exits:
        raise ValueError(f"exit {done.returncode}")
    output = READERS[entry.output](done.stdout, seconds)
    return {"seconds": round(seconds, 3), "load_average": load_average, "output": without_machine(output)}


def measure(entry, commit, repeat):
    record = {
        "format": records.FORMAT,
        "name": entry.name,
        "commit": commit,
        "command": entry.command,
        "environment": environment_now(),
        "versions": versions_of_peers() if "peers" in entry.needs else None,
        "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "runs": [],
    }
    for number in range(min(repeat, entry.most_runs)):
        print(f"{entry.name} {number + 1}/{min(repeat, entry.most_runs)}: {entry.command}", flush=True)
        record["runs"].append(run_once(entry))
    return record


def print_list(entries, repeat, directory):
    for entry in entries:
        done = " has a record" if directory and (directory / f"{entry.name}.json").exists() else ""
        needs = ", ".join(entry.needs)
        print(f"{entry.name:<45}{entry.minutes:>6} min{entry.memory_gib:>4} GiB  {needs}{done}\n    {entry.command}")
    minutes = sum(entry.minutes * min(repeat, entry.most_runs) for entry in entries)
    print(f"{len(entries)} entries, about {minutes / 60:.1f} hours with --repeat {repeat}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("campaign", nargs="?", help="DATE-MACHINE or DATE-MACHINE-NUMBER, as 2026-11-22-zen4")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="", metavar="PATTERN", help="entries whose name has this regular expression")
    parser.add_argument("--continue", dest="keep", action="store_true", help="leave out entries that have a record")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs of each command (3)")
    args = parser.parse_args()
    entries = [entry for entry in campaign_entries.ENTRIES if re.search(args.only, entry.name)]
    if args.campaign:
        records.machine_of(args.campaign)
    directory = records.RESULTS / args.campaign if args.campaign else None
    if args.list:
        print_list(entries, args.repeat, directory)
        return 0
    if not args.campaign or args.repeat < 1 or not entries:
        raise Missing("expected a campaign, a --repeat of at least 1 and a --only that an entry has")
    there = [entry for entry in entries if (directory / f"{entry.name}.json").exists()]
    if there and not args.keep:
        names = ", ".join(entry.name for entry in there)
        raise Missing(f"[{args.campaign}] has records of {names}; --continue leaves these out, a second sitting is {args.campaign}-2")
    entries = [entry for entry in entries if entry not in there]
    commit = commit_of_the_tree()
    lines = lacking(entries)
    if lines:
        raise Missing("\n".join(lines) + "\n(--only PATTERN chooses entries)")
    build_programs({"build/shoehorn", *(need for entry in entries for need in entry.needs)})
    failed = []
    for entry in entries:
        try:
            records.save(directory / f"{entry.name}.json", measure(entry, commit, args.repeat))
        except (ValueError, OSError, subprocess.CalledProcessError) as error:
            failed.append(entry.name)
            print(f"[{entry.name}] failed: {error}", file=sys.stderr, flush=True)
    print(f"{len(entries) - len(failed)} records written to bench/results/{args.campaign}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Missing, records.RecordError) as missing:
        print(missing, file=sys.stderr)
        sys.exit(2)
