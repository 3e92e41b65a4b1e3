#!/usr/bin/env python3
"""Checks folders that seed-model saved against the Python libraries.

    cargo run -p seed-model --example resave -- SOURCE OUT [--shard-bytes N]
    python3 scripts/check_transformers.py SOURCE OUT [--adapter FOLDER]

Loads SOURCE and OUT with `transformers` (AutoModelForCausalLm, AutoTokenizer) and compares: every weight bit for bit, the logits of
a few prompts, and encodings of a text. OUT/logits.safetensors, where present, holds the logits of seed-model itself for the ids in it:
they must agree within 2e-4. With --adapter, the PEFT folder must load over OUT. Needs: torch, transformers, safetensors (and peft).
"""
import argparse
import sys
import pathlib

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer


def load(folder):
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    unclean = {key: value for key, value in info.items() if value}
    if unclean:
        sys.exit(f"{folder}: loading was not clean: {unclean}")
    return model.eval()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--adapter", type=pathlib.Path)
    args = parser.parse_args()

    source, out = load(args.source), load(args.out)
    ours = dict(out.named_parameters())
    for name, weight in source.named_parameters():
        if not torch.equal(weight, ours.pop(name)):
            sys.exit(f"{name} differs")
    if ours:
        sys.exit(f"{args.out} has more weights: {sorted(ours)}")

    torch.manual_seed(0)
    ids = torch.randint(0, source.config.vocab_size, (3, 24))
    with torch.no_grad():
        if not torch.equal(source(ids).logits, out(ids).logits):
            sys.exit("logits differ")
        result = "weights and logits equal"
        native = args.out / "logits.safetensors"
        if native.exists():
            native = load_file(native)
            expected = out(native["ids"].long()[None]).logits[0]
            worst = (native["logits"] - expected).abs().max().item()
            if worst > 2e-4:
                sys.exit(f"seed-model's logits differ by {worst:.2e}")
            result += f", seed-model's logits within {worst:.1e}"
        if (args.source / "tokenizer.json").exists():
            texts = ["Take the mug.\n 12 naïve 检查", "<|im_start|>user\nhi<|im_end|>\n"]
            one, two = (AutoTokenizer.from_pretrained(folder) for folder in (args.source, args.out))
            if any(one(text).input_ids != two(text).input_ids for text in texts):
                sys.exit("encodings differ")
            result += ", encodings equal"
        if args.adapter:
            from peft import PeftModel

            adapted = PeftModel.from_pretrained(out, args.adapter)
            difference = (adapted(ids).logits - source(ids).logits).abs().max().item()
            result += f", adapter loads and moves logits by up to {difference:.3f}"
    print(f"{args.out}: {result}")


if __name__ == "__main__":
    main()
