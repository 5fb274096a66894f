"""T5 relative position bias."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.positions.base import POSITIONS, RelativePositions
from attention_zoo.typing import Shape, Tensor


@POSITIONS.register("t5")
@keras.saving.register_keras_serializable("attention_zoo")
class T5Positions(RelativePositions):
    """T5 relative position bias: a learned scalar per head and distance bucket.

    `score(q_t, k_s) = q_t . k_s / sqrt(D) + b_{h, bucket(s - t)}`

    Short distances have one bucket each. Longer ones share buckets of logarithmically growing
    width. The last bucket of each direction holds all distances from `max_distance` on. Layers that
    get the same instance share its weights, as in T5 (which does not divide scores by `sqrt(D)`:
    use `score="dot"`).

    Use it in Transformer encoders and decoders to learn a bias for each bucket of distances.

    Args:
        bidirectional: use half of the buckets for sources after the query. When False, these all
            count as distance 0, for use with a causal mask.
        num_buckets: number of buckets, of both directions together.
        max_distance: all distances from here on share the last bucket.

    Call arguments:
        query: `(B, H, T, D)`.
        key: `(B, H, S, D)`.

    Returns:
        Scores `(B, H, T, S)`, at least float32.

    Weights:
        bucket_bias: b, `(num_buckets, H)`.

    Masking:
        None here: the attention layer masks the scores. Left padding has no effect.

    Cost:
        O(H T S) in addition, shared by all batch rows.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MultiHeadAttention
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4, positions="t5")
        >>> x = np.ones((2, 3, 8), "float32")
        >>> tuple(layer(x, x).shape)
        (2, 3, 8)

    Reference:
        Raffel et al. 2019, arXiv 1910.10683, section 2.1 (32 buckets up to a distance of 128); the
        bucket boundaries are those of the authors' code.
    """

    def __init__(
        self,
        bidirectional: bool = True,
        num_buckets: int = 32,
        max_distance: int = 128,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        num_buckets = zoo_ops.whole_number("num_buckets", num_buckets, low=2)
        max_distance = zoo_ops.whole_number("max_distance", max_distance)
        if bidirectional and (num_buckets < 4 or num_buckets % 2):
            raise ValueError(
                f"num_buckets must be even and at least 4 (half for each direction), "
                f"got {num_buckets}"
            )
        one_side = num_buckets // 2 if bidirectional else num_buckets
        if max_distance <= one_side // 2:
            raise ValueError(
                f"max_distance must be above {one_side // 2} (smaller distances have a bucket "
                f"each), got {max_distance}; increase max_distance, or reduce num_buckets"
            )
        self.bidirectional = bidirectional
        self.num_buckets = num_buckets
        self.max_distance = max_distance

    @classmethod
    def causal(cls, **kwargs: Any) -> T5Positions:
        return cls(bidirectional=False, **kwargs)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        shape = (self.num_buckets, query_shape[1])
        self.bucket_bias = self.add_weight(shape=shape, name="bucket_bias")

    def distance_bias(self, distances: Tensor, heads: int, dtype: str) -> Tensor:
        table = ops.cast(self.bucket_bias, dtype)
        return ops.moveaxis(ops.take(table, self.bucket(distances), axis=0), -1, 0)

    def bucket(self, distance: Tensor) -> Tensor:
        """Return the int32 bucket numbers of distances s - t."""
        one_side = self.num_buckets // 2 if self.bidirectional else self.num_buckets
        table = ops.convert_to_tensor(zoo_ops.distance_buckets(one_side, self.max_distance))
        if not self.bidirectional:
            return ops.take(table, ops.clip(-distance, 0, self.max_distance), axis=0)
        near = ops.take(table, ops.minimum(ops.abs(distance), self.max_distance), axis=0)
        return near + one_side * ops.cast(distance > 0, "int32")
