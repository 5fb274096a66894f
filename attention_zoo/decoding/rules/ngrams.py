"""Ban on repeated n-grams."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.decoding.rules.history import TokenHistoryRule, compute_occurrence_mask


class NoRepeatNgram(TokenHistoryRule):
    """A rule that bans repeated n-grams (Paulus et al. 2018, section 2.5).

    Args:
        size: n; with 1, no token occurs twice.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def compute_allowed_mask(self, shape: tuple[Any, ...], state: Any, step: Any) -> Any:
        ends = self.find_ngram_ends(state, step)
        return ops.logical_not(compute_occurrence_mask(ends, shape[-1]))

    def find_ngram_ends(self, tokens: Any, step: Any) -> Any:
        """Return `tokens (B, N, L)` where the same token would repeat an n-gram, -1 elsewhere.

        Position i ends an n-gram that starts with the last `n - 1` tokens if, for every k from 1 to
        `n - 1`, tokens `i - k` and `step - k` are equal.
        """
        length = ops.shape(tokens)[2]
        positions = ops.arange(length, dtype="int32")
        padded = ops.pad(tokens, ((0, 0), (0, 0), (self.size, 0)), constant_values=-1)
        same = ops.logical_and(positions >= self.size - 1, positions < step)
        for offset in range(1, self.size):
            start = self.size - offset
            last = ops.take(padded, step + start, axis=2)[..., None]
            same = ops.logical_and(same, padded[..., start : start + length] == last)
        return ops.where(same, tokens, -1)
