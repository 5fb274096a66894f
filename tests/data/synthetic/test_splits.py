"""Sampling of corpora: deterministic by seed, with disjoint splits."""

from __future__ import annotations

from attention_zoo.data.synthetic.slots import RandomBelow
from attention_zoo.data.synthetic.splits import SPLITS, Candidate, PartRange, sample_corpus

FOUR_TO_SIX_DIGITS, THREE_DIGITS = (
    PartRange("digits", minimum, maximum, 9) for minimum, maximum in ((4, 6), (3, 3))
)


def sample_digits(count: int, randbelow: RandomBelow) -> Candidate:
    text = "".join(str(randbelow(10)) for _ in range(count))
    return text, lambda: (text, len(text))


def test_every_hash_value_is_in_one_split() -> None:
    assert sorted(value for values in SPLITS.values() for value in values) == list(range(100))


def test_small_corpus_is_a_prefix_of_a_large_one() -> None:
    small, large = (
        sample_corpus("x", "test", 1, size, FOUR_TO_SIX_DIGITS, sample_digits) for size in (20, 60)
    )
    assert list(large.items())[:20] == list(small.items())
    assert len(large) == 60
    assert all(len(text) == value for text, value in large.items())
    assert {*large.values()} == {4, 5, 6}
    assert sample_corpus("y", "test", 1, 20, FOUR_TO_SIX_DIGITS, sample_digits) != small


def test_splits_are_disjoint() -> None:
    """There are 1,000 texts of three digits; `long` has longer texts."""
    sizes = {"train": 500, "validation": 60, "test": 60}
    texts = [
        {*sample_corpus("x", name, 1, size, THREE_DIGITS, sample_digits)}
        for name, size in sizes.items()
    ]
    assert sum(map(len, texts)) == len(set.union(*texts)) == 620


def test_long_has_longer_sentences() -> None:
    texts = sample_corpus("x", "long", 1, 60, FOUR_TO_SIX_DIGITS, sample_digits)
    assert {*texts.values()} == {7, 8, 9, 10, 11, 12}
