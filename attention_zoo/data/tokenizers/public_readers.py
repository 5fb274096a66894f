"""Readers of the files that `transformers` saves: engines of tokenizers, and settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, pre_tokenizers

FILE = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
CONFIG = "config.json"
END_OF_TEXT = "<|endoftext|>"


def _read_vocabulary(folder: Path) -> tokenizers.Tokenizer:
    """Return the WordPiece tokenizer of a released BERT."""
    settings = read_json(folder / SETTINGS) or {}
    engine = tokenizers.BertWordPieceTokenizer.from_file(
        str(folder / "vocab.txt"),
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )
    return _add_tokens(engine, folder)


def _read_merges(folder: Path) -> tokenizers.Tokenizer:
    """Return the byte-level BPE tokenizer of GPT-2, or of RoBERTa and BART."""
    files = str(folder / "vocab.json"), str(folder / "merges.txt")
    engine = tokenizers.ByteLevelBPETokenizer.from_file(*files)
    names = (END_OF_TEXT, "<s>", "<pad>", "</s>", "<unk>")
    engine.add_special_tokens([name for name in names if engine.token_to_id(name) is not None])
    if engine.token_to_id("<mask>") is not None:
        engine.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    return _add_tokens(engine, folder)


def set_prefix_space(engine: tokenizers.Tokenizer, value: bool) -> None:
    """Set whether a byte-level tokenizer adds a space before a text; others do not change."""
    splitter = engine.pre_tokenizer
    if isinstance(splitter, pre_tokenizers.ByteLevel):
        splitter.add_prefix_space = value
        engine.pre_tokenizer = splitter


def _add_tokens(engine: Any, folder: Path) -> tokenizers.Tokenizer:
    """Return a tokenizer with the tokens of `added_tokens.json`, which maps tokens to ids."""
    path = folder / "added_tokens.json"
    added = read_json(path) if path.is_file() else {}
    if added is None:
        raise ValueError(f"{path} is damaged; copy it again")
    for token, number in sorted(added.items(), key=lambda item: item[1]):
        if engine.token_to_id(token) is None:
            engine.add_tokens([AddedToken(token, normalized=True)])
        if engine.token_to_id(token) != number:
            raise ValueError(
                f"{path.name}: the id of {token!r} must be {engine.token_to_id(token)}, got"
                f" {number}; give added tokens consecutive ids, starting with the vocabulary size"
            )
    return tokenizers.Tokenizer.from_str(engine.to_str())


READERS: dict[str, Callable[[Path], tokenizers.Tokenizer]] = {
    FILE: lambda folder: tokenizers.Tokenizer.from_file(str(folder / FILE)),
    "vocab.txt": _read_vocabulary,
    "merges.txt": _read_merges,
}
"""Functions that read a tokenizer from a folder, by file name, in order of preference."""


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file; None if it is missing, damaged or not an object."""
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def read_added_tokens(folder: Path) -> dict[str, int]:
    """Return the id of each token that `tokenizer_config.json` or `added_tokens.json` adds."""
    settings = read_json(folder / SETTINGS) or {}
    added = {
        str(token.get("content")): int(number)
        for number, token in (settings.get("added_tokens_decoder") or {}).items()
    }
    return added | (read_json(folder / "added_tokens.json") or {})
