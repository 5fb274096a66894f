"""Co-attention of a context and a query (BiDAF)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.weights_hooks import run_weights_hooks
from attention_zoo.layers.kernels import KernelLayer
from attention_zoo.layers.scores.base import build_score
from attention_zoo.layers.structures.sentence_pair import make_pair_mask, make_pairwise_score
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class CoAttention(KernelLayer):
    """Co-attention: context-to-query and query-to-context attention (BiDAF).

    `s_tj = score(h_t, u_j)`, `u~_t = sum_j softmax_j(s_tj) u_j`,
    `h~ = sum_t softmax_t(max_j s_tj) h_t`, `g_t = [h_t; u~_t; h_t * u~_t; h_t * h~]`

    Use it for a text and a question that attend to each other.

    Args:
        score: similarity of a context position and a query position: a name or a `Score`.
        units: hidden units of a score that has them and is given by name.

    Call arguments:
        context: h, `(B, T, D)`.
        query: u, `(B, J, D)`.
        context_mask, query_mask: `(B, T)`, `(B, J)`, False at masked positions; combined by AND
            with the tensors' implicit Keras masks.
        return_attention_scores: whether to return the weights of both directions too.

    Returns:
        G, `(B, T, 4 D)`; if requested, also the weights over the query for each context position,
        `(B, T, J)`, and the weights over the context, `(B, T)`.

    Weights:
        The weights of the score.

    Masking:
        Masked positions have weight 0, and their content has no effect. G is 0 at masked context
        positions. If the query is fully masked, u~ and h~ are 0. The context's mask is passed on
        with the result.

    Cost:
        O(T J) scores, O(T J D) for the weighted sums.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import CoAttention
        >>> context, query = np.ones((2, 5, 4), "float32"), np.ones((2, 3, 4), "float32")
        >>> g, to_query, to_context = CoAttention()(context, query, return_attention_scores=True)
        >>> tuple(g.shape), tuple(to_query.shape), tuple(to_context.shape)
        ((2, 5, 16), (2, 5, 3), (2, 5))

    Reference:
        Seo et al. 2016, arXiv 1611.01603, section 2, "attention flow layer", equations 1 (S) and 2
        (G): H is the context, U the query, S the scores, a_t and b the weights, G the result; its
        beta is the simple concatenation.
    """

    runs_weights_hooks = True

    def __init__(self, score: Any = "trilinear", units: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.score = make_pairwise_score(score, **self.part_arguments, units=units)
        self.supports_masking = True

    def build(self, context_shape: Shape, query_shape: Shape) -> None:
        for name, shape in (("context", context_shape), ("query", query_shape)):
            zoo_ops.check_shape(name, shape, ("batch", "steps", "features"))
        self.width = context_shape[-1]
        if query_shape[-1] != self.width:
            raise ValueError(
                "context and query must have the same width, since they are multiplied elementwise,"
                f" got {context_shape[-1]} and {query_shape[-1]}; project one of them first"
            )
        build_score(self.score, tuple(context_shape), tuple(query_shape))

    def call(
        self,
        context: Tensor,
        query: Tensor,
        context_mask: Tensor | None = None,
        query_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        width = self.width if self.weights else "features"
        zoo_ops.check_shape("context", context.shape, ("batch", "steps", width))
        width = context.shape[-1] or "features"
        zoo_ops.check_shape("query", query.shape, ("batch", "steps", width))
        context_mask = zoo_ops.merge_masks("context_mask", context_mask, context)
        query_mask = zoo_ops.merge_masks("query_mask", query_mask, query)
        context = zoo_ops.zero_masked(ops.cast(context, self.compute_dtype), context_mask)
        query = zoo_ops.zero_masked(ops.cast(query, self.compute_dtype), query_mask)
        scores = self.score.compute_scores(context, self.score.project(query))  # (B, T, J)
        pair_mask = make_pair_mask(context_mask, query_mask)
        to_query = zoo_ops.masked_softmax(scores, pair_mask)
        to_context = _compute_context_weights(scores, context_mask, query_mask)
        attended_query = _weighted_sum(to_query, query)  # (B, T, D)
        attended_query = run_weights_hooks(self, to_query, pair_mask, attended_query)
        attended_context = _weighted_sum(to_context[:, None], context)  # (B, 1, D)
        products = [context * attended_query, context * attended_context]
        merged = ops.concatenate([context, attended_query, *products], axis=-1)
        merged = zoo_ops.attach_mask(merged, context_mask)
        if not return_attention_scores:
            return merged
        return merged, *(ops.cast(x, self.compute_dtype) for x in (to_query, to_context))

    def compute_output_spec(
        self,
        context: Tensor,
        query: Tensor,
        context_mask: Tensor | None = None,
        query_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        batch, steps, width = context.shape
        merged = self.make_symbolic_output((batch, steps, 4 * width), context_mask)
        if not return_attention_scores:
            return merged
        return merged, *map(
            self.make_symbolic_output, ((batch, steps, query.shape[1]), (batch, steps))
        )


def _compute_context_weights(
    scores: Tensor, context_mask: Tensor | None, query_mask: Tensor | None
) -> Tensor:
    """Compute the weights over the context, `(B, T)`, from the maximal score of each position."""
    unmasked = ops.ones(ops.shape(scores)[::2], "bool") if query_mask is None else query_mask
    unmasked_scores = zoo_ops.mask_scores(scores, unmasked[:, None, :])
    best = zoo_ops.max_or_nan(unmasked_scores, -1)
    any_unmasked = ops.any(unmasked, axis=-1, keepdims=True)
    return zoo_ops.masked_softmax(best, zoo_ops.combine_masks(context_mask, any_unmasked))


def _weighted_sum(weights: Tensor, values: Tensor) -> Tensor:
    """Return weighted sums in the values' dtype, summed in float32 at least."""
    return ops.cast(ops.matmul(weights, ops.cast(values, weights.dtype)), values.dtype)
