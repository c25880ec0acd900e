"""Makes the goldens of src/tokenize with Hugging Face's `tokenizers`.

    python tests/golden/tokenizer_make.py [--shared DIR] [--minilm DIR] [--fortunes DIR]

tokenizer_small/       a WordPiece tokenizer of about 1,500 tokens, trained on text written here; made only where it is
                       missing, since the trainer's ties do not come out the same twice
tokenizer_cases.json   configurations (JSON merge patches of tokenizer_small/tokenizer.json) and the ids of texts under each
tokenizer_hashes.json  CRC-32 of normalized text and words of every code point, and of the ids that the MiniLM tokenizer
                       gives for whole files of text, which are not in this repository; a folder not given is skipped
"""

import argparse
import itertools
import json
import pathlib
import random
import shutil
import struct
import zlib

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
SMALL = HERE / "tokenizer_small"

PROSE = """
The ferry leaves the harbour at seven in the morning and returns when the lamps along the quay are lit. Nobody keeps a
timetable, because nobody needs one: the captain waits for the baker, the baker waits for the post, and the post waits
for the tide. In winter the crossing takes twice as long. We counted 14 gulls, 3 seals and 1 very patient heron.
A program that knows how much memory it will need can promise something that a program that only hopes cannot. It may
refuse before it starts; it may choose a slower plan; it never stops half way and says that there was not enough room.
Measure twice, cut once, and write the measurement down. The second measurement is the one that people will believe.
Café owners in the old town argue about the naïve façade of the new hall; the señora on the corner says it's déjà vu.
Die Straße führt über den Fluß, und die Mädchen hören täglich süße Töne. Les élèves étaient très fatigués après l'été.
Мы читаем книги каждый вечер. Η γλώσσα είναι δύσκολη. שלום עולם. مرحبا بالعالم. नमस्ते दुनिया. 今日は良い天気です。我们喜欢读书。
안녕하세요 세계. Tôi đọc sách mỗi ngày. "Quoted," she said -- (and then: nothing). What? Yes! 100% of $5.00 + 7 = ...
unaffable unkindly rereading misunderstanding internationalization walked walking walker walks training trainer trained
"""
CONSONANTS = ["b", "br", "c", "ch", "d", "dr", "f", "g", "gl", "h", "k", "l", "m", "n", "p", "pr", "r", "s", "st", "t", "tr", "v"]
VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "ou"]
ENDINGS = ["", "s", "ed", "ing", "er", "ly", "ness", "able", "tion"]

HARD = [
    "", " ", "\t\n\r", "a", "The ferry leaves.", "THE FERRY LEAVES", "  leading and trailing  ", "don't stop-believing",
    "Café CAFÉ Cafe\u0301 naïve façade", "e\u0301\u0327\u0302", "\u0301", "a\u0301b", "İstanbul ISTANBUL ıi", "ΣΊΣΥΦΟΣ ΣΑΣ", "ẞ ß ﬁ",
    "\u212b \u2126 \u1fef \u037e \u0340", "Å\u0323 q\u0307\u0323", "\u302e\u302f\u302e x\U0001d165\U0001d16dy",
    "我们喜欢读书", "a我b", "今日は良い天気です。", "안녕하세요 세계", "각\u1100\u1161\u11a8", "\uf900\U0002f800\U00020000\U0003134a",
    "שָׁלוֹם عَرَبِيّ नमस्ते ไทย", "😀 👩‍👩‍👧 🇩🇪 ☕️", "a\u200bb a\u200db a\ufeffb a\u00adb a\u2060b", "a\u0000b a\u0007b a\u007fb a\u0085b",
    "a\u00a0b a\u2003b a\u3000b a\u2028b a\u1680b", "\ufffd a\ufffdb", "\ue000 \U000f0000 \U000e0041 \u0378", "$5.00 + 7 = `x` ^ ~|<>",
    "\u2014\u2018\u201c\u2026\u00bf\u00a1\u3001\u061d\u166d\U000111c9", "walked" * 16 + "wals", "walked" * 16 + "walks", "w" * 100, "w" * 101,
    "é" * 100, "é" * 101, "é" * 101 + " walked", "x" * 1000, "unaffable unkindly zzzqqq walkedzzz", "[CLS] [SEP] [MASK] [PAD] [UNK]",
    "a[MASK]b [mask] [ MASK ] [[MASK]] [MASK", "[MASK][MASK]", "[SEP", "##ing ## #", "a\u0300\u0300\u0300\u0345\u0301",
    "\u0958 \u0929 \ufb1d \ufb2a \u0f73 \u0f81", "\U00011938 \u1c89 \ua7cb \U00010d50 \U00016ea0", "\u1734a \u07fd\u0301 \u0898b",
    "<new> <NEW> x<new>y <strip>  a  <strip>\u3000b <word> a<word> <word>b é<word> .<word>. \u200d<word> Ⓐ<word> ①<word>",
    "Yesterday yesterday YÉSTERDAY yesterdays <new><new2> <new2 <strip><strip> \n<strip>\n <strip>\n<word>",
]
RAW = [b"\xff", b"a\xffb", b"\xc3", b"a\xc3 b", b"\xe2\x82", b"\xe2\x82x\xe2\x28\xa1", b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80\xf0\x9f", b"\xed\xa0\x80", b"\xc0\xaf",
       b"\xf5\x80\x80\x80", b"\xf4\x90\x80\x80", b"\xe0\x80\x80", b"walked\x80walks", b"\xe6\x88 [MASK]\xf1\x80\x80[MASK]"]


def added(content, number, **flags):
    entry = dict(id=number, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
    return {**entry, **flags}


def bert_normalizer(**flags):
    entry = dict(type="BertNormalizer", clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    return {"normalizer": {**entry, **flags}}


def configurations(size, special):
    extra = [
        added("<new>", size), added("<new2>", size + 1), added("<strip>", size + 2, lstrip=True, rstrip=True),
        added("<word>", size + 3, single_word=True), added("Yésterday", size + 4, normalized=True),
        added("Ferry", size + 5, normalized=True, single_word=True), added("!!", size + 6, normalized=True, lstrip=True, rstrip=True),
    ]
    piece = lambda name, kind: {("Sequence" if name in "AB" else "SpecialToken"): {"id": name, "type_id": kind}}
    return {
        "uncased": {},
        "cased": bert_normalizer(lowercase=False),
        "cased, accents stripped": bert_normalizer(lowercase=False, strip_accents=True),
        "uncased, accents kept": bert_normalizer(strip_accents=False),
        "not cleaned": bert_normalizer(clean_text=False),
        "not cleaned, accents kept": bert_normalizer(clean_text=False, strip_accents=False),
        "Chinese words": bert_normalizer(handle_chinese_chars=False),
        "no normalizer": {"normalizer": None},
        "added tokens": {"added_tokens": special + extra},
        "added tokens, cased": {"added_tokens": special + extra, **bert_normalizer(lowercase=False)},
        "BertProcessing": {"post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}},
        "no post-processor": {"post_processor": None},
        "another template": {"post_processor": {
            "single": [piece("A", 3), piece("[SEP]", 1)],
            "pair": [piece("B", 1), piece("[SEP]", 2), piece("A", 0), piece("[CLS]", 5), piece("[SEP]", 0)]}},
        "short words": {"model": {"max_input_chars_per_word": 5}},
        "no prefix": {"model": {"continuing_subword_prefix": ""}},
    }


def merge(target, patch):
    """RFC 7386, except that null is a value."""
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            merge(target[key], value)
        else:
            target[key] = value
    return target


def make_small():
    rnd = random.Random(11)
    lines = PROSE.split("\n") * 20
    stems = ["".join(rnd.choice(CONSONANTS) + rnd.choice(VOWELS) for _ in range(rnd.choice((1, 2, 2, 3)))) for _ in range(500)]
    for _ in range(4000):
        lines.append(" ".join(rnd.choice(stems) + rnd.choice(ENDINGS) for _ in range(9)) + rnd.choice(".?!;"))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=1500, special_tokens=special, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    SMALL.mkdir()
    tokenizer.save(str(SMALL / "tokenizer.json"), pretty=False)
    tokenizer.model.save(str(SMALL))
    names = {f"{name.strip('[]').lower()}_token": name for name in special}
    (SMALL / "special_tokens_map.json").write_text(json.dumps(names, indent=1) + "\n")
    config = {"do_lower_case": True, "model_max_length": 512, "tokenizer_class": "BertTokenizer", **names}
    (SMALL / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def written(key, raw):
    """As text where it is UTF-8."""
    try:
        return {key: raw.decode()}
    except UnicodeDecodeError:
        return {key + "_hex": raw.hex()}


def make_cases():
    base = json.loads((SMALL / "tokenizer.json").read_text())
    rnd = random.Random(5)
    words = [w for w in base["model"]["vocab"] if not w.startswith("##")] + HARD
    random_texts = ["".join(rnd.choice(words) + rnd.choice(["", " ", "  ", "-", "\u0301"]) for _ in range(rnd.randrange(1, 12))) for _ in range(25)]
    texts = [t.encode() for t in HARD] + RAW + [t[:120].encode() for t in random_texts]
    result = []
    for name, patch in configurations(len(base["model"]["vocab"]), base["added_tokens"]).items():
        tokenizer = Tokenizer.from_str(json.dumps(merge(json.loads(json.dumps(base)), patch)))
        cases = []
        inputs = [(t, None, None) for t in texts] + [(rnd.choice(texts), rnd.choice(texts), None) for _ in range(15)]
        for length in (3, 4, 5, 8, 9, 20):
            inputs += [(rnd.choice(texts), None if rnd.random() < 0.3 else rnd.choice(texts), length) for _ in range(12)]
        for text, pair, length in inputs:
            decode = lambda raw: raw.decode(errors="replace")
            tokenizer.no_truncation()
            if length is not None:
                # `tokenizers` does not truncate at all where there is no room for the special tokens; Shoehorn refuses.
                if length < tokenizer.num_special_tokens_to_add(pair is not None):
                    continue
                tokenizer.enable_truncation(length)
            encoding = tokenizer.encode(decode(text), None if pair is None else decode(pair))
            case = {**written("text", text), **({} if pair is None else written("pair", pair)), "ids": encoding.ids}
            if length is not None:
                case["max_length"] = length
            if any(encoding.type_ids):
                case["types"] = encoding.type_ids
            cases.append(case)
        result.append({"name": name, "patch": patch, "cases": cases})
    rows = ",\n".join(
        json.dumps({"name": c["name"], "patch": c["patch"]})[:-1] + ', "cases": [\n' + ",\n".join(json.dumps(x, separators=(",", ":"), ensure_ascii=False) for x in c["cases"]) + "]}"
        for c in result)
    (HERE / "tokenizer_cases.json").write_text("[\n" + rows + "\n]\n")


def code_point_hashes():
    """Each code point alone, between letters, after marks of accents, and among marks that are kept."""
    texts = [c + "a" + c + "B e\u0301\u0327" + c + " \u302e\u302f" + c + "\u0327\u302e\U0001d165"
             for c in map(chr, itertools.chain(range(0xD800), range(0xE000, 0x110000)))]
    hashes = {}
    for options in ("1111", "1110", "1101", "1100", "0011"):
        normalizer = normalizers.BertNormalizer(*[option == "1" for option in options])
        crc = 0
        for text in texts:
            crc = zlib.crc32((normalizer.normalize_str(text) + "\n").encode(), crc)
        hashes["normalized " + options] = crc
    splitter = pre_tokenizers.BertPreTokenizer()
    crc = 0
    for text in texts:
        crc = zlib.crc32("".join(word + "\n" for word, _ in splitter.pre_tokenize_str(text)).encode(), crc)
    return {**hashes, "words": crc}


def file_hash(tokenizer, path, pairs):
    lines = [line.decode(errors="replace") for line in path.read_bytes().split(b"\n")]
    tokenizer.no_truncation()
    if pairs:
        tokenizer.enable_truncation(33)
        lines = list(zip(lines[0::2], lines[1::2]))
    crc = 0
    for encoding in tokenizer.encode_batch(lines):
        for numbers in (encoding.ids, encoding.type_ids):
            crc = zlib.crc32(struct.pack(f"<{len(numbers)}i", *numbers), crc)
    return crc


def make_hashes(arguments):
    path = HERE / "tokenizer_hashes.json"
    hashes = json.loads(path.read_text()) if path.exists() else {"files": {}}
    hashes["code_points"] = code_point_hashes()
    if arguments.minilm:
        tokenizer = Tokenizer.from_file(str(arguments.minilm / "tokenizer.json"))
        tokenizer.no_padding()
        for name, folder, pattern in (("shared", arguments.shared, "data/*/*.txt"), ("fortunes", arguments.fortunes, "*")):
            for file in sorted(folder.glob(pattern)) if folder else ():
                if not file.is_symlink() and file.suffix != ".dat":
                    hashes["files"][f"{name}/{file.relative_to(folder)}"] = {
                        "content": zlib.crc32(file.read_bytes()), "lines": file_hash(tokenizer, file, False), "pairs": file_hash(tokenizer, file, True)}
    path.write_text(json.dumps(hashes, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("--shared", "--minilm", "--fortunes"):
        parser.add_argument(flag, type=pathlib.Path)
    parser.add_argument("--retrain", action="store_true", help="train tokenizer_small again")
    arguments = parser.parse_args()
    if arguments.retrain:
        shutil.rmtree(SMALL, ignore_errors=True)
    if not SMALL.exists():
        make_small()
    make_cases()
    make_hashes(arguments)
