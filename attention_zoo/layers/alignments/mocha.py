"""Monotonic chunkwise attention (MoChA)."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment
from attention_zoo.layers.alignments.monotonic import READER_ARGUMENTS, MonotonicAlignment
from attention_zoo.layers.scores import make_score
from attention_zoo.layers.scores.base import build_score
from attention_zoo.ops import at_least_float32, masked_softmax, whole_number
from attention_zoo.typing import Shape, State, Tensor


@ALIGNMENTS.register("mocha")
@keras.saving.register_keras_serializable("attention_zoo")
class MochaAlignment(Alignment):
    """MoChA: softmax over a chunk that ends at the stop position of a monotonic alignment.

    `weights_j = sum_{k=j}^{j+w-1} stop_k exp(u_j) / sum_{l=k-w+1}^{k} exp(u_l)`, with `stop` the
    weights of a `MonotonicAlignment` and u the scores of a second score function

    Use it for streaming with a window of context before the selected position.

    Args:
        chunk_size: w, number of positions in a chunk.
        chunk_score: score function within a chunk: a name or a `Score`.
        units: number of hidden units of the chunk score, if it has any and is given by name.
        score_bias_init, sigmoid_noise, form, hard_at_inference, seed: arguments of the inner
            `MonotonicAlignment`.

    Call arguments:
        scores: `(..., S)`, scores of stopping at each position.
        mask: boolean, broadcasts against `scores`, or None. The monotonic alignment skips masked
            positions, and chunks exclude them.
        state: `(previous,)`, the monotonic alignment's previous weights `(..., S)`; initially 1 at
            position 0.
        aux: u, `(..., S)`, from `precompute`.
        noise: `(..., S)`, from `sample_noise`.
        training: whether to use the expected weights of the monotonic alignment.

    Returns:
        Weights `(..., S)`, at least float32, and the next state.

    Weights:
        score_bias: `()`, bias of the scores of the monotonic alignment; the weights of the chunk
        score.

    Masking:
        Masked positions have weight exactly 0. A fully masked row is all 0 and leaves the state
        unchanged.

    Cost:
        The cost of a `MonotonicAlignment` and of a second score, plus O(S w) per row.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import MochaAlignment
        >>> align, scores = MochaAlignment(chunk_size=2), np.array([[-1.0, -1.0, 2.0]], "float32")
        >>> align.build(scores.shape)
        >>> weights, _ = align(scores, state=align.initial_state(scores), aux=0 * scores)
        >>> [float(w) for w in weights[0]]
        [0.0, 0.5, 0.5]

    Reference:
        Chiu and Raffel 2017, arXiv 1712.05382, section 2 (monotonic chunkwise attention):
        alpha_ij are the weights of the monotonic alignment, beta_ij these weights, u_ij the chunk
        scores, w the chunk_size. Here the softmax of each chunk subtracts the chunk's own maximum;
        with one maximum for the whole row, chunks far below it would compute 0 / 0. The paper's
        chunk score also adds a bias to its hidden layer; "additive" has none.
    """

    def __init__(
        self,
        chunk_size: int = 2,
        chunk_score: Any = "additive",
        units: int | None = None,
        score_bias_init: float = 0.0,
        sigmoid_noise: float = 0.0,
        form: str = "parallel",
        hard_at_inference: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.chunk_size = whole_number("chunk_size", chunk_size)
        self.chunk_score = make_score(chunk_score, **self.part_arguments, units=units)
        if self.chunk_score.is_stateful:
            raise ValueError(
                f"chunk_score must be stateless, got {self.chunk_score.name!r}; use a score that "
                "does not depend on previous attention steps"
            )
        self.reader = MonotonicAlignment(
            score_bias_init, sigmoid_noise, form, hard_at_inference, seed, dtype=self.dtype_policy
        )

    def build_projections(self, query_shape: Shape, key_shape: Shape) -> None:
        build_score(self.chunk_score, query_shape, key_shape)

    def build(self, scores_shape: Shape) -> None:
        if not self.reader.built:
            self.reader.build(scores_shape)

    def initial_state(self, like: Tensor) -> State:
        return self.reader.initial_state(like)

    def sample_noise(self, shape: tuple[Any, ...], dtype: str) -> Tensor | None:
        return self.reader.sample_noise(shape, dtype)

    def prepare(self, keys: Tensor) -> Tensor:
        return self.chunk_score.project(keys)

    def precompute(self, query: Tensor, memory: Any, state: State | None) -> Tensor:
        return self.chunk_score.compute_scores(query, memory.extra)

    def call(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        state: State = (),
        training: bool = False,
        aux: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        if aux is None:
            raise ValueError(
                "mocha needs aux, the chunk scores that `precompute` returns, got None"
            )
        stop, state = self.reader.call(scores, mask, state, training, noise)
        chunk_scores = at_least_float32(aux)
        if mask is None:
            mask = ops.ones_like(chunk_scores, dtype="bool")
        chunks = masked_softmax(self._gather_chunks(chunk_scores), self._gather_chunks(mask))
        return self._sum_chunks(stop[..., None] * chunks), state

    def _gather_chunks(self, x: Tensor) -> Tensor:
        """Gather the w positions up to each one, `(..., S, w)`; 0 or False before the first."""
        width = self.chunk_size
        padded = ops.pad(x, ((0, 0),) * (len(x.shape) - 1) + ((width - 1, 0),))
        return ops.stack([_crop(padded, at, width - 1 - at) for at in range(width)], axis=-1)

    def _sum_chunks(self, chunks: Tensor) -> Tensor:
        """Sum each position's weights over the chunks that contain it, to `(..., S)`."""
        width, rows = self.chunk_size, ((0, 0),) * (len(chunks.shape) - 2)
        padded = ops.pad(chunks, (*rows, (0, width - 1), (0, 0)))
        shifted = [_crop(padded[..., at], width - 1 - at, at) for at in range(width)]
        return sum(shifted[1:], shifted[0])

    def get_config(self) -> dict[str, Any]:
        reader = self.reader.get_config()
        arguments = {name: reader[name] for name in (*READER_ARGUMENTS, "seed")}
        return {**super().get_config(), **arguments}


def _crop(x: Tensor, before: int, after: int) -> Tensor:
    """Remove `before` and `after` entries from the ends of the last axis."""
    return x[..., before : -after or None]
