"""Negative log-likelihood of a linear-chain CRF."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.ops import check_shape
from attention_zoo.ops.linear_chain import (
    IMPOSSIBLE,
    Chain,
    log_partition,
    partial_score,
    unpack,
)
from attention_zoo.typing import Tensor

FORBIDDEN_COST = 1e4
"""Cost of a sentence whose labels are forbidden; finite, so that its batch stays usable."""
UNKNOWN_TAG = -1


@keras.saving.register_keras_serializable("attention_zoo")
class CRFLoss(keras.losses.Loss):
    """Negative log-likelihood of the correct tags, one value per sentence.

    `log sum_y exp s(y) - log sum_{y right} exp s(y)`, where y are the tag sequences that the `CRF`
    layer allows and s is their score. Right sequences match the labels.

    Args:
        reduction: reduction over sentences; the mean by default.
        name: name of the loss.

    Call arguments:
        y_true: tags `(B, T)`, integers, -1 where any tag may be right; or booleans `(B, T, K)`, the
            tags that may be right at each position. Masked positions are ignored.
        y_pred: the output of a `CRF` layer, `(B, T + K + 2, K + 1)`, which includes the mask.

    Returns:
        Losses `(B,)` before the reduction, float32. A sentence of length 0 costs 0. A sentence
        whose labels admit no allowed tag sequence costs 10,000 and has no gradient.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import CRF
        >>> from attention_zoo.losses import CRFLoss
        >>> crf = CRF(transitions_initializer="zeros")
        >>> potentials = crf(np.zeros((1, 2, 3), "float32"))
        >>> round(float(CRFLoss()(np.array([[2, 0]]), potentials)), 4)
        2.1972

    Reference:
        Lafferty et al. 2001, "Conditional random fields", section 3; Lample et al. 2016, arXiv
        1603.01360, equation 1 and the one for log p(y | X). Sets of tags: Tsuboi et al. 2008, ACL
        C08-1113, section 4.
    """

    def __init__(
        self, reduction: str = "sum_over_batch_size", name: str = "crf_loss", **kwargs: Any
    ) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        chain = unpack(y_pred, "y_pred")
        size, positions = chain.starts.shape[0], chain.emissions.shape[1]
        positions = "positions" if positions is None else positions
        axes = ("batch", positions, size) if len(y_true.shape) == 3 else ("batch", positions)
        check_shape("y_true, for y_pred as a CRF layer returns it,", y_true.shape, axes)
        # This keeps the sums over a sentence small, and so exact, without changing the result.
        max_emissions = ops.max(chain.emissions, axis=-1, keepdims=True, initial=float("-inf"))
        # A position whose tags are all forbidden stays forbidden.
        max_emissions = ops.where(max_emissions <= IMPOSSIBLE, 0, max_emissions)
        chain = chain._replace(emissions=chain.emissions - ops.stop_gradient(max_emissions))
        return negative_log_likelihood(chain, y_true)


def negative_log_likelihood(chain: Chain, labels: Tensor) -> Tensor:
    """Return the negative log-likelihoods `(B,)`; see `CRFLoss` for `labels`."""
    if len(labels.shape) == 3:
        is_allowed = ops.cast(labels, "bool")
    else:
        labels = ops.cast(labels, "int32")[..., None]
        tags = ops.arange(chain.starts.shape[0], dtype="int32")
        is_allowed = ops.logical_or(tags == labels, labels == UNKNOWN_TAG)
    correct = partial_score(chain, is_allowed)
    total = log_partition(chain)
    cost = total - correct
    cost = ops.where(cost < 0, ops.zeros((), cost.dtype), cost)
    is_forbidden = ops.logical_and(correct <= IMPOSSIBLE, ops.logical_not(ops.isnan(total)))
    return ops.where(is_forbidden, ops.cast(FORBIDDEN_COST, cost.dtype), cost)
