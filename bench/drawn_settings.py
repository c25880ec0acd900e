#!/usr/bin/env python3
"""What processes take beside what `plan` says of them, whatever the settings: a hundred, drawn at random by fixed seeds.

  bench/drawn_settings.py --model_name_or_path DIR --train_file msr_paraphrase_train.txt --text_file input.txt [--json FILE]

A pretrained classifier on MRPC's pairs, and a decoder of 13 million weights on a text, with a tokenizer that is learned from
it. Each setting is planned, then loaded, trained for two steps, evaluated and saved; every third is also resumed,
and what it saved is evaluated by a process of its own. Some are trained by two ranks, where there is an MPI. The JSON has the
flags, the planned and the measured bytes of every process.
Exit: 0 the goals are met, 1 one is not, 2 nothing could be measured.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import tempfile

import compare

MIB = 1 << 20
# The share of processes whose measured peak is so close to the planned one: of its bytes, or of so many.
GOALS = ((0.95, 0.01, 8 * MIB), (1.0, 0.02, 16 * MIB))
OTHERS_EVERY = 3
EVALUATED_SAMPLES = 128
DECODER = (
    "hidden_size=320,intermediate_size=896,num_hidden_layers=8,num_attention_heads=5,num_key_value_heads=5,vocab_size=4096,"
    "max_position_embeddings=256"
)


class Draw:
    """Flags by a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.is_decoder = self.one_in(3)
        self.precision = self.random.choice(("fp32", "bf16", "bf16", "fp16"))
        self.length = str(self.random.choice((32, 64, 128)))
        self.eval_batch = str(2 ** self.random.randrange(7))
        self.step = self.drawn_step()
        self.ranks = 2 if self.one_in(6) else 1
        if self.ranks > 1:
            self.step += ["--zero_stage", str(self.random.randrange(4))]

    def one_in(self, count):
        return self.random.randrange(count) == 0

    def drawn_step(self):
        steps = self.random.randint(1, 3)
        is_layer_major = steps > 1 and self.one_in(2)
        flags = ["--per_device_train_batch_size", str(2 ** self.random.randrange(6)), "--gradient_accumulation_steps", str(steps)]
        if is_layer_major:
            flags += ["--accumulation_order", "layer_major"]
        flags += ["--optim", self.random.choice(("adamw_torch", "adamw_8bit", "adafactor", "sgd", "lion_32bit"))]
        flags += self.random.choice(([], ["--gradient_checkpointing"], ["--activation_budget", f"0.{self.random.randint(1, 8)}"]))
        if (steps == 1 or is_layer_major) and self.one_in(2):
            flags += ["--update_in_backward", "--max_grad_norm", "0"]
            flags += ["--loss_scale", "1024"] if self.precision == "fp16" else []  # not a dynamic one
        if self.one_in(4):
            flags += ["--lora_rank", "8", *(["--lora_merge"] if self.one_in(2) else [])]
        if self.precision == "bf16" and self.one_in(2):
            flags += ["--master_weights", "none"]
        return flags

    def of_all_phases(self):
        """Flags that training and evaluation share, but for the texts."""
        flags = ["--block_size" if self.is_decoder else "--max_seq_length", self.length, "--per_device_eval_batch_size", self.eval_batch]
        flags += ["--max_eval_samples", str(EVALUATED_SAMPLES)]
        flags += [] if self.precision == "fp32" else [f"--{self.precision}"]
        # Ranks that share two processors have a thread each; a plan of them knows no other processors than this machine's.
        return flags + (["--num_threads", "1"] if self.ranks > 1 else [])


def is_within(process, share, least_bytes):
    return abs(process["measured_bytes"] - process["planned_bytes"]) <= max(share * process["planned_bytes"], least_bytes)


def shares_within(processes):
    """Of each goal, the share of the processes that are within its bounds."""
    return [sum(is_within(one, share, least) for one in processes) / len(processes) for _, share, least in GOALS]


class Program:
    """The program on the texts, in a directory of its own."""

    def __init__(self, args, directory):
        self.program = args.shoehorn
        self.timeout = args.timeout_seconds
        self.environment = dict(os.environ)
        self.directory = pathlib.Path(directory)
        self.output = self.directory / "out"
        pairs = ["--text_column_names", "#1 String,#2 String", "--label_column_name", "Quality"]
        self.encoder_texts = ["--validation_file", args.train_file, *pairs]
        self.encoder = ["--model_name_or_path", args.model_name_or_path, "--train_file", args.train_file]
        self.decoder_texts = ["--task", "causal-lm", "--validation_file", args.text_file]
        self.decoder = ["--model_name_or_path", self.made_decoder(args.text_file), "--train_file", args.text_file]

    def made_decoder(self, text_file):
        """A directory of weights, of which adapters can be trained."""
        tokenizer, decoder = str(self.directory / "tokenizer"), str(self.directory / "decoder")
        self.run("tokenizer", "train", "--output_dir", tokenizer, "--vocab_size", "4096", text_file)
        of_shape = ["--model_type", "llama", "--config_overrides", DECODER, "--tokenizer_name", tokenizer]
        self.run("train", "--task", "causal-lm", *of_shape, "--train_file", text_file, "--max_steps", "1", "--output_dir", decoder)
        return decoder

    def run(self, *words, ranks=1):
        """Its standard output and its peak."""
        launched = [] if ranks == 1 else ["launch", "--nproc_per_node", str(ranks)]
        output, peak, _ = compare.run_process([self.program, *launched, *words], self.environment, self.timeout)
        return output, peak

    def measured(self):
        return json.loads((self.output / "all_results.json").read_text(encoding="utf-8"))["memory_process_measured_bytes"]

    def processes_of(self, draw, others):
        """The bytes of the processes of a setting, planned and measured."""
        shared = draw.of_all_phases()
        model = self.decoder if draw.is_decoder else self.encoder
        texts = self.decoder_texts if draw.is_decoder else self.encoder_texts
        flags = [*model, *texts, *draw.step, *shared]
        flags += ["--max_steps", "2", "--eval_strategy", "steps", "--eval_steps", "1", "--save_strategy", "steps", "--save_steps", "2"]
        flags += ["--output_dir", str(self.output)]
        planned = json.loads(self.run("plan", *flags, "--world_size", str(draw.ranks), "--json")[0])
        peak = planned["process_peak_bytes"]
        self.run("train", *flags, ranks=draw.ranks)
        processes = [{"phase": "train", "planned_bytes": peak, "measured_bytes": self.measured()}]
        if others:
            self.run("train", *flags, "--resume_from_checkpoint", "true", "--max_steps", "3", ranks=draw.ranks)
            processes.append({"phase": "resume", "planned_bytes": peak, "measured_bytes": self.measured()})
            evaluated = str(self.directory / "evaluated")
            _, measured = self.run("eval", "--model_name_or_path", str(self.output), "--output_dir", evaluated, *texts, *shared)
            planned_bytes = planned["evaluation_only"]["process_peak_bytes"]
            processes.append({"phase": "eval", "planned_bytes": planned_bytes, "measured_bytes": measured})
        shutil.rmtree(self.output)
        return processes


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_name_or_path", required=True, help="directory of a BERT-type model with its tokenizer")
    parser.add_argument("--train_file", required=True, help="msr_paraphrase_train.txt")
    parser.add_argument("--text_file", required=True, help="the decoder's text")
    parser.add_argument("--draws", type=int, default=100)
    compare.add_program_arguments(parser)
    return parser.parse_args()


def main():
    args = parse_arguments()
    settings = []
    with tempfile.TemporaryDirectory() as directory:
        program = Program(args, directory)
        for seed in range(1, args.draws + 1):
            draw = Draw(seed)
            model = "decoder" if draw.is_decoder else "classifier"
            processes = program.processes_of(draw, seed % OTHERS_EVERY == 0)
            settings.append({"seed": seed, "model": model, "ranks": draw.ranks, "flags": [*draw.step, *draw.of_all_phases()], "processes": processes})
            if args.json != "-":
                for one in processes:
                    off = (one["measured_bytes"] - one["planned_bytes"]) / MIB
                    print(f"{seed:>4} {model:<11}{one['phase']:<8}{one['planned_bytes'] / MIB:>8.1f} MiB planned{off:>+8.1f}", flush=True)
    if args.json:
        compare.write_json(args.json, {"settings": settings})
    shares = shares_within([one for setting in settings for one in setting["processes"]])
    return 0 if all(share >= goal for share, (goal, _, _) in zip(shares, GOALS)) else 1


if __name__ == "__main__":
    compare.run_main(main)
