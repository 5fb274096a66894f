"""Each kind of corpus reads its splits, and says what it misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attention_zoo.training import CORPORA, Corpus, Recipe
from attention_zoo.training.corpora import Pairs, kinds_for


def corpus(kind: str, **options: object) -> Corpus:
    kind_of: Any = CORPORA.get(kind)
    languages = {"source": "de", "target": "en"} if issubclass(kind_of, Pairs) else {}
    made: Corpus = kind_of(**languages, **options)
    return made


def test_dates_sizes_and_long_split() -> None:
    dates = corpus("dates", size=30, validation_size=7, test_size=5, max_phrases=1)
    sizes = {split: len(dates.read(split)) for split in ("train", "validation", "test", "long")}
    assert sizes == {"train": 30, "validation": 7, "test": 5, "long": 5}
    longest = max(len(text) for text in dates.read("train").sources)
    assert max(len(text) for text in dates.read("long").sources) > longest


def test_tsv(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("en\tde\na cat\teine Katze\nbad line\na dog\tein Hund\n")
    path = str(tmp_path / "a.tsv")
    pairs = corpus("tsv", train=path, skip_bad=1).read("train")
    assert pairs.sources == ["eine Katze", "ein Hund"]
    assert pairs.targets == ["a cat", "a dog"]
    with pytest.raises(ValueError, match=r"a\.tsv:3: "):
        corpus("tsv", train=path).read("train")
    with pytest.raises(ValueError, match=r"data\.test is missing; name the file"):
        corpus("tsv", train=path).read("test")


def test_parallel(tmp_path: Path) -> None:
    (tmp_path / "test.de").write_text("eine Katze\n")
    (tmp_path / "test.en").write_text("a cat\n")
    pairs = corpus("parallel", test=str(tmp_path / "test.{language}")).read("test")
    assert (pairs.sources, pairs.targets) == (["eine Katze"], ["a cat"])
    with pytest.raises(ValueError, match=r"data\.test=x: write \{language\} where"):
        corpus("parallel", test="x").read("test")


def test_tfds_needs_a_name() -> None:
    with pytest.raises(ValueError, match=r"data\.name is missing"):
        corpus("tfds").read("train")


@pytest.mark.parametrize("kind", CORPORA.names())
def test_unknown_split(kind: str) -> None:
    with pytest.raises(ValueError, match="unknown split; did you mean 'train'"):
        corpus(kind).read("trian")


def test_date_lines() -> None:
    options = {"size": 30, "validation_size": 7, "test_size": 5, "max_phrases": 1}
    lines = corpus("date_lines", **options)
    sizes = {split: len(lines.read(split)) for split in ("train", "validation", "test", "long")}
    assert sizes == {"train": 30, "validation": 7, "test": 5, "long": 5}
    french = corpus("date_lines", language="fr", **options).read("train")
    pairs = CORPORA.get("dates")(**options).read("train")
    assert lines.read("train").texts == pairs.sources
    assert french.texts == pairs.targets
    assert french.origin == "dates fr train (seed 1)"


def test_text(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("One line.\n\nAnd another.\n")
    lines = corpus("text", train=str(path)).read("train")
    assert lines.texts == ["One line.", "And another."]
    assert lines.origin == str(path)
    with pytest.raises(ValueError, match=r"data\.test is missing; name the file"):
        corpus("text", train=str(path)).read("test")


def test_examples_fit_the_task() -> None:
    assert kinds_for(("max_length",)) == ["date_lines", "text"]
    assert kinds_for(("max_source_length", "max_target_length"))[0] == "dates"
    with pytest.raises(
        ValueError, match=r"corpus=text: .* none of task translation; name one of d"
    ):
        Recipe(task="translation", data=corpus("text"))


@pytest.mark.parametrize("kind", CORPORA.names())
def test_limits_are_at_least_one(kind: str) -> None:
    for name in CORPORA.get(kind).limits:  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match=f"data.{name} must be at least 1, got 0"):
            corpus(kind, **{name: 0})
