"""Guided alignment: supervision of attention weights by a word aligner."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.ops import check_shape, sizes_or
from attention_zoo.registry import Registry
from attention_zoo.typing import Tensor

KINDS = Registry("kind of guided alignment")

MIN_WEIGHT = 1e-30
"""Lower bound of weights in the logarithm; a softmax in training stays far above it."""


@KINDS.register("cross_entropy")
def _cross_entropy(reference: Tensor, weights: Tensor) -> Tensor:
    """Return `-sum_s p_ts log a_ts`, where p is the reference divided by its sum."""
    total = ops.sum(reference, axis=-1, keepdims=True)
    targets = reference / ops.where(total > 0, total, ops.ones((), total.dtype))
    return -ops.sum(targets * ops.log(ops.maximum(weights, MIN_WEIGHT)), axis=-1)


@KINDS.register("mse")
def _squared_error(reference: Tensor, weights: Tensor) -> Tensor:
    """Return `sum_s (r_ts - a_ts)^2`, where r is the unnormalized reference."""
    return ops.sum(ops.square(reference - weights), axis=-1)


@keras.saving.register_keras_serializable("attention_zoo")
class GuidedAlignment(keras.losses.Loss):
    """Distance of attention weights from a reference alignment, over the words that have one.

    The mean, over the rows t with a reference, of `-sum_s p_ts log a_ts` (p is the reference
    divided by its sum), or with "mse" of `sum_s (r_ts - a_ts)^2` (r is the unnormalized reference)

    Both sum over the source positions, so padding of the sources has no effect.

    Args:
        kind: "cross_entropy" or "mse".
        name: name of the loss.

    Call arguments:
        y_true: the reference r, `(B, T, S)`, at least 0: 1 where an aligner links target word t to
            source word s, or fractions. A row of zeros, such as padding, has no reference and is
            ignored.
        y_pred: attention weights a, `(B, T, S)`; with several heads, those of one head or a mean
            over heads.

    Returns:
        A float32 scalar; 0 if no word has a reference.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.losses import GuidedAlignment
        >>> links = np.array([[[1.0, 0.0], [0.0, 0.0]]])
        >>> weights = np.array([[[0.25, 0.75], [0.5, 0.5]]])
        >>> round(float(GuidedAlignment()(links, weights)), 4)
        1.3863

    Reference:
        Chen et al. 2016, arXiv 1607.01628, the section on guided alignment training: A_ti is the
        reference, alpha_ti the weights. Here every word with a reference has the same weight.
    """

    def __init__(
        self, kind: str = "cross_entropy", name: str = "guided_alignment", **kwargs: Any
    ) -> None:
        super().__init__(name=name, **{**kwargs, "reduction": "sum"})
        self.kind = kind
        self.cost = KINDS.get(kind)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        axes = ("batch", "targets", "sources")
        check_shape("y_pred, the weights,", y_pred.shape, axes)
        check_shape("y_true, the reference,", y_true.shape, sizes_or(axes, y_pred.shape))
        is_labelled = ops.any(ops.not_equal(y_true, 0), axis=-1)
        weights = ops.where(is_labelled[..., None], y_pred, ops.zeros((), y_pred.dtype))
        count = ops.maximum(ops.sum(ops.cast(is_labelled, weights.dtype)), 1)
        costs = self.cost(y_true, weights)
        return ops.where(is_labelled, costs, ops.zeros((), costs.dtype)) / count

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "kind": self.kind}
