"""Writes the ids and texts of the BART or T5 tokenizer of `transformers`.

    python bart_t5_by_transformers.py bart|t5 FOLDER

It runs in an environment with transformers, so nothing of attention_zoo is imported. FOLDER holds
`texts.json`, and the `tokenizer.json` of BART, or `pieces.json` of T5: the content of a
SentencePiece model, which `transformers` reads only if protobuf is installed. `results.json` is
written into it.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import transformers
from transformers.convert_slow_tokenizer import T5Converter


def load_t5(folder: Path) -> Any:
    """Return the tokenizer of a SentencePiece model, made as `from_pretrained` does it."""
    content = json.loads((folder / "pieces.json").read_text("utf-8"))
    vocabulary = [(piece, score) for piece, score in content["pieces"]]
    rules = base64.b64decode(content["precompiled_charsmap"])
    options = T5Converter.convert_from_spm(vocabulary, _spm_precompiled_charsmap=rules)
    return transformers.T5Tokenizer(**options)


def main(family: str, name: str) -> None:
    folder = Path(name)
    tokenizer = (
        load_t5(folder) if family == "t5" else transformers.BartTokenizer.from_pretrained(folder)
    )
    texts = json.loads((folder / "texts.json").read_text("utf-8"))
    rows = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    normalizer = tokenizer.backend_tokenizer.normalizer
    results = {
        "size": len(tokenizer),
        "whole": tokenizer(texts[0])["input_ids"],
        "ids": rows,
        "decoded": [tokenizer.decode(row) for row in rows],
        "normalized": [normalizer.normalize_str(text) if normalizer else text for text in texts],
    }
    (folder / "results.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
