"""Relative position representations (Shaw et al.)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.positions.base import POSITIONS, RelativePositions
from attention_zoo.layers.scores.base import dot
from attention_zoo.typing import Shape, Tensor


@POSITIONS.register("shaw")
@keras.saving.register_keras_serializable("attention_zoo")
class ShawPositions(RelativePositions):
    """Relative position representations: keys and values plus a learned vector per distance.

    `score(q_t, k_s) = q_t . (k_s + a_{s-t}) / sqrt(D)`,
    `context_t = sum_s weights_ts (value_s + c_{s-t})`, distances clipped to [-n, n]

    The heads share the vectors. With a score other than "scaled_dot", the term
    `q_t . a_{s-t} / sqrt(D)` is added to that score.

    Use it to reproduce Shaw et al.: one learned vector for each distance up to n.

    Args:
        max_distance: n, the distance to which longer ones are clipped.
        use_values: whether to add vectors to the values too; requires value_dim = key_dim.

    Call arguments:
        query: `(B, H, T, D)`.
        key: `(B, H, S, D)`.

    Returns:
        Scores `(B, H, T, S)`, at least float32.

    Weights:
        key_table: a, `(2 n + 1, D)`. value_table: c, `(2 n + 1, D)`, with `use_values`.

    Masking:
        None here: the attention layer masks the scores. Left padding has no effect.

    Cost:
        O(B H T (n D + T + S)) for each table; no tensor of size T S D.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MultiHeadAttention
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4, positions="shaw")
        >>> x = np.ones((2, 3, 8), "float32")
        >>> tuple(layer(x, x).shape)
        (2, 3, 8)

    Reference:
        Shaw et al. 2018, arXiv 1803.02155, equations 3 and 4, and the section "Relative Position
        Representations" for the clipping: a^K is a, a^V is c, k is n, d_z is D, i and j are t and
        s.
    """

    def __init__(self, max_distance: int = 16, use_values: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_distance = zoo_ops.whole_number("max_distance", max_distance)
        self.use_values = use_values

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        shape = (2 * self.max_distance + 1, query_shape[-1])
        self.key_table = self.add_weight(shape=shape, name="key_table")
        self.value_table = None
        if self.use_values:
            self.value_table = self.add_weight(shape=shape, name="value_table")

    @property
    def has_offset(self) -> bool:
        return self.use_values

    def bias(self, query: Tensor, sources: Tensor) -> Tensor:
        clipped = self._compute_distance_scores(query)
        return zoo_ops.skew(zoo_ops.stretch(clipped, ops.shape(query)[-2], sources), sources)

    def bias_at(self, query: Tensor, distances: Tensor) -> Tensor:
        return ops.take(self._compute_distance_scores(query), self._table_rows(distances), axis=-1)

    def _compute_distance_scores(self, query: Tensor) -> Tensor:
        """Compute `q . a / sqrt(D)` for the distances -n .. n, `(B, H, T, 2 n + 1)`."""
        scaled = zoo_ops.at_least_float32(query) * query.shape[-1] ** -0.5
        return dot(scaled, ops.cast(self.key_table, scaled.dtype))

    def _table_rows(self, distances: Tensor) -> Tensor:
        """Return the row of each distance in the tables."""
        return ops.clip(distances, -self.max_distance, self.max_distance) + self.max_distance

    def offset(self, weights: Tensor) -> Tensor | None:
        if self.value_table is None:
            return None
        steps, sources = ops.shape(weights)[-2:]
        clipped = zoo_ops.shrink(zoo_ops.unskew(weights), self.max_distance, steps, sources)
        return zoo_ops.project(clipped, self.value_table)

    def offset_at(self, weights: Tensor, distances: Tensor) -> Tensor | None:
        if self.value_table is None:
            return None
        table = ops.cast(self.value_table, weights.dtype)
        return ops.matmul(weights, ops.take(table, self._table_rows(distances), axis=0))
