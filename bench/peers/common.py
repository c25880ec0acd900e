"""What the peers' programs share: process start and peak memory from /proc, step times from the Trainer's callbacks,
and one JSON object on standard output (everything else a library prints goes to standard error)."""

import contextlib
import json
import os
import resource
import statistics
import sys
import tempfile
import time


def process_start_seconds():
    """Start of this process on the clock of time.clock_gettime(CLOCK_BOOTTIME), to 10 ms."""
    with open("/proc/self/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def now_seconds():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def memory_bytes(field):
    """VmHWM (peak resident) or VmRSS (resident now) of this process."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field + ":"))


def versions():
    import accelerate
    import torch
    import transformers

    return {"torch": torch.__version__, "transformers": transformers.__version__, "accelerate": accelerate.__version__}


@contextlib.contextmanager
def only_json_on_stdout():
    """Within it, whatever is written to file descriptor 1 appears on 2. Yields a function that prints the result."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield lambda result: os.write(kept, (json.dumps(result) + "\n").encode())
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def add_trainer_arguments(parser):
    """The flags that both programs hand to the Trainer as they are; defaults are the Trainer's own."""
    parser.add_argument("--per_device_train_batch_size", type=int, default=8)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--gradient_checkpointing", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--fp16", action="store_true", help="this Trainer skips it on a CPU; the key `ran` says what ran")
    parser.add_argument("--torch_compile", action="store_true", help="by inductor, in the first step; it needs a C++ compiler")
    parser.add_argument("--optim", default="adamw_torch_fused")
    parser.add_argument("--optim_args", help='for example "momentum=0.9" with --optim sgd')
    parser.add_argument("--learning_rate", type=float, default=5e-5)
    parser.add_argument("--max_grad_norm", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--steps", type=int, default=5, help="optimizer steps; the first is not in the medians")
    parser.add_argument("--threads", type=int, help="torch's threads; default: torch's choice")
    parser.add_argument("--dropout", type=float, help="set every dropout to this; default: the model's configuration")
    parser.add_argument("--attn_implementation", default="sdpa", choices=("sdpa", "eager"))


DROPOUTS = {
    "gpt2": ("embd_pdrop", "resid_pdrop", "attn_pdrop"),
    "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"),
}


def set_dropout(config, dropout):
    """Sets every dropout of the configuration; other decoders have that of the attention alone."""
    for name in DROPOUTS.get(config.model_type, ("attention_dropout",)) if dropout is not None else ():
        setattr(config, name, dropout)


def product_dtype(trainer):
    """The type that a linear layer computes in under this trainer's autocast: "fp32", "bf16" or "fp16"."""
    import torch

    with torch.no_grad(), trainer.accelerator.autocast():
        dtype = torch.nn.functional.linear(torch.zeros(1, 8), torch.zeros(8, 8)).dtype
    return {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]


def train(args, model, train_dataset, data_collator=None, eval_dataset=None):
    """Runs the Trainer for args.steps steps and returns the metrics that every program here reports; where there is data to
    evaluate on, eval_loss behind them too.

    A step's time runs from the end of the step before it, so it holds the data loader, clipping and the update.
    """
    import transformers

    ends, cpu_seconds, loads, switches = [], [], [], []

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, arguments, state, control, **_):
            ends.append(now_seconds())
            cpu_seconds.append(time.process_time())
            loads.append(os.getloadavg()[0])
            switches.append(resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw)

    losses = []

    class LossRecorder(transformers.TrainerCallback):
        def on_log(self, arguments, state, control, logs=None, **_):
            losses.extend([logs["loss"]] if "loss" in logs else [])

    with tempfile.TemporaryDirectory() as output_dir:
        trainer = transformers.Trainer(
            model,
            transformers.TrainingArguments(
                output_dir,
                max_steps=args.steps,
                per_device_train_batch_size=args.per_device_train_batch_size,
                gradient_accumulation_steps=args.gradient_accumulation_steps,
                # Named only when asked for: this version warns at its mere mention.
                **({"gradient_checkpointing": True} if args.gradient_checkpointing else {}),
                bf16=args.bf16,
                fp16=args.fp16,
                torch_compile=args.torch_compile,
                optim=args.optim,
                optim_args=args.optim_args,
                learning_rate=args.learning_rate,
                max_grad_norm=args.max_grad_norm,
                seed=args.seed,
                logging_steps=args.steps,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                disable_tqdm=True,
                prediction_loss_only=True,
            ),
            train_dataset=train_dataset,
            data_collator=data_collator,
            callbacks=[Clock, LossRecorder],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        asked = "bf16" if args.bf16 else "fp16" if args.fp16 else "fp32"
        dtype = product_dtype(trainer)
        before = memory_bytes("VmRSS")
        train_called = now_seconds()
        trainer.train()
        peak = memory_bytes("VmHWM")
        evaluated = {"eval_loss": trainer.evaluate(eval_dataset)["eval_loss"]} if eval_dataset else {}

    import torch

    steps = [end - start for start, end in zip(ends, ends[1:])]
    samples = args.per_device_train_batch_size * args.gradient_accumulation_steps
    median = statistics.median(steps) if steps else None
    return {
        "samples_per_second": samples / median if steps else None,
        "samples_per_second_mean": samples * len(steps) / sum(steps) if steps else None,
        "step_seconds": median,
        "step_cpu_seconds": statistics.median(b - a for a, b in zip(cpu_seconds, cpu_seconds[1:])) if steps else None,
        "step_samples": steps,
        "load": {
            "average_before": loads[0],
            "average_after": loads[-1],
            "involuntary_switches": switches[-1] - switches[0],
            "cpu_share": (cpu_seconds[-1] - cpu_seconds[0]) / (ends[-1] - ends[0]) / torch.get_num_threads() if steps else 0,
        },
        "first_step_seconds": ends[0] - process_start_seconds(),
        "first_step_seconds_from_train": ends[0] - train_called,
        "peak_bytes": peak,
        "before_train_bytes": before,
        "train_loss": losses[-1],
        **evaluated,
        "steps": len(ends),
        # Only where it is not what the flags say.
        **({"ran": f"{dtype}: {asked} is skipped on this device"} if dtype != asked else {}),
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "settings": vars(args),
    }
