"""What every relative position mechanism is: it lets scores know how far apart things stand."""

from __future__ import annotations

from typing import Any

import keras
from keras import backend, ops

from attention_zoo.layers.scores.base import dot
from attention_zoo.ops import at_least_float32, check_shape, distances
from attention_zoo.registry import Registry

Tensor = Any
Shape = tuple[Any, ...]

POSITIONS = Registry("positions")


class RelativePositions(keras.layers.Layer):
    """Positions that heads see in their scores, for `MultiHeadAttention(positions=...)`.

    `score(q_t, k_s) = turn(q_t) . turn(k_s) / sqrt(D) + bias(q_t, s - t)`

    Subclasses define what they need of three hooks: `turn` changes queries and keys by their
    place, `bias` (`of_distances`, where only distances count) adds to scores, `offset` adds to
    contexts. Queries and sources both count their places from 0; a search, whose queries all
    stand at the place of its step, asks `bias_at` and `offset_at`. The layer's own call gives
    scaled inner products; inside a
    `MultiHeadAttention` the hooks work with its score, whichever it is; what an alignment scores
    by itself (MoChA its chunks) sees turns, but no bias.

    Args:
        **kwargs: those of a Keras layer.

    Call arguments:
        query: `(B, H, T, D)`.
        key: `(B, H, S, D)`.

    Returns:
        Scores `(B, H, T, S)`, float32 at least.

    Masking:
        None here: the attention masks scores. Padding on the left moves all places alike, so what
        depends on distances only does not see it.

    Reference:
        Shaw et al. 2018, arXiv 1803.02155, section 3, as an axis of its own.
    """

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        """Mechanisms without weights need nothing here; others add weights."""
        self.built = True

    @classmethod
    def causal(cls, **kwargs: Any) -> RelativePositions:
        """Those of attentions in which no query sees what stands behind it."""
        return cls(**kwargs)

    def turn(self, x: Tensor, places: Tensor | None = None) -> Tensor:
        """Queries or keys `(B, H, L, D)` at their places; as they are here.

        Args:
            places: `(L,)`, or `(1,)` for one that all stand at; 0 .. L-1 when None.
        """
        return x

    def bias(self, query: Tensor, sources: Tensor) -> Tensor | None:
        """What is added to the scores of queries `(B, H, T, D)`: `(B or 1, H, T, S)`, or None."""
        if not self.by_distance:
            return None
        dtype = backend.standardize_dtype(at_least_float32(query).dtype)
        every = distances(ops.shape(query)[-2], sources)
        added: Tensor = self.of_distances(every, query.shape[1], dtype)
        return added[None]

    def bias_at(self, query: Tensor, distances: Tensor) -> Tensor | None:
        """`bias` of queries that all stand at one place.

        Args:
            query: `(B, H, T, D)`.
            distances: `(S,)`, from there to each source.

        Returns:
            `(B or 1, H, T or 1, S)`, or None.
        """
        if self.by_distance:
            dtype = backend.standardize_dtype(at_least_float32(query).dtype)
            added: Tensor = self.of_distances(distances, query.shape[1], dtype)
            return added[None, :, None]
        if self.biases:
            raise self._unknown("bias", "bias_at")
        return None

    def of_distances(self, distances: Tensor, heads: int, dtype: str) -> Tensor | None:
        """What is added at distances s - t, `(H, *distances)`; None where they are not all.

        Where they are, that is all that a subclass defines, and `bias` follows.
        """
        return None

    def offset(self, weights: Tensor) -> Tensor | None:
        """What weights `(B, H, T, S)` add to the contexts `(B, H, T, D)`, or None."""
        return None

    def offset_at(self, weights: Tensor, distances: Tensor) -> Tensor | None:
        """`offset` of queries that all stand at one place, `(S,)` from the sources; or None."""
        if self.offsets:
            raise self._unknown("offset", "offset_at")
        return None

    def _unknown(self, whole: str, hook: str) -> ValueError:
        return ValueError(
            f"{type(self).__name__} defines {whole} and not {hook}, which a search asks for step "
            f"by step; define {hook} too"
        )

    @property
    def biases(self) -> bool:
        """Whether scores get something added, for which a look must know its place."""
        return self.by_distance or type(self).bias is not RelativePositions.bias

    @property
    def by_distance(self) -> bool:
        """Whether what is added depends on nothing but the head and the distance."""
        return (
            type(self).of_distances is not RelativePositions.of_distances
            and type(self).bias is RelativePositions.bias
        )

    @property
    def offsets(self) -> bool:
        """Whether contexts get something added, of the width of queries and keys."""
        return type(self).offset is not RelativePositions.offset

    def call(self, query: Tensor, key: Tensor) -> Tensor:
        """Scaled inner products with the positions in them."""
        check_shape("query", query.shape, ("batch", "heads", "steps", "features"))
        check_shape("key", key.shape, ("batch", "heads", "steps", query.shape[-1]))
        scale = query.shape[-1] ** -0.5
        scores = dot(at_least_float32(self.turn(query)) * scale, self.turn(key))
        bias = self.bias(query, ops.shape(key)[-2])
        return scores if bias is None else scores + bias

    def get_config(self) -> dict[str, Any]:
        """Written out, because Keras's automatic config does not serialize a dtype policy."""
        return {**super().get_config()}


def make_positions(
    positions: Any, dtype: Any = None, causal: bool = False
) -> RelativePositions | None:
    """Positions from a name, with that dtype policy, from a config, themselves, or None.

    Args:
        causal: of a name, those of attentions that see nothing behind the query.
    """
    if isinstance(positions, dict):
        positions = keras.saving.deserialize_keras_object(positions)
    if positions is None or isinstance(positions, RelativePositions):
        return positions
    factory: Any = POSITIONS.get(positions)
    made: RelativePositions = (factory.causal if causal else factory)(dtype=dtype)
    return made
