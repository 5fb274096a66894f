"""Readers of the files that `transformers` saves: engines of tokenizers, and settings."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, pre_tokenizers

from attention_zoo.json_files import (
    MAX_BYTES,
    MAX_VOCABULARY_BYTES,
    parse_strict_json,
    read_limited,
    read_limited_lines,
    read_strict_json,
)

FILE = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
CONFIG = "config.json"
MAX_ID = 1 << 22
"""Number of ids that a vocabulary may have."""
END_OF_TEXT = "<|endoftext|>"


def _read_vocabulary(folder: Path) -> tokenizers.Tokenizer:
    """Return the WordPiece tokenizer of a released BERT."""
    read_limited_lines(folder / "vocab.txt")
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
    try:
        _check_ids(read_strict_json(folder / "vocab.json", MAX_VOCABULARY_BYTES))
    except ValueError as error:
        raise ValueError(f"vocab.json: {error}") from None
    read_limited_lines(folder / "merges.txt")
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


def _read_engine(folder: Path) -> tokenizers.Tokenizer:
    """Return the tokenizer of a `tokenizer.json`."""
    content = read_limited(folder / FILE, MAX_VOCABULARY_BYTES)
    fields = parse_strict_json(content)
    _check_ids(fields["model"].get("vocab"))
    if '"Precompiled"' in json.dumps(fields.get("normalizer")):  # damaged rules end the process
        raise ValueError("a normalizer of the type Precompiled is not supported")
    return tokenizers.Tokenizer.from_str(content.decode("utf-8"))


def _check_ids(vocabulary: Any) -> None:
    """Raise ValueError for token ids that are not below `MAX_ID`."""
    if isinstance(vocabulary, dict):
        for token, number in vocabulary.items():
            if type(number) is not int or not 0 <= number < MAX_ID:
                raise ValueError(f"the id of {token!r} must be from 0 to {MAX_ID - 1}")


def is_engine_file(path: Path) -> bool:
    """Return whether a `tokenizer.json` is that of a public checkpoint.

    That of this library has a few fields, and no "model".
    """
    with suppress(OSError, TypeError, ValueError):  # TypeError: the content is a number or null
        return path.stat().st_size > MAX_BYTES or "model" in read_strict_json(path)
    return False


READERS: dict[str, Callable[[Path], tokenizers.Tokenizer]] = {
    FILE: _read_engine,
    "vocab.txt": _read_vocabulary,
    "merges.txt": _read_merges,
}
"""Functions that read a tokenizer from a folder, by file name, in order of preference."""


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file; None if it is missing, damaged or not an object."""
    try:
        content = read_strict_json(path)
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
