"""Stacked cross-attention: similarity of texts and images by word-region attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.weights_hooks import run_weights_hooks
from attention_zoo.layers.base import BaseLayer
from attention_zoo.layers.scores import make_score
from attention_zoo.ops import finite_number
from attention_zoo.registry import check_choice
from attention_zoo.typing import Shape, Tensor

MaskedSequence = tuple[Tensor, Tensor | None]

DIRECTIONS = ("text_to_image", "image_to_text")


def _average(cosines: Tensor, mask: Tensor, sharpness: float) -> Tensor:
    """Return the mean of the unmasked cosines."""
    weights = ops.cast(mask, cosines.dtype)
    return ops.sum(cosines * weights, axis=-1) / ops.maximum(ops.sum(weights, axis=-1), 1)


def _log_sum_exp(cosines: Tensor, mask: Tensor, sharpness: float) -> Tensor:
    """Return `log(sum exp(sharpness cosine)) / sharpness` over the unmasked cosines."""
    lowest = ops.cast(-1.0, cosines.dtype)
    best = ops.max(ops.where(mask, cosines, lowest), axis=-1, keepdims=True, initial=-1.0)
    best = ops.stop_gradient(best)
    differences = ops.where(mask, cosines - best, ops.zeros((), cosines.dtype))
    terms = ops.exp(sharpness * differences) * ops.cast(mask, cosines.dtype)
    # The best cosine contributes 1, so the sum is at least 1, except in fully masked rows, whose
    # result the caller replaces.
    total = ops.maximum(ops.sum(terms, axis=-1), 1)
    return best[..., 0] + ops.log(total) / sharpness


POOLINGS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "average": _average,
    "log_sum_exp": _log_sum_exp,
}


@keras.saving.register_keras_serializable("attention_zoo")
class StackedCrossAttention(BaseLayer):
    """Stacked cross-attention (SCAN): similarity of a text and an image by word-region attention.

    Text to image, words e_j, regions v_i: `s_ij = max(0, cos(v_i, e_j))`,
    `weights_ji = softmax_i(lambda s_ij / ||s_i.||)`, where `||s_i.|| = sqrt(sum_j s_ij^2)`,
    `a_j = sum_i weights_ji v_i`, `similarity = pool_j cos(e_j, a_j)`

    Image to text swaps the roles of words and regions, so `direction="image_to_text"` is the same
    as swapping the first two arguments. The defaults are those of text to image; set
    `inverse_temperature` and `pooling_sharpness` for the other direction.

    Use it to score how well image regions match a sentence.

    Args:
        direction: "text_to_image" (words attend to regions), or "image_to_text".
        inverse_temperature: lambda, inverse temperature of the softmax; the authors use 9 for
            text to image, 4 for image to text.
        pooling: "average", or "log_sum_exp" for `log(sum_j exp(p cos_j)) / p`.
        pooling_sharpness: p; the authors use 6 for text to image, 5 for image to text.

    Call arguments:
        words: `(B, T, D)`.
        regions: `(B, S, D)`. Words and regions with the same batch index form a pair.
        words_mask, regions_mask: `(B, T)`, `(B, S)`, True at valid positions; combined by AND with
            the implicit Keras masks.
        return_attention_scores: whether to also return the weights.

    Returns:
        The attended vector a of each word, `(B, T, D)` (image to text: of each region,
        `(B, S, D)`), and the similarity of each pair, `(B,)`; on request the weights, `(B, T, S)`
        (image to text: `(B, S, T)`).

    Weights:
        None.

    Masking:
        Masked words and regions get weight 0 and are excluded from the pooling; their values do
        not affect the outputs. A pair without words or without regions gets attended vectors 0 and
        similarity 0. The queries' mask is propagated to the attended vectors.

    Cost:
        O(T S D) time, O(T S) memory. `similarities` compares I images with N texts in
        O(I N T S + I S^2) memory besides the inputs.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import StackedCrossAttention
        >>> words, regions = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
        >>> attended, similarity = StackedCrossAttention()(words, regions)
        >>> tuple(attended.shape), [round(float(x), 4) for x in similarity]
        ((2, 3, 4), [1.0, 1.0])

    Reference:
        Lee et al. 2018, arXiv 1803.08024, section 3.1: lambda_1 is `inverse_temperature`, lambda_2
        `pooling_sharpness`. Negative scores are set to 0, as in the paper; the authors' code
        multiplies them by 0.1.
    """

    runs_weights_hooks = True

    def __init__(
        self,
        direction: str = "text_to_image",
        inverse_temperature: float = 9.0,
        pooling: str = "average",
        pooling_sharpness: float = 6.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_choice("direction", direction, DIRECTIONS)
        check_choice("pooling", pooling, POOLINGS)
        self.direction, self.pooling = direction, pooling
        self.inverse_temperature = finite_number("inverse_temperature", inverse_temperature, 0)
        self.pooling_sharpness = finite_number("pooling_sharpness", pooling_sharpness, 0)
        self.cosine = make_score("cosine", self.dtype_policy)

    def build(self, words_shape: Shape, regions_shape: Shape) -> None:
        for name, shape in (("words", words_shape), ("regions", regions_shape)):
            zoo_ops.check_shape(name, shape, ("batch", "positions", "features"))
        if words_shape[-1] != regions_shape[-1]:
            raise ValueError(
                f"words and regions must have the same width, got {words_shape[-1]} and "
                f"{regions_shape[-1]}. Project one of them first."
            )
        if not self.cosine.built:
            self.cosine.build(tuple(words_shape), tuple(regions_shape))

    def call(
        self,
        words: Tensor,
        regions: Tensor,
        words_mask: Tensor | None = None,
        regions_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        (queries, mask), (values, value_mask) = self._get_queries_and_values(
            words, regions, words_mask, regions_mask
        )
        query_mask, value_mask = _mask_or_ones(mask, queries), _mask_or_ones(value_mask, values)
        attention_mask = ops.logical_and(query_mask[:, :, None], value_mask[:, None, :])
        scores = self.cosine.compute_scores(queries, self.cosine.project(values))
        weights = self._compute_weights(scores, attention_mask)
        attended = ops.matmul(weights, ops.cast(values, weights.dtype))
        attended = run_weights_hooks(self, weights, attention_mask, attended)
        queries = ops.cast(queries, attended.dtype)[..., None, :]
        cosines = self.cosine.compute_scores(queries, self.cosine.project(attended[..., None, :]))
        row_mask = ops.any(attention_mask, axis=(1, 2))
        similarity = self._pool(cosines[..., 0, 0], query_mask, row_mask)
        results = tuple(ops.cast(x, self.compute_dtype) for x in (attended, similarity, weights))
        zoo_ops.attach_mask(results[0], mask)
        return results if return_attention_scores else results[:2]

    def _get_queries_and_values(
        self, words: Tensor, regions: Tensor, words_mask: Tensor | None, regions_mask: Tensor | None
    ) -> tuple[MaskedSequence, MaskedSequence]:
        """Return the queries and the values, 0 at masked positions, each with its mask."""
        zoo_ops.check_shape("words", words.shape, ("batch", "positions", "features"))
        width = words.shape[-1] or "features"
        zoo_ops.check_shape("regions", regions.shape, ("batch", "positions", width))
        words_mask = zoo_ops.merge_masks("words_mask", words_mask, words)
        regions_mask = zoo_ops.merge_masks("regions_mask", regions_mask, regions)
        masked_words = zoo_ops.zero_masked(words, words_mask), words_mask
        masked_regions = zoo_ops.zero_masked(regions, regions_mask), regions_mask
        if self.direction == "image_to_text":
            return masked_regions, masked_words
        return masked_words, masked_regions

    def similarities(
        self,
        words: Tensor,
        regions: Tensor,
        words_mask: Tensor | None = None,
        regions_mask: Tensor | None = None,
    ) -> Tensor:
        """Compute the similarity of every image and every text, as the call does for pairs.

        The attended vectors a are not computed. With unit vectors e and `u_i = v_i / ||v_i||`, and
        `w_i = weights_i ||v_i||`, `cos(e, a) = sum_i w_i e . u_i / sqrt(w' (U U') w)`.

        Args:
            words: `(N, T, D)`, words of N texts.
            regions: `(I, S, D)`, regions of I images.
            words_mask, regions_mask: as in the call.

        Returns:
            `(I, N)`, in at least float32.
        """
        if not self.built:
            self.build(tuple(words.shape), tuple(regions.shape))
        (queries, mask), (values, value_mask) = self._get_queries_and_values(
            words, regions, words_mask, regions_mask
        )
        query_mask, value_mask = _mask_or_ones(mask, queries), _mask_or_ones(value_mask, values)
        queries, unit_values = self.cosine.project(queries), self.cosine.project(values)
        # (M, S, D) x (D, L T) -> (M, S, L T) -> (M, S, L, T) -> (M, L, T, S)
        num_queries, length, width = ops.shape(queries)
        flat_queries = ops.reshape(queries, (num_queries * length, width))
        cosines = zoo_ops.project(unit_values, ops.transpose(flat_queries))
        cosines = ops.reshape(cosines, (*ops.shape(unit_values)[:2], num_queries, length))
        cosines = ops.transpose(cosines, (0, 2, 3, 1))
        attention_mask = ops.logical_and(query_mask[None, :, :, None], value_mask[:, None, None, :])
        weights = self._compute_weights(cosines, attention_mask)
        scaled_weights = weights * _compute_norms(values, unit_values)
        cosines = _compute_attended_cosines(cosines, scaled_weights, unit_values)
        row_mask = ops.any(attention_mask, axis=(2, 3))
        similarities = self._pool(cosines, query_mask[None], row_mask)
        return ops.transpose(similarities) if self.direction == "image_to_text" else similarities

    def _compute_weights(self, scores: Tensor, attention_mask: Tensor) -> Tensor:
        """Compute weights `(..., T, S)` from cosines, normalized over the queries of each value."""
        scores = ops.where(attention_mask, ops.relu(scores), ops.zeros((), scores.dtype))
        squares = ops.sum(ops.square(scores), axis=-2, keepdims=True)
        one = ops.ones((), scores.dtype)
        scores = scores * ops.rsqrt(ops.where(squares <= 0, one, squares))  # NaN stays NaN
        return zoo_ops.masked_softmax(self.inverse_temperature * scores, attention_mask)

    def _pool(self, cosines: Tensor, query_mask: Tensor, row_mask: Tensor) -> Tensor:
        """Pool the cosines `(..., T)` of each pair; rows outside `row_mask` get 0."""
        pooled = POOLINGS[self.pooling](cosines, query_mask, self.pooling_sharpness)
        return ops.where(row_mask, pooled, ops.zeros((), pooled.dtype))

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None, so that Keras does not propagate the mask of the first argument.

        `call` attaches the mask of the queries, which may be the second argument.
        """

    def compute_output_spec(
        self,
        words: Tensor,
        regions: Tensor,
        words_mask: Tensor | None = None,
        regions_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        query_shape, value_shape, mask = words.shape, regions.shape, words_mask
        if self.direction == "image_to_text":
            query_shape, value_shape, mask = value_shape, query_shape, regions_mask
        shapes = ((query_shape[0],), (*query_shape[:2], value_shape[1]))
        results = (
            self.make_symbolic_output(query_shape, mask),
            *map(self.make_symbolic_output, shapes),
        )
        return results if return_attention_scores else results[:2]


def _mask_or_ones(mask: Tensor | None, x: Tensor) -> Tensor:
    """Return the mask of `x` `(B, L, D)`, or an all-True mask if it is None."""
    return ops.ones(ops.shape(x)[:2], "bool") if mask is None else mask


def _compute_norms(values: Tensor, unit_values: Tensor) -> Tensor:
    """Return the norms of values `(M, S, D)`, `(M, 1, 1, S)`, up to a factor per sequence.

    Each sequence is scaled so that its largest entry is 1: cosines do not change, and squares do
    not overflow.

    Args:
        values: the values.
        unit_values: the same values, normalized.
    """
    values = ops.cast(values, unit_values.dtype)
    largest = ops.max(ops.abs(values), axis=(1, 2), keepdims=True, initial=0)
    largest = ops.stop_gradient(ops.where(largest > 0, largest, ops.ones_like(largest)))
    return ops.sum(values / largest * unit_values, axis=-1)[:, None, None, :]


def _compute_attended_cosines(
    cosines: Tensor, scaled_weights: Tensor, unit_values: Tensor
) -> Tensor:
    """Compute `cos(e, a)` `(M, L, T)` of queries e and attended vectors `a = sum_i w_i u_i`.

    Args:
        cosines: `(M, L, T, S)`, `e . u_i` of L query sequences and M value sequences.
        scaled_weights: w, `(M, L, T, S)`.
        unit_values: u, `(M, S, D)`.
    """
    count, num_queries, length, num_values = ops.shape(scaled_weights)
    gram_matrix = ops.matmul(unit_values, ops.swapaxes(unit_values, 1, 2))
    flat = ops.reshape(scaled_weights, (count, num_queries * length, num_values))
    projected = ops.reshape(ops.matmul(flat, gram_matrix), ops.shape(scaled_weights))
    squares = ops.sum(projected * scaled_weights, axis=-1)
    is_zero = squares <= 0  # False for NaN, which stays NaN
    inverse_norms = ops.rsqrt(ops.where(is_zero, ops.ones((), squares.dtype), squares))
    products = ops.sum(scaled_weights * cosines, axis=-1)
    return ops.where(is_zero, ops.zeros((), squares.dtype), products * inverse_norms)
