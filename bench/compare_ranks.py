#!/usr/bin/env python3
"""Ranks of one training, in turns: ours with DDP and ZeRO-3, one rank of ours with the threads of all, PyTorch's DDP and FSDP.

  bench/compare_ranks.py --model bert-base --bf16                        two ranks of one thread, 2 x 512 tokens each
  bench/compare_ranks.py --model gpt2 --sides one ddp torch_ddp --repeats 3 --json ranks.json
  bench/compare_ranks.py --model bert-large --ranks 8 --per_device_train_batch_size 1 --sequence_length 128 \\
                         --sides one zero_3 --share_goal 0.2             a rank's memory beside that of one rank

Ours are `shoehorn launch … train` and, as one rank, `shoehorn train` with the batch of all ranks at once; the peers are
bench/peers/train_ranks.py on gloo. All have random weights and random tokens of full length, AdamW and clipping. Samples a
second are those of all ranks together, by the median of the steps after the first; the peak is that of a rank (VmHWM; of
ours the first, of the peers the one that has most).
Exit: 0 all goals met, 1 a goal missed, 2 nothing could be compared. Keys: bench/README.md.
"""

import argparse
import json
import pathlib
import random
import shlex
import sys
import tempfile

import compare

PEERS = compare.HERE / "peers"
sys.path.insert(0, str(PEERS))

import train_step  # noqa: E402

OURS = {"one": [], "ddp": ["--parallel_mode", "ddp"], "zero_3": ["--zero_stage", "3"]}
THEIRS = {"torch_ddp": "ddp", "torch_fsdp": "fsdp"}
SIDES = (*OURS, *THEIRS)
# A side of ours -> the least samples a second, as times those of one rank with the threads of all.
GOALS_OF_ONE = {"ddp": 0.95, "zero_3": 0.9}
# A side of ours -> the peer that does the same; the least ratio of samples a second and the greatest of a rank's peak.
PEER_OF = {"ddp": "torch_ddp", "zero_3": "torch_fsdp"}
PEER_SPEED_GOAL, PEER_MEMORY_GOAL = 2.0, 0.5
VOCABULARIES = {"bert": 30522, "gpt2": 50257}  # where the configuration names none, as in transformers
SPECIAL_TOKENS = {0: "[PAD]", 100: "[UNK]", 101: "[CLS]", 102: "[SEP]", 103: "[MASK]"}
FIRST_WORD = 1000  # of a vocabulary: none of BERT's tokens that are no words


def is_encoder(model):
    return train_step.CONFIGURATIONS[model]["model_type"] in train_step.ENCODERS


def words_of(model):
    """The tokens of a made-up vocabulary as large as the model's."""
    config = train_step.CONFIGURATIONS[model]
    size = config.get("vocab_size", VOCABULARIES.get(config["model_type"]))
    return [SPECIAL_TOKENS.get(at, f"w{at}") for at in range(size)]


def write_inputs(directory, args):
    """A configuration, a tokenizer whose tokens are words, and texts of random ones, as many as the steps need."""
    (directory / "config.json").write_text(json.dumps(train_step.CONFIGURATIONS[args.model]))
    words = words_of(args.model)
    generator = random.Random(args.seed)
    texts = lambda length: [" ".join(generator.choices(words[FIRST_WORD:], k=length)) for _ in range(samples_of(args) * args.steps)]
    if is_encoder(args.model):
        (directory / "vocab.txt").write_text("\n".join(words) + "\n")
        rows = [f"{text},{at % 2}" for at, text in enumerate(texts(args.sequence_length - 2))]  # and [CLS] and [SEP]
        (directory / "train.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
        return
    model = {"type": "WordLevel", "vocab": {word: at for at, word in enumerate(words)}, "unk_token": words[0]}
    tokenizer = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}}
    (directory / "tokenizer.json").write_text(json.dumps({**tokenizer, "post_processor": None, "decoder": None, "model": model}))
    (directory / "train.txt").write_text("\n".join(texts(args.sequence_length)) + "\n")


def samples_of(args):
    """Of a step, of all ranks."""
    return args.ranks * args.per_device_train_batch_size


def our_command(side, directory, args):
    times = args.ranks if side == "one" else 1
    if is_encoder(args.model):
        data = ["--train_file", str(directory / "train.csv"), "--max_seq_length", str(args.sequence_length)]
    else:
        data = ["--task", "causal-lm", "--train_file", str(directory / "train.txt"), "--block_size", str(args.sequence_length)]
    return [
        args.shoehorn, *([] if side == "one" else ["launch", "--nproc_per_node", str(args.ranks)]),
        "train", "--config_name", str(directory / "config.json"), "--tokenizer_name", str(directory), *data,
        "--output_dir", str(directory / "run"), "--overwrite_output_dir",
        "--per_device_train_batch_size", str(args.per_device_train_batch_size * times), "--num_threads", str(args.threads * times),
        *(["--bf16"] if args.bf16 else []), *OURS[side], "--max_steps", str(args.steps), "--profile", str(args.steps - 1),
        "--save_strategy", "no", "--report_to", "none", *shlex.split(args.extra_ours),
    ]  # fmt: skip


def their_command(side, args):
    return [
        args.python, str(PEERS / "train_ranks.py"), "--model", args.model, "--method", THEIRS[side], "--ranks", str(args.ranks),
        "--threads", str(args.threads), "--per_device_train_batch_size", str(args.per_device_train_batch_size),
        "--sequence_length", str(args.sequence_length), *(["--bf16"] if args.bf16 else []), "--steps", str(args.steps),
    ]  # fmt: skip


def run_ours(side, directory, args):
    compare.run_process(our_command(side, directory, args), None, args.timeout_seconds)
    results = json.loads((directory / "run/all_results.json").read_text(encoding="utf-8"))
    seconds = results["train_profiled_step_seconds"]
    keys = ("train_sent_bytes_in_step", "train_messages_done_share", "train_messages_early_share", "train_messages_hidden_share")
    return {
        "samples_per_second": samples_of(args) / seconds,
        "step_seconds": seconds,
        "peak_bytes": results["memory_process_measured_bytes"],
        "predicted_peak_bytes": results["memory_process_predicted_bytes"],
        **{key.removeprefix("train_"): results[key] for key in keys if key in results},
    }


def run_theirs(side, args):
    output, _, _ = compare.run_process(their_command(side, args), None, args.timeout_seconds)
    result = compare.last_json_object(output)
    if result is None:
        raise compare.CompareError(f"[{side}] expected a JSON object, got:\n{output[-2000:]}")
    return {key: result[key] for key in ("samples_per_second", "step_seconds", "first_step_seconds", "peak_bytes", "step_samples")}


def measure(args):
    """The record, with every run of each side."""
    commands = {}
    with tempfile.TemporaryDirectory(prefix="shoehorn-") as name:
        directory = pathlib.Path(name)
        write_inputs(directory, args)
        sides = {}
        for side in args.sides:
            commands[side] = our_command(side, directory, args) if side in OURS else their_command(side, args)
            sides[side] = (lambda side=side: run_ours(side, directory, args)) if side in OURS else (lambda side=side: run_theirs(side, args))
        runs = compare.run_in_turns(sides, args.repeats)
    words = lambda command: shlex.join(word.rsplit("/", 1)[-1] if word.startswith("/") else word for word in command)
    return {
        "date": compare.utc_now(),
        "model": args.model,
        "setting": "bf16" if args.bf16 else "fp32",
        "ranks": args.ranks,
        "threads": args.threads,
        "per_device_train_batch_size": args.per_device_train_batch_size,
        "sequence_length": args.sequence_length,
        # Without directories: a record says what was run, not where it was installed.
        "commands": {side: words(command) for side, command in commands.items()},
        "runs": runs,
    }


def goals_of(runs, share_goal=None):
    """Goal -> (met, ratio, goal); only of sides that ran. A goal is a least ratio where it is of speed, else a greatest one."""
    goals = {}

    def judge(name, above, below, key, goal):
        numbers = [compare.median_of(runs.get(side, []), key) for side in (above, below)]
        if None not in numbers:
            ratio = numbers[0] / numbers[1]
            goals[name] = (ratio >= goal if key == "samples_per_second" else ratio <= goal, ratio, goal)

    for side, peer in PEER_OF.items():
        judge(f"{side}: speed beside one rank", side, "one", "samples_per_second", GOALS_OF_ONE[side])
        judge(f"{side}: speed beside {peer}", side, peer, "samples_per_second", PEER_SPEED_GOAL)
        judge(f"{side}: memory beside {peer}", side, peer, "peak_bytes", PEER_MEMORY_GOAL)
    if share_goal is not None:
        judge("zero_3: memory beside one rank", "zero_3", "one", "peak_bytes", share_goal)
    return goals


def print_table(record, goals):
    print(f"{record['model']} {record['setting']}, {record['ranks']} ranks, of each: threads {record['threads']}, "
          f"batch {record['per_device_train_batch_size']} x {record['sequence_length']}")
    print(f"{'':<12}{'samples/s':>12}{'step s':>10}{'MiB of a rank':>16}")
    for side, runs in record["runs"].items():
        numbers = [compare.median_of(runs, key) for key in ("samples_per_second", "step_seconds", "peak_bytes")]
        print(f"{side:<12}{numbers[0]:>12.3f}{numbers[1]:>10.3f}{numbers[2] / 2**20:>16.0f}")
    for name, (met, ratio, goal) in goals.items():
        print(f"{'MET ' if met else 'MISS'}  {name}: x{ratio:.2f}, goal {goal}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-base", choices=sorted(train_step.CONFIGURATIONS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of a rank; the one rank has those of all")
    parser.add_argument("--per_device_train_batch_size", type=int, default=2, help="of a rank; the one rank has that of all")
    parser.add_argument("--sequence_length", type=int, default=512)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--steps", type=int, default=4, help="steps a run makes; the first is not in its median")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each side")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=SIDES)
    parser.add_argument("--share_goal", type=float, help="greatest ratio of the peaks of zero_3 and one; not judged unless given")
    parser.add_argument("--extra_ours", default="", help="flags for our sides only, one string")
    compare.add_side_arguments(parser, timeout_seconds=3600)
    args = parser.parse_args()
    if args.steps < 2:
        parser.error(f"[--steps] expected 2 or more, for the first is not in the medians, got {args.steps}")
    record = measure(args)
    goals = goals_of(record["runs"], args.share_goal)
    if args.json != "-":
        print_table(record, goals)
    if args.json:
        compare.write_json(args.json, record)
    return 0 if all(met for met, _, _ in goals.values()) else 1


if __name__ == "__main__":
    compare.run_main(main)
