"""Base class of tasks on pairs of texts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data import PairBatches, TextPairs
from attention_zoo.data.tokenizers.flat_ids import FlatIds, as_flat_ids
from attention_zoo.data.tokenizers.vocabulary import UNKNOWN
from attention_zoo.registry import Registry
from attention_zoo.tasks.encoding import EncodedPart, load_or_encode, take_encoded
from attention_zoo.tasks.generation import GenerationTask
from attention_zoo.tasks.text_inputs import encode_in_parts
from attention_zoo.tasks.text_pair_corpora import TEXT_PAIRS

Ids = list[list[int]] | FlatIds
Sides = tuple[Ids, Ids]


class TextPairTask(GenerationTask):
    """Base class of tasks with a source and a target text. A subclass defines `encode_pairs`.

    Attributes:
        max_source_length: maximum number of tokens of a source.
        max_target_length: maximum number of tokens of a target, end token included.
    """

    corpora: ClassVar[Registry] = TEXT_PAIRS
    limits: ClassVar[tuple[str, ...]] = ("max_source_length", "max_target_length")
    example_noun: ClassVar[str] = "pairs"
    max_source_length: int
    max_target_length: int

    @abstractmethod
    def encode_pairs(self, examples: TextPairs) -> Sides:
        """Return the token ids of sources and targets, without start and end tokens."""

    def get_predict_inputs(self, examples: TextPairs) -> Sequence[str]:
        """Return the sources."""
        return examples.sources

    def make_batches(self, examples: TextPairs, batch_size: int, seed: int) -> PairBatches:
        """Return length-bucketed batches of pairs; pairs over the length limits are dropped.

        Raises:
            ValueError: if no pair is left.
        """
        encoded = load_or_encode(self, examples, self._encode_within)
        rows = encoded.rows
        if not len(rows):
            raise ValueError(
                f"{examples.origin}: none of its {len(examples)} pairs fits into"
                f" {self.max_source_length} source and {self.max_target_length} target tokens;"
                " raise data.max_source_length and data.max_target_length"
            )
        columns = encoded["sources"], encoded["targets"]
        return PairBatches(*columns, batch_size, seed, numbers=rows + 1)

    def filter_by_length(self, examples: TextPairs) -> TextPairs:
        """Return the pairs that `make_batches` keeps."""
        return take_encoded(self, examples, self._encode_within)

    @property
    def encoding_options(self) -> dict[str, Any]:
        """Options that, with the tokenizers, determine the token ids of a corpus."""
        return self.options

    def _encode_within(self, examples: TextPairs, rows: range) -> Iterator[EncodedPart]:
        """Yield row numbers and token ids of the pairs within the limits, in parts."""
        most_source, most_target = self.max_source_length, self.max_target_length - 1
        parts = encode_in_parts(examples, rows, self.encode_pairs, self.example_noun)
        for part_rows, _, sides in parts:
            sources, targets = map(as_flat_ids, sides)
            fits = (sources.lengths > 0) & (sources.lengths <= most_source)
            fits &= (targets.lengths > 0) & (targets.lengths <= most_target)
            columns = {"sources": sources.select(fits), "targets": targets.select(fits)}
            yield np.array(part_rows)[fits], columns

    # Prediction.

    def _make_source(self, size: int, length: int) -> NDArray[np.int32]:
        """Return a batch of any sources of this length."""
        return np.full((size, min(length, self.max_source_length)), UNKNOWN, "int32")
