#!/usr/bin/env python3
"""Makes the golden of src/tokenize/bpe_trainer.h with Hugging Face's `tokenizers`.

    python tests/golden/bpe_trainer_make.py

bpe_trainer.json   texts, and for each case: the options, and the tokens and merges that BpeTrainer learns; of some, the
                   text of tokenizer.json
"""

import collections
import json
import pathlib
import random

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import chain_make
import tokenizer_make

HERE = pathlib.Path(__file__).parent
EXPRESSIONS = {"llama3": chain_make.LLAMA3, "qwen2": chain_make.QWEN}


def tokenizer_of(options):
    """A tokenizer without a vocabulary."""
    tokenizer = Tokenizer(models.BPE())
    if options.get("nfc"):
        tokenizer.normalizer = normalizers.NFC()
    name = options.get("pre_tokenizer", "gpt2")
    if name == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        split = pre_tokenizers.Split(Regex(EXPRESSIONS[name]), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def trainer_of(options):
    alphabet = pre_tokenizers.ByteLevel.alphabet() if options.get("all_bytes", True) else []
    names = ("vocab_size", "min_frequency", "special_tokens", "limit_alphabet")
    given = {"min_frequency": 2, **{name: options[name] for name in names if name in options}}
    return trainers.BpeTrainer(initial_alphabet=alphabet, show_progress=False, **given)


def learned(texts, options):
    """The tokenizer that `tokenizers` trains; its tokens by id; its merges."""
    tokenizer = tokenizer_of(options)
    tokenizer.train_from_iterator(texts, trainer_of(options))
    model = json.loads(tokenizer.to_str())["model"]
    return tokenizer, sorted(model["vocab"], key=model["vocab"].get), model["merges"]


def limit_without_tie(text, least):
    """A number of characters of the byte alphabet such that the last that is kept is more frequent than the next."""
    counts = sorted(collections.Counter(text.encode()).values(), reverse=True)
    return next(limit for limit in range(least, len(counts)) if counts[limit - 1] > counts[limit])


def few_letters(seed, letters, count):
    """Words of few letters: many equal counts, and tokens that come out of two merges."""
    rnd = random.Random(seed)
    return " ".join("".join(rnd.choices(letters, k=rnd.randrange(1, 14))) for _ in range(count))


def make():
    texts = {
        "prose": tokenizer_make.PROSE,
        "code": chain_make.CODE,
        "marks": "Cafe\u0301 CAFE\u0301 caf\u00e9 a\u0315\u0300 na\u00efve nai\u0308ve \u212b \u1100\u1161\u11a8 \uac01 \U0001f600\U0001f600 \u4f60\u597d\u4f60\u597d" * 3,
        "spaces": "a  b   c    d\n\n\n  e\t\tf \r\n\r\n g\u00a0\u00a0h\u3000\u3000i  \n" * 2 + "don't DON'T we'll I'VE 12345 1 22 333 4444",
        "runs": "aaaaaaa aaaa aaa aa abab ababab abababab bbbbb aaabbb",
        "special": "the end<|endoftext|>of the text<|endoftext|>then the end",
    }
    for seed in range(8):
        texts[f"letters{seed}"] = few_letters(seed, "ab" if seed < 4 else "abc", 30 + 30 * seed)
    everything = [name for name in texts if not name.startswith("letters")]
    special = ["<|endoftext|>"]
    cases = [
        (["prose"], {"vocab_size": 600, "special_tokens": special}),
        (everything, {"vocab_size": 900, "special_tokens": ["<s>", "</s>", "<pad>"], "pre_tokenizer": "llama3"}),
        (everything, {"vocab_size": 700, "special_tokens": special, "pre_tokenizer": "qwen2", "nfc": True}),
        (["marks"], {"vocab_size": 340, "pre_tokenizer": "gpt2", "nfc": True}),
        (["spaces"], {"vocab_size": 320, "min_frequency": 0}),
        (["spaces"], {"vocab_size": 320, "pre_tokenizer": "llama3"}),
        (["code"], {"vocab_size": 2000, "min_frequency": 0}),
        (["code"], {"vocab_size": 2000, "min_frequency": 5}),
        (["runs"], {"vocab_size": 300, "min_frequency": 0}),
        (["special"], {"vocab_size": 300, "special_tokens": ["<|endoftext|>", "the", " th", "e", "\u0120t"], "min_frequency": 1}),
        (["prose"], {"vocab_size": 257, "special_tokens": special}),
        (["prose"], {"vocab_size": 400, "all_bytes": False, "special_tokens": special}),
        (["prose"], {"vocab_size": 300, "all_bytes": False, "limit_alphabet": limit_without_tie(texts["prose"], 40), "special_tokens": ["q", "<s>"]}),
        (["spaces"], {"vocab_size": 270, "special_tokens": special, "file": True}),
        (["marks"], {"vocab_size": 290, "special_tokens": special + ["\u00e9"], "pre_tokenizer": "qwen2", "nfc": True, "file": True}),
    ] + [([f"letters{seed}"], {"vocab_size": 360, "min_frequency": seed % 3}) for seed in range(8)]
    result = []
    for names, options in cases:
        file = options.pop("file", False)
        chosen = [texts[name] for name in names]
        tokenizer, tokens, merges = learned(chosen, options)
        for _ in range(5):
            assert learned(chosen, options)[1:] == (tokens, merges), f"{names} {options}: not the same twice"
        case = {"texts": names, "options": options, "tokens": tokens, "merges": merges}
        if file:
            case["file"] = tokenizer.to_str(pretty=True)
        print(names, options, len(tokens), len(merges), f"{len(merges) - len({a + b for a, b in merges})} merges give a token that another gives")
        result.append(case)
    rows = ",\n".join(json.dumps(case, separators=(",", ":"), ensure_ascii=False) for case in result)
    (HERE / "bpe_trainer.json").write_text('{"texts": ' + json.dumps(texts, ensure_ascii=False) + ',\n"cases": [\n' + rows + "\n]}\n")


if __name__ == "__main__":
    make()
