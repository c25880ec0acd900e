#!/usr/bin/env python3
"""Runs the tests of a build: its GoogleTest programs, and what else is registered with CTest.

  [TEST_PROCESSES=N] [TEST_SECONDS=S] scripts/run_tests.py BUILD_DIR [SANITIZED_BUILD_DIR]

Each program's tests are dealt out into shares. Shares of all programs stand in one queue, the largest programs first, and
as many run at a time as there are processors. Prints a line as a program ends, with the seconds of its shares together and
the output of its tests that failed; in the end the tests of BUILD_DIR that took longest, why a test was skipped, what a
failed one said first, and the sum: "N passed, N failed, N skipped".

Threads that wait give their processor up (OMP_WAIT_POLICY=passive unless it is set): several programs share them here.
A share that has not ended after TEST_SECONDS (1,800) is ended, and the test that it was at has failed.
The programs found in SANITIZED_BUILD_DIR are run too; their tests are the same ones, so only failures count there.
A folder without test programs is a failure, and so is a program that ends without GoogleTest's summary.
Exit: 0; 1 if anything failed.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

SHARES_PER_PROCESS = 2
LINES_SHOWN = 80  # of what one failed test printed
WORDS_OF_A_FAILURE = 300  # characters
SLOWEST_SHOWN = 12  # tests


@dataclasses.dataclass
class Result:
    """Of a test program, a share of it, or a test of CTest."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0
    shown: list = dataclasses.field(default_factory=list)  # lines of tests that failed
    reasons: list = dataclasses.field(default_factory=list)  # "TEST: why it was skipped"
    failures: list = dataclasses.field(default_factory=list)  # "TEST: what it said first"
    test_seconds: list = dataclasses.field(default_factory=list)  # (seconds, test), of those that ended

    def add(self, other):
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def shortened(lines):
    if len(lines) <= LINES_SHOWN:
        return lines
    half = LINES_SHOWN // 2
    return [*lines[:half], f"… {len(lines) - 2 * half} lines …", *lines[-half:]]


def reason_of(lines):
    """Why a test was skipped: what it printed behind "FILE:LINE: Skipped"."""
    at = next((i for i, line in enumerate(lines) if line.endswith(": Skipped")), len(lines))
    return " ".join(line for line in lines[at + 1:] if line) or "NO REASON GIVEN"


def first_words(lines):
    """What GoogleTest said first of a failure, in a line."""
    at = next((i for i, line in enumerate(lines) if line.endswith(" Failure")), None)
    if at is None:
        return "ended the program"
    words = [lines[at].rsplit("/", 1)[-1], *[line for line in lines[at + 1:] if line and not line.startswith("[")][:5]]
    return " | ".join(words)[:WORDS_OF_A_FAILURE]


def googletest_result(program, log, code):
    """What a share of a GoogleTest program printed, and the exit code that it ended with."""
    result = Result()
    counts = {}
    test, lines = None, []

    def fail():
        result.shown += shortened(lines)
        result.failures.append(f"{test}: {first_words(lines)}")

    for line in log.splitlines():
        if summary := re.match(r"\[  (PASSED|SKIPPED|FAILED) +\] (\d+) tests?[.,]", line):
            counts[summary[1]] = int(summary[2])
        elif started := re.match(r"\[ RUN      \] (\S+)", line):
            test, lines = started[1], [line]
        elif test is not None:
            lines.append(line)
            if ended := re.match(rf"\[[ A-Z]+\] {re.escape(test)}.* \((\d+) ms\)$", line):
                result.test_seconds.append((int(ended[1]) / 1000, test))
            if re.match(r"\[  FAILED  \] \S+ .*\(\d+ ms\)$", line):
                fail()
            elif line.startswith("[  SKIPPED ]"):
                result.reasons.append(f"{test}: {reason_of(lines[:-1])}")
            elif not line.startswith("[       OK ]"):
                continue
            test = None
        elif line.strip() and not re.match(r"\[[-=]+\]|\[  (SKIPPED|FAILED) +\]|Running main\(\)|Note: ", line):
            result.shown.append(line)  # of a sanitizer, as the program ends
    result.passed = counts.get("PASSED", 0)
    result.failed = counts.get("FAILED", 0)
    result.skipped = counts.get("SKIPPED", 0)
    # A crash, an early exit, or a sanitizer's report at the end leaves no failed test behind.
    if result.failed == 0 and (code != 0 or "PASSED" not in counts):
        result.failed = 1
        if test is not None:
            fail()
        has = "a" if "PASSED" in counts else "no"
        result.shown.append(f"{program}: ended with code {code} and {has} summary of its tests")
        if not result.failures:
            result.failures.append(result.shown[-1])
    if result.failed == 0:
        result.shown = []
    return result


def ctest_result(name, log, code):
    """What CTest printed of one test. A script that is skipped prints "skipped: REASON"."""
    if re.search(rf"Test +#\d+: {re.escape(name)} .*\*\*\*Skipped", log):
        reason = re.search(r"^\d+: skipped: (.*)$", log, re.MULTILINE)
        return Result(skipped=1, reasons=[f"{name}: {reason[1] if reason else 'NO REASON GIVEN'}"])
    if code == 0 and (passed := re.search(rf"Test +#\d+: {re.escape(name)} .* Passed +([\d.]+) sec", log)):
        return Result(passed=1, test_seconds=[(float(passed[1]), name)])
    how = re.search(rf"Test +#\d+: {re.escape(name)} .*\*\*\*([^\d]*)", log)
    return Result(failed=1, shown=log.splitlines(),
                  failures=[f"{name}: {how[1].strip() if how else f'ctest ended with code {code}'}"])


class Processes:
    """Runs programs to their end or their limit, or until all are stopped. Safe for threads."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.running = set()
        self.is_stopped = False

    def finish(self, command, environment):
        """What it printed and its exit code."""
        with tempfile.TemporaryFile() as log:
            # A session of its own: what it started ends with it.
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                       env={**os.environ, **environment})
            self.running.add(process)
            if self.is_stopped:
                self.end(process)
            try:
                process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                self.end(process)
                log.write(f"\nexpected an end within {self.seconds} s (TEST_SECONDS), got none\n".encode())
            self.running.discard(process)
            log.seek(0)
            return log.read().decode(errors="replace"), process.returncode

    @staticmethod
    def end(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self):
        self.is_stopped = True
        for process in list(self.running):
            self.end(process)


class Group:
    """What one line is printed of: a program, or all of CTest's other tests."""

    def __init__(self, name, counts_passed, parts):
        self.name = name
        self.counts_passed = counts_passed
        self.parts_left = parts
        self.result = Result()


def test_programs(folder):
    """Executable files *_test, the largest first."""
    found = []
    for place, _, names in os.walk(folder):
        paths = [os.path.join(place, name) for name in names if name.endswith("_test")]
        found += [path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)]
    return sorted(found, key=lambda path: (-os.path.getsize(path), path))


def other_tests(build, programs):
    """Names of CTest's tests that are none of the programs."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True)
    tests = json.loads(listed.stdout)["tests"] if listed.returncode == 0 else []
    real = {os.path.realpath(program) for program in programs}
    return [test["name"] for test in tests if os.path.realpath(test.get("command", [""])[0]) not in real]


def parts_of(folder, counts_passed, processes, runner):
    """(group, function that runs a part of it) of each program, and of the other tests where they count."""
    programs = test_programs(folder)
    parts = []
    if counts_passed and (names := other_tests(folder, programs)):
        group = Group("other tests", counts_passed, len(names))
        for name in names:
            def run_other(name=name):
                command = ["ctest", "--test-dir", folder, "--tests-regex", f"^{re.escape(name)}$", "--verbose"]
                return ctest_result(name, *runner.finish(command, {}))
            parts.append((group, run_other))
    shares = processes * SHARES_PER_PROCESS if processes > 1 else 1
    for program in programs:
        group = Group(program, counts_passed, shares)
        for share in range(shares):
            def run_share(program=program, share=share):
                environment = {"GTEST_TOTAL_SHARDS": str(shares), "GTEST_SHARD_INDEX": str(share)}
                return googletest_result(program, *runner.finish([program, "--gtest_color=no"], environment))
            parts.append((group, run_share))
    return parts


def timed(run):
    start = time.monotonic()
    result = run()
    result.seconds = time.monotonic() - start
    return result


def lines_of_slowest(test_seconds):
    return [f"{seconds:5.1f} s {test}" for seconds, test in sorted(test_seconds, reverse=True)[:SLOWEST_SHOWN]]


def tell(group):
    result = group.result
    for line in result.shown:
        print(f"  | {line}")
    print(f"{group.name}: {result.passed} passed, {result.failed} failed, {result.skipped} skipped "
          f"({result.seconds:.0f} s)", flush=True)


def run_all(folders, processes, seconds):
    """The sum over all."""
    runner = Processes(seconds)
    total = Result()
    parts = []
    for place, folder in enumerate(folders):
        if not test_programs(folder):
            print(f"{folder}: expected test programs (*_test), got none; build them first", file=sys.stderr)
            total.failed += 1
        parts += parts_of(folder, place == 0, processes, runner)
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        groups = {pool.submit(timed, run): group for group, run in parts}
        try:
            for done in concurrent.futures.as_completed(groups):
                group = groups[done]
                group.result.add(done.result())
                group.parts_left -= 1
                if group.parts_left > 0:
                    continue
                tell(group)
                if not group.counts_passed:
                    group.result.passed = group.result.skipped = 0
                    group.result.reasons = []
                    group.result.test_seconds = []
                total.add(group.result)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            runner.stop()
            raise
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="BUILD_DIR")
    options = parser.parse_args()
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # which ends the running programs
    processes = int(os.environ.get("TEST_PROCESSES") or len(os.sched_getaffinity(0)))
    total = run_all(options.folders, processes, int(os.environ.get("TEST_SECONDS") or 1800))
    if total.passed == 0:
        print(f"{options.folders[0]}: expected tests that pass, got none", file=sys.stderr)
        total.failed += 1
    for title, lines in (("slowest:", lines_of_slowest(total.test_seconds)), ("skipped:", sorted(total.reasons)),
                         ("failed:", sorted(total.failures))):
        if lines:
            print("\n  ".join([title, *lines]))
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 0 if total.failed == 0 else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
