#!/usr/bin/env python3
"""The Hugging Face Trainer on a text in blocks of tokens: a GPT-2 of any size, as run_clm trains it.

  train_blocks.py --model_name_or_path DIR --write_model n_layer=6,n_head=6,n_embd=384,n_positions=256,vocab_size=257
  train_blocks.py --model_name_or_path DIR --train_file a.jsonl --validation_file b.jsonl [--block_size 256] [--steps 50] …

The files have a text in the key `text` of one row. DIR has a tokenizer.json. The first call writes a model of random weights
and without dropout into it, the second trains that model. What is left of the last block is dropped. Tokenizing is in
first_step_seconds and not in the step times. After the steps the model is evaluated: eval_loss. Prints one JSON object
(keys: bench/README.md).
"""

import argparse
import json
import pathlib

import common


def write_model(args):
    import transformers

    sizes = {key: int(value) for key, value in (size.split("=") for size in args.write_model.split(","))}
    no_dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
    transformers.set_seed(args.seed)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(bos_token_id=0, eos_token_id=0, **sizes, **no_dropout))
    model.save_pretrained(args.model_name_or_path)
    return {"parameters": model.num_parameters()}


def blocks_of(tokenizer, path, size):
    text = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["text"]
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return [{"input_ids": ids[at : at + size], "labels": ids[at : at + size]} for at in range(0, len(ids) - size + 1, size)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_name_or_path", required=True)
    parser.add_argument("--write_model", metavar="SIZES")
    parser.add_argument("--train_file")
    parser.add_argument("--validation_file")
    parser.add_argument("--block_size", type=int, default=256)
    common.add_trainer_arguments(parser)
    args = parser.parse_args()
    with common.only_json_on_stdout() as print_result:
        if args.write_model:
            print_result(write_model(args))
            return
        import tokenizers
        import torch
        import transformers

        if args.threads:
            torch.set_num_threads(args.threads)
        transformers.set_seed(args.seed)
        config = transformers.AutoConfig.from_pretrained(args.model_name_or_path)
        common.set_dropout(config, args.dropout)
        model = transformers.AutoModelForCausalLM.from_pretrained(
            args.model_name_or_path, config=config, dtype="float32", attn_implementation=args.attn_implementation
        )
        # Else this Trainer divides the loss of GPT2LMHeadModel by all tokens, the first of each block too, which is no target.
        model.loss_type = "ForCausalLM"
        tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(args.model_name_or_path) / "tokenizer.json"))
        training, validation = (
            blocks_of(tokenizer, path, args.block_size) for path in (args.train_file, args.validation_file)
        )
        print_result(common.train(args, model, training, eval_dataset=validation))


if __name__ == "__main__":
    main()
