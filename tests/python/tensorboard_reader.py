#!/usr/bin/env python3
"""TensorBoard's own reader on the event files of a run: does it find what the log says?

  tensorboard_reader.py SHOEHORN_PROGRAM

Makes a small BERT, trains it for a few steps with --report_to tensorboard jsonl, and compares each
scalar with log.jsonl. TensorBoard and Transformers are looked for as in round_trip.py.
Exit: 0 the same, 1 different or a program failed, 77 no TensorBoard here (CTest's SKIP_RETURN_CODE).
"""

import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import round_trip  # noqa: E402

SKIPPED = 77


def expected_scalars(log):
    """Tag -> [(step, value)], as the Trainer's TensorBoardCallback names them."""
    scalars = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        step = entry.pop("step")
        for name, value in entry.items():
            split, _, rest = name.partition("_")
            tag = f"{split}/{rest}" if split in ("eval", "test") and rest else f"train/{name}"
            scalars.setdefault(tag, []).append((step, value))
    return scalars


def same(a, b):
    """b was stored as a 32-bit float."""
    return abs(a - b) <= 2**-23 * abs(a) or (math.isnan(a) and math.isnan(b))


def compare(directory):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(directory / "events"), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    wrong = []
    expected = expected_scalars(directory / "out/log.jsonl")
    tags = set(accumulator.Tags()["scalars"])
    if tags != set(expected):
        wrong.append(f"expected the tags {sorted(expected)}, got {sorted(tags)}")
    for tag in tags & set(expected):
        found = [(event.step, event.value) for event in accumulator.Scalars(tag)]
        # Two entries of one step (an evaluation and the last one) are both kept.
        if len(found) != len(expected[tag]) or any(
            step != want_step or not same(want, value)
            for (step, value), (want_step, want) in zip(found, expected[tag])
        ):
            wrong.append(f"{tag}: expected {expected[tag]}, got {found}")
    texts = {tag: accumulator.Tensors(tag)[0].tensor_proto.string_val[0] for tag in accumulator.Tags()["tensors"]}
    if set(texts) != {"args/text_summary", "model_config/text_summary"}:
        wrong.append(f"expected the arguments and the model's configuration as text, got {sorted(texts)}")
    elif json.loads(texts["args/text_summary"])["max_steps"] != 6:
        wrong.append("the arguments are not those of the run")
    return wrong


def main(program):
    if not importlib.util.find_spec("tensorboard") or not importlib.util.find_spec("transformers"):
        python = round_trip.python_with_transformers()
        if python is None or python == sys.executable or os.environ.get("SHOEHORN_LOOKED_FOR_TENSORBOARD"):
            print("skipped: no Python with tensorboard and transformers (bench/peers/setup.sh makes one)")
            return SKIPPED
        environment = {**os.environ, "SHOEHORN_LOOKED_FOR_TENSORBOARD": "1"}
        return subprocess.run([python, __file__, program], env=environment, check=False).returncode
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        round_trip.make_model(directory / "model")
        round_trip.write_rows(directory / "train.jsonl", 48, True)
        subprocess.run(
            [program, "train", "--model_name_or_path", directory / "model", "--train_file", directory / "train.jsonl",
             "--validation_file", directory / "train.jsonl", "--output_dir", directory / "out", "--max_steps", "6",
             "--logging_steps", "1", "--eval_strategy", "steps", "--eval_steps", "3", "--save_strategy", "no",
             "--report_to", "tensorboard", "jsonl", "--logging_dir", directory / "events"],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        wrong = compare(directory)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
