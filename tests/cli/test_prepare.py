"""Tests of the command `prepare`."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from attention_zoo import training
from attention_zoo.data import generate_dates
from attention_zoo.data_cache import DataCache
from attention_zoo.training import preparation
from attention_zoo.training.preparation import run_helpers
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
    assert "the training data is not cached; set data.cache=true" in refused(
        capsys, "prepare", recipe
    )
    message = "processes must be at least 1, got 0"
    assert message in refused(capsys, "prepare", recipe, "--processes", "0")


@pytest.mark.slow
def test_two_processes_prepare_what_one_prepares(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_for_helper(*arguments: Any) -> Any:
        for _ in range(600):
            if count_entries()["tokens"]:
                break
            time.sleep(0.1)
        entries.append(count_entries()["tokens"])
        return make_task(*arguments)

    entries: list[int] = []
    make_task = preparation.make_task
    monkeypatch.setattr(preparation, "make_task", wait_for_helper)
    monkeypatch.setattr(preparation, "EXAMPLES_PER_PROCESS", 10_000)
    monkeypatch.chdir(tmp_path)
    recipe = write_corpus(tmp_path, 20_000)
    output(capsys, "prepare", recipe, "--processes", "2")
    assert entries[0] >= 1  # written by the other process
    expected = {"examples": 2, "tokenizer": 2, "tokens": 2, "fingerprint": 2}
    assert count_entries() == expected
    short = ["training.steps=4", "training.evaluate_every=4"]
    for name, cache in (("cached", "cache"), ("uncached", "false")):
        training.fit(recipe, [f"run={name}", f"data.cache={cache}", *short])
    assert_same_run(tmp_path / "cached", tmp_path / "uncached")
    assert count_entries() == expected


@pytest.mark.slow
def test_a_helper_that_fails_is_reported() -> None:
    message = "a process that helps to prepare failed: attention-zoo: error: .*missing.yaml"
    with pytest.warns(UserWarning, match=message), run_helpers(["./missing.yaml"], 1):
        pass


@pytest.mark.slow
def test_helpers_stop_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Recorded(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    monkeypatch.chdir(tmp_path)
    arguments = [str(write_corpus(tmp_path, 20_000))]
    with pytest.raises(ValueError, match="bad data"), run_helpers(arguments, 2):
        raise ValueError("bad data")
    assert [helper.poll() is None for helper in started] == [False, False]
    assert not [path for path in Path("cache").glob(".*") if path.is_dir()]
