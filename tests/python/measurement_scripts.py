#!/usr/bin/env python3
"""Tests of the scripts in bench/ that make records and write the docs' figures; nothing is measured.

  tests/python/measurement_scripts.py
"""

import contextlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))

import campaign  # noqa: E402
import campaign_entries  # noqa: E402
import catalog_ladder  # noqa: E402
import compare  # noqa: E402
import compare_ranks  # noqa: E402
import drawn_settings  # noqa: E402
import epoch_time  # noqa: E402
import figures  # noqa: E402
import fit_choice  # noqa: E402
import loaded  # noqa: E402
import predict_times  # noqa: E402
import rank_kills  # noqa: E402
import records  # noqa: E402
import recompute_budget  # noqa: E402
import rising_budgets  # noqa: E402
import tables  # noqa: E402

BUILD_PROGRAMS = campaign.build_programs
COMMIT = "0123456789" * 4
ENVIRONMENT = {"cpu": "Fast 9000", "isa": "AVX2", "threads": 2, "products": "library 1", "fp32_flops": 2e11, "bf16_flops": 4e11}


def record(name, output_list, environment=None):
    return {
        "format": 1,
        "name": name,
        "commit": COMMIT,
        "command": f"measure {name}",
        "environment": environment or ENVIRONMENT,
        "versions": None,
        "started": None,
        "runs": [{"seconds": 1.0, "load_average": 0.1, "output": output} for output in output_list],
    }


def compared(ours, theirs):
    """An output of compare.py whose sides ran once at these samples a second."""
    run = lambda rate: {"samples_per_second": rate, "first_step_seconds": 2.0, "peak_bytes": 2**30, "limit_share": 0.5}
    return [{"runs": {"ours": [run(ours)], "theirs": [run(theirs)]}}]


def budget_row(budget, seconds, measured):
    planned = {"step_seconds": seconds, "process_peak_bytes": budget}
    return {"budget_bytes": budget, "flags": [], "predicted": planned, "measured": {"step_seconds": seconds, "process_peak_bytes": measured}}


def catalog_rung(setting, best, guides):
    speeds = {"best_samples_per_second": best, "guides_samples_per_second": guides}
    return {"setting": setting, "flags": [], **speeds, "planned_bytes": 2**30, "guides_bytes": 2**31}


def rung(name, seconds):
    side = {"samples_per_second": 4 / seconds, "step_seconds": seconds, "first_step_seconds": 3.0, "memory": {"training_bytes": 2**30}}
    theirs = {**side, "ran": "fp32: fp16 is skipped", "left_out": ["--optim_args", "embedding_bits=8"]}
    plan = {"peak_bytes": 2**30}
    return {"name": name, "setting": f"1 x 4, {name}", "plan": plan, "ours": {**side, "predicted_bytes": 2**30 + 2**20}, "theirs": theirs}


def google(*benchmarks):
    return {"context": {"num_cpus": 2}, "benchmarks": [{"name": name, **counters} for name, counters in benchmarks]}


def quality():
    seeds = [{"eval_accuracy": 0.7, "eval_loss": 0.6, "train_runtime": 3.0, "memory_process_measured_bytes": 2**28}] * 2
    equals = {"name": "reference", "is_every_bit": True, "first_steps": 0.0}
    names = ("reference", {}), ("checkpointing", {"equals": equals}), ("sgd", {"loses_accuracy": True})
    return {"rungs": [{"name": name, "setting": name, "runs": seeds, **more} for name, more in names]}


def anatomy():
    whole = {"seconds": 2.0, "floor_seconds": 1.0}
    return {"operations": {"classes": {"optimizer": whole}, "total": whole}, "memory": {"unexplained_bytes": -(2**20)}}


def example_output(name):
    """What an entry's command prints, as small as the figures allow."""
    if name.startswith(("step_", "text_")):
        return compared(2.0, 1.0)
    if name.startswith("character_gpt_"):
        run = {"train_seconds": 2.0, "peak_bytes": 2**20, "eval_loss": 2.5}
        return {"setting": name.split("_")[2], "steps": 20, "runs": {side: [run] for side in ("ours", "theirs")}}
    if name.startswith("llm_c_"):
        run = {"step_seconds": [1.0, 2.0, 3.0], "peak_bytes": 2**20, "limit_share": 0.8}
        return {"runs": {side: [run] for side in ("ours", "theirs")}}
    if name.startswith("vocabulary_loss_"):
        run = {"seconds": 2.0, "workspace_bytes": 2**20}
        return {"runs": {side: [run] for side in ("ours", "products", "linear", "reference", "chunked")}}
    if name.startswith(("ladder_", "lowest_")):
        return {"repeats": 1, "rungs": [rung(name, 2.0)]}
    if name.startswith("loaded_"):
        sides = ("ours", "theirs") if name == "loaded_bert_base" else ("ours", "spins_0", "spins_300000")
        run = {"samples_per_second": 2.0, "step_seconds": 0.5}
        runs = {side: {state: [run, run] for state in ("idle", "loaded")} for side in sides}
        return {"runs": runs, "of_the_share": {side: 0.9 for side in sides}}
    if name == "onednn_builds":
        runs = {side: [{"samples_per_second": 2.0, "peak_bytes": 2**20}] for side in ("first", "second")}
        library = {"first": {"products": "oneDNN 2"}, "second": {"products": "oneDNN 3"}}
        return {"env": library, "measurements": [{"setting": "fp32", "runs": runs}]}
    if name.startswith("plan_"):
        arenas = [{"name": "persistent", "bytes": 2**20}, {"name": "transient", "bytes": 2**21}]
        sizes = {"trainable_parameters": 7, "process_peak_bytes": 2**23, "planning_seconds": 0.1, "planning_peak_bytes": 2**22}
        return {"arenas": arenas, **sizes}
    if name.startswith("peak_"):
        peaks = {"memory_process_predicted_bytes": 2**30, "memory_process_measured_bytes": 2**30 - 2**20}
        return peaks
    if name.startswith("recompute_budget_"):
        settings = {"nothing": (5, 1.0), "half": (3, 1.1), "quarter": (2, 1.2), "every layer": (1, 1.3)}
        planned = {setting: mib * 2**20 for setting, (mib, _) in settings.items()}
        return {"planned_bytes": planned, "runs": {setting: [{"step_seconds": seconds}] for setting, (_, seconds) in settings.items()}}
    if name.startswith(("ranks_", "rank_share_")):
        run = {"samples_per_second": 2.0, "step_seconds": 2.0, "peak_bytes": 2**30, "predicted_peak_bytes": 2**30}
        return {"runs": {side: [run] for side in compare_ranks.SIDES}}
    if name.startswith("slow_link_gpt2"):
        run = {"outcome": "measured", "step_seconds": 10.0, "sent_bytes_in_step": 2**20, "messages_early_share": 0.8, "messages_hidden_share": 0.95}
        one = {"mode": "one process", "link": None, "predicted_step_seconds": None, "runs": [{"outcome": "failed", "reason": "no memory"}]}
        link = {"latency_seconds": 1e-3, "bytes_per_second": 1.25e8}
        return {"settings": [one, {"mode": "ddp", "link": link, "predicted_step_seconds": 9.5, "runs": [run]}]}
    if name == "parallel_gpt2":
        run = {"outcome": "measured", "sent_bytes_in_step": 2**20, "process_bytes": 2**30}
        speed = {"samples_per_second": {"median": 2.0, "low": 1.5, "high": 2.5}}
        link = {"latency_seconds": 1e-4, "bytes_per_second": 1.25e8}
        places = (("one process", None), ("ddp", None), ("dp", link))
        return {"settings": [{"mode": mode, "link": where, "runs": [run], **speed} for mode, where in places]}
    if name.startswith("quality_"):
        return quality()
    if name.startswith("anatomy_"):
        return anatomy()
    if name.startswith("tokenizer_family_"):
        compared_texts = {"texts": 1000, "differing": 0, "megabyte_seconds": 0.5, "megabyte_is_equal": True}
        return {"random_texts": 900, "seed": 1, "families": {name.removeprefix("tokenizer_family_"): compared_texts}}
    kills = {"kills": 30, "runs_that_ended_before": 2, "seconds": 80.0, "failures": []}
    if name.startswith("profile_"):
        return {"profile": {"steps": 4, "seconds": 2.0, "ops": [{"op": "matmul", "seconds": 1.5}, {"op": "rotary", "seconds": 0.001}]}}
    predicted_times = {"rows": [{"predicted": 1, "rounds": [{"predicted": 1.1, "measured": 1}]}]}
    choices_of_fit = {"budget_bytes": 2**30, "fastest": "8 × 1", "times": {"fit": 1.05, "fit --verify 3": 1.0}}
    rates = {"shoehorn": [30.0, 40.0, 50.0], "encode_batch": [1.0], "encode_batch_fast": [2.0]}
    counters = {f"{key}_{what}": 1.0 for _, key in figures.UPDATES for what in ("ms", "share", "of_adamw")}
    demo_lines = ["== What it will take", "== Training: x", "  scalar 1", "  by component", "    head 2", "  persistent arena 3"]
    saves = [(f"save_safetensors/MiB:{mib}/checksum:{on}/real_time", {"real_time": 10.0 + on}) for mib in (256, 1024) for on in (0, 1)]
    return {
        "limits": {**ENVIRONMENT, "bytes_per_second": 1e10, "arithmetic_peaks": [{"name": "FMA", "measured": True, "flops_all_threads": 1e11}]},
        "choices": {"repeats": 1, "rungs": [rung("batch_4", 2.0), rung("bf16", 1.0)]},
        "recompute": {"repeats": 1, "rungs": [rung("accumulation", 2.0), rung("checkpointing", 3.0)]},
        "data_wait": {"train_runtime": 5.0, "train_data_wait_share": 0.00001},
        "products": google(("forward/fp32/768/768/real_time", {"FLOP/s": 1e11}), ("forward/bf16/768/768/real_time", {"FLOP/s": 1e11})),
        "attention": google(("AttentionBench/Forward/T:512/real_time", {"real_time": 4.0, "flop/s": 1e10})),
        "updates": google(*((f"bench_updates_in_turns/{w}/iterations:21/real_time", counters) for w in (0, 1))),
        "checksum": google(*saves, ("checksum/real_time", {"bytes_per_second": 5e9})),
        "checksum_pairs": google(("save_pairs/MiB:256/iterations:101/real_time", {"times": 1.01, "times_low": 1.0, "times_high": 1.02})),
        "packing": google(("BM_pack_random/300/20", {"intervals": 300, "over_bound": 1.0, "real_time": 2.0})),
        "predict_times": predicted_times,
        "predict_times_decoders": predicted_times,
        "epoch_time": {"samples": 8, "rounds": {"batch 16": [{"predicted": 9.0, "measured": 10.0}]}},
        "drawn_settings": {"settings": [{"processes": [{"phase": "train", "planned_bytes": 2**28, "measured_bytes": 2**28 + 2**20}]}]},
        "rank_kills": kills,
        "host_kills": kills,
        "rising_budgets": {"budgets": [budget_row(2**30, 1.0, 2**29)]},
        "fit_choice": {"points": [{}, {}], "budgets": [choices_of_fit]},
        "fit_choice_gpt2": {"points": [{}, {}], "budgets": [choices_of_fit]},
        "catalog_ladder": {"machine": "v100", "rungs": [catalog_rung("batch 4", 16.0, 8.0), catalog_rung("fp16", 64.0, 16.0)]},
        "search_speed": {"cases": [{"name": "fit", "runs": [{"seconds": 2.0, "peak_bytes": 2**27}]}]},
        "tokenizer": [{"texts": "pairs", "threads": 1, "rates": rates}],
        "demo": {"seconds": 60.0, "lines": demo_lines, "results": {"train_runtime": 30.0, "eval_accuracy": 0.7}},
        "demo_lm": {"seconds": 90.0, "lines": demo_lines, "results": {"train_runtime": 70.0, "perplexity": 40.0}},
        "fresh_bookworm": {"seconds": 600},
        "fresh_trixie": {"seconds": 660},
    }[name]


class Medians(unittest.TestCase):
    def test_of_campaigns_and_not_of_runs(self):
        numbers = {"a": [1, 1, 1, 1, 1], "b": [5, 6, 7], "c": [8]}
        found = [{"campaign": campaign} for campaign in numbers]
        self.assertEqual(records.median_over_campaigns(found, lambda record: numbers[record["campaign"]]), 6)
        self.assertIsNone(records.median_over_campaigns(found, lambda record: [None]))

    def test_a_ratio_is_that_of_a_campaign(self):
        # The quotient of the medians would be 4 / 2: no campaign has seen it.
        sides = {"a": (1, 1), "b": (4, 4), "c": (9, 2)}
        found = [{"campaign": campaign} for campaign in sides]
        ratio = records.median_ratio_over_campaigns(found, lambda r: [sides[r["campaign"]][0]], lambda r: [sides[r["campaign"]][1]])
        self.assertEqual(ratio, 1)

    def test_the_name_of_a_machine(self):
        self.assertEqual(records.machine_of("2026-11-22-zen4-12"), "zen4")
        for wrong in ("zen4", "2026-11-22", "2026-11-22-Zen 4"):
            self.assertRaises(records.RecordError, records.machine_of, wrong)


class Tables(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        (self.root / "docs").mkdir()
        blocks = [f"<!-- figures: {figure.name} -->\n<!-- end of figures -->\n" for figure in figures.FIGURES]
        self.page = self.root / "docs/all.md"
        self.page.write_text("\n".join(blocks))
        (self.root / "README.md").write_text("# A page without figures\n")

    def put(self, campaign_name, name, *output_list, environment=None):
        path = self.root / "bench/results" / campaign_name / f"{name}.json"
        records.save(path, record(name, output_list, environment))
        return path

    def run_tables(self, *flags):
        """Exit code and all output."""
        command = [sys.executable, "-B", str(ROOT / "bench/tables.py"), "--root", str(self.root), *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def block(self, figure):
        return self.page.read_text().split(f"<!-- figures: {figure} -->")[1].split("<!-- end of figures -->")[0]

    def test_numbers_are_medians_over_campaigns(self):
        self.put("2026-01-01-box", "step_bert_base_fp32", compared(1.0, 1.0), compared(1.2, 1.0), compared(9.0, 1.0))
        self.put("2026-01-02-box", "step_bert_base_fp32", compared(3.0, 1.0))
        self.put("2026-01-02-box-2", "step_bert_base_fp32", compared(2.0, 1.0))
        self.assertEqual(self.run_tables()[0], 0)
        # 1.2, 3 and 2 are the campaigns' medians.
        self.assertIn("| BERT-base, fp32 | 5 / 3 | 2.000 | 1.000 | 2.00 |", self.block("step"))
        self.assertIn("`2026-01-02-box-2/step_bert_base_fp32.json`", self.block("step"))

    def test_machines_are_not_mixed(self):
        self.put("2026-01-01-box", "step_bert_base_fp32", compared(1.0, 1.0))
        self.put("2026-01-01-chest", "step_bert_base_fp32", compared(3.0, 1.0), environment={**ENVIRONMENT, "cpu": "Slow 1"})
        self.run_tables()
        box, chest = self.block("step").split("**chest**: Slow 1")
        self.assertIn("**box**: Fast 9000, 2 threads, AVX2, library 1", box)
        self.assertIn("| 1 / 1 | 1.000 |", box)
        self.assertIn("| 1 / 1 | 3.000 |", chest)

    def test_the_newest_campaign_is_the_one_that_began_last(self):
        # As names are sorted the other one would be the last.
        for campaign_name, seconds, started in (("2026-01-02-box", 1.0, "09:00"), ("2026-01-02-abacus", 2.0, "17:00")):
            path = self.put(campaign_name, "search_speed", {"cases": [{"name": "fit", "runs": [{"seconds": seconds, "peak_bytes": 2**27}]}]})
            records.save(path, {**json.loads(path.read_text()), "started": f"2026-01-02T{started}:00+00:00"})
        self.run_tables()
        self.assertIn("| fit | 2.00 (2.00) | 128 |", self.block("search_speed"))

    def test_of_each_machine_the_newest_campaign_is_shown(self):
        for campaign_name, cpu, seconds in (
            ("2026-01-01-box", "Fast 9000", 1.0), ("2026-01-02-box", "Fast 9000", 2.0), ("2026-01-03-chest", "Slow 1", 4.0),
        ):  # fmt: skip
            run = {"step_seconds": seconds, "sent_bytes_in_step": 0}
            setting = {"mode": "one process", "link": None, "predicted_step_seconds": seconds, "runs": [run]}
            self.put(campaign_name, "slow_link_gpt2", {"settings": [setting]}, environment={**ENVIRONMENT, "cpu": cpu})
        self.run_tables()
        box, chest = self.block("slow_link").split("**chest**: Slow 1")
        self.assertIn("| micro-batch by micro-batch | one process |  | 2.00 |", box)
        self.assertIn("`2026-01-02-box/slow_link_gpt2.json`", box)
        self.assertNotIn("2026-01-01", box)
        self.assertIn("| micro-batch by micro-batch | one process |  | 4.00 |", chest)

    def test_check_notices_a_changed_figure(self):
        path = self.put("2026-01-01-box", "step_bert_base_fp32", compared(2.5, 1.0))
        self.assertEqual(self.run_tables("--check")[0], 1)  # not written yet
        self.run_tables()
        self.assertEqual(self.run_tables("--check"), (0, f"{len(figures.FIGURES)} figures, 1 records\n"))
        written = self.page.read_text()
        self.page.write_text(written.replace("| 2.500 |", "| 2.600 |"))
        code, output = self.run_tables("--check")
        self.assertEqual(code, 1)
        self.assertIn("docs/all.md", output)
        self.assertIn("| 2.600 |", output)
        self.page.write_text(written)
        path.write_text(path.read_text().replace("2.5", "2.4"))
        self.assertEqual(self.run_tables("--check")[0], 1)

    def test_check_changes_nothing(self):
        before = self.page.read_text()
        self.run_tables("--check")
        self.assertEqual(self.page.read_text(), before)

    def test_a_missing_record_is_named(self):
        path = self.put("2026-01-01-box", "step_bert_base_fp32", compared(2.0, 1.0))
        self.run_tables()
        missing = "Not measured there: `step_bert_base_bf16`, `step_bert_large_fp32`, `step_bert_large_bf16`."
        self.assertIn(missing, self.block("step").replace("\n", " "))
        self.assertIn("Not measured yet (entries of `bench/campaign.py`): `tokenizer`.", self.block("tokenizer"))
        path.unlink()
        code, output = self.run_tables("--check")
        self.assertEqual(code, 1)
        self.assertIn("+Not measured yet (entries of `bench/campaign.py`): `step_bert_base_fp32`", output)

    def test_every_figure_can_be_written(self):
        for name in campaign_entries.NAMES:
            self.put("2026-01-01-box", name, example_output(name), example_output(name))
        code, output = self.run_tables()
        self.assertEqual(code, 0, output)
        text = self.page.read_text()
        self.assertNotIn("Not measured", text)
        self.assertNotIn("| 8-bit AdamW |", text, "no campaign has that rung")
        for expected in (
            "| 1 × 4, ladder_fp16 * | 2 / 1 | 2.000 | 2.000 | 1.00 | 1,024 | 1,024 | 1.00 | 1.0 | 3 | 3 |",
            "\\* The Trainer runs fp32: fp16 is skipped; or it runs without --optim_args embedding_bits=8.",
            "| bf16 | 2.00 | 1.00 | 1 |",
            "| the same, every layer recomputed | 3.00 | 1.50 |",
            "| beside two busy loops | 2.00 | 2.00 | 1.00 | 0.90 | 0.90 |",
            "| 300,000 spins | 0.5000 | 1.00 | 0.5000 | 1.00 |",
            "| pairs, 1 thread | 40 | 1 | 2 | 20.0 |",
            "| forward, bf16, 768 × 768 | 100 | 0.25 |",
            "| 256 MiB | 1.010 | 1.000 | 1.020 |",
            "| checkpointing | 4 | 0.7000 (0.7000) | 0.6000 | 1.00 | 256 | every bit of `reference` |",
            "| sgd | 4 | 0.7000 (0.7000) | 0.6000 | 1.00 | 256 | loses |",
            "| on an empty Debian 12 | 10.0 | – | – |",
            "| BERT-large, half of the bytes | 3 | 0.50 | 1.10 | 1.100 | 1.10 |",
            "| seconds | 10.0 | 10.0 | 8, – |",
            "| 1,024 | 8 × 1 | 1.050 | 1.000 |",
            "| gpt2 | 1,000 | 0 | equal | 0.50 |",
            "| step, s | llm.c | speed; goal 5 | of the limit | speed there | MiB | llm.c |",
            "```\n== Training: x\n  scalar 1\n  …\n  persistent arena 3\n```",
        ):
            self.assertIn(expected, text)

    def test_a_decoder_is_held_to_its_floor_and_to_its_state(self):
        def row_of(name, *output_list):
            self.put("2026-01-01-box", name, *output_list)
            self.run_tables()
            (row,) = (line for line in self.block("decoders").splitlines() if line.startswith(f"| {figures.LABELS[name]} |"))
            return row

        half, quarter, less = (compared(1.0, 1.0) for _ in range(3))
        quarter[0]["runs"]["ours"][0]["limit_share"] = 0.25
        less[0]["runs"]["ours"][0]["limit_share"] = 0.2
        large = compared(1.0, 1.0)
        large[0]["runs"]["theirs"][0]["peak_bytes"] = 2**34
        # 16 bytes a parameter and a tenth more, or half of the Trainer's peak.
        self.assertTrue(row_of("step_llama_135m_bf16", half, quarter, less).endswith("| 0.25 | 4.00 | 4.00 | 2,258 |"))
        self.assertTrue(row_of("step_llama_135m_fp32", large).endswith("| 0.50 | 2.00 | 2.00 | 8,192 |"))
        self.assertTrue(row_of("step_qwen2_0_5b_lora_bf16", half).endswith("| 512 |"))

    def test_wrong_records_and_pages_are_refused(self):
        path = self.put("2026-01-01-box", "step_bert_base_fp32", compared(2.0, 1.0))
        good = path.read_text()
        for old, new, message in (
            (COMMIT, "unknown", "expected a commit"),
            ('"format": 1', '"format": 2', "expected format 1"),
            ('"command"', '"typed"', "expected the key command"),
            ('"name": "step', '"name": "stop', "expected the name step_bert_base_fp32"),
            ("{", "", "expected JSON"),
        ):
            path.write_text(good.replace(old, new, 1))
            code, output = self.run_tables("--check")
            self.assertEqual(code, 2, output)
            self.assertIn("[2026-01-01-box/step_bert_base_fp32.json]", output)
            self.assertIn(message, output)
        path.write_text(good)
        other = self.put("2026-01-02-box", "step_bert_base_fp32", compared(2.0, 1.0), environment={**ENVIRONMENT, "cpu": "Slow 1"})
        self.assertIn("expected one processor by the name of box", self.run_tables()[1])
        other.unlink()
        stranger = self.put("2026-01-01-box", "no_such_entry", compared(2.0, 1.0))
        self.assertIn("[2026-01-01-box/no_such_entry.json] expected the name of an entry", self.run_tables()[1])
        stranger.unlink()
        pages = self.page.read_text()
        for old, new, message in (
            ("<!-- end of figures -->", "", "expected pairs of"),
            ("figures: step ", "figures: stop ", "expected a figure of bench/figures.py, got stop"),
            ("<!-- figures: step -->\n<!-- end of figures -->\n", "", "expected every figure on a page, got none with step"),
        ):
            self.page.write_text(pages.replace(old, new, 1))
            code, output = self.run_tables()
            self.assertEqual(code, 2, output)
            self.assertIn(message, output)


@unittest.skipUnless(shutil.which("git"), "there is no git")
class Campaigns(unittest.TestCase):
    """campaign.py in a checkout of its own, with commands of the shell."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.script("build/shoehorn", f"echo '{json.dumps({**ENVIRONMENT, 'where': str(self.root) + '/build'})}'")
        (self.root / "source.cc").write_text("1\n")
        (self.root / ".gitignore").write_text("build/\n")
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--message", "first")
        self.entries = [
            campaign_entries.Entry("limits", "sh -c 'echo ready; echo {\\\"a\\\": \\\"$PWD/x\\\"}; echo run >> build/runs'", 1),
            campaign_entries.Entry("demo", "sh -c 'exit 3'", 1),
            campaign_entries.Entry("quality_quick", "echo '[2]'", 1, most_runs=1),
        ]
        for target, name, value in (
            (campaign, "ROOT", self.root),
            (records, "RESULTS", self.root / "bench/results"),
            (campaign_entries, "ENTRIES", self.entries),
            (campaign, "build_programs", lambda needs: None),
        ):
            patch = mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def script(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def git(self, *words):
        return subprocess.run(["git", "-C", str(self.root), *words], check=True, capture_output=True, text=True).stdout.strip()

    def run_campaign(self, *words):
        """Exit code of main and what it printed; a Missing is its message."""
        with mock.patch.object(sys, "argv", ["campaign.py", *words]), contextlib.redirect_stdout(io.StringIO()) as out:
            with contextlib.redirect_stderr(out):
                try:
                    code = campaign.main()
                except (campaign.Missing, records.RecordError) as missing:
                    return 2, str(missing)
        return code, out.getvalue()

    def written(self, name):
        return json.loads((self.root / "bench/results/2026-01-01-box" / f"{name}.json").read_text())

    def test_a_record_has_every_run(self):
        code, output = self.run_campaign("2026-01-01-box", "--only", "limits", "--repeat", "4")
        self.assertEqual(code, 0, output)
        made = self.written("limits")
        self.assertIsNone(records.defect(made))
        self.assertEqual([run["output"] for run in made["runs"]], [{"a": "x"}] * 4)
        self.assertEqual((self.root / "build/runs").read_text().count("run"), 4)
        self.assertEqual(made["commit"], self.git("rev-parse", "HEAD"))
        self.assertEqual(made["command"], self.entries[0].command)
        self.assertEqual(made["environment"], {**ENVIRONMENT, "where": "build"})

    def test_what_fails_is_named_and_the_rest_is_written(self):
        code, output = self.run_campaign("2026-01-01-box")
        self.assertEqual(code, 1)
        self.assertIn("[demo] failed: exit 3", output)
        self.assertEqual(len(self.written("quality_quick")["runs"]), 1)
        self.assertFalse((self.root / "bench/results/2026-01-01-box/demo.json").exists())

    def test_records_are_never_replaced(self):
        self.run_campaign("2026-01-01-box", "--only", "quality")
        before = self.written("quality_quick")
        code, output = self.run_campaign("2026-01-01-box", "--only", "quality|limits")
        self.assertEqual(code, 2)
        self.assertIn("has records of quality_quick; --continue", output)
        code, output = self.run_campaign("2026-01-01-box", "--only", "quality|limits", "--continue")
        self.assertEqual((code, self.written("quality_quick")), (0, before))
        self.assertEqual(len(self.written("limits")["runs"]), 3)

    def test_refused_before_anything_runs(self):
        needy = campaign_entries.Entry("tokenizer", "true", 1, 10**6, ("minilm", "peers"))
        with mock.patch.object(campaign_entries, "ENTRIES", [*self.entries, needy]):
            with mock.patch.dict("os.environ", {"SHOEHORN_PEERS_PYTHON": "/nowhere/python"}):
                code, output = self.run_campaign("2026-01-01-box")
        self.assertEqual(code, 2)
        self.assertIn("[minilm] expected all-MiniLM-L6-v2 in .cache/minilm; run scripts/fetch_minilm.sh (for tokenizer)", output)
        self.assertIn("[peers] expected a Python with the peers; run bench/peers/setup.sh", output)
        self.assertIn("[tokenizer] expected 1000000 GiB of available memory", output)
        self.assertFalse((self.root / "bench/results").exists())

    def test_a_tree_that_is_not_committed_is_refused(self):
        (self.root / "source.cc").write_text("2\n")
        code, output = self.run_campaign("2026-01-01-box")
        self.assertEqual(code, 2)
        self.assertIn("changed: source.cc", output)

    def test_a_build_that_is_not_there_is_refused(self):
        with self.assertRaisesRegex(campaign.Missing, "expected a configured build"):
            BUILD_PROGRAMS({"build/shoehorn"})

    def test_nothing_names_the_machine(self):
        with mock.patch("socket.gethostname", return_value="vm"), mock.patch.object(pathlib.Path, "home", return_value=pathlib.Path("/home/me")):
            cleaned = campaign.without_machine({
                "host_name": "vm", "executable": "./x", "flags": [f"{self.root}/.cache/minilm", "/home/me/x", "/home/meadow", "vm:8", "llvm"],
            })  # fmt: skip
        self.assertEqual(cleaned, {"flags": [".cache/minilm", "~/x", "/home/meadow", "HOST:8", "llvm"]})


COMPARISONS = (
    ("bench/compare.py", "peers"), ("bench/compare_text.py", "peers"), ("bench/compare_character_gpt.py", "peers"),
    (".cache/trixie", "trixie"), ("bench/slow_link.sh", "texts"),
)  # fmt: skip


class Entries(unittest.TestCase):
    def test_of_figures_are_those_of_the_campaign(self):
        of_figures = {name for figure in figures.FIGURES for name in figure.entries}
        self.assertEqual(of_figures, set(campaign_entries.NAMES))
        self.assertEqual(len(set(campaign_entries.NAMES)), len(campaign_entries.NAMES))

    def test_say_what_they_need(self):
        for entry in campaign_entries.ENTRIES:
            for need in entry.needs:
                self.assertTrue(need in campaign.REQUIREMENTS or campaign.program_of(need), need)
            for part, need in ((".cache/minilm", "minilm"), (".cache/mrpc", "mrpc"), ("huggingface", "peers"), *COMPARISONS):
                if part in entry.command:
                    self.assertIn(need, entry.needs, entry.name)
            self.assertIn(entry.output, campaign.READERS)


class Readers(unittest.TestCase):
    def test_json_at_the_end_of_an_output(self):
        self.assertEqual(campaign.read_json('[note] no JSON\n{\n "a": [\n1\n]\n}\n', 0), {"a": [1]})
        self.assertRaises(ValueError, campaign.read_json, "nothing", 0)

    def test_seconds_of_a_fresh_machine(self):
        self.assertEqual(campaign.read_fresh_machine("…\ntrixie: make demo: exit 0 after 654 s\n", 0), {"seconds": 654})
        self.assertRaises(ValueError, campaign.read_fresh_machine, "trixie: make demo: exit 1 after 6 s", 0)


class Compare(unittest.TestCase):
    def test_json_has_every_run(self):
        with tempfile.TemporaryDirectory() as directory:
            program = pathlib.Path(directory) / "program"
            run = {"samples_per_second": 2.0, "step_seconds": 1.0, "first_step_seconds": 3.0, "peak_bytes": 4, "limit_share": 0.5}
            program.write_text(f"#!/bin/sh\necho '{json.dumps(run)}'\n")
            program.chmod(0o755)
            flags = ["--shoehorn", str(program), "--python", str(program), "--repeats", "2", "--json", "-"]
            done = subprocess.run([sys.executable, "-B", str(ROOT / "bench/compare.py"), *flags], capture_output=True, text=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        (measurement,) = json.loads(done.stdout)
        self.assertNotIn(directory, done.stdout)
        for side in ("ours", "theirs"):
            self.assertEqual([run["limit_share"] for run in measurement["runs"][side]], [0.5, 0.5])
            self.assertGreater(measurement["runs"][side][0]["peak_bytes"], 4)  # the kernel's, not the program's own

    def test_errors_end_with_2(self):
        def fail():
            raise compare.CompareError("nothing to compare")

        with self.assertRaises(SystemExit) as end, contextlib.redirect_stderr(io.StringIO()) as err:
            compare.run_main(fail)
        self.assertEqual((end.exception.code, err.getvalue()), (2, "nothing to compare\n"))


class CompareRanks(unittest.TestCase):
    """compare_ranks.py without models: a program that does what ours does, and one for the peers."""

    FLAGS = ("--model", "bert-mini", "--ranks", "3", "--per_device_train_batch_size", "2", "--sequence_length", "16", "--steps", "2", "--repeats", "2")

    def run_with(self, directory, *more):
        log = pathlib.Path(directory) / "log"
        results = {"train_profiled_step_seconds": 3.0, "memory_process_measured_bytes": 100, "memory_process_predicted_bytes": 101}
        ours = f"""#!{sys.executable}
import json, pathlib, sys
at = lambda flag: sys.argv[sys.argv.index(flag) + 1]
texts = pathlib.Path(at("--train_file")).read_text().splitlines()
words = {{len(text.split(",")[0].split()) for text in texts[1:]}}
open({str(log)!r}, "a").write(json.dumps({{"argv": sys.argv[1:], "texts": len(texts) - 1, "words": sorted(words)}}) + "\\n")
out = pathlib.Path(at("--output_dir"))
out.mkdir(exist_ok=True)
seconds = 2.0 if "launch" not in sys.argv else 3.0
results = {results!r} | {{"train_profiled_step_seconds": seconds, "train_messages_hidden_share": 0.9}}
(out / "all_results.json").write_text(json.dumps(results))
"""
        run = {"samples_per_second": 1.0, "step_seconds": 6.0, "first_step_seconds": 9.0, "peak_bytes": 300, "step_samples": [6.0]}
        theirs = f"#!{sys.executable}\nimport json\nprint(json.dumps({run!r}))\n"
        for name, text in (("ours", ours), ("theirs", theirs)):
            program = pathlib.Path(directory) / name
            program.write_text(text)
            program.chmod(0o755)
        words = ["--shoehorn", f"{directory}/ours", "--python", f"{directory}/theirs", *self.FLAGS, *more]
        done = subprocess.run([sys.executable, "-B", str(ROOT / "bench/compare_ranks.py"), *words], capture_output=True, text=True)
        return done, [json.loads(line) for line in log.read_text().splitlines()]

    def test_every_side_runs_in_turns(self):
        with tempfile.TemporaryDirectory() as directory:
            done, calls = self.run_with(directory, "--json", "-")
        self.assertEqual(done.returncode, 1, done.stderr)  # DDP has 2/3 of the speed of one rank
        record = json.loads(done.stdout)
        self.assertNotIn(directory, done.stdout)
        self.assertEqual({side: len(runs) for side, runs in record["runs"].items()}, dict.fromkeys(compare_ranks.SIDES, 2))
        self.assertEqual([run["samples_per_second"] for run in record["runs"]["ddp"]], [2.0, 2.0])  # 3 ranks x 2 in 3 seconds
        self.assertEqual(record["runs"]["one"][0]["samples_per_second"], 3.0)
        self.assertEqual(record["runs"]["zero_3"][0]["messages_hidden_share"], 0.9)
        self.assertEqual(record["runs"]["torch_fsdp"][0]["peak_bytes"], 300)
        one, ddp, zero = calls[:3]
        at = lambda call, flag: call["argv"][call["argv"].index(flag) + 1]
        self.assertEqual((one["argv"][0], at(one, "--per_device_train_batch_size"), at(one, "--num_threads")), ("train", "6", "3"))
        self.assertEqual((ddp["argv"][:3], at(ddp, "--per_device_train_batch_size")), (["launch", "--nproc_per_node", "3"], "2"))
        self.assertEqual(at(zero, "--zero_stage"), "3")
        self.assertEqual((one["texts"], one["words"]), (12, [14]))  # two steps of six, with [CLS] and [SEP] of 16 tokens

    def test_goals_are_of_sides_that_ran(self):
        run = lambda speed, peak: [{"samples_per_second": speed, "peak_bytes": peak}]
        runs = {"one": run(2.0, 1000), "zero_3": run(1.9, 150), "torch_fsdp": run(1.0, 400)}
        goals = compare_ranks.goals_of(runs, share_goal=0.1)
        self.assertEqual({name: met for name, (met, _, _) in goals.items()}, {
            "zero_3: speed beside one rank": True, "zero_3: speed beside torch_fsdp": False,
            "zero_3: memory beside torch_fsdp": True, "zero_3: memory beside one rank": False,
        })  # fmt: skip
        self.assertEqual(compare_ranks.goals_of({"one": run(2.0, 1000)}), {})

    def test_a_text_has_a_word_a_token(self):
        for model, size in (("bert-base", 30522), ("gpt2", 50257), ("llama-135m", 49152)):
            words = compare_ranks.words_of(model)
            self.assertEqual((len(words), len(set(words))), (size, size))


class ChoicesOfFit(unittest.TestCase):
    """fit_choice.py, rising_budgets.py, recompute_budget.py, predict_times.py, epoch_time.py and catalog_ladder.py, without processes."""

    def test_a_grid_has_every_division_and_no_two_alike(self):
        grid = fit_choice.grid(8)
        self.assertGreaterEqual(len(grid), 60)
        self.assertEqual(len({tuple(flags) for flags in grid.values()}), len(grid))
        for flags in grid.values():
            value = lambda name, flags=flags: int(flags[flags.index(name) + 1])
            self.assertEqual(value("--per_device_train_batch_size") * value("--gradient_accumulation_steps"), 8)

    def test_finalists_are_the_fastest_that_fit(self):
        points = [{"name": str(at), "planned_bytes": 100 - at, "step_seconds": 1 + at} for at in range(8)]
        self.assertEqual(fit_choice.budgets_of(points[::-1]), [94, 96, 100])
        self.assertEqual(fit_choice.finalists(points, 94), ["6", "7"])
        self.assertEqual(fit_choice.finalists(points, 100), ["0", "1", "2"])

    def test_a_choice_is_compared_within_its_round(self):
        runs = {"slow": [2, 20, 2], "fast": [1, 10, 1], "fit": [1, 10, 2], "fit --verify 3": [1, 9, 0.9]}
        self.assertEqual(fit_choice.times_of(runs), ({"fit": 1, "fit --verify 3": 0.9}, "fast"))

    def test_bytes_count_from_the_plan_that_recomputes_every_layer(self):
        planned = {"nothing": 50, "half": 29, "quarter": 20, "every layer": 10}
        self.assertEqual(recompute_budget.shares(planned), {"nothing": 1, "half": 0.475, "quarter": 0.25, "every layer": 0})
        runs = {"nothing": [1, 10, 2], "half": [1.1, 10, 3], "quarter": [1, 20, 4], "every layer": [2, 20, 4]}
        steps = {setting: [{"step_seconds": seconds} for seconds in made] for setting, made in runs.items()}
        self.assertEqual(recompute_budget.times(steps), {"nothing": 1, "half": 1.1, "quarter": 2, "every layer": 2})

    def test_a_catalogues_ratios_leave_out_the_share_that_is_reached(self):
        rungs = [catalog_rung("a", 10.0, 5.0), catalog_rung("b", 20.0, 10.0), catalog_rung("c", 10.0, 4.0)]
        self.assertEqual(catalog_ladder.ratio_errors(rungs), [0, 0, 0.25])

    def test_ratios_leave_out_what_all_predictions_are_off_by(self):
        made = lambda *rounds: [{"predicted": predicted, "measured": measured} for predicted, measured in rounds]
        points = [
            {"predicted": 1, "rounds": made((9, 3), (1, 2), (1, 2.5))},
            {"predicted": 2, "rounds": made((2, 4))},
            {"predicted": 1, "rounds": made((1, 1))},
        ]
        summary = predict_times.summary_of(points)
        self.assertEqual((summary["scale"], summary["absolute_error"]["median"], summary["ratio_error"]["median"]), (2, 0.5, 0))
        self.assertEqual((summary["ratio_error"]["p95"], summary["rounds_difference"]["p95"]), (1, 0.25))

    def test_short_steps_are_measured_more_often(self):
        self.assertEqual([predict_times.steps_for(0.5, 4, seconds) for seconds in (0.001, 0.05, 2)], [100, 11, 4])

    def test_an_epoch_is_compared_within_each_round(self):
        rounds = [{"predicted": 20, "measured": 10}, {"predicted": 6, "measured": 8}, {"predicted": 18, "measured": 16}]
        self.assertEqual(epoch_time.medians_of(rounds), (18, 10, 0.125))


    def test_kills_of_ranks_are_read_from_the_tests_report(self):
        report = lambda **test: {"testsuites": [{"testsuite": [{"time": "81.5s", "result": "COMPLETED", **test}]}]}
        made = rank_kills.result_of(report(finished_between="2"), "A.Test", 30)
        self.assertEqual(made, {"kills": 30, "runs_that_ended_before": 2, "seconds": 81.5, "failures": []})
        failed = rank_kills.result_of(report(failures=[{"failure": "weights differ"}]), "A.Test", 30)
        self.assertEqual((failed["failures"], failed["runs_that_ended_before"]), (["weights differ"], None))
        with self.assertRaises(compare.CompareError):
            rank_kills.result_of(report(result="SKIPPED", skipped=[{"message": "no MPI"}]), "A.Test", 30)

    def test_rising_budgets_are_never_slower_and_hold_what_they_may(self):
        mib = 2**20
        rows = [budget_row(100 * mib, 2.0, 107 * mib), budget_row(200 * mib, 2.01, 208 * mib)]
        self.assertEqual(rising_budgets.faults(rows), [])
        worse = {**budget_row(200 * mib, 2.03, 209 * mib), "flags": ["--gradient_checkpointing"]}
        self.assertEqual(len(rising_budgets.faults([rows[0], worse])), 2)
        self.assertEqual(len(rising_budgets.faults([rows[0], {**worse, "flags": []}])), 1)
        frontier = [{"process_peak_bytes": size * mib} for size in (300, 100, 200)]
        self.assertEqual(rising_budgets.budgets_between(frontier, 3), [102 * mib, 202 * mib, 302 * mib])

    def test_a_process_is_within_a_share_or_so_many_bytes(self):
        mib = drawn_settings.MIB
        process = lambda planned, measured: {"planned_bytes": planned * mib, "measured_bytes": measured * mib}
        off = [process(100, 109), process(100, 92), process(2000, 1980), process(2000, 2041)]
        self.assertEqual(drawn_settings.shares_within(off), [0.5, 0.75])

    def test_a_seed_draws_the_same_settings(self):
        words = [[drawn.step, drawn.of_all_phases(), drawn.ranks] for drawn in map(drawn_settings.Draw, range(1, 101))]
        self.assertEqual(words, [[drawn.step, drawn.of_all_phases(), drawn.ranks] for drawn in map(drawn_settings.Draw, range(1, 101))])
        flags = {flag for step, shared, _ in words for flag in step + shared}
        self.assertTrue({"--fp16", "--bf16", "--lora_merge", "--activation_budget", "--update_in_backward", "--zero_stage"} <= flags)


class Loaded(unittest.TestCase):
    def test_share_of_processors(self):
        # Two threads beside two loops on two processors have one of the two; on four they have what they have alone.
        self.assertEqual(loaded.share_of_processors(2, 2, 2), 0.5)
        self.assertEqual(loaded.share_of_processors(4, 2, 2), 1.0)
        self.assertEqual(loaded.share_of_processors(2, 2, 0), 1.0)
        self.assertEqual(loaded.share_of_processors(2, 1, 3), 0.5)

    def test_both_states_in_turns(self):
        with tempfile.TemporaryDirectory() as directory:
            log = pathlib.Path(directory) / "log"
            program = pathlib.Path(directory) / "program"
            run = {"samples_per_second": 2.0, "step_seconds": 1.0, "first_step_seconds": 3.0, "peak_bytes": 4}
            program.write_text(f"#!/bin/sh\necho \"$1 ${{GOMP_SPINCOUNT-none}}\" >> {log}\necho '{json.dumps(run)}'\n")
            program.chmod(0o755)
            flags = ["--shoehorn", str(program), "--python", str(program), "--rounds", "2", "--busy_loops", "1", "--json", "-"]
            command = [sys.executable, "-B", str(ROOT / "bench/loaded.py"), *flags]
            environment = {**os.environ, "GOMP_SPINCOUNT": "7"}
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            measured = json.loads(done.stdout)
            order = [line.split()[0].rsplit("/")[-1] for line in log.read_text().splitlines()]
            self.assertEqual(order, ["bench", "train_step.py"] * 2 + ["train_step.py", "bench"] * 2)
            self.assertNotIn(" 7", log.read_text())  # what the user's shell says does not count
            self.assertEqual(measured["ratio"], {"idle": 1.0, "loaded": 1.0})
            self.assertEqual(len(measured["runs"]["theirs"]["loaded"]), 2)
            spins = subprocess.run([*command, "--spins", "0", "5"], capture_output=True, text=True, env=environment)
            self.assertEqual(set(json.loads(spins.stdout)["runs"]), {"ours", "spins_0", "spins_5"}, spins.stderr)
            self.assertIn("bench 5\n", log.read_text())


if __name__ == "__main__":
    unittest.main()
