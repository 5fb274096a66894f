"""Luong's local attention."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.alignments import LocalMonotonicAlignment, LocalPredictiveAlignment
from attention_zoo.layers.attention import Attention
from attention_zoo.registry import did_you_mean

KINDS = {"monotonic": LocalMonotonicAlignment, "predictive": LocalPredictiveAlignment}


@keras.saving.register_keras_serializable("attention_zoo")
class LocalAttention(Attention):
    """Attention to a window of the memory, chosen before anything is scored.

    `context_t = sum_s weights_ts value_s` over s in `[p_t - D, p_t + D]`, with
    `p_t = S sigmoid(v . tanh(q W))` ("predictive") or `p_t = t` ("monotonic")

    Args:
        score: a name or a `Score`; one that needs no whole memory.
        window: D, how far a look sees on each side of its centre.
        kind: "predictive" (local-p), or "monotonic" (local-m).
        units: hidden width of the score, where it has one and is given by name.
        dropout: rate of dropped weights in training. seed: its seed.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        Masks and switches as in `Attention`.

    Returns:
        Context `(B, T, Dv)`, and on request the weights `(B, T, S)`.

    Weights:
        Those of the score; position_kernel: W, `(Dq, Dq)`, and position_v: v, `(Dq,)`, of the
        predictive kind.

    Masking:
        As in `Attention`. S is the number of places from the first that is not masked to the last
        one of each row, places count from the first, and a masked query is no look: padding on
        either side does not show. A window in which all is masked gives context 0.

    Cost:
        O(S Dk Dq) once for the keys with the "general" score, then O(T D (Dq + Dv)) time and
        memory; with few windows (T (2 D + 1) < S) only the keys in them are projected, which
        leaves O(T D Dk Dq). Nothing of size T S is made unless the weights are asked for.

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
        the context; D = 10 there, and sigma = D / 2.
    """

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
        if not isinstance(kind, str) or kind not in KINDS:
            raise ValueError(
                f"kind must be one of {', '.join(KINDS)}, got {kind!r}{did_you_mean(kind, KINDS)}"
            )
        alignment = KINDS[kind](window, dtype=kwargs.get("dtype"))
        super().__init__(score, alignment, units, dropout, seed, **kwargs)
        self.window, self.kind = window, kind

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["alignment"]
        return {**config, "window": self.window, "kind": self.kind}
