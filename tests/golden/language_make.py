#!/usr/bin/env python3
"""Writes language_small/: texts, a tokenizer of them, and the blocks that run_clm makes of the texts.

Needs datasets, tokenizers and transformers; CPU only. Made with datasets 5.2, tokenizers 0.23, transformers 5.23:

    python3 tests/golden/language_make.py

The blocks are those of run_clm's steps: load_dataset (a line of a txt file is a text and keeps its end), a split of the
first percent of the texts, `map` of the tokenizer, and `map` of a function that concatenates the texts it is given at
once (1,000) and cuts them into blocks, of which it drops a shorter last one.
"""

import json
import pathlib
import random
import tempfile

import datasets
import numpy as np
import tokenizers
import transformers

HERE = pathlib.Path(__file__).parent
OUT = HERE / "language_small"

SUBJECTS = ["the baker", "a quiet neighbour", "my aunt Zoë", "the old ferry", "nobody here", "the night train"]
VERBS = ["counts", "forgets", "paints", "carries", "waits for", "listens to"]
OBJECTS = ["seven loaves", "the tide", "a blue door", "half of the news", "its own whistle", "crème brûlée"]
ENDS = [".", "!", " again.", ", and then it rains.", " – or so they say.", ""]


def fnv1a(values):
    """64-bit FNV-1a over 32-bit words."""
    value = 0xCBF29CE484222325
    for word in values:
        value = ((value ^ word) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def sentence(generator):
    parts = [generator.choice(SUBJECTS), generator.choice(VERBS), generator.choice(OBJECTS)]
    return " ".join(parts) + generator.choice(ENDS)


def texts():
    """Lines, some of them empty, some of spaces, one long, and each way to end one."""
    generator = random.Random(20)
    lines = []
    for i in range(2300):
        kind = generator.random()
        if kind < 0.12:
            line = ""
        elif kind < 0.14:
            line = "  "
        elif kind < 0.6:
            line = " ".join(sentence(generator).split()[: generator.randint(1, 3)])
        else:
            line = sentence(generator)
        end = "\r\n" if i % 97 == 5 else "\r" if i % 101 == 7 else "\n"
        lines.append((line, end))
    lines[700] = (" ".join(sentence(generator) for _ in range(30)), "\n")
    return lines


def write_texts():
    lines = texts()
    with open(OUT / "lines.txt", "w", newline="", encoding="utf-8") as file:
        file.write("".join(line + end for line, end in lines) + "the last line has no end")
    generator = random.Random(21)
    with open(OUT / "rows.jsonl", "w", encoding="utf-8") as file:
        for i in range(1203):
            text = "\n".join(sentence(generator) for _ in range(generator.randint(0, 2)))
            file.write(json.dumps({"id": i, "text": text}, ensure_ascii=False) + "\n")


def make_tokenizer():
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400, special_tokens=["<|end|>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([str(OUT / "lines.txt")], trainer)
    tokenizer.save(str(OUT / "tokenizer.json"))
    config = {"eos_token": "<|end|>", "model_max_length": 128, "tokenizer_class": "PreTrainedTokenizerFast"}
    (OUT / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(OUT / "tokenizer.json"), eos_token="<|end|>")


def cut(examples, block_size):
    """All that is given at once, end to end, in whole blocks."""
    tokens = [token for ids in examples["input_ids"] for token in ids]
    whole = len(tokens) - len(tokens) % block_size
    return {"input_ids": [tokens[at:at + block_size] for at in range(0, whole, block_size)]}


def blocks_of(rows, tokenizer, block_size):
    tokens = rows.map(lambda examples: {"input_ids": tokenizer(examples["text"])["input_ids"]}, batched=True,
                      remove_columns=rows.column_names)
    blocks = tokens.map(lambda examples: cut(examples, block_size), batched=True)
    found = blocks["input_ids"]
    flat = [token for block in found for token in block]
    return {
        "texts": len(rows),
        "tokens": sum(len(ids) for ids in tokens["input_ids"]),
        "blocks": len(found),
        "first_tokens": flat[:8],
        "last_tokens": flat[-8:],
        "fnv1a": fnv1a(np.array(flat, dtype=np.uint32).tolist()),
    }


def main():
    OUT.mkdir(exist_ok=True)
    write_texts()
    tokenizer = make_tokenizer()
    cases = []
    with tempfile.TemporaryDirectory() as cache:
        for file, keep_linebreaks in [("lines.txt", True), ("lines.txt", False), ("rows.jsonl", True)]:
            arguments = {"data_files": {"train": str(OUT / file)}, "cache_dir": cache}
            kind = "text" if file.endswith(".txt") else "json"
            if kind == "text":
                arguments["keep_linebreaks"] = keep_linebreaks
            for percent, block_size in [(0, 16), (0, 100), (5, 16), (7, 33), (50, 128), (99, 2)]:
                def load(split):
                    return datasets.load_dataset(kind, split=split, **arguments)

                case = {"file": file, "keep_linebreaks": keep_linebreaks, "block_size": block_size,
                        "validation_split_percentage": percent,
                        "train": blocks_of(load(f"train[{percent}%:]"), tokenizer, block_size)}
                if percent > 0:
                    case["validation"] = blocks_of(load(f"train[:{percent}%]"), tokenizer, block_size)
                cases.append(case)
    (OUT / "run_clm.json").write_text("[" + ",\n ".join(json.dumps(case) for case in cases) + "]\n")


if __name__ == "__main__":
    main()
