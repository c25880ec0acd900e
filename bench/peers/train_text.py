#!/usr/bin/env python3
"""The Hugging Face Trainer on real text: a pretrained classifier on MRPC pairs, padded to the longest of each batch.

  train_text.py --model_name_or_path DIR --train_file msr_paraphrase_train.txt [--max_seq_length 128] [--steps 50] …

DIR is a BERT-type model with its tokenizer, for example all-MiniLM-L6-v2. Sentence pairs are tokenized before training
starts, and that time is in first_step_seconds but not in the step times. Batches differ in length, so
samples_per_second_mean is the number to compare here. Prints one JSON object (keys: bench/README.md).
"""

import argparse

import common


def read_pairs(path):
    """MRPC rows: (label, first sentence, second sentence). Quotes are ordinary characters there."""
    with open(path, encoding="utf-8-sig") as file:
        rows = [line.rstrip("\r\n").split("\t") for line in file][1:]
    return [(int(row[0]), row[3], row[4]) for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_name_or_path", required=True)
    parser.add_argument("--train_file", required=True)
    parser.add_argument("--max_seq_length", type=int, default=128)
    common.add_trainer_arguments(parser)
    args = parser.parse_args()
    with common.only_json_on_stdout() as print_result:
        import torch
        import transformers

        if args.threads:
            torch.set_num_threads(args.threads)
        transformers.set_seed(args.seed)
        config = transformers.AutoConfig.from_pretrained(args.model_name_or_path, num_labels=2)
        common.set_dropout(config, args.dropout)
        tokenizer = transformers.AutoTokenizer.from_pretrained(args.model_name_or_path)
        pairs = read_pairs(args.train_file)
        encoded = tokenizer(
            [first for _, first, _ in pairs],
            [second for _, _, second in pairs],
            truncation=True,
            max_length=args.max_seq_length,
        )
        rows = [
            {**{key: value[row] for key, value in encoded.items()}, "labels": pairs[row][0]} for row in range(len(pairs))
        ]
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            args.model_name_or_path, config=config, dtype="float32", attn_implementation=args.attn_implementation
        )
        print_result(common.train(args, model, rows, transformers.DataCollatorWithPadding(tokenizer)))


if __name__ == "__main__":
    main()
