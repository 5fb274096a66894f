"""Writes the ids that the Marian tokenizer of `transformers` gives texts.

    python marian_by_transformers.py FOLDER

It runs in an environment with transformers and sentencepiece, so nothing of attention_zoo is
imported. FOLDER holds the files of the tokenizer and `texts.json`; `ids.json` is written into it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import transformers


def main(name: str) -> None:
    folder = Path(name)
    texts = json.loads((folder / "texts.json").read_text("utf-8"))
    files = [str(folder / file) for file in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = transformers.MarianTokenizer(*files)
    ids = [tokenizer(text)["input_ids"] for text in texts]
    (folder / "ids.json").write_text(json.dumps(ids))


if __name__ == "__main__":
    main(*sys.argv[1:])
