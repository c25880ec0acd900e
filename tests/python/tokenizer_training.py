#!/usr/bin/env python3
"""Holds `shoehorn tokenizer train` to the trainer of Hugging Face's `tokenizers`: the same tokenizer.json, to the byte.

    tests/python/tokenizer_training.py build/shoehorn [--rounds 12] [--files FILE…] [--vocab_sizes N…] [--time]

Trains both on random texts, with random options, --rounds times; and on --files together, with each of --vocab_sizes
and each pre-tokenizer. --time prints the seconds of both, process and files included. Where there is Transformers,
AutoTokenizer reads what the program wrote, and gives the ids that `tokenizers` gives. `tokenizers` is looked for in this
Python, then where round_trip.py looks; exits with 77 where there is none.
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
WORDS = "the of and ferry harbour leaves measure memory plan again walked walking walker don't we'll I've 12 345 6789 it's -- ... (x) {y}".split()


def random_text(rnd, lines):
    """Lines of words that occur often, of made-up words, of few letters, and of all characters."""
    made_up = ["".join(rnd.choices("abcdeinorst", k=rnd.randrange(1, 12))) for _ in range(200)]
    few = ["".join(rnd.choices("ab", k=rnd.randrange(1, 20))) for _ in range(60)]
    others = [chr(rnd.choice((rnd.randrange(32, 0x250), rnd.randrange(0x370, 0x3000), rnd.randrange(0x4E00, 0x9FFF), rnd.randrange(0x1F300, 0x1F700)))) for _ in range(120)]
    spaces = [" "] * 20 + ["  ", "\t", "", "\u00a0", "    ", "e\u0301", "\u0315\u0300"]
    text = ""
    for _ in range(lines):
        pool = rnd.choice((WORDS, WORDS, made_up, few, others))
        text += "".join(rnd.choice(pool) + rnd.choice(spaces) for _ in range(rnd.randrange(0, 30))) + rnd.choice(("\n", "\n", "\r\n", "\n\n"))
    return text


def random_options(rnd):
    options = {
        "vocab_size": rnd.choice((300, 500, 1000, 3000)), "min_frequency": rnd.choice((0, 1, 2, 2, 5)),
        "special_tokens": rnd.choice(([], ["<|endoftext|>"], ["<s>", "</s>", "<pad>", "the", "a"])),
        "pre_tokenizer": rnd.choice(("gpt2", "llama3", "qwen2")), "nfc": rnd.random() < 0.3, "all_bytes": rnd.random() < 0.8,
    }  # fmt: skip
    return options


def run_ours(program, files, options, directory):
    words = [program, "tokenizer", "train", "--output_dir", str(directory), "--vocab_size", str(options["vocab_size"])]
    words += ["--min_frequency", str(options["min_frequency"]), "--special_tokens", ",".join(options["special_tokens"])]
    words += ["--pre_tokenizer", options["pre_tokenizer"], "--normalizer", "nfc" if options["nfc"] else "none"]
    words += ["--initial_alphabet", "bytes" if options["all_bytes"] else "texts", *map(str, files)]
    start = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return (directory / "tokenizer.json").read_bytes(), time.perf_counter() - start


def run_theirs(files, options, directory):
    from bpe_trainer_make import tokenizer_of, trainer_of

    start = time.perf_counter()
    tokenizer = tokenizer_of(options)
    tokenizer.train([str(path) for path in files], trainer_of(options))
    tokenizer.save(str(directory / "theirs.json"))
    return (directory / "theirs.json").read_bytes(), time.perf_counter() - start


def first_difference(ours, theirs):
    ours, theirs = json.loads(ours), json.loads(theirs)
    for key in theirs:
        if key != "model" and ours[key] != theirs[key]:
            return f"{key}: {ours[key]} and {theirs[key]}"
    for number, (one, other) in enumerate(zip(ours["model"]["merges"], theirs["model"]["merges"])):
        if one != other:
            return f"merge {number}: {one} and {other}"
    return f"{len(ours['model']['merges'])} and {len(theirs['model']['merges'])} merges"


def read_by_transformers(directory, text):
    """Whether AutoTokenizer reads the directory and gives the ids of its tokenizer.json."""
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(directory))
    expected = Tokenizer.from_file(str(directory / "tokenizer.json")).encode(text).ids
    config = json.loads((directory / "tokenizer_config.json").read_text())
    return tokenizer(text)["input_ids"] == expected and tokenizer.eos_token == config.get("eos_token") and tokenizer.decode(expected) == text


def compare(program, files, options, what, timed):
    """Whether both wrote the same file."""
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        ours, our_seconds = run_ours(program, files, options, directory)
        theirs, their_seconds = run_theirs(files, options, directory)
        times = f"; {our_seconds:.2f} s, tokenizers {their_seconds:.2f} s" if timed else ""
        print(f"{what}: {'equal' if ours == theirs else 'NOT EQUAL: ' + first_difference(ours, theirs)}{times}", flush=True)
        if ours != theirs or not importlib.util.find_spec("transformers") or options["nfc"] or not options["all_bytes"]:
            return ours == theirs
        if read_by_transformers(directory, files[0].read_text()[:2000]):
            return True
        print(f"{what}: AutoTokenizer gives other ids", flush=True)
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--vocab_sizes", type=int, nargs="*", default=[300, 1000, 8000, 32000])
    parser.add_argument("--time", action="store_true")
    arguments = parser.parse_args()
    if importlib.util.find_spec("tokenizers") is None:
        python = python_with_transformers()
        if python is None:
            print("skipped: no Python with tokenizers; bench/peers/setup.sh makes one")
            return SKIPPED
        os.execv(python, [python, *sys.argv])
    differing = 0
    for number in range(arguments.rounds):
        rnd = random.Random(arguments.seed * 1000 + number)
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / f"{i}.txt" for i in range(rnd.randrange(1, 4))]
            for path in files:
                path.write_text(random_text(rnd, rnd.randrange(1, 400)), newline="")
            options = random_options(rnd)
            differing += not compare(arguments.program, files, options, f"random texts {number}, {options}", arguments.time)
    for pre_tokenizer in ("gpt2", "llama3", "qwen2") if arguments.files else ():
        for vocab_size in arguments.vocab_sizes:
            options = {"vocab_size": vocab_size, "min_frequency": 2, "special_tokens": ["<|endoftext|>"], "pre_tokenizer": pre_tokenizer, "nfc": False, "all_bytes": True}
            differing += not compare(arguments.program, arguments.files, options, f"{pre_tokenizer}, {vocab_size} tokens", arguments.time)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
