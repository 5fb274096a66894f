"""Batches of sentences whose words have tags, each word of one token or more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching import Batch, Batches, Integers, Ragged

UNLABELLED = -1
"""The label where there is no word."""


class EncodedWords(NamedTuple):
    """A sentence as a tagger reads it.

    tokens: ids of all its words' tokens, one word after the other.
    starts: the place in `tokens` of each word's first one, from 0; rising, one a word.
    characters: of each token the ids of its characters, or None.
    marks: of each token whether its word is marked, or None.
    """

    tokens: Sequence[int]
    starts: Sequence[int]
    characters: Sequence[Sequence[int]] | None = None
    marks: Sequence[bool] | None = None

    @property
    def whole(self) -> bool:
        """Whether every word is one token."""
        return len(self.tokens) == len(self.starts)


class TaggedBatches(Batches):
    """The batches of a corpus of tagged sentences.

    Args:
        sentences: encoded; all of them with characters or none, with marks or none.
        labels: of each sentence the tag of each word, from 0.
        batch_size, seed, bucket_width, numbers: see `Batches`; P, W and C of a batch are padded.

    Raises:
        ValueError: no sentence, one without a word, another number of labels than of words, a size
            below 1.
    """

    def __init__(
        self,
        sentences: Sequence[EncodedWords],
        labels: Sequence[Sequence[int]],
        batch_size: int,
        seed: int,
        bucket_width: int = 4,
        numbers: Sequence[int] | None = None,
    ) -> None:
        if not sentences:
            raise ValueError("no sentences to make batches of; the corpus is empty")
        if len(sentences) != len(labels):
            raise ValueError(f"{len(sentences)} sentences but labels of {len(labels)}")
        for row, (sentence, tags) in enumerate(zip(sentences, labels, strict=True)):
            if len(sentence.starts) != len(tags):
                raise ValueError(
                    f"sentence {row} has {len(sentence.starts)} words but {len(tags)} labels"
                )
        self._tokens = Ragged([sentence.tokens for sentence in sentences], "sentence")
        self._labels = Ragged([[tag + 1 for tag in tags] for tags in labels], "sentence")
        self._starts, self._characters, self._marks = _parts(sentences)
        super().__init__((self._tokens.lengths,), batch_size, seed, bucket_width, numbers)

    def batch(self, rows: Integers) -> Batch:
        """Inputs and labels `(B, W)`, int32: the words' tags, -1 where there is no word.

        Inputs are `tokens` `(B, P)`; `starts` `(B, W)`, from 1, unless all words of the corpus are
        one token, so that W is P; `characters` `(B, P, C)` and `marks` `(B, P)` where there are
        any. All are padded with 0.
        """
        inputs = {"tokens": self._tokens.padded(rows, self.bucket_width)}
        if self._starts is not None:
            inputs["starts"] = self._starts.padded(rows, self.bucket_width)
        if self._characters is not None:
            inputs["characters"] = self._spelt(self._characters, rows, inputs["tokens"].shape[1])
        if self._marks is not None:
            inputs["marks"] = np.maximum(self._marks.padded(rows, self.bucket_width) - 1, 0)
        labels = self._labels.padded(rows, self.bucket_width) - np.int32(1)
        return inputs, labels

    def _spelt(self, characters: Ragged, rows: Integers, width: int) -> NDArray[np.int32]:
        """The characters `(B, P, C)` of the tokens of these sentences."""
        places = np.arange(width)
        live = places < self._tokens.lengths[rows, None]
        at = self._tokens.begins[rows, None] + np.where(live, places, 0)
        spelt = characters.padded(at.ravel(), self.bucket_width)
        return np.where(live[..., None], spelt.reshape(*at.shape, -1), np.int32(0))


def _parts(
    sentences: Sequence[EncodedWords],
) -> tuple[Ragged | None, Ragged | None, Ragged | None]:
    """Starts from 1, characters of all tokens, and marks plus 1, each where it is needed."""
    first, starts, characters, marks = sentences[0], None, None, None
    if not all(sentence.whole for sentence in sentences):
        starts = Ragged([[at + 1 for at in one.starts] for one in sentences], "sentence")
    if first.characters is not None:
        spelt = [token for sentence in sentences for token in sentence.characters or ()]
        characters = Ragged(spelt, "the characters of token")
    if first.marks is not None:
        marks = Ragged([[1 + mark for mark in one.marks or ()] for one in sentences], "sentence")
    return starts, characters, marks
