"""Writes training_arguments.json: each field of transformers' TrainingArguments with its default, null where unset.

Run: python training_arguments_make.py [OUTPUT]   (transformers 5.23)
"""

import dataclasses
import json
import pathlib
import sys

from transformers import TrainingArguments


def main():
    defaults = {}
    for field in dataclasses.fields(TrainingArguments):
        if not field.init:
            continue
        value = None if field.default is dataclasses.MISSING else field.default
        defaults[field.name] = getattr(value, "value", value)
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("training_arguments.json")
    pathlib.Path(path).write_text(json.dumps(defaults, indent=2, sort_keys=True) + "\n")


main()
