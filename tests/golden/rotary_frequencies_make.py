"""Writes rotary_frequencies.json: inverse frequencies of rotary positions as transformers computes them, in float32.

  python tests/golden/rotary_frequencies_make.py

Real shapes: at large positions a frequency that is rounded elsewhere shows.
"""

import json
import pathlib

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
FACTORS = {"short_factor": [1.0 + i / 32 for i in range(48)], "long_factor": [1.0 + i for i in range(48)]}
# Name -> config's keys, size of a head, positions, length of the sequence.
ROWS = {
    "llama2": ({}, 128, 4096, 4096),
    "llama3": ({"rope_theta": 500000.0}, 128, 8192, 8192),
    "smollm2": ({"rope_theta": 100000.0}, 64, 8192, 8192),
    "qwen2": ({"rope_theta": 1000000.0}, 64, 131072, 131072),
    "linear": ({"rope_scaling": {"type": "linear", "factor": 2.5}}, 128, 4096, 4096),
    "llama3.1": ({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", **LLAMA3}}, 128, 131072, 131072),
    "llama3.2_1b": ({"rope_theta": 500000.0, "rope_scaling": {"type": "llama3", **LLAMA3, "factor": 32.0}}, 64, 131072, 131072),
    "dynamic": ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, 128, 4096, 10000),
    "yarn": ({"rope_theta": 1000000.0, "rope_scaling": YARN}, 128, 32768, 32768),
    "yarn_not_truncated": ({"rope_theta": 1000000.0, "rope_scaling": {**YARN, "truncate": False}}, 128, 32768, 32768),
    "yarn_truncate_null": ({"rope_scaling": {**YARN, "truncate": None}}, 64, 32768, 32768),
    "yarn_betas": ({"rope_scaling": {**YARN, "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.25}}, 64, 32768, 32768),
    "yarn_mscale": ({"rope_scaling": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.5}}, 64, 32768, 32768),
    "longrope_short": ({"rope_scaling": {"type": "longrope", **FACTORS, "factor": 32.0}, "original_max_position_embeddings": 4096}, 96, 131072, 4096),
    "longrope_long": ({"rope_scaling": {"type": "longrope", **FACTORS, "attention_factor": 1.2}, "original_max_position_embeddings": 4096}, 96, 131072, 4097),
}  # fmt: skip


def row(keys, head_size, positions, length):
    config = LlamaConfig(
        hidden_size=head_size, num_attention_heads=1, head_dim=head_size, max_position_embeddings=positions,
        **json.loads(json.dumps(keys)),
    )  # fmt: skip
    kind = config.rope_parameters["rope_type"]
    if kind == "default":
        frequencies, factor = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    else:
        frequencies, factor = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
    return {
        "config": keys, "head_size": head_size, "max_positions": positions, "length": length, "attention_factor": factor,
        "frequencies": frequencies.tolist(),
    }  # fmt: skip


def main():
    rows = {name: row(*words) for name, words in ROWS.items()}
    file = pathlib.Path(__file__).with_name("rotary_frequencies.json")
    file.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in rows.items()) + "\n}\n")


if __name__ == "__main__":
    main()
