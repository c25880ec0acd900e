"""Records of measurements: bench/results/CAMPAIGN/NAME.json, written by campaign.py and read by tables.py.

A campaign is one sitting on one machine, `DATE-MACHINE` or `DATE-MACHINE-NUMBER` (2026-11-22-zen4, 2026-11-22-zen4-2).
A record is what one entry of campaign_entries.py gave there. bench/README.md lists its keys.
"""

import json
import pathlib
import re
import statistics

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
FORMAT = 1
CAMPAIGN = re.compile(r"(\d{4}-\d{2}-\d{2})-([a-z0-9]+)(-\d+)?")
# Key -> what it may be. None is a fact that nobody knows any more.
KEYS = {
    "format": int,
    "name": str,
    "commit": str,
    "command": str,
    "environment": (dict, type(None)),
    "versions": (dict, type(None)),
    "started": (str, type(None)),
    "runs": list,
}
OPTIONAL_KEYS = {"note": str}
RUN_KEYS = {"seconds", "load_average", "output"}


class RecordError(Exception):
    """A record that is not in the format; the message names the file."""


def machine_of(campaign):
    """The short name of a campaign's machine: "zen4" of "2026-11-22-zen4-2"."""
    match = CAMPAIGN.fullmatch(campaign)
    if not match:
        raise RecordError(f"[{campaign}] expected a campaign DATE-MACHINE or DATE-MACHINE-NUMBER, as 2026-11-22-zen4")
    return match.group(2)


def defect(record):
    """What is wrong with a record, or None."""
    if not isinstance(record, dict):
        return f"expected an object, got {type(record).__name__}"
    allowed = KEYS | OPTIONAL_KEYS
    for key in sorted(KEYS.keys() - record.keys()):
        return f"expected the key {key}, got none"
    for key, value in record.items():
        if key not in allowed:
            return f"expected the keys {', '.join(allowed)}, got {key}"
        if not isinstance(value, allowed[key]):
            return f"expected another type of {key}, got {type(value).__name__}"
    if record["format"] != FORMAT:
        return f"expected format {FORMAT}, got {record['format']}"
    if not re.fullmatch(r"[0-9a-f]{40}", record["commit"]):
        return f"expected a commit of 40 digits, got {record['commit']}"
    if not record["runs"]:
        return "expected a run, got none"
    if any(not isinstance(run, dict) or set(run) != RUN_KEYS for run in record["runs"]):
        return f"expected runs with {', '.join(sorted(RUN_KEYS))}"
    return None


def load(results=RESULTS):
    """All records, sorted by campaign and name. Each gets the keys `campaign` and `machine` beside its own."""
    records = []
    for path in sorted(pathlib.Path(results).glob("*/*.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise RecordError(f"[{path.parent.name}/{path.name}] expected JSON, got: {error}") from error
        wrong = defect(record) or (record["name"] != path.stem and f"expected the name {path.stem}, got {record['name']}")
        if wrong:
            raise RecordError(f"[{path.parent.name}/{path.name}] {wrong}")
        records.append({**record, "campaign": path.parent.name, "machine": machine_of(path.parent.name)})
    return records


def save(path, record):
    """Writes a record as a whole or not at all."""
    wrong = defect(record)
    if wrong:
        raise RecordError(f"[{path.parent.name}/{path.name}] {wrong}")
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_suffix(".partial")
    staging.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    staging.replace(path)


def outputs(record):
    return [run["output"] for run in record["runs"]]


def median_over_campaigns(records, numbers_of):
    """The median over the records' campaigns of the median of numbers_of(record); None where no record has a number."""
    medians = [statistics.median(numbers) for record in records if (numbers := known(numbers_of(record)))]
    return statistics.median(medians) if medians else None


def ratios_of_campaigns(records, above, below):
    """Of each campaign that has both: (median of above(record)) / (median of below(record)) over its records, which ran in one sitting."""
    together = {}
    for record in records:
        together.setdefault(record["campaign"], []).append(record)
    numbers = lambda of, ran: [number for record in ran for number in known(of(record))]
    return [
        statistics.median(a) / statistics.median(b)
        for ran in together.values()
        if (a := numbers(above, ran)) and (b := numbers(below, ran))
    ]


def median_ratio_over_campaigns(records, above, below):
    """The median over campaigns of their ratio."""
    ratios = ratios_of_campaigns(records, above, below)
    return statistics.median(ratios) if ratios else None


def known(numbers):
    return [number for number in numbers if number is not None]
