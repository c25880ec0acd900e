"""Writes the files a real transformers Trainer leaves after a short run on a tiny model.

Run: python trainer_state_make.py [OUTPUT_DIRECTORY]   (transformers 5.23, torch, accelerate)

Into trainer_state/:

trainer_state.json    the state in the last checkpoint's directory
all_results.json      train and eval metrics, merged by save_metrics
train_results.json
metrics.txt           what log_metrics prints for metrics of every kind
flow.json             for several arguments: at which steps and epochs it logs, evaluates, saves and stops
"""

import contextlib
import io
import json
import pathlib
import shutil
import sys
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, EarlyStoppingCallback, Trainer, TrainingArguments
from transformers.trainer_callback import DefaultFlowCallback, TrainerControl, TrainerState


def train(output, target):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=8,
    )
    rows = [{"input_ids": [1 + i, 2, 3], "labels": i % 2} for i in range(12)]
    arguments = TrainingArguments(
        output_dir=output,
        use_cpu=True,
        report_to="none",
        per_device_train_batch_size=2,
        num_train_epochs=2,
        logging_steps=2,
        eval_strategy="steps",
        eval_steps=4,
        save_steps=4,
        load_best_model_at_end=True,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=arguments,
        train_dataset=rows,
        eval_dataset=rows[:5],
        compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())},
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
    )
    result = trainer.train()
    trainer.save_metrics("train", result.metrics)
    trainer.save_state()
    trainer.save_metrics("eval", trainer.evaluate())
    for name in ("all_results.json", "train_results.json"):
        shutil.copy(pathlib.Path(output) / name, target / name)
    state = (pathlib.Path(output) / "trainer_state.json").read_text()
    (target / "trainer_state.json").write_text(state.replace(output, "output"))
    metrics = {
        "train_loss": 0.69314718,
        "train_runtime": 3725.256,
        "eval_runtime": 90061.5,
        "total_flos": 3.5e12,
        "train_samples": 12,
        "train_mem_cpu_alloc_delta": 1363148800,
        "epoch": 2.0,
        "tiny": 0.00001,
        "large": 123456789.123456,
    }
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        trainer.log_metrics("train", metrics)
    (target / "metrics.txt").write_text(printed.getvalue())


def flow(target):
    """Drives the callback that decides, over 7 steps in 2 epochs (4 and 3 steps)."""
    cases = []
    variants = [
        {},
        {"logging_steps": 3, "logging_first_step": True, "eval_strategy": "steps", "eval_steps": 2, "save_steps": 4},
        {"logging_steps": 0.3, "eval_strategy": "steps", "eval_steps": 0.5, "save_steps": 0.25},
        {"logging_strategy": "epoch", "eval_strategy": "epoch", "save_strategy": "epoch", "eval_delay": 1.5},
        {"logging_strategy": "no", "eval_strategy": "steps", "eval_steps": 2, "eval_delay": 5, "save_strategy": "no"},
        {"logging_steps": 2, "eval_strategy": "steps", "save_strategy": "best", "metric_for_best_model": "loss"},
    ]
    for variant in variants:
        arguments = TrainingArguments(output_dir="output", use_cpu=True, report_to="none", **variant)
        state = TrainerState(max_steps=7, num_train_epochs=2)
        state.compute_steps(arguments, 7)
        callback, control, events = DefaultFlowCallback(), TrainerControl(), []
        for step in range(1, 8):
            control._new_step()
            state.global_step, state.epoch = step, step / 4
            callback.on_step_end(arguments, state, control)
            events.append(["step", step, *decisions(control)])
            if step in (4, 7):
                control._new_step()
                callback.on_epoch_end(arguments, state, control)
                events.append(["epoch", step, *decisions(control)])
        cases.append({"arguments": variant, "events": events})
    lines = ",\n".join(json.dumps(case) for case in cases)
    (target / "flow.json").write_text("[\n" + lines + "\n]\n")


def decisions(control):
    return [control.should_log, control.should_evaluate, control.should_save, control.should_training_stop]


def main():
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("trainer_state"))
    with tempfile.TemporaryDirectory() as output:
        train(output, target)
    flow(target)


main()
