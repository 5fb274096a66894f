"""Overlapping windows of sentences that are longer than an encoder allows."""

from __future__ import annotations

from typing import Any, NamedTuple

from keras import ops

from attention_zoo.ops import is_symbolic
from attention_zoo.typing import Tensor


class Windows(NamedTuple):
    """Overlapping windows of a batch of sentences.

    P is the padded length of the sentences, N the number of windows of each, W the padded length of
    a window. With special tokens, each window has the class token and the end token of the
    sentence. The state of a token is that of the window in whose middle half it is, or of the first
    or last window at the ends of the sentence. Windows after the last of a sentence are padding.

    Attributes:
        positions: `(B, N, W)` int32, the position in the sentence of each token of a window; P for
            padding.
        inverse: `(B, N, P)` int32, the position in each window of each token of the sentence; W for
            a token that is not in the window.
        window_indices: `(B, P)` int32, the index of the window that each token's state is from.
    """

    positions: Tensor
    inverse: Tensor
    window_indices: Tensor

    def split(self, x: Tensor) -> Tensor:
        """Return the windows of `x (B, P)`, `(B N, W)`; 0 at padding."""
        batch, count, width = ops.shape(self.positions)
        index = ops.reshape(self.positions, (batch, count * width))
        gathered = ops.take_along_axis(ops.pad(x, ((0, 0), (0, 1))), index, axis=1)
        return ops.reshape(gathered, (batch * count, width))

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
        heads, length = weights.shape[1], ops.shape(self.window_indices)[1]
        weights = ops.reshape(weights, (batch, count, heads, width, width))
        weights = ops.reshape(
            ops.transpose(weights, (0, 2, 1, 3, 4)), (batch, heads, count * width, width)
        )
        weights = ops.take_along_axis(weights, self._find_tokens()[:, None, :, None], axis=2)
        weights = ops.pad(weights, ((0, 0), (0, 0), (0, 0), (0, 1)))
        columns = ops.take_along_axis(self.inverse, self.window_indices[..., None], axis=1)[:, None]
        columns = ops.broadcast_to(columns, (batch, heads, length, length))
        return ops.take_along_axis(weights, columns, axis=3)

    def _find_tokens(self) -> Tensor:
        """Return the position `n W + w` of each token in its own window, `(B, P)`."""
        width = ops.shape(self.positions)[2]
        indices = self.window_indices
        own_positions = ops.take_along_axis(self.inverse, indices[:, None], axis=1)[:, 0]
        return ops.minimum(own_positions, width - 1) + indices * width  # padding may be in none


def make_windows(mask: Tensor, window: int, has_special_tokens: bool) -> Windows:
    """Return the windows of sentences; each starts half a window after the one before it.

    The last window of a sentence is the first one that reaches its end, so that a sentence that
    fits into a window is not split, whatever else is in the batch.

    Args:
        mask: `(B, P)`, True at tokens, padding at the end.
        window: maximum number of tokens of a window, special tokens included.
        has_special_tokens: whether a sentence has a class token first and an end token last.
    """
    length = ops.shape(mask)[1]
    first = int(has_special_tokens)
    at_most, at_least = (ops.minimum, ops.maximum) if ops.is_tensor(length) else (min, max)
    has_symbolic_length = is_symbolic(length)  # JAX; symbolic sizes cannot be compared
    size = window if has_symbolic_length else at_most(window, length)
    size = at_least(size - 2 * first, 1)  # tokens without the special ones
    width = size + 2 * first
    stride = at_least(size // 2, 1)
    middle = (size - stride) // 2
    shift = stride - 1 - size - 2 * first  # (n + shift) // stride + 1 windows for n tokens
    if has_symbolic_length:
        count = 1 + (length - 1) // stride  # more than needed
    else:
        count = 1 + at_least((length + shift) // stride, 0)
    tokens = ops.arange(length, dtype="int32")
    lengths = ops.sum(ops.cast(mask, "int32"), axis=1)[:, None, None]
    last = ops.maximum((lengths + shift) // stride, 0)
    indices = ops.arange(count, dtype="int32")[:, None]
    is_used = indices <= last
    starts = first + stride * indices
    positions = starts + ops.arange(size, dtype="int32")
    positions = ops.where(ops.logical_and(positions < lengths, is_used), positions, length)
    inverse = tokens - starts + first
    is_inside = ops.logical_and(inverse >= first, inverse < first + size)
    inverse = ops.where(ops.logical_and(is_inside, is_used), inverse, width)
    if has_special_tokens:
        positions, inverse = _add_special_tokens(positions, inverse, lengths, is_used, width)
    window_indices = ops.maximum((tokens - first - middle) // stride, 0)
    return Windows(positions, inverse, ops.minimum(window_indices[None], last[:, 0]))


def _add_special_tokens(
    positions: Tensor, inverse: Tensor, lengths: Tensor, is_used: Tensor, width: Any
) -> tuple[Tensor, Tensor]:
    """Add the class token to each window, and the end token to those that end before it.

    Args:
        positions, inverse: see `Windows`.
        lengths: number of tokens of each sentence, `(B, 1, 1)`.
        is_used: whether a window is not padding, `(B, N, 1)`.
        width: W, special tokens included.
    """
    length = ops.shape(inverse)[2]
    tokens = ops.arange(length, dtype="int32")
    is_end_missing = positions[:, :, -1:] < lengths - 1
    starts = ops.where(ops.logical_and(is_used, lengths > 0), 0, length)
    ends = ops.where(is_end_missing, lengths - 1, length)
    is_added_end = ops.logical_and(tokens == lengths - 1, is_end_missing)
    inverse = ops.where(is_added_end, width - 1, inverse)
    inverse = ops.where(ops.logical_and(tokens == 0, is_used), 0, inverse)
    return ops.concatenate([starts, positions, ends], axis=2), inverse
