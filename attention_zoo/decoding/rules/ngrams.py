"""Bans on n-grams: repeated ones, and those of the source."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.decoding.rules.base import check_sources
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


class NoRepeatSourceNgram(TokenHistoryRule):
    """A rule that bans the n-grams of the source.

    Args:
        size: n; with 1, no token of the source is generated.
        source: `(B, S)` ids of the vocabulary of the outputs, padded with `pad_token`.
        pad_token: the id of padding.
        limits: `(B, 1)` int32, lengths at which all tokens are allowed; None for none.
        first_step: number of the first step at which tokens are banned.
    """

    is_per_source = True

    def __init__(
        self, size: int, source: Any, pad_token: int, limits: Any = None, first_step: int = 0
    ) -> None:
        self.size, self.source = size, ops.cast(source, "int32")
        self.pad_token, self.limits, self.first_step = pad_token, limits, first_step

    def compute_allowed_mask(self, shape: tuple[Any, ...], state: Any, step: Any) -> Any:
        check_sources("source", self.source, shape)
        ends = self.find_ngram_ends(state, step)
        allowed = ops.logical_not(compute_occurrence_mask(ends, shape[-1]))
        allowed = ops.logical_or(allowed, step < self.first_step)
        if self.limits is None:
            return allowed
        return ops.logical_or(allowed, (self.limits == step + 1)[..., None])

    def find_ngram_ends(self, tokens: Any, step: Any) -> Any:
        """Return `(B, N, S)`: source tokens that follow the last n - 1 tokens, -1 elsewhere.

        Args:
            tokens: tokens so far, `(B, N, L)`. step: their number.
        """
        length = ops.shape(self.source)[1]
        paddings = ((0, 0), (self.size, 0))
        padded = ops.pad(tokens, ((0, 0), *paddings), constant_values=-1)
        is_token = self.source != self.pad_token
        source = ops.pad(ops.where(is_token, self.source, -2), paddings, constant_values=-2)
        follows = is_token[:, None]
        for offset in range(1, self.size):
            start = self.size - offset
            last = ops.take(padded, step + start, axis=2)[..., None]
            same = source[:, None, start : start + length] == last
            follows = ops.logical_and(follows, same)
        shape = (ops.shape(tokens)[0], ops.shape(tokens)[1], length)
        ends = ops.where(follows, self.source[:, None], -1)
        return ops.broadcast_to(ends, shape)
