#!/usr/bin/env python3
"""Writes distilbert_small/: a small DistilBERT classifier and what PyTorch computes with it.

  python distilbert_make.py [--output_dir distilbert_small]

The files are those of bert_small/ (bert_make.py), without training curves: config.json and model.safetensors as
save_pretrained writes them, golden.json and golden.safetensors with the batch `main`: logits, loss and every gradient in
float64, and what torch.autocast loses. token_type_ids are zeros, which the model does not read.
"""

import argparse
import os
import shutil

import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification

import bert_make

SEED = 20261122
LENGTHS = [1, 32, 7, 17, 16, 32, 2, 25]
CONFIG = dict(
    vocab_size=61, dim=40, n_layers=2, n_heads=4, hidden_dim=72, max_position_embeddings=32, num_labels=3, initializer_range=0.2,
    dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0,
)  # fmt: skip


def build_model():
    """Random weights, wide enough that logits and gradients are far from zero; biases and norms are not trivial."""
    torch.manual_seed(SEED)
    config = DistilBertConfig(**CONFIG)
    config._attn_implementation = "eager"
    model = DistilBertForSequenceClassification(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.1)
            elif "layer_norm" in name or "LayerNorm" in name:
                parameter.normal_(1.0, 0.1)
            elif "word_embeddings" in name:
                parameter[0].normal_(0.0, 0.2)
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--output_dir", default=os.path.join(here, "distilbert_small"))
    args = parser.parse_args()
    torch.set_num_threads(1)

    model = build_model()
    samples = bert_make.build_samples({**CONFIG, "type_vocab_size": 1}, LENGTHS, SEED)
    tensors = bert_make.sample_tensors(samples)
    batch = {key: value for key, value in samples.items() if key != "token_type_ids"}
    main_facts, exact = bert_make.main_batch(model, batch, list(range(len(LENGTHS))), tensors)
    golden = {"main": main_facts, **bert_make.around_main(model, batch, exact)}
    shutil.rmtree(args.output_dir, ignore_errors=True)
    bert_make.write(args.output_dir, model, tensors, golden, "tests/golden/distilbert_make.py")


if __name__ == "__main__":
    main()
