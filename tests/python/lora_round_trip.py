#!/usr/bin/env python3
"""Adapters between Shoehorn and PEFT: the same logits, whoever trained them and whoever runs them?

  lora_round_trip.py SHOEHORN_PROGRAM

  1. Shoehorn trains an adapter; PEFT and Transformers load it.
  2. PEFT makes an adapter; Shoehorn predicts with it.
  3. Shoehorn merges what it trained; Transformers loads the whole model.

Each is compared with `shoehorn predict --logits`. PEFT is looked for in this Python, then where round_trip.py looks.
Exit: 0 the same, 1 different or a program failed, 77 no PEFT here (CTest's SKIP_RETURN_CODE).
"""

import importlib.util
import json
import os
import pathlib
import sys
import tempfile

from round_trip import SKIPPED, make_model, python_with_transformers, run, same_predictions, write_rows

MAX_SEQ_LENGTH = 32
TOLERANCE = 1e-4  # relative above 1, absolute below


def predict(shoehorn, model, directory, name):
    """The logits of every test text, as Shoehorn gives them; none if it failed."""
    predictions = directory / f"{name}.jsonl"
    finished = run(
        shoehorn, "predict", "--model_name_or_path", model, "--test_file", directory / "test.jsonl",
        "--max_seq_length", MAX_SEQ_LENGTH, "--output_file", predictions, "--logits",
    )  # fmt: skip
    if finished.returncode != 0:
        return None
    return [list(json.loads(line)["logits"].values()) for line in predictions.read_text(encoding="utf-8").splitlines()]


def logits_of(model, directory):
    """The same of a model of Transformers or PEFT."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(directory / "model", local_files_only=True)
    model.eval()
    logits = []
    for line in (directory / "test.jsonl").read_text(encoding="utf-8").splitlines():
        inputs = tokenizer(json.loads(line)["text"], truncation=True, max_length=MAX_SEQ_LENGTH, return_tensors="pt")
        if model.config.model_type == "distilbert":
            inputs.pop("token_type_ids", None)
        with torch.no_grad():
            logits.append(model(**inputs).logits[0].double().tolist())
    return logits


def same(what, ours, theirs):
    if ours is None or len(ours) != len(theirs):
        print(f"{what}: no logits to compare")
        return False
    pairs = [(a, b) for row, other in zip(ours, theirs) for a, b in zip(row, other, strict=True)]
    # Written so that a NaN on either side fails.
    well = all(abs(a - b) <= TOLERANCE * max(1.0, abs(b)) for a, b in pairs)
    print(f"{what}: {'agree' if well else 'DIFFER'}, largest difference {max(abs(a - b) for a, b in pairs):.2e}")
    return well


def train(shoehorn, directory, name, flags):
    output = directory / name
    finished = run(
        shoehorn, "train", "--model_name_or_path", directory / "model", "--train_file", directory / "train.jsonl",
        "--max_seq_length", MAX_SEQ_LENGTH, "--per_device_train_batch_size", 4, "--max_steps", 5, "--learning_rate", "2e-2",
        "--save_strategy", "no", "--output_dir", output, *flags,
    )  # fmt: skip
    return output if finished.returncode == 0 else None


def base_model(directory):
    import transformers

    return transformers.AutoModelForSequenceClassification.from_pretrained(directory / "model", local_files_only=True)


def ours_in_peft(shoehorn, directory):
    """Adapters that Shoehorn trained, in PEFT and in Transformers."""
    import peft
    import transformers

    well = True
    base_logits = logits_of(base_model(directory), directory)
    for name, flags in {
        "query_value": ["--lora_rank", 4],
        "all_linear": ["--lora_rank", 3, "--lora_alpha", 7.5, "--lora_target", "all-linear", "--lora_modules_to_save", "classifier,pooler"],
        "bf16": ["--lora_rank", 8, "--lora_dropout", 0.1, "--bf16"],
    }.items():
        output = train(shoehorn, directory, name, flags)
        if output is None:
            return False
        ours = predict(shoehorn, output, directory, name)
        theirs = logits_of(peft.PeftModel.from_pretrained(base_model(directory), output), directory)
        moved = max(abs(a - b) for row, other in zip(theirs, base_logits) for a, b in zip(row, other))
        if not moved > 100 * TOLERANCE:
            print(f"{name}: expected an adapter that changes the logits, got a change of {moved:.2e}")
            well = False
        well &= same(f"{name}: PEFT with Shoehorn's adapter", ours, theirs)
        auto = transformers.AutoModelForSequenceClassification.from_pretrained(output, local_files_only=True)
        well &= same(f"{name}: Transformers with Shoehorn's adapter", ours, logits_of(auto, directory))
    return well


def distilbert_in_peft(shoehorn, directory):
    """The adapter of an architecture whose layers have other names, and whose head is two layers."""
    import peft

    directory = directory / "of_distilbert"
    directory.mkdir()
    make_model(directory / "model", "distilbert")
    write_rows(directory / "train.jsonl", 24, True)
    write_rows(directory / "test.jsonl", 30, False)
    output = train(shoehorn, directory, "adapter", ["--lora_rank", 4])
    if output is None:
        return False
    ours = predict(shoehorn, output, directory, "adapter")
    theirs = logits_of(peft.PeftModel.from_pretrained(base_model(directory), output), directory)
    return same("PEFT with Shoehorn's adapter of DistilBERT", ours, theirs)


def theirs_in_shoehorn(shoehorn, directory):
    """An adapter that PEFT made, in Shoehorn."""
    import peft
    import torch

    config = peft.LoraConfig(
        task_type="SEQ_CLS", r=3, lora_alpha=5, lora_dropout=0.1, target_modules=["query", "attention.output.dense"]
    )
    model = peft.get_peft_model(base_model(directory), config)
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(directory / "theirs")
    return same("Shoehorn with PEFT's adapter", predict(shoehorn, directory / "theirs", directory, "theirs"), logits_of(model, directory))


def merged_in_transformers(shoehorn, directory):
    output = train(shoehorn, directory, "merged", ["--lora_rank", 4, "--lora_merge"])
    if output is None:
        return False
    ours = predict(shoehorn, output, directory, "merged")
    adapted = predict(shoehorn, directory / "query_value", directory, "adapted")
    well = same_predictions("merged", output, directory / "test.jsonl", directory / "merged.jsonl", MAX_SEQ_LENGTH)
    return same("the merged model and the adapter", ours, adapted) and well


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    python = python_with_transformers()
    if python is not None and python != sys.executable:
        os.execv(python, [python, *sys.argv])
    if python is None or importlib.util.find_spec("peft") is None:
        print("skipped: no Python with transformers and peft; bench/peers/setup.sh makes one")
        return SKIPPED
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        make_model(directory / "model")
        write_rows(directory / "train.jsonl", 24, True)
        write_rows(directory / "test.jsonl", 30, False)
        shoehorn = str(pathlib.Path(sys.argv[1]).resolve())
        checks = [ours_in_peft, theirs_in_shoehorn, merged_in_transformers, distilbert_in_peft]
        return 0 if all([check(shoehorn, directory) for check in checks]) else 1


if __name__ == "__main__":
    sys.exit(main())
