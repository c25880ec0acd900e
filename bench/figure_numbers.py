"""Where the numbers of a figure are in a record's output, and how they become text.

A function `of_…` returns a function from a record to its numbers, one a run; where a run has none there is None. Over all
records of a machine, a number is the median over campaigns of a campaign's median; a ratio is the median over campaigns of
the campaign's ratio, for only what ran in turns may be compared.
"""

import dataclasses
import statistics

import records as r

MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Machine:
    """All records of one machine that a figure may use, by campaign."""

    records: list

    def of(self, name):
        return [record for record in self.records if record["name"] == name]

    def names(self, names):
        return [name for name in names if self.of(name)]


def number(value, digits):
    return "–" if value is None else f"{value:,.{digits}f}"


def middle(records, numbers_of, digits, unit=1):
    value = r.median_over_campaigns(records, numbers_of)
    return number(None if value is None else value / unit, digits)


def span(records, numbers_of, digits):
    """Lowest to highest run of all."""
    numbers = [value for record in records for value in r.known(numbers_of(record))]
    if not numbers:
        return "–"
    low, high = f"{min(numbers):.{digits}f}", f"{max(numbers):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def times(records, above, below, digits=2):
    return number(r.median_ratio_over_campaigns(records, above, below), digits)


def newest(records):
    """The output of the last run of the last campaign: for words, never for numbers."""
    return r.outputs(records[-1])[-1]


def keys_in(records, keys_of):
    """Keys of all outputs, in the newest one's order."""
    found = dict.fromkeys(keys_of(newest(records)))
    for record in records:
        for output in r.outputs(record):
            found.update(dict.fromkeys(keys_of(output)))
    return list(found)


# compare.py, compare_text.py and compare_character_gpt.py: a measurement, or a list of them, with `runs` of both sides.


def of_side(side, key):
    def numbers(record):
        measurements = [m for output in r.outputs(record) for m in (output if isinstance(output, list) else [output])]
        return [run.get(key) for measurement in measurements for run in measurement["runs"][side]]

    return numbers


def of_steps(side):
    """llm_c.py: the median step of each process."""

    def numbers(record):
        return [statistics.median(run["step_seconds"]) for output in r.outputs(record) for run in output["runs"][side]]

    return numbers


def count_runs(records, numbers_of):
    """Processes of a side and campaigns."""
    return f"{sum(len(r.known(numbers_of(record))) for record in records)} / {len(records)}"


# bench ladder: an output has the rungs of its call.


def rung_of(output, at=0):
    return output["rungs"][at]


def value_at(part, path):
    """What lies at a path of keys below an object; None where a key is absent."""
    for key in path:
        part = part.get(key) if isinstance(part, dict) else None
    return part


def of_rung(*path, at=0):
    """The number at a path of keys below the rung; a rung that was not measured has none."""
    return lambda record: [value_at(rung_of(output, at), path) for output in r.outputs(record)]


def of_named_rung(name, *path):
    """The same of the rung of a name."""

    def numbers(record):
        rungs = [{rung["name"]: rung for rung in output["rungs"]}.get(name) for output in r.outputs(record)]
        return [value_at(rung, path) if rung else None for rung in rungs]

    return numbers


def prediction_error(record):
    pairs = zip(of_rung("ours", "predicted_bytes")(record), of_rung("ours", "memory", "training_bytes")(record))
    return [predicted - measured if predicted and measured else None for predicted, measured in pairs]


def processes_of_ladder(records):
    return f"{sum(output['repeats'] for record in records for output in r.outputs(record))} / {len(records)}"


def setting_of(records):
    return rung_of(newest(records))["setting"].replace(" x ", " × ")


def deviations(records):
    """What the Trainer ran in place of a rung's flags: texts."""
    found = {}
    for record in records:
        for output in r.outputs(record):
            theirs = rung_of(output).get("theirs", {})
            if theirs.get("ran"):
                found[f"runs {theirs['ran']}"] = None
            if theirs.get("left_out"):
                found[f"runs without {' '.join(theirs['left_out'])}"] = None
            if theirs.get("reason"):
                found[f"does not run: {theirs['reason'].splitlines()[0]}"] = None
    return list(found)


# Outputs that are one object: shoehorn env, plan, train, anatomy; demo.


def at_path(*path):
    return lambda record: [value_at(output, path) for output in r.outputs(record)]


def of_arena(name):
    return lambda record: [
        next((a["bytes"] for a in output["arenas"] if a["name"] == name), None) for output in r.outputs(record)
    ]


def of_case(name, key):
    """search_speed.py: the runs of a case."""
    return lambda record: [
        run[key] for output in r.outputs(record) for case in output["cases"] if case["name"] == name for run in case["runs"]
    ]


# compare_builds.py: an output has what env says of each build, and measurements with the runs of both.


def of_build(side, setting, key):
    def numbers(record):
        measurements = [m for output in r.outputs(record) for m in output["measurements"] if m["setting"] == setting]
        return [run.get(key) for measurement in measurements for run in measurement["runs"][side]]

    return numbers


# loaded.py: an output has the runs of each side, idle and loaded.


def of_state(side, state, key):
    return lambda record: [run.get(key) for output in r.outputs(record) for run in output["runs"].get(side, {}).get(state, [])]


# Google Benchmark: an output has `benchmarks`, each with counters.


def of_benchmark(name, key):
    return of_any_benchmark((name,), key)


def of_any_benchmark(names, key):
    """Of the one that a record has: older records name it otherwise."""
    return lambda record: [b.get(key) for output in r.outputs(record) for b in output["benchmarks"] if b["name"] in names]


def benchmark_names(records):
    return keys_in(records, lambda output: [benchmark["name"] for benchmark in output["benchmarks"]])


def shown(name):
    return name.removesuffix("/real_time").removesuffix("/iterations:21")


# tokenizer_rate.py: a list of sets of texts, each with the rates of every round.


def of_rounds(texts, threads, side):
    def numbers(record):
        items = [item for output in r.outputs(record) for item in output]
        return [rate for item in items if (item["texts"], item["threads"]) == (texts, threads) for rate in item["rates"][side]]

    return numbers


# bench quality: an output has rungs, each with the run of every seed.


def of_seeds(rung, key):
    def numbers(record):
        rungs = [item for output in r.outputs(record) for item in output["rungs"] if item["name"] == rung]
        return [run.get(key) for item in rungs for run in item["runs"]]

    return numbers
