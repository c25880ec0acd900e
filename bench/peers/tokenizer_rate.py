"""Texts per second of Shoehorn's tokenizer and of Hugging Face's, one after the other in turns; medians and ratio.

    cmake --build build --target tokenize_bench
    python bench/peers/tokenizer_rate.py --bench build/src/tokenize/tokenize_bench --model MINILM_DIR \
        [--mrpc msr_paraphrase_train.txt] [--fortunes /usr/share/games/fortunes] [--rounds 5] \
        [--families gpt2 llama3 … --train FILE…] [--json FILE]

Both encode the same batch with truncation to 128 tokens, from the same files, with 1 and with 2 threads. A text is a line
of the file that both read; the pairs of MRPC are encoded as pairs. Hugging Face's side is encode_batch and, because it
spares computing offsets that Shoehorn does not give either, encode_batch_fast; the ratio is to the faster of the two. What
Python then does to turn encodings into lists is not counted. The JSON has the rate of every round.

With --families also the tokenizers of tests/python/tokenizer_families.py, trained to 32,000 tokens at most on --train.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def read_mrpc(path):
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8-sig").splitlines()[1:]]
    return [(row[-2], row[-1]) for row in rows if len(row) >= 5]


def read_fortunes(folder):
    texts = []
    for file in sorted(folder.iterdir()):
        if not file.is_symlink() and file.suffix != ".dat":
            texts += file.read_bytes().decode(errors="replace").split("\n%\n")
    return [" ".join(text.split()) for text in texts if text.strip()]


def run_ours(bench, model, texts_path, threads):
    environment = dict(os.environ, SHOEHORN_MINILM_DIR=str(model), SHOEHORN_BENCH_TEXTS=str(texts_path))
    command = [str(bench), f"--benchmark_filter=encode_batch/threads:{threads}/", "--benchmark_format=json", "--benchmark_min_time=0.2"]
    output = subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout
    return json.loads(output)["benchmarks"][0]["items_per_second"]


def run_theirs(encode, texts):
    start = time.perf_counter()
    encode(texts)
    return len(texts) / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", type=pathlib.Path, required=True)
    parser.add_argument("--model", type=pathlib.Path, help="a directory with tokenizer.json")
    parser.add_argument("--families", nargs="*", default=[])
    parser.add_argument("--train", type=pathlib.Path, nargs="*", default=[], help="texts that the families are trained on")
    parser.add_argument("--mrpc", type=pathlib.Path)
    parser.add_argument("--fortunes", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write every rate; - for standard output in place of the text")
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.model is None and not arguments.families:
        parser.error("--model or --families is required")
    if arguments.threads is None:
        # Hugging Face's pool of threads takes its size when the process first uses it.
        results = measured([]) if arguments.model else []
        results += [result for family in arguments.families for result in measured_family(family, arguments)]
        if arguments.json != "-":
            print_text(results)
        if arguments.json:
            write = sys.stdout.write if arguments.json == "-" else pathlib.Path(arguments.json).write_text
            write(json.dumps(results, indent=1) + "\n")
        return
    print(json.dumps(measure(arguments)))


def measured_family(family, arguments):
    """The same with a tokenizer of the family; its name stands before that of the texts."""
    sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[2] / folder) for folder in ("tests/python", "tests/golden")]
    from tokenizer_families import family_files

    train = [line for path in arguments.train for line in path.read_text(errors="replace").splitlines(keepends=True)]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "tokenizer.json").write_text(json.dumps(family_files(train, 32_000)[family]))
        return [{**result, "texts": f"{family}, {result['texts']}"} for result in measured(["--model", folder])]


def measured(more):
    """The results of a process for 1 and one for 2 threads."""
    results = []
    for threads in (1, 2):
        environment = dict(os.environ, RAYON_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="true" if threads > 1 else "false")
        command = [sys.executable, __file__, *sys.argv[1:], *more, "--threads", str(threads)]
        results += json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return results


def measure(arguments):
    """For each set of texts: how many, and the rates of each side in texts a second, a number a round."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(arguments.model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(128)
    sets = {}
    if arguments.mrpc:
        sets["MRPC pairs"] = read_mrpc(arguments.mrpc)
    if arguments.fortunes:
        sets["fortunes"] = read_fortunes(arguments.fortunes)
    results = []
    for name, texts in sets.items():
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
            file.write("".join(("\t".join(text) if isinstance(text, tuple) else text) + "\n" for text in texts))
            file.flush()
            rates = {"shoehorn": [], "encode_batch": [], "encode_batch_fast": []}
            for _ in range(arguments.rounds):
                rates["shoehorn"].append(run_ours(arguments.bench, arguments.model, file.name, arguments.threads))
                rates["encode_batch"].append(run_theirs(tokenizer.encode_batch, texts))
                rates["encode_batch_fast"].append(run_theirs(tokenizer.encode_batch_fast, texts))
        results.append({"texts": name, "count": len(texts), "threads": arguments.threads, "rates": rates})
    return results


def print_text(results):
    for result in results:
        medians = {key: statistics.median(values) for key, values in result["rates"].items()}
        ratio = medians["shoehorn"] / max(medians["encode_batch"], medians["encode_batch_fast"])
        shown = ", ".join(f"{key} {value:,.0f}" for key, value in medians.items())
        print(f"{result['texts']}, {result['count']} texts, {result['threads']} thread(s): {shown} texts/s: {ratio:.1f} times")


if __name__ == "__main__":
    main()
