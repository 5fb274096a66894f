"""Alignment error rate: worked values, definitions by sets, and bad links."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest

from attention_zoo.inspection import alignment_error
from attention_zoo.inspection.alignment_error import (
    AlignmentScores,
    alignment_error_rate,
    find_word_ids,
    links_from_weights,
)

SURE = [{(0, 0), (1, 1)}, {(0, 1)}]
POSSIBLE = [{(2, 1), (1, 2)}, set()]


def test_scores_worked_by_hand() -> None:
    """|A| = 4, |S| = 3, |A & S| = 2, |A & P| = 3."""
    alignments = [{(0, 0), (2, 1), (2, 2)}, {(0, 1)}]
    result = alignment_error_rate(alignments, SURE, POSSIBLE)
    assert result == AlignmentScores(1 - (2 + 3) / (4 + 3), 3 / 4, 2 / 3)
    only_sure = alignment_error_rate(alignments, SURE)
    assert only_sure == AlignmentScores(1 - 4 / 7, 2 / 4, 2 / 3)


def test_sure_links_are_possible_without_being_listed() -> None:
    listed = [possible | sure for possible, sure in zip(POSSIBLE, SURE, strict=True)]
    alignments = [[(0, 0), (1, 2)], [(0, 0)]]
    expected = alignment_error_rate(alignments, SURE, listed)
    assert alignment_error_rate(alignments, SURE, POSSIBLE) == expected


def test_perfect_wrong_and_missing_alignments() -> None:
    assert alignment_error_rate(SURE, SURE, POSSIBLE) == (0.0, 1.0, 1.0)
    all_possible = [possible | sure for possible, sure in zip(POSSIBLE, SURE, strict=True)]
    assert alignment_error_rate(all_possible, SURE, POSSIBLE) == (0.0, 1.0, 1.0)
    assert alignment_error_rate([{(5, 5)}, set()], SURE) == (1.0, 0.0, 0.0)
    assert alignment_error_rate([[], []], SURE) == (1.0, 0.0, 0.0)


def test_counts_are_summed_over_the_corpus() -> None:
    """The mean of the sentences' rates, 0 and 1, would be 0.5."""
    sure = [{(0, 0), (1, 1), (2, 2)}, {(0, 0)}]
    result = alignment_error_rate([sure[0], {(0, 1)}], sure)
    assert result == AlignmentScores(0.25, 0.75, 0.75)


def test_repeated_links_and_numpy_integers_count_once() -> None:
    links = [[np.array([0, 0]), (0, 0), (np.int64(0), np.int32(0))]]
    assert alignment_error_rate(links, [{(0, 0)}]) == (0.0, 1.0, 1.0)


BAD: dict[str, tuple[Any, str]] = {
    "sentences": (([set()], SURE), "alignments and sure must have one entry.*got 1 and 2"),
    "possible": ((SURE, SURE, [set()]), "alignments and possible must have"),
    "lengths": ((SURE, SURE, None, [(2, 2)]), "alignments and lengths must have"),
    "target": (
        (SURE, SURE, None, [(2, 2), (0, 2)]),
        r"alignments, sentence 1: link \(0, 1\) is out of range for 0 target tokens and 2 source",
    ),
    "source": (
        (SURE, SURE, [{(0, 2)}, set()], [(2, 2), (1, 2)]),
        r"possible, sentence 0: link \(0, 2\) is out of range",
    ),
    "sure": (([{(0, 0)}], [{(2, 0)}], None, [(2, 2)]), r"sure, sentence 0: link \(2, 0\) is out"),
    "negative": (([{(0, -1)}], [{(0, 0)}]), r"sentence 0: link \(0, -1\) must be a pair"),
    "float": (([{(0, 1.0)}], [{(0, 0)}]), "must be a pair .* of integers from 0"),
    "triple": (([{(0, 1, 2)}], [{(0, 0)}]), "must be a pair"),
    "number": (([{3}], [{(0, 0)}]), "link 3 must be a pair"),
    "nothing": (([{(0, 0)}], [set()]), "sure must have at least one link"),
    "no_sentence": (([], []), "sure must have at least one link"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_links(name: str) -> None:
    arguments, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        alignment_error_rate(*arguments)


def test_links_of_maximum_weights() -> None:
    weights = [[0.2, 0.5, 0.3], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    assert links_from_weights(weights) == {(0, 1), (1, 0)}  # ties: the first; zeros: none
    assert links_from_weights(np.zeros((0, 3))) == set()
    assert links_from_weights(np.zeros((3, 0))) == set()


def test_links_above_a_threshold() -> None:
    weights = [[0.2, 0.5, 0.3], [0.5, 0.5, 0.0]]
    assert links_from_weights(weights, 0.25) == {(0, 1), (0, 2), (1, 0), (1, 1)}
    assert links_from_weights(weights, 0.5) == set()
    assert links_from_weights(weights, 0) == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((2, 2, 2)),), r"weights must be \(T, S\) of one sentence, got shape \(2, 2, 2\)"),
        (([[np.nan, 1.0]],), "weights must be finite"),
        (([[1.0]], np.inf), "threshold must be a finite number"),
        (([[1.0]], True), "threshold must be a finite number"),
    ],
)
def test_bad_weights(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        links_from_weights(*arguments)


def test_words_of_tokens() -> None:
    words = [(1, 4), (4, 6), (9, 12)]
    offsets = [(0, 0), (0, 1), (0, 2), (1, 2), (3, 5), (4, 4), (5, 6), (6, 9), (7, 11), (11, 20)]
    expected = [None, None, 0, 0, 0, None, 1, None, 2, 2]
    assert find_word_ids(offsets, words) == expected
    assert find_word_ids(offsets, []) == [None] * len(offsets)
    assert find_word_ids([], words) == []
    assert find_word_ids(np.array([[0, 4], [4, 6]]), np.array([[0, 4], [4, 6]])) == [0, 1]


@pytest.mark.parametrize("seed", range(5))
def test_words_of_tokens_are_those_of_their_characters(seed: int) -> None:
    generator = np.random.default_rng(seed)
    bounds = np.sort(generator.choice(40, 12, replace=False))
    words = [(int(start), int(end)) for start, end in bounds.reshape(6, 2)]
    starts = generator.integers(0, 40, 60)
    offsets = [
        (int(start), int(start + n))
        for start, n in zip(starts, generator.integers(0, 6, 60), strict=True)
    ]
    owner = {i: number for number, (start, end) in enumerate(words) for i in range(start, end)}
    expected = [
        next((owner[i] for i in range(start, end) if i in owner), None) for start, end in offsets
    ]
    assert find_word_ids(offsets, words) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([(0, 1)], [(0, 4), (3, 5)]), "word 1 starts at 3, before the end of word 0, 4"),
        (([(2, 5)], [(3, 3), (3, 5)]), "words must not be empty"),
        (([(0, 1)], [(5, 6), (0, 1)]), "words must be in order and not overlap"),
        (([(0, 1), (3, 2)], []), r"offsets: entry 1 must be \(start, end\).*got \(3, 2\)"),
        (([(0.0, 1)], []), "offsets: entry 0 must be"),
        (([], [(-1, 2)]), "words: entry 0 must be"),
        (([3], []), "offsets: entry 0 must be.*got 3"),
        (([(1, 2, 3)], []), "offsets: entry 0 must be"),
    ],
)
def test_bad_positions_of_words(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        find_word_ids(*arguments)


def test_examples_of_the_docstrings() -> None:
    results = doctest.testmod(alignment_error)
    assert results.attempted
    assert not results.failed
