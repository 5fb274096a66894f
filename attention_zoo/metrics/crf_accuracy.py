"""Accuracy of the tags that are decoded from potentials."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.metrics.masked_mean import MaskedMean
from attention_zoo.ops import best_path, check_shape, sizes_or, unpack


@keras.saving.register_keras_serializable("attention_zoo")
class CRFAccuracy(MaskedMean):
    """Fraction of tags that Viterbi decoding predicts correctly.

    `sum_bt w_bt [y*_bt = y_bt] / sum_bt w_bt`, `y*_b = argmax_y s(y)`

    It is the accuracy of models whose output is potentials: a `CRF` layer, or a tagger with a CRF
    or softmax head. Keras's own accuracies cannot read potentials.

    Args:
        name: name of the metric.
        dtype: dtype of the result.

    Call arguments:
        y_true: y, tags `(B, T)`, integers, negative ones are unknown and ignored; or booleans
            `(B, T, K)`, the tags that may be right at each position, all of them if it is unknown.
        y_pred: potentials `(B, T + K + 2, K + 1)`, which include the mask. A sentence with NaN
            among the potentials of its words makes the result NaN.
        sample_weight: w, `(B,)` or `(B, T)`; 1 by default.

    Returns:
        A scalar from 0 to 1, over all batches since the last reset; 0 before the first tag.

    Masking:
        Positions that the `CRF` layer masked, unknown tags, and tags of weight 0 have no effect.

    Cost:
        O(T K^2) for each batch, in T sequential steps.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import CRF
        >>> from attention_zoo.metrics import CRFAccuracy
        >>> crf = CRF(transitions_initializer="zeros")
        >>> potentials = crf(np.array([[[0, 5, 0], [5, 0, 0], [0, 0, 5]]], "float32"))
        >>> accuracy = CRFAccuracy()
        >>> float(accuracy(np.array([[1, 2, -1]]), potentials))
        0.5

    Reference:
        Lample et al. 2016, arXiv 1603.01360, section 2.2: y* is the sequence that is predicted.
    """

    def __init__(self, name: str = "crf_accuracy", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add the tags of a batch."""
        chain = unpack(ops.convert_to_tensor(y_pred), "y_pred")
        labels = ops.convert_to_tensor(y_true)
        size = chain.emissions.shape[-1]
        axes = sizes_or(("batch", "positions"), chain.mask.shape)
        has_sets = len(labels.shape) == 3
        expected_shape = (*axes, size) if has_sets else axes
        check_shape("y_true, for potentials in y_pred,", labels.shape, expected_shape)
        tags, scores = best_path(chain)
        if has_sets:
            labels = ops.cast(labels, "bool")
            is_known = ops.logical_not(ops.all(labels, axis=-1))
            is_correct = ops.take_along_axis(labels, tags[..., None], axis=-1)[..., 0]
        else:
            labels = ops.cast(labels, "int32")
            is_known, is_correct = labels >= 0, labels == tags
        hits = ops.cast(is_correct, self.dtype)
        hits = ops.where(ops.isnan(scores)[:, None], float("nan"), hits)
        self.update_masked(hits, ops.logical_and(chain.mask, is_known), sample_weight)
