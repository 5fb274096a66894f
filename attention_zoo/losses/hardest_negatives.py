"""Triplet loss with hardest negatives, for image-text retrieval."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo.ops import at_least_float32, check_shape, max_or_nan, number, sizes_or
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class HardestNegatives(keras.losses.Loss):
    """Triplet loss: a pair must score higher than its hardest in-batch negatives by `margin`.

    `max(0, m - s(i, t) + max_t' s(i, t')) + max(0, m - s(i, t) + max_i' s(i', t))`

    Negatives of a pair are the texts and images in the batch that belong to another image. A second
    caption of the same image is not a negative. A pair without negatives costs 0. If a batch is
    split over devices, or accumulated from micro-batches (`accumulate`), its pairs have fewer and
    easier negatives than in one whole batch of its size.

    Training from scratch often gets stuck where all similarities are equal, at a loss of 2 m: the
    hardest negative pushes as much as the pair pulls. With a `sharpness` p, the hardest negative is
    replaced by `log mean exp(p s) / p` over all negatives. This is their mean if all are equal and
    approaches the hardest one as they differ more.

    Args:
        margin: m.
        sharpness: p, or None for the hardest negative only, as in the paper.
        reduction: reduction over pairs; the mean by default.
        name: name of the loss.

    Call arguments:
        y_true: `(B,)`, the image number of each pair, below 2^24 because Keras casts it to float32.
        y_pred: similarities `(B, B)`: row i is the image of pair i, column j the text of pair j.

    Returns:
        Losses `(B,)` before the reduction, computed in float32 at least.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.losses import HardestNegatives
        >>> alike = np.array([[0.9, 0.8], [0.3, 0.7]], "float32")
        >>> round(float(HardestNegatives()(np.array([1, 2]), alike)), 4)  # (0.1 + 0.3) / 2
        0.2

    Reference:
        Lee et al. 2018, arXiv 1803.08024, equation 15 (l_hard; alpha is `margin`), after Faghri et
        al. 2017, arXiv 1707.05612, equation 6. Pairs are averaged here, not summed.
    """

    def __init__(
        self,
        margin: float = 0.2,
        sharpness: float | None = None,
        reduction: str = "sum_over_batch_size",
        name: str = "hardest_negatives",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)
        if not 0 <= number(margin) < math.inf:
            raise ValueError(f"margin must be at least 0 and finite, got {margin!r}")
        if sharpness is not None and not 0 < number(sharpness) < math.inf:
            raise ValueError(f"sharpness must be above 0 and finite, or None, got {sharpness!r}")
        self.margin, self.sharpness = margin, sharpness

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        check_shape("y_pred", y_pred.shape, ("images", "texts"))
        rows = tuple(y_pred.shape)[:1]
        check_shape("y_pred", y_pred.shape, sizes_or(("images", "texts"), rows * 2))
        check_shape("y_true", y_true.shape, sizes_or(("batch",), rows))
        similarity = at_least_float32(y_pred)
        is_negative = ops.not_equal(y_true[:, None], y_true[None, :])
        positive = ops.diagonal(similarity)
        text_losses = self._compute_hinge_loss(positive, similarity, is_negative, 1)
        return text_losses + self._compute_hinge_loss(positive, similarity, is_negative, 0)

    def _compute_hinge_loss(
        self, positive: Tensor, similarity: Tensor, is_negative: Tensor, axis: int
    ) -> Tensor:
        """Return the hinge loss of each pair against its negatives along an axis, `(B,)`."""
        lowest = ops.full((), float("-inf"), similarity.dtype)
        scores = ops.where(is_negative, similarity, lowest)
        hardest = max_or_nan(scores, axis)
        has_negatives = ops.any(is_negative, axis=axis)
        hardest = ops.where(has_negatives, hardest, ops.zeros_like(hardest))
        if self.sharpness is not None:
            hardest = ops.stop_gradient(hardest)
            difference = similarity - ops.expand_dims(hardest, axis)
            difference = ops.where(is_negative, difference, 0 * similarity)
            negatives = ops.cast(is_negative, similarity.dtype)
            total = ops.sum(negatives * ops.exp(self.sharpness * difference), axis=axis)
            mean = total / ops.maximum(ops.sum(negatives, axis=axis), 1)
            mean = ops.where(has_negatives, mean, ops.ones_like(mean))
            hardest = hardest + ops.log(mean) / self.sharpness
        cost = ops.relu(self.margin - positive + hardest)
        return ops.where(has_negatives, cost, ops.zeros_like(cost))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "margin": self.margin, "sharpness": self.sharpness}
