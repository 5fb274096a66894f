"""Checks for changes of the recipe or the data when a run is resumed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from attention_zoo.data.progress import log_batches
from attention_zoo.data_cache import get_corpus_cache
from attention_zoo.json_files import MAX_VOCABULARY_BYTES, read_strict_json
from attention_zoo.registry import did_you_mean
from attention_zoo.tasks import Corpus
from attention_zoo.training.recipe import Recipe

FIXED_OPTIONS = ("optimizer", "precision", "frozen", "accumulate", "ema")
FIXED = ("task", "init", "tokenizer", "model", *(f"training.{name}" for name in FIXED_OPTIONS))
"""Keys and sections that determine what a checkpoint holds; they cannot change."""

PATHS = ("init", "tokenizer.vectors", "model.encoder.weights", "data.data_dir")
"""Keys whose values are paths; another path of the same file or folder is not a change."""

ALWAYS_ALLOWED = ("imports", "data.cache")
"""Keys that may change without `allow`, because no result depends on their values."""

BLOCK = 1000  # examples per hash

FINGERPRINT = "fingerprint.json"
"""Name of the file in an entry of the cache."""

Fingerprint = dict[str, Any]


def find_recipe_changes(old: Recipe, new: Recipe) -> dict[str, str]:
    """Return the differences between two recipes, except `run`: one line of text per key."""
    before, after = flatten_recipe(old), flatten_recipe(new)
    return {
        key: f"{key} {before.get(key)} -> {after.get(key)}"
        for key in before | after
        if key != "run" and before.get(key) != after.get(key)
        if key not in PATHS or not is_same_path(before.get(key), after.get(key))
    }


def is_same_path(one: Any, other: Any) -> bool:
    """Return whether two values are paths of the same file or folder, or equal."""
    if isinstance(one, str) and isinstance(other, str):
        return os.path.realpath(one) == os.path.realpath(other)
    return bool(one == other)


class SplitReader:
    """Reader of corpus splits that keeps their examples and fingerprints.

    Args:
        corpus: the corpus.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._examples: dict[str, Any] = {}
        self._fingerprints: dict[str, Fingerprint] = {}

    def read(self, split: str) -> Any:
        """Return the examples of a split; raise ValueError for bad data."""
        if split not in self._examples:
            self._examples[split] = self.corpus.read(split)
        return self._examples[split]

    def read_fingerprint(self, split: str) -> Fingerprint:
        """Return the fingerprint of a split; raise ValueError for bad data."""
        if split not in self._fingerprints:
            self._fingerprints[split] = load_or_compute_fingerprint(self.read(split))
        return self._fingerprints[split]

    def read_fingerprints(self, splits: Sequence[str]) -> dict[str, Fingerprint]:
        """Return the fingerprints of splits; raise ValueError for bad data."""
        return {split: self.read_fingerprint(split) for split in splits}

    def clear(self) -> None:
        """Free the memory of the examples; keep the fingerprints."""
        self._examples.clear()


def load_or_compute_fingerprint(examples: Any) -> Fingerprint:
    """Return the fingerprint of a split, from the cache if its examples are there."""
    cache = get_corpus_cache(examples)
    if cache is None:
        return compute_fingerprint(examples)

    def write(folder: Path) -> None:
        text = json.dumps(compute_fingerprint(examples))
        (folder / FINGERPRINT).write_text(text, encoding="utf-8")

    folder = cache.get_or_create("fingerprint", {}, write)
    fingerprint: Fingerprint = read_strict_json(folder / FINGERPRINT, MAX_VOCABULARY_BYTES)
    return fingerprint


def compute_fingerprint(examples: Iterable[Any]) -> Fingerprint:
    """Return the number of examples of a split, and the SHA-256 of each block of 1000.

    Args:
        examples: each consists of strings, numbers, arrays, or lists of these.
    """
    encode = json.JSONEncoder(default=lambda array: array.tolist()).encode
    count, hashes = 0, []
    for block in log_batches(examples, BLOCK, "comparing with the data of the run", "examples"):
        hashes.append(hashlib.sha256("\n".join(map(encode, block)).encode()).hexdigest())
        count += len(block)
    return {"examples": count, "sha256": hashes}


def find_data_changes(
    old: Mapping[str, Fingerprint], new: Mapping[str, Fingerprint]
) -> dict[str, str]:
    """Return the differences between old and new splits: one line per `data.<split>`."""
    changes = {}
    for split in new:
        before, after = old.get(split, new[split]), new[split]
        pairs = zip_longest(before["sha256"], after["sha256"])
        block = next((number for number, (a, b) in enumerate(pairs) if a != b), None)
        if block is not None:
            then, now = before["examples"], after["examples"]
            last = min((block + 1) * BLOCK, max(then, now))
            changes[f"data.{split}"] = (
                f"data.{split} {then} -> {now} examples,"
                f" first change among examples {block * BLOCK + 1} to {last}"
            )
    return changes


def refuse_changes(folder: Path, changes: Mapping[str, str], allow: Sequence[str]) -> None:
    """Raise ValueError with the changes unless all are allowed and none is in `FIXED`."""
    fixed = [key for key in changes if is_covered(key, FIXED)]
    if fixed:
        raise ValueError(
            f"{folder}: the recipe differs from the one this run was started with:"
            f" {'; '.join(changes.values())}; {', '.join(fixed)} cannot change within a run."
            f" Use another run=FOLDER (init={folder} starts from the weights of this run),"
            " or resume with the same recipe"
        )
    left = [key for key in changes if not is_covered(key, (*allow, *ALWAYS_ALLOWED))]
    if left:
        raise ValueError(
            f"{folder}: the recipe or the data differ from those this run was started with:"
            f" {'; '.join(changes[key] for key in left)}. Revert the change, use another"
            f" run=FOLDER, or pass --allow {','.join((*allow, *left))}"
        )


def check_allowed(recipe: Recipe, allow: Sequence[str]) -> None:
    """Raise ValueError unless each name is a key or section of the recipe or `data.<split>`."""
    if isinstance(allow, str):
        raise ValueError(f"allow must be a list of names, got {allow!r}; pass [{allow!r}]")
    keys = [*flatten_recipe(recipe), *(f"data.{split}" for split in recipe.data.splits)]
    known = {*keys, *(key.partition(".")[0] for key in keys)}
    for name in allow:
        if name not in known:
            raise ValueError(f"--allow {name}: unknown recipe key{did_you_mean(name, known)}")


def is_covered(key: str, names: Iterable[str]) -> bool:
    """Return whether a key, or a section that contains it, is among the names."""
    return any(key == name or key.startswith(f"{name}.") for name in names)


def flatten_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return the values of a recipe by dotted key."""
    return dict(_find_leaves(OmegaConf.to_container(OmegaConf.structured(recipe))))


def _find_leaves(content: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _find_leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
