#!/usr/bin/env python3
"""The Hugging Face Trainer's side of `shoehorn bench step`: one model, random weights, random tokens, full length.

  train_step.py --model bert-large --per_device_train_batch_size 4 --sequence_length 512 [--bf16] [--steps 5] …

Nothing is downloaded: configurations are written here, weights are drawn, and the data are 512 rows of random tokens
with labels 0 or 1 and no attention mask, as in the single-GPU guide. Prints one JSON object (keys: bench/README.md).
"""

import argparse

import common

CONFIGURATIONS = {
    "bert-mini": dict(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024),
    "bert-base": dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072),
    "bert-large": dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
}
ROWS = 512


def load_configuration(name):
    import transformers

    if name in CONFIGURATIONS:
        return transformers.BertConfig(vocab_size=30522, **CONFIGURATIONS[name])
    return transformers.AutoConfig.from_pretrained(name)


def random_rows(vocab_size, sequence_length, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    lowest = 100 if vocab_size > 100 else 1  # below 100 BERT's vocabulary holds padding and unused tokens
    input_ids = torch.randint(lowest, vocab_size, (ROWS, sequence_length), generator=generator)
    labels = torch.randint(0, 2, (ROWS,), generator=generator)
    return [{"input_ids": input_ids[row], "labels": labels[row]} for row in range(ROWS)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-base", help="bert-large, bert-base, bert-mini, or a directory with config.json")
    parser.add_argument("--sequence_length", type=int, default=512)
    common.add_trainer_arguments(parser)
    args = parser.parse_args()
    with common.only_json_on_stdout() as print_result:
        import torch
        import transformers

        if args.threads:
            torch.set_num_threads(args.threads)
        transformers.set_seed(args.seed)
        # What these load counts with the libraries, and not with the weights.
        from transformers import AutoModelForSequenceClassification, Trainer  # noqa: F401

        config = load_configuration(args.model)
        common.set_dropout(config, args.dropout)
        if args.sequence_length > config.max_position_embeddings:
            parser.error(f"[--sequence_length] expected at most {config.max_position_embeddings}, got {args.sequence_length}")
        rows = random_rows(config.vocab_size, args.sequence_length, args.seed)
        process_bytes = common.memory_bytes("VmRSS")
        model = AutoModelForSequenceClassification.from_config(config, attn_implementation=args.attn_implementation)
        print_result({**common.train(args, model, rows), "process_bytes": process_bytes})


if __name__ == "__main__":
    main()
