"""Base class of tasks on pairs of texts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data import PairBatches, TextPairs
from attention_zoo.registry import Registry
from attention_zoo.tasks.base import Task
from attention_zoo.tasks.text_pair_corpora import TEXT_PAIRS

Sides = tuple[list[list[int]], list[list[int]]]
Ids = NDArray[np.int32]

PART = 1024  # pairs encoded at a time


class TextPairTask(Task):
    """Base class of tasks with a source and a target text. A subclass defines `encode_pairs`.

    Attributes:
        max_source_length: maximum number of tokens of a source.
        max_target_length: maximum number of tokens of a target, end token included.
    """

    corpora: ClassVar[Registry] = TEXT_PAIRS
    limits: ClassVar[tuple[str, ...]] = ("max_source_length", "max_target_length")
    examples: ClassVar[str] = "pairs"
    max_source_length: int
    max_target_length: int

    @abstractmethod
    def encode_pairs(self, examples: TextPairs) -> Sides:
        """Return the token ids of sources and targets, without start and end tokens."""

    def predict_inputs(self, examples: TextPairs) -> Sequence[str]:
        """Return the sources."""
        return examples.sources

    def batches(self, examples: TextPairs, batch_size: int, seed: int) -> PairBatches:
        """Return length-bucketed batches of pairs; pairs over the length limits are dropped.

        Raises:
            ValueError: if no pair is left.
        """
        kept = list(self._within(examples))
        if not kept:
            raise ValueError(
                f"{examples.origin}: none of its {len(examples)} pairs fits into"
                f" {self.max_source_length} source and {self.max_target_length} target tokens;"
                " raise data.max_source_length and data.max_target_length"
            )
        return PairBatches(
            [source for _, source, _ in kept],
            [target for _, _, target in kept],
            batch_size=batch_size,
            seed=seed,
            numbers=[row + 1 for row, _, _ in kept],
        )

    def within_limits(self, examples: TextPairs) -> TextPairs:
        """Return the pairs that `batches` keeps."""
        return examples.take(row for row, _, _ in self._within(examples))

    def _within(self, examples: TextPairs) -> Iterator[tuple[int, Ids, Ids]]:
        """Yield row number, source ids and target ids of each pair within the limits.

        Pairs are encoded in parts, because tokenizers return lists of Python integers, which need
        ten times the memory of an array.
        """
        for begin in range(0, len(examples), PART):
            part = examples.take(range(begin, min(begin + PART, len(examples))))
            try:
                sides = self.encode_pairs(part)
            except ValueError as error:
                where = f"{examples.origin}, from pair {begin + 1} on"
                raise ValueError(f"{where}: {error}") from None
            for row, (source, target) in enumerate(zip(*sides, strict=True), begin):
                if self._fit(len(source), len(target)):
                    yield row, np.array(source, np.int32), np.array(target, np.int32)

    def _fit(self, source: int, target: int) -> bool:
        """Return whether these numbers of tokens are within the limits."""
        return 0 < source <= self.max_source_length and 0 < target < self.max_target_length
