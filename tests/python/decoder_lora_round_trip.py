#!/usr/bin/env python3
"""Adapters of decoders between Shoehorn and PEFT: the same losses and logits, whoever trained them and whoever runs them?

  decoder_lora_round_trip.py SHOEHORN_PROGRAM

For GPT-2, whose layers are stored transposed, and Llama, Mistral, Qwen2 and Qwen3, whose layers have names of their own:

  1. Shoehorn trains an adapter of a language model; PEFT and Transformers load it, and have its eval_loss.
  2. PEFT makes an adapter on other layers; Shoehorn has its loss.
  3. Shoehorn merges what it trained; Transformers loads the whole model.
  4. The same of a classifier by the last token (GPT-2 and Llama), compared by logits.
  5. The same of a table that is the head, too, and is trained whole (GPT-2 and Qwen2). Where PEFT trains the two apart, Shoehorn refuses
     the adapter by the name of the key.

Exit: 0 the same, 1 different or a program failed, 77 no PEFT here (CTest's SKIP_RETURN_CODE).
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import decoder_round_trip as decoders
from round_trip import SKIPPED, label_of, python_with_transformers, run

TOLERANCE = 1e-5  # relative, of losses: means of a few hundred sums in float32
LOGITS = 1e-4
LEAST_CHANGE = 1e-3  # relative: by less the adapter says nothing
# Shoehorn's flag, and layers that PEFT adapts.
TARGETS = {
    "gpt2": ("c_attn,c_fc", ["c_attn", "c_proj", "c_fc"]),
    "llama": ("q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", ["q_proj", "o_proj", "gate_proj", "down_proj"]),
    "mistral": ("all-linear", ["k_proj", "v_proj", "up_proj"]),
    "qwen2": ("q_proj,v_proj,up_proj", "all-linear"),
    "qwen3": ("all-linear", ["q_proj", "k_proj", "down_proj"]),
}
CLASSIFIERS = ("gpt2", "llama")
# Shoehorn's name of a table that is the head, too, and PEFT's, which does not know GPT-2's for that.
TIED = {"gpt2": ("wte", "lm_head"), "qwen2": ("embed_tokens", "embed_tokens")}


def loss_of(model, blocks):
    """decoder_round_trip's, of a model that is loaded: the mean of the batches' losses, weighted by their rows."""
    import torch

    model.eval()
    total = 0.0
    with torch.no_grad():
        for start in range(0, len(blocks), decoders.BATCH):
            batch = blocks[start : start + decoders.BATCH]
            longest = max(map(len, batch))
            padded = torch.tensor([block + [0] * (longest - len(block)) for block in batch])
            mask = torch.tensor([[1] * len(block) + [0] * (longest - len(block)) for block in batch])
            total += model(input_ids=padded, attention_mask=mask, labels=padded.masked_fill(mask == 0, -100)).loss.item() * len(batch)
    return total / len(blocks)


def language_model(directory):
    import torch
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)


def classifier(directory):
    import torch
    import transformers

    # With weights of its head: those that Shoehorn gave it.
    return transformers.AutoModelForSequenceClassification.from_pretrained(directory, dtype=torch.float32)


def eval_loss(shoehorn, model, directory):
    finished = run(
        shoehorn, "eval", "--model_name_or_path", model, "--validation_file", directory / "validation.txt", "--block_size", decoders.BLOCK,
        "--per_device_eval_batch_size", decoders.BATCH, "--json", "--output_dir", directory / "evaluated",
    )  # fmt: skip
    if finished.returncode != 0:
        return None
    return json.loads(finished.stdout[finished.stdout.index("{") :])["eval_loss"]


def train(shoehorn, directory, model, output, flags):
    finished = run(
        shoehorn, "train", "--model_name_or_path", model, "--per_device_train_batch_size", decoders.BATCH, "--max_steps", 5,
        "--learning_rate", "2e-2", "--save_strategy", "no", "--output_dir", output, *flags,
    )  # fmt: skip
    return finished.returncode == 0


def agree(what, ours, theirs, tolerance=TOLERANCE):
    well = ours is not None and abs(ours - theirs) <= tolerance * max(1.0, abs(theirs))
    print(f"{what}: {'agree' if well else 'DIFFER'}, {ours} and {theirs}")
    return well


def moves(what, adapted, base):
    well = abs(adapted - base) > LEAST_CHANGE * abs(base)
    if not well:
        print(f"{what}: expected an adapter that changes the loss {base}, got {adapted}")
    return well


def randomized(model, task_type, targets, **settings):
    """PEFT's adapter of random numbers on these layers."""
    import peft
    import torch

    config = peft.LoraConfig(task_type=task_type, r=3, lora_alpha=5, lora_dropout=0.1, target_modules=targets, **settings)
    adapted = peft.get_peft_model(model, config)
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * 0.2)
    return adapted


def language_trip(shoehorn, directory, name, tokenizer):
    import peft

    base = directory / name
    decoders.make_model(base, name, tokenizer)
    blocks = decoders.blocks_of(tokenizer, directory / "validation.txt")
    base_loss = loss_of(language_model(base), blocks)
    ours_flag, theirs_targets = TARGETS[name]
    texts = ["--train_file", directory / "train.txt", "--block_size", decoders.BLOCK]
    lora = [*texts, "--lora_rank", 4, "--lora_alpha", 6, "--lora_target", ours_flag]
    adapter, merged = directory / f"{name}-adapter", directory / f"{name}-merged"
    if not train(shoehorn, directory, base, adapter, lora) or not train(shoehorn, directory, base, merged, [*lora, "--lora_merge"]):
        return False
    ours = eval_loss(shoehorn, adapter, directory)
    theirs = loss_of(peft.PeftModel.from_pretrained(language_model(base), adapter), blocks)
    well = agree(f"{name}: PEFT with Shoehorn's adapter", ours, theirs) and moves(name, theirs, base_loss)
    well &= agree(f"{name}: Transformers with Shoehorn's adapter", ours, loss_of(language_model(adapter), blocks))
    well &= agree(f"{name}: Transformers with what Shoehorn merged", ours, loss_of(language_model(merged), blocks))
    well &= agree(f"{name}: Shoehorn with what it merged", eval_loss(shoehorn, merged, directory), ours)

    made = randomized(language_model(base), "CAUSAL_LM", theirs_targets)
    made.save_pretrained(directory / f"{name}-peft")
    theirs = loss_of(made, blocks)
    well &= moves(f"{name}, PEFT's", theirs, base_loss)
    well &= agree(f"{name}: Shoehorn with PEFT's adapter", eval_loss(shoehorn, directory / f"{name}-peft", directory), theirs)
    return well


def tied_trip(shoehorn, directory, name, tokenizer):
    import peft

    base = directory / name
    blocks = decoders.blocks_of(tokenizer, directory / "validation.txt")
    base_loss = loss_of(language_model(base), blocks)
    our_module, their_module = TIED[name]
    flags = [
        "--train_file", directory / "train.txt", "--block_size", decoders.BLOCK, "--lora_rank", 4, "--lora_modules_to_save", our_module
    ]  # fmt: skip
    adapter, merged = directory / f"{name}-tied", directory / f"{name}-tied-merged"
    if not train(shoehorn, directory, base, adapter, flags) or not train(shoehorn, directory, base, merged, [*flags, "--lora_merge"]):
        return False
    ours = eval_loss(shoehorn, adapter, directory)
    loaded = peft.PeftModel.from_pretrained(language_model(base), adapter)
    theirs = loss_of(loaded, blocks)
    well = agree(f"{name}, a tied table: PEFT with Shoehorn's adapter", ours, theirs) and moves(name, theirs, base_loss)
    well &= agree(f"{name}, a tied table: what PEFT merges of it", ours, loss_of(loaded.merge_and_unload(), blocks))
    well &= agree(f"{name}, a tied table: Transformers with Shoehorn's adapter", ours, loss_of(language_model(adapter), blocks))
    well &= agree(f"{name}, a tied table: Transformers with what Shoehorn merged", ours, loss_of(language_model(merged), blocks))

    for is_tied in (True, False):
        made = randomized(
            language_model(base), "CAUSAL_LM", TARGETS[name][1], modules_to_save=[their_module], ensure_weight_tying=is_tied
        )
        theirs_directory = directory / f"{name}-tied-peft-{is_tied}"
        made.save_pretrained(theirs_directory)
        if is_tied:
            theirs = loss_of(made, blocks)
            well &= moves(f"{name}, a tied table of PEFT's", theirs, base_loss)
            well &= agree(f"{name}, a tied table: Shoehorn with PEFT's adapter", eval_loss(shoehorn, theirs_directory, directory), theirs)
        else:
            well &= refuses(f"{name}, a table apart from the head", shoehorn, theirs_directory, "adapter_config.json: ensure_weight_tying]")
    return well


def refuses(what, shoehorn, model, why):
    """With these words, and nothing else."""
    finished = subprocess.run(
        [shoehorn, "generate", "--model_name_or_path", model, "--prompt", "the"], capture_output=True, text=True, check=False
    )
    well = finished.returncode == 2 and why in finished.stderr
    print(f"{what}: {'refused' if well else 'NOT REFUSED'}, {finished.stderr.strip()}")
    return well


def logits_of(model, tokenizer, lines):
    import torch

    model.eval()
    with torch.no_grad():
        return [model(input_ids=torch.tensor([tokenizer(line)["input_ids"][:32]])).logits[0].tolist() for line in lines]


def predict(shoehorn, directory, model):
    predictions = directory / "predictions.jsonl"
    finished = run(
        shoehorn, "predict", "--model_name_or_path", model, "--test_file", directory / "classes.jsonl", "--max_seq_length", 32,
        "--logits", "--output_file", predictions,
    )  # fmt: skip
    if finished.returncode != 0:
        return None
    return [list(json.loads(line)["logits"].values()) for line in predictions.read_text(encoding="utf-8").splitlines()]


def same_logits(what, ours, theirs):
    if ours is None or len(ours) < len(theirs):
        print(f"{what}: no logits to compare")
        return False
    largest = max(abs(a - b) / max(1.0, abs(b)) for row, other in zip(ours, theirs) for a, b in zip(row, other, strict=True))
    well = largest <= LOGITS  # false for a NaN
    print(f"{what}: {'agree' if well else 'DIFFER'}, largest difference {largest:.2e}")
    return well


def classifier_trip(shoehorn, directory, name, tokenizer):
    """The classifier's head is new and trained whole (modules_to_save); then PEFT adapts what Shoehorn trained in full."""
    import peft

    lines = (directory / "train.txt").read_text(encoding="utf-8").splitlines()
    some = lines[:8]
    texts = ["--task", "text-classification", "--train_file", directory / "classes.jsonl", "--max_seq_length", 32]
    full, adapter = directory / f"{name}-classifier", directory / f"{name}-classifier-adapter"
    if not train(shoehorn, directory, directory / name, full, texts):
        return False
    targets = ["--lora_rank", 4, "--lora_target", TARGETS[name][0]]
    if not train(shoehorn, directory, full, adapter, [*texts, *targets]):
        return False
    theirs = logits_of(peft.PeftModel.from_pretrained(classifier(full), adapter), tokenizer, some)
    well = same_logits(f"{name}: PEFT with Shoehorn's adapter of a classifier", predict(shoehorn, directory, adapter), theirs)
    made = randomized(classifier(full), "SEQ_CLS", TARGETS[name][1])
    made.save_pretrained(directory / f"{name}-classifier-peft")
    ours = predict(shoehorn, directory, directory / f"{name}-classifier-peft")
    return same_logits(f"{name}: Shoehorn with PEFT's adapter of a classifier", ours, logits_of(made, tokenizer, some)) and well


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    python = python_with_transformers()
    if python is not None and python != sys.executable:
        os.execv(python, [python, *sys.argv])
    if python is None or importlib.util.find_spec("peft") is None:
        print("skipped: no Python with transformers and peft; bench/peers/setup.sh makes one")
        return SKIPPED
    os.environ["HF_HUB_OFFLINE"] = "1"
    shoehorn = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        decoders.write_texts(directory / "train.txt", 60, 0)
        decoders.write_texts(directory / "validation.txt", 20, 100)
        with open(directory / "classes.jsonl", "w", encoding="utf-8") as file:
            for index, line in enumerate((directory / "train.txt").read_text(encoding="utf-8").splitlines()):
                file.write(json.dumps({"text": line, "label": label_of(index, "classes")}) + "\n")
        tokenizer = decoders.make_tokenizer(directory / "tokenizer", directory / "train.txt")
        well = [language_trip(shoehorn, directory, name, tokenizer) for name in TARGETS]
        well += [classifier_trip(shoehorn, directory, name, tokenizer) for name in CLASSIFIERS]
        well += [tied_trip(shoehorn, directory, name, tokenizer) for name in TIED]
        return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
