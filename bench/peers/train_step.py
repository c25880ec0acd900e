#!/usr/bin/env python3
"""The Hugging Face Trainer's side of `shoehorn bench step`: one model, random weights, random tokens, full length.

  train_step.py --model bert-large --per_device_train_batch_size 4 --sequence_length 512 [--bf16] [--steps 5] …

Nothing is downloaded: configurations are written here, weights are drawn, and the data are 512 rows of random tokens
without an attention mask, as in the single-GPU guide. Models of type bert learn labels 0 or 1, decoders the next token.
Prints one JSON object (keys: bench/README.md).
"""

import argparse

import common

# The named shapes of src/models/.
CONFIGURATIONS = {
    "bert-mini": dict(model_type="bert", hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024),
    "bert-base": dict(model_type="bert", hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072),
    "bert-large": dict(model_type="bert", hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
    "gpt2": dict(model_type="gpt2"),
    "llama-135m": dict(
        model_type="llama", vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, tie_word_embeddings=True,
    ),
    "qwen2-0.5b": dict(
        model_type="qwen2", vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
        num_attention_heads=14, num_key_value_heads=2, max_position_embeddings=131072, rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}, tie_word_embeddings=True,
    ),
}  # fmt: skip
ENCODERS = ("bert", "distilbert")
ROWS = 512


def load_configuration(name):
    import transformers

    if name in CONFIGURATIONS:
        return transformers.AutoConfig.for_model(**CONFIGURATIONS[name])
    return transformers.AutoConfig.from_pretrained(name)


def random_rows(config, sequence_length, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    lowest = 100 if config.vocab_size > 100 else 1  # below 100 BERT's vocabulary holds padding and unused tokens
    input_ids = torch.randint(lowest, config.vocab_size, (ROWS, sequence_length), generator=generator)
    labels = torch.randint(0, 2, (ROWS,), generator=generator) if config.model_type in ENCODERS else input_ids
    return [{"input_ids": input_ids[row], "labels": labels[row]} for row in range(ROWS)]


def make_model(args, config):
    """The model that is trained: all of it, or adapters on it where --lora_rank is above 0."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

    auto = AutoModelForSequenceClassification if config.model_type in ENCODERS else AutoModelForCausalLM
    model = auto.from_config(config, attn_implementation=args.attn_implementation)
    model.config.use_cache = False
    if args.bf16_weights:
        model = model.to(torch.bfloat16)
    if args.lora_rank:
        import peft

        # As `shoehorn` does, and as neither the Trainer nor PEFT does without being told: a frozen embedding gives no
        # gradient to what checkpointing recomputes.
        if args.gradient_checkpointing:
            model.enable_input_require_grads()
        task = peft.TaskType.SEQ_CLS if config.model_type in ENCODERS else peft.TaskType.CAUSAL_LM
        lora = peft.LoraConfig(r=args.lora_rank, lora_alpha=2 * args.lora_rank, target_modules=args.lora_target, task_type=task)
        model = peft.get_peft_model(model, lora)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="bert-base", help=f"{', '.join(CONFIGURATIONS)}, or a directory with config.json")
    parser.add_argument("--sequence_length", type=int, default=512)
    parser.add_argument("--lora_rank", type=int, default=0, help="train LoRA adapters of this rank by PEFT")
    parser.add_argument("--lora_target", default="all-linear")
    parser.add_argument("--bf16_weights", action="store_true", help="keep the weights in bfloat16")
    common.add_trainer_arguments(parser)
    args = parser.parse_args()
    with common.only_json_on_stdout() as print_result:
        import torch
        import transformers

        if args.threads:
            torch.set_num_threads(args.threads)
        transformers.set_seed(args.seed)
        # What these load counts with the libraries, and not with the weights.
        from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, Trainer  # noqa: F401

        if args.lora_rank:
            import peft  # noqa: F401
        config = load_configuration(args.model)
        common.set_dropout(config, args.dropout)
        if args.sequence_length > config.max_position_embeddings:
            parser.error(f"[--sequence_length] expected at most {config.max_position_embeddings}, got {args.sequence_length}")
        rows = random_rows(config, args.sequence_length, args.seed)
        process_bytes = common.memory_bytes("VmRSS")
        model = make_model(args, config)
        print_result({**common.train(args, model, rows), "process_bytes": process_bytes})


if __name__ == "__main__":
    main()
