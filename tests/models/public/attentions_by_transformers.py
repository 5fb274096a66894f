"""Writes the attention weights of a BERT, as `transformers` computes them.

    python attentions_by_transformers.py FOLDER TEXTS OUTPUT

It runs in an environment with torch and transformers, so nothing of attention_zoo is imported.
TEXTS is a file with one text per line. OUTPUT (.npz) has the token ids, padded with 0, and the
weights of each layer, `(B, H, T, T)`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
import transformers


def main(folder: str, texts: str, output: str) -> None:
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    lines = Path(texts).read_text(encoding="utf-8").splitlines()
    inputs = tokenizer(lines, padding=True, return_tensors="pt")
    with torch.no_grad():
        attentions = model(**inputs, output_attentions=True).attentions
    layers = {f"layer_{n}": weights.numpy() for n, weights in enumerate(attentions)}
    np.savez_compressed(output, tokens=inputs["input_ids"].numpy(), **layers)


if __name__ == "__main__":
    main(*sys.argv[1:])
