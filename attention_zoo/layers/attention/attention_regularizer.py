"""Attention regularizer."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.base import BaseLayer
from attention_zoo.typing import Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class AttentionRegularizer(BaseLayer):
    """Attention regularizer: adds a penalty on attention weights to the loss.

    `loss = rate * mean over the batch of penalty(weights)`

    A model that calls it on the weights of any attention trains with plain `fit`: Keras collects
    the loss. Each penalty favors a property of the weights: "doubly_stochastic" (the weights of
    each source sum to one over the queries), "coverage" (no source is attended twice), "diversity"
    (the weights of different queries differ), "entropy" (sharp weights; broad ones if `rate` is
    negative). `PENALTIES.register` adds a custom penalty.

    Args:
        penalty: a name in `PENALTIES`.
        rate: coefficient of the penalty.

    Call arguments:
        weights: `(B, T, S)`, or `(B, H, T, S)` with heads.
        query_mask: `(B, T)`, True at valid queries.
        memory_mask: `(B, S)`, True at valid sources.

    Returns:
        The weights, unchanged.

    Weights:
        None.

    Masking:
        Masked queries and sources are ignored, whatever their weights, and so are fully masked
        rows. "doubly_stochastic" needs the memory's mask: without it, a masked source counts as
        one with a total weight of 0.

    Cost:
        O(T S); "diversity" O(T^2 S).

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import AttentionRegularizer
        >>> layer = AttentionRegularizer("doubly_stochastic")
        >>> _ = layer(np.array([[[0.5, 0.5, 0.0]]], "float32"))
        >>> float(layer.losses[0])
        1.5

    Reference:
        Xu et al. 2015, arXiv 1502.03044, equation 14 (doubly stochastic) and section 4.1 (entropy);
        See et al. 2017, arXiv 1704.04368, equation 12 (coverage); Lin et al. 2017, arXiv
        1703.03130, equation 8 (diversity). Alpha, a and A there are the weights; lambda is `rate`.
    """

    def __init__(self, penalty: str, rate: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.penalty, self.rate = penalty, zoo_ops.finite_number("rate", rate)
        self.function = zoo_ops.PENALTIES.get(penalty)
        self.supports_masking = True
        self.built = True  # without weights; models call it in training only

    def call(
        self, weights: Tensor, query_mask: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        loss = zoo_ops.mean_penalty(self.function, weights, query_mask, memory_mask)
        self.add_loss(self.rate * loss)
        return ops.convert_to_tensor(weights)
