#!/usr/bin/env python3
"""Writes lora_small/: an adapter of PEFT on the model of bert_small/, and what PyTorch and the Trainer compute with it.

  python lora_make.py [--output_dir lora_small]

lora_small/adapter_config.json, adapter_model.safetensors   the adapter, as PEFT's save_pretrained writes it (fp32)
lora_small/golden.json                                      losses, and a training curve that starts from this adapter
lora_small/golden.safetensors
  logits, gradient64.NAME   batch `main` of bert_small/ (its rows 0..7), float64; NAME as in the file, without the prefix
  adamw.NAME                adapter after the Trainer's AdamW curve, fp32

B is not zero, as it would be at the start, so that A has a gradient; the classifier differs from the base model's. Dropout
is 0. float64 is the reference. `autocast` is what bert_make.py has under that name, the largest of AUTOCAST_DRAWS draws as
in decoder_make.py.
"""

import argparse
import copy
import json
import os
import shutil

import peft
import torch
import transformers
from bert_make import (
    AUTOCAST_DRAWS,
    COMMON,
    MAIN_ROWS,
    SAMPLES,
    autocast_errors,
    largest,
    largest_difference,
    move_within_bf16,
    norm,
    take,
    train_curve,
)
from safetensors.torch import load_file, save_file
from transformers import BertForSequenceClassification

HERE = os.path.dirname(os.path.abspath(__file__))
BASE = os.path.join(HERE, "bert_small")
SEED = 20240518
LORA = dict(r=4, lora_alpha=6, target_modules=["query", "value"])
CURVE = dict(COMMON, max_steps=10, learning_rate=1e-2, warmup_steps=2, optim="adamw_torch_fused")
# All but the adapter: train_curve decides by pattern what is trained.
FROZEN = r"^(?!.*(lora_|modules_to_save))"


def load_base():
    model = BertForSequenceClassification.from_pretrained(
        BASE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=0.0
    )
    return model.eval()


def plain_name(name):
    """PEFT's name of a parameter without its prefix and the adapter's name."""
    return name.removeprefix("base_model.model.").replace("modules_to_save.default.", "").replace(".default.", ".")


def adapter_of(model):
    return {plain_name(name): parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def make_adapter(directory):
    model = peft.get_peft_model(load_base(), peft.LoraConfig(task_type="SEQ_CLS", **LORA))
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for name, parameter in adapter_of(model).items():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(parameter + 0.1 * noise if name.startswith("classifier") else 0.2 * noise)
    model.peft_config["default"].base_model_name_or_path = "../bert_small"
    model.save_pretrained(directory)
    os.remove(os.path.join(directory, "README.md"))


def load_adapter(directory):
    return peft.PeftModel.from_pretrained(load_base(), directory, is_trainable=True).eval()


def exact(model, batch):
    """Loss, logits and the adapter's gradients in float64."""
    model = model.double()
    outputs = model(**batch)
    outputs.loss.backward()
    return outputs.loss.item(), outputs.logits, {name: parameter.grad for name, parameter in adapter_of(model).items()}


def autocast_errors_of_draws(directory, batch, truth):
    """The first draw is of the weights as they are."""
    errors = autocast_errors(load_adapter(directory), batch, *truth, plain_name)
    generator = torch.Generator().manual_seed(SEED)
    for _ in range(AUTOCAST_DRAWS - 1):
        moved = load_adapter(directory)
        move_within_bf16(moved, generator)
        truth = exact(copy.deepcopy(moved), batch)
        errors = largest(errors, autocast_errors(moved, batch, *truth, plain_name))
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output_dir", default=os.path.join(HERE, "lora_small"))
    args = parser.parse_args()
    torch.set_num_threads(1)

    shutil.rmtree(args.output_dir, ignore_errors=True)
    torch.manual_seed(SEED)  # of the start of A, which is drawn over
    make_adapter(args.output_dir)
    stored = load_file(os.path.join(BASE, "golden.safetensors"))
    attended = torch.arange(stored["input_ids"].shape[1])[None, :] < stored["lengths"][:, None]
    samples = {key: stored[key].long() for key in ("input_ids", "token_type_ids", "labels")}
    samples["attention_mask"] = attended.long()

    batch = take(samples, MAIN_ROWS)
    loss, logits, gradients = exact(load_adapter(args.output_dir), batch)
    errors = autocast_errors_of_draws(args.output_dir, batch, (loss, logits, gradients))
    tensors = {"logits": logits, **{f"gradient64.{name}": value for name, value in gradients.items()}}

    generator = torch.Generator().manual_seed(SEED)
    size = CURVE["per_device_train_batch_size"]
    rows = torch.randint(0, SAMPLES, (CURVE["max_steps"] * size,), generator=generator).tolist()
    curves = {}
    for precision, model in {"float32": load_adapter(args.output_dir), "float64": load_adapter(args.output_dir).double()}.items():
        trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        curve, weights = train_curve(model, samples, dict(CURVE, freeze=[FROZEN]), rows)
        curves[precision] = (curve, {plain_name(name): weights[name] for name in trained})
    tensors.update({f"adamw.{name}": value for name, value in curves["float32"][1].items()})
    lora_arguments = {f"lora_{ours}": LORA[theirs] for ours, theirs in (("rank", "r"), ("alpha", "lora_alpha"), ("target", "target_modules"))}
    golden = {
        "made_by": "tests/golden/lora_make.py",
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__},
        "main": {
            "rows": MAIN_ROWS,
            "loss": loss,
            "gradient_norm": norm(gradients.values()),
        },
        "autocast": errors,
        "lora": {
            "arguments": {**CURVE, **lora_arguments},
            "rows": [rows[start : start + size] for start in range(0, len(rows), size)],
            "float32": curves["float32"][0],
            "float64": {key: curves["float64"][0][key] for key in ("loss", "grad_norm")},
            "final_weights_sum_and_norm": {
                name: [value.sum().item(), value.norm().item()] for name, value in sorted(curves["float64"][1].items())
            },
            "final_weights_float32_to_float64": largest_difference(curves["float32"][1], curves["float64"][1]),
        },
    }
    save_file({name: value.detach().contiguous() for name, value in tensors.items()}, f"{args.output_dir}/golden.safetensors")
    with open(f"{args.output_dir}/golden.json", "w", encoding="utf-8") as file:
        parts = []
        for key, value in golden.items():
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()) if isinstance(value, dict) else ""
            parts.append(f"{json.dumps(key)}: {{\n{inner}\n }}" if inner else f"{json.dumps(key)}: {json.dumps(value)}")
        file.write("{\n " + ",\n ".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
