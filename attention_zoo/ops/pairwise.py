"""Scores that compute a vector for each pair of positions, without storing all vectors.

Shape letters: T queries, S sources, A width of the vectors, F features of a pair. Leading axes
broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from keras import ops

from attention_zoo.ops.arguments import static_size
from attention_zoo.ops.masking import at_least_float32, has_few_pairs, project
from attention_zoo.ops.positions import count_blocks
from attention_zoo.ops.recurrence import update_rows
from attention_zoo.typing import Tensor

Tensors = tuple[Tensor, ...]

BLOCK_ENTRIES = 2**22
"""Number of entries that are computed at once, unless one query has more."""
MAX_SINGLE_BLOCK = 8
"""Number of queries up to which they are one block: a step of a loop, or of a beam search."""


def additive_scores(
    query: Tensor,
    keys: Tensor,
    v: Tensor,
    features: Tensor | None = None,
    feature_kernel: Tensor | None = None,
) -> Tensor:
    """Compute `v . tanh(query_t + keys_s + features_ts P)` for all t and s.

    The T S A activations are computed in blocks of queries, and again in the backward pass, so
    that training stores only the arguments. With static shapes and few activations they are
    stored, which is as fast. With several blocks there are no second derivatives, and on JAX they
    exist only if the activations are stored.

    Args:
        query: `(..., T, A)`.
        keys: `(..., S, A)`.
        v: `(A,)`, cast to at least float32.
        features: `(..., T, S, F)`, or None.
        feature_kernel: P, `(F, A)`, with features.

    Returns:
        Scores `(..., T, S)`, at least float32.

    Reference:
        Bahdanau et al. 2014, arXiv 1409.0473, appendix A.1.2. Recomputation: Chen et al. 2016,
        arXiv 1604.06174, section 4.
    """
    v = at_least_float32(ops.convert_to_tensor(v))
    if features is None:
        return _score_pairs(_additive, _differentiate_additive, query, keys, (v,))
    shared, per_pair = (v, ops.convert_to_tensor(feature_kernel)), (features,)
    return _score_pairs(_additive, _differentiate_additive, query, keys, shared, per_pair)


def inverse_distances(query: Tensor, keys: Tensor) -> Tensor:
    """Compute `1 / (1 + ||query_t - keys_s||)` for all t and s; memory as in `additive_scores`.

    Args:
        query: `(..., T, A)`, at least float32.
        keys: `(..., S, A)`.

    Returns:
        `(..., T, S)`. The gradient is 0 where the distance is 0.
    """
    return _score_pairs(_inverse_distances, _differentiate_inverse_distances, query, keys)


def _additive(
    query: Tensor,
    keys: Tensor,
    v: Tensor,
    feature_kernel: Tensor | None = None,
    features: Tensor | None = None,
) -> Tensor:
    hidden = _activate(query, keys, feature_kernel, features)
    return project(at_least_float32(hidden), v[:, None])[..., 0]


def _activate(
    query: Tensor, keys: Tensor, feature_kernel: Tensor | None, features: Tensor | None
) -> Tensor:
    """Compute the activations `(..., T, S, A)`."""
    hidden = query[..., :, None, :] + keys[..., None, :, :]
    if features is not None:
        hidden = hidden + ops.cast(project(features, feature_kernel), hidden.dtype)
    return ops.tanh(hidden)


def _differentiate_additive(
    upstream: Tensor,
    query: Tensor,
    keys: Tensor,
    v: Tensor,
    feature_kernel: Tensor | None = None,
    features: Tensor | None = None,
) -> Tensors:
    hidden = at_least_float32(_activate(query, keys, feature_kernel, features))
    units = v.shape[0]
    by_v = ops.matmul(ops.reshape(upstream, (1, -1)), ops.reshape(hidden, (-1, units)))[0]
    inner = upstream[..., None] * (1 - ops.square(hidden))  # v times it: gradient by tanh's input
    v = ops.cast(v, inner.dtype)
    by_query, by_keys = (x * v for x in _sum_pairs(inner, query, keys))
    if features is None:
        return by_query, by_keys, by_v
    features, kernel = (ops.cast(x, inner.dtype) for x in (features, feature_kernel))
    by_features = project(inner, ops.transpose(kernel * v))
    rows = ops.broadcast_to(features, ops.shape(by_features))
    rows = ops.reshape(rows, (-1, features.shape[-1]))
    by_kernel = ops.matmul(ops.transpose(rows), ops.reshape(inner, (-1, units))) * v
    return by_query, by_keys, by_v, by_kernel, _sum_to_shape(by_features, features, 3)


def _inverse_distances(query: Tensor, keys: Tensor) -> Tensor:
    distance, is_zero = _distances(query[..., :, None, :] - keys[..., None, :, :])
    return 1 / (1 + ops.where(is_zero, ops.zeros((), distance.dtype), distance))


def _distances(difference: Tensor) -> tuple[Tensor, Tensor]:
    """Return the norms of the differences, 1 instead of 0, and where they are 0."""
    squares = ops.sum(ops.square(difference), axis=-1)
    is_zero = squares == 0
    return ops.sqrt(ops.where(is_zero, ops.ones((), squares.dtype), squares)), is_zero


def _differentiate_inverse_distances(upstream: Tensor, query: Tensor, keys: Tensor) -> Tensors:
    difference = query[..., :, None, :] - keys[..., None, :, :]
    distance, is_zero = _distances(difference)
    slope = upstream / (ops.square(1 + distance) * distance)
    slope = ops.where(is_zero, ops.zeros((), slope.dtype), slope)
    by_query, by_keys = _sum_pairs(slope[..., None] * difference, query, keys)
    return -by_query, by_keys


def _sum_pairs(x: Tensor, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Sum `(..., T, S, A)` over the sources and over the queries, to the shapes of both."""
    over_queries = x[..., 0, :, :] if query.shape[-2] == 1 else ops.sum(x, axis=-3)
    return _sum_to_shape(ops.sum(x, axis=-2), query), _sum_to_shape(over_queries, keys)


def _sum_to_shape(x: Tensor, like: Tensor, keep: int = 2) -> Tensor:
    """Sum over the leading axes along which `like` was broadcast; the last `keep` axes stay."""
    while len(x.shape) > len(like.shape):
        x = ops.sum(x, axis=0)
    for axis in range(len(x.shape) - keep):
        if like.shape[axis] == 1:
            x = ops.sum(x, axis=axis, keepdims=True)
        elif static_size(x.shape[axis]) is None or static_size(like.shape[axis]) is None:
            size, shape = ops.shape(like)[axis], ops.shape(x)
            repeats = shape[axis] // ops.maximum(size, 1)
            x = ops.reshape(x, (*shape[:axis], size, repeats, *shape[axis + 1 :]))
            x = ops.sum(x, axis=axis + 1)
    return x


def _score_pairs(
    compute: Callable[..., Tensor],
    differentiate: Callable[..., Tensors],
    query: Tensor,
    keys: Tensor,
    shared: Tensors = (),
    per_pair: Tensors = (),
) -> Tensor:
    """Compute scores `(..., T, S)` in blocks of queries, with recomputation in the backward pass.

    Args:
        compute: takes a block of queries, the keys, `shared`, and blocks of `per_pair`; returns the
            scores.
        differentiate: takes the gradient by the scores and the same arguments; returns the
            gradients by them, at least float32.
        query: `(..., T, A)`. keys: `(..., S, A)`. shared: any. per_pair: `(..., T, S, F)` each.
    """
    inputs = (query, keys, *shared, *per_pair)
    if has_few_pairs(query, keys):
        return compute(*inputs)
    shared = tuple(ops.copy(x) for x in shared)  # TensorFlow would read a variable within `run`
    inputs = (query, keys, *shared, *per_pair)
    axes = (-2, *[None] * (1 + len(shared)), *[-3] * len(per_pair))  # the axis of the queries

    def run(*inputs: Tensor) -> tuple[Tensor, Callable[..., Tensors]]:
        blocks = _QueryBlocks(*inputs[:2])
        stopped = tuple(ops.stop_gradient(x) for x in inputs)  # autodiff must not record the loops

        def gradient(*args: Tensor, upstream: Tensor | None = None) -> Tensors:
            upstream = args[0] if upstream is None else upstream
            gradients = blocks.reduce(differentiate, (upstream, *inputs), (-2, *axes))
            return tuple(ops.cast(x, like.dtype) for x, like in zip(gradients, inputs, strict=True))

        return blocks.map(compute, stopped, axes), gradient

    scores: Tensor = ops.custom_gradient(run)(*inputs)
    return scores


class _QueryBlocks:
    """Blocks of queries, of at most `BLOCK_ENTRIES` entries each, and loops over them."""

    def __init__(self, query: Tensor, keys: Tensor) -> None:
        self.steps, (num_sources, width) = ops.shape(query)[-2], ops.shape(keys)[-2:]
        pairs = query[..., :0, None, 0] + keys[..., None, :0, 0]  # (..., 0, 0)
        self.shape = (*ops.shape(pairs)[:-2], num_sources)  # of the scores of one query
        sizes = (*self.shape, width)
        if static_size(self.steps) is not None and self.steps <= MAX_SINGLE_BLOCK:
            self.size = max(1, self.steps)
        elif all(static_size(size) is not None for size in (self.steps, *sizes)):
            self.size = max(1, min(self.steps, BLOCK_ENTRIES // max(1, math.prod(sizes))))
        else:
            per_query = ops.maximum(1, math.prod(ops.cast(size, "int64") for size in sizes))
            size = ops.cast(BLOCK_ENTRIES // per_query, "int32")
            self.size = ops.maximum(1, ops.minimum(self.steps, size))
        self.count = count_blocks(self.steps, self.size)
        self.is_single = static_size(self.count) == 1

    def map(
        self, function: Callable[..., Tensor], inputs: Tensors, axes: tuple[int | None, ...]
    ) -> Tensor:
        """Apply a function to blocks of its inputs; return the concatenated scores.

        Args:
            axes: the axis of the queries in each input, None for inputs that are not split.
        """
        if self.is_single:
            return function(*inputs)
        inputs = self._split(inputs, axes)
        *leading, num_sources = self.shape
        dtype = at_least_float32(inputs[0][:0]).dtype
        scores = ops.zeros((self.count, *leading, self.size, num_sources), dtype)

        def step(i: Tensor, _: Tensors) -> tuple[Tensor, Tensors]:
            return i + 1, (function(*self._take(inputs, axes, i)),)

        (scores,) = self._loop(lambda i: (i,), step, (scores,))
        return self._merge(scores, axis=-2)

    def reduce(
        self, function: Callable[..., Tensors], inputs: Tensors, axes: tuple[int | None, ...]
    ) -> Tensors:
        """Apply a function that returns the gradients by all inputs but the first.

        Gradients by inputs that are split are concatenated, the others are summed.
        """
        inputs = (ops.cast(inputs[0], at_least_float32(inputs[1][:0]).dtype), *inputs[1:])
        if self.is_single:
            return function(*inputs)
        inputs = self._split(inputs, axes)

        def step(i: Tensor, totals: Tensors) -> tuple[Tensor, Tensors]:
            gradients = function(*self._take(inputs, axes, i))
            return i + 1, tuple(x + y for x, y in zip(totals, gradients, strict=True))

        def rows(i: Tensor) -> Tensors:
            return tuple(ops.zeros_like(i) if axis is None else i for axis in axes[1:])

        tables = [
            x[None] if axis is None else x for x, axis in zip(inputs[1:], axes[1:], strict=True)
        ]
        totals = tuple(ops.zeros(ops.shape(x), inputs[0].dtype) for x in tables)
        totals = self._loop(rows, step, totals)
        pairs = zip(totals, axes[1:], strict=True)
        return tuple(x[0] if axis is None else self._merge(x, axis) for x, axis in pairs)

    def _loop(self, rows: Any, step: Any, tables: Tensors) -> Tensors:
        """Run one step for each block."""
        return update_rows(lambda i: i < self.count, rows, step, ops.zeros((), "int32"), tables)

    def _take(self, inputs: Tensors, axes: tuple[int | None, ...], i: Tensor) -> Tensors:
        """Return the inputs of block i."""
        pairs = zip(inputs, axes, strict=True)
        return tuple(x if axis is None else x[i] for x, axis in pairs)

    def _split(self, inputs: Tensors, axes: tuple[int | None, ...]) -> Tensors:
        """Split the axis of the queries into blocks, along a new first axis."""
        blocks = []
        for x, axis in zip(inputs, axes, strict=True):
            if axis is not None:
                before = len(x.shape) + axis
                padding = [(0, 0) for _ in x.shape]
                padding[axis] = (0, self.count * self.size - self.steps)
                x = ops.pad(x, padding)
                shape = ops.shape(x)
                x = ops.reshape(x, (*shape[:before], self.count, self.size, *shape[before + 1 :]))
                x = ops.moveaxis(x, before, 0)
            blocks.append(x)
        return tuple(blocks)

    def _merge(self, x: Tensor, axis: int) -> Tensor:
        """Invert `_split`."""
        before = len(x.shape) - 1 + axis
        x = ops.moveaxis(x, 0, before)
        shape = ops.shape(x)
        x = ops.reshape(x, (*shape[:before], self.count * self.size, *shape[before + 2 :]))
        return x[(slice(None),) * before + (slice(None, self.steps),)]
