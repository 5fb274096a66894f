"""Raffel's monotonic attention."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.alignments import MonotonicAlignment
from attention_zoo.layers.attention import Attention
from attention_zoo.layers.scores import make_score
from attention_zoo.ops import whole_number


@keras.saving.register_keras_serializable("attention_zoo")
class MonotonicAttention(Attention):
    """Attention of a reader that walks on through the memory and never goes back.

    In training, in expectation: `p_j = sigmoid(score(q, k_j) + r + noise_j)`,
    `q_j = (1 - p_{j-1}) q_{j-1} + previous_j`, `weights_j = p_j q_j`; at inference all weight is on
    the first place j from the last one on with `score(q, k_j) + r > 0`

    Args:
        score: a name or a `Score`; "additive" is weight-normalised, as in the paper:
            `g v / ||v|| . tanh(q W + k U + b)`.
        units: hidden width of the score, where it has one and is given by name.
        score_bias_init: where r starts; below 0, so that the reader walks far enough at first.
        sigmoid_noise: standard deviation of the noise of training.
        form: "parallel" or "recursive", see `MonotonicAlignment`; the results are the same.
        hard_at_inference: False takes the expectation at inference too.
        dropout: rate of dropped weights in training. seed: of dropout and noise.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        Masks and switches as in `Attention`.

    Returns:
        Context `(B, T, Dv)`, and on request the weights `(B, T, S)`, which sum to one or less.

    Weights:
        query_kernel: W, `(Dq, A)`. key_kernel: U, `(Dk, A)`. v: `(A,)`. gain: g, `()`. bias: b,
        `(A,)`; or those of another score. score_bias: r, `()`.

    Masking:
        As in `Attention`; the reader walks by hidden places, and a hidden query is no look.

    Cost:
        That of the score, and T looks one after the other of O(S log S), at inference O(S), each.

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
        dtype = kwargs.get("dtype")
        reader = (score_bias_init, sigmoid_noise, form, hard_at_inference, seed_of_noise(seed))
        alignment = MonotonicAlignment(*reader, dtype=dtype)
        score = stopping_score(score, units, dtype)
        super().__init__(score, alignment, dropout=dropout, seed=seed, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**without_alignment(super().get_config()), **reader_config(self.alignment)}


def stopping_score(score: Any, units: int | None, dtype: Any) -> Any:
    """The score of a monotonic reader: "additive" means the normalised one, as in the paper."""
    normalize = True if score == "additive" else None
    return make_score(score, dtype, units=units, normalize=normalize)


def seed_of_noise(seed: int | None) -> int | None:
    """Another seed than that of the dropout, or both would draw the same numbers."""
    return None if seed is None else whole_number("seed", seed, low=0) + 1


def reader_config(reader: MonotonicAlignment) -> dict[str, Any]:
    """The arguments that a layer hands on to its `MonotonicAlignment`, but for the seed."""
    names = ("score_bias_init", "sigmoid_noise", "form", "hard_at_inference")
    return {name: getattr(reader, name) for name in names}


def without_alignment(config: dict[str, Any]) -> dict[str, Any]:
    """An attention's config whose alignment is made from arguments of its own."""
    return {name: value for name, value in config.items() if name != "alignment"}
