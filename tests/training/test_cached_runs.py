"""Runs on cached data equal runs on data in memory, also if they are killed while preparing it."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from attention_zoo import training
from attention_zoo.data import generate_dates
from attention_zoo.data_cache import DataCache
from tests.training.processes import configs, end, start
from tests.training.small import PAGE, assert_same_run, write_recipe

GENERATED = "corpus: dates\n  size: 300\n  validation_size: 40\n  test_size: 20\n  max_phrases: 1"
FILES = "corpus: tsv\n  source: en\n  target: fr\n  train: train.tsv\n  validation: validation.tsv"
RESUMED = ("model.dropout=0.2", "training.schedule=constant")
TRAIN = """
import os, signal, sys
from attention_zoo import training
from attention_zoo.data.batching.encoded import EncodedCorpus

extend, left = EncodedCorpus.extend, [int(sys.argv[1])]

def extend_or_die(self, *arguments):
    extend(self, *arguments)
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

EncodedCorpus.extend = extend_or_die
training.fit(sys.argv[2], sys.argv[3:])
"""


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Recipe of a corpus in files in the current folder."""
    monkeypatch.chdir(tmp_path)
    for split, size in (("train", 300), ("validation", 40)):
        pairs = generate_dates(size, split=split, max_phrases=1)
        lines = [f"{en}\t{fr}\n" for en, fr in zip(pairs.sources, pairs.targets, strict=True)]
        (tmp_path / f"{split}.tsv").write_text("en\tfr\n" + "".join(lines), encoding="utf-8")
    assert GENERATED in PAGE
    return write_recipe(tmp_path, PAGE.replace(GENERATED, FILES))


def train(words: list[str], encoded: int = 0) -> int:
    """Train in a subprocess, killed after `encoded` parts (0: never); return its exit code."""
    command = [sys.executable, "-c", TRAIN, str(encoded), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2000:]
    return done.returncode


@pytest.mark.slow
def test_a_run_that_is_killed_and_resumed_equals_one_without_a_cache(
    recipe: Path, tmp_path: Path
) -> None:
    words = [str(recipe), *RESUMED]
    whole = training.fit(recipe, [*RESUMED, "run=whole", "data.cache=false"]).folder
    cached = [*words, "run=run", "data.cache=cache"]
    assert train(cached, encoded=1) == -signal.SIGKILL
    kinds = [entry.kind for entry in DataCache("cache").list_entries()]
    assert "examples" in kinds
    assert "tokens" not in kinds
    assert train([*cached, "training.steps=20"]) == 0
    assert "tokens" in {entry.kind for entry in DataCache("cache").list_entries()}
    shutil.copytree("run", "copy")
    for name, cache in (("run", "cache"), ("copy", "false")):
        words = [*RESUMED, f"run={name}", f"data.cache={cache}"]
        training.fit(recipe, words, allow=["training.steps"])
        assert_same_run(whole, tmp_path / name)


@pytest.mark.slow
def test_two_processes_share_a_cache(recipe: Path, tmp_path: Path) -> None:
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", TRAIN, "0", str(recipe), f"run={name}", "data.cache=cache"]
        )
        for name in ("one", "two")
    ]
    assert [program.wait(120) for program in programs] == [0, 0]
    assert_same_run(tmp_path / "one", tmp_path / "two")
    assert not [path for path in (tmp_path / "cache").glob(".*") if path.is_dir()]


@pytest.mark.slow
def test_two_hosts_that_share_a_cache_equal_two_without_one(recipe: Path, tmp_path: Path) -> None:
    for name, cache in (("cached", "cache"), ("uncached", "false")):
        words = ["0", str(recipe), f"run={name}", f"data.cache={cache}"]
        for process in [start(TRAIN, words, TF_CONFIG=config) for config in configs(2)]:
            end(process)
    assert_same_run(tmp_path / "cached", tmp_path / "uncached")
    kinds = Counter(entry.kind for entry in DataCache("cache").list_entries())
    training.fit(recipe, ["run=again", "data.cache=cache"])
    assert Counter(entry.kind for entry in DataCache("cache").list_entries()) == kinds


@pytest.mark.slow
def test_a_run_resumes_after_the_cache_is_cleared_and_refuses_changed_data(
    recipe: Path, tmp_path: Path
) -> None:
    words = ["run=run", "data.cache=cache"]
    training.fit(recipe, [*words, "training.steps=20"])
    assert DataCache("cache").clear()[0] == 8
    training.fit(recipe, words, allow=["training.steps"])
    path = tmp_path / "train.tsv"
    path.write_text(path.read_text("utf-8").replace("1", "2", 1), encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"data\.train 300 -> 300 examples, first change among exam"
    ):
        training.fit(recipe, [*words, "training.steps=60"], allow=["training.steps"])
