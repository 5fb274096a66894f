"""Hard attention: attention to a single source position."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.alignments.gumbel import GumbelAlignment
from attention_zoo.layers.alignments.hard import HardAlignment
from attention_zoo.layers.alignments.reinforce import ReinforceAlignment
from attention_zoo.layers.attention.attention import Attention
from attention_zoo.registry import Registry

ESTIMATORS = Registry("estimator")
"""Gradient estimators of hard attention: `f(seed=, dtype=)` returns the alignment."""

ESTIMATORS.register("argmax")(lambda seed, dtype: HardAlignment(dtype=dtype))
ESTIMATORS.register("gumbel")(GumbelAlignment)
ESTIMATORS.register("reinforce")(ReinforceAlignment)


@keras.saving.register_keras_serializable("attention_zoo")
class HardAttention(Attention):
    """Hard attention: all weight on one position, sampled in training, the argmax at inference.

    `context = value_s`, `s ~ softmax_j(score(query, key_j))`; `s = argmax` at inference

    Sampling is not differentiable. The estimator defines the gradient of the scores.

    Args:
        estimator: "gumbel" (straight-through: some bias, trains like any layer), "reinforce" (no
            bias, needs a reward: see `ReinforceAlignment` and `attention_zoo.losses.Reinforce`),
            "argmax" (no sampling, and no gradient for the scores), or an `Alignment` instance.
        score: name of a score, or a `Score` instance.
        units: number of hidden units of a score that has them and is given by name.
        dropout: dropout rate on the weights, in training.
        seed: random seed of the dropout and of the sampling.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        The other arguments are those of `Attention`. With "reinforce", `return_state` returns the
        state that `layer.alignment.choice(state)` takes.

    Returns:
        Context `(B, T, Dv)` and, on request, the weights `(B, T, S)` and the state.

    Weights:
        Those of the score and of the estimator.

    Masking:
        As in `Attention`. Masked positions are never sampled.

    Cost:
        That of `Attention` with the same score. The weighted sum covers all positions: O(T S Dv).

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import HardAttention
        >>> layer = HardAttention("gumbel", score="dot", seed=1)
        >>> query, value = np.ones((1, 1, 1), "float32"), np.array([[[1.0], [3.0], [2.0]]])
        >>> float(layer(query, value)[0, 0, 0])
        3.0
        >>> float(layer(query, value, training=True)[0, 0, 0]) in (1.0, 2.0, 3.0)
        True

    Reference:
        Xu et al. 2015, arXiv 1502.03044, section 4.1 ("reinforce": s_t is the row of weights, a_i
        the values, z_t the context); Jang et al. 2016, arXiv 1611.01144, section 2.2 ("gumbel").
    """

    def __init__(
        self,
        estimator: Any = "gumbel",
        score: Any = "additive",
        units: int | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(estimator, str):
            estimator = ESTIMATORS.get(estimator)(seed=seed, dtype=kwargs.get("dtype"))
        super().__init__(score, estimator, units=units, dropout=dropout, seed=seed, **kwargs)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config["estimator"] = config.pop("alignment")
        return config
