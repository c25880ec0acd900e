#!/usr/bin/env python3
"""kill -9 of ranks at many random instants: a build's own tests, with more kills than they have in `make test`.

  bench/rank_kills.py [--hosts] [--kills 30] [--json FILE]

CliRankKill.TheRunGoesOnAsIfNothingHadHappened kills a rank at a time, from the start of the processes on, and with --hosts
SeveralHosts.GoOnAfterKillsAtRandomInstants the one of the second of two hosts, which are namespaces joined by a link. Each time the
other ranks must end within ten seconds, no checkpoint that is not whole may be taken for one, and the run that goes on must end with
the weights of the run that was never killed, bit for bit.
Exit: 0 all of it held, 1 something did not, 2 nothing could be run.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

import compare

# The test, its program, and the variable that says how many kills.
TESTS = {
    False: ("CliRankKill.TheRunGoesOnAsIfNothingHadHappened", "cross_room_test", "SHOEHORN_RANK_KILLS"),
    True: ("SeveralHosts.GoOnAfterKillsAtRandomInstants", "mpi_test", "SHOEHORN_HOST_KILLS"),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--hosts", action="store_true", help="on two hosts")
    parser.add_argument("--tests", default=str(compare.HERE.parent / "build/tests"), help="where the test programs are")
    parser.add_argument("--timeout_seconds", type=float, default=1800)
    parser.add_argument("--json", metavar="FILE", help="- for standard output")
    return parser.parse_args()


def result_of(report, name, kills):
    """What GoogleTest's report in JSON says of the one test."""
    [suite] = report["testsuites"]
    [test] = suite["testsuite"]
    if test["result"] == "SKIPPED":
        raise compare.CompareError(f"{name} was skipped: " + " ".join(one.get("message", "") for one in test.get("skipped", [])))
    return {
        "kills": kills, "runs_that_ended_before": int(test["finished_between"]) if "finished_between" in test else None,
        "seconds": float(test["time"].rstrip("s")), "failures": [one["failure"] for one in test.get("failures", [])],
    }  # fmt: skip


def main():
    args = parse_arguments()
    with tempfile.TemporaryDirectory() as directory:
        report = pathlib.Path(directory) / "report.json"
        name, program, variable = TESTS[args.hosts]
        words = [str(pathlib.Path(args.tests) / program), f"--gtest_filter={name}", f"--gtest_output=json:{report}"]
        try:
            compare.run_process(words, {**os.environ, variable: str(args.kills)}, args.timeout_seconds)
        except compare.CompareError:
            if not report.exists():  # else the test has failed, and says so there
                raise
        result = result_of(json.loads(report.read_text(encoding="utf-8")), name, args.kills)
    if args.json:
        compare.write_json(args.json, result)
    if args.json != "-":
        print(f"{result['kills']} kills in {result['seconds']:.0f} s, {len(result['failures'])} failures")
    for failure in result["failures"]:
        print(failure, file=sys.stderr)
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    compare.run_main(main)
