"""Look at a chunk of places before where the reader stops."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment, Shape, State, Tensor
from attention_zoo.layers.alignments.monotonic import MonotonicAlignment
from attention_zoo.layers.scores import make_score
from attention_zoo.ops import at_least_float32, masked_softmax


@ALIGNMENTS.register("mocha")
@keras.saving.register_keras_serializable("attention_zoo")
class MochaAlignment(Alignment):
    """Soft attention to the chunk of places that ends where a monotonic reader stops.

    `weights_j = sum_{k=j}^{j+w-1} stop_k exp(u_j) / sum_{l=k-w+1}^{k} exp(u_l)`, with `stop` the
    weights of a `MonotonicAlignment` and u a second score of its own

    Args:
        chunk_size: w, how many places a chunk has.
        chunk_score: what scores places inside of a chunk: a name or a `Score`.
        units: hidden width of the chunk's score, where it has one and is given by name.
        score_bias_init, sigmoid_noise, form, hard_at_inference, seed: of the reader, as in
            `MonotonicAlignment`.

    Call arguments:
        scores: `(..., S)`, of stopping.
        mask: booleans that broadcast against `scores`, or None; a hidden place is walked by, and
            is no part of a chunk.
        state: `(previous,)`, the reader's last weights `(..., S)`; at first all on place 0.
        aux: u, `(..., S)`, from `precompute`.
        noise: what `draw` drew, `(..., S)`.
        training: whether the reader's stop is an expectation.

    Returns:
        Weights `(..., S)`, float32 at least, and the next state.

    Weights:
        score_bias: `()`, of the reader; those of the chunk's score.

    Masking:
        Hidden positions weigh exactly 0. A row with nothing to attend is all 0 and leaves the
        state as it was.

    Cost:
        That of the reader, a second score, and O(S w) a row.

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
        alpha_ij are the reader's weights, beta_ij these weights, u_ij the chunk's scores, w the
        chunk_size. Here each chunk is a softmax with a greatest score of its own; with one
        greatest score for the whole row, chunks far below it divide 0 by 0. The paper's chunk
        score also adds a bias to its hidden layer; "additive" has none.
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
        if isinstance(chunk_size, bool) or not isinstance(chunk_size, int) or chunk_size < 1:
            raise ValueError(f"chunk_size must be an integer of at least 1, got {chunk_size!r}")
        self.chunk_size = chunk_size
        self.chunk_score = make_score(chunk_score, self.dtype_policy, units=units)
        if self.chunk_score.is_stateful:
            raise ValueError(
                f"chunk_score {self.chunk_score.name!r} reads earlier looks, which a chunk does "
                "not keep; take a score that does not remember"
            )
        self.reader = MonotonicAlignment(
            score_bias_init, sigmoid_noise, form, hard_at_inference, seed, dtype=self.dtype_policy
        )

    def build_readers(self, query_shape: Shape, key_shape: Shape) -> None:
        if not self.chunk_score.built:
            self.chunk_score.build(query_shape, key_shape)

    def build(self, scores_shape: Shape) -> None:
        if not self.reader.built:
            self.reader.build(scores_shape)
        self.built = True

    def initial_state(self, like: Tensor) -> State:
        return self.reader.initial_state(like)

    def draw(self, shape: tuple[Any, ...], dtype: str) -> Tensor | None:
        return self.reader.draw(shape, dtype)

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
            raise ValueError("mocha needs the chunk's scores that `precompute` made as `aux`")
        stop, state = self.reader.call(scores, mask, state, training, noise)
        energy = at_least_float32(aux)
        if mask is None:
            mask = ops.ones_like(energy, dtype="bool")
        chunks = masked_softmax(self._chunks(energy), self._chunks(mask))
        return self._spread(stop[..., None] * chunks), state

    def _chunks(self, x: Tensor) -> Tensor:
        """The w places up to each one, `(..., S, w)`; before the first place nothing (0, False)."""
        width = self.chunk_size
        padded = ops.pad(x, ((0, 0),) * (len(x.shape) - 1) + ((width - 1, 0),))
        return ops.stack([_cut(padded, at, width - 1 - at) for at in range(width)], axis=-1)

    def _spread(self, shares: Tensor) -> Tensor:
        """What each place gets from all chunks that it lies in, `(..., S)` from `(..., S, w)`."""
        width, rows = self.chunk_size, ((0, 0),) * (len(shares.shape) - 2)
        padded = ops.pad(shares, (*rows, (0, width - 1), (0, 0)))
        places = [_cut(padded[..., at], width - 1 - at, at) for at in range(width)]
        return sum(places[1:], places[0])

    def get_config(self) -> dict[str, Any]:
        reader = self.reader
        return {
            **super().get_config(),
            "chunk_size": self.chunk_size,
            "chunk_score": keras.saving.serialize_keras_object(self.chunk_score),
            "score_bias_init": reader.score_bias_init,
            "sigmoid_noise": reader.sigmoid_noise,
            "form": reader.form,
            "hard_at_inference": reader.hard_at_inference,
            "seed": reader.seed,
        }


def _cut(x: Tensor, before: int, after: int) -> Tensor:
    """`x` without that many places at either end of its last axis."""
    return x[..., before : -after or None]
