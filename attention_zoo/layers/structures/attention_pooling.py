"""Attention pooling."""

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


@keras.saving.register_keras_serializable("attention_zoo")
class AttentionPooling(KernelLayer):
    """Attention pooling: weighted sum of a sequence, with a learned or a given query.

    `pooled = sum_s weights_s x_s`, `weights = align(score(q, x_s) over s)`

    With the additive score and a learned query this is Yang's `softmax(tanh(W h_s + b) . u)`: the
    score is `v . tanh(q W + x_s U)`, where U is the paper's W, v its u, and `q W` its b.

    Use it for one vector per text, weighted by relevance.

    Args:
        score: similarity of query and input: a name or a `Score`.
        alignment: maps scores to weights: a name or an `Alignment`.
        units: hidden units of a score that has them and is given by name.
        dropout: dropout rate of the weights. seed: seed of the dropout.

    Call arguments:
        inputs: `(B, S, D)`.
        query: `(B, Dq)`, such as the last state of an LSTM; None for a learned query, in all
            calls or in none.
        mask: `(B, S)`, False at masked positions; combined by AND with the implicit Keras mask.
        return_attention_scores: whether to return the weights too.
        training: enables dropout and the alignment's noise.

    Returns:
        `(B, D)`; if requested, also the weights `(B, S)` before dropout.

    Weights:
        query: q, `(D,)`, if it is learned. The weights of the score and of the alignment.

    Masking:
        Masked positions have weight 0 and no effect; a fully masked sequence is pooled to 0. The
        result has no time axis and carries no mask.

    Cost:
        O(S) scores, O(S D) for the weighted sum.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import AttentionPooling
        >>> pooled, weights = AttentionPooling(units=4)(
        ...     np.ones((2, 3, 5), "float32"), return_attention_scores=True
        ... )
        >>> tuple(pooled.shape), tuple(weights.shape)
        ((2, 5), (2, 3))

    Reference:
        Yang et al. 2016, ACL N16-1174, equations 5 to 7 (h_it is x_s, alpha_it its weight, s_i
        the result); Bahdanau et al. 2014, arXiv 1409.0473, equations 5 and 6, for attention.
    """

    def __init__(
        self,
        score: Any = "additive",
        alignment: Any = "softmax",
        units: int | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        score = make_score(score, **self.part_arguments, units=units)
        alignment = make_alignment(alignment, **self.part_arguments)
        self.attention = Attention(
            score, alignment, None, dropout, seed, dtype=self.dtype_policy, name="attention"
        )

    def build(self, inputs_shape: Shape, query_shape: Shape | None = None) -> None:
        zoo_ops.check_shape("inputs", inputs_shape, ("batch", "steps", "features"))
        self.width = inputs_shape[-1]
        self.learned_query = None
        if query_shape is None:
            self.learned_query = self.add_weight(shape=(self.width,), name="query")
            query_shape = (inputs_shape[0], self.width)
        zoo_ops.check_shape("query", query_shape, ("batch", "features"))
        self.query_width = query_shape[-1]
        if not self.attention.built:
            self.attention.build((query_shape[0], 1, query_shape[-1]), tuple(inputs_shape))

    def call(
        self,
        inputs: Tensor,
        query: Tensor | None = None,
        mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        zoo_ops.check_shape("inputs", inputs.shape, ("batch", "steps", self.width))
        inputs = zoo_ops.repeat_to_mask_batch(inputs, mask)
        mask = zoo_ops.merge_masks("mask", mask, inputs)
        query = self._query(query, inputs)[:, None]
        context, weights = self.attention(
            query, inputs, value_mask=mask, return_attention_scores=True, training=training
        )
        pooled, weights = context[:, 0], weights[:, 0]
        return (pooled, weights) if return_attention_scores else pooled

    def _query(self, query: Tensor | None, inputs: Tensor) -> Tensor:
        """Return the given or the learned query, `(B, Dq)`."""
        if self.learned_query is None:
            if query is None:
                raise ValueError("this layer was built with an external query; pass query")
            zoo_ops.check_shape("query", query.shape, ("batch", self.query_width))
            return query
        if query is not None:
            raise ValueError("this layer was built with a learned query; do not pass query")
        learned = ops.cast(self.learned_query, self.compute_dtype)
        return ops.broadcast_to(learned, (ops.shape(inputs)[0], learned.shape[-1]))

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None: the pooled vector has no time axis."""

    def get_config(self) -> dict[str, Any]:
        attention = self.attention.get_config()
        names = ("score", "alignment", "dropout", "seed")
        return {**super().get_config(), **{name: attention[name] for name in names}}
