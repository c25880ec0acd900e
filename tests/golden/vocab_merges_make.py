"""Makes the goldens of tokenizers that are vocab.json and merges.txt, with transformers' AutoTokenizer.

    python tests/golden/vocab_merges_make.py

vocab_merges.json   configurations: the files beside vocab.json and merges.txt, which are those of tokenizer_chains/bytes.json
                    (`vocab` adds tokens to it); the tokenizer.json that transformers saves, without its model; and texts with
                    their ids, types, offsets in characters and decoded texts
"""

import json
import pathlib
import tempfile

from transformers import AutoTokenizer

from chain_make import CHAINS, FAMILY_TEXTS, HERE

MODEL = json.loads((CHAINS / "bytes.json").read_text())["model"]
NEXT = len(MODEL["vocab"])
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
MORE_TEXTS = ["<|endoftext|>", "a<|endoftext|> b", "<s>x</s> y <mask>z", " <mask> <pad>", "<|im_start|>user\nhi<|im_end|>\n<tool> x", "<e>a <b> <x>b<q> Q"]
PAIRS = [("the ferry", "leaves the harbour"), (" a", " "), ("it's", " \u00e9t\u00e9 ")]


def token(content, special=True, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": special, **flags}


def config(name, **keys):
    return {"tokenizer_config.json": {"tokenizer_class": name, **keys}}


CONFIGURATIONS = {
    "GPT-2": (config("GPT2Tokenizer"), ["<|endoftext|>"]),
    "GPT-2 by its model": ({"config.json": {"model_type": "gpt2"}}, []),
    "GPT-2, prefix space, begin and end": (config("GPT2Tokenizer", add_prefix_space=True, add_bos_token=True, add_eos_token=True, eos_token="</s>", bos_token="<s>"), []),
    "GPT-2, files of before": ({**config("GPT2Tokenizer", pad_token="<pad>", eos_token="</s>"), "added_tokens.json": {"<x>": NEXT + 1, "<e>": NEXT},
                                "special_tokens_map.json": {"bos_token": {"content": "<b>", "lstrip": True, "rstrip": False, "normalized": True, "single_word": False}, "eos_token": "<e>", "additional_special_tokens": ["<q>"]}}, []),
    "GPT-2, no special tokens": (config("GPT2Tokenizer", unk_token=None, bos_token=None, eos_token=None), []),
    "RoBERTa": (config("RobertaTokenizer"), ROBERTA),
    "RoBERTa by its model": ({"config.json": {"model_type": "roberta"}}, []),
    "RoBERTa, prefix space, whole offsets": (config("RobertaTokenizerFast", add_prefix_space=True, trim_offsets=False, mask_token={"__type": "AddedToken", **token("<mask>", lstrip=True)}), ROBERTA),
    "RoBERTa, a mask that takes the space": ({**config("RobertaTokenizer"), "special_tokens_map.json": {"mask_token": {"content": "<mask>", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False}}}, ROBERTA),
    "Qwen2": (config("Qwen2Tokenizer", add_bos_token=False, add_prefix_space=False, bos_token=None, eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token=None, additional_special_tokens=["<|im_start|>", "<|im_end|>"],
                     added_tokens_decoder={str(NEXT + 3): token("<tool>", special=False), str(NEXT): token("<|endoftext|>"), str(NEXT + 1): token("<|im_start|>"), str(NEXT + 2): token("<|im_end|>", special=False)}), []),
    "Qwen2, prefix space": (config("Qwen2Tokenizer", add_prefix_space=True), []),
    "Qwen2 by its model": ({"config.json": {"model_type": "qwen3"}}, []),
}


def files_of(beside, more):
    vocab = {**MODEL["vocab"], **{content: NEXT + i for i, content in enumerate(c for c in more if c not in MODEL["vocab"])}}
    merges = "".join(" ".join(merge) + "\n" for merge in MODEL["merges"])
    return {"vocab.json": json.dumps(vocab), "merges.txt": "#version: 0.2\n" + merges, **{name: json.dumps(content) for name, content in beside.items()}}


def case(tokenizer, text, pair=None):
    made = tokenizer(text, pair, return_offsets_mapping=True, return_token_type_ids=True)
    ids = made["input_ids"]
    found = {"text": text, "ids": ids, "offsets": [n for offsets in made["offset_mapping"] for n in offsets],
             "decoded": tokenizer.decode(ids, skip_special_tokens=True), "with_special": tokenizer.decode(ids)}
    return found | ({"pair": pair} if pair is not None else {}) | ({"types": made["token_type_ids"]} if any(made["token_type_ids"]) else {})


def configuration(name, beside, more):
    with tempfile.TemporaryDirectory() as directory:
        for file, text in files_of(beside, more).items():
            (pathlib.Path(directory) / file).write_text(text)
        tokenizer = AutoTokenizer.from_pretrained(directory)
        document = json.loads(tokenizer.backend_tokenizer.to_str())
        del document["model"]
        texts = FAMILY_TEXTS if len(more) == len(ROBERTA) or name in ("GPT-2", "Qwen2") else FAMILY_TEXTS[::4]
        cases = [case(tokenizer, text) for text in texts + MORE_TEXTS] + [case(tokenizer, *pair) for pair in PAIRS]
        return {"name": name, "files": beside, "vocab": more, "document": document, "cases": cases}


if __name__ == "__main__":
    made = [configuration(name, *files) for name, files in CONFIGURATIONS.items()]
    lines = ",\n".join(json.dumps(one, ensure_ascii=True) for one in made)
    (HERE / "vocab_merges.json").write_text(f"[\n{lines}\n]\n")
