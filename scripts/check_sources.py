#!/usr/bin/env python3
"""Compiles sources as the everyday build does not, without what targets compile once for all (precompiled headers), and
writes no object.

    scripts/check_sources.py alone BUILD_DIR       each source alone: it includes what it uses
    scripts/check_sources.py together BUILD_DIR    the sources of a target as a new build folder compiles them, several at a
                                                   time: none defines what another defines (cmake/compiled_together.cmake)
    … --changed [COMMIT]                           those that differ from it (the last one) or are new, and those with them

BUILD_DIR is configured here and nothing else is built in it. Exit: 1 if one fails; its first messages are printed.
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


def configured(build, together):
    """The compiler's command of each source, by its path; or of each group of sources, a file in `build`."""
    (build / "compiled_together.txt").unlink(missing_ok=True)  # groups as a new folder has them
    for command in (
        ["cmake", "-S", ROOT, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
         f"-DCMAKE_UNITY_BUILD={'ON' if together else 'OFF'}", "-DCCACHE_PROGRAM=OFF"],
        ["cmake", "--build", build, "--target", "shoehorn_commit"],  # a header that is made
    ):
        done = run(command)
        if done.returncode:
            sys.exit(f"[check_sources] {shlex.join(map(str, command))} failed:\n{done.stdout}")
    with open(build / "compile_commands.json", encoding="utf-8") as file:
        entries = {entry["file"]: entry for entry in json.load(file)}

    def is_wanted(path):
        return path.parent.name == "Unity" if together else build not in path.parents

    return {name: entry for name, entry in sorted(entries.items()) if is_wanted(pathlib.Path(name))}


def includes(name):
    """What a group's file includes."""
    return {line.split('"')[1] for line in pathlib.Path(name).read_text(encoding="utf-8").splitlines() if line.startswith("#include ")}


def changed_since(commit):
    names = set()
    for command in (["git", "diff", "--name-only", "--diff-filter=d", commit], ["git", "ls-files", "--others", "--exclude-standard"]):
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
    parser.add_argument("how", choices=("alone", "together"))
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--changed", nargs="?", const="HEAD", metavar="COMMIT")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    together = options.how == "together"
    entries = configured(options.build.resolve(), together)
    if options.changed:
        wanted = changed_since(options.changed)
        entries = {name: entry for name, entry in entries.items() if (wanted & includes(name) if together else name in wanted)}
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, said in zip(entries, pool.map(failure, entries.values())):
            if said:
                failed += 1
                print(f"not {options.how}: {os.path.relpath(name, ROOT)}\n{said}", flush=True)
    print(f"{len(entries) - failed} {'groups' if together else 'sources'} compile {options.how}, {failed} do not")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
