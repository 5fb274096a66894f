"""Self-attention."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.alignments import make_alignment
from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.layers.scores import make_score
from attention_zoo.typing import Shape, Tensor


class SelfAttentionBase(KernelLayer):
    """Base class of layers that pass one sequence to `self.attention` as query, value and key.

    A subclass creates `attention`, and defines `project` if query, value and key differ.

    Args:
        **kwargs: arguments of `keras.layers.Layer`.

    Call arguments:
        inputs: `(B, T, D)`.
        The others are those of `SelfAttention`.

    Returns:
        `(B, T, A)`, A the width of `compute_output_shape`; on request the weights too.

    Masking:
        As in `SelfAttention`.

    Reference:
        Wang et al. 2018, arXiv 1711.07971, section 3.2, equation 1.
    """

    attention: Attention

    def build(self, inputs_shape: Shape) -> None:
        zoo_ops.check_shape("inputs", inputs_shape, ("batch", "steps", "features"))
        self.width = inputs_shape[-1]
        shape = self.compute_output_shape(inputs_shape)
        if not self.attention.built:
            self.attention.build(shape, shape)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        width = self.width if self.weights else "features"
        zoo_ops.check_shape("inputs", inputs.shape, ("batch", "steps", width))
        inputs = zoo_ops.repeat_to_mask_batch(inputs, mask)
        mask = zoo_ops.merge_masks("mask", mask, inputs)
        return self.attention(
            *self.project(inputs, mask),
            query_mask=mask,
            value_mask=mask,
            attention_mask=attention_mask,
            attention_bias=attention_bias,
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )

    def project(self, inputs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return query, value and key; the key is None if the value is the key."""
        return inputs, inputs, None

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return tuple(inputs_shape)

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        x = self.make_symbolic_output(self.compute_output_shape(inputs.shape))
        return self.attention.compute_output_spec(
            x,
            x,
            query_mask=mask,
            value_mask=mask,
            attention_mask=attention_mask,
            attention_bias=attention_bias,
            return_attention_scores=return_attention_scores,
        )


@keras.saving.register_keras_serializable("attention_zoo")
class SelfAttention(SelfAttentionBase):
    """Self-attention: each output is a weighted sum of all positions of the same sequence.

    `y_i = sum_j weights_ij x_j`, `weights_i = softmax_j(x_i . x_j)`, nothing trainable; with
    `use_projection`, `y_i = sum_j weights_ij (x_j W_v)`, `weights_i = softmax_j(x_i W_q . x_j W_k)`

    The formulas are for the default score ("dot") and alignment ("softmax").

    Use it when the words of a sentence attend to each other.

    Args:
        use_projection: whether queries, keys and values are projected.
        units: A, width of the projections; the inputs' width when None.
        score: name of a score, or a `Score` instance; with projections, "scaled_dot" is usual.
        alignment: name of an alignment, or an `Alignment` instance.
        dropout: dropout rate on the weights, in training, 0 to 1.
        seed: random seed of the dropout, an integer or None.

    Call arguments:
        inputs: `(B, T, D)`.
        mask: `(B, T)`, True at valid positions; combined by AND with the implicit Keras mask.
        attention_mask, attention_bias: as in `Attention`.
        use_causal_mask: whether position i attends only to positions 0 .. i.
        return_attention_scores: whether to also return the weights.
        training: whether to apply dropout and the alignment's noise.

    Returns:
        `(B, T, D)`, with projections `(B, T, A)`; on request the weights `(B, T, T)`, before
        dropout.

    Weights:
        query_projection: W_q, key_projection: W_k, value_projection: W_v, `(D, A)` each, with
        `use_projection`. Those of the score and of the alignment.

    Masking:
        A masked position gets weight exactly 0, its values do not affect the other outputs, and
        its own output is 0. The mask is propagated.

    Cost:
        O(T^2 D) time, O(T^2) memory.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import SelfAttention
        >>> x = np.log([[[1.0], [2.0]]]).astype("float32")
        >>> y, weights = SelfAttention()(x, return_attention_scores=True)
        >>> [round(float(w), 2) for w in weights[0, 0]], tuple(y.shape)
        ([0.5, 0.5], (1, 2, 1))

    Reference:
        Wang et al. 2018, arXiv 1711.07971, section 3.2, equations 2 (without projections: f is
        exp of the score; g is linear in the paper, here g(x_j) is x_j) and 3 (with projections:
        theta is W_q, phi is W_k, g is W_v); Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1,
        with score="scaled_dot".
    """

    def __init__(
        self,
        use_projection: bool = False,
        units: int | None = None,
        score: Any = "dot",
        alignment: Any = "softmax",
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if units is not None and not use_projection:
            raise ValueError(
                f"units is the width of the projections, got {units} without any; set "
                "use_projection=True"
            )
        self.use_projection = use_projection
        self.units = None if units is None else zoo_ops.whole_number("units", units)
        parts = (
            make_score(score, **self.part_arguments),
            make_alignment(alignment, **self.part_arguments),
        )
        self.attention = Attention(*parts, None, dropout, seed, dtype=self.dtype_policy)
        self.supports_masking = True

    def build(self, inputs_shape: Shape) -> None:
        super().build(inputs_shape)
        self.query_projection = self.key_projection = self.value_projection = None
        if self.use_projection:
            shape = (self.width, self.units or self.width)
            self.query_projection = self.add_kernel("query_projection", shape)
            self.key_projection = self.add_kernel("key_projection", shape)
            self.value_projection = self.add_kernel("value_projection", shape)

    def project(self, inputs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        x = zoo_ops.zero_masked(ops.cast(inputs, self.compute_dtype), mask)
        query, value, key = (
            x if kernel is None else zoo_ops.project(x, kernel)
            for kernel in (self.query_projection, self.value_projection, self.key_projection)
        )
        return query, value, key

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        width = self.units if self.use_projection and self.units else inputs_shape[-1]
        return (*inputs_shape[:-1], width)

    def get_config(self) -> dict[str, Any]:
        attention = self.attention.get_config()
        names = ("score", "alignment", "dropout", "seed")
        return {**super().get_config(), **{name: attention[name] for name in names}}
