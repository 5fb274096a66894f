"""Each kind of corpus reads its splits, and says what it misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from attention_zoo.training import CORPORA, Corpus


def corpus(kind: str, **options: object) -> Corpus:
    made: Corpus = CORPORA.get(kind)(source="de", target="en", **options)
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
