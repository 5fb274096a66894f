"""Batches of lines in which some tokens are hidden, to be told from those around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching import Batch, Batches, Integers, Ragged
from attention_zoo.data.vocabulary import PAD

RATE = 0.15
"""Share of the tokens that are to be told."""
MASKED, REPLACED = 0.8, 0.1
"""Shares of these that the mask token stands for, and another token; the others stay."""


class Marks(NamedTuple):
    """Tokens of which masked lines are made.

    start, end: stand around every line.
    mask: stands for what is hidden.
    others: `(N,)`, what a hidden token may be replaced by.
    """

    start: int
    end: int
    mask: int
    others: Integers


class MaskedBatches(Batches):
    """The batches of a corpus of lines of token ids, some tokens of each line to be told.

    15 % of a line's tokens (one at least) are chosen. Of these, 80 % become the mask token, 10 %
    another one and 10 % stay. In training, what is chosen is a function of seed, pass and line
    alone, another in every pass; in evaluation, of seed and line.

    Args:
        lines: token ids, without start and end.
        marks: the tokens around and instead.
        batch_size, seed, bucket_width, numbers: see `Batches`; T of a batch is padded.
        rate: the share of the tokens that is chosen.

    Raises:
        ValueError: no line, an empty line, a size below 1, a rate outside of (0, 1].

    Reference:
        Devlin et al. 2018, arXiv 1810.04805, section 3.1, task 1.
    """

    def __init__(
        self,
        lines: Sequence[Sequence[int]],
        marks: Marks,
        batch_size: int,
        seed: int,
        bucket_width: int = 4,
        numbers: Sequence[int] | None = None,
        rate: float = RATE,
    ) -> None:
        if not lines:
            raise ValueError("no lines to make batches of; the corpus is empty")
        if not 0 < rate <= 1:
            raise ValueError(f"rate must be above 0 and at most 1, got {rate}")
        self._lines, self._marks, self._rate = Ragged(lines, "line"), marks, rate
        super().__init__((self._lines.lengths + 2,), batch_size, seed, bucket_width, numbers)

    def at(self, step: int) -> Batch:
        """The batch of a step of training, masked as in no other pass."""
        return self.masked(self.rows(step), 1 + step // self.steps_per_pass)

    def batch(self, rows: Integers) -> Batch:
        """The examples of these rows, masked as always in evaluation."""
        return self.masked(rows, 0)

    def masked(self, rows: Integers, turn: int) -> Batch:
        """`({"tokens": (B, T)}, labels (B, T))`, int32, padded with 0.

        Tokens stand between start and end; labels are the chosen tokens, 0 elsewhere.
        """
        marks, lengths = self._marks, self._lines.lengths[rows]
        tokens = np.roll(self._lines.padded(rows, self.bucket_width, room=2), 1, axis=1)
        tokens[:, 0] = marks.start
        tokens[np.arange(len(rows)), lengths + 1] = marks.end
        labels = np.full_like(tokens, PAD)
        for at, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            chosen, instead = self._draw(int(row), int(length), turn)
            labels[at, chosen] = tokens[at, chosen]
            tokens[at, chosen] = np.where(instead >= 0, instead, tokens[at, chosen])
        return {"tokens": tokens}, labels

    def _draw(self, row: int, length: int, turn: int) -> tuple[Integers, NDArray[np.int64]]:
        """Which places of a line are chosen, and what stands there instead, -1 for what stood."""
        seeds = np.random.SeedSequence([self.seed, turn, row])
        bits = np.random.Philox(seeds).random_raw((3, length))
        count = max(1, round(self._rate * length))
        chosen = np.argsort(bits[0], kind="stable")[:count]
        share = bits[1, chosen] / 2.0**64
        other = self._marks.others[bits[2, chosen] % np.uint64(len(self._marks.others))]
        instead = np.where(share < MASKED + REPLACED, other, -1)
        return chosen + 1, np.where(share < MASKED, self._marks.mask, instead)
