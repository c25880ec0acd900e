"""Makes the goldens of the tokenizer's chain with Hugging Face's `tokenizers`.

    python tests/golden/chain_make.py [--retrain]

tokenizer_chains/   three small tokenizers, trained on text written here; made only where they are missing, since the
                    trainer's ties do not come out the same twice:
                    bytes.json       byte-level byte pairs with all 256 bytes
                    few_bytes.json   the same without the bytes that the text lacks, as SmolLM2's vocabulary is
                    characters.json  byte pairs of characters with <0x00>..<0xFF>, as SentencePiece writes them
chain_cases.json    configurations (a tokenizer and a JSON patch of it) that follow the well-known families, and texts
                    with their ids, types, offsets in characters and decoded texts under each
chain_hashes.json   CRC-32 of what each normalizer and pre-tokenizer makes of every code point
"""

import argparse
import itertools
import json
import pathlib
import random
import zlib

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tokenizer_make import HARD, PROSE, RAW, added, merge, written

HERE = pathlib.Path(__file__).parent
CHAINS = HERE / "tokenizer_chains"

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
# Not one of the known ones, so that the library of regular expressions matches it.
OTHER = r"[\r\n]+|\s?+\p{L}{1,4}|\p{N}{,2}(?=\p{N})|(?<=x)[^\s\p{L}]++|^\S|\s+?$|[[!-@]\-_]+|."

CODE = """
def measure(values, limit=1000):
    \"\"\"Sums values up to a limit.\"\"\"
    total = 0
    for i, value in enumerate(values):
\tif value > limit: continue  # don't count
        total += value ** 2 - 3.14159e-10
    return {'total': total, "count": len(values)}
"""

# The cases that reimplementations get wrong: white space and letters of new versions of Unicode, the long s, bytes that
# a vocabulary lacks, digits, added tokens at all places.
FAMILY_TEXTS = [
    "", " ", "  ", "   a", "a   ", " \n", "\n\n a", "a\n\n\nb", "a \n \n b", "\r\n\r\nx", "\t\tx\ty", "   \n\t  if x:\n        y\n", "a\u00a0\u2003 b\u3000c",
    "a\u0085b \u0085 c", "a\u180eb \u180e", "a\u200bb\ufeffc", "\u31350 \u31350x \U00031350 a\U00031350b", "\U000105c0\U000105c1 x\U000105c0", "\U00011de3\U00011de4 1\U00011de3 \U00011de3",
    "it's IT'S it'\u017f IT'\u017fX 'sX 'tis 'LL we'Ll you'Re I'M I'd've they'VE ''s '", "don't can't shan't' 'em rock'n'roll", "\x04a\x06b\x13c\x14d\x16e\x1df", "\x00 \x00\x00", "\x7f\x80\x9f\xad",
    "1 12 123 1234 12345678901234567890 3.14 1,000,000 a123 a1b2 \u0661\u0662\u0663\u0664 \u2460\u2461\u00bd\u00b2 \u0967\u0968\u0969", "!!! ?!... --- *** a!!b !!a  !! \n!!\n\n", "x=1;y[0]*=2//3{}",
    "e\u0301a\u0300 \u1e9b\u0323 \u212b \u2126 q\u0307\u0323 \uac00 \u1100\u1161\u11a8 \u0958 \u1f82 \u0390 \u01d5 \u1ebf a\u0315\u0300 \u0344 \u0f73\u0f74", "\ufb01 \u33a1 \u2163 \u32ff \ufdfa \u1d2c \u00b5 x\u00b2",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u6211\u4eec 100 \u4e2a", "\u0417\u0434\u0440\u0430\u0432\u0441\u0442\u0432\u0443\u0439, \u043c\u0438\u0440! \u041a\u0430\u043a \u0434\u0435\u043b\u0430?", "\U0001f600\U0001f469\u200d\U0001f469\u200d\U0001f467\U0001f1e9\U0001f1ea \u2615\ufe0f!", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
    "<|end|>", "a<|end|>b", " <|end|> ", "<|end|><|end|>", "<s>hello</s> world</s>", " </s>", "</s></s> x</s>y", "\u2581</s>", "\u2581a \u2581\u2581b", "<strip>  a  <strip>\u3000b", "a <word> b<word> <word>c", "new token, New Token", "<|en", "<unk>", "<0x41><0x0A>",
    "walked" * 12, "a" * 60, " " * 55, "ab" * 30 + " " + "\u00e9" * 30, CODE, "The ferry leaves the harbour at seven. We'll see 14 gulls, don't we?",
]


# The configurations that have every text; the others have each second one.
FAMILIES = ("GPT-2", "Llama 3", "Qwen", "SmolLM2", "Llama 2", "Mistral", "Gemma")


def family_configurations():
    level = lambda prefix=False, regex=True, trim=True: {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim, "use_regex": regex}
    split = lambda pattern, behavior="Isolated", invert=False: {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}
    chain = lambda *parts: {"type": "Sequence", "pretokenizers": list(parts)}
    piece = lambda name, kind=0: {("Sequence" if name in "AB" else "SpecialToken"): {"id": name, "type_id": kind}}
    template = {"type": "TemplateProcessing", "single": [piece("<|end|>"), piece("A")], "pair": [piece("<|end|>"), piece("A"), piece("<|end|>", 1), piece("B", 1)],
                "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [0], "tokens": ["<|end|>"]}}}
    space = lambda scheme="first", cut=False: {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": cut}
    replace = lambda text, content: {"type": "Replace", "pattern": {"String": text}, "content": content}
    llama2_decoder = {"type": "Sequence", "decoders": [replace("\u2581", " "), {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    prepend = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, replace(" ", "\u2581")]}
    normalizer = lambda *types: {"normalizer": {"type": "Sequence", "normalizers": [{"type": t} for t in types]} if len(types) > 1 else {"type": types[0]}}
    extra = [added("<strip>", 0, lstrip=True, rstrip=True), added("<word>", 0, single_word=True), added("New Token", 0, normalized=True)]
    return {
        "GPT-2": ("bytes", {"pre_tokenizer": level(), "post_processor": level()}),
        "GPT-2, prefix space": ("bytes", {"pre_tokenizer": level(True), "post_processor": level(True), "decoder": level(True)}),
        "GPT-2, offsets whole": ("bytes", {"pre_tokenizer": level(trim=False), "post_processor": level(trim=False)}),
        "RoBERTa": ("bytes", {"pre_tokenizer": level(True), "post_processor": {"type": "RobertaProcessing", "sep": ["<|end|>", 0], "cls": ["<|end|>", 0], "trim_offsets": True, "add_prefix_space": True}}),
        "Llama 3": ("bytes", {"model": {"ignore_merges": True}, "pre_tokenizer": chain(split(LLAMA3), level(regex=False)), "post_processor": {"type": "Sequence", "processors": [level(), template]}}),
        "Qwen": ("bytes", {**normalizer("NFC"), "pre_tokenizer": chain(split(QWEN), level(regex=False)), "post_processor": level(trim=False)}),
        "SmolLM2": ("few_bytes", {"pre_tokenizer": chain({"type": "Digits", "individual_digits": True}, level())}),
        "unknown bytes": ("few_bytes", {"model": {"unk_token": "<|end|>", "fuse_unk": False}}),
        "unknown bytes fused": ("few_bytes", {"model": {"unk_token": "<|end|>", "fuse_unk": True}}),
        "added tokens": ("bytes", {**normalizer("Lowercase"), "added_tokens": extra}),
        "another expression": ("bytes", {"pre_tokenizer": chain(split(OTHER), level(regex=False))}),
        "inverted": ("bytes", {"pre_tokenizer": chain(split(GPT2, "Removed", True), level(regex=False))}),
        "bytes in the middle": ("bytes", {"pre_tokenizer": chain(level(), {"type": "Punctuation", "behavior": "MergedWithNext"})}),
        "no pre-tokenizer": ("bytes", {"pre_tokenizer": None}),
        "Llama 2": ("characters", {"normalizer": prepend, "pre_tokenizer": None, "decoder": llama2_decoder}),
        "Mistral": ("characters", {"pre_tokenizer": space(), "decoder": llama2_decoder}),
        "Gemma": ("characters", {"normalizer": replace(" ", "\u2581"), "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
                                 "decoder": {"type": "Sequence", "decoders": [replace("\u2581", " "), {"type": "ByteFallback"}, {"type": "Fuse"}]}}),
        "T5": ("characters", {"model": {"byte_fallback": False}, "pre_tokenizer": chain({"type": "WhitespaceSplit"}, space("always", True)), "decoder": space("always", True)}),
        "first after stripping": ("characters", {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}, "pre_tokenizer": space("first", True), "decoder": space("first", True)}),
        "unknown characters": ("characters", {"model": {"byte_fallback": False, "fuse_unk": False}, "pre_tokenizer": {"type": "Whitespace"}}),
        "NFKC and lower case": ("characters", {**normalizer("NFKC", "Lowercase"), "pre_tokenizer": {"type": "Punctuation", "behavior": "Contiguous"}}),
        "accents stripped": ("characters", {**normalizer("NFKD", "StripAccents"), "pre_tokenizer": {"type": "Digits", "individual_digits": False}}),
        "words of BERT": ("characters", {"normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}, "pre_tokenizer": {"type": "BertPreTokenizer"}}),
        "expression replaced": ("characters", {"normalizer": {"type": "Replace", "pattern": {"Regex": r"\s{2,}|\p{N}"}, "content": "#"}, "pre_tokenizer": {"type": "Split", "pattern": {"String": "e"}, "behavior": "MergedWithPrevious", "invert": False}}),
        "suffix of words": ("characters", {"model": {"end_of_word_suffix": "</w>", "continuing_subword_prefix": None}, "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": {"type": "BPEDecoder", "suffix": "</w>"}}),
        "BERT": ("../tokenizer_small/tokenizer", {}),
        "BERT, cased, added tokens": ("../tokenizer_small/tokenizer", {"normalizer": {"lowercase": False}, "added_tokens": extra}),
        "BERT part by part": ("../tokenizer_small/tokenizer", {"normalizer": {"strip_accents": False}, "pre_tokenizer": chain({"type": "BertPreTokenizer"}), "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False}}),
        "WordLevel": ("characters", {"model": {"type": "WordLevel"}, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "[aeiou]"}, "behavior": "MergedWithNext", "invert": True}}),
    }


def training_lines():
    return (PROSE + CODE).split("\n") * 5


def save(tokenizer, name):
    tokenizer.save(str(CHAINS / f"{name}.json"), pretty=False)


def make_chains():
    CHAINS.mkdir(exist_ok=True)
    for name, alphabet in (("bytes", pre_tokenizers.ByteLevel.alphabet()), ("few_bytes", [])):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<|end|>", "</s>"], initial_alphabet=alphabet, show_progress=False)
        tokenizer.train_from_iterator(training_lines(), trainer)
        save(tokenizer, name)
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<unk>", "<s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(training_lines(), trainers.BpeTrainer(vocab_size=800, special_tokens=special, show_progress=False))
    text = json.loads(tokenizer.to_str())
    # Of the 256 only the model knows. </s> is a token of Llama 2 that is normalized.
    text["added_tokens"] = [token for token in text["added_tokens"] if not token["content"].startswith("<0x")]
    size = len(text["model"]["vocab"])
    text["model"]["vocab"]["</s>"] = size
    text["added_tokens"].append({**added("</s>", size, normalized=True), "special": True})
    save(Tokenizer.from_str(json.dumps(text)), "characters")


def configured(base, patch):
    return configured_from(json.loads((CHAINS / f"{base}.json").read_text()), patch)


def configured_from(file, patch):
    """The patch with ids for its added tokens, and the file with it."""
    file = json.loads(json.dumps(file))
    tokens = patch.get("added_tokens")
    if tokens:
        start = len(file["model"]["vocab"])
        tokens = [{**token, "id": start + i} for i, token in enumerate(tokens)]
        patch = {**patch, "added_tokens": file["added_tokens"] + tokens}
    return patch, merge(file, patch)


def make_cases():
    rnd = random.Random(7)
    alphabet = "abeilnorst ABC  \n\t'.,-!?019\u00e9\u00df\u4f60\u017f\u0301\u2581_"
    random_texts = ["".join(rnd.choice(alphabet) for _ in range(rnd.randrange(1, 40))) for _ in range(12)]
    texts = [text.encode() for text in FAMILY_TEXTS + random_texts] + RAW[:4]
    decode = lambda raw: raw.decode(errors="replace")
    result = []
    for name, (base, patch) in family_configurations().items():
        patch, file = configured(base, patch)
        tokenizer = Tokenizer.from_str(json.dumps(file))
        inputs = [(text, None, None) for text in texts[:: 1 if name in FAMILIES else 2]]
        for length in (None, 6, 9, 20):
            inputs += [(rnd.choice(texts), rnd.choice(texts), length) for _ in range(3)]
            inputs += [(rnd.choice(texts), None, length) for _ in range(3 if length else 0)]
        cases = []
        for text, pair, length in inputs:
            tokenizer.no_truncation()
            if length is not None:
                tokenizer.enable_truncation(length)
            encoding = tokenizer.encode(decode(text), None if pair is None else decode(pair))
            case = {**written("text", text), **({} if pair is None else written("pair", pair)), "ids": encoding.ids}
            if length is not None:
                case["max_length"] = length
            if any(encoding.type_ids):
                case["types"] = encoding.type_ids
            case["offsets"] = [place for offsets in encoding.offsets for place in offsets]
            case["decoded"] = tokenizer.decode(encoding.ids)
            with_special = tokenizer.decode(encoding.ids, skip_special_tokens=False)
            if with_special != case["decoded"]:
                case["with_special"] = with_special
            cases.append(case)
        result.append({"name": name, "base": base, "patch": patch, "cases": cases})
    rows = ",\n".join(
        json.dumps({key: c[key] for key in ("name", "base", "patch")})[:-1] + ', "cases": [\n' + ",\n".join(json.dumps(x, separators=(",", ":"), ensure_ascii=False) for x in c["cases"]) + "]}"
        for c in result)
    (HERE / "chain_cases.json").write_text("[\n" + rows + "\n]\n")


def code_points():
    """Those of the planes that have characters, and some of the others."""
    dense = itertools.chain(range(0xD800), range(0xE000, 0x32400), range(0x32400, 0xE0000, 256), range(0xE0000, 0xE0200), range(0xE0200, 0x110000, 256))
    return map(chr, dense)


def make_hashes():
    """Each code point alone, doubled, before and behind letters, digits, marks, white space and apostrophes."""
    hashes = {"normalizers": {}, "pre_tokenizers": {}}
    texts = [c + "a" + c + "B e\u0301\u0327" + c + c + "1" + c + " " + c + "\n" + c + "'s'" + c + " \u302e" + c + "\u0327\u1161\u11a8" for c in code_points()]
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"):
        normalizer = getattr(normalizers, name)()
        hashes["normalizers"][name] = crc_of(normalizer.normalize_str(text) + "\n" for text in texts)
    splits = {
        "GPT-2": pre_tokenizers.Split(Regex(GPT2), "isolated"), "Llama 3": pre_tokenizers.Split(Regex(LLAMA3), "isolated"), "Qwen": pre_tokenizers.Split(Regex(QWEN), "isolated"),
        "other": pre_tokenizers.Split(Regex(OTHER), "isolated"), "Whitespace": pre_tokenizers.Whitespace(), "WhitespaceSplit": pre_tokenizers.WhitespaceSplit(),
        "Punctuation": pre_tokenizers.Punctuation(), "Digits": pre_tokenizers.Digits(True), "BertPreTokenizer": pre_tokenizers.BertPreTokenizer(),
    }
    for name, splitter in splits.items():
        hashes["pre_tokenizers"][name] = crc_of("".join(piece + "\n" for piece, _ in splitter.pre_tokenize_str(text)) for text in texts)
    (HERE / "chain_hashes.json").write_text(json.dumps(hashes, indent=1, sort_keys=True) + "\n")


def crc_of(texts):
    crc = 0
    for text in texts:
        crc = zlib.crc32(text.encode(), crc)
    return crc


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--retrain", action="store_true", help="train tokenizer_chains again")
    if parser.parse_args().retrain or not CHAINS.exists():
        make_chains()
    make_cases()
    make_hashes()
