"""Monotonic chunkwise attention (MoChA)."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo.layers.alignments.mocha import MochaAlignment
from attention_zoo.layers.alignments.monotonic import READER_ARGUMENTS
from attention_zoo.layers.attention.attention import Attention
from attention_zoo.layers.attention.monotonic_attention import seed_of_noise, stopping_score
from attention_zoo.layers.kernels import select_part_arguments


@keras.saving.register_keras_serializable("attention_zoo")
class MonotonicChunkwiseAttention(Attention):
    """Monotonic chunkwise attention (MoChA): softmax attention to a chunk that moves forward.

    `weights_j = sum_{k=j}^{j+w-1} stop_k exp(u_j) / sum_{l=k-w+1}^{k} exp(u_l)`, with `stop` the
    weights of `MonotonicAttention`, and `u_j = chunk_score(q, k_j)` with weights of its own

    A chunk has w positions and ends at the position that the monotonic attention selects.

    Args:
        chunk_size: w, number of positions per chunk.
        score: name or `Score` that selects the end of the chunk; "additive" is weight-normalized.
        chunk_score: name or `Score` that scores the positions inside a chunk.
        units: number of hidden units of both scores, if they have them and are given by name.
        score_bias_init: initial value of the bias r of the monotonic score.
        sigmoid_noise: standard deviation of the noise added to the monotonic score in training.
        form: "parallel" or "recursive", see `MonotonicAlignment`; the results are the same.
        hard_at_inference: if False, inference uses the expectation over chunk ends too.
        dropout: dropout rate on the weights, in training.
        seed: random seed of the dropout and the noise.

    Call arguments:
        query: `(B, T, Dq)`. value: `(B, S, Dv)`. key: `(B, S, Dk)`, the value when None.
        The other arguments are those of `Attention`.

    Returns:
        Context `(B, T, Dv)` and, on request, the weights `(B, T, S)`, which sum to one or less.

    Weights:
        Those of `MonotonicAttention`; for the chunk score: query_kernel, `(Dq, A)`, key_kernel,
        `(Dk, A)`, and v, `(A,)`, or those of another score.

    Masking:
        As in `Attention`. Masked positions are never the end of a chunk and are masked inside
        chunks. Masked queries do not change the state.

    Cost:
        That of two scores, plus T sequential steps of O(S (log S + w)) each, or O(S w) at
        inference.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MonotonicChunkwiseAttention
        >>> layer = MonotonicChunkwiseAttention(chunk_size=3, units=8)
        >>> query, value = np.ones((2, 3, 4), "float32"), np.ones((2, 5, 6), "float32")
        >>> tuple(layer(query, value, training=True).shape)
        (2, 3, 6)

    Reference:
        Chiu and Raffel 2017, arXiv 1712.05382, section 2 (monotonic chunkwise attention): s_{i-1}
        is the query, h_j key and value, e_ij the monotonic score, u_ij the chunk score, alpha_ij
        the monotonic weights, beta_ij the weights, c_i the context. The paper initializes r to -4
        for speech recognition and to -1 for summarization.
    """

    config_excludes = ("alignment",)

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
        parts = select_part_arguments(kwargs)
        reader = (score_bias_init, sigmoid_noise, form, hard_at_inference, seed_of_noise(seed))
        alignment = MochaAlignment(chunk_size, chunk_score, units, *reader, **parts)
        score = stopping_score(score, units, parts)
        super().__init__(score, alignment, dropout=dropout, seed=seed, **kwargs)

    def get_config(self) -> dict[str, Any]:
        alignment = self.alignment.get_config()
        names = ("chunk_size", "chunk_score", *READER_ARGUMENTS)
        arguments = {name: alignment[name] for name in names}
        return {**super().get_config(), **arguments}
