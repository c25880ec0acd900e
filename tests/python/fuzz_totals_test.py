#!/usr/bin/env python3
"""What scripts/fuzz.py counts: a reader's total is that of all its codes, in this folder and recorded, and recording
loses nothing of it. No fuzzer runs.

  tests/python/fuzz_totals_test.py
"""

import argparse
import json
import pathlib
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

import fuzz  # noqa: E402


def turn(inputs, cpu_seconds=10.0, edges=0):
    return types.SimpleNamespace(inputs=inputs, cpu_seconds=cpu_seconds, edges=edges, slowest_seconds=0, peak_mb=0, findings=0)


class FuzzTotals(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.here = pathlib.Path(folder, "totals.json")
        self.record = pathlib.Path(folder, "record.json")
        self.options = argparse.Namespace(build=folder, seconds=None, runs=1000, cpu_seconds=100.0, slice=60, max_len=None)

    def totals(self):
        return fuzz.Totals(str(self.here), str(self.record))

    def fuzzer(self, code="new"):
        return fuzz.Fuzzer(self.options, self.totals(), {"csv": code})

    def test_a_change_of_the_code_begins_no_total_anew(self):
        totals = self.totals()
        totals.add("csv", "old", turn(600, edges=900))
        totals.add("csv", "new", turn(100, edges=50))
        fuzzer = self.fuzzer()
        self.assertEqual(fuzzer.goal_left("csv"), (300, 60))
        self.assertEqual(totals.with_code("csv", "new")["inputs"], 100)
        # Edges of another program are no measure of this one's.
        self.assertEqual(fuzzer.covered("csv"), 50)
        self.assertAlmostEqual(fuzzer.progress("csv"), 0.7)
        self.assertFalse(fuzzer.is_done("csv"))
        totals.add("csv", "newer", turn(300))
        self.assertTrue(self.fuzzer("newer").is_done("csv"))

    def test_the_last_turn_is_long_enough_to_be_counted(self):
        totals = self.totals()
        totals.add("csv", "new", turn(999))
        self.assertEqual(self.fuzzer().goal_left("csv"), (fuzz.FEWEST_INPUTS, 60))
        totals.add("csv", "new", turn(1))
        self.assertTrue(self.fuzzer().is_done("csv"))

    def test_an_input_that_waited_for_a_processor_is_no_finding(self):
        # The second waits while the corpus is read, before any input is counted.
        for seconds, inited, findings in ((0, "INITED", 0), (0, "READ", 0), (1.3, "INITED", 1)):
            folder = pathlib.Path(self.options.build, "fuzz")
            for name in ("findings/csv", "corpus/csv"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            program = folder / "csv_fuzz"
            # As libFuzzer does: with options it leaves what took too long; with a file it runs that alone.
            program.write_text(
                f"""#!{sys.executable}
import sys, time
if not sys.argv[1].startswith("-"):
    while time.process_time() < {seconds}:
        pass
    sys.exit(0)
prefix = next(word for word in sys.argv if word.startswith("-artifact_prefix=")).partition("=")[2]
open(prefix + "timeout-0", "w").close()
print("#2\\t{inited}")
print("stat::number_of_executed_units: 500")
sys.exit(70)
""",
                encoding="utf-8",
            )
            program.chmod(0o755)
            fuzzer = self.fuzzer(f"took {seconds} {inited}")
            fuzzer.take_turn("csv", None, 60)
            self.assertEqual(fuzzer.findings["csv"], findings)
            self.assertEqual(len(fuzzer.found("csv")), findings)

    def test_hours_of_all_codes_are_enough_as_well(self):
        totals = self.totals()
        totals.add("csv", "old", turn(1, cpu_seconds=60.0))
        totals.add("csv", "new", turn(1, cpu_seconds=40.0))
        self.assertTrue(self.fuzzer().is_done("csv"))

    def test_recording_loses_nothing(self):
        for codes, inputs in (("first", 1), ("second", 20), ("third", 300)):
            totals = self.totals()
            totals.add("csv", codes, turn(inputs))
            totals.record({"csv": codes})
        rows = json.loads(self.record.read_text())["csv"]
        self.assertEqual({key: row["inputs"] for key, row in rows.items()}, {"third": 300, fuzz.EARLIER: 21})
        self.assertEqual(json.loads(self.here.read_text()), {})
        self.assertEqual(self.totals().of("csv")["inputs"], 321)
        # Recorded again, and with other readers asked for: the same.
        totals = self.totals()
        totals.record({"csv": "third", "tsv": "x"})
        self.assertEqual(self.totals().of("csv")["inputs"], 321)


if __name__ == "__main__":
    unittest.main()
