#!/usr/bin/env python3
"""Breaks the code on purpose, one fault at a time, and records which test notices.

  scripts/mutate.py [--check] [--only PATTERN] [--continue] [--jobs N] [--limit SECONDS]
                    [--scratch DIR | --in-place BUILD | --in-front-of BUILD]

The faults are data: tests/mutants.toml. Each is put into a copy of the tracked files (in --scratch, default
build-mutants), the test programs that should notice are built and run there, and the fault is taken out again. --in-place
breaks this checkout itself, which nobody else may use meanwhile, and builds in BUILD.

--in-front-of takes a finished build of this checkout, a unity build too, and builds nothing in it: only the files with the
fault are compiled, from a copy, and linked in front of BUILD's libraries. That takes seconds a mutant, where a unity build
takes a minute. A test that fails then fails for the fault, since the same is tried without it first. But code that the
compiler had put inline elsewhere has no fault, so that a mutant which lives is not recorded: it is for the other ways.
Nobody else may run BUILD's programs meanwhile: each is replaced while a test needs it with the fault.

A fault is
  killed          a test fails, crashes or runs past the limit;
  lives           every test passes. Such a mutant needs a test, or a `reason` in the list;
  does not build  the compiler refuses it: the list has to be mended.
Results are kept in tests/mutants_results.json for mutants whose entry does not change, and docs/mutants.md is written
from them, in the list's order. --continue runs those without a result; --only (a regular expression of "AREA: NAME")
those that it matches.

Exit: 0; 1 where a mutant lives without a reason, has a reason and was killed, or does not build; 2 where the list is not
true of the files: the text to replace must be in its file exactly once. --check does only this last step, and looks
whether docs/mutants.md is what the results give; with --in-front-of also whether BUILD has the tests that the list names.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIST = "tests/mutants.toml"
RESULTS = "tests/mutants_results.json"
REPORT = "docs/mutants.md"
KEYS = {"name", "area", "file", "old", "new", "tests"}
KILLED, LIVES, DOES_NOT_BUILD = "killed", "lives", "does not build"


def read_list():
    with open(os.path.join(ROOT, LIST), "rb") as file:
        return tomllib.load(file)["mutant"]


def defects(mutants):
    """What is wrong with the list, a line each."""
    found = []
    names = set()
    for mutant in mutants:
        name = mutant.get("name", "?")
        if not KEYS <= set(mutant) <= KEYS | {"reason"}:
            found.append(f"{name}: expected the keys {', '.join(sorted(KEYS))} and perhaps reason")
            continue
        if name in names:
            found.append(f"{name}: another mutant has this name")
        names.add(name)
        if mutant["old"] == mutant["new"]:
            found.append(f"{name}: changes nothing")
        path = os.path.join(ROOT, mutant["file"])
        if not os.path.exists(path):
            found.append(f"{name}: no file {mutant['file']}")
            continue
        with open(path, encoding="utf-8") as file:
            count = file.read().count(mutant["old"])
        if count != 1:
            found.append(f"{name}: expected its old text once in {mutant['file']}, got {count} times")
    return found


def tests_that_are_not(mutants, tree):
    """Names of tests in the list that the build does not have, a line each."""
    found = []
    for test in sorted({test for mutant in mutants for test in mutant["tests"]}):
        name, _, only = test.partition(":")
        listed = run([tree.program(name), "--gtest_list_tests", f"--gtest_filter={only or '*'}"]).stdout
        if not re.search(r"^  \S", listed, re.MULTILINE):
            found.append(f"{LIST}: no test matches {test}")
    return found


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options)


class Tree:
    """Sources that may be broken, with a build of their own."""

    def __init__(self, tree, build, jobs):
        self.tree = tree
        self.build = build
        self.jobs = jobs

    @classmethod
    def copied(cls, directory, jobs):
        """A copy of the tracked files."""
        made = cls(os.path.join(directory, "tree"), os.path.join(directory, "build"), jobs)
        tracked = run(["git", "-C", ROOT, "ls-files", "-z"], check=True).stdout.split("\0")
        kept = {name for name in tracked if name and os.path.isfile(os.path.join(ROOT, name))}
        for name in kept:
            cls.copy(os.path.join(ROOT, name), os.path.join(made.tree, name))
        for folder, _, files in os.walk(made.tree):
            for file in files:
                path = os.path.join(folder, file)
                if os.path.relpath(path, made.tree) not in kept:
                    os.remove(path)
        for name in (".cache", "../shared"):  # what some tests read and are skipped without
            source = os.path.normpath(os.path.join(ROOT, name))
            target = os.path.normpath(os.path.join(made.tree, name))
            if os.path.exists(source) and not os.path.lexists(target):
                os.symlink(source, target)
        if not os.path.exists(os.path.join(made.build, "build.ninja")):
            # A fault may leave a variable unused: no warnings.
            command = ["cmake", "-S", made.tree, "-B", made.build, "-G", "Ninja"]
            run([*command, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS=-w"], check=True)
        return made

    @staticmethod
    def copy(source, target):
        """Leaves a file alone that is the same, so that nothing is built again for it."""
        with open(source, "rb") as file:
            wanted = file.read()
        if os.path.exists(target):
            with open(target, "rb") as file:
                if file.read() == wanted:
                    return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(wanted)
        shutil.copymode(source, target)

    def make(self, targets):
        done = run(["cmake", "--build", self.build, "--parallel", str(self.jobs), "--target", *targets])
        return done.returncode == 0, done.stdout

    def program(self, name):
        for folder, _, files in os.walk(self.build):
            if name in files:
                return os.path.join(folder, name)
        sys.exit(f"[mutate] no program {name} in {self.build}")

    def first_failure(self, test, limit):
        """The name of the test that fails in "PROGRAM[:FILTER]", or None."""
        name, _, only = test.partition(":")
        command = [self.program(name), "--gtest_fail_fast", "--gtest_color=no"]
        command += [f"--gtest_filter={only}"] if only else []
        try:
            done = run(command, cwd=self.tree, timeout=limit, env={**os.environ, "OMP_WAIT_POLICY": "passive"})
        except subprocess.TimeoutExpired:
            return f"{name}: ran past the limit"
        output = done.stdout
        if only and " 0 tests from " in output:
            sys.exit(f"[mutate] no test matches {test}")
        if done.returncode == 0:
            return None
        failed = re.findall(r"^\[  FAILED  \] ([^ ,]+)", output, re.M)
        if failed:
            return failed[0]
        begun = re.findall(r"^\[ RUN      \] (\S+)", output, re.M)
        return f"{begun[-1] if begun else name} (crash)"

    def outcome(self, mutant, limit):
        """What becomes of it. None: this way does not tell."""
        path = os.path.join(self.tree, mutant["file"])
        with open(path, encoding="utf-8") as file:
            original = file.read()
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(original.replace(mutant["old"], mutant["new"]))
            built, output = self.make(sorted({test.partition(":")[0] for test in mutant["tests"]}))
            if not built:
                error = re.search(r"error: .*", output)
                return {"outcome": DOES_NOT_BUILD, "by": error.group(0) if error else "the linker"}
            for test in mutant["tests"]:
                failure = self.first_failure(test, limit)
                if failure:
                    return {"outcome": KILLED, "by": failure}
            return {"outcome": LIVES, "by": ""}
        finally:
            with open(path, "w", encoding="utf-8") as file:
                file.write(original)


class Overlay(Tree):
    """Objects with the fault, in front of the libraries of a finished build; the sources stay as they are."""

    def __init__(self, build, scratch):
        super().__init__(ROOT, build, 1)
        self.scratch = scratch
        self.checked = {}  # (sources, tests): what fails without a fault, or None
        with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
            compiled = json.load(file)
        self.command_of = {}  # source: the command of the file that it is compiled in
        self.sources_of = {}  # object: its sources, several in a unity build
        for entry in compiled:
            words = shlex.split(entry["command"])
            sources = [entry["file"]]
            if os.path.basename(entry["file"]).startswith("unity_"):
                with open(entry["file"], encoding="utf-8") as chunk:
                    sources = re.findall(r'^#include "(.*)"', chunk.read(), re.M)
            self.sources_of[words[words.index("-o") + 1]] = sources
            for source in sources:
                self.command_of.setdefault(source, words)

    def sources_with(self, path):
        """The sources of libraries that have `path` in them: itself, or those that include this header."""
        if path in self.command_of:
            return [path]
        listing = run(["ninja", "-C", self.build, "-t", "deps"]).stdout
        found = []
        for block in listing.split("\n\n"):
            if f"    {path}\n" in block + "\n":
                found += self.sources_of.get(block.split(":")[0], [])
        name = os.path.relpath(path, os.path.join(ROOT, "src"))
        return sorted({source for source in found if not source.endswith(("_test.cc", "_bench.cc")) and self.includes(source, name)})

    def includes(self, source, name):
        """Whether the source has the header of this name, in one of its own headers too."""
        with open(source, encoding="utf-8") as file:
            own = set(re.findall(r'#include "(.*)"', file.read()))
        if name in own:
            return True
        paths = [os.path.join(ROOT, "src", header) for header in own]
        return any(path != source and os.path.exists(path) and self.includes(path, name) for path in paths)

    def compile(self, sources):
        objects = []
        for number, source in enumerate(sources):
            words = list(self.command_of[source])
            target = words[words.index("-o") + 1] = os.path.join(self.scratch, f"{number}.o")
            in_overlay = os.path.join(self.scratch, os.path.relpath(source, os.path.join(ROOT, "src")))
            words[words.index("-c") + 1] = in_overlay if os.path.exists(in_overlay) else source
            done = run([words[0], "-w", f"-I{self.scratch}", *words[1:]], cwd=self.build)
            if done.returncode != 0:
                return None, done.stdout
            objects.append(target)
        return objects, ""

    def link(self, target, objects, output):
        target = os.path.relpath(self.program(target), self.build)
        command = run(["ninja", "-C", self.build, "-t", "commands", target], check=True).stdout.strip().split("\n")[-1]
        words = shlex.split(command.removeprefix(": && ").removesuffix(" && :"))
        at = words.index("-o")
        words[at + 1] = output
        # Of a symbol that is defined twice the first is taken.
        done = run([*words[:at], "-Wl,-z,muldefs", "-o", output, *objects, *words[at + 2 :]], cwd=self.build)
        return "" if done.returncode == 0 else f"{target} does not link: {done.stdout[-2000:]}"

    def failure_with(self, sources, tests, limit):
        """Compiles what stands in the overlay: whether it compiles, and what fails then."""
        objects, output = self.compile(sources)
        if objects is None:
            return False, output
        for test in tests:
            name = test.partition(":")[0]
            programs = [name, "shoehorn"] if name == "cross_room_test" else [name]
            originals = [self.program(program) for program in programs]
            try:
                for program, original in zip(programs, originals):
                    linked = os.path.join(self.scratch, "linked")
                    if error := self.link(program, objects, linked):
                        return False, error
                    os.rename(original, original + ".whole")
                    shutil.move(linked, original)
                if failure := self.first_failure(test, limit):
                    return True, failure
            finally:
                for original in originals:
                    if os.path.exists(original + ".whole"):
                        os.replace(original + ".whole", original)
        return True, None

    def outcome(self, mutant, limit):
        path = os.path.join(ROOT, mutant["file"])
        sources = self.sources_with(path)
        if not sources or len(sources) > 8:
            print(f"{mutant['name']}: {mutant['file']} is in {len(sources)} files: needs another way")
            return None
        with open(path, encoding="utf-8") as file:
            original = file.read()
        copy = os.path.join(self.scratch, os.path.relpath(path, os.path.join(ROOT, "src")))
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        try:
            known = (*sources, *mutant["tests"])
            if known not in self.checked:
                self.checked[known] = self.failure_with(sources, mutant["tests"], limit)
            if self.checked[known] != (True, None):
                print(f"{mutant['name']}: fails without the fault: {self.checked[known][1][-300:]}")
                return None
            with open(copy, "w", encoding="utf-8") as file:
                file.write(original.replace(mutant["old"], mutant["new"]))
            built, failure = self.failure_with(sources, mutant["tests"], limit)
        finally:
            if os.path.exists(copy):
                os.remove(copy)
        if not built:
            error = re.search(r"error: .*", failure)
            return {"outcome": DOES_NOT_BUILD, "by": error.group(0) if error else "the linker"}
        return {"outcome": KILLED, "by": failure} if failure else None


def digest(mutant):
    return hashlib.sha256(json.dumps({key: mutant[key] for key in sorted(KEYS)}).encode()).hexdigest()


def report(mutants, results):
    """docs/mutants.md: the same for the same results."""
    cell = lambda text: " ".join(text.split()).replace("|", "\\|")
    known = [results[digest(mutant)] for mutant in mutants if digest(mutant) in results]
    counts = {outcome: sum(result["outcome"] == outcome for result in known) for outcome in (KILLED, LIVES, DOES_NOT_BUILD)}
    lines = [
        "# Mutants",
        "",
        "Faults that were put into the code on purpose, one at a time, and the test that noticed each. `make mutate` runs them",
        "(`scripts/mutate.py`; the faults are in `tests/mutants.toml`) and writes this page.",
        "",
        f"{len(mutants)} mutants: {counts[KILLED]} killed, {counts[LIVES]} live, {counts[DOES_NOT_BUILD]} do not build, "
        f"{len(mutants) - len(known)} not run.",
    ]
    for area in dict.fromkeys(mutant["area"] for mutant in mutants):
        lines += ["", f"## {area}", "", "| what was broken | file | noticed by |", "| --- | --- | --- |"]
        for mutant in (m for m in mutants if m["area"] == area):
            result = results.get(digest(mutant), {"outcome": "not run", "by": ""})
            noticed = f"`{result['by']}`" if result["outcome"] == KILLED else result["outcome"]
            if result["outcome"] == LIVES:
                noticed = f"**lives**: {mutant.get('reason', 'needs a test')}"
            lines.append(f"| {cell(mutant['name'])} | `{mutant['file']}` | {cell(noticed)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--continue", dest="keep", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--scratch", default=os.path.join(ROOT, "build-mutants"))
    parser.add_argument("--in-place", metavar="BUILD")
    parser.add_argument("--in-front-of", metavar="BUILD")
    parser.add_argument("--limit", type=float, default=600, help="seconds a test program may take")
    args = parser.parse_args()

    mutants = read_list()
    wrong = defects(mutants)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        sys.exit(2)
    memory = os.path.join(ROOT, RESULTS)
    with open(memory, encoding="utf-8") as file:
        results = json.load(file)
    page = os.path.join(ROOT, REPORT)
    if args.check:
        with open(page, encoding="utf-8") as file:
            if file.read() != report(mutants, results):
                sys.exit(f"[mutate] {REPORT} is not what {RESULTS} gives: run scripts/mutate.py --continue")
        if args.in_front_of and (missing := tests_that_are_not(mutants, Tree(ROOT, os.path.abspath(args.in_front_of), 1))):
            sys.exit("\n".join(missing))
        print(f"{len(mutants)} mutants apply")
        return

    results = {digest(mutant): results[digest(mutant)] for mutant in mutants if digest(mutant) in results}
    scratch = tempfile.TemporaryDirectory(prefix="shoehorn-mutants-")
    if args.in_front_of:
        tree = Overlay(os.path.abspath(args.in_front_of), scratch.name)
    elif args.in_place:
        tree = Tree(ROOT, os.path.abspath(args.in_place), args.jobs)
    else:
        tree = Tree.copied(args.scratch, args.jobs)
    chosen = [
        mutant
        for mutant in mutants
        if re.search(args.only, f"{mutant['area']}: {mutant['name']}") and not (args.keep and digest(mutant) in results)
    ]
    programs = sorted({test.partition(":")[0] for mutant in chosen for test in mutant["tests"]})
    built, output = tree.make(programs) if programs and not args.in_front_of else (True, "")
    if not built:
        sys.exit(output)
    for number, mutant in enumerate(chosen, 1):
        key = digest(mutant)
        result = tree.outcome(mutant, args.limit)
        if result is None:
            print(f"{number}/{len(chosen)} {mutant['name']}: not told this way", flush=True)
            continue
        results[key] = result
        print(f"{number}/{len(chosen)} {mutant['name']}: {result['outcome']} {result['by']}", flush=True)
        with open(memory, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1, sort_keys=True)
            file.write("\n")
    with open(page, "w", encoding="utf-8") as file:
        file.write(report(mutants, results))
    bad = [
        mutant["name"]
        for mutant in mutants
        if (result := results.get(digest(mutant)))
        and (result["outcome"] == DOES_NOT_BUILD or (result["outcome"] == LIVES) != ("reason" in mutant))
    ]
    if bad:
        sys.exit("[mutate] each needs a test, a reason, or a new text:\n" + "\n".join(bad))


if __name__ == "__main__":
    main()
