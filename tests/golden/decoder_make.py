#!/usr/bin/env python3
"""Writes decoders/NAME/: small decoders of every architecture and rope, and what Transformers computes with them.

  python decoder_make.py [--output_dir decoders] [--only NAME…]

Files are those of distilbert_small/: config.json and model.safetensors as save_pretrained writes them, golden.json and
golden.safetensors with the batch `main`: loss, logits and every gradient in float64 (norms and angles are float32 inside
Transformers), and for some what torch.autocast loses, the largest of AUTOCAST_DRAWS draws. `labels` of a language model
are one a token, already those of the token behind it; `logits` are those of the real tokens, end to end.
"""

import argparse
import os
import shutil

import torch
import transformers

import bert_make

SEED = 20261123
POSITIONS = 32
VOCABULARY = 37
PAD = 3  # a token inside the texts, too
LENGTHS = [9, 32, 1, 20]
# Heads of 8 where 24 / 6 is 4, three queries a key.
LLAMA = dict(
    vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6,
    num_key_value_heads=2, head_dim=8, max_position_embeddings=POSITIONS, initializer_range=0.2, pad_token_id=PAD,
    bos_token_id=1, eos_token_id=2,
)  # fmt: skip
GPT2 = dict(
    vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=24, n_layer=2, n_head=3, initializer_range=0.2, resid_pdrop=0.0,
    embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip


def rope(kind, **more):
    return dict(LLAMA, rope_parameters=dict(rope_type=kind, rope_theta=100.0, **more))


# name: (class, its config's keys, whether bf16 and fp16 are compared too)
LANGUAGE_MODELS = {
    "gpt2": ("GPT2LMHeadModel", GPT2, True),
    "gpt2_untied": (
        "GPT2LMHeadModel",
        dict(GPT2, tie_word_embeddings=False, n_inner=30, activation_function="relu", scale_attn_by_inverse_layer_idx=True),
        False,
    ),
    "gpt2_unscaled": ("GPT2LMHeadModel", dict(GPT2, scale_attn_weights=False), False),
    "llama": ("LlamaForCausalLM", LLAMA, True),
    "llama_tied_biases": ("LlamaForCausalLM", dict(LLAMA, tie_word_embeddings=True, attention_bias=True, mlp_bias=True), False),
    "llama_linear": ("LlamaForCausalLM", rope("linear", factor=4.0), False),
    "llama_dynamic": ("LlamaForCausalLM", rope("dynamic", factor=2.0), False),
    "llama_llama3": (
        "LlamaForCausalLM",
        rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16),
        False,
    ),
    "llama_yarn": ("LlamaForCausalLM", rope("yarn", factor=4.0, original_max_position_embeddings=8), False),
    "llama_yarn_mscale": (
        "LlamaForCausalLM",
        rope("yarn", factor=4.0, original_max_position_embeddings=8, mscale=0.8, mscale_all_dim=0.5, beta_fast=4.0),
        False,
    ),
    "llama_longrope": (
        "LlamaForCausalLM",
        rope(
            "longrope", factor=2.0, original_max_position_embeddings=POSITIONS, short_factor=[1.0, 1.2, 1.5, 2.0],
            long_factor=[1.0, 2.0, 4.0, 8.0],
        ),
        False,
    ),  # fmt: skip
    # The batch's longest text is longer than what the short factors, or the unscaled base, are for.
    "llama_longrope_long": (
        "LlamaForCausalLM",
        rope(
            "longrope", original_max_position_embeddings=POSITIONS // 2, short_factor=[1.0, 1.2, 1.5, 2.0],
            long_factor=[1.0, 2.0, 4.0, 8.0],
        ),
        False,
    ),  # fmt: skip
    "llama_dynamic_long": ("LlamaForCausalLM", dict(rope("dynamic", factor=2.0), max_position_embeddings=20), False),
    "mistral": ("MistralForCausalLM", dict(LLAMA, sliding_window=5), True),
    "mistral_tied_no_window": ("MistralForCausalLM", dict(LLAMA, sliding_window=None, tie_word_embeddings=True), False),
    "qwen2": ("Qwen2ForCausalLM", {k: v for k, v in LLAMA.items() if k != "head_dim"}, True),
    "qwen2_window": (
        "Qwen2ForCausalLM",
        dict({k: v for k, v in LLAMA.items() if k != "head_dim"}, use_sliding_window=True, sliding_window=4, max_window_layers=1),
        False,
    ),
    "qwen3": ("Qwen3ForCausalLM", LLAMA, True),
    # A window in the layer that would have none by max_window_layers.
    "qwen3_window": (
        "Qwen3ForCausalLM",
        dict(LLAMA, use_sliding_window=True, sliding_window=4, layer_types=["sliding_attention", "full_attention"]),
        False,
    ),
    "qwen3_tied_biases": ("Qwen3ForCausalLM", dict(LLAMA, attention_bias=True, tie_word_embeddings=True), False),
}
# name: (the model above, label smoothing as transformers' LabelSmoother has it, z-loss); some targets inside the texts are
# ignored.
LOSSES = {
    "gpt2_label_smoothing": ("gpt2", 0.1, 0.0),
    "llama_z_loss": ("llama", 0.0, 0.01),
    "qwen3_label_smoothing_z_loss": ("qwen3", 0.2, 0.005),
}
END_IN_PADDING = ("gpt2_classifier_padded", "llama_classifier", "mistral_classifier", "qwen2_classifier", "qwen3_classifier")
CLASSIFIERS = {
    "gpt2_classifier": ("GPT2ForSequenceClassification", dict(GPT2, num_labels=3, pad_token_id=PAD), True),
    "gpt2_classifier_padded": ("GPT2ForSequenceClassification", dict(GPT2, num_labels=3, pad_token_id=PAD), False),
    "llama_classifier": ("LlamaForSequenceClassification", dict(LLAMA, num_labels=3), False),
    "mistral_classifier": ("MistralForSequenceClassification", dict(LLAMA, sliding_window=5, num_labels=3), False),
    "qwen2_classifier": (
        "Qwen2ForSequenceClassification",
        dict({k: v for k, v in LLAMA.items() if k != "head_dim"}, num_labels=3),
        False,
    ),
    "qwen3_classifier": ("Qwen3ForSequenceClassification", dict(LLAMA, num_labels=3), False),
}


def build_model(class_name, keys):
    """Random weights, wide enough that logits and gradients are far from zero; biases and norms are not trivial."""
    torch.manual_seed(SEED)
    model_class = getattr(transformers, class_name)
    config = model_class.config_class(**keys)
    config._attn_implementation = "eager"
    model = model_class(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.1)
            elif "norm" in name or ".ln_" in name:
                parameter.normal_(1.0, 0.1)
            elif "wte" in name or "embed_tokens" in name:
                parameter.normal_(0.0, 0.2)  # the padding's row, too
    return model.eval()


def build_samples(classes, end_in_padding):
    """Texts with the padding's id inside; some also end in it, one by two tokens and one, of a single token, as a whole."""
    generator = torch.Generator().manual_seed(SEED)
    input_ids = torch.randint(4, VOCABULARY, (len(LENGTHS), max(LENGTHS)), generator=generator)
    attended = torch.arange(max(LENGTHS))[None, :] < torch.tensor(LENGTHS)[:, None]
    input_ids[0, 4] = input_ids[1, 0] = input_ids[1, 17] = PAD
    input_ids = torch.where(attended, input_ids, PAD)
    # Without an attention mask: no token sees the padding behind it, and padding that sees nothing but padding in its window
    # would be no number.
    samples = {"input_ids": input_ids}
    if end_in_padding:
        input_ids[1, 30:] = input_ids[2, 0] = PAD
    if classes:
        samples["labels"] = torch.randint(0, classes, (len(LENGTHS),), generator=generator)
    else:
        samples["labels"] = torch.where(attended, input_ids, -100)
    return samples


def smoothed_loss(label_smoothing, z_loss):
    """The Trainer's loss of a language model with label smoothing, and z_loss times the mean squared log-sum-exp.

    Both means are over the targets: the labels behind a text's first token that are not -100.
    """

    def loss_of(logits, labels):
        smoother = transformers.trainer_pt_utils.LabelSmoother(epsilon=label_smoothing)
        loss = smoother({"logits": logits}, labels.clone(), shift_labels=True)
        log_sum_exp = logits[:, :-1].logsumexp(-1)[labels[:, 1:] != -100]
        return loss + z_loss * log_sum_exp.square().mean()

    return loss_of


def loss_and_gradients(model, batch, loss_of=None):
    model.zero_grad()
    outputs = model(**batch)
    loss = loss_of(outputs.logits, batch["labels"]) if loss_of else outputs.loss
    loss.backward()
    gradients = {name: parameter.grad.detach().clone() for name, parameter in model.named_parameters()}
    return loss.item(), outputs.logits, gradients


def write(directory, class_name, keys, with_autocast, label_smoothing=0.0, z_loss=0.0):
    model = build_model(class_name, keys)
    classes = keys.get("num_labels", 0)
    batch = build_samples(classes, os.path.basename(directory) in END_IN_PADDING)
    has_own_loss = label_smoothing or z_loss
    if has_own_loss:
        batch["labels"][0, 5] = batch["labels"][1, 7:11] = -100
    loss_of = smoothed_loss(label_smoothing, z_loss) if has_own_loss else None
    loss, logits, gradients = loss_and_gradients(bert_make.build_like(model).double(), batch, loss_of)
    attended = torch.arange(max(LENGTHS))[None, :] < torch.tensor(LENGTHS)[:, None]
    assert all(torch.isfinite(gradient).all() for gradient in gradients.values())
    tensors = {
        "input_ids": batch["input_ids"].int(),
        "token_type_ids": torch.zeros_like(batch["input_ids"]).int(),
        "lengths": attended.sum(1).int(),
        "logits": logits if classes else logits[attended],
        **{f"gradient64.{name}": gradient for name, gradient in gradients.items()},
    }
    if classes:
        tensors["labels"] = batch["labels"].int()
        targets = len(LENGTHS)
    else:
        next_ids = torch.roll(batch["labels"], -1, 1)
        next_ids[:, -1] = -100
        tensors["labels"] = next_ids.int()
        targets = int((next_ids != -100).sum())
    golden = {
        "main": {
            "rows": list(range(len(LENGTHS))),
            "targets": targets,
            "loss": loss,
            "gradient_norm": bert_make.norm(gradients.values()),
        }
    }
    if has_own_loss:
        golden["main"].update(label_smoothing=label_smoothing, z_loss=z_loss)
    if with_autocast:
        like = bert_make.build_like(model)
        like.set_attn_implementation("sdpa")
        golden["autocast"] = autocast_errors(like, batch, loss, logits, gradients, attended if not classes else ...)
    bert_make.write(directory, model, tensors, golden, "tests/golden/decoder_make.py")


def autocast_errors(model, batch, loss64, logits64, gradients64, rows):
    """bert_make's, of the real tokens' logits: the largest of several draws of the roundings.

    The first draw is of the weights as they are; for each other one they are moved by at most a bf16 rounding, and
    compared with float64 at the same place.
    """
    errors = autocast_errors_of_draw(model, batch, loss64, logits64, gradients64, rows)
    generator = torch.Generator().manual_seed(SEED)
    for _ in range(bert_make.AUTOCAST_DRAWS - 1):
        moved = bert_make.build_like(model)
        moved.set_attn_implementation("sdpa")
        bert_make.move_within_bf16(moved, generator)
        truth = loss_and_gradients(bert_make.build_like(moved).double(), batch)
        errors = bert_make.largest(errors, autocast_errors_of_draw(moved, batch, *truth, rows))
    return errors


def autocast_errors_of_draw(model, batch, loss64, logits64, gradients64, rows):
    errors = {}
    for precision, dtype, scale in (("bf16", torch.bfloat16, 1.0), ("fp16", torch.float16, bert_make.LOSS_SCALE)):
        model.zero_grad()
        with torch.autocast("cpu", dtype):
            outputs = model(**batch)
        (outputs.loss * scale).backward()
        gradients = {name: parameter.grad / scale for name, parameter in model.named_parameters()}
        errors[precision] = {
            "loss": abs(outputs.loss.item() - loss64),
            "logits": (outputs.logits[rows].double() - logits64[rows]).abs().max().item(),
            "gradients": bert_make.largest_difference(gradients, gradients64),
        }
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--output_dir", default=os.path.join(here, "decoders"))
    parser.add_argument("--only", nargs="*", help="of the models; others stay as they are")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name, (class_name, keys, with_autocast) in {**LANGUAGE_MODELS, **CLASSIFIERS}.items():
        if args.only is None or name in args.only:
            shutil.rmtree(os.path.join(args.output_dir, name), ignore_errors=True)
            write(os.path.join(args.output_dir, name), class_name, keys, with_autocast)
    for name, (like, label_smoothing, z_loss) in LOSSES.items():
        if args.only is None or name in args.only:
            shutil.rmtree(os.path.join(args.output_dir, name), ignore_errors=True)
            class_name, keys, _ = LANGUAGE_MODELS[like]
            write(os.path.join(args.output_dir, name), class_name, keys, False, label_smoothing, z_loss)


if __name__ == "__main__":
    main()
