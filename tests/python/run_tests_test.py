#!/usr/bin/env python3
"""scripts/run_tests.py counts every failure once, those included that leave no failed test behind, and says of each what
it said first, why a test was skipped, and which took longest."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "run_tests.py"

PROGRAMS = {
    "passes": 'echo "[  PASSED  ] 2 tests."',
    "fails": 'echo "[  PASSED  ] 1 test."; echo "[  FAILED  ] 3 tests, listed below:"; exit 1',
    "crashes": 'echo "[ RUN      ] A.B"; kill -SEGV $$',
    "leaves": 'echo "[ RUN      ] A.B"; exit 0',
    "leaks": 'echo "[  PASSED  ] 2 tests."; echo "ERROR: a leak"; exit 23',
    "hangs": 'echo "[ RUN      ] A.Hangs"; sleep 60',
    # Each share of four passes as many as its number and one; the last one crashes in half_crashes.
    "shares": 'echo "[  PASSED  ] $((GTEST_SHARD_INDEX + 1)) tests."; [ "$GTEST_TOTAL_SHARDS" -eq 4 ]',
    "half_crashes": '[ "$GTEST_SHARD_INDEX" -lt 3 ] || kill -SEGV $$; echo "[  PASSED  ] 5 tests."',
    "tells": """cat <<'LOG'
[ RUN      ] Suite.IsSkipped
/a/b_test.cc:12: Skipped
no processor
with tiles

[  SKIPPED ] Suite.IsSkipped (0 ms)
[ RUN      ] All/Suite.Fails/0
what it prints
/a/b_test.cc:15: Failure
Expected equality of these values:
  one
  two
[  FAILED  ] All/Suite.Fails/0, where GetParam() = "a" (b) (3 ms)
[ RUN      ] Suite.Passes
what nobody wants to see
[       OK ] Suite.Passes (2100 ms)
[  PASSED  ] 1 test.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Suite.IsSkipped
[  FAILED  ] 1 test, listed below:
[  FAILED  ] All/Suite.Fails/0, where GetParam() = "a" (b)
LOG
exit 1""",
}

# Of CTest: the program itself, which is not run twice, and a script of each kind, one with a program's name.
CTEST = """\
add_test(some_test "{folder}/some_test")
add_test(passing_test "true")
add_test(failing "false")
add_test(skipping "sh" "-c" "echo skipped: no browser; exit 77")
set_tests_properties(skipping PROPERTIES SKIP_RETURN_CODE 77)
"""


def make(directory, name, script, ctest=""):
    folder = directory / name
    folder.mkdir()
    (folder / "CTestTestfile.cmake").write_text(ctest.format(folder=folder))
    program = folder / "some_test"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def run(directory, folders, processes=1, seconds=1800):
    done = subprocess.run([SCRIPT, *folders], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "TEST_PROCESSES": str(processes), "TEST_SECONDS": str(seconds)})
    return done.returncode, done.stdout


def expect(directory, code, last_line, folders, *lines, **settings):
    """The exit code, the last line and other lines of a run on these folders."""
    got_code, output = run(directory, folders, **settings)
    got = output.splitlines()
    missing = [line for line in lines if line not in got]
    if got_code != code or got[-1:] != [last_line] or missing:
        sys.exit(f"{output}\n{folders}: expected exit code {code}, the last line {last_line!r} and the lines {missing}, "
                 f"got exit code {got_code}")
    return output


def main():
    with tempfile.TemporaryDirectory() as place:
        directory = pathlib.Path(place)
        for name, script in PROGRAMS.items():
            make(directory, name, script)
        make(directory, "registers", PROGRAMS["passes"], CTEST)
        (directory / "empty").mkdir()

        expect(directory, 0, "2 passed, 0 failed, 0 skipped", ["passes"])
        expect(directory, 0, "2 passed, 0 failed, 0 skipped", ["passes", "passes"])
        expect(directory, 1, "1 passed, 3 failed, 0 skipped", ["fails"])
        expect(directory, 1, "2 passed, 1 failed, 0 skipped", ["leaks"], "  | ERROR: a leak",
               "  leaks/some_test: ended with code 23 and a summary of its tests")
        for folder in ("crashes", "leaves", "leaks", "empty", "absent"):
            expect(directory, 1, "2 passed, 1 failed, 0 skipped", ["passes", folder])
        expect(directory, 1, "2 passed, 3 failed, 0 skipped", ["passes", "fails"])
        for folder in ("crashes", "leaves"):  # it, and that there is nothing that passed
            expect(directory, 1, "0 passed, 2 failed, 0 skipped", [folder], "  A.B: ended the program")
        expect(directory, 1, "2 passed, 1 failed, 0 skipped", ["passes", "hangs"],
               "  | expected an end within 1 s (TEST_SECONDS), got none", "  A.Hangs: ended the program", seconds=1)

        # Each share is counted; one that crashes hides nothing of the others.
        expect(directory, 0, "10 passed, 0 failed, 0 skipped", ["shares"], processes=2)
        expect(directory, 1, "15 passed, 1 failed, 0 skipped", ["half_crashes"], processes=2)

        output = expect(directory, 1, "1 passed, 1 failed, 1 skipped", ["tells"],
                        "  Suite.IsSkipped: no processor with tiles", "  | what it prints",
                        "  All/Suite.Fails/0: b_test.cc:15: Failure | Expected equality of these values: |   one |   two")
        if "slowest:\n    2.1 s Suite.Passes\n    0.0 s All/Suite.Fails/0\n" not in output:
            sys.exit(f"{output}\nexpected the tests by their time, the slowest first")
        if "what nobody wants to see" in output:
            sys.exit(f"{output}\nexpected nothing of a test that passed")

        # Who ends the script ends what it runs.
        make(directory, "waits", f"echo $$ > {directory}/started; exec sleep 60")
        script = subprocess.Popen([SCRIPT, "waits"], cwd=directory, stdout=subprocess.DEVNULL)
        started = directory / "started"
        while not started.exists() or not started.read_text().endswith("\n"):
            time.sleep(0.05)
        script.terminate()
        if script.wait() != 143:
            sys.exit(f"expected exit code 143 behind SIGTERM, got {script.returncode}")
        if os.path.exists(f"/proc/{started.read_text().strip()}"):
            sys.exit("expected the running program to end with the script, it goes on")

        expect(directory, 1, "3 passed, 1 failed, 1 skipped", ["registers"], "  skipping: no browser", "  failing: Failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
