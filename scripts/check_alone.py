#!/usr/bin/env python3
"""Compiles each source file alone, without what targets compile once for all (precompiled headers), and writes no object: a
file that does not include what it uses fails. A build that compiles files together does not notice (cmake/room.cmake).

    scripts/check_alone.py BUILD_DIR              every source
    scripts/check_alone.py BUILD_DIR --changed    those that differ from the last commit, or are new

BUILD_DIR is configured here and nothing else is built in it. Exit: 1 if a file fails; its first messages are printed.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def run(command):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")


def configured(build):
    """The compiler's command of each source, by its path."""
    for command in (
        ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_UNITY_BUILD=OFF", "-DCCACHE_PROGRAM=OFF"],
        ["cmake", "--build", build, "--target", "shoehorn_commit"],  # a header that is made
    ):
        done = run(command)
        if done.returncode:
            sys.exit(f"[check_alone] {shlex.join(map(str, command))} failed:\n{done.stdout}")
    with open(build / "compile_commands.json", encoding="utf-8") as file:
        entries = {entry["file"]: entry for entry in json.load(file)}
    return {name: entry for name, entry in sorted(entries.items()) if build not in pathlib.Path(name).parents}


def changed():
    names = set()
    for command in (["git", "diff", "--name-only", "--diff-filter=d", "HEAD"], ["git", "ls-files", "--others", "--exclude-standard"]):
        names.update(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.split())
    return {str(ROOT / name) for name in names}


def failure(entry):
    """What the compiler says of a file, or nothing."""
    words = iter(shlex.split(entry["command"]))
    command = []
    for word in words:
        if word == "-o":
            next(words)
        elif word == "-include":
            header = next(words)
            if not header.endswith("cmake_pch.hxx"):
                command += [word, header]
        elif word not in ("-c", "-Winvalid-pch"):
            command.append(word)
    done = subprocess.run([*command, "-fsyntax-only", "-fmax-errors=5"], cwd=entry["directory"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, errors="replace")
    return done.stderr if done.returncode or done.stderr else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    entries = configured(options.build.resolve())
    if options.changed:
        wanted = changed()
        entries = {name: entry for name, entry in entries.items() if name in wanted}
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, said in zip(entries, pool.map(failure, entries.values())):
            if said:
                failed += 1
                print(f"not alone: {os.path.relpath(name, ROOT)}\n{said}", flush=True)
    print(f"{len(entries) - failed} sources compile alone, {failed} do not")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
