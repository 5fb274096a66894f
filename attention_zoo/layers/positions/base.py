"""Base class of relative position encodings and their registry."""

from __future__ import annotations

from typing import Any

from keras import backend, ops

from attention_zoo.layers.base import BaseLayer, deserialize, is_custom_layer
from attention_zoo.layers.scores.base import dot
from attention_zoo.ops import at_least_float32, check_shape, distances
from attention_zoo.registry import Registry
from attention_zoo.typing import Shape, Tensor

POSITIONS = Registry("positions")


class RelativePositions(BaseLayer):
    """Base class of relative position encodings, for `MultiHeadAttention(positions=...)`.

    `score(q_t, k_s) = transform(q_t) . transform(k_s) / sqrt(D) + bias(q_t, s - t)`

    Subclasses override some of three hooks. `transform` changes queries and keys by their position.
    `bias` (or `distance_bias`, if it depends only on head and distance) is added to the scores.
    `offset` is added to the contexts. Query and source positions both count from 0. Step-by-step
    decoding, where all queries have the same position, uses `bias_at` and `offset_at`.

    The layer's own call returns scaled dot products. In a `MultiHeadAttention` the hooks apply to
    any score. An alignment's own scores (MoChA's chunk scores) use `transform`, but no bias.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        query: `(B, H, T, D)`.
        key: `(B, H, S, D)`.

    Returns:
        Scores `(B, H, T, S)`, at least float32.

    Masking:
        None here: the attention layer masks the scores. Left padding shifts all positions equally,
        so it does not change what depends only on distances.

    Reference:
        Shaw et al. 2018, arXiv 1803.02155, section 3, as a separate layer.
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        """Create the weights; the base class has none."""

    @classmethod
    def causal(cls, **kwargs: Any) -> RelativePositions:
        """Create an instance for attention with a causal mask."""
        return cls(**kwargs)

    def transform(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """Transform queries or keys `(B, H, L, D)` by their positions; the identity here.

        Args:
            positions: positions `(L,)`, or `(1,)` if all have the same; 0 .. L-1 when None.
        """
        return x

    def bias(self, query: Tensor, sources: Tensor) -> Tensor | None:
        """Return the bias on the scores of queries `(B, H, T, D)`: `(B or 1, H, T, S)`, or None."""
        if not self.has_distance_bias:
            return None
        dtype = backend.standardize_dtype(at_least_float32(query).dtype)
        all_distances = distances(ops.shape(query)[-2], sources)
        bias: Tensor = self.distance_bias(all_distances, query.shape[1], dtype)
        return bias[None]

    def bias_at(self, query: Tensor, distances: Tensor) -> Tensor | None:
        """Return the bias of queries that all have the same position.

        Args:
            query: `(B, H, T, D)`.
            distances: `(S,)`, from that position to each source.

        Returns:
            `(B or 1, H, T or 1, S)`, or None.
        """
        if self.has_distance_bias:
            dtype = backend.standardize_dtype(at_least_float32(query).dtype)
            bias: Tensor = self.distance_bias(distances, query.shape[1], dtype)
            return bias[None, :, None]
        if self.has_bias:
            raise self._make_hook_error("bias", "bias_at")
        return None

    def distance_bias(self, distances: Tensor, heads: int, dtype: str) -> Tensor | None:
        """Return the bias at distances s - t, `(H, *distances.shape)`, or None.

        A subclass whose bias depends only on head and distance overrides this method only.
        """
        return None

    def offset(self, weights: Tensor) -> Tensor | None:
        """Return what weights `(B, H, T, S)` add to the contexts `(B, H, T, D)`, or None."""
        return None

    def offset_at(self, weights: Tensor, distances: Tensor) -> Tensor | None:
        """Return `offset` of queries that all have the same position, or None.

        Args:
            weights: `(B, H, T, S)`.
            distances: `(S,)`, from that position to each source.
        """
        if self.has_offset:
            raise self._make_hook_error("offset", "offset_at")
        return None

    def _make_hook_error(self, overridden: str, hook: str) -> ValueError:
        return ValueError(
            f"{type(self).__name__} overrides {overridden} but not {hook}, which step-by-step "
            f"decoding calls; override {hook} too"
        )

    @property
    def has_bias(self) -> bool:
        """Whether a bias is added to the scores, which requires the position of each query."""
        return self.has_distance_bias or type(self).bias is not RelativePositions.bias

    @property
    def has_distance_bias(self) -> bool:
        """Whether the bias depends only on the head and the distance."""
        return (
            type(self).distance_bias is not RelativePositions.distance_bias
            and type(self).bias is RelativePositions.bias
        )

    @property
    def has_offset(self) -> bool:
        """Whether vectors of the width of queries and keys are added to the contexts."""
        return type(self).offset is not RelativePositions.offset

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        """Compute scaled dot products with `transform` and `bias` applied."""
        check_shape("query", query.shape, ("batch", "heads", "steps", "features"))
        check_shape("key", key.shape, ("batch", "heads", "steps", query.shape[-1]))
        scale = query.shape[-1] ** -0.5
        scores = dot(at_least_float32(self.transform(query)) * scale, self.transform(key))
        bias = self.bias(query, ops.shape(key)[-2])
        return scores if bias is None else scores + bias


def build_positions(positions: RelativePositions, query_shape: Shape, key_shape: Shape) -> None:
    """Build positions for `(B, H, T, D)` and `(B, H, S, D)`.

    Custom positions are called, which builds the sublayers of a class without `build`.
    """
    if not positions.built:
        positions.build(query_shape, key_shape)
    if is_custom_layer(positions):
        shape = (1, query_shape[1], 2, query_shape[-1])
        query = ops.zeros(shape, positions.compute_dtype)
        positions(query, query)
        positions.offset(ops.zeros((*shape[:-1], 2)))


def make_positions(
    positions: Any, dtype: Any = None, causal: bool = False, **arguments: Any
) -> RelativePositions | None:
    """Return relative positions from a name (created with `dtype`), an instance or its config.

    None is returned unchanged.

    Args:
        causal: whether to create the variant for attention with a causal mask, for a name.
        **arguments: arguments of the class, for a name.
    """
    positions = deserialize(positions)
    if positions is None or isinstance(positions, RelativePositions):
        return positions
    factory: Any = POSITIONS.get(positions)
    create = factory.causal if causal else factory
    created: RelativePositions = create(dtype=dtype, **arguments)
    return created
