"""Batches of tagged sentences: tokens, word starts, characters, marks and tags."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.data import EncodedWords, TaggedBatches
from attention_zoo.data.batching.encoded import EncodedCorpus
from attention_zoo.data.batching.tagged_batches import list_columns
from tests.refusals import refuses

RNG = np.random.default_rng(0)


def make_sentence(
    words: int, pieces: int = 1, characters: bool = False, marks: bool = False
) -> Any:
    """Return a sentence with 1 to `pieces` tokens per word."""
    sizes = RNG.integers(1, pieces + 1, size=words)
    tokens = RNG.integers(4, 50, size=sizes.sum()).tolist()
    starts = (np.cumsum(sizes) - sizes).tolist()
    characters_of_tokens = [RNG.integers(4, 30, size=RNG.integers(1, 12)).tolist() for _ in tokens]
    marked = (RNG.random(len(tokens)) < 0.3).tolist()
    return EncodedWords(
        tokens, starts, characters_of_tokens if characters else None, marked if marks else None
    )


def make_corpus(size: int = 41, **options: Any) -> tuple[list[EncodedWords], list[list[int]]]:
    sentences = [make_sentence(words, **options) for words in RNG.integers(1, 20, size=size)]
    return sentences, [RNG.integers(0, 5, size=len(one.starts)).tolist() for one in sentences]


@pytest.mark.parametrize("pieces", [1, 3])
def test_each_row_has_all_inputs_of_its_sentence(pieces: int) -> None:
    sentences, labels = make_corpus(pieces=pieces, characters=True, marks=True)
    batches = TaggedBatches(sentences, labels, batch_size=8, seed=1)
    rows_seen = []
    for step in range(batches.steps_per_epoch):
        inputs, tags = batches.get_batch(step)
        assert {array.dtype for array in (*inputs.values(), tags)} == {np.dtype("int32")}
        assert ("starts" in inputs) == (pieces > 1)
        assert inputs["tokens"].shape == inputs["characters"].shape[:2] == inputs["marks"].shape
        assert inputs["tokens"].shape[1] % 4 == 0
        assert tags.shape == inputs.get("starts", inputs["tokens"]).shape
        for index, row in enumerate(batches.get_rows(step)):
            one = sentences[row]
            is_token = inputs["tokens"][index] != 0
            assert inputs["tokens"][index, is_token].tolist() == one.tokens
            characters_of_tokens = inputs["characters"][index]
            assert [
                [i for i in token if i] for token in characters_of_tokens[is_token]
            ] == one.characters
            assert not characters_of_tokens[~is_token].any()
            assert inputs["marks"][index, is_token].tolist() == one.marks
            assert not inputs["marks"][index, ~is_token].any()
            words = tags[index] >= 0
            assert tags[index, words].tolist() == labels[row]
            assert set(tags[index, ~words]) <= {-1}
            if pieces > 1:
                assert (inputs["starts"][index, words] - 1).tolist() == one.starts
                assert not inputs["starts"][index, ~words].any()
            rows_seen.append(int(row))
    assert sorted(rows_seen) == list(range(len(sentences)))


@pytest.mark.parametrize("pieces", [1, 3])
def test_sentences_added_in_parts_give_equal_batches(pieces: int) -> None:
    sentences, labels = make_corpus(pieces=pieces, characters=True, marks=True)
    if pieces > 1:  # only the last part has words of several tokens
        singles, single_labels = make_corpus(30, characters=True, marks=True)
        sentences, labels = [*singles, *sentences], [*single_labels, *labels]
    encoded = EncodedCorpus()
    for part in (slice(0, 7), slice(7, 7), slice(7, 30), slice(30, None)):
        rows = range(*part.indices(len(sentences)))
        encoded.extend(rows, list_columns(sentences[part], labels[part]))
    whole, parts = (
        TaggedBatches(*arguments, batch_size=8, seed=1)
        for arguments in ((sentences, labels), (encoded, ()))
    )
    for step in range(whole.steps_per_epoch):
        (inputs, tags), (other_inputs, other_tags) = whole.get_batch(step), parts.get_batch(step)
        np.testing.assert_array_equal(other_tags, tags)
        assert other_inputs.keys() == inputs.keys()
        for name, array in inputs.items():
            np.testing.assert_array_equal(other_inputs[name], array)


def test_characters_are_padded_to_the_longest_token_of_the_batch() -> None:
    long = EncodedWords([4], [0], [[5] * 30])
    batches = TaggedBatches(
        [EncodedWords([4, 5], [0, 1], [[6], [7, 8]]), long], [[0, 1], [2]], 1, 1
    )
    assert batches.make_batch(np.array([0]))[0]["characters"].shape == (1, 4, 4)
    assert batches.make_batch(np.array([0, 1]))[0]["characters"].shape == (2, 4, 32)


@refuses(
    ([], [], "cannot make batches: there are no examples"),
    ([make_sentence(2)], [], "got 0 label sequences and 1 sentences"),
    ([make_sentence(2), make_sentence(3)], [[0, 1], [0, 1]], "sentence 2 has 3 words but 2"),
    ([EncodedWords([], [])], [[]], "sentence 1 is empty"),
    ([EncodedWords([4], [0], [[]])], [[0]], "the character sequence of token 1 is"),
)
def test_invalid_arguments_raise(sentences: Any, labels: Any) -> None:
    TaggedBatches(sentences, labels, 8, 1)
