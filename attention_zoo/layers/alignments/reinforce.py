"""Hard attention trained with REINFORCE."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import backend, ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment
from attention_zoo.layers.alignments.gumbel import gumbel_noise, noise_generator
from attention_zoo.ops import at_least_float32, hardmax, rate
from attention_zoo.typing import State, Tensor


class Choice(NamedTuple):
    """Statistics of the sampled positions, summed over steps and heads, `(B,)` each.

    log_probability: log probability of the sampled positions. entropy: entropy of the distributions
        from which they were sampled.
    """

    log_probability: Tensor
    entropy: Tensor


@ALIGNMENTS.register("reinforce")
@keras.saving.register_keras_serializable("attention_zoo")
class ReinforceAlignment(Alignment):
    """REINFORCE: a position sampled from softmax(scores), with its log probability in the state.

    `weights = onehot(s)`, `s ~ softmax(scores)`; state: `sum_t log p(s_t)` and `sum_t H(p_t)`

    The weights pass no gradient to the scores. The state of the attention layer
    (`return_state=True`, or `CellState.alignments` of a decoder) contains both sums; `choice`
    extracts them, and `attention_zoo.losses.Reinforce` computes the gradient from them and a
    reward. At inference nothing is sampled: the greatest score gets all the weight.

    Use it to sample one position and train with an unbiased gradient, whose variance is higher than
    gumbel's.

    Args:
        expected_rate: fraction of batch rows that use softmax(scores) instead of a sample in all
            training steps. They add no log probability, and their scores are trained as in soft
            attention.
        seed: seed of the noise, an integer or None.

    Call arguments:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
        state: `(log_probability, entropy)`, sums over the previous steps, `(..., 1)`; initially 0.
        training: unused; without noise the weights are the one-hot argmax.
        noise: from `sample_noise`.

    Returns:
        Weights `(..., S)`, at least float32, and the next state. A fully masked row is all 0.

    Masking:
        A masked position is never sampled and has weight exactly 0. A fully masked row adds nothing
        to the state.

    Cost:
        O(S) per row.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention, ReinforceAlignment
        >>> layer = Attention("dot", ReinforceAlignment(seed=1))
        >>> query, value = np.zeros((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
        >>> _, state = layer(query, value, return_state=True, training=True)
        >>> choice = layer.alignment.choice(state)
        >>> [round(float(x), 4) for x in choice.log_probability]  # 3 steps, 5 positions
        [-4.8283, -4.8283]

    Reference:
        Xu et al. 2015, arXiv 1502.03044, section 4.1: s_t is the row of weights, alpha_t
        softmax(scores). `expected_rate` is .5 in the paper, and the choice is made once per image,
        as here: a soft step learns little from a decoder state that sampled steps produced.
    """

    def __init__(self, expected_rate: float = 0.0, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.expected_rate = rate("expected_rate", expected_rate)
        self.seed, self.seed_generator = seed, noise_generator(seed)

    @staticmethod
    def choice(state: Any) -> Choice:
        """Return the summed statistics, from an attention layer's state after the last step."""
        _, sums = state
        return Choice(*(ops.sum(leaf, axis=tuple(range(1, len(leaf.shape)))) for leaf in sums))

    def initial_state(self, like: Tensor) -> State:
        zeros = ops.zeros_like(ops.sum(at_least_float32(like), axis=-1, keepdims=True))
        return zeros, zeros

    def compute_previous_states(self, like: Tensor, query_mask: Tensor) -> State:
        zeros = ops.zeros_like(ops.cast(query_mask, at_least_float32(like).dtype))[..., None]
        return zeros, zeros

    def compute_final_state(self, states: State, query_mask: Tensor) -> State:
        zero = ops.zeros((), states[0].dtype)
        return tuple(ops.sum(ops.where(query_mask[..., None], x, zero), axis=-2) for x in states)

    def sample_noise(self, shape: tuple[Any, ...], dtype: str) -> Tensor:
        """Return Gumbel noise; `expected_rate` adds a last column with one number per batch row."""
        noise = gumbel_noise(shape, dtype, self.seed_generator)
        if not self.expected_rate:
            return noise
        *rows, _ = shape
        row_noise = gumbel_noise((*rows[:1], *[1] * len(rows[1:]), 1), dtype, self.seed_generator)
        return ops.concatenate([noise, ops.broadcast_to(row_noise, (*rows, 1))], axis=-1)

    def call(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        state: State = (),
        training: bool = False,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        scores = at_least_float32(scores)
        if scores.shape[-1] == 0:
            return scores, state
        use_expected, noise = self._split_noise(noise)
        log_probs, probs = _log_softmax(scores, mask)
        zero = ops.zeros((), scores.dtype)
        weights = hardmax(scores if noise is None else scores + noise, mask)
        # A NaN weight selects the NaN log probability.
        chosen = ops.where(ops.equal(weights, 0), zero, log_probs)
        log_probability = ops.sum(chosen, axis=-1, keepdims=True)
        entropy = -ops.sum(probs * log_probs, axis=-1, keepdims=True)
        if use_expected is not None:
            weights = ops.where(use_expected, probs, weights)
            log_probability = ops.where(use_expected, zero, log_probability)
        log_probability_sum, entropy_sum = (ops.cast(leaf, scores.dtype) for leaf in state)
        return weights, (log_probability_sum + log_probability, entropy_sum + entropy)

    def _split_noise(self, noise: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Return which rows use softmax(scores), `(..., 1)` or None, and the scores' noise."""
        if noise is None or not self.expected_rate:
            return None, noise
        row_noise = noise[..., -1][..., None]  # keeps the static size 1 of the last axis
        return row_noise < -math.log(-math.log(self.expected_rate)), noise[..., :-1]


def _log_softmax(scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return log probabilities and probabilities; both 0 where masked or underflowed."""
    lowest = ops.cast(np.finfo(backend.standardize_dtype(scores.dtype)).min, scores.dtype)
    zero = ops.zeros((), scores.dtype)
    scores = scores if mask is None else ops.where(mask, scores, lowest)
    log_probs = ops.log_softmax(scores, axis=-1)
    probs = ops.exp(log_probs)
    is_zero = ops.equal(probs, 0)  # False for NaN
    if mask is not None:
        is_zero = ops.logical_or(is_zero, ops.logical_not(mask))
    return ops.where(is_zero, zero, log_probs), ops.where(is_zero, zero, probs)
