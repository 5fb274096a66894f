"""What tasks share whose examples are pairs of texts."""

from __future__ import annotations

from typing import ClassVar

from attention_zoo.data import PairBatches, TextPairs

Sides = tuple[list[list[int]], list[list[int]]]


class OfPairs:
    """A task of a source and a target; it says by `encode_pairs` which ids they are.

    Attributes:
        max_source_length: most tokens of a source.
        max_target_length: most tokens of a target, its end counted.
    """

    limits: ClassVar[tuple[str, ...]] = ("max_source_length", "max_target_length")
    max_source_length: int
    max_target_length: int

    def encode_pairs(self, examples: TextPairs) -> Sides:
        """Token ids of sources and targets, without start and end."""
        raise TypeError(f"{type(self).__name__} does not define `encode_pairs`")

    def batches(self, examples: TextPairs, batch_size: int, seed: int) -> PairBatches:
        """The pairs as length-bucketed batches; pairs over the length limits are left out.

        Raises:
            ValueError: no pair is left.
        """
        sources, targets = self.encode_pairs(examples)
        kept = self._kept(sources, targets)
        if not kept:
            raise ValueError(
                f"{examples.origin}: none of its {len(examples)} pairs fits into"
                f" {self.max_source_length} source and {self.max_target_length} target tokens;"
                " raise data.max_source_length and data.max_target_length"
            )
        return PairBatches(
            [sources[row] for row in kept],
            [targets[row] for row in kept],
            batch_size=batch_size,
            seed=seed,
            numbers=[row + 1 for row in kept],
        )

    def within_limits(self, examples: TextPairs) -> TextPairs:
        """The pairs that `batches` leaves in."""
        return examples.take(self._kept(*self.encode_pairs(examples)))

    def _kept(self, sources: list[list[int]], targets: list[list[int]]) -> list[int]:
        """The rows of which both sides keep the limits."""
        return [
            row
            for row, (source, target) in enumerate(zip(sources, targets, strict=True))
            if 0 < len(source) <= self.max_source_length
            and 0 < len(target) < self.max_target_length
        ]
