#!/usr/bin/env python3
"""Writes crates/seed-model/tests/model/rope_reference.json: rotary frequencies by `transformers` for a list of configurations.

    python3 scripts/rope_reference.py

Each entry has a `config` (the keys of config.json that count), the inverse frequencies and the attention factor that the library's
own rotary embedding of that model type holds after construction. Needs: torch, transformers. Made with transformers 5.24.0.
"""
import json
import pathlib

from transformers import LlamaConfig, Qwen2Config, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.qwen2.modeling_qwen2 import Qwen2RotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

FAMILIES = {
    "qwen2": (Qwen2Config, Qwen2RotaryEmbedding),
    "qwen3": (Qwen3Config, Qwen3RotaryEmbedding),
    "llama": (LlamaConfig, LlamaRotaryEmbedding),
}
LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def case(family, head_dim, theta, positions, scaling, **more):
    return dict(
        model_type=family, vocab_size=64, hidden_size=2 * head_dim, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=head_dim, rope_theta=theta,
        max_position_embeddings=positions, rope_scaling=scaling, **more,
    )


CASES = {
    "plain": case("qwen2", 64, 1e6, 32768, None),
    "Qwen2.5's published stretch to 131,072": case(
        "qwen2", 128, 1e6, 32768, {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    ),
    "Qwen3's": case(
        "qwen3", 128, 1e6, 131072, {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    ),
    "yarn without an original length": case("qwen2", 64, 1e6, 4096, {"rope_type": "yarn", "factor": 2.0}),
    "yarn with every key": case(
        "llama", 32, 1e4, 16384,
        {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 2048, "beta_fast": 16.0,
         "beta_slow": 2.0, "mscale": 0.707, "mscale_all_dim": 0.5, "truncate": False},
    ),
    "yarn with a given attention factor": case(
        "llama", 64, 1e4, 8192,
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048, "attention_factor": 1.25},
    ),
    "yarn of a model so small that the ramp is one pair": case(
        "llama", 4, 1e4, 64, {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32}
    ),
    "Llama 3.1's": case("llama", 128, 5e5, 131072, {"rope_type": "llama3", "factor": 8.0, **LLAMA3}),
    "Llama 3.2's": case("llama", 64, 5e5, 131072, {"rope_type": "llama3", "factor": 32.0, **LLAMA3}),
    "linear": case("llama", 64, 1e4, 8192, {"type": "linear", "factor": 4.0}),
}


def main():
    out = []
    for name, config in CASES.items():
        kind, embedding = FAMILIES[config["model_type"]]
        rotary = embedding(kind(**json.loads(json.dumps(config))))
        out.append(
            {
                "name": name,
                "config": config,
                "inverse_frequencies": [float(f) for f in rotary.inv_freq],
                "attention_factor": float(rotary.attention_scaling),
            }
        )
    path = pathlib.Path(__file__).parent.parent / "crates/seed-model/tests/model/rope_reference.json"
    path.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in out) + "\n]\n")
    print(f"{path}: {len(out)} configurations")


if __name__ == "__main__":
    main()
