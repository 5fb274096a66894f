"""A number learned for every bucket of distances."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.positions.base import POSITIONS, RelativePositions, Shape, Tensor


@POSITIONS.register("t5")
@keras.saving.register_keras_serializable("attention_zoo")
class T5Positions(RelativePositions):
    """Every head adds a learned number to a score, one for each bucket of distances.

    `score(q_t, k_s) = q_t . k_s / sqrt(D) + b_{h, bucket(s - t)}`

    Near distances have a bucket each, farther ones share theirs in logarithmic steps, and the last
    one holds all from `max_distance` on. The same object given to several layers is shared by
    them, as in T5 (whose scores are not divided by `sqrt(D)`: `score="dot"`).

    Args:
        bidirectional: half of the buckets are for the sources behind the query; when False, these
            all count as distance 0 (a causal mask hides them).
        num_buckets: of both sides together.
        max_distance: from there on all is the last bucket.

    Call arguments:
        query: `(B, H, T, D)`.
        key: `(B, H, S, D)`.

    Returns:
        Scores `(B, H, T, S)`, float32 at least.

    Weights:
        bucket_bias: b, `(num_buckets, H)`.

    Masking:
        None here: the attention masks scores. Padding on the left is not seen.

    Cost:
        O(H T S) more, the same for all rows.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MultiHeadAttention
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4, positions="t5")
        >>> x = np.ones((2, 3, 8), "float32")
        >>> tuple(layer(x, x).shape)
        (2, 3, 8)

    Reference:
        Raffel et al. 2019, arXiv 1910.10683, section 2.1 (32 buckets up to a distance of 128); the
        borders of the buckets are those of the authors' code.
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
                f"num_buckets must be even and at least 4, half of them for each side, got "
                f"{num_buckets}"
            )
        one_side = num_buckets // 2 if bidirectional else num_buckets
        if max_distance <= one_side // 2:
            raise ValueError(
                f"max_distance must be above {one_side // 2}, which have buckets of their own, "
                f"got {max_distance}"
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
        self.built = True

    def of_distances(self, distances: Tensor, heads: int, dtype: str) -> Tensor:
        table = ops.cast(self.bucket_bias, dtype)
        return ops.moveaxis(ops.take(table, self.bucket(distances), axis=0), -1, 0)

    def bucket(self, distance: Tensor) -> Tensor:
        """Bucket numbers, int32, of distances s - t."""
        one_side = self.num_buckets // 2 if self.bidirectional else self.num_buckets
        table = ops.convert_to_tensor(zoo_ops.distance_buckets(one_side, self.max_distance))
        if not self.bidirectional:
            return ops.take(table, ops.clip(-distance, 0, self.max_distance), axis=0)
        near = ops.take(table, ops.minimum(ops.abs(distance), self.max_distance), axis=0)
        return near + one_side * ops.cast(distance > 0, "int32")

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "bidirectional": self.bidirectional,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
        }
