"""Overlapping windows of sentences that are longer than an encoder allows."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from attention_zoo.typing import Tensor


class Windows(NamedTuple):
    """The N windows, of W tokens at most, of sentences of P tokens.

    A token is represented by its state in the window in whose middle half it is. With special
    tokens, each window has the first token of the sentence, and an end token.

    Attributes:
        positions: `(B, N, W)` int32, the position in the sentence of each token of a window; P for
            padding.
        inverse: `(B, N, P)` int32, the position in each window of each token of the sentence; W for
            a token that is not in the window.
        numbers: `(B, P)` int32, the number of the window that represents each token.
    """

    positions: Tensor
    inverse: Tensor
    numbers: Tensor

    def split(self, x: Tensor) -> Tensor:
        """Return the windows of `x (B, P)`, `(B N, W)`; 0 at padding."""
        batch, count, width = ops.shape(self.positions)
        index = ops.reshape(self.positions, (batch, count * width))
        taken = ops.take_along_axis(ops.pad(x, ((0, 0), (0, 1))), index, axis=1)
        return ops.reshape(taken, (batch * count, width))

    def join(self, states: Tensor) -> Tensor:
        """Return the states of the tokens `(B, P, D)`, from those in the windows `(B N, W, D)`."""
        batch, count, width = ops.shape(self.positions)
        states = ops.reshape(states, (batch, count * width, states.shape[-1]))
        return ops.take_along_axis(states, self._find_tokens()[..., None], axis=1)

    def join_weights(self, weights: Tensor) -> Tensor:
        """Return attention weights `(B, H, P, P)` from those of the windows, `(B N, H, W, W)`.

        They are 0 from a token to those that are not in its window.
        """
        batch, count, width = ops.shape(self.positions)
        heads, length = weights.shape[1], ops.shape(self.numbers)[1]
        weights = ops.reshape(weights, (batch, count, heads, width, width))
        weights = ops.reshape(
            ops.transpose(weights, (0, 2, 1, 3, 4)), (batch, heads, count * width, width)
        )
        weights = ops.take_along_axis(weights, self._find_tokens()[:, None, :, None], axis=2)
        weights = ops.pad(weights, ((0, 0), (0, 0), (0, 0), (0, 1)))
        columns = ops.take_along_axis(self.inverse, self.numbers[..., None], axis=1)[:, None]
        columns = ops.broadcast_to(columns, (batch, heads, length, length))
        return ops.take_along_axis(weights, columns, axis=3)

    def _find_tokens(self) -> Tensor:
        """Return the position `n W + w` of each token in its own window, `(B, P)`."""
        width = ops.shape(self.positions)[2]
        own = ops.take_along_axis(self.inverse, self.numbers[:, None], axis=1)[:, 0]
        return ops.minimum(own, width - 1) + self.numbers * width  # padding is in no window


def make_windows(mask: Tensor, window: int, has_special_tokens: bool) -> Windows:
    """Return the windows of sentences; each starts half a window after the one before it.

    A sentence that fits into a window is represented by the first.

    Args:
        mask: `(B, P)`, True at tokens, padding at the end.
        window: maximum number of tokens of a window, special tokens included.
        has_special_tokens: whether a sentence has a class token first and an end token last.
    """
    length = ops.shape(mask)[1]
    at_most, at_least = (ops.minimum, ops.maximum) if ops.is_tensor(length) else (min, max)
    first = int(has_special_tokens)
    size = at_least(at_most(window, length) - 2 * first, 1)  # tokens without the special ones
    width = size + 2 * first
    stride = at_least(size // 2, 1)
    middle = stride // 2
    is_long = ops.cast(length > window, "int32") if ops.is_tensor(length) else length > window
    count = 1 + is_long * at_least((length - 1 - first - middle) // stride, 0)
    starts = first + stride * ops.arange(count, dtype="int32")
    tokens = ops.arange(length, dtype="int32")
    lengths = ops.sum(ops.cast(mask, "int32"), axis=1)[:, None, None]
    positions = (starts[:, None] + ops.arange(size, dtype="int32"))[None]
    positions = ops.where(positions < lengths, positions, length)
    inverse = tokens - starts[:, None] + first
    inverse = ops.where(ops.logical_and(inverse >= first, inverse < first + size), inverse, width)
    inverse = inverse[None] + ops.zeros_like(lengths)
    if has_special_tokens:
        positions, inverse = _add_special_tokens(positions, inverse, lengths, length, width)
    numbers = ops.clip((tokens - first - middle) // stride, 0, count - 1)[None]
    numbers = ops.where(lengths[:, 0] > window, numbers, 0)  # whatever else is in the batch
    return Windows(positions, inverse, numbers)


def _add_special_tokens(
    positions: Tensor, inverse: Tensor, lengths: Tensor, length: Any, width: Any
) -> tuple[Tensor, Tensor]:
    """Add the class token to each window, and the end token to those that end before it."""
    is_used = positions[:, :, :1] < length
    is_used = ops.logical_or(is_used, ops.arange(ops.shape(positions)[1])[None, :, None] == 0)
    lacks_end = ops.logical_and(positions[:, :, -1:] < lengths - 1, is_used)
    is_full = positions[:, :, -1:] < length
    needs_end = ops.logical_and(lacks_end, is_full)
    starts = ops.where(ops.logical_and(is_used, lengths > 0), 0, length)
    ends = ops.where(needs_end, lengths - 1, length)
    tokens = ops.arange(length, dtype="int32")
    inverse = ops.where(ops.logical_and(tokens == lengths - 1, needs_end), width - 1, inverse)
    inverse = ops.where(ops.logical_and(tokens == 0, is_used), 0, inverse)
    return ops.concatenate([starts, positions, ends], axis=2), inverse
