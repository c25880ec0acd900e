"""The figures of the docs: what each table has in its rows and columns.

A figure's function gets a `Machine`, whose records are all of one machine, and returns a header and rows of text.
"""

import dataclasses
import re
import statistics
import typing

import campaign_entries as entries
import catalog_ladder
import compare_ranks
import drawn_settings
import epoch_time
import fit_choice
import predict_times
import recompute_budget
import records as r
from figure_numbers import (
    MIB, Machine, at_path, benchmark_names, count_runs, deviations, keys_in, middle, newest, number, of_any_benchmark, of_arena, of_benchmark, of_build, of_case, of_rounds,
    of_named_rung, of_rung, of_seeds, of_side, of_state, of_steps, prediction_error, processes_of_ladder, setting_of, shown, span, times,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Figure:
    name: str
    entries: tuple  # names, in the order of the rows
    table: typing.Callable  # Machine -> (header, rows), or Machine -> text
    footnote: typing.Callable = lambda machine: ""
    only_newest: bool = False  # show the newest campaign alone: for text, and for settings that have changed
    newest_of_machine: bool = False  # of each machine the newest of each entry: where what is measured has changed


STEPS = tuple(f"step_{model}_{setting}" for model in ("bert_base", "bert_large") for setting in ("fp32", "bf16"))
STEP_LABELS = dict(zip(STEPS, ("BERT-base, fp32", "BERT-base, bf16", "BERT-large, fp32", "BERT-large, bf16")))


DECODER_LABELS = {
    "step_gpt2_fp32": "GPT-2 124M, 4 × 512, fp32",
    "step_gpt2_bf16": "GPT-2 124M, 4 × 512, bf16",
    "step_gpt2_bf16_compile": "GPT-2 124M, 4 × 512, bf16, torch.compile",
    "step_llama_135m_fp32": "Llama 135M, 4 × 512, fp32",
    "step_llama_135m_bf16": "Llama 135M, 4 × 512, bf16",
    "step_llama_135m_bf16_compile": "Llama 135M, 4 × 512, bf16, torch.compile",
    "step_qwen2_0_5b_fp32": "Qwen2 0.5B, 1 × 512, fp32",
    "step_qwen2_0_5b_bf16": "Qwen2 0.5B, 1 × 512, bf16",
    "step_qwen2_0_5b_bf16_compile": "Qwen2 0.5B, 1 × 512, bf16, torch.compile",
    "step_qwen2_0_5b_lora_bf16": "Qwen2 0.5B, 1 × 512, LoRA on bf16 weights, checkpointing",
}
DECODER_STEPS = tuple(DECODER_LABELS)
LABELS = {**STEP_LABELS, **DECODER_LABELS}
PARAMETERS = {"gpt2": 124_439_808, "llama_135m": 134_515_008, "qwen2_0_5b": 494_032_768, "llama_1b": 1_235_814_400}
LLM_C = {"llm_c_64": "4 × 64 tokens", "llm_c_256": "4 × 256 tokens"}


def step_table(machine, names=STEPS):
    header = (
        "", "runs / campaigns", "samples/s", "Trainer", "speed", "first step", "Trainer", "MiB", "Trainer", "memory", "of the limit",
        "speed there",
    )  # fmt: skip
    rows = []
    for name in machine.names(names):
        found = machine.of(name)
        row = [LABELS[name], count_runs(found, of_side("ours", "samples_per_second"))]
        for key, digits, unit in (("samples_per_second", 3, 1), ("first_step_seconds", 1, 1), ("peak_bytes", 0, MIB)):
            row += [middle(found, of_side(side, key), digits, unit) for side in ("ours", "theirs")]
            if key != "first_step_seconds":
                row.append(times(found, of_side("ours", key), of_side("theirs", key)))
        share = of_side("ours", "limit_share")
        rows.append([*row, middle(found, share, 2), times(found, at_the_limit, of_side("theirs", "samples_per_second"))])
    return header, rows


def at_the_limit(record):
    """The samples a second of steps that are nothing but their products at the rate of large ones."""
    rates = zip(of_side("ours", "samples_per_second")(record), of_side("ours", "limit_share")(record))
    return [None if rate is None or not share else rate / share for rate, share in rates]


def at_the_floor(record):
    """The seconds of a step ÷ those of its products at the rate of large ones."""
    return [1 / share if share else None for share in of_side("ours", "limit_share")(record)]


def state_bytes(name):
    """Weights, gradients and AdamW's two states of a decoder's step, in float32. With LoRA those of the adapters are next to nothing."""
    if "_lora_" in name:
        return 0
    return 16 * next(count for model, count in PARAMETERS.items() if name.startswith(f"step_{model}_"))


def memory_goal(name):
    """Half of the Trainer's peak, or 1.1 times the state where that is more."""
    return lambda record: [peak and max(peak / 2, 1.1 * state_bytes(name)) for peak in of_side("theirs", "peak_bytes")(record)]


def decoder_table(machine):
    header, rows = step_table(machine, DECODER_STEPS)
    for name, row in zip(machine.names(DECODER_STEPS), rows):
        found = machine.of(name)
        row += [middle(found, at_the_floor, 2), middle(found, memory_goal(name), 0, MIB)]
    return (*header, "÷ its floor; goal 1.35", "goal of MiB"), rows


def llm_c_table(machine):
    rows = []
    for name in machine.names(tuple(LLM_C)):
        found = machine.of(name)
        row = [LLM_C[name], count_runs(found, of_side("ours", "peak_bytes"))]
        row += [middle(found, of_steps(side), 3) for side in ("ours", "theirs")]
        row.append(times(found, of_steps("theirs"), of_steps("ours")))
        row += [middle(found, of_side("ours", "limit_share"), 2), times(found, of_steps("theirs"), seconds_of_products)]
        row += [middle(found, of_side(side, "peak_bytes"), 0, MIB) for side in ("ours", "theirs")]
        rows.append(row)
    header = ("GPT-2 124M, fp32", "runs / campaigns", "step, s", "llm.c", "speed; goal 5", "of the limit", "speed there", "MiB", "llm.c")
    return header, rows


def seconds_of_products(record):
    """Of our steps beside llm.c's, where nothing but their products took time, at the rate of large ones."""
    shares = zip(of_steps("ours")(record), of_side("ours", "limit_share")(record))
    return [seconds * share if share else None for seconds, share in shares]


CHARACTER_GPTS = ("character_gpt_fp32", "character_gpt_bf16", "character_gpt_bf16_150")


def character_gpt_table(machine):
    header = (
        "steps of 64 × 256 characters", "runs / campaigns", "s", "PyTorch", "time", "MiB", "PyTorch", "memory", "validation loss",
        "PyTorch",
    )  # fmt: skip
    rows = []
    for name in machine.names(CHARACTER_GPTS):
        found = machine.of(name)
        output = newest(found)
        row = [f"{output['steps']}, {output['setting']}", count_runs(found, of_side("ours", "train_seconds"))]
        for key, digits, unit in (("train_seconds", 1, 1), ("peak_bytes", 0, MIB)):
            row += [middle(found, of_side(side, key), digits, unit) for side in ("ours", "theirs")]
            row.append(times(found, of_side("ours", key), of_side("theirs", key)))
        rows.append([*row, *(middle(found, of_side(side, "eval_loss"), 4) for side in ("ours", "theirs"))])
    return header, rows


VOCABULARY_LOSSES = {
    "vocabulary_loss_fp32": "fp32",
    "vocabulary_loss_fp32_frozen": "fp32, frozen table",
    "vocabulary_loss_bf16": "bf16",
    "vocabulary_loss_bf16_frozen": "bf16, frozen table",
}


def vocabulary_loss_table(machine):
    header = (
        "151,936 × 896, 2,048 tokens", "runs / campaigns", "s", "÷ its products", "`cross_entropy` of `linear`, s",
        "`linear_cross_entropy`, s", "in chunks, s", "MiB", "in chunks",
    )  # fmt: skip
    rows = []
    for name in machine.names(tuple(VOCABULARY_LOSSES)):
        found = machine.of(name)
        row = [VOCABULARY_LOSSES[name], count_runs(found, of_side("ours", "seconds")), middle(found, of_side("ours", "seconds"), 2)]
        row.append(times(found, of_side("ours", "seconds"), of_side("products", "seconds")))
        row += [middle(found, of_side(way, "seconds"), 2) for way in ("linear", "reference", "chunked")]
        rows.append([*row, *(middle(found, of_side(side, "workspace_bytes"), 0, MIB) for side in ("ours", "chunked"))])
    return header, rows


TEXTS = ("text_minilm_fp32", "text_minilm_bf16")


def text_table(machine):
    header = ("", "runs / campaigns", "samples/s", "Trainer", "speed", "MiB", "Trainer", "memory", "mean loss", "Trainer")
    rows = []
    for name in machine.names(TEXTS):
        found = machine.of(name)
        row = [name.rsplit("_", 1)[1], count_runs(found, of_side("ours", "samples_per_second"))]
        for key, digits, unit in (("samples_per_second", 1, 1), ("peak_bytes", 0, MIB)):
            row += [middle(found, of_side(side, key), digits, unit) for side in ("ours", "theirs")]
            row.append(times(found, of_side("ours", key), of_side("theirs", key)))
        rows.append([*row, *(middle(found, of_side(side, "loss"), 4) for side in ("ours", "theirs"))])
    return header, rows


LOADED_STATES = (("idle", "alone"), ("loaded", "beside two busy loops"))


def loaded_table(machine):
    found = machine.of("loaded_bert_base")
    rows = []
    for state, label in LOADED_STATES:
        speeds = [of_state(side, state, "samples_per_second") for side in ("ours", "theirs")]
        row = [label, *(middle(found, speed, 2) for speed in speeds), times(found, *speeds)]
        shares = [middle(found, at_path("of_the_share", side), 2) for side in ("ours", "theirs")]
        rows.append(row + (shares if state == "loaded" else ["", ""]))
    return ("BERT-base, 8 × 128 tokens, 2 threads", "samples/s", "Trainer", "speed", "of the share", "Trainer"), rows


def spins_table(machine):
    found = machine.of("loaded_spins")
    sides = keys_in(found, lambda output: list(output["runs"]))
    longest = max((side for side in sides if side.startswith("spins_")), key=lambda side: int(side.removeprefix("spins_")), default="ours")
    rows = []
    for side in sides:
        label = f"{int(side.removeprefix('spins_')):,} spins" if side.startswith("spins_") else "as the program sets it"
        row = [label]
        for state, _ in LOADED_STATES:
            seconds = of_state(side, state, "step_seconds")
            row += [middle(found, seconds, 4), times(found, seconds, of_state(longest, state, "step_seconds"))]
        rows.append(row)
    return ("BERT-mini, 8 × 128 tokens, 2 threads", "step alone, s", "times", "beside two busy loops, s", "times"), rows


def builds_table(machine):
    found = machine.of("onednn_builds")
    library = {side: newest(found)["env"][side]["products"] for side in ("first", "second")}
    rows = []
    for setting in keys_in(found, lambda output: [m["setting"] for m in output["measurements"]]):
        row = [f"BERT-base, {setting}", count_runs(found, of_build("first", setting, "peak_bytes"))]
        for key, digits, unit in (("samples_per_second", 3, 1), ("peak_bytes", 0, MIB)):
            sides = [of_build(side, setting, key) for side in ("first", "second")]
            row += [*(middle(found, side, digits, unit) for side in sides), times(found, sides[1], sides[0])]
        rows.append(row)
    first, second = library["first"], library["second"]
    return ("", "runs / campaigns", f"samples/s, {first}", second, "times", f"MiB, {first}", second, "times"), rows


SUMMARY = STEPS + TEXTS


def summary_table(machine):
    """Speed and memory only, for the README."""
    rows = []
    for name in machine.names(SUMMARY):
        found = machine.of(name)
        label = STEP_LABELS.get(name, f"MiniLM on MRPC, {name.rsplit('_', 1)[1]}")
        ratios = [times(found, of_side("ours", key), of_side("theirs", key)) for key in ("samples_per_second", "peak_bytes")]
        rows.append([label, count_runs(found, of_side("ours", "peak_bytes")), *ratios])
    return ("", "runs / campaigns", "samples a second, Shoehorn ÷ Trainer", "peak memory, Shoehorn ÷ Trainer"), rows


LADDER = tuple(f"ladder_{rung}" for rung in entries.LADDER_OF_THE_GUIDES + entries.LADDER_BESIDE)
LOWEST = tuple(f"lowest_{rung}" for rung in entries.LOWEST)


def ladder_table(machine):
    header = (
        "setting", "runs / campaigns", "samples/s", "Trainer", "speed", "MiB", "Trainer", "memory", "plan − peak, MiB", "first step",
        "Trainer",
    )  # fmt: skip
    rows = []
    for name in machine.names(LADDER):
        found = machine.of(name)
        star = " *" if deviations(found) else ""
        row = [setting_of(found) + star, processes_of_ladder(found)]
        for path, digits, unit in ((("samples_per_second",), 3, 1), (("memory", "training_bytes"), 0, MIB)):
            row += [middle(found, of_rung(side, *path), digits, unit) for side in ("ours", "theirs")]
            row.append(times(found, of_rung("ours", *path), of_rung("theirs", *path)))
        row.append(middle(found, prediction_error, 1, MIB))
        rows.append([*row, *(middle(found, of_rung(side, "first_step_seconds"), 0) for side in ("ours", "theirs"))])
    return header, rows


def ladder_footnote(machine):
    texts = dict.fromkeys(text for name in machine.names(LADDER) for text in deviations(machine.of(name)))
    return f"\\* The Trainer {'; or it '.join(texts)}." if texts else ""


def lowest_table(machine):
    rows = []
    for name in machine.names(LOWEST):
        found = machine.of(name)
        peak = of_rung("ours", "memory", "training_bytes")
        rows.append([
            setting_of(found), processes_of_ladder(found), middle(found, of_rung("plan", "peak_bytes"), 0, MIB),
            middle(found, peak, 0, MIB), middle(found, peak, 2, 1e9), middle(found, of_rung("ours", "samples_per_second"), 3),
        ])  # fmt: skip
    return ("setting", "runs / campaigns", "planned, MiB", "peak, MiB", "peak, GB", "samples/s"), rows


# A technique of the guides: its rung of the ladder, and the rung without it.
CHOICES = (
    ("Gradient accumulation, 1 × 4 for 4", "accumulation", "batch_4"),
    ("Gradient checkpointing", "checkpointing", "accumulation"),
    ("Layer-major accumulation", "layer_major", "accumulation"),
    ("Update in the backward, beside layer-major", "layer_major_update", "layer_major"),
    ("bf16", "bf16", "batch_4"),
    ("bf16 without masters, beside bf16", "bf16_no_master", "bf16"),
    ("fp16", "fp16", "batch_4"),
    ("8-bit AdamW", "8bit", "batch_4"),
    ("Adafactor", "adafactor", "batch_4"),
    ("LoRA of rank 8, beside bf16", "bf16_lora", "bf16"),
    ("torch.compile, beside bf16", "bf16_compile", "bf16"),
    ("Every exact technique", "exact", "batch_4"),
    ("Every exact technique, and bf16", "exact_bf16", "batch_4"),
    ("The same, and 8-bit AdamW", "exact_bf16_8bit", "batch_4"),
    ("The same, without masters", "exact_bf16_8bit_no_master", "batch_4"),
)


# Rungs that were measured in one call of the ladder, and those that had calls of their own.
CHOICE_RUNGS = {rung for _, *rungs in CHOICES for rung in rungs}
CHOICE_ENTRIES = ("choices", *(name for name in (*LADDER, *LOWEST) if name.split("_", 1)[1] in CHOICE_RUNGS))


def choices_table(machine):
    found = [record for entry in CHOICE_ENTRIES for record in machine.of(entry)]
    rows = []
    for label, with_it, without in CHOICES:
        sides = [
            (of_named_rung(with_it, "ours", *path), of_named_rung(without, "ours", *path))
            for path in (("samples_per_second",), ("memory", "training_bytes"))
        ]
        if campaigns := len(r.ratios_of_campaigns(found, *sides[0])):
            rows.append([label, *(times(found, *side) for side in sides), str(campaigns)])
    return ("method", "speed, times", "memory, times", "campaigns"), rows


def recompute_table(machine):
    found = machine.of("recompute")
    seconds = [of_rung("ours", "step_seconds", at=at) for at in (0, 1)]
    rows = [["1 × 4 accumulation", middle(found, seconds[0], 2), ""]]
    rows.append(["the same, every layer recomputed", middle(found, seconds[1], 2), times(found, seconds[1], seconds[0])])
    return ("BERT-base, 512 tokens", "step, s", "times"), rows


RECOMPUTE_BUDGETS = {"recompute_budget_bert_large": "BERT-large", "recompute_budget_gpt2": "GPT-2"}
RECOMPUTED = {"nothing": "nothing recomputed", "half": "half of the bytes", "quarter": "a quarter of them", "every layer": "every layer recomputed"}


def recompute_budget_table(machine):
    rows = []
    for name in machine.names(RECOMPUTE_BUDGETS):
        output = newest(machine.of(name))
        shares, times_of = recompute_budget.shares(output["planned_bytes"]), recompute_budget.times(output["runs"])
        for setting, runs in output["runs"].items():
            goal = f"{recompute_budget.GOALS[setting][1]:.2f}" if setting in recompute_budget.GOALS else ""
            seconds = statistics.median(run["step_seconds"] for run in runs)
            planned = f"{output['planned_bytes'][setting] / MIB:,.0f}"
            rows.append([f"{RECOMPUTE_BUDGETS[name]}, {RECOMPUTED[setting]}", planned, f"{shares[setting]:.2f}", f"{seconds:.2f}", f"{times_of[setting]:.3f}", goal])
    return ("8 × 512", "made by a step, MiB", "share", "step, s", "times", "goal"), rows


def predict_times_table(name):
    def table(machine):
        output = predict_times.summary_of(newest(machine.of(name))["rows"])
        percent = lambda share: f"{100 * share:.1f}"
        rows = [
            [what, percent(output[kind]["median"]), percent(output[kind]["p95"]), goals]
            for what, kind, goals in (("seconds", "absolute_error", "8, –"), ("ratios", "ratio_error", "3, 8"))
        ]
        rows.append(["a setting's median beside its fastest run", *map(percent, output["rounds_difference"].values()), ""])
        return (f"of {output['points']} settings", "median error, %", "95th percentile, %", "goals"), rows

    return table


def epoch_time_table(machine):
    rows = []
    for setting, rounds in newest(machine.of("epoch_time"))["rounds"].items():
        predicted, measured, error = epoch_time.medians_of(rounds)
        rows.append([setting, f"{predicted:.1f}", f"{measured:.1f}", f"{100 * error:+.1f}"])
    return ("an epoch", "predicted, s", "measured, s", "error, median of the rounds, %; goal 10"), rows


def drawn_settings_table(machine):
    processes = [one for setting in newest(machine.of("drawn_settings"))["settings"] for one in setting["processes"]]
    rows = []
    for phase in (*dict.fromkeys(one["phase"] for one in processes), None):
        of_phase = [one for one in processes if phase in (None, one["phase"])]
        off = sorted(abs(one["measured_bytes"] - one["planned_bytes"]) / MIB for one in of_phase)
        at = lambda share: f"{off[int((len(off) - 1) * share)]:.1f}"
        planned = [one["planned_bytes"] / MIB for one in of_phase]
        within = (f"{100 * share:.0f}" for share in drawn_settings.shares_within(of_phase))
        rows.append([phase or "all", str(len(of_phase)), f"{min(planned):,.0f} to {max(planned):,.0f}", at(0.5), at(0.95), at(1), *within])
    goals = [f"within {100 * share:.0f} % or {least // MIB} MiB, %; goal {100 * goal:.0f}" for goal, share, least in drawn_settings.GOALS]
    return ("process", "of them", "planned, MiB", "off by, MiB: median", "95th percentile", "most", *goals), rows


RANK_KILLS = {"rank_kills": "three ranks of one host", "host_kills": "two hosts of a rank each"}


def rank_kills_table(machine):
    rows = []
    for name in machine.names(RANK_KILLS):
        made = newest(machine.of(name))
        ended = made["runs_that_ended_before"]
        rows.append([RANK_KILLS[name], str(made["kills"]), "–" if ended is None else str(ended), f"{made['seconds']:.0f}", str(len(made["failures"]))])
    return ("", "kills of a rank", "runs that ended before theirs", "seconds in all", "failures"), rows


def rising_budgets_table(machine):
    rows = []
    for row in newest(machine.of("rising_budgets"))["budgets"]:
        planned, measured = row["predicted"], row["measured"]
        rows.append([
            f"{row['budget_bytes'] / MIB:,.0f}", f"{planned['step_seconds']:.3f}", f"{measured['step_seconds']:.3f}",
            f"{planned['process_peak_bytes'] / MIB:,.1f}", f"{measured['process_peak_bytes'] / MIB:,.1f}",
            f"`{' '.join(row['flags'])}`" if row["flags"] else "as asked for",
        ])  # fmt: skip
    return ("budget, MiB", "a step predicted, s", "measured, s", "planned, MiB", "measured, MiB", "what changes"), rows


def fit_choice_table(name):
    def table(machine):
        output = newest(machine.of(name))
        rows = [
            [f"{row['budget_bytes'] / MIB:,.0f}", row["fastest"], *(f"{row['times'][choice]:.3f}" for choice in fit_choice.CHOICES)]
            for row in output["budgets"]
        ]
        goals = [f"`{choice}`, times; goal {goal}" for choice, (_, goal) in fit_choice.CHOICES.items()]
        return ("budget, MiB", f"the fastest of {len(output['points'])}", *goals), rows

    return table


def catalog_ladder_table(machine):
    rungs = newest(machine.of("catalog_ladder"))["rungs"]
    rows = [
        [
            rung["setting"], f"{rung['best_samples_per_second']:.2f}", f"{rung['guides_samples_per_second']:.2f}",
            f"{catalog_ladder.reached(rung):.2f}", f"{100 * error:+.1f}", f"{rung['planned_bytes'] / MIB:,.0f}", f"{rung['guides_bytes'] / MIB:,.0f}",
        ]
        for rung, error in zip(rungs, catalog_ladder.ratio_errors(rungs))
    ]  # fmt: skip
    return ("BERT-large, 512 tokens", "at best, samples/s", "guides", "share reached", "error of its ratio, %", "MiB here", "guides"), rows


def catalog_ladder_footnote(machine):
    rungs = newest(machine.of("catalog_ladder"))["rungs"]
    errors = [100 * abs(error) for error in catalog_ladder.ratio_errors(rungs)]
    share = statistics.median(map(catalog_ladder.reached, rungs))
    return (
        f"A share of {share:.2f} is reached in the median. With it in all settings, speeds are wrong by {statistics.median(errors):.1f}% in the median, "
        f"by {max(errors):.1f}% at most."
    )


def limits_table(machine):
    found = machine.of("limits")
    giga = 1e9
    rows = [
        ["large fp32 products, GFLOP/s", middle(found, at_path("fp32_flops"), 0, giga), ""],
        ["large bf16 products, GFLOP/s", middle(found, at_path("bf16_flops"), 0, giga), ""],
        ["one array changed in place, GB/s", middle(found, at_path("bytes_per_second"), 1, giga), ""],
    ]
    peaks = keys_in(found, lambda output: [peak["name"] for peak in output.get("arithmetic_peaks", []) if peak["measured"]])
    for name in peaks:

        def peak(key, name=name):
            def numbers(record):
                return [p.get(key) for output in r.outputs(record) for p in output["arithmetic_peaks"] if p["name"] == name]

            return numbers

        row = [middle(found, peak(key), 0, giga) for key in ("flops_all_threads", "flops_one_thread")]
        rows.append([f"{name} on registers, GFLOP/s", *row])
    return ("", "all threads", "one thread"), rows


def data_wait_table(machine):
    found = machine.of("data_wait")
    share = middle(found, at_path("train_data_wait_share"), 1, 1e-6)
    return ("", "training, s", "waiting for data, millionths of it"), [["MiniLM, batch 16", middle(found, at_path("train_runtime"), 1), share]]


PLANS = tuple(f"plan_{name}" for name in entries.PLANS)
DECODER_PLANS = tuple(f"plan_decoder_{name}" for name in entries.DECODER_PLANS)
PEAKS = tuple(f"peak_{name}" for name in entries.PEAKS)
# Model -> its parameters, and the bytes of a process that full fine-tuning is to stay below.
PEAK_GOALS = {
    "qwen2-0.5b": (PARAMETERS["qwen2_0_5b"], 5.2 * PARAMETERS["qwen2_0_5b"] + 300 * MIB),
    "llama-1b": (PARAMETERS["llama_1b"], 6.6e9),
}


def peaks_table(machine):
    header = ("1 × 512", "runs / campaigns", "parameters, millions", "planned, MiB", "measured, MiB", "goal, MiB")
    rows = []
    for name in machine.names(PEAKS):
        found = machine.of(name)
        model, *flags = entries.PEAKS[name.removeprefix("peak_")].split()
        parameters, goal = PEAK_GOALS[model]
        planned, measured = at_path("memory_process_predicted_bytes"), at_path("memory_process_measured_bytes")
        rows.append([
            f"{model}{' `' + ' '.join(flags) + '`' if flags else ''}", count_runs(found, measured), f"{parameters / 1e6:,.0f}",
            middle(found, planned, 0, MIB), middle(found, measured, 0, MIB), f"{goal / MIB:,.0f}",
        ])  # fmt: skip
    return header, rows


def decoder_planning_table(machine):
    rows = []
    for name in machine.names(DECODER_PLANS):
        found = machine.of(name)
        label = entries.DECODER_PLANS[name.removeprefix("plan_decoder_")].removeprefix("--model ")
        rows.append([f"`{label}`", middle(found, at_path("planning_seconds"), 3), middle(found, at_path("planning_peak_bytes"), 0, MIB)])
    return ("", "planning, s", "process while planning, MiB"), rows


def link_text(link):
    return "this host's memory" if link is None else f"{link['bytes_per_second'] * 8 / 1e9:g} Gbit/s, {link['latency_seconds'] * 1e6:g} µs"


def parallel_table(machine):
    output = newest(machine.of("parallel_gpt2"))
    medians = {}
    for setting in output["settings"]:
        if "samples_per_second" in setting:
            medians[setting["mode"], setting["link"] is None] = setting["samples_per_second"]["median"]
    rows = []
    for setting in output["settings"]:
        where = "" if setting["mode"] == "one process" else link_text(setting["link"])
        speed, run = setting.get("samples_per_second"), setting["runs"][0]
        if speed is None:
            rows.append([setting["mode"], where, run["outcome"], "", "", ""])
            continue
        beside = speed["median"] / medians["ddp", True] if ("ddp", True) in medians else None
        rows.append([
            setting["mode"], where, f"{speed['median']:.3f} ({speed['low']:.3f} to {speed['high']:.3f})", "–" if beside is None else f"{beside:.2f}",
            f"{run['sent_bytes_in_step'] / MIB:,.0f}", f"{run['process_bytes'] / MIB:,.0f}",
        ])  # fmt: skip
    return ("", "link", "samples/s (lowest to highest)", "÷ ddp", "the first rank sends in a step, MiB", "its process, MiB"), rows


SLOW_LINK_ORDERS = {"slow_link_gpt2": "micro-batch by micro-batch", "slow_link_gpt2_layer_major": "layer-major"}


def slow_link_table(machine):
    """Goals: 90 % hidden of what is complete before the backward's end, and predictions within 10 %."""
    rows = []
    for name in machine.names(tuple(SLOW_LINK_ORDERS)):
        rows += [[SLOW_LINK_ORDERS[name], *slow_link_row(setting)] for setting in newest(machine.of(name))["settings"]]
    header = (
        "order", "", "link", "step, s", "predicted, s", "off by, %", "the first rank sends in a step, MiB",
        "of it beside the computation complete before the backward's end, %", "of that hidden, %", "of all hidden, %", "predicted, %",
    )  # fmt: skip
    return header, rows


def slow_link_row(setting):
    where = "" if setting["mode"] == "one process" else link_text(setting["link"])
    run, predicted = setting["runs"][0], setting["predicted_step_seconds"]
    seconds = run.get("step_seconds")
    if seconds is None:
        return [setting["mode"], where, run["outcome"], "", "", "", "", "", "", ""]
    percent = lambda share: "–" if share is None else f"{100 * share:.0f}"
    early, hidden = (run.get(f"messages_{share}_share") for share in ("early", "hidden"))
    of_all = None if early is None or hidden is None else early * hidden
    shares = [percent(share) for share in (early, hidden, of_all, setting.get("predicted_hidden_share"))]
    error = None if predicted is None else abs(predicted - seconds) / seconds
    return [setting["mode"], where, f"{seconds:.2f}", number(predicted, 2), percent(error), f"{run['sent_bytes_in_step'] / MIB:,.0f}", *shares]


RANKS = {
    "ranks_bert_base_bf16": "BERT-base, bf16",
    "ranks_bert_base_fp32": "BERT-base, fp32",
    "ranks_gpt2_bf16": "GPT-2, bf16",
    "ranks_gpt2_fp32": "GPT-2, fp32",
}
RANK_METHODS = {"ddp": "DDP", "zero_3": "ZeRO-3"}
RANK_PEERS = {"torch_ddp": "DDP", "torch_fsdp": "FSDP"}


def ranks_table(machine):
    header = (
        "two ranks of a thread, 2 × 512 each", "runs / campaigns", "samples/s", "÷ one rank of two threads", "goal", "PyTorch on gloo",
        "samples/s", "times", "MiB of a rank", "PyTorch", "times",
    )  # fmt: skip
    rows = []
    for name in machine.names(tuple(RANKS)):
        found = machine.of(name)
        for side, method in RANK_METHODS.items():
            peer = compare_ranks.PEER_OF[side]
            speed, peak = "samples_per_second", "peak_bytes"
            rows.append([
                f"{RANKS[name]}, {method}", count_runs(found, of_side(side, speed)), middle(found, of_side(side, speed), 3),
                times(found, of_side(side, speed), of_side("one", speed)), f"{compare_ranks.GOALS_OF_ONE[side]:.2f}",
                RANK_PEERS[peer], middle(found, of_side(peer, speed), 3), times(found, of_side(side, speed), of_side(peer, speed)),
                middle(found, of_side(side, peak), 0, MIB), middle(found, of_side(peer, peak), 0, MIB),
                times(found, of_side(side, peak), of_side(peer, peak)),
            ])  # fmt: skip
    return header, rows


# What is on the page of choices of it: two ranks of a thread beside one rank of two, which has their batch.
def several_table(machine):
    rows = []
    for name in machine.names(tuple(RANKS)):
        found = machine.of(name)
        for side, method in RANK_METHODS.items():
            beside_one = lambda key: times(found, of_side(side, key), of_side("one", key))
            rows.append([f"{RANKS[name]}: {method}", beside_one("samples_per_second"), beside_one("peak_bytes")])
    return ("method", "speed, times", "memory of a rank, times"), rows


def rank_share_table(machine):
    found = machine.of("rank_share_bert_large")
    labels = {"one": "one rank, 8 × 128", "zero_3": "8 ranks with ZeRO-3, 1 × 128 each"}
    rows = []
    for side, label in labels.items():
        planned, measured = of_side(side, "predicted_peak_bytes"), of_side(side, "peak_bytes")
        rows.append([label, middle(found, planned, 0, MIB), middle(found, measured, 0, MIB), times(found, measured, of_side("one", "peak_bytes"))])
    return ("BERT-large, fp32, AdamW", "planned, MiB of a rank", "measured", "times"), rows


def plan_label(name):
    flags = entries.PLANS[name.removeprefix("plan_")]
    if name in LORA_PLANS and "--lora" not in flags:
        return f"everything trained, `{flags}`" if flags else "everything trained"
    return f"`{flags}`"


def plan_rows(machine, names, columns):
    return [[plan_label(name), *(middle(machine.of(name), *column) for column in columns)] for name in machine.names(names)]


def lora_table(machine):
    columns = [(at_path("trainable_parameters"), 0), (of_arena("persistent"), 1, MIB), (of_arena("transient"), 1, MIB)]
    columns.append((at_path("process_peak_bytes"), 0, MIB))
    header = ("MiB", "trained weights", "weights, states", "the step itself", "peak of the process")
    return header, plan_rows(machine, LORA_PLANS, columns)


def rank_plan_table(machine):
    columns = ((at_path("arena_bytes"), 0, MIB), (at_path("sent_bytes_in_step"), 0, MIB))
    rows = []
    for stage in range(4):
        names = machine.names(f"plan_rank_{dtype}_stage_{stage}" for dtype in ("fp32", "bf16"))
        if names:
            rows.append([str(stage), *(middle(machine.of(name), *column) for name in names for column in columns)])
    return ("`--zero_stage`", "float32: holds, MiB", "sends, MiB", "bf16: holds, MiB", "sends, MiB"), rows


def optimizer_plan_table(machine):
    peak = at_path("process_peak_bytes")
    rows = [[OPTIMIZER_PLANS[name], middle(machine.of(name), peak, 0, MIB)] for name in machine.names(OPTIMIZER_PLANS)]
    return ("", "peak of the process, MiB"), rows


def planning_table(machine):
    columns = ((at_path("planning_seconds"), 3), (at_path("planning_peak_bytes"), 0, MIB))
    return ("", "planning, s", "process while planning, MiB"), plan_rows(machine, PLANS, columns)


def search_speed_table(machine):
    found = machine.of("search_speed")
    rows = []
    for name in keys_in(found, lambda output: [case["name"] for case in output["cases"]]):
        seconds, peak = of_case(name, "seconds"), of_case(name, "peak_bytes")
        rows.append([name, f"{middle(found, seconds, 2)} ({span(found, seconds, 2)})", middle(found, peak, 0, MIB)])
    return ("", "s (least to most)", "largest process, MiB"), rows


LORA_PLANS = PLANS[:8]
RANK_PLANS = tuple(f"plan_rank_{name}" for name in entries.RANK_PLANS)
OPTIMIZER_PLANS = {"plan_full": "AdamW", "plan_lion": "Lion", "plan_adafactor": "Adafactor", "plan_sgd": "SGD"}


def anatomy_table(machine):
    names = machine.names(ANATOMIES)
    header = ["", *(f"{name.rsplit('_', 1)[1]}: {what}" for name in names for what in ("share of the step", "times its least time"))]
    kinds = list(dict.fromkeys(kind for name in names for kind in keys_in(machine.of(name), lambda o: o["operations"]["classes"])))
    rows = []
    for kind in [*kinds, None]:
        row = [kind or "all"]
        for name in names:
            found = machine.of(name)
            path = ("operations", "classes", kind) if kind else ("operations", "total")
            seconds = at_path(*path, "seconds")
            row.append(times(found, seconds, at_path("operations", "total", "seconds")))
            row.append(times(found, seconds, at_path(*path, "floor_seconds")))
        rows.append(row)
    unexplained = ["measured peak less its account, MiB"]
    for name in names:
        unexplained += [middle(machine.of(name), at_path("memory", "unexplained_bytes"), 1, MIB), ""]
    return header, [*rows, unexplained]


ANATOMIES = ("anatomy_bert_base_fp32", "anatomy_bert_base_bf16")


PROFILES = {
    "profile_llama_135m_fp32": "Llama 135M, fp32", "profile_llama_135m_bf16": "bf16",
    "profile_qwen2_0_5b_fp32": "Qwen2 0.5B, fp32", "profile_qwen2_0_5b_bf16": "bf16",
}  # fmt: skip


def profile_table(machine):
    """The share of each kind of operation in the steps that were profiled, the largest first."""
    profiles = [newest(machine.of(name))["profile"] for name in machine.names(PROFILES)]
    share = lambda profile, kind: sum(op["seconds"] for op in profile["ops"] if op["op"] == kind) / profile["seconds"]
    kinds = {op["op"] for profile in profiles for op in profile["ops"]}
    rows = []
    for kind in sorted(kinds, key=lambda kind: (-max(share(profile, kind) for profile in profiles), kind)):
        shares = [share(profile, kind) for profile in profiles]
        if max(shares) >= 0.0005:  # what rounds to 0.0 everywhere is left out
            rows.append([f"`{kind}`", *(f"{100 * one:.1f}" for one in shares)])
    return ["share of the step, %", *(PROFILES[name] for name in machine.names(PROFILES))], rows


# Records before 2026-11-27-zen3-5 have products of so many only, and do not say it.
TOKENS_OF_OLD_PRODUCTS = 2048


def products_table(machine):
    """By the tokens that a weight meets: GFLOP/s, and of fp32 and bf16 the share of the limit that `env` measured before."""
    found = machine.of("products")
    names = {}  # by product and weight, then by tokens: new and old ones
    for name in benchmark_names(found):
        product, dtype, outputs, inputs, *tokens = shown(name).split("/")
        of_tokens = names.setdefault((product, dtype, outputs, inputs), {})
        of_tokens.setdefault(int(tokens[0]) if tokens else TOKENS_OF_OLD_PRODUCTS, []).append(name)
    counts = sorted({count for of_tokens in names.values() for count in of_tokens})
    rows = []
    for (product, dtype, outputs, inputs), of_tokens in names.items():
        row = [f"{product.replace('_', ' ')}, {dtype}, {outputs} × {inputs}"]

        def limit(record, key=f"{dtype}_flops"):
            return [record["environment"].get(key)]

        for count in counts:
            if count not in of_tokens:
                row += ["–", "–"]
                continue
            rate = of_any_benchmark(of_tokens[count], "FLOP/s")
            row += [middle(found, rate, 0, 1e9), times(found, rate, limit)]
        rows.append(row)
    header = ["GFLOP/s of a product, weight [out, in]"]
    for count in counts:
        header += [f"{count:,} tokens", "of the limit"]
    return header, rows


def attention_table(machine):
    found = machine.of("attention")
    names = benchmark_names(found)
    rows = [[shown(n), middle(found, of_benchmark(n, "real_time"), 2), middle(found, of_benchmark(n, "flop/s"), 0, 1e9)] for n in names]
    return ("", "ms", "GFLOP/s"), rows


UPDATES = (("AdamW", "adamw"), ("AdamW, states in 8 bits", "adamw_8bit"), ("Adafactor", "adafactor"))
WEIGHTS = (("fp32 weights", 0), ("split weights", 1))


def updates_table(machine):
    found = machine.of("updates")
    columns = (("ms", "ms", 1), ("of the bandwidth", "share", 2), ("of AdamW", "of_adamw", 2))
    header = ["16.8 M elements", *(f"{weights}: {title}" for weights, _ in WEIGHTS for title, _, _ in columns)]
    rows = []
    for label, key in UPDATES:
        row = [label]
        for _, number_of_weights in WEIGHTS:
            name = f"bench_updates_in_turns/{number_of_weights}/iterations:21/real_time"
            row += [middle(found, of_benchmark(name, f"{key}_{counter}"), digits) for _, counter, digits in columns]
        rows.append(row)
    return header, rows


def checksum_table(machine):
    found = machine.of("checksum")
    rows = []
    for mib in (256, 1024):
        ms = [of_benchmark(f"save_safetensors/MiB:{mib}/checksum:{on}/real_time", "real_time") for on in (0, 1)]
        rows.append([f"{mib} MiB", middle(found, ms[0], 0), middle(found, ms[1], 0), times(found, ms[1], ms[0])])
    rate = middle(found, of_benchmark("checksum/real_time", "bytes_per_second"), 1, 1e9)
    return ("a file saved", "ms", "ms with checksums", "times"), [*rows, ["the checksum alone, GB/s", "", rate, ""]]


def checksum_pairs_table(machine):
    found = machine.of("checksum_pairs")
    counters = ("times", "times_low", "times_high")
    row = [middle(found, of_benchmark("save_pairs/MiB:256/iterations:101/real_time", counter), 3) for counter in counters]
    return ("101 pairs of saves", "times with checksums", "at least", "at most"), [["256 MiB", *row]]


def packing_table(machine):
    found = machine.of("packing")
    columns = (("intervals", 0), ("over_bound", 4), ("real_time", 1))
    rows = [[name, *(middle(found, of_benchmark(name, key), digits) for key, digits in columns)] for name in benchmark_names(found)]
    return ("", "buffers", "of the lower bound", "ms"), rows


def tokenizer_table(machine):
    found = machine.of("tokenizer")
    sides = ("shoehorn", "encode_batch", "encode_batch_fast")
    rows = []
    for texts, threads in keys_in(found, lambda output: [(item["texts"], item["threads"]) for item in output]):
        rates = [of_rounds(texts, threads, side) for side in sides]
        shown_rates = [middle(found, rate, 0) for rate in rates]
        label = f"{texts}, {threads} thread{'s' if threads > 1 else ''}"
        rows.append([label, *shown_rates, times(found, rates[0], rates[2], 1)])
    return ("texts a second", "Shoehorn", "`encode_batch`", "`encode_batch_fast`", "times the last"), rows


FAMILIES = tuple(f"tokenizer_family_{family}" for family in entries.FAMILIES)


def tokenizer_families_table(machine):
    rows = []
    for name in machine.names(FAMILIES):
        found, family = machine.of(name), name.removeprefix("tokenizer_family_")
        of_family = {key: newest(found)["families"][family][key] for key in ("texts", "differing", "megabyte_is_equal")}
        rows.append([
            family, f"{of_family['texts']:,}", f"{of_family['differing']:,}", "equal" if of_family["megabyte_is_equal"] else "differs",
            middle(found, at_path("families", family, "megabyte_seconds"), 2),
        ])  # fmt: skip
    return ("chain of", "texts", "that differ", "a megabyte without a space", "its seconds; goal 1"), rows


def quality_table(entry):
    def table(machine):
        found = machine.of(entry)
        rows = []
        for rung in keys_in(found, lambda output: [item["name"] for item in output["rungs"]]):
            items = [item for record in found for output in r.outputs(record) for item in output["rungs"] if item["name"] == rung]
            accuracy, seconds = of_seeds(rung, "eval_accuracy"), of_seeds(rung, "train_runtime")
            rows.append([
                items[-1]["setting"].replace(" x ", " × "), str(sum(len(item["runs"]) for item in items)),
                f"{middle(found, accuracy, 4)} ({span(found, accuracy, 4)})", middle(found, of_seeds(rung, "eval_loss"), 4),
                times(found, seconds, of_seeds("reference", "train_runtime")),
                middle(found, of_seeds(rung, "memory_process_measured_bytes"), 0, MIB), verdict(items),
            ])  # fmt: skip
        return ("setting", "runs", "accuracy (lowest to highest)", "evaluation loss", "time", "MiB", ""), rows

    return table


def verdict(items):
    if items[-1]["name"] == "reference":
        return "reference"
    losing = sum(bool(item.get("loses_accuracy")) for item in items)
    texts = [] if not losing else ["loses" if losing == len(items) else f"loses in {losing} of {len(items)} campaigns"]
    if equals := items[-1].get("equals"):
        exact = "every bit of" if equals["is_every_bit"] else f"losses of the first steps to {equals['first_steps']:.0e} of"
        texts.append(f"{exact} `{equals['name']}`")
    return ", ".join(texts)


def demo_table(machine):
    rows = []
    labels = (("demo", "`make demo`, built before"), ("demo_lm", "`make demo-lm`, built before"), ("fresh_bookworm", "on an empty Debian 12"), ("fresh_trixie", "on an empty Debian 13"))
    for name, label in labels:
        if found := machine.of(name):
            training = middle(found, at_path("results", "train_runtime"), 0)
            scores = [middle(found, at_path("results", key), 3) for key in ("eval_accuracy", "perplexity")]
            rows.append([label, middle(found, at_path("seconds"), 1, 60), training, *scores])
    return ("", "minutes", "training, s", "accuracy", "perplexity"), rows


def transcript(machine):
    """What the newest run of the demo printed, shortened: its second half, without the bytes by component."""
    lines = newest(machine.of("demo"))["lines"]
    starts = [at for at, line in enumerate(lines) if line.startswith("== Training")]
    text = "\n".join(line if len(line) <= 120 else line[:119] + "…" for line in lines[starts[0] if starts else 0 :])
    return "```\n" + re.sub(r"^  by component\n.*?^(?=  persistent)", "  …\n", text, flags=re.M | re.S) + "\n```"


FIGURES = [
    Figure("limits", ("limits",), limits_table),
    Figure("summary", SUMMARY, summary_table),
    Figure("step", STEPS, step_table),
    Figure("decoders", DECODER_STEPS, decoder_table),
    Figure("llm_c", tuple(LLM_C), llm_c_table),
    Figure("character_gpt", CHARACTER_GPTS, character_gpt_table),
    Figure("vocabulary_loss", tuple(VOCABULARY_LOSSES), vocabulary_loss_table),
    Figure("ladder", LADDER, ladder_table, ladder_footnote),
    Figure("lowest", LOWEST, lowest_table),
    Figure("choices", CHOICE_ENTRIES, choices_table),
    Figure("recompute", ("recompute",), recompute_table),
    Figure("text", TEXTS, text_table),
    Figure("loaded", ("loaded_bert_base",), loaded_table),
    Figure("loaded_spins", ("loaded_spins",), spins_table, only_newest=True),
    Figure("onednn_builds", ("onednn_builds",), builds_table),
    Figure("data_wait", ("data_wait",), data_wait_table),
    Figure("quality_minilm", ("quality_minilm",), quality_table("quality_minilm")),
    Figure("quality_quick", ("quality_quick",), quality_table("quality_quick")),
    Figure("anatomy", ANATOMIES, anatomy_table),
    Figure("profile", tuple(PROFILES), profile_table),
    Figure("products", ("products",), products_table),
    Figure("attention", ("attention",), attention_table),
    Figure("updates", ("updates",), updates_table),
    Figure("checksum", ("checksum",), checksum_table),
    Figure("checksum_pairs", ("checksum_pairs",), checksum_pairs_table, only_newest=True),
    Figure("packing", ("packing",), packing_table),
    Figure("tokenizer", ("tokenizer",), tokenizer_table),
    Figure("tokenizer_families", FAMILIES, tokenizer_families_table, newest_of_machine=True),
    Figure("planning", PLANS, planning_table),
    Figure("decoder_planning", DECODER_PLANS, decoder_planning_table),
    Figure("peaks", PEAKS, peaks_table),
    Figure("parallel", ("parallel_gpt2",), parallel_table, only_newest=True),
    Figure("ranks", tuple(RANKS), ranks_table),
    Figure("several", tuple(RANKS), several_table),
    Figure("rank_share", ("rank_share_bert_large",), rank_share_table),
    Figure("slow_link", tuple(SLOW_LINK_ORDERS), slow_link_table, newest_of_machine=True),
    Figure("search_speed", ("search_speed",), search_speed_table, only_newest=True),
    Figure("recompute_budget", tuple(RECOMPUTE_BUDGETS), recompute_budget_table),
    Figure("predict_times", ("predict_times",), predict_times_table("predict_times"), only_newest=True),
    Figure("predict_times_decoders", ("predict_times_decoders",), predict_times_table("predict_times_decoders"), only_newest=True),
    Figure("epoch_time", ("epoch_time",), epoch_time_table, only_newest=True),
    Figure("drawn_settings", ("drawn_settings",), drawn_settings_table, only_newest=True),
    Figure("rank_kills", tuple(RANK_KILLS), rank_kills_table),
    Figure("rising_budgets", ("rising_budgets",), rising_budgets_table, only_newest=True),
    Figure("fit_choice", ("fit_choice",), fit_choice_table("fit_choice"), newest_of_machine=True),
    Figure("fit_choice_gpt2", ("fit_choice_gpt2",), fit_choice_table("fit_choice_gpt2"), newest_of_machine=True),
    Figure("catalog_ladder", ("catalog_ladder",), catalog_ladder_table, catalog_ladder_footnote, only_newest=True),
    Figure("lora", LORA_PLANS, lora_table),
    Figure("rank_plans", RANK_PLANS, rank_plan_table, only_newest=True),
    Figure("optimizers", tuple(OPTIMIZER_PLANS), optimizer_plan_table),
    Figure("transcript", ("demo",), transcript, only_newest=True),
    Figure("demo", ("demo", "demo_lm", "fresh_bookworm", "fresh_trixie"), demo_table),
]
