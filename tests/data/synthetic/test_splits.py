"""Sentences are drawn as the seed says, and no two splits share one."""

from __future__ import annotations

from attention_zoo.data.synthetic.slots import Pick
from attention_zoo.data.synthetic.splits import SPLITS, Drawn, Parts, draw_sentences

FEW, THREE = (Parts("digits", least, most, 9) for least, most in ((4, 6), (3, 3)))


def digits(count: int, pick: Pick) -> Drawn:
    text = "".join(str(pick(10)) for _ in range(count))
    return text, lambda: (text, len(text))


def test_every_hash_value_is_of_one_split() -> None:
    assert sorted(value for values in SPLITS.values() for value in values) == list(range(100))


def test_a_larger_corpus_begins_with_a_smaller_one() -> None:
    few, many = (draw_sentences("x", "test", 1, size, FEW, digits) for size in (20, 60))
    assert list(many.items())[:20] == list(few.items())
    assert len(many) == 60
    assert all(len(text) == value for text, value in many.items())
    assert {*many.values()} == {4, 5, 6}
    assert draw_sentences("y", "test", 1, 20, FEW, digits) != few


def test_splits_share_nothing() -> None:
    """Of the thousand texts of three digits, many in each; `long` draws longer ones."""
    shares = {"train": 500, "validation": 60, "test": 60}
    found = [{*draw_sentences("x", name, 1, size, THREE, digits)} for name, size in shares.items()]
    assert sum(map(len, found)) == len(set.union(*found)) == 620


def test_long_has_longer_ones() -> None:
    found = draw_sentences("x", "long", 1, 60, FEW, digits)
    assert {*found.values()} == {7, 8, 9, 10, 11, 12}
