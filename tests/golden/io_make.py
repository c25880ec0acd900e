"""Makes the goldens of src/io's tests: run it from anywhere with safetensors, torch and transformers installed.

io_dtypes.safetensors    every dtype shoehorn holds, scalars, empty tensors and names that JSON must escape
io_sharded/              a transformers model saved with a small max_shard_size
io_python.json           numbers and strings as Python's json.dumps writes them
io_python_unicode.json   the same with ensure_ascii=False, indent=4 and no final newline
"""

import json
import pathlib
import random
import struct

import torch
from safetensors.torch import save_file
from transformers import PretrainedConfig, PreTrainedModel

HERE = pathlib.Path(__file__).parent

DTYPES = {
    "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64, "i8": torch.int8,
    "u8": torch.uint8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
}


def make_dtypes():
    """Element i of each [2, 3] tensor is i - 2 (unsigned: i), of the bool tensor whether i is even."""
    tensors = {}
    for name, dtype in DTYPES.items():
        values = torch.arange(6) if name == "u8" else torch.arange(6) - 2
        tensors[name] = values.to(dtype).reshape(2, 3)
    tensors["bool"] = (torch.arange(6) % 2 == 0).reshape(2, 3)
    tensors["scalar"] = torch.tensor(0.5)
    tensors["empty"] = torch.zeros(3, 0, 2)
    tensors['quote" slash\\ tab\t é 漢 \x7f'] = torch.tensor([7], dtype=torch.int32)
    save_file(tensors, HERE / "io_dtypes.safetensors", metadata={"format": "pt"})


class Toy(PreTrainedModel):
    config_class = PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        for index, rows in enumerate([3, 20, 4, 5, 2, 1]):
            dtype = torch.bfloat16 if index % 2 else torch.float32
            values = torch.arange(rows * 4, dtype=torch.float32).reshape(rows, 4) + 100 * index
            setattr(self, f"w{5 - index}", torch.nn.Parameter(values.to(dtype)))
        self.post_init()

    def _init_weights(self, module):
        pass


def make_sharded():
    Toy(PretrainedConfig()).save_pretrained(HERE / "io_sharded", max_shard_size=100)


def make_json():
    generator = random.Random(1)
    floats = [0.0, -0.0, 1.0, 0.1, 1e-4, 1e-5, 5e-5, 123456.789, 1e15, 1e16, 1.5e16, 9007199254740993.0, 1e22, 1e23, 1e100,
              5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 1 / 3, float("nan"), float("inf"), float("-inf")]
    while len(floats) < 400:
        value = struct.unpack("<d", struct.pack("<Q", generator.getrandbits(64)))[0]
        floats.append(value if generator.random() < 0.3 and value == value else generator.uniform(-1, 1) * 10 ** generator.randint(-8, 20))
    value = {
        "floats": floats,
        "integers": [0, -1, 2**63 - 1, -(2**63), 2**64 - 1],
        "words": [True, False, None],
        "empty": [{}, [], "", {"a": []}],
        "strings": ["quote \" slash \\ / \b\f\n\r\t \x00 \x1f \x7f", "é ß 漢字 \u2028 \ud7ff \ue000", "😀 \U0010ffff", "NaN Infinity"],
        "nested": {"b": {"z": 1, "a": [[1, 2], [3, {"c": 4.5}]]}, "B": 0, "é": 1, "aa": 2},
    }
    (HERE / "io_python.json").write_text(json.dumps(value, indent=2, sort_keys=True) + "\n")
    (HERE / "io_python_unicode.json").write_text(json.dumps(value, indent=4, sort_keys=True, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    make_dtypes()
    make_sharded()
    make_json()
