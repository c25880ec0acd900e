#!/usr/bin/env python3
"""Writes the tables of measured figures in README.md and docs/*.md from the records in bench/results.

  bench/tables.py            writes the text between `<!-- figures: NAME -->` and `<!-- end of figures -->`
  bench/tables.py --check    changes nothing

The figures are data: bench/figures.py. All campaigns count: a number is the median over a machine's campaigns of each
campaign's median. Machines are never mixed: each has its own table. A table ends with its records, and with the entries
of campaign_entries.py that have none on that machine.

Exit: 0; 1 where --check finds a page that differs from the records, which it names; 2 where a record or a page is not in
its format.
"""

import argparse
import difflib
import os
import pathlib
import re
import sys
import textwrap

import campaign_entries
import figures
import records

BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n)(.*?)(<!-- end of figures -->)", re.S)
MARK = re.compile(r"<!-- (?:figures:.*?|end of figures) -->")
WIDTH = 120


class PageError(Exception):
    """A page whose marks are wrong; the message names it."""


def wrapped(text):
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def label_of(found):
    """The machine as its records describe it; what an older record does not know comes from another one."""
    facts = {}
    for record in found:
        facts.update({key: value for key, value in (record["environment"] or {}).items() if value is not None})
    parts = [facts.get("cpu"), f"{facts['threads']} threads" if "threads" in facts else None, facts.get("isa"), facts.get("products")]
    return f"**{found[0]['machine']}**: {', '.join(part for part in parts if part)}"


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "| " + " | ".join("---" for _ in header) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def sources(found, all_records):
    """The records of a table, a campaign after the other."""
    campaigns = {}
    for record in found:
        campaigns.setdefault(record["campaign"], []).append(record["name"])
    texts = []
    for campaign, names in sorted(campaigns.items()):
        prefix = os.path.commonprefix(names).rpartition("_")[0] + "_"
        others = [record for record in all_records if record["campaign"] == campaign and record["name"].startswith(prefix)]
        if len(names) > 2 and len(others) == len(names):
            texts.append(f"`{campaign}/{prefix}*.json` ({len(names)})")
        else:
            texts.append(", ".join(f"`{campaign}/{name}.json`" for name in names))
    return f"Records in `bench/results/`: {', '.join(texts)}."


def missing_text(names, where):
    return f"Not measured {where}: {', '.join(f'`{name}`' for name in names)}."


def of_newest_campaign(records):
    """Campaigns of one day on several machines are in the order in which they began; the day is known of all."""
    newest = max(records, key=lambda record: (record["campaign"][:10], record["started"] or "", record["campaign"]))["campaign"]
    return [record for record in records if record["campaign"] == newest]


def of_newest_campaign_of_each_entry(records):
    by_name = {}
    for record in records:
        by_name.setdefault(record["name"], []).append(record)
    return [record for found in by_name.values() for record in of_newest_campaign(found)]


def render(figure, all_records):
    """The text of a figure: a table a machine, or which records it lacks."""
    mine = [record for record in all_records if record["name"] in figure.entries]
    if not mine:
        return wrapped(missing_text(figure.entries, "yet (entries of `bench/campaign.py`)"))
    if figure.only_newest:
        mine = of_newest_campaign(mine)
    parts = []
    for machine_name in sorted({record["machine"] for record in mine}):
        found = [record for record in mine if record["machine"] == machine_name]
        if figure.newest_of_machine:
            found = of_newest_campaign_of_each_entry(found)
        machine = figures.Machine(found)
        missing = [name for name in figure.entries if not machine.of(name)]
        ending = sources(found, all_records) + (f" {missing_text(missing, 'there')}" if missing else "")
        note = figure.footnote(machine)
        parts.append(label_of([record for record in all_records if record["machine"] == machine_name]))
        table = figure.table(machine)
        parts.append(table if isinstance(table, str) else markdown(*table))
        parts += [wrapped(note)] * bool(note) + [wrapped(ending)]
    return "\n\n".join(parts)


def defects(all_records):
    """What is wrong with the records beside each other, a line each."""
    lines = []
    processors = {}
    for record in all_records:
        place = f"{record['campaign']}/{record['name']}.json"
        if record["name"] not in campaign_entries.NAMES:
            lines.append(f"[{place}] expected the name of an entry of campaign_entries.py, got {record['name']}")
        cpu = (record["environment"] or {}).get("cpu")
        if cpu and processors.setdefault(record["machine"], cpu) != cpu:
            known = processors[record["machine"]]
            lines.append(f"[{place}] expected one processor by the name of {record['machine']}, got {cpu} and {known}")
    return lines


def replaced(text, page, all_records):
    """A page with its figures as the records give them."""
    by_name = {figure.name: figure for figure in figures.FIGURES}
    if len(MARK.findall(text)) != 2 * len(BLOCK.findall(text)):
        raise PageError(f"[{page}] expected pairs of <!-- figures: NAME --> and <!-- end of figures -->, each on a line of its own")

    def block(match):
        if match[2] not in by_name:
            raise PageError(f"[{page}] expected a figure of bench/figures.py, got {match[2]}")
        return f"{match[1]}\n{render(by_name[match[2]], all_records)}\n\n{match[4]}"

    return BLOCK.sub(block, text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=records.ROOT, help="of the pages and of bench/results")
    args = parser.parse_args()
    all_records = records.load(args.root / "bench" / "results")
    if wrong := defects(all_records):
        raise records.RecordError("\n".join(wrong))
    differs = False
    used = set()
    for path in sorted([args.root / "README.md", *(args.root / "docs").glob("*.md")]):
        page = str(path.relative_to(args.root))
        text = path.read_text(encoding="utf-8")
        used |= {match[1] for match in BLOCK.findall(text)}
        made = replaced(text, page, all_records)
        if made == text:
            continue
        differs = True
        if args.check:
            names = (f"{page} as it is", f"{page} by the records")
            print("\n".join(difflib.unified_diff(text.splitlines(), made.splitlines(), *names, lineterm="", n=0)))
        else:
            path.write_text(made, encoding="utf-8")
            print(f"{page} written")
    unused = [figure.name for figure in figures.FIGURES if figure.name not in used]
    if unused:
        raise PageError(f"[docs] expected every figure on a page, got none with {', '.join(unused)}")
    if args.check and differs:
        print("[tables] the pages differ from the records; run bench/tables.py", file=sys.stderr)
        return 1
    print(f"{len(used)} figures, {len(all_records)} records")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (PageError, records.RecordError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
