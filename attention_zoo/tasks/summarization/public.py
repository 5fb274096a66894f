"""Load BART and T5 checkpoints as summarization tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attention_zoo import models
from attention_zoo.data import load_tokenizer
from attention_zoo.data.tokenizers.public_tokenizers import BartTokenizer
from attention_zoo.data.tokenizers.sentencepiece_tokenizer import T5_MODEL, SentencePieceTokenizer
from attention_zoo.data.tokenizers.vocabulary import END, START, UNKNOWN
from attention_zoo.tasks.generation_config import read_search_options
from attention_zoo.tasks.summarization.task import Summarization

SPECIAL: dict[str, tuple[type, int]] = {
    "bart": (BartTokenizer, 3),
    "t5": (SentencePieceTokenizer, 2),
}
"""Class of the tokenizer and id of `<unk>` by `model_type`."""

T5_LENGTH = 512
"""Length of the sources in the training of T5, which has no limit of its own."""


def load_public_summarization(folder: Path, config: dict[str, Any]) -> Summarization:
    """Load a BART or T5 checkpoint as a task, with its tokenizer and search options.

    The fields of `task_specific_params["summarization"]` apply where `generation_config.json` has
    none; the prefix of the sources comes from there, or from `prefix` of `config.json`.

    Args:
        folder: the checkpoint.
        config: contents of its `config.json`.

    Raises:
        ValueError: a file is missing or damaged, the vocabulary is smaller than that of the model,
            or a field is not supported.
    """
    if config["model_type"] == "t5" and not (folder / T5_MODEL).is_file():
        raise ValueError(f"{folder / T5_MODEL}: No such file; copy it from the checkpoint")
    tokenizer = load_tokenizer(folder)
    _check_tokenizer(folder, config, tokenizer)
    size = tokenizer.vocabulary_size
    sizes = {"source_vocabulary_size": size, "target_vocabulary_size": size}
    model = models.from_public(folder, models.Transformer, **sizes)
    path = folder / "config.json"
    options = _get_dict(path, _get_dict(path, config, "task_specific_params"), "summarization")
    prefix = options.pop("prefix", config.get("prefix")) or ""
    if not isinstance(prefix, str):
        raise ValueError(f"{path}: prefix must be a string, got {prefix!r}; copy the file again")
    longest = model.max_length or config.get("n_positions", T5_LENGTH)
    if type(longest) is not int or longest < 1:
        raise ValueError(
            f"{path}: n_positions must be an integer of at least 1, got {longest!r}; copy the file"
            " again"
        )
    config = {"decoder_start_token_id": config["pad_token_id"], **config}
    if config.get("force_bos_token_to_be_generated"):  # of older checkpoints
        config = {"forced_bos_token_id": config.get("bos_token_id"), **config}
    search = read_search_options(folder, config, tokenizer.from_checkpoint_id, longest, options)
    return Summarization(
        model,
        tokenizer,
        search,
        max_source_length=longest,
        max_target_length=longest,
        truncate_source=True,
        source_prefix=prefix,
        add_source_end=True,
    )


def _check_tokenizer(folder: Path, config: dict[str, Any], tokenizer: Any) -> None:
    """Raise ValueError for a tokenizer of another family or with other special tokens."""
    family = config["model_type"]
    required: Any
    required, unknown = SPECIAL[family]
    if not isinstance(tokenizer, required):
        raise ValueError(
            f"{folder}: a {family} checkpoint requires a {required.__name__}, got a"
            f" {type(tokenizer).__name__}; such checkpoints are not supported"
        )
    ids = [tokenizer.to_checkpoint_id(token) for token in (UNKNOWN, START, END)]
    expected = [unknown, config.get("pad_token_id"), config.get("eos_token_id")]
    if ids != expected:
        raise ValueError(
            f"{folder}: <unk>, <pad> and </s> must have the ids {expected} of config.json and of"
            f" this family, but the tokenizer has {ids}; such checkpoints are not supported"
        )


def _get_dict(path: Path, content: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a copy of a dict in a config, {} if there is none; ValueError for another value."""
    value = content.get(name) or {}
    if not isinstance(value, dict):
        raise ValueError(f"{path}: {name} must be an object, got {value!r}; copy the file again")
    return dict(value)
