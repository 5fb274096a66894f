"""The command `prepare`: what the cache then holds, and what is refused."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from attention_zoo import training
from attention_zoo.data import generate_dates
from attention_zoo.data_cache import DataCache
from attention_zoo.training.preparation import start_helpers
from tests.cli.test_main import Capture, output, refused
from tests.training.small import PAGE, assert_same_run, write_recipe

GENERATED = "corpus: dates\n  size: 300\n  validation_size: 40\n  test_size: 20\n  max_phrases: 1"
FILES = (
    "corpus: tsv\n  source: en\n  target: fr\n  train: train.tsv\n  validation: validation.tsv\n"
    "  cache: cache"
)


def write_corpus(folder: Path, size: int) -> Path:
    """Write a corpus and its recipe to a folder, which is the current one; return the recipe."""
    assert GENERATED in PAGE
    pairs = generate_dates(100, max_phrases=1)
    lines = [f"{en}\t{fr}\n" for en, fr in zip(pairs.sources, pairs.targets, strict=True)]
    for split, count in (("train", size), ("validation", 40)):
        rows = (lines[number % len(lines)] for number in range(count))
        (folder / f"{split}.tsv").write_text("en\tfr\n" + "".join(rows), encoding="utf-8")
    return write_recipe(folder, PAGE.replace(GENERATED, FILES))


def count_entries() -> Counter[str]:
    return Counter(entry.kind for entry in DataCache("cache").list_entries())


def test_all_data_is_prepared(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = write_corpus(tmp_path, 100)
    text = output(capsys, "prepare", recipe, "--processes", "4")  # too small for more than one
    assert text.endswith("100 train examples, 40 validation examples prepared\n")
    assert count_entries() == {"examples": 2, "tokenizer": 2, "tokens": 2, "fingerprint": 2}


def test_bad_input(tmp_path: Path, capsys: Capture) -> None:
    recipe = write_recipe(tmp_path)
    assert "its data has no cache to prepare; set data.cache" in refused(capsys, "prepare", recipe)
    message = "--processes must be at least 1, got 0"
    assert message in refused(capsys, "prepare", recipe, "--processes", "0")


@pytest.mark.slow
def test_two_processes_prepare_what_one_prepares(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = write_corpus(tmp_path, 20_000)
    output(capsys, "prepare", recipe, "--processes", "2")
    expected = {"examples": 2, "tokenizer": 2, "tokens": 2, "fingerprint": 2}
    assert count_entries() == expected
    short = ["training.steps=4", "training.evaluate_every=4"]
    for name, cache in (("cached", "cache"), ("uncached", "false")):
        training.fit(recipe, [f"run={name}", f"data.cache={cache}", *short])
    assert_same_run(tmp_path / "cached", tmp_path / "uncached")
    assert count_entries() == expected


@pytest.mark.slow
def test_a_helper_that_fails_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), start_helpers(["missing.yaml"], 1):
        pass
    (record,) = caplog.records
    assert record.getMessage().startswith("a helper process failed: attention-zoo: error: missing")
