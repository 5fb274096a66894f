"""Attention-weighted pooling of a pair of sentences (ABCNN-2)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.base import BaseLayer
from attention_zoo.layers.structures.attention_feature_map import (
    attention_matrix,
    build_pairwise,
    check_pair,
    make_pairwise_score,
)
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class AttentionWeightedPooling(BaseLayer):
    """Sliding-window sum pooling of two sentences, weighted by attention (ABCNN-2).

    `A_ij = score(x_i, y_j)`, `x'_i = sum_{k = i .. i+w-1} (sum_j A_kj) x_k`, and likewise for y
    with the sums over the columns of A

    A wide convolution of width w outputs S + w - 1 positions; pooling with window w restores S.

    Use it for sentence pairs after a convolution: similar words get more weight.

    Args:
        window: w, number of positions in a window.
        score: a name or a `Score`; the paper uses "euclidean", `1 / (1 + ||x - y||)`.

    Call arguments:
        first: x, `(B, S, D)`.
        second: y, `(B, T, E)`.
        first_mask, second_mask: `(B, S)`, `(B, T)`, False at masked positions; combined by AND
            with the tensors' implicit Keras masks.
        return_attention_scores: whether to return A too.

    Returns:
        The pooled sentences, `(B, S - w + 1, D)` and `(B, T - w + 1, E)`, with length 0 if the
        sentence is shorter than the window; if requested, also A, `(B, S, T)`.

    Weights:
        The weights of the score.

    Masking:
        A is 0 where either position is masked; the content of masked positions has no effect. A
        window that contains a masked position is masked and gives 0. The window masks are passed
        on with the results. If one sentence is fully masked, both results are 0.

    Cost:
        O(S T) scores, O((S + T) w D) for the pooling.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import AttentionWeightedPooling
        >>> x, y = np.ones((2, 5, 4), "float32"), np.ones((2, 7, 4), "float32")
        >>> pooled_x, pooled_y = AttentionWeightedPooling(window=3)(x, y)
        >>> tuple(pooled_x.shape), tuple(pooled_y.shape), float(pooled_x[0, 0, 0])
        ((2, 3, 4), (2, 5, 4), 21.0)

    Reference:
        Yin et al. 2015, arXiv 1512.05193, section 4, ABCNN-2: F^c are x and y transposed, F^p the
        results transposed, a_0,j and a_1,j the sums over rows and columns of A. As in the
        paper, the weights are not normalized.
    """

    def __init__(self, window: int, score: Any = "euclidean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.window = zoo_ops.whole_number("window", window)
        self.score = make_pairwise_score(score, self.dtype_policy)
        self.supports_masking = True

    def build(self, first_shape: Shape, second_shape: Shape) -> None:
        self.widths = build_pairwise(self.score, first_shape, second_shape)
        self.built = True

    def call(
        self,
        first: Tensor,
        second: Tensor,
        first_mask: Tensor | None = None,
        second_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        is_width_free = not self.weights and len(set(self.widths)) == 1
        widths = (None, first.shape[-1]) if is_width_free else self.widths
        check_pair(first.shape, second.shape, *widths)
        first_mask = zoo_ops.merge_masks("first_mask", first_mask, first)
        second_mask = zoo_ops.merge_masks("second_mask", second_mask, second)
        scores = attention_matrix(self.score, first, second, first_mask, second_mask)
        results = (
            self._pool(first, first_mask, ops.sum(scores, axis=2)),
            self._pool(second, second_mask, ops.sum(scores, axis=1)),
            ops.cast(scores, self.compute_dtype),
        )
        return results if return_attention_scores else results[:2]

    def _pool(self, x: Tensor, mask: Tensor | None, weights: Tensor) -> Tensor:
        """Pool `(B, S, D)` with weights `(B, S)` to `(B, S - w + 1, D)`; set the window mask."""
        weighted = ops.cast(zoo_ops.zero_masked(x, mask), weights.dtype) * weights[..., None]
        pooled = ops.cast(sum(self._make_shifts(weighted)), self.compute_dtype)
        window_mask = self._make_window_mask(mask)
        return zoo_ops.pass_mask_on(zoo_ops.zero_masked(pooled, window_mask), window_mask)

    def _make_window_mask(self, mask: Tensor | None) -> Tensor | None:
        """Return the window mask `(B, S - w + 1)`, False for windows with a masked position."""
        return None if mask is None else zoo_ops.combine_masks(*self._make_shifts(mask))

    def _make_shifts(self, x: Tensor) -> list[Tensor]:
        """Return w slices of `(B, S, ...)`: the first, second, ... position of every window."""
        last = self.window - 1
        return [x[:, shift : (shift - last) or None] for shift in range(self.window)]

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> None:
        """Return None: the call sets the window masks."""
        return None

    def compute_output_spec(
        self,
        first: Tensor,
        second: Tensor,
        first_mask: Tensor | None = None,
        second_mask: Tensor | None = None,
        return_attention_scores: bool = False,
    ) -> Any:
        def spec(*shape: int | None) -> keras.KerasTensor:
            return keras.KerasTensor(shape, dtype=self.compute_dtype)

        def pooled(x: Tensor, mask: Tensor | None) -> keras.KerasTensor:
            batch, length, width = x.shape
            count = None if length is None else max(length - self.window + 1, 0)
            window_mask = (
                None if mask is None else self._make_window_mask(zoo_ops.broadcast_mask(mask, x))
            )
            return zoo_ops.pass_mask_on(spec(batch, count, width), window_mask)

        results = (
            pooled(first, first_mask),
            pooled(second, second_mask),
            spec(*first.shape[:2], second.shape[1]),
        )
        return results if return_attention_scores else results[:2]
