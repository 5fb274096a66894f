"""The query alone says which place to look at."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.scores.base import SCORES, Score, Shape, Tensor
from attention_zoo.ops import at_least_float32, whole_number


@SCORES.register("location")
@keras.saving.register_keras_serializable("attention_zoo")
class LocationScore(Score):
    """A score for each place of the memory, read off the query.

    `score(q, k_j) = (q W)_j`

    What stands in the memory plays no part, only how long it is. Places count from the start of
    the memory, hidden ones too, so pad a memory at its end.

    Args:
        max_length: length of the longest memory, one column of W each.

    Call arguments:
        query: `(..., T, Dq)`.
        key: `(..., S, Dk)`, S at most `max_length`.

    Returns:
        Scores `(..., T, S)`, float32 at least.

    Weights:
        kernel: W, `(Dq, max_length)`.

    Masking:
        None here: the attention masks scores.

    Cost:
        O(T S Dq) time, O(T S) memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention, LocationScore
        >>> layer = Attention(score=LocationScore(max_length=50))
        >>> tuple(layer(np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")).shape)
        (2, 3, 6)

    Reference:
        Luong et al. 2015, arXiv 1508.04025, section 3.1, the location-based function: W_a is W,
        h_t the query. Of a shorter source the paper, too, uses the first entries only; what it
        would ignore of a longer one is refused here.
    """

    def __init__(self, max_length: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if max_length is None:
            raise ValueError(
                "score 'location' needs max_length, the length of the longest memory: pass "
                "score=LocationScore(max_length=...)"
            )
        self.max_length = whole_number("max_length", max_length)

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self._refuse_longer(key_shape[-2])
        self.kernel = self.weight("kernel", (query_shape[-1], self.max_length))
        self.built = True

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        self._refuse_longer(keys.shape[-2])
        query = at_least_float32(query)
        # `slice` fails where a length known only when it runs is too great; `[:, :S]` would not.
        shape = (self.kernel.shape[0], ops.shape(keys)[-2])
        scores = ops.matmul(query, ops.slice(ops.cast(self.kernel, query.dtype), (0, 0), shape))
        rows = ops.zeros_like(keys[..., 0], dtype=scores.dtype)
        return scores + rows[..., None, :]  # leading axes that only the keys have

    def _refuse_longer(self, sources: int | None) -> None:
        if sources is not None and sources > self.max_length:
            raise ValueError(
                f"key has {sources} places, but max_length is {self.max_length}; "
                "make the score with a greater max_length, or cut the memory"
            )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "max_length": self.max_length}
