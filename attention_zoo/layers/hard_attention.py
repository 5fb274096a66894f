"""Attention that looks at one place."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.alignments import GumbelAlignment, HardAlignment, ReinforceAlignment
from attention_zoo.layers.attention import Attention
from attention_zoo.registry import Registry

ESTIMATORS = Registry("estimator")
"""How a choice of one place learns: a name to `f(seed=, dtype=)`, which makes the alignment."""

ESTIMATORS.register("argmax")(lambda seed, dtype: HardAlignment(dtype=dtype))
ESTIMATORS.register("gumbel")(GumbelAlignment)
ESTIMATORS.register("reinforce")(ReinforceAlignment)


@keras.saving.register_keras_serializable("attention_zoo")
class HardAttention(Attention):
    """Attention that puts all weight on one place: drawn in training, the best at inference.

    `context = value_s`, `s ~ softmax_j(score(query, key_j))`; `s = argmax` at inference

    A draw has no derivative by the scores; the estimators are what stands in for it.

    Args:
        estimator: "gumbel" (straight-through: some bias, trains like any layer), "reinforce" (no
            bias, needs a reward: see `ReinforceAlignment` and `attention_zoo.losses.Reinforce`),
            "argmax" (draws nothing, and the scores do not learn), or an `Alignment` with options
            of its own.
        score: a name or a `Score`.
        units: hidden width of the score, where it has one and is given by name.
        dropout: rate of dropped weights in training. seed: of both the dropout and the draws.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        Masks and switches as in `Attention`; `return_state` with "reinforce" gives what
        `layer.alignment.choice(state)` reads.

    Returns:
        Context `(B, T, Dv)`, and on request the weights `(B, T, S)` and the state.

    Weights:
        Those of the score and of the estimator.

    Masking:
        As in `Attention`; a hidden place is never drawn.

    Cost:
        As `Attention` with that score. What stands at places not chosen is still read: O(T S Dv).

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
        estimator = config.pop("alignment")
        return {**config, "estimator": estimator}
