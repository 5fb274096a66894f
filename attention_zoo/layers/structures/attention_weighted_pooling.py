"""Attention-weighted pooling of a pair of sentences (ABCNN-2)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.structures.sentence_pair import SentencePairLayer
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class AttentionWeightedPooling(SentencePairLayer):
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
        super().__init__(score, **kwargs)
        self.window = zoo_ops.whole_number("window", window)

    def transform(self, side: int, x: Tensor, mask: Tensor | None, scores: Tensor) -> Tensor:
        """Pool `(B, S, D)` with the sums of the scores to `(B, S - w + 1, D)`."""
        weights = ops.sum(scores, axis=2)
        weighted = ops.cast(x, weights.dtype) * weights[..., None]
        pooled = ops.cast(sum(self._make_shifts(weighted)), self.compute_dtype)
        window_mask = self._make_window_mask(mask)
        return zoo_ops.attach_mask(zoo_ops.zero_masked(pooled, window_mask), window_mask)

    def transform_spec(self, x: Tensor, mask: Tensor | None) -> keras.KerasTensor:
        batch, length, width = x.shape
        count = None if length is None else max(length - self.window + 1, 0)
        mask = None if mask is None else zoo_ops.broadcast_mask(mask, x)
        return self.make_symbolic_output((batch, count, width), self._make_window_mask(mask))

    def _make_window_mask(self, mask: Tensor | None) -> Tensor | None:
        """Return the window mask `(B, S - w + 1)`, False for windows with a masked position."""
        return None if mask is None else zoo_ops.combine_masks(*self._make_shifts(mask))

    def _make_shifts(self, x: Tensor) -> list[Tensor]:
        """Return w slices of `(B, S, ...)`: the first, second, ... position of every window."""
        last = self.window - 1
        length = ops.shape(x)[1]
        if zoo_ops.is_symbolic(length):  # slices would have different symbolic sizes
            first = ops.arange(length - last, dtype="int32")
            return [ops.take(x, shift + first, axis=1) for shift in range(self.window)]
        return [x[:, shift : (shift - last) or None] for shift in range(self.window)]
