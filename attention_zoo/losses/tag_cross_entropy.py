"""Cross-entropy of tags that are predicted independently."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.ops import (
    check_label_smoothing,
    check_shape,
    sizes_or,
    smoothed_cross_entropy,
)
from attention_zoo.ops.linear_chain import unpack
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class TagCrossEntropy(keras.losses.Loss):
    """Mean cross-entropy over all tags of a batch, each position by itself: one sum over one count.

    `sum_bt (1 - e) -log p(y_bt) + e mean_k -log p(k)` divided by the number of known tags,
    `p = softmax(x_bt)`, x the emissions

    Args:
        label_smoothing: e, in [0, 1).
        name: name of the loss.

    Call arguments:
        y_true: tags `(B, T)`, integers; negative tags are unknown and ignored.
        y_pred: potentials `(B, T + K + 2, K + 1)`, the output of a `CRF` layer or a tagger. Only
            the emissions and the mask are used. Values at masked positions (NaN too) are ignored.

    Returns:
        A float32 scalar; 0 if no tag is known.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import CRF
        >>> from attention_zoo.losses import TagCrossEntropy
        >>> potentials = CRF()(np.zeros((1, 2, 4), "float32"))
        >>> round(float(TagCrossEntropy()(np.array([[3, -1]]), potentials)), 4)
        1.3863

    Reference:
        Tan et al. 2017, arXiv 1712.01586, section "Pipeline"; label smoothing, u uniform: Szegedy
        et al. 2015, arXiv 1512.00567, section 7.
    """

    def __init__(
        self, label_smoothing: float = 0.0, name: str = "tag_cross_entropy", **kwargs: Any
    ) -> None:
        super().__init__(name=name, **{**kwargs, "reduction": "sum"})
        self.label_smoothing = check_label_smoothing(label_smoothing)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        chain = unpack(y_pred, "y_pred")
        expected_shape = sizes_or(("batch", "positions"), chain.mask.shape)
        check_shape("y_true, for y_pred as a CRF layer returns it,", y_true.shape, expected_shape)
        labels, logits = ops.cast(y_true, "int32"), chain.emissions
        is_labelled = ops.logical_and(chain.mask, labels >= 0)
        labels = ops.where(is_labelled, labels, 0)
        losses = smoothed_cross_entropy(labels, logits, self.label_smoothing)
        count = ops.maximum(ops.sum(ops.cast(is_labelled, losses.dtype)), 1.0)
        return ops.where(is_labelled, losses, ops.zeros((), losses.dtype)) / count

    def count(self, y_true: Tensor) -> Tensor:
        """Return the number of known tags, as a float32 scalar.

        Tags at masked positions must be negative: this method has no mask.
        """
        return ops.sum(ops.cast(ops.greater_equal(y_true, 0), "float32"))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "label_smoothing": self.label_smoothing}
