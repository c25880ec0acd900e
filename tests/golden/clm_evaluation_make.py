#!/usr/bin/env python3
"""Writes clm_evaluation.json: what run_clm's evaluation says of a small GPT-2 on the texts of language_small/.

  python clm_evaluation_make.py

The model's weights follow from a seed (decoder_curve_make.py); texts are those of rows.jsonl, in blocks as run_clm cuts them
(1,000 texts end to end, without what is left), or with the shorter block at the end that run_clm drops. The Trainer evaluates batches of which the last
one is smaller. Its eval_loss is the mean of the batches' means, weighted by their rows; token_loss is the mean over all
tokens. The accuracy is run_clm's: preprocess_logits_for_metrics keeps the largest logit, compute_metrics compares all but
each row's last with the labels behind each row's first; of rows that are padded only where there is a label.
"""

import argparse
import json
import math
import os
import tempfile

import numpy as np
import tokenizers
import torch
import transformers

import decoder_curve_make

TEXTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "language_small")

MODEL = dict(
    vocab_size=400, n_positions=64, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    bos_token_id=0, eos_token_id=0,
)  # fmt: skip
SEED = 5
DEVIATION = 0.2  # so that predictions differ from token to token
FILE = "rows.jsonl"
# block_size, whether a shorter block at the end is kept, per_device_eval_batch_size
CASES = [(16, False, 7), (50, False, 8), (64, True, 8), (33, True, 100)]


def blocks_of(block_size, keeps_remainder):
    tokenizer = tokenizers.Tokenizer.from_file(os.path.join(TEXTS, "tokenizer.json"))
    with open(os.path.join(TEXTS, FILE), encoding="utf-8") as file:
        texts = [tokenizer.encode(json.loads(line)["text"]).ids for line in file]
    group = len(texts) if keeps_remainder else 1000
    blocks = []
    for begin in range(0, len(texts), group):
        tokens = [token for ids in texts[begin : begin + group] for token in ids]
        end = len(tokens) if keeps_remainder else len(tokens) - len(tokens) % block_size
        blocks += [tokens[at : at + block_size] for at in range(0, end, block_size)]
    return blocks


def collate(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    padded = [row["input_ids"] + [0] * (longest - len(row["input_ids"])) for row in rows]
    labels = [row["input_ids"] + [-100] * (longest - len(row["input_ids"])) for row in rows]
    return {"input_ids": torch.tensor(padded), "labels": torch.tensor(labels)}


def compute_metrics(predictions):
    labels = predictions.label_ids[:, 1:].reshape(-1)
    right = predictions.predictions[:, :-1].reshape(-1) == labels
    return {"accuracy": float(np.mean(right[labels != -100]))}


def evaluated(model, block_size, keeps_remainder, batch_size):
    rows = [{"input_ids": block, "labels": block} for block in blocks_of(block_size, keeps_remainder)]
    with tempfile.TemporaryDirectory() as directory:
        trainer = transformers.Trainer(
            model,
            transformers.TrainingArguments(
                directory, per_device_eval_batch_size=batch_size, use_cpu=True, report_to="none", disable_tqdm=True
            ),
            eval_dataset=rows,
            data_collator=collate,
            compute_metrics=compute_metrics,
            preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(dim=-1),
        )
        metrics = trainer.evaluate()
    losses = []
    for row in rows:
        ids = torch.tensor([row["input_ids"]])
        with torch.no_grad():
            logits = model(ids).logits[0, :-1].double()
        losses += torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none").tolist()
    return {
        "block_size": block_size,
        "block_remainder": "keep" if keeps_remainder else "run_clm",
        "per_device_eval_batch_size": batch_size,
        "blocks": len(rows),
        "eval_loss": metrics["eval_loss"],
        "eval_perplexity": math.exp(metrics["eval_loss"]),
        "eval_accuracy": metrics["eval_accuracy"],
        "token_loss": float(np.mean(losses)),
        "tokens": len(losses),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--output", default=os.path.join(here, "clm_evaluation.json"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    model = decoder_curve_make.build_model("GPT2LMHeadModel", MODEL, SEED, DEVIATION).eval()
    golden = {
        "made_by": "tests/golden/clm_evaluation_make.py",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "seed": SEED,
        "deviation": DEVIATION,
        "file": FILE,
        **decoder_curve_make.description_of(model),
        "cases": [evaluated(model, *case) for case in CASES],
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items() if key != "cases"]
    lines.append('"cases": [\n ' + ",\n ".join(json.dumps(case) for case in golden["cases"]) + "]")
    with open(args.output, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
