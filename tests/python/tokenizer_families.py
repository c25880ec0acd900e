#!/usr/bin/env python3
"""Holds the program's tokenizer to Hugging Face's `tokenizers` on random texts, one family of models after the other.

    tests/python/tokenizer_families.py build/shoehorn [--count 1000000] [--train FILE…] [--texts FILE…] [--families NAME…] [--json]

For each family: trains a small tokenizer with its chain of parts on the files of --train (without any on the text of
tests/golden/chain_make.py), then encodes --count random texts, and every line of --texts, with both. Ids, offsets in
characters and decoded texts must be equal; the first texts where they are not are printed. Also encodes a megabyte
without a space. --json prints one JSON object behind the lines: of each family the number of texts, of those that differ,
and what became of the megabyte. `tokenizers` is looked for in this Python, then where round_trip.py looks; exits with 77
where there is none.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

from round_trip import SKIPPED, python_with_transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/golden"))

# What the patterns and normalizers tell apart, and what reimplementations get wrong.
PARTS = (
    list("abcdefghijklmnopqrstuvwxyzABCDEST") + list("0123456789") + list(".,;:!?'\"()[]{}<>-_=+*/\\#$%&@^~|`") + [" "] * 24 + ["\n", "\n", "\r\n", "\t", "  ", "   ", "\u00a0", "\u3000", "\u2028", "\u0085", "\u180e", "\u200b", "\ufeff"]
    + ["'s", "'S", "'\u017f", "'t", "'re", "'VE", "'ll", "'d", "\u017f"] + list("\u00e9\u00df\u00fc\u0130\u0131\u00e7\u1e9e\ufb01\u00bd\u00b2\u0661\u0967\u2460\u2163")
    + ["e\u0301", "\u0301", "\u0327", "a\u0315\u0300", "\u0344", "\u1e9b\u0323", "\u212b", "\u0390", "\u1ebf", "\u1100\u1161\u11a8", "\uac00", "\u0958", "\u0f73"]
    + list("\u4f60\u597d\uff0c\u4e16\u3002\u041f\u0440\u0438\u0432\u0435\u0442\u03a3\u03c2\u05e9\u0639\u0928\u0e2a\u0e27") + ["\U0001f600", "\U0001f469\u200d\U0001f467", "\u2615\ufe0f", "\U000105c0", "\U00031350", "\U00011de3", "\U0001d165", "\ue000", "\ufffd"]
    + ["\x00", "\x04", "\x06", "\x13", "\x1d", "\x7f", "\xad", "\u2581", "</s>", "<s>", "<|end|>", "<unk>", "<0x0A>", "<mask>", "the", "ing", " and", "walked", "return", "    "]
)
SHOWN = 5


def family_files(train, vocab_size=8000):
    """Each family's tokenizer as JSON, trained on the texts; without any, as tests/golden has them."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    import chain_make

    wanted = {"GPT-2": "gpt2", "RoBERTa": "roberta", "Llama 3": "llama3", "Qwen": "qwen", "SmolLM2": "smollm2", "Llama 2": "llama2", "Mistral": "mistral", "Gemma": "gemma", "T5": "t5", "added tokens": "added"}
    trained = {}
    for base in ("bytes", "few_bytes", "characters"):
        original = json.loads((chain_make.CHAINS / f"{base}.json").read_text())
        if train:
            tokenizer = Tokenizer.from_str(json.dumps(original))
            tokenizer.pre_tokenizer = pre_tokenizers.Metaspace() if base == "characters" else pre_tokenizers.ByteLevel(add_prefix_space=False)
            tokenizer.normalizer = None
            special = [token for token in sorted(original["model"]["vocab"], key=original["model"]["vocab"].get) if token.startswith("<") and len(token) > 1][:258]
            alphabet = pre_tokenizers.ByteLevel.alphabet() if base == "bytes" else []
            tokenizer.train_from_iterator(train, trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=special, initial_alphabet=alphabet, show_progress=False))
            file = json.loads(tokenizer.to_str())
            original["model"]["vocab"], original["model"]["merges"] = file["model"]["vocab"], file["model"]["merges"]
            for token in original["added_tokens"]:
                token["id"] = file["model"]["vocab"].setdefault(token["content"], len(file["model"]["vocab"]))
        trained[base] = original
    files = {}
    for name, (base, patch) in chain_make.family_configurations().items():
        if name in wanted:
            files[wanted[name]] = chain_make.configured_from(trained[base], patch)[1]
    return files


def random_texts(count, seed):
    rnd = random.Random(seed)
    return ["".join(rnd.choices(PARTS, k=rnd.randrange(1, 24))) for _ in range(count)]


def run(program, action, directory, lines, *flags):
    source = directory / "lines"
    source.write_text("".join(line + "\n" for line in lines))
    words = [program, "tokenizer", action, str(directory), str(source), "--json_lines", *flags]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout.decode().split("\n")[:-1]


def compare(program, file, texts, name):
    """What was compared and how many texts differ, the megabyte too."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(json.dumps(file))
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        (directory / "tokenizer.json").write_text(json.dumps(file))
        for begin in range(0, len(texts), 50_000):
            some = texts[begin : begin + 50_000]
            lines = [json.dumps(text) for text in some]
            encodings = tokenizer.encode_batch(some)
            ids = [encoding.ids for encoding in encodings]
            # The lines that the program prints are those of Python's json.
            expected = {
                "ids": list(map(json.dumps, ids)),
                "offsets": [json.dumps({"ids": encoding.ids, "offsets": encoding.offsets}) for encoding in encodings],
                "text": [json.dumps(text, ensure_ascii=False) for text in tokenizer.decode_batch(ids)],
            }
            ours = {
                "ids": run(program, "encode", directory, lines),
                "offsets": run(program, "encode", directory, lines, "--offsets"),
                "text": run(program, "decode", directory, expected["ids"]),
            }
            if ours == expected:
                continue
            for i, text in enumerate(some):
                if any(ours[what][i] != expected[what][i] for what in expected):
                    differing += 1
                    if differing <= SHOWN:
                        print(f"{name}: {text!r}", *(f"  {what}: {ours[what][i]}\n  expected {expected[what][i]}" for what in expected), sep="\n")
        rnd = random.Random(3)
        long_text = "".join(rnd.choice("abcdeinorst") for _ in range(1 << 20))
        start = time.perf_counter()
        ours = run(program, "encode", directory, [json.dumps(long_text)])[0]
        seconds = time.perf_counter() - start
        is_same = ours == json.dumps(tokenizer.encode(long_text).ids)
        differing += 0 if is_same else 1
        print(f"{name}: {len(texts)} texts, {differing} differ; a megabyte without a space: {seconds:.2f} s, process and output included, {'equal' if is_same else 'NOT EQUAL'}", flush=True)
    return {"texts": len(texts), "differing": differing, "megabyte_seconds": round(seconds, 3), "megabyte_is_equal": is_same}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--train", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--texts", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--families", nargs="*")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if importlib.util.find_spec("tokenizers") is None:
        python = python_with_transformers()
        if python is None:
            print("skipped: no Python with tokenizers; bench/peers/setup.sh makes one")
            return SKIPPED
        os.execv(python, [python, *sys.argv])
    train = [line for path in arguments.train for line in path.read_text(errors="replace").splitlines(keepends=True)]
    lines = [line for path in arguments.texts for line in path.read_bytes().decode(errors="replace").split("\n")]
    results = {}
    for number, (name, file) in enumerate(family_files(train).items()):
        if not arguments.families or name in arguments.families:
            results[name] = compare(arguments.program, file, random_texts(arguments.count, arguments.seed + number) + lines, name)
    if arguments.json:
        print(json.dumps({"random_texts": arguments.count, "seed": arguments.seed, "families": results}))
    return 1 if any(result["differing"] for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
