"""Local attention (Luong)."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.alignments.local_monotonic import LocalMonotonicAlignment
from attention_zoo.layers.alignments.local_predictive import LocalPredictiveAlignment
from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.kernels import select_part_arguments
from attention_zoo.registry import check_choice

KINDS = {"monotonic": LocalMonotonicAlignment, "predictive": LocalPredictiveAlignment}


@keras.saving.register_keras_serializable("attention_zoo")
class LocalAttention(Attention):
    """Local attention: attention to a window of the memory, selected before scoring.

    `context_t = sum_s weights_ts value_s` over s in `[p_t - D, p_t + D]`, with
    `p_t = S sigmoid(v . tanh(q W))` ("predictive") or `p_t = t` ("monotonic")

    Args:
        score: name of a score, or a `Score` instance; one that does not need the whole memory.
        window: D, number of positions on each side of the window's center.
        kind: "predictive" (local-p), or "monotonic" (local-m).
        units: number of hidden units of a score that has them and is given by name.
        dropout: dropout rate on the weights, in training. seed: its random seed.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        The other arguments are those of `Attention`.

    Returns:
        Context `(B, T, Dv)` and, on request, the weights `(B, T, S)`.

    Weights:
        Those of the score; with kind "predictive", position_kernel: W, `(Dq, Dq)`, and position_v:
        v, `(Dq,)`.

    Masking:
        As in `Attention`. In each row, S is the number of positions from the first unmasked one to
        the last, positions count from the first unmasked one, and t counts unmasked queries only.
        So padding on either side does not change the output. A fully masked window gives context 0.

    Cost:
        O(S Dk Dq) once for the keys with the "general" score, then O(T D (Dq + Dv)) time and
        memory. With few windows (T (2 D + 1) < S) only the keys in them are projected, in
        O(T D Dk Dq). No tensor of size T S is created unless the weights are requested.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import LocalAttention
        >>> layer = LocalAttention(window=2)
        >>> query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 9, 6), "float32")
        >>> context, weights = layer(query, value, return_attention_scores=True)
        >>> tuple(context.shape), int((np.array(weights[0, 0]) > 0).sum()) <= 5
        ((2, 3, 6), True)

    Reference:
        Luong et al. 2015, arXiv 1508.04025, section 3.2 ("monotonic" and "predictive
        alignment"): h_t is the query, h_s key and value, W_p is W, v_p is v, a_t the weights, c_t
        the context. The paper uses D = 10 and sigma = D / 2.
    """

    config_excludes = ("alignment",)

    def __init__(
        self,
        score: Any = "general",
        window: int = 10,
        kind: str = "predictive",
        units: int | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        check_choice("kind", kind, KINDS)
        alignment = KINDS[kind](window, **select_part_arguments(kwargs))
        super().__init__(score, alignment, units, dropout, seed, **kwargs)
        self.window, self.kind = window, kind
