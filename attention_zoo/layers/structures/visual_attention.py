"""Visual attention: attention over a grid of image features."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.attention.attention_shapes import broadcast_batch, unpack_shapes
from attention_zoo.layers.attention.steps import Memory
from attention_zoo.layers.kernels import select_part_arguments
from attention_zoo.layers.scores.additive import AdditiveScore
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class VisualAttention(Attention):
    """Visual attention: additive attention over a grid of image features, with a gated context.

    `context_t = beta_t sum_i weights_ti value_i`, `beta_t = sigmoid(query_t . w + b)`

    Use it for captioning: each word attends to regions of the image.

    Args:
        units: A, number of hidden units of the score; the query's width when None.
        use_gate: whether to scale the context by the gate beta; beta is 1 when False.
        alignment: name of an alignment, or an `Alignment` instance.
        dropout: dropout rate on the weights, in training. seed: its random seed.

    Call arguments:
        query: `(B, T, Dq)`, such as the decoder states before each word.
        value: `(B, h, w, C)`, a grid, or `(B, L, C)`, a flattened grid.
        key: same shape as the value, except for the width Dk; default: the value.
        value_mask, key_mask: `(B, h, w)` for a grid, `(B, L)` for a flattened grid.
        attention_mask, attention_bias: `(B, T, h, w)` for a grid, `(B, T, L)` for a flattened grid.
        The other arguments are those of `Attention`.

    Returns:
        Context `(B, T, C)` and, on request, the weights, `(B, T, h, w)` for a grid, `(B, T, L)`
        for a flattened grid.

    Weights:
        query_kernel: `(Dq, A)`. key_kernel: `(Dk, A)`. v: `(A,)`. gate_kernel: w, `(Dq, 1)`, and
        gate_bias: b, `(1,)`, with `use_gate`.

    Masking:
        As in `Attention`.

    Cost:
        O((T Dq + L C + T L) A + T L C) time, O(T L A) memory, L = h w.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import VisualAttention
        >>> states, grid = np.ones((2, 3, 4), "float32"), np.ones((2, 7, 7, 6), "float32")
        >>> context, weights = VisualAttention(8)(states, grid, return_attention_scores=True)
        >>> tuple(context.shape), tuple(weights.shape)
        ((2, 3, 6), (2, 3, 7, 7))

    Reference:
        Xu et al. 2015, arXiv 1502.03044, equations 4 and 5, and section 4.2.1 for the gate: a_i
        are the values, h_{t-1} the query, f_beta the gate's weights, z_t the context.
    """

    config_excludes = ("score",)

    def __init__(
        self,
        units: int | None = None,
        use_gate: bool = True,
        alignment: Any = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        score = AdditiveScore(units, **select_part_arguments(kwargs))
        super().__init__(score, alignment, dropout=dropout, seed=seed, **kwargs)
        self.units, self.use_gate = units, use_gate

    def build(
        self, query_shape: Any, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        query_shape, value_shape, key_shape = unpack_shapes(query_shape, value_shape, key_shape)
        _check_same_grid(value_shape, key_shape)
        super().build(query_shape, _flatten_shape(value_shape), _flatten_shape(key_shape))
        self.gate_kernel = self.gate_bias = None
        if self.use_gate:
            self.gate_kernel = self.add_kernel("gate_kernel", (query_shape[-1], 1))
            self.gate_bias = self.add_bias("gate_bias", (1,))

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        return_state: bool = False,
        training: bool | None = None,
    ) -> Any:
        _check_same_grid(value.shape, value.shape if key is None else key.shape)
        value, key = (zoo_ops.repeat_to_mask_batch(x, value_mask, key_mask) for x in (value, key))
        value_mask = zoo_ops.merge_masks("value_mask", value_mask, value)
        key_mask = zoo_ops.merge_masks("key_mask", key_mask, key)
        grid = ops.shape(value)[1:-1]
        if len(grid) == 2:
            value, key = _flatten_grid(value), _flatten_grid(key)
            value_mask, key_mask = _flatten_mask(value_mask, grid), _flatten_mask(key_mask, grid)
            if attention_mask is not None:
                batch = broadcast_batch(query.shape[0], value.shape[0])
                shape = (None if batch == 1 else batch, query.shape[1], None, None)
                attention_mask = zoo_ops.as_boolean_mask(attention_mask, "attention_mask", shape)
                attention_mask = _flatten_mask(attention_mask, grid)
            if attention_bias is not None:
                attention_bias = ops.convert_to_tensor(attention_bias)
                zoo_ops.check_shape(
                    "attention_bias", attention_bias.shape, ("batch", "queries", "height", "width")
                )
                attention_bias = _flatten_mask(attention_bias, grid)
        masks = (query_mask, value_mask, key_mask, attention_mask, attention_bias)
        options = (use_causal_mask, return_attention_scores, return_state, training)
        results = super().call(query, value, key, *masks, *options)
        if not return_attention_scores:
            return results
        context, weights, *state = results
        return context, ops.reshape(weights, (*ops.shape(weights)[:2], *grid)), *state

    def prepare(
        self,
        value: Tensor,
        key: Tensor | None = None,
        value_mask: Tensor | None = None,
        num_queries: int | None = None,
    ) -> Memory:
        """Prepare the memory, as in `Attention`; a grid is flattened first."""
        if len(value.shape) == 4:
            value_mask = zoo_ops.merge_masks("value_mask", value_mask, value)
            value_mask = _flatten_mask(value_mask, ops.shape(value)[1:-1])
            value, key = _flatten_grid(value), _flatten_grid(key)
        return super().prepare(value, key, value_mask, num_queries)

    def project_output(self, context: Tensor, query: Tensor, row_mask: Tensor | None) -> Tensor:
        """Scale the context by the gate; a context of 0 stays 0."""
        if self.gate_kernel is None:
            return context
        gate = zoo_ops.project(query, self.gate_kernel) + ops.cast(self.gate_bias, query.dtype)
        return context * ops.sigmoid(gate)


def _flatten_shape(shape: Shape) -> Shape:
    """Return `(B, L, C)` for a grid `(B, h, w, C)`, and any other shape unchanged."""
    if len(shape) != 4:
        return tuple(shape)
    batch, height, width, features = shape
    return batch, None if None in (height, width) else height * width, features


def _check_same_grid(value: Shape, key: Shape) -> None:
    """Raise ValueError unless keys and values have the same grid."""
    pairs = zip(tuple(value)[1:-1], tuple(key)[1:-1], strict=False)
    same = len(value) == len(key) and all(None in pair or pair[0] == pair[1] for pair in pairs)
    if 4 in (len(value), len(key)) and not same:
        raise ValueError(
            "value and key must both be (batch, height, width, features) of the same grid, or "
            f"both (batch, steps, features), got shapes {tuple(value)} and {tuple(key)}"
        )


def _flatten_grid(x: Tensor | None) -> Tensor | None:
    """Flatten the grid axes: `(B, h, w, C)` to `(B, h w, C)`."""
    if x is None:
        return None
    batch, height, width, features = ops.shape(x)
    return ops.reshape(x, (batch, height * width, features))


def _flatten_mask(mask: Tensor | None, grid: tuple[Any, ...]) -> Tensor | None:
    """Flatten a mask or bias that broadcasts to `(..., h, w)` to `(..., h w)`."""
    if mask is None:
        return None
    lead = ops.shape(mask)[:-2]
    return ops.reshape(ops.broadcast_to(mask, (*lead, *grid)), (*lead, math.prod(grid)))
