#!/usr/bin/env python3
"""A directory made by Transformers is trained by Shoehorn, and Transformers reads the result: the same logits?

  round_trip.py SHOEHORN_PROGRAM

Makes a small BERT and a small DistilBERT with a WordPiece vocabulary, trains them for a few steps (BERT also in bf16, in
bf16 without masters, as a regression and with any number of labels a text), predicts with Shoehorn, and compares as
check_output_directory.py does. Transformers is looked for in this Python, then in $SHOEHORN_PEERS_PYTHON
and in the environment of bench/peers/setup.sh.
Exit: 0 the same, 1 different or a program failed, 77 no Transformers here (CTest's SKIP_RETURN_CODE).
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import check_output_directory

SKIPPED = 77
WORDS = "the any model train fit memory plan step layer head token batch fast small large never again on of to".split()
LABELS = ("praise", "blame", "neither")


def python_with_transformers():
    """This Python where it has Transformers, else a known one that does; None if there is none."""
    if importlib.util.find_spec("transformers"):
        return sys.executable
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    for candidate in (os.environ.get("SHOEHORN_PEERS_PYTHON"), cache / "shoehorn/peers/bin/python"):
        if candidate and pathlib.Path(candidate).exists():
            return str(candidate)
    return None


def configured(architecture, vocab_size, num_labels):
    """A model with new weights."""
    import transformers

    if architecture == "distilbert":
        config = transformers.DistilBertConfig(
            vocab_size=vocab_size, dim=64, n_layers=3, n_heads=4, hidden_dim=96, max_position_embeddings=48,
            initializer_range=0.1, num_labels=num_labels,
        )  # fmt: skip
        return transformers.DistilBertForSequenceClassification(config)
    config = transformers.BertConfig(
        vocab_size=vocab_size, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
        max_position_embeddings=48, initializer_range=0.1, num_labels=num_labels,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def make_model(directory, architecture="bert", dtype="float32", num_labels=len(LABELS)):
    """Random weights larger than the usual ones, so that a wrong layer shows in the logits."""
    import torch
    import transformers

    torch.manual_seed(7)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"abcdefghijklmnopqrstuvwxyz", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz")]
    directory.mkdir()
    (directory / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    transformers.BertTokenizerFast(str(directory / "vocab.txt"), model_max_length=48).save_pretrained(directory)
    configured(architecture, len(pieces), num_labels).to(getattr(torch, dtype)).save_pretrained(directory)


def label_of(index, problem):
    if problem == "regression":
        return index % 7 / 2 + 0.25
    if problem == "multi_label":
        return [label for place, label in enumerate(LABELS) if index >> place & 1]
    return LABELS[index % len(LABELS)]


def write_rows(path, count, problem=None):
    with open(path, "w", encoding="utf-8") as file:
        for index in range(count):
            words = [WORDS[(index * 7 + step * step) % len(WORDS)] for step in range(2 + index % 19)]
            row = {"text": " ".join(words) + (" unknownword!" if index % 3 == 0 else ".")}
            if problem:
                row["label"] = label_of(index, problem)
            file.write(json.dumps(row) + "\n")


def run(*words):
    words = [str(word) for word in words]
    finished = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if finished.returncode != 0:
        print(f"{' '.join(words)}: exit {finished.returncode}\n{finished.stdout}")
    return finished


def loads_as(output, dtype):
    """Whether Transformers, left to itself, loads the model in this type."""
    import transformers

    found = transformers.AutoModelForSequenceClassification.from_pretrained(output, local_files_only=True).dtype
    if str(found) != f"torch.{dtype}":
        print(f"{output.name}: expected a model of {dtype}, got {found}")
    return str(found) == f"torch.{dtype}"


def same_predictions(name, output, texts, predictions, max_seq_length):
    """Whether Transformers predicts what Shoehorn predicted."""
    problems, agreement = check_output_directory.differences(str(output), str(texts), predictions, max_seq_length)
    print("\n".join(f"{name}: {line}" for line in problems or [agreement]))
    return not problems


def trip(shoehorn, directory, name, model, flags, problem="classes"):
    """Trains this model, predicts and compares; whether all was well."""
    output = directory / name
    trained = run(
        shoehorn, "train", "--model_name_or_path", directory / model, "--train_file", directory / f"{problem}.jsonl",
        "--max_seq_length", 32, "--per_device_train_batch_size", 4, "--max_steps", 5, "--learning_rate", "1e-3",
        "--save_strategy", "no", "--output_dir", output, *flags,
    )  # fmt: skip
    predictions = directory / f"{name}.jsonl"
    if trained.returncode != 0:
        return False
    predicted = run(
        shoehorn, "predict", "--model_name_or_path", output, "--test_file", directory / "test.jsonl",
        "--max_seq_length", 32, "--output_file", predictions, "--logits",
    )  # fmt: skip
    if predicted.returncode != 0:
        return False
    well = same_predictions(name, output, directory / "test.jsonl", predictions, 32)
    kept = "bfloat16" if "none" in flags else "float32"
    return well and loads_as(output, kept)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    python = python_with_transformers()
    if python is None:
        print("skipped: no Python with transformers; bench/peers/setup.sh makes one")
        return SKIPPED
    if python != sys.executable:
        os.execv(python, [python, *sys.argv])
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        make_model(directory / "bert")
        make_model(directory / "bert_bf16", "bert", "bfloat16")
        make_model(directory / "distilbert", "distilbert")
        make_model(directory / "bert_of_one_value", num_labels=1)
        for problem in ("classes", "regression", "multi_label"):
            write_rows(directory / f"{problem}.jsonl", 24, problem)
        write_rows(directory / "test.jsonl", 30)
        no_masters = ["--bf16", "--master_weights", "none"]
        trips = [
            ("fp32", "bert", []),
            ("bf16", "bert", ["--bf16"]),
            ("no_masters", "bert", no_masters),
            ("no_masters_of_bf16", "bert_bf16", no_masters),
            ("distilbert_fp32", "distilbert", []),
            ("regression", "bert_of_one_value", [], "regression"),
            ("multi_label", "distilbert", [], "multi_label"),
        ]
        return 0 if all([trip(sys.argv[1], directory, *each) for each in trips]) else 1


if __name__ == "__main__":
    sys.exit(main())
