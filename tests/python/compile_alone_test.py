#!/usr/bin/env python3
"""cmake/compiled_together.cmake and scripts/compile_alone.sh, on a small project: sources are compiled together as the first
configuration of a build folder decided, one that is worked on alone, and no other group changes."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROJECT = """\
cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
include(cmake/compiled_together.cmake)
file(GLOB sources CONFIGURE_DEPENDS room/*.cc)
add_library(room STATIC ${sources})
shoehorn_compile_together(room 2)
"""


class Project:
    def __init__(self, directory):
        self.root = directory / "tree"
        self.build = directory / "build"
        for name in ("cmake/compiled_together.cmake", "scripts/compile_alone.sh"):
            (self.root / name).parent.mkdir(parents=True)
            shutil.copy(ROOT / name, self.root / name)
        (self.root / "CMakeLists.txt").write_text(PROJECT)
        (self.root / "room").mkdir()
        for name in "abcde":
            self.write(name, 0)

    def write(self, name, value):
        (self.root / "room" / f"{name}.cc").write_text(f"int {name}() {{ return {value}; }}\n")

    def run(self, *command):
        done = subprocess.run([str(word) for word in command], cwd=self.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(f"{command}: {done.stdout}")
        return done.stdout

    def git(self, *words):
        self.run("git", "-c", "user.name=a", "-c", "user.email=a@b", *words)

    def compiled(self, unity="ON"):
        """A build as `make` makes it: what it compiles, in alphabetical order, "ab" for two together."""
        if not (self.build / "build.ninja").exists():
            self.run("cmake", "-S", ".", "-B", self.build, "-G", "Ninja", f"-DCMAKE_UNITY_BUILD={unity}")
        self.run("scripts/compile_alone.sh", self.build)
        output = self.run("cmake", "--build", self.build, "--verbose")
        found = []
        for source in re.findall(r" -c (\S+\.(?:cc|cxx))", output):
            included = re.findall(r'#include "\S*/(\w+)\.cc"', pathlib.Path(source).read_text())
            found.append("".join(included) or pathlib.Path(source).stem)
        return sorted(found)

    def expect(self, what, *wanted, **settings):
        got = self.compiled(**settings)
        if got != list(wanted):
            sys.exit(f"{what}: expected {list(wanted)} to be compiled, got {got}")


def main():
    if not shutil.which("git"):
        print("skipped: no git")
        return 77
    with tempfile.TemporaryDirectory() as place:
        # No repository above the temporary folder is taken for the project's.
        os.environ["GIT_CEILING_DIRECTORIES"] = str(pathlib.Path(place).resolve())
        project = Project(pathlib.Path(place))
        project.expect("without a repository", "ab", "cd", "e")
        project.write("a", 1)
        project.expect("a change without a repository", "ab")

        project.git("init", "--quiet")
        project.git("add", ".")
        project.git("commit", "--quiet", "--message=all")
        project.expect("nothing differs")
        project.write("c", 1)
        project.expect("the first change of c", "c", "d")
        project.write("c", 2)
        project.expect("the second change of c", "c")
        project.git("commit", "--quiet", "--all", "--message=c")
        project.expect("a commit")
        project.write("c", 3)
        project.expect("a change after the commit", "c")
        project.write("aa", 0)
        project.expect("a new source", "aa")
        project.git("add", ".")
        project.git("commit", "--quiet", "--all", "--message=aa")
        project.expect("the new source's commit")
        (project.root / "room/aa.cc").unlink()
        project.git("commit", "--quiet", "--all", "--message=no aa")
        project.expect("the new source is gone")
        (project.root / "room/b.cc").unlink()
        project.expect("an old source is gone", "a")

        (project.build / "compiled_together.txt").unlink()
        project.expect("grouped anew", "ac", "de")
        shutil.rmtree(project.build)
        project.expect("each alone", "a", "c", "d", "e", unity="OFF")
    return 0


if __name__ == "__main__":
    sys.exit(main())
