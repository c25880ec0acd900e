#!/usr/bin/env python3
"""Writes bert_small/: a small BERT classifier and what PyTorch and the Hugging Face Trainer compute with it.

  python bert_make.py [--output_dir bert_small]

bert_small/config.json, model.safetensors   the initial model, as save_pretrained writes it (fp32)
bert_small/golden.json                      what each number below means: rows, losses, norms, curves, tolerances
bert_small/golden.safetensors
  input_ids, token_type_ids [32, 64] i32, lengths, labels [32] i32   samples; row r attends to its first lengths[r] tokens
  logits                                                             batch `main` (rows 0..7), float64
  gradient64.NAME                                                    d(mean loss of `main`)/d(NAME), float64
  adamw.NAME                                                         weights after the Trainer's AdamW curve, fp32
bert_small/variants/NAME/                   the same of one small model each, all its samples being `main`: other activation, two labels, one token type, and token
                                            0 (which never gets a gradient: padding_idx) inside the attended text; and of each problem_type, whose
                                            labels are f32 [samples] or [samples, labels] where they are numbers

`autocast` in golden.json is what torch.autocast loses in bfloat16 and in float16: the largest error of the loss, of the
logits and of each gradient of `main`, against float64. Attention is Transformers' default (sdpa) there.
Dropout is 0 everywhere. float64 is the reference (the losses of its curves pass through an fp32 sum in the Trainer);
fp32 is there to show how far a correct fp32 program is from it.
Lion and the 8-bit optimizers are bitsandbytes', LOMO and AdaLOMO lomo_optim's, as the Trainer makes them, on the CPU. These
compute updates in fp32 in the float64 curve too.
Biases of attention keys have no gradient (softmax ignores a shift of its row): what fp32 leaves there is rounding noise,
which AdamW scales up to whole steps, so their weights after `adamw` agree with no other program's. Nothing depends on them.
"""

import argparse
import copy
import json
import os
import re
import shutil
import tempfile

import bitsandbytes
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForSequenceClassification

SEED = 20240517
SAMPLES = 32
MAIN_ROWS = list(range(8))
MAIN_LENGTHS = [1, 64, 7, 33, 16, 64, 2, 50]
SMOOTHING = 0.1
LOSS_SCALE = 1024.0  # of the gradients under float16
AUTOCAST_DRAWS = 4  # of the roundings, of which the largest errors count where a script takes several
CONFIG = dict(
    vocab_size=97,
    hidden_size=40,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=72,
    max_position_embeddings=64,
    type_vocab_size=2,
    num_labels=3,
)
VARIANT_CONFIG = dict(
    vocab_size=23,
    hidden_size=12,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=20,
    max_position_embeddings=16,
    type_vocab_size=2,
    num_labels=3,
)
VARIANTS = {
    "relu": dict(hidden_act="relu"),
    "gelu_new": dict(hidden_act="gelu_new"),
    "two_labels": dict(num_labels=2),
    "one_token_type": dict(type_vocab_size=1),
    "token_zero_inside": dict(),
    "regression": dict(num_labels=1),
    "regression_of_three": dict(problem_type="regression"),
    "multi_label": dict(problem_type="multi_label_classification"),
}
COMMON = dict(per_device_train_batch_size=4, max_grad_norm=1.0, weight_decay=0.01, seed=42)
CURVES = {
    "adamw": dict(COMMON, max_steps=20, learning_rate=1e-3, warmup_steps=4, optim="adamw_torch_fused"),
    "sgd": dict(
        COMMON, max_steps=10, learning_rate=0.05, lr_scheduler_type="constant", optim="sgd", optim_args="momentum=0.9"
    ),
    "adafactor": dict(COMMON, max_steps=10, learning_rate=1e-3, optim="adafactor"),
    "adagrad": dict(COMMON, max_steps=10, learning_rate=1e-2, optim="adagrad", optim_args="lr_decay=0.1"),
    "frozen": dict(
        COMMON, max_steps=10, learning_rate=1e-3, optim="adamw_torch_fused", freeze=["embeddings", r"layer\.0\.", r"LayerNorm\.bias$"]
    ),
    # Tensors under 64 elements and embeddings keep 32 bits.
    "adamw_8bit": dict(COMMON, max_steps=10, learning_rate=1e-3, optim="adamw_bnb_8bit", optim_args="min_8bit_size=64"),
    "lion_8bit": dict(COMMON, max_steps=10, learning_rate=1e-4, optim="lion_8bit", optim_args="min_8bit_size=64"),
    "rmsprop": dict(COMMON, max_steps=10, learning_rate=1e-4, optim="rmsprop", optim_args="alpha=0.9,momentum=0.5"),
    "lion_32bit": dict(COMMON, max_steps=10, learning_rate=1e-4, optim="lion_32bit"),
    # These use up a gradient before a norm could be taken, and the Trainer gives them no decay.
    "lomo": dict(COMMON, max_steps=10, learning_rate=1e-2, optim="lomo", max_grad_norm=0.0, weight_decay=0.0),
    "adalomo": dict(COMMON, max_steps=10, learning_rate=1e-2, optim="adalomo", max_grad_norm=0.0, weight_decay=0.0),
    # Evaluated on the batch `main`.
    "reduce_lr_on_plateau": dict(
        COMMON,
        max_steps=12,
        learning_rate=1e-3,
        optim="adamw_torch_fused",
        lr_scheduler_type="reduce_lr_on_plateau",
        lr_scheduler_kwargs={"factor": 0.5, "patience": 0, "threshold": 0.2, "cooldown": 1},
        eval_strategy="steps",
        eval_steps=2,
    ),
}


def build_model(shape, seed):
    """Random weights, wide enough (0.2) that logits and gradients are far from zero; biases and norms are not trivial."""
    torch.manual_seed(seed)
    config = BertConfig(
        **shape, initializer_range=0.2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=0.0
    )
    config._attn_implementation = "eager"
    model = BertForSequenceClassification(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.1)
            elif "LayerNorm" in name:
                parameter.normal_(1.0, 0.1)
            elif "word_embeddings" in name:
                # from_config leaves the padding row zero; checkpoints of real models do not.
                parameter[0].normal_(0.0, 0.2)
    return model.eval()


def build_samples(shape, lengths, seed):
    """Token ids 1..V-1 up to each length and 0 after it; the second segment starts at a random token."""
    generator = torch.Generator().manual_seed(seed)
    count, tokens = len(lengths), shape["max_position_embeddings"]
    input_ids = torch.randint(1, shape["vocab_size"], (count, tokens), generator=generator)
    position = torch.arange(tokens)
    attended = position[None, :] < torch.tensor(lengths)[:, None]
    start = (torch.rand(count, generator=generator) * torch.tensor(lengths)).ceil().long()
    segment = (position[None, :] >= start[:, None]).long() if shape["type_vocab_size"] > 1 else torch.zeros_like(input_ids)
    return {
        "input_ids": input_ids * attended,
        "token_type_ids": segment * attended,
        "attention_mask": attended.long(),
        "labels": torch.randint(0, shape["num_labels"], (count,), generator=generator),
    }


def take(samples, rows):
    return {key: value[rows] for key, value in samples.items()}


def loss_and_gradients(model, batch, smoothing=0.0):
    """Loss (mean over the batch's samples whose label is not -100), logits, parameter gradients."""
    model.zero_grad()
    logits = model(**{key: value for key, value in batch.items() if key != "labels"}).logits
    if batch["labels"].is_floating_point():
        loss = model(**batch).loss  # by the config's problem_type
    else:
        loss = torch.nn.functional.cross_entropy(logits, batch["labels"], label_smoothing=smoothing)
    if smoothing == 0:
        theirs = model(**batch).loss
        assert torch.equal(theirs, loss), (theirs, loss)
    else:
        theirs = transformers.trainer_pt_utils.LabelSmoother(epsilon=smoothing)({"logits": logits}, batch["labels"])
        assert torch.allclose(theirs, loss, rtol=1e-6), (theirs, loss)
    loss.backward()
    gradients = {name: parameter.grad.detach().clone() for name, parameter in model.named_parameters()}
    return loss.item(), logits, gradients


def autocast_errors(model, batch, loss64, logits64, gradients64, name_of=lambda name: name):
    """What mixed precision loses: the largest errors of loss, logits and gradients. `model` has fp32 weights."""
    errors = {}
    for precision, dtype, scale in (("bf16", torch.bfloat16, 1.0), ("fp16", torch.float16, LOSS_SCALE)):
        model.zero_grad()
        with torch.autocast("cpu", dtype):
            outputs = model(**batch)
        (outputs.loss * scale).backward()
        gradients = {
            name_of(name): parameter.grad / scale for name, parameter in model.named_parameters() if parameter.requires_grad
        }
        errors[precision] = {
            "loss": abs(outputs.loss.item() - loss64),
            "logits": (outputs.logits.double() - logits64).abs().max().item(),
            "gradients": largest_difference(gradients, gradients64),
        }
    return errors


def move_within_bf16(model, generator):
    """Other weights, as near as a rounding to bf16: another draw of what mixed precision loses."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1 + 2**-8 * (2 * torch.rand(parameter.shape, generator=generator) - 1))


def largest(first, second):
    """Of two trees of numbers with the same keys, number by number."""
    if isinstance(first, dict):
        return {key: largest(first[key], second[key]) for key in first}
    return max(first, second)


def norm(tensors):
    return torch.sqrt(sum(tensor.double().square().sum() for tensor in tensors)).item()


def largest_difference(first, second):
    return {name: (first[name].double() - second[name].double()).abs().max().item() for name in first}


def main_batch(model, batch, rows, tensors):
    """`main` of golden.json for the batch of these rows, and what is in it; adds its tensors."""
    loss, logits, gradients = loss_and_gradients(build_like(model).double(), batch)
    tensors["logits"] = logits
    tensors.update({f"gradient64.{name}": gradient for name, gradient in gradients.items()})
    return {"rows": rows, "loss": loss, "gradient_norm": norm(gradients.values())}, (loss, logits, gradients)


def around_main(model, batch, exact):
    """The batch `main` in mixed precision, with smoothed and with ignored labels; `exact`: what main_batch has in it."""
    default_attention = build_like(model)
    default_attention.set_attn_implementation("sdpa")
    model64 = build_like(model).double()
    smoothed_loss, _, smoothed_gradients = loss_and_gradients(model64, batch, SMOOTHING)
    ignored = dict(batch, labels=batch["labels"].clone())
    ignored["labels"][[1, 4]] = -100
    ignored_loss, _, ignored_gradients = loss_and_gradients(model64, ignored)
    return {
        "autocast": autocast_errors(default_attention, batch, *exact),
        "label_smoothing": {
            "label_smoothing_factor": SMOOTHING,
            "loss": smoothed_loss,
            "gradient_norm": norm(smoothed_gradients.values()),
        },
        "ignored_labels": {
            "note": "batch main with labels of rows 1 and 4 set to -100",
            "loss": ignored_loss,
            "gradient_norm": norm(ignored_gradients.values()),
        },
    }


def build_like(model):
    """A copy with the same weights."""
    twin = type(model)(copy.deepcopy(model.config))
    twin.load_state_dict(model.state_dict())
    return twin.eval()


def optimizer_of(training_arguments, model):
    """The Trainer's own, but the 8-bit ones read min_8bit_size, which it does not pass on."""
    cls, options = transformers.Trainer.get_optimizer_cls_and_kwargs(training_arguments, model)
    if options.get("optim_bits") == 8:
        # It keeps what earlier runs registered by addresses, which this run's parameters may have again.
        bitsandbytes.optim.GlobalOptimManager.get_instance().initialize()
        options["min_8bit_size"] = int(training_arguments.optim_args.removeprefix("min_8bit_size="))
    return cls, options


def train_curve(model, samples, arguments, rows):
    """The Trainer over the samples in the given order; per-step logs and the final weights."""

    class Ordered(torch.utils.data.Dataset):
        def __init__(self, rows):
            self.rows = rows

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, index):
            return {key: value[self.rows[index]] for key, value in samples.items()}

    for name, parameter in model.named_parameters():
        parameter.requires_grad = not any(re.search(pattern, name) for pattern in arguments.get("freeze", []))
    with tempfile.TemporaryDirectory() as output_dir:
        training_arguments = transformers.TrainingArguments(
            output_dir,
            **{key: value for key, value in arguments.items() if key != "freeze"},
            train_sampling_strategy="sequential",
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(
            model,
            training_arguments,
            train_dataset=Ordered(rows),
            eval_dataset=Ordered(MAIN_ROWS),
            optimizer_cls_and_kwargs=optimizer_of(training_arguments, model),
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    logs = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    curve = {key: [entry[key] for entry in logs] for key in ("loss", "grad_norm", "learning_rate")}
    evaluations = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    if evaluations:
        curve["eval_loss"] = evaluations
    return curve, {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def curves(model, samples, tensors):
    """Both training curves, fp32 and float64 from the same start."""
    golden = {}
    for name, arguments in CURVES.items():
        generator = torch.Generator().manual_seed(SEED + len(name))
        count = arguments["max_steps"] * arguments["per_device_train_batch_size"]
        rows = torch.randint(0, SAMPLES, (count,), generator=generator).tolist()
        curve32, weights32 = train_curve(build_like(model), samples, arguments, rows)
        curve64, weights64 = train_curve(build_like(model).double(), samples, arguments, rows)
        if name == "adamw":
            tensors.update({f"{name}.{key}": value for key, value in weights32.items()})
        batch = arguments["per_device_train_batch_size"]
        golden[name] = {
            "arguments": arguments,
            "rows": [rows[start : start + batch] for start in range(0, count, batch)],
            "float32": curve32,
            "float64": {key: curve64[key] for key in ("loss", "grad_norm", "eval_loss") if key in curve64},
            "final_weights_sum_and_norm": {
                key: [value.sum().item(), value.norm().item()] for key, value in weights64.items()
            },
            "final_weights_float32_to_float64": largest_difference(weights32, weights64),
        }
    return golden


def problem_labels(config, count, seed):
    """Labels of the problem that transformers finds in the config: numbers for a regression, zeros and ones for many labels."""
    generator = torch.Generator().manual_seed(seed)
    problem = config.problem_type or ("regression" if config.num_labels == 1 else None)
    if problem == "regression":
        return torch.randn((count, config.num_labels), generator=generator).squeeze(-1)
    if problem == "multi_label_classification":
        return torch.randint(0, 2, (count, config.num_labels), generator=generator).float()
    return None


def write_variant(directory, name, overrides, seed):
    shape = dict(VARIANT_CONFIG, **{key: value for key, value in overrides.items() if key in VARIANT_CONFIG})
    model = build_model(dict(VARIANT_CONFIG, **overrides), seed)
    lengths = [16, 1, 9, 5, 16]
    samples = build_samples(shape, lengths, seed)
    if name == "token_zero_inside":
        samples["input_ids"][0, 3] = samples["input_ids"][2, 0] = samples["input_ids"][4, 15] = 0
    labels = problem_labels(model.config, len(lengths), seed)
    if labels is not None:
        samples["labels"] = labels.double()
    tensors = sample_tensors(samples)
    main, _ = main_batch(model, samples, list(range(len(lengths))), tensors)
    write(directory, model, tensors, {"main": main})


def sample_tensors(samples):
    tensors = {key: samples[key].int() for key in ("input_ids", "token_type_ids")}
    labels = samples["labels"]
    tensors["labels"] = labels.float() if labels.is_floating_point() else labels.int()
    return {**tensors, "lengths": samples["attention_mask"].sum(1).int()}


def write(directory, model, tensors, golden, made_by="tests/golden/bert_make.py"):
    model.save_pretrained(directory)
    saved = load_file(os.path.join(directory, "model.safetensors"))
    assert all(torch.equal(saved[name], parameter) for name, parameter in model.named_parameters())
    save_file({key: value.detach().contiguous() for key, value in tensors.items()}, f"{directory}/golden.safetensors")
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    golden = {"made_by": made_by, "versions": versions, **golden}
    with open(f"{directory}/golden.json", "w", encoding="utf-8") as file:
        # One line a key of the two outer levels keeps the file small and its changes readable.
        parts = []
        for key, value in golden.items():
            if isinstance(value, dict):
                inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
                parts.append(f"{json.dumps(key)}: {{\n{inner}\n }}")
            else:
                parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
        file.write("{\n " + ",\n ".join(parts) + "\n}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--output_dir", default=os.path.join(here, "bert_small"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.Tensor.cuda = lambda tensor: tensor  # AdaLOMO makes its states on a GPU

    model = build_model(CONFIG, SEED)
    generator = torch.Generator().manual_seed(SEED)
    lengths = MAIN_LENGTHS + torch.randint(1, 65, (SAMPLES - len(MAIN_LENGTHS),), generator=generator).tolist()
    samples = build_samples(CONFIG, lengths, SEED)
    tensors = sample_tensors(samples)
    batch = take(samples, MAIN_ROWS)
    main, exact = main_batch(model, batch, MAIN_ROWS, tensors)
    golden = {"main": main, **around_main(model, batch, exact)}
    golden.update(curves(model, samples, tensors))

    shutil.rmtree(args.output_dir, ignore_errors=True)
    write(args.output_dir, model, tensors, golden)
    for index, (name, overrides) in enumerate(VARIANTS.items()):
        write_variant(f"{args.output_dir}/variants/{name}", name, overrides, SEED + 1 + index)


if __name__ == "__main__":
    main()
