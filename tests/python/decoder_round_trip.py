#!/usr/bin/env python3
"""Decoders made by Transformers are trained by Shoehorn, and Transformers reads the result: the same loss of each?

  decoder_round_trip.py SHOEHORN_PROGRAM

Makes a small model of each architecture with a byte-level tokenizer, evaluates it with both programs, trains it for some
steps with both (the Trainer's AdamW, no dropout, the same blocks in the same order) and compares the losses; then Transformers
evaluates what Shoehorn saved, its config's keys are looked for, and each is trained as a classifier. Files of bfloat16 and float16
are read, and bfloat16 is written where the run asks for it. The tolerances are those of float32
sums of a few hundred terms, and grow with the steps that feed on them.
Exit: 0 the same, 1 different or a program failed, 77 no Transformers here (CTest's SKIP_RETURN_CODE).
"""

import json
import os
import pathlib
import sys
import tempfile

from round_trip import SKIPPED, WORDS, label_of, python_with_transformers, run

BLOCK = 24
BATCH = 4
STEPS = 6
END = "<|endoftext|>"
DECODER = dict(
    hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
    max_position_embeddings=64, initializer_range=0.1,
)  # fmt: skip
MODELS = {
    "gpt2": ("GPT2LMHeadModel", dict(
        n_positions=64, n_embd=48, n_layer=3, n_head=4, initializer_range=0.1, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
    "llama": ("LlamaForCausalLM", dict(DECODER, head_dim=12)),
    "mistral": ("MistralForCausalLM", dict(DECODER, sliding_window=7)),
    "qwen2": ("Qwen2ForCausalLM", dict(DECODER, tie_word_embeddings=True)),
    "qwen3": ("Qwen3ForCausalLM", dict(DECODER, head_dim=16)),
}  # fmt: skip


def write_texts(path, count, first):
    lines = []
    for index in range(first, first + count):
        words = [WORDS[(index * 7 + step * step) % len(WORDS)] for step in range(3 + index % 17)]
        lines.append(" ".join(words) + ("?" if index % 3 == 0 else "."))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def make_tokenizer(directory, texts):
    import tokenizers
    import transformers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.train(
        [str(texts)],
        tokenizers.trainers.BpeTrainer(
            vocab_size=300, special_tokens=[END], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
        ),
    )
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, bos_token=END, model_max_length=64)
    fast.save_pretrained(directory)
    return fast


def make_model(directory, name, tokenizer):
    import torch
    import transformers

    class_name, keys = MODELS[name]
    torch.manual_seed(11)
    model_class = getattr(transformers, class_name)
    config = model_class.config_class(**keys, vocab_size=len(tokenizer), bos_token_id=0, eos_token_id=0, pad_token_id=None)
    config.a_key_of_tomorrow = {"kept": [1, 2]}
    model_class(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def blocks_of(tokenizer, path):
    """As run_clm groups them; the last block is shorter and kept, as Shoehorn's."""
    ids = [token for line in path.read_text(encoding="utf-8").splitlines() for token in tokenizer(line + "\n")["input_ids"]]
    return [ids[start : start + BLOCK] for start in range(0, len(ids), BLOCK)]


def loss_of(directory, blocks):
    """The Trainer's eval_loss: the mean of the batches' losses, weighted by their rows."""
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    total = 0.0
    with torch.no_grad():
        for start in range(0, len(blocks), BATCH):
            batch = blocks[start : start + BATCH]
            longest = max(map(len, batch))
            padded = torch.tensor([block + [0] * (longest - len(block)) for block in batch])
            mask = torch.tensor([[1] * len(block) + [0] * (longest - len(block)) for block in batch])
            loss = model(input_ids=padded, attention_mask=mask, labels=padded.masked_fill(mask == 0, -100)).loss
            total += loss.item() * len(batch)
    return total / len(blocks)


def train_with_trainer(model, tokenizer, blocks, output):
    import torch
    import transformers

    transformers.set_seed(42)
    arguments = transformers.TrainingArguments(
        output_dir=str(output), per_device_train_batch_size=BATCH, max_steps=STEPS, learning_rate=1e-3, logging_steps=1,
        save_strategy="no", report_to="none", use_cpu=True, disable_tqdm=True, train_sampling_strategy="sequential",
    )  # fmt: skip
    full = [block for block in blocks if len(block) == BLOCK]
    rows = [{"input_ids": block, "labels": block} for block in full]
    trainer = transformers.Trainer(
        transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), arguments, train_dataset=rows
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def close(name, what, ours, theirs, tolerance):
    if abs(ours - theirs) <= tolerance * abs(theirs):
        return True
    print(f"{name}: {what} expected {theirs}, got {ours}, more than {tolerance} apart")
    return False


def trip(shoehorn, directory, name, tokenizer):
    model = directory / name
    make_model(model, name, tokenizer)
    train_texts, texts = directory / "train.txt", directory / "validation.txt"
    common = ["--block_size", BLOCK, "--per_device_eval_batch_size", BATCH]
    good = True
    for stage, source in (("new", model), ("trained", directory / f"{name}-trained")):
        if stage == "trained":
            trained = run(
                shoehorn, "train", "--model_name_or_path", model, "--train_file", train_texts, "--validation_file", texts,
                *common, "--block_remainder", "drop", "--per_device_train_batch_size", BATCH, "--max_steps", STEPS, "--learning_rate", "1e-3",
                "--logging_steps", 1, "--train_sampling_strategy", "sequential", "--save_strategy", "no", "--output_dir", source,
            )  # fmt: skip
            if trained.returncode != 0:
                return False
            log = json.loads((source / "trainer_state.json").read_text())["log_history"]
            ours = [entry["loss"] for entry in log if "loss" in entry]
            theirs = train_with_trainer(model, tokenizer, blocks_of(tokenizer, train_texts), directory / "scratch")
            good &= len(ours) == len(theirs)
            for step, (a, b) in enumerate(zip(ours, theirs)):
                # The Trainer divides GPT-2's loss by the labels, of which the first of a block is no target.
                b *= BLOCK / (BLOCK - 1) if name == "gpt2" else 1
                good &= close(name, f"loss of step {step + 1}", a, b, 2e-5 * (step + 1))
        evaluated = run(shoehorn, "eval", "--model_name_or_path", source, "--validation_file", texts, *common, "--json",
                        "--output_dir", directory / f"{name}-{stage}-eval")  # fmt: skip
        if evaluated.returncode != 0:
            return False
        metrics = json.loads(evaluated.stdout[evaluated.stdout.index("{") :])
        good &= close(name, f"eval_loss, {stage}", metrics["eval_loss"], loss_of(source, blocks_of(tokenizer, texts)), 1e-5)
    config = json.loads((directory / f"{name}-trained" / "config.json").read_text())
    if config.get("a_key_of_tomorrow") != {"kept": [1, 2]}:
        print(f"{name}: a key of config.json is lost")
        good = False
    print(f"{name}: {'the same' if good else 'DIFFERENT'}")
    return good


def classifies(shoehorn, directory, name):
    """A language model's directory becomes a classifier that Transformers reads."""
    import torch
    import transformers

    rows = directory / "classes.jsonl"
    lines = (directory / "train.txt").read_text(encoding="utf-8").splitlines()
    with open(rows, "w", encoding="utf-8") as file:
        for index, line in enumerate(lines):
            file.write(json.dumps({"text": line, "label": label_of(index, "classes")}) + "\n")
    output = directory / f"{name}-classifier"
    trained = run(
        shoehorn, "train", "--task", "text-classification", "--model_name_or_path", directory / name, "--train_file", rows, "--max_seq_length", 32,
        "--max_steps", 3, "--save_strategy", "no", "--output_dir", output,
    )  # fmt: skip
    predictions = directory / "predictions.jsonl"
    predicted = run(shoehorn, "predict", "--model_name_or_path", output, "--test_file", rows, "--max_seq_length", 32, "--logits",
                    "--output_file", predictions)  # fmt: skip
    if trained.returncode != 0 or predicted.returncode != 0:
        return False
    model = transformers.AutoModelForSequenceClassification.from_pretrained(output).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(output)
    good = True
    with torch.no_grad():
        for line, prediction in list(zip(lines, predictions.read_text().splitlines()))[:8]:
            theirs = model(torch.tensor([tokenizer(line)["input_ids"][:32]])).logits[0]
            ours = torch.tensor(list(json.loads(prediction)["logits"].values()))
            good &= bool((theirs - ours).abs().max() < 1e-4)
    print(f"{name}, a classifier: {'the same' if good else 'DIFFERENT'}")
    return good


def keeps_types(shoehorn, directory, name):
    """Files of 16 bits are read; what is saved has float32, or with --dtype bfloat16 what Transformers loads as that."""
    import torch
    import transformers

    blocks = blocks_of(transformers.AutoTokenizer.from_pretrained(directory / name), directory / "validation.txt")
    texts = ["--block_size", BLOCK, "--per_device_eval_batch_size", BATCH]
    good = True

    def same_loss(what, model):
        evaluated = run(shoehorn, "eval", "--model_name_or_path", model, "--validation_file", directory / "validation.txt", *texts, "--json",
                        "--output_dir", directory / "typed-eval")  # fmt: skip
        if evaluated.returncode != 0:
            return False
        metrics = json.loads(evaluated.stdout[evaluated.stdout.index("{") :])
        return close(name, what, metrics["eval_loss"], loss_of(model, blocks), 1e-5)

    for stored in (torch.bfloat16, torch.float16):
        source = directory / f"{name}-{stored}"
        transformers.AutoModelForCausalLM.from_pretrained(directory / name, dtype=stored).save_pretrained(source)
        for companion in ("tokenizer.json", "tokenizer_config.json"):
            (source / companion).write_bytes((directory / name / companion).read_bytes())
        good &= same_loss(f"eval_loss of a file of {stored}", source)
        for flags, kept in ((["--dtype", "bfloat16"], torch.bfloat16), ([], torch.float32)):
            output = directory / f"{name}-{stored}-as-{kept}"
            trained = run(
                shoehorn, "train", "--model_name_or_path", source, "--train_file", directory / "train.txt", *texts, "--max_steps", 2,
                "--per_device_train_batch_size", BATCH, "--save_strategy", "no", "--output_dir", output, *flags,
            )  # fmt: skip
            if trained.returncode != 0:
                return False
            loaded = transformers.AutoModelForCausalLM.from_pretrained(output)
            if loaded.dtype != kept:
                print(f"{name}: expected a model of {kept}, got {loaded.dtype}")
                good = False
            good &= same_loss(f"eval_loss of {stored} saved as {kept}", output)
    print(f"{name}, 16 bits: {'the same' if good else 'DIFFERENT'}")
    return good


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    python = python_with_transformers()
    if python is None:
        print("skipped: no Python with transformers; bench/peers/setup.sh makes one")
        return SKIPPED
    if python != sys.executable:
        os.execv(python, [python, *sys.argv])
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        write_texts(directory / "train.txt", 60, 0)
        write_texts(directory / "validation.txt", 20, 100)
        tokenizer = make_tokenizer(directory / "tokenizer", directory / "train.txt")
        good = [trip(sys.argv[1], directory, each, tokenizer) for each in MODELS]
        good += [keeps_types(sys.argv[1], directory, name) for name in ("gpt2", "llama")]
        good += [classifies(sys.argv[1], directory, name) for name in MODELS]
        return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
