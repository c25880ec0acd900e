#!/usr/bin/env python3
"""Does Hugging Face read what Shoehorn wrote, and get the same answers?

  check_output_directory.py OUTPUT_DIR --texts FILE --predictions FILE.jsonl [--max_seq_length N] [--tolerance 1e-4]

Loads OUTPUT_DIR with AutoModelForSequenceClassification and AutoTokenizer, runs every text, and compares with the lines
of `shoehorn predict --logits`: {"label": name, "logits": {name: logit}, …}; of any number of
labels a text {"labels": [names], "logits": …}, of a regression {"value": number} or {"values": {name: number}}.

--texts: a text a line; a tab separates a pair. With the suffix .jsonl, {"text": …, "text_pair": …} a line instead.
Exit: 0 the same, 1 different or unreadable, 77 no transformers here (CTest's SKIP_RETURN_CODE).
"""

import argparse
import json
import sys

SKIPPED = 77
TOLERANCE = 1e-4
MOST_SHOWN = 20  # lines
# Between the two largest logits; closer ones may swap places without either program being wrong.
TIE_IN_TOLERANCES = 2


def read_texts(path):
    """List of (text, pair or None). Empty lines are texts too."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    lines = lines[:-1] if lines and not lines[-1] else lines
    if path.endswith(".jsonl"):
        rows = [json.loads(line) for line in lines]
        return [(row["text"], row.get("text_pair")) for row in rows]
    return [(first, pair if tab else None) for first, tab, pair in (line.partition("\t") for line in lines)]


def logits_of(model, tokenizer, text, pair, max_seq_length):
    """One text at a time, so that padding has no part in it."""
    import torch

    inputs = tokenizer(text, pair, truncation=True, max_length=max_seq_length, return_tensors="pt")
    with torch.no_grad():
        return model(**inputs).logits[0].double().tolist()


def problems_of(index, prediction, logits, labels, tolerance):
    """What is wrong with one prediction line, as texts (none when nothing is), and its largest difference."""
    scores = [prediction["value"]] if "value" in prediction else prediction.get("values", prediction.get("logits"))
    if isinstance(scores, dict):
        if sorted(scores) != sorted(labels):
            return [f"line {index}: expected logits of {labels}, got {sorted(scores)}"], 0.0
        scores = [scores[name] for name in labels]
    if len(scores) != len(logits):
        return [f"line {index}: expected {len(logits)} logits, got {len(scores)}"], 0.0
    problems = []
    for name, ours, theirs in zip(labels, scores, logits):
        # Written so that a NaN on either side fails.
        if not abs(ours - theirs) <= tolerance * max(1.0, abs(theirs)):
            problems.append(f"line {index}, {name}: expected {theirs:.6f}, got {ours:.6f}")
    largest = max(abs(ours - theirs) for ours, theirs in zip(scores, logits))
    if "labels" in prediction:
        for name, logit in zip(labels, logits):
            if (name in prediction["labels"]) != (logit > 0) and abs(logit) > TIE_IN_TOLERANCES * tolerance:
                problems.append(f"line {index}: expected {name} {'' if logit > 0 else 'not '}among the labels {prediction['labels']}")
        return problems, largest
    if "label" not in prediction:
        return problems, largest
    best, second = sorted(logits, reverse=True)[:2] if len(logits) > 1 else (logits[0], float("-inf"))
    expected = logits.index(best)
    label = prediction["label"]
    if label not in (labels[expected], expected) and best - second > TIE_IN_TOLERANCES * tolerance * max(1.0, abs(best)):
        problems.append(f"line {index}: expected label {labels[expected]}, got {label}")
    return problems, largest


def differences(output_dir, texts_file, predictions_file, max_seq_length=None, tolerance=TOLERANCE):
    """What differs, as lines of text (none where nothing does), and a sentence for that case."""
    import transformers

    model, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        output_dir, output_loading_info=True, dtype="float32", local_files_only=True
    )
    model.eval()
    unread = {kind: sorted(map(str, names)) for kind, names in report.items() if names}
    if unread:
        return [f"weights: expected every one to be read, got {unread}"], ""
    tokenizer = transformers.AutoTokenizer.from_pretrained(output_dir, local_files_only=True)
    positions = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
    max_seq_length = max_seq_length or min(tokenizer.model_max_length, positions)
    labels = [model.config.id2label[index] for index in range(model.config.num_labels)]

    texts = read_texts(texts_file)
    with open(predictions_file, encoding="utf-8") as file:
        predictions = [json.loads(line) for line in file if line.strip()]
    if len(predictions) != len(texts) or not texts:
        return [f"{predictions_file}: expected {len(texts)} lines (and at least one), got {len(predictions)}"], ""
    problems, largest = [], 0.0
    for index, ((text, pair), prediction) in enumerate(zip(texts, predictions), start=1):
        logits = logits_of(model, tokenizer, text, pair, max_seq_length)
        found, difference = problems_of(index, prediction, logits, labels, tolerance)
        problems += found
        largest = max(largest, difference)
    return problems, f"{len(texts)} texts agree, largest difference {largest:.2e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output_dir")
    parser.add_argument("--texts", required=True)
    parser.add_argument("--predictions", required=True)
    parser.add_argument("--max_seq_length", type=int, help="default: the tokenizer's model_max_length, at most the positions")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, help="relative above 1, absolute below")
    args = parser.parse_args()
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        return SKIPPED

    problems, agreement = differences(args.output_dir, args.texts, args.predictions, args.max_seq_length, args.tolerance)
    print("\n".join(problems[:MOST_SHOWN]) if problems else agreement)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
