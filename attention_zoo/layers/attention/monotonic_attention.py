"""Monotonic attention (Raffel)."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.alignments.monotonic import READER_ARGUMENTS, MonotonicAlignment
from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.kernels import select_part_arguments
from attention_zoo.layers.scores import make_score
from attention_zoo.ops import whole_number


@keras.saving.register_keras_serializable("attention_zoo")
class MonotonicAttention(Attention):
    """Monotonic attention: the attended position moves only forward along the memory.

    In training, the weights are the expectation: `p_j = sigmoid(score(q, k_j) + r + noise_j)`,
    `q_j = (1 - p_{j-1}) q_{j-1} + previous_j`, `weights_j = p_j q_j`. At inference, all weight is
    on the first position j with `score(q, k_j) + r > 0`, starting from the last attended position.

    Args:
        score: name of a score, or a `Score` instance; "additive" is weight-normalized, as in the
            paper: `g v / ||v|| . tanh(q W + k U + b)`.
        units: number of hidden units of a score that has them and is given by name.
        score_bias_init: initial value of r; a negative value lets the attention move far enough
            at first.
        sigmoid_noise: standard deviation of the noise added to the scores in training.
        form: "parallel" or "recursive", see `MonotonicAlignment`; the results are the same.
        hard_at_inference: if False, inference uses the expectation too.
        dropout: dropout rate on the weights, in training.
        seed: random seed of the dropout and the noise.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        The other arguments are those of `Attention`.

    Returns:
        Context `(B, T, Dv)` and, on request, the weights `(B, T, S)`, which sum to one or less.

    Weights:
        query_kernel: W, `(Dq, A)`. key_kernel: U, `(Dk, A)`. v: `(A,)`. gain: g, `()`. bias: b,
        `(A,)`; or those of another score. score_bias: r, `()`.

    Masking:
        As in `Attention`. Masked positions are skipped, and masked queries do not change the
        state.

    Cost:
        That of the score, plus T sequential steps of O(S log S) each, or O(S) at inference.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MonotonicAttention
        >>> layer = MonotonicAttention(units=8)
        >>> query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")
        >>> tuple(layer(query, value, training=True).shape)
        (2, 3, 6)

    Reference:
        Raffel et al. 2017, arXiv 1704.00784, equations 11 to 14 and the section "Modified
        Energy Function": s_{i-1} is the query, h_j key and value, alpha_ij the weights, c_i the
        context, e_ij the score and r.
    """

    config_excludes = ("alignment",)

    def __init__(
        self,
        score: Any = "additive",
        units: int | None = None,
        score_bias_init: float = -1.0,
        sigmoid_noise: float = 1.0,
        form: str = "parallel",
        hard_at_inference: bool = True,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        parts = select_part_arguments(kwargs)
        reader = (score_bias_init, sigmoid_noise, form, hard_at_inference, seed_of_noise(seed))
        alignment = MonotonicAlignment(*reader, **parts)
        score = stopping_score(score, units, parts)
        super().__init__(score, alignment, dropout=dropout, seed=seed, **kwargs)

    def get_config(self) -> dict[str, Any]:
        alignment = self.alignment.get_config()
        return {**super().get_config(), **{name: alignment[name] for name in READER_ARGUMENTS}}


def stopping_score(score: Any, units: int | None, arguments: dict[str, Any]) -> Any:
    """Return the score that selects the position; "additive" is weight-normalized."""
    normalize = True if score == "additive" else None
    return make_score(score, **arguments, units=units, normalize=normalize)


def seed_of_noise(seed: int | None) -> int | None:
    """Return a seed that differs from the dropout's, so that noise and dropout are independent."""
    return None if seed is None else whole_number("seed", seed, low=0) + 1
