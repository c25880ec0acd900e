#!/usr/bin/env python3
"""Writes the goldens of src/data: data_torch_random.json, data_sampler.json, data_steps.json, data_text.json.

Needs torch, transformers and accelerate; CPU only, on a machine with AVX2 or AVX-512. Made with torch 2.15,
transformers 5.23, accelerate 1.15:

    CUDA_VISIBLE_DEVICES= python3 tests/golden/data_make.py

--large also prints torch.randperm around the size where its algorithm changes (2 GB, some minutes).
"""

import csv
import io
import json
import pathlib
import random
import sys
import tempfile
import types

import numpy as np
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

HERE = pathlib.Path(__file__).parent


def fnv1a(data):
    """64-bit FNV-1a over 32-bit words."""
    value = 0xCBF29CE484222325
    for word in np.frombuffer(data, dtype=np.uint32).tolist():
        value = ((value ^ word) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def bits(tensor):
    return tensor.numpy().view(np.uint32).tolist()


def torch_random():
    generator = torch.Generator()
    seeds = [0, 7, 42, 2**32 + 3, 2**63, 2**64 - 5]
    integers = []
    for seed in seeds:
        generator.manual_seed(seed)
        draws = [torch.empty((), dtype=torch.int64).random_(generator=generator).item() for _ in range(3)]
        integers.append({"seed": str(seed), "draws": draws})
    permutations = []
    for seed in [7, 42, 2**32 + 3]:
        for n in [1, 2, 10, 37, 100]:
            generator.manual_seed(seed)
            orders = [torch.randperm(n, generator=generator).tolist() for _ in range(2)]
            permutations.append({"seed": str(seed), "n": n, "orders": orders})
    generator.manual_seed(5)
    large = torch.randperm(100003, generator=generator)
    # Tensors filled one after the other by one generator: the cache of the scalar path lives across them.
    normals = []
    for mean, std in [(0.0, 0.02), (0.5, 0.125), (-1.0, 3.7)]:
        for sizes in [[1], [5, 4, 15], [16], [17], [31, 3, 32], [3, 40, 2], [100]]:
            generator.manual_seed(42)
            values = [bits(torch.empty(n).normal_(mean, std, generator=generator)) for n in sizes]
            normals.append({"seed": 42, "mean": mean, "std": std, "sizes": sizes, "bits": values})
    uniforms = []
    for start, end in [(-0.25, 0.25), (-0.1767767, 0.1767767), (0.5, 3.7)]:
        for sizes in [[1], [5, 4, 15], [16], [31, 3, 40]]:
            generator.manual_seed(42)
            values = [bits(torch.empty(n).uniform_(start, end, generator=generator)) for n in sizes]
            uniforms.append({"seed": 42, "from": start, "to": end, "sizes": sizes, "bits": values})
    generator.manual_seed(7)
    many = torch.empty(300007).normal_(0.0, 0.02, generator=generator)
    return {
        "random_int64": integers,
        "randperm": permutations,
        "randperm_hash": {"seed": 5, "n": 100003, "fnv1a": fnv1a(large.numpy().astype(np.uint32).tobytes())},
        "normal": normals,
        "uniform": uniforms,
        "normal_hash": {"seed": 7, "n": 300007, "mean": 0.0, "std": 0.02, "fnv1a": fnv1a(many.numpy().tobytes())},
    }


class Rows(torch.utils.data.Dataset):
    def __init__(self, lengths):
        self.lengths = lengths

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        return {"input_ids": [1] * self.lengths[i], "index": i}


class Recorder(torch.nn.Module):
    """A model whose forward pass notes which samples it was given."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.windows = [[]]

    def forward(self, index):
        self.windows[-1].append(index.tolist())
        return {"loss": self.weight.sum() * 0.0}


class CloseWindow(TrainerCallback):
    def __init__(self, model):
        self.model = model

    def on_step_end(self, args, state, control, **kwargs):
        self.model.windows.append([])


def trainer_order(lengths, resume_after=None, **arguments):
    with tempfile.TemporaryDirectory() as directory:
        def train(**more):
            model = Recorder()
            args = TrainingArguments(output_dir=directory, use_cpu=True, report_to="none", disable_tqdm=True,
                                     remove_unused_columns=False, num_train_epochs=3, logging_strategy="no",
                                     **arguments, **more)
            trainer = Trainer(model=model, args=args, train_dataset=Rows(lengths), callbacks=[CloseWindow(model)],
                              data_collator=lambda rows: {"index": torch.tensor([row["index"] for row in rows])})
            return model, trainer

        if resume_after is None:
            model, trainer = train(save_strategy="no")
            trainer.train()
        else:
            model, trainer = train(save_strategy="steps", save_steps=resume_after)
            trainer.train()
            model, trainer = train(save_strategy="no")
            trainer.train(resume_from_checkpoint=f"{directory}/checkpoint-{resume_after}")
        return model.windows[:-1]


def sampler():
    cases = []

    def add(n, strategy, seed, batch=4, accumulation=2, data_seed=None, drop_last=False, resume_after=None):
        lengths = np.random.RandomState(n).randint(1, 12, n).tolist()
        windows = trainer_order(lengths, resume_after, train_sampling_strategy=strategy, seed=seed, data_seed=data_seed,
                                dataloader_drop_last=drop_last, per_device_train_batch_size=batch,
                                gradient_accumulation_steps=accumulation)
        cases.append({"n": n, "strategy": strategy, "seed": seed, "data_seed": data_seed, "micro_batch_size": batch,
                      "gradient_accumulation_steps": accumulation, "drop_last": drop_last,
                      "resume_after": resume_after or 0, "lengths": lengths, "windows": windows})

    for n in [10, 37, 100]:
        for seed in [42, 7]:
            for strategy in ["random", "group_by_length"]:
                add(n, strategy, seed)
    add(37, "sequential", 42)
    add(37, "random", 42, data_seed=1234)
    add(37, "group_by_length", 42, data_seed=1234)
    add(37, "random", 42, drop_last=True)
    add(37, "random", 42, batch=3, accumulation=5)
    add(37, "random", 42, resume_after=7)
    add(250, "group_by_length", 3, batch=1, accumulation=1)
    return cases


def steps():
    cases = []
    for samples in [1, 7, 8, 9, 100, 3668]:
        for batch in [1, 4, 8]:
            for accumulation in [1, 3, 4]:
                for drop_last in [False, True]:
                    for epochs, max_steps in [(3.0, -1), (0.5, -1), (2.3, -1), (3.0, 17), (3.0, 500)]:
                        if drop_last and samples < batch:
                            continue
                        loader = torch.utils.data.DataLoader(range(samples), batch_size=batch, drop_last=drop_last)
                        args = types.SimpleNamespace(max_steps=max_steps, num_train_epochs=epochs,
                                                     gradient_accumulation_steps=accumulation)
                        this = types.SimpleNamespace(get_total_train_batch_size=lambda _: batch * accumulation,
                                                     get_sp_size=lambda: 1, num_examples=lambda d: len(d.dataset))
                        (num_epochs, per_epoch, _, num_samples, _, in_epoch, total) = \
                            Trainer.set_initial_training_values(this, args, loader)
                        cases.append([samples, batch, accumulation, int(drop_last), epochs, max_steps,
                                      in_epoch, per_epoch, total, num_epochs, num_samples])
    return cases


def text():
    chance = random.Random(1)
    tables = []
    for columns in [1, 2, 3, 5]:
        for terminator in ["\n", "\r\n"]:
            for quoting in [csv.QUOTE_MINIMAL, csv.QUOTE_ALL]:
                field = lambda: "".join(chance.choice('ab ,"\n\r\t\'é中1') for _ in range(chance.randint(1, 8))) + "."
                rows = [[field() for _ in range(columns)] for _ in range(12)]
                out = io.StringIO(newline="")
                writer = csv.writer(out, quoting=quoting, lineterminator=terminator)
                writer.writerow([f"c{i}" for i in range(columns)])
                writer.writerows(rows)
                tables.append({"csv": out.getvalue(), "rows": rows})
    invalid = []
    for _ in range(400):
        data = bytes(chance.choice(b"aA\x00\x80\xbf\xc0\xc2\xe0\xa0\xed\x9f\xef\xbb\xf0\x90\xf4\x8f\xf5\xff")
                     for _ in range(chance.randint(1, 24)))
        invalid.append([data.hex(), data.decode("utf-8", errors="replace").encode("utf-8").hex()])
    return {"tables": tables, "utf8": invalid}


def main():
    for name, value in [("torch_random", torch_random()), ("sampler", sampler()), ("steps", steps()), ("text", text())]:
        (HERE / f"data_{name}.json").write_text(json.dumps(value, separators=(",", ":")) + "\n")
    if "--large" in sys.argv:
        for n in [214748363, 214748364]:
            order = torch.randperm(n, generator=torch.Generator().manual_seed(3))
            print(n, order[:4].tolist(), order[-4:].tolist())


if __name__ == "__main__":
    main()
