#!/usr/bin/env python3
"""Writes decoder_curves.json: how the Hugging Face Trainer trains decoders of about 10 M parameters, step by step.

  python decoder_curve_make.py [--output decoder_curves.json]

GPT-2, Llama and Qwen3 with AdamW, dropout 0, batches of 2 x 32 tokens. Weights and samples follow from a seed by recipes
that a test follows, too (tests/decoder_curve_test.cc), so that the file holds numbers of steps only:

  weights   the parameters by name, in the order of bytes; number i is normal_() of a generator seeded with 1000 seed + i:
            around 0 with a deviation of 0.02, norms around 1 with 0.05
  samples   rows of 32 ids below 251, each of which follows from the one before it and from two bits of a linear
            congruential generator

fp32: 100 steps of seed 0. float64: the same, which says how far a correct program drifts from the truth. bf16: under
autocast, 100 steps of seeds 0 to 11, beside the same in fp32. Where a machine has no instructions for bf16 a step under
autocast takes seconds.
"""

import argparse
import json
import os
import tempfile

import torch
import transformers

STEPS = 100
BF16_STEPS = 100
SEEDS = range(12)
BATCH = 2
LENGTH = 32
IDS = 251
ARGUMENTS = dict(
    per_device_train_batch_size=BATCH, learning_rate=5e-4, weight_decay=0.1, warmup_steps=10, max_grad_norm=1.0, seed=42,
    max_steps=STEPS,
)  # fmt: skip
SHAPE = dict(
    vocab_size=4096, hidden_size=256, intermediate_size=768, num_hidden_layers=10, max_position_embeddings=64,
    bos_token_id=1, eos_token_id=2,
)  # fmt: skip
MODELS = {
    "gpt2": (
        "GPT2LMHeadModel",
        dict(
            vocab_size=4096, n_positions=64, n_embd=288, n_layer=8, n_head=6, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, bos_token_id=1, eos_token_id=2,
        ),
    ),
    "llama": ("LlamaForCausalLM", dict(SHAPE, num_attention_heads=8, num_key_value_heads=4)),
    "qwen3": (
        "Qwen3ForCausalLM",
        dict(SHAPE, num_attention_heads=6, num_key_value_heads=2, head_dim=64, tie_word_embeddings=True),
    ),
}  # fmt: skip


def build_model(class_name, keys, seed, deviation=0.02):
    """A model with the weights of the recipe."""
    model_class = getattr(transformers, class_name)
    model = model_class(model_class.config_class(**keys)).float()
    with torch.no_grad():
        for number, (name, parameter) in enumerate(sorted(model.named_parameters())):
            is_norm = name.endswith("weight") and ("norm" in name or ".ln_" in name)
            generator = torch.Generator().manual_seed(1000 * seed + number)
            drawn = torch.empty(parameter.shape)
            drawn.normal_(1.0 if is_norm else 0.0, 0.05 if is_norm else deviation, generator=generator)
            parameter.copy_(drawn)
    # Transformers 5.23 finds no loss by the name of GPT-2's class, and its Trainer then divides by all labels, also by those
    # of the first tokens, which nothing predicts.
    model.loss_type = "ForCausalLM"
    return model


def description_of(model):
    """What a test needs to build the same one."""
    return {
        "config": {**model.config.to_dict(), "architectures": [type(model).__name__]},
        "parameters": [[name, list(parameter.shape)] for name, parameter in sorted(model.named_parameters())],
    }


def samples(seed):
    rows = []
    for row in range(STEPS * BATCH):
        state = (7919 * seed + 104729 * row + 1) % 2**31
        ids = [(state >> 8) % IDS]
        while len(ids) < LENGTH:
            state = (1103515245 * state + 12345) % 2**31
            ids.append((5 * ids[-1] + 3 + (state >> 16) % 4) % IDS)
        rows.append({"input_ids": ids, "labels": ids})
    return rows


class Record(transformers.TrainerCallback):
    def __init__(self, stop_after):
        self.stop_after = stop_after
        self.curve = {"loss": [], "grad_norm": []}

    def on_log(self, arguments, state, control, logs=None, **_):
        if "grad_norm" not in logs:
            return
        for key, values in self.curve.items():
            values.append(float(logs[key]))
        # Stopping here, unlike a smaller max_steps, leaves the learning rates as they are.
        control.should_training_stop |= state.global_step == self.stop_after


def train(name, seed, steps, precision):
    model = build_model(*MODELS[name], seed)
    if precision == "float64":
        model = model.double()
    record = Record(steps)
    with tempfile.TemporaryDirectory() as output_dir:
        trainer = transformers.Trainer(
            model,
            transformers.TrainingArguments(
                output_dir, logging_steps=1, save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True,
                bf16=precision == "bf16", **ARGUMENTS,
            ),
            train_dataset=samples(seed),
            data_collator=transformers.default_data_collator,
            callbacks=[record],
        )  # fmt: skip
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    print(f"{name} seed {seed} {precision}: {record.curve['loss'][0]:.5f} to {record.curve['loss'][-1]:.5f}", flush=True)
    return record.curve


def largest_difference(first, second):
    return {key: max(abs(a / b - 1) for a, b in zip(first[key], second[key])) for key in first}


def curves_of(name):
    class_name, keys = MODELS[name]
    fp32 = train(name, 0, STEPS, "fp32")
    return {
        **description_of(build_model(class_name, keys, 0)),
        "fp32": fp32,
        "float64_to_fp32": largest_difference(train(name, 0, STEPS, "float64"), fp32),
        "bf16": [
            {
                "seed": seed,
                "fp32": fp32["loss"][:BF16_STEPS] if seed == 0 else train(name, seed, BF16_STEPS, "fp32")["loss"],
                "autocast": train(name, seed, BF16_STEPS, "bf16")["loss"],
            }
            for seed in SEEDS
        ],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--output", default=os.path.join(here, "decoder_curves.json"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    golden = {
        "made_by": "tests/golden/decoder_curve_make.py",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        "arguments": ARGUMENTS,
    }
    for name in MODELS:
        golden[name] = curves_of(name)
    # One line a key of a model.
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in golden.items() if key not in MODELS]
    for name in MODELS:
        inner = ",\n ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in golden[name].items())
        lines.append(f"{json.dumps(name)}: {{\n {inner}}}")
    with open(args.output, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
