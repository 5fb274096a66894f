"""Files of small byte-level tokenizers of RoBERTa and BART, trained on generated text."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, ByteLevelBPETokenizer, Tokenizer

from tests.data.tokenizers.sentencepiece_models import make_training_texts

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")


def write_roberta(folder: Path) -> Tokenizer:
    """Write `tokenizer.json`, with the special tokens first and `<mask>` last; return the engine.

    The folder `folder / "merges"` gets `vocab.json` and `merges.txt` instead.
    """
    engine = ByteLevelBPETokenizer()
    engine.train_from_iterator(make_training_texts(), 450, special_tokens=list(SPECIAL))
    engine.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    engine.save(str(folder / "tokenizer.json"))
    merges = folder / "merges"
    merges.mkdir()
    engine.save_model(str(merges))
    vocabulary = json.loads((merges / "vocab.json").read_text("utf-8"))
    vocabulary["<mask>"] = engine.token_to_id("<mask>")
    (merges / "vocab.json").write_text(json.dumps(vocabulary), "utf-8")
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def write_bart(folder: Path) -> Tokenizer:
    """Write the files of `write_roberta`, and a `config.json` of BART to both folders."""
    engine = write_roberta(folder)
    for path in (folder, folder / "merges"):
        (path / "config.json").write_text(json.dumps({"model_type": "bart"}), "utf-8")
    return engine
