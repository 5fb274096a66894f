"""Location score: computed from the query alone."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
from keras import ops

from attention_zoo.layers.scores.base import SCORES, Score
from attention_zoo.ops import at_least_float32, project, static_size, take_first, whole_number
from attention_zoo.typing import Shape, Tensor


@SCORES.register("location")
@keras.saving.register_keras_serializable("attention_zoo")
class LocationScore(Score):
    """Location score: the query alone predicts a score for each source position.

    `score(q, k_j) = (q W)_j`

    The values of the keys are ignored; only their number S matters. Positions count from the
    start of the memory and include masked ones, so put padding at the end.

    Use it when the alignment depends on the query and the source position, but not on the content
    of the source. Sources have a maximum length.

    Args:
        max_length: length of the longest memory; W has one column per position.

    Call arguments:
        query: `(..., T, Dq)`.
        key: `(..., S, Dk)`, S at most `max_length`.

    Returns:
        Scores `(..., T, S)`, at least float32.

    Weights:
        kernel: W, `(Dq, max_length)`.

    Masking:
        None here: the attention layer masks the scores.

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
        h_t the query. For a shorter source the paper, too, uses only the first entries. The paper
        ignores the end of a longer source; here a longer source is an error.
    """

    needs_all_positions: ClassVar[bool] = True

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
        self.kernel = self.add_kernel("kernel", (query_shape[-1], self.max_length))

    def compute_scores(self, query: Tensor, keys: Tensor) -> Tensor:
        self._refuse_longer(keys.shape[-2])
        query = at_least_float32(query)
        scores = project(query, take_first(self.kernel, ops.shape(keys)[-2], axis=1))
        rows = ops.zeros_like(keys[..., 0], dtype=scores.dtype)
        return scores + rows[..., None, :]  # adds leading axes that only the keys have

    def _refuse_longer(self, sources: int | None) -> None:
        length = static_size(sources)
        if length is not None and length > self.max_length:
            raise ValueError(
                f"the length of key, {length}, exceeds max_length={self.max_length}; "
                "truncate the memory, or create the score with a larger max_length"
            )
