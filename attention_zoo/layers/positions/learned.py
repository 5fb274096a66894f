"""Learned absolute position embeddings."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.base import BaseLayer
from attention_zoo.layers.positions.absolute import absolute_positions, check_embeddings
from attention_zoo.ops import check_shape, static_size, whole_number
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class LearnedPositions(BaseLayer):
    """Learned position embeddings, added to the inputs, up to a maximum length.

    `y_t = x_t + p_t`

    Use it for absolute positions up to a maximum length.

    Args:
        max_length: L, number of positions.

    Call arguments:
        inputs: `(B, T, D)`, embeddings, T at most L.
        start: position of the first embedding: an integer, for step-by-step decoding, or `(B,)`
            integers, one per row.

    Returns:
        `(B, T, D)`. Positions from L on raise ValueError; if they are known only at run time, the
        outputs at these positions are NaN. Negative positions (padding, with a negative `start`)
        use p_0.

    Weights:
        table: p, `(L, D)`.

    Masking:
        The mask is passed on. Positions are counted from the first one, masked or not: left padding
        shifts the tokens, unless `start` is minus the number of padding tokens of each row.

    Cost:
        O(B T D) time, O(L D) weights.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import LearnedPositions
        >>> layer = LearnedPositions(max_length=10)
        >>> tuple(layer(np.zeros((2, 3, 4), "float32")).shape)
        (2, 3, 4)

    Reference:
        Gehring et al. 2017, arXiv 1705.03122, section 3.1: w_j is x_t, p_j is p_t. Initialized as
        in BERT: normal with standard deviation 0.02.
    """

    def __init__(self, max_length: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_length = whole_number("max_length", max_length)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        check_embeddings(inputs_shape)
        start = keras.initializers.RandomNormal(stddev=0.02)
        self.table = self.add_weight((self.max_length, inputs_shape[-1]), start, name="table")

    def call(self, inputs: Tensor, start: Any = 0) -> Tensor:
        check_shape("inputs", inputs.shape, ("batch", "steps", self.table.shape[-1]))
        length = static_size(inputs.shape[1])
        if isinstance(start, int) and length is not None and start + length > self.max_length:
            raise ValueError(
                f"sequence length {start + length} of inputs, including start={start}, exceeds "
                f"max_length={self.max_length}. Increase max_length, or use SinusoidalPositions."
            )
        return inputs + ops.cast(self.embed(absolute_positions(inputs, start)), inputs.dtype)

    def embed(self, positions: Tensor) -> Tensor:
        """Look up the embeddings `(..., D)` of integer positions `(...)`; NaN from L on."""
        table = ops.cast(self.table, self.compute_dtype)
        vectors = ops.take(table, ops.clip(positions, 0, self.max_length - 1), axis=0)
        nan = ops.full((), float("nan"), vectors.dtype)
        return ops.where(positions[..., None] < self.max_length, vectors, nan)
