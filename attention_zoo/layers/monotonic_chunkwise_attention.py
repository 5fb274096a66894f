"""MoChA: soft attention to a chunk before the place where a monotonic reader stops."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.alignments import MochaAlignment
from attention_zoo.layers.attention import Attention
from attention_zoo.layers.monotonic_attention import (
    reader_config,
    seed_of_noise,
    stopping_score,
    without_alignment,
)


@keras.saving.register_keras_serializable("attention_zoo")
class MonotonicChunkwiseAttention(Attention):
    """Soft attention to the w places that end where a monotonic reader stops (MoChA).

    `weights_j = sum_{k=j}^{j+w-1} stop_k exp(u_j) / sum_{l=k-w+1}^{k} exp(u_l)`, with `stop` the
    weights of `MonotonicAttention`, and `u_j = chunk_score(q, k_j)` of weights of its own

    Args:
        chunk_size: w, how many places a chunk has.
        score: decides where to stop: a name or a `Score`; "additive" is weight-normalised.
        chunk_score: decides what to see inside of a chunk: a name or a `Score`.
        units: hidden width of both scores, where they have one and are given by name.
        score_bias_init: where the bias r of the stopping score starts.
        sigmoid_noise: standard deviation of the noise of training on the stopping score.
        form: "parallel" or "recursive", see `MonotonicAlignment`; the results are the same.
        hard_at_inference: False takes the expectation of the stop at inference too.
        dropout: rate of dropped weights in training. seed: of dropout and noise.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        Masks and switches as in `Attention`.

    Returns:
        Context `(B, T, Dv)`, and on request the weights `(B, T, S)`, which sum to one or less.

    Weights:
        Those of `MonotonicAttention`; of the chunk's score: query_kernel, `(Dq, A)`, key_kernel,
        `(Dk, A)`, and v, `(A,)`, or those of another score.

    Masking:
        As in `Attention`; the reader walks by hidden places, they are no part of a chunk, and a
        hidden query is no look.

    Cost:
        That of two scores, and T looks one after the other of O(S (log S + w)), at inference
        O(S w), each.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MonotonicChunkwiseAttention
        >>> layer = MonotonicChunkwiseAttention(chunk_size=3, units=8)
        >>> query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")
        >>> tuple(layer(query, value, training=True).shape)
        (2, 3, 6)

    Reference:
        Chiu and Raffel 2017, arXiv 1712.05382, section 2 (monotonic chunkwise attention): s_{i-1}
        is the query, h_j key and value, e_ij the stopping score, u_ij the chunk's score, alpha_ij
        where it stops, beta_ij the weights, c_i the context. r starts at -4 in the paper's speech
        models, and at -1 in those that summarise.
    """

    def __init__(
        self,
        chunk_size: int = 2,
        score: Any = "additive",
        chunk_score: Any = "additive",
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
        alignment = MochaAlignment(chunk_size, chunk_score, units, *reader, dtype=dtype)
        score = stopping_score(score, units, dtype)
        super().__init__(score, alignment, dropout=dropout, seed=seed, **kwargs)

    def get_config(self) -> dict[str, Any]:
        chunk_score = keras.saving.serialize_keras_object(self.alignment.chunk_score)
        return {
            **without_alignment(super().get_config()),
            **reader_config(self.alignment.reader),
            "chunk_size": self.alignment.chunk_size,
            "chunk_score": chunk_score,
        }
