"""Tokens, where words begin, characters and marks of a batch stay beside the words' tags."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.data import EncodedWords, TaggedBatches
from tests.refusals import refuses

RNG = np.random.default_rng(0)


def sentence(words: int, pieces: int = 1, characters: bool = False, marks: bool = False) -> Any:
    """A sentence of words of 1 to `pieces` tokens each."""
    sizes = RNG.integers(1, pieces + 1, size=words)
    tokens = RNG.integers(4, 50, size=sizes.sum()).tolist()
    starts = (np.cumsum(sizes) - sizes).tolist()
    spelt = [RNG.integers(4, 30, size=RNG.integers(1, 12)).tolist() for _ in tokens]
    marked = (RNG.random(len(tokens)) < 0.3).tolist()
    return EncodedWords(tokens, starts, spelt if characters else None, marked if marks else None)


def corpus(size: int = 41, **options: Any) -> tuple[list[EncodedWords], list[list[int]]]:
    sentences = [sentence(words, **options) for words in RNG.integers(1, 20, size=size)]
    return sentences, [RNG.integers(0, 5, size=len(one.starts)).tolist() for one in sentences]


@pytest.mark.parametrize("pieces", [1, 3])
def test_everything_of_a_sentence_is_in_its_row(pieces: int) -> None:
    sentences, labels = corpus(pieces=pieces, characters=True, marks=True)
    made = TaggedBatches(sentences, labels, batch_size=8, seed=1)
    seen = []
    for step in range(made.steps_per_pass):
        inputs, tags = made.at(step)
        assert {array.dtype for array in (*inputs.values(), tags)} == {np.dtype("int32")}
        assert ("starts" in inputs) == (pieces > 1)
        assert inputs["tokens"].shape == inputs["characters"].shape[:2] == inputs["marks"].shape
        assert inputs["tokens"].shape[1] % 4 == 0
        assert tags.shape == inputs.get("starts", inputs["tokens"]).shape
        for at, row in enumerate(made.rows(step)):
            one = sentences[row]
            live = inputs["tokens"][at] != 0
            assert inputs["tokens"][at, live].tolist() == one.tokens
            spelt = inputs["characters"][at]
            assert [[i for i in token if i] for token in spelt[live]] == one.characters
            assert not spelt[~live].any()
            assert inputs["marks"][at, live].tolist() == one.marks
            assert not inputs["marks"][at, ~live].any()
            words = tags[at] >= 0
            assert tags[at, words].tolist() == labels[row]
            assert set(tags[at, ~words]) <= {-1}
            if pieces > 1:
                assert (inputs["starts"][at, words] - 1).tolist() == one.starts
                assert not inputs["starts"][at, ~words].any()
            seen.append(int(row))
    assert sorted(seen) == list(range(len(sentences)))


def test_characters_are_padded_to_the_longest_word_of_the_batch_alone() -> None:
    long = EncodedWords([4], [0], [[5] * 30])
    made = TaggedBatches([EncodedWords([4, 5], [0, 1], [[6], [7, 8]]), long], [[0, 1], [2]], 1, 1)
    assert made.batch(np.array([0]))[0]["characters"].shape == (1, 4, 4)
    assert made.batch(np.array([0, 1]))[0]["characters"].shape == (2, 4, 32)


@refuses(
    ([], [], "no sentences to make batches of"),
    ([sentence(2)], [], "got 0 label sequences and 1 sentences"),
    ([sentence(2), sentence(3)], [[0, 1], [0, 1]], "sentence 1 has 3 words but 2"),
    ([EncodedWords([], [])], [[]], "sentence 0 is empty"),
    ([EncodedWords([4], [0], [[]])], [[0]], "the character sequence of token 0 is"),
)
def test_mistakes(sentences: Any, labels: Any) -> None:
    TaggedBatches(sentences, labels, 8, 1)
