"""Batches of token sequences with masked tokens, for masked language modeling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attention_zoo.data.batching.batching import Batch, Batches, Integers, Ragged
from attention_zoo.data.tokenizers.vocabulary import PAD

RATE = 0.15
"""Fraction of the tokens that are selected, and are predicted by the model."""
MASKED, REPLACED = 0.8, 0.1
"""Fractions of the selected tokens that become the mask token or a random one, in this order."""


class Marks(NamedTuple):
    """Token ids for masked language modeling.

    start, end: ids of the tokens at the start and the end of every line.
    mask: id of the mask token.
    others: `(N,)`, ids from which random tokens are sampled.
    """

    start: int
    end: int
    mask: int
    others: Integers


class MaskedBatches(Batches):
    """Batches of lines of token ids, for masked language modeling.

    By default, 15 % of a line's tokens (at least one) are selected. Of these, 80 % are replaced by
    the mask token, 10 % by a random token, and 10 % are unchanged. In training, the selection
    depends on seed, epoch and line, so it differs between epochs. In evaluation, it depends on seed
    and line.

    Args:
        lines: token ids, without start and end tokens.
        marks: ids of the special tokens, and ids from which random tokens are sampled.
        batch_size, seed, bucket_width, numbers: see `Batches`; T is the padded length.
        rate: fraction of the tokens that are selected.

    Raises:
        ValueError: no lines, an empty line, a size below 1, a rate outside of (0, 1].

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
        """Return the training batch of a step, with a different masking in each epoch."""
        return self.masked(self.rows(step), 1 + step // self.steps_per_pass)

    def batch(self, rows: Integers) -> Batch:
        """Return the examples with indices `rows`, with the fixed masking of evaluation."""
        return self.masked(rows, 0)

    def masked(self, rows: Integers, turn: int) -> Batch:
        """Return `({"tokens": (B, T)}, labels (B, T))`, int32, padded with 0.

        Each line is enclosed by start and end tokens. Labels are the selected tokens, 0 elsewhere.
        The masking depends on `turn`: 0 in evaluation, the epoch counted from 1 in training.
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
        """Return the selected positions, from 1, and their new token ids, -1 if unchanged."""
        seeds = np.random.SeedSequence([self.seed, turn, row])
        bits = np.random.Philox(seeds).random_raw((3, length))
        count = max(1, round(self._rate * length))
        chosen = np.argsort(bits[0], kind="stable")[:count]
        share = bits[1, chosen] / 2.0**64
        other = self._marks.others[bits[2, chosen] % np.uint64(len(self._marks.others))]
        instead = np.where(share < MASKED + REPLACED, other, -1)
        return chosen + 1, np.where(share < MASKED, self._marks.mask, instead)
