#!/usr/bin/env python3
"""Writes clm_evaluation/: a small Llama, and what run_clm's evaluation says of it.

  python clm_evaluation_make.py

The model learns the first half of the texts of language_small/rows.jsonl for some steps, so that its accuracy is no chance;
it is evaluated on all texts, in blocks as run_clm cuts them (1,000 texts end to end, without what is left), or with the
shorter block at the end that run_clm drops. The Trainer evaluates batches of which the last one is smaller. Its eval_loss is
the mean of the batches' means, weighted by their rows; token_loss is the mean over all tokens. The accuracy is run_clm's:
preprocess_logits_for_metrics keeps the largest logit, compute_metrics compares all but each row's last with the labels behind
each row's first; of rows that are padded only where there is a label.
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

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = os.path.join(HERE, "language_small")
FILE = "rows.jsonl"
MODEL = dict(
    vocab_size=400, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=True, bos_token_id=0, eos_token_id=0,
)  # fmt: skip
STEPS = 60
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


def train(model):
    blocks = torch.tensor(blocks_of(64, False))
    blocks = blocks[: len(blocks) // 2]
    optimizer = torch.optim.AdamW(model.parameters(), 2e-2)
    for _ in range(STEPS):
        rows = blocks[torch.randint(len(blocks), (16,))]
        model(rows, labels=rows).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


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
        trainer.remove_callback(transformers.PrinterCallback)
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
    parser.add_argument("--output_dir", default=os.path.join(HERE, "clm_evaluation"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(7)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**MODEL)).float()
    train(model)
    model.eval()
    model.save_pretrained(args.output_dir)
    golden = {
        "made_by": "tests/golden/clm_evaluation_make.py",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "file": FILE,
        "cases": [evaluated(model, *case) for case in CASES],
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items() if key != "cases"]
    lines.append('"cases": [\n ' + ",\n ".join(json.dumps(case) for case in golden["cases"]) + "]")
    with open(os.path.join(args.output_dir, "golden.json"), "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
