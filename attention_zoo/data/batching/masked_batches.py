"""Batches of token sequences with masked tokens, for masked language modeling."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from attention_zoo.data.batching.batching import Batch, Batches
from attention_zoo.data.batching.ragged import Integers, Ragged, Rows
from attention_zoo.data.tokenizers.vocabulary import PAD

SELECTION_RATE = 0.15
"""Fraction of the tokens that are selected, and are predicted by the model."""
MASK_FRACTION, RANDOM_FRACTION = 0.8, 0.1
"""Fractions of the selected tokens that become the mask token or a random one, in this order."""


class MaskingIds(NamedTuple):
    """Token ids for masked language modeling.

    start, end: ids of the tokens at the start and the end of every line.
    mask: id of the mask token.
    replacements: `(N,)`, ids from which random tokens are sampled.
    """

    start: int
    end: int
    mask: int
    replacements: Integers


class MaskedBatches(Batches):
    """Batches of lines of token ids, for masked language modeling.

    By default, 15 % of a line's tokens (at least one) are selected. Of these, 80 % are replaced by
    the mask token, 10 % by a random token, and 10 % are unchanged. In training, the selection
    depends on seed, epoch and line, so it differs between epochs. In evaluation, it depends on seed
    and line.

    Args:
        lines: token ids, without start and end tokens.
        ids: ids of the special tokens, and ids from which random tokens are sampled.
        batch_size, seed, options: see `Batches`. T is padded to a multiple of `bucket_width`.
        rate: fraction of the tokens that are selected.

    Raises:
        ValueError: no lines, an empty line, a rate outside of (0, 1], or see `Batches`.

    Reference:
        Devlin et al. 2018, arXiv 1810.04805, section 3.1, task 1.
    """

    def __init__(
        self,
        lines: Rows,
        ids: MaskingIds,
        batch_size: int,
        seed: int,
        rate: float = SELECTION_RATE,
        **options: Any,
    ) -> None:
        if not 0 < rate <= 1:
            raise ValueError(f"rate must be above 0 and at most 1, got {rate}")
        self._lines, self._ids, self._rate = Ragged.from_rows(lines, "line"), ids, rate
        super().__init__((self._lines.lengths + 2,), batch_size, seed, **options)

    def get_batch(self, step: int) -> Batch:
        """Return the training batch of a step, with a different masking in each epoch."""
        return self.mask_lines(self.get_rows(step), 1 + step // self.steps_per_epoch)

    def make_batch(self, rows: Integers) -> Batch:
        """Return the examples with indices `rows`, with the fixed masking of evaluation."""
        return self.mask_lines(rows, 0)

    def mask_lines(self, rows: Integers, epoch: int) -> Batch:
        """Return `({"tokens": (B, T)}, labels (B, T))`, int32, padded with 0.

        Each line is enclosed by start and end tokens. Labels are the selected tokens, 0 elsewhere.
        The masking depends on `epoch`: 0 in evaluation, the epoch counted from 1 in training.
        """
        ids, lengths = self._ids, self._lines.lengths[rows]
        tokens = np.roll(self._lines.pad(rows, self.bucket_width, extra=2), 1, axis=1)
        tokens[:, 0] = ids.start
        tokens[np.arange(len(rows)), lengths + 1] = ids.end
        labels = np.full_like(tokens, PAD)
        for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            selected, replacement = self._sample_masking(int(row), int(length), epoch)
            labels[index, selected] = tokens[index, selected]
            is_replaced = replacement >= 0
            tokens[index, selected[is_replaced]] = replacement[is_replaced]
        return {"tokens": tokens}, labels

    def _sample_masking(self, row: int, length: int, epoch: int) -> tuple[Integers, Integers]:
        """Return the selected positions, from 1, and their new token ids, -1 if unchanged."""
        seeds = np.random.SeedSequence([self.seed, epoch, row])
        random_bits = np.random.Philox(seeds).random_raw((3, length))
        count = max(1, round(self._rate * length))
        selected = np.argsort(random_bits[0], kind="stable")[:count]
        fraction = random_bits[1, selected] / 2.0**64
        choices = self._ids.replacements
        random_token = choices[random_bits[2, selected] % np.uint64(len(choices))]
        replacement = np.where(fraction < MASK_FRACTION + RANDOM_FRACTION, random_token, -1)
        return selected + 1, np.where(fraction < MASK_FRACTION, self._ids.mask, replacement)
