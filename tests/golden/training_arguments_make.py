"""Writes training_arguments.json: what transformers' command line knows.

"fields": of each field of TrainingArguments the default (null where unset) and `other`, another value as words of a
command line that its argument parser accepts. "values": of each field with named values all of them. "written": the file
that to_json_string() makes of some arguments, "written_of" as words.

Run: python training_arguments_make.py [OUTPUT]   (transformers 5.23)
"""

import dataclasses
import enum
import json
import pathlib
import sys

from transformers import HfArgumentParser, TrainingArguments
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK
from transformers.trainer_utils import HubStrategy, IntervalStrategy, SaveStrategy, SchedulerType
from transformers.training_args import OptimizerNames

VALUES = {
    "optim": OptimizerNames,
    "lr_scheduler_type": SchedulerType,
    "eval_strategy": IntervalStrategy,
    "logging_strategy": IntervalStrategy,
    "save_strategy": SaveStrategy,
    "hub_strategy": HubStrategy,
}

# Where a number, a text or the other boolean would not do.
OTHERS = {
    "report_to": "tensorboard",
    "train_sampling_strategy": "group_by_length",
    "include_num_input_tokens_seen": "all",
    "log_level": "info",
    "log_level_replica": "info",
    "lr_scheduler_kwargs": '{"power": 2.0}',
    "gradient_checkpointing_kwargs": '{"use_reentrant": false}',
    "activation_checkpointing_kwargs": '{"use_reentrant": false}',
    "accelerator_config": '{"split_batches": true}',
    "parallelism_config": '{"dp_size": 2}',
    "liger_kernel_config": '{"rope": true}',
    "fsdp_config": '{"min_num_params": 1}',
    "debug": "underflow_overflow",
    "ddp_backend": "gloo",
    "dataloader_multiprocessing_context": "spawn",
    "torch_compile_backend": "eager",
    "torch_compile_mode": "reduce-overhead",
    "label_names": "labels",
    "include_for_metrics": "inputs",
    "optim_args": "momentum=0.9",
}


# Fields whose other value the argument parser does not take as text.
ONLY_IN_CODE = {"liger_kernel_config", "include_num_input_tokens_seen", "parallelism_config"}


def is_boolean(field):
    return isinstance(field.default, bool) or "bool" in str(field.type)


def other_value(field):
    if field.name in OTHERS:
        return OTHERS[field.name]
    if field.name in VALUES:
        default = getattr(field.default, "value", field.default)
        return next(member.value for member in VALUES[field.name] if member.value != default)
    if is_boolean(field):
        return "false" if field.default is True else "true"
    if "float" in str(field.type):
        return "0.75"
    if "int" in str(field.type):
        return "7"
    return "something"


WRITTEN_OF = ["--output_dir", "out", "--learning_rate", "0.001", "--per_device_train_batch_size", "16", "--optim", "adafactor",
              "--gradient_checkpointing", "--max_steps", "12", "--seed", "7", "--use_cpu"]


def main():
    parser = HfArgumentParser(TrainingArguments)
    fields = {}
    for field in dataclasses.fields(TrainingArguments):
        if not field.init:
            continue
        default = None if field.default is dataclasses.MISSING else field.default
        other = other_value(field)
        default = getattr(default, "value", default)
        if field.name not in ONLY_IN_CODE:
            # Only the words are parsed: what values have to do with each other is not asked here.
            parsed = getattr(parser.parse_args(["--output_dir", "out", f"--{field.name}", other]), field.name)
            assert parsed != default, (field.name, parsed)
        fields[field.name] = {"default": default, "other": other}
    values = {name: [member.value for member in members] for name, members in VALUES.items()}
    values["report_to"] = sorted(INTEGRATION_TO_CALLBACK)
    path = sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("training_arguments.json")
    written = json.loads(parser.parse_args_into_dataclasses(WRITTEN_OF)[0].to_json_string())
    golden = {"fields": fields, "values": values, "written": written, "written_of": WRITTEN_OF}
    pathlib.Path(path).write_text(json.dumps(golden, indent=2, sort_keys=True) + "\n")


main()
