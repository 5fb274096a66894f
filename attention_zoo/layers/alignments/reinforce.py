"""Look at one place, drawn at random, and learn from the reward."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import backend, ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment, State, Tensor
from attention_zoo.layers.alignments.gumbel import gumbel_noise, noise_generator
from attention_zoo.ops import at_least_float32, hardmax, number


class Choice(NamedTuple):
    """What an example's looks chose, over all its looks and heads, `(B,)` each.

    log_probability: of the chosen places. entropy: of what they were chosen from.
    """

    log_probability: Tensor
    entropy: Tensor


@ALIGNMENTS.register("reinforce")
@keras.saving.register_keras_serializable("attention_zoo")
class ReinforceAlignment(Alignment):
    """A place drawn from softmax(scores), whose log-probability is kept for the reward.

    `weights = onehot(s)`, `s ~ softmax(scores)`; kept: `sum_t log p(s_t)` and `sum_t H(p_t)`

    The weights give the scores no gradient. An attention's state (`return_state=True`, or
    `CellState.alignments` of a decoder) holds what was kept; `choice` reads it, and
    `attention_zoo.losses.Reinforce` turns it and a reward into the gradient. Nothing is drawn at
    inference: the greatest score has it all.

    Args:
        expected_rate: the share of rows whose looks in training all weigh by softmax(scores)
            instead of a draw; these keep no log-probability, and their scores learn as in a soft
            look.
        seed: of the draws, an integer or None.

    Call arguments:
        scores: `(..., S)`.
        mask: booleans that broadcast against `scores`, or None.
        state: `(log_probability, entropy)`, sums over the looks so far, `(..., 1)`; at first 0.
        training: changes nothing; without noise the look is an argmax.
        noise: from `draw`.

    Returns:
        Weights `(..., S)`, float32 at least, and the next state. A row with nothing to attend is
        all 0.

    Masking:
        A hidden position is never drawn and weighs exactly 0. A row with nothing to attend adds
        nothing to the state.

    Cost:
        O(S) a row.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import Attention, ReinforceAlignment
        >>> layer = Attention("dot", ReinforceAlignment(seed=1))
        >>> query, value = np.zeros((2, 3, 4), "float32"), np.ones((2, 5, 4), "float32")
        >>> _, state = layer(query, value, return_state=True, training=True)
        >>> choice = layer.alignment.choice(state)
        >>> [round(float(x), 4) for x in choice.log_probability]  # 3 looks at 5 places
        [-4.8283, -4.8283]

    Reference:
        Xu et al. 2015, arXiv 1502.03044, section 4.1: s_t is the row of weights, alpha_t
        softmax(scores). `expected_rate` is .5 there, and its coin is tossed once for an image, as
        here: a soft look learns little from what drawn ones before it have left in the decoder.
    """

    def __init__(self, expected_rate: float = 0.0, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= number(expected_rate) < 1:
            raise ValueError(f"expected_rate must be in [0, 1), got {expected_rate!r}")
        self.expected_rate = expected_rate
        self.seed, self.seed_generator = seed, noise_generator(seed)

    @staticmethod
    def choice(state: Any) -> Choice:
        """What was chosen, from the state of an attention after all its looks."""
        _, kept = state
        return Choice(*(ops.sum(leaf, axis=tuple(range(1, len(leaf.shape)))) for leaf in kept))

    def initial_state(self, like: Tensor) -> State:
        nothing = ops.zeros_like(ops.sum(at_least_float32(like), axis=-1, keepdims=True))
        return nothing, nothing

    def compute_previous_states(self, like: Tensor, live: Tensor) -> State:
        nothing = ops.zeros_like(ops.cast(live, at_least_float32(like).dtype))[..., None]
        return nothing, nothing

    def compute_final_state(self, after: State, live: Tensor) -> State:
        zero = ops.zeros((), after[0].dtype)
        return tuple(ops.sum(ops.where(live[..., None], x, zero), axis=-2) for x in after)

    def draw(self, shape: tuple[Any, ...], dtype: str) -> Tensor:
        """Gumbel noise; with an `expected_rate`, one column more: a coin for each first row."""
        noise = gumbel_noise(shape, dtype, self.seed_generator)
        if not self.expected_rate:
            return noise
        *rows, _ = shape
        coins = gumbel_noise((*rows[:1], *[1] * len(rows[1:]), 1), dtype, self.seed_generator)
        return ops.concatenate([noise, ops.broadcast_to(coins, (*rows, 1))], axis=-1)

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
        expected, noise = self._toss(noise)
        log_shares, shares = _log_softmax(scores, mask)
        zero = ops.zeros((), scores.dtype)
        weights = hardmax(scores if noise is None else scores + noise, mask)
        log_probability = ops.sum(ops.where(weights > 0, log_shares, zero), axis=-1, keepdims=True)
        entropy = -ops.sum(shares * log_shares, axis=-1, keepdims=True)
        if expected is not None:
            weights = ops.where(expected, shares, weights)
            log_probability = ops.where(expected, zero, log_probability)
        so_far = [ops.cast(leaf, scores.dtype) for leaf in state]
        return weights, (so_far[0] + log_probability, so_far[1] + entropy)

    def _toss(self, noise: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Which looks weigh by their expectation, `(..., 1)` or None, and the noise of the rest."""
        if noise is None or not self.expected_rate:
            return None, noise
        coins = noise[..., -1][..., None]  # of one column, known before the loop runs
        return coins < -math.log(-math.log(self.expected_rate)), noise[..., :-1]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "expected_rate": self.expected_rate, "seed": self.seed}


def _log_softmax(scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Logarithms of the shares, and the shares; both 0 where hidden or nothing is left."""
    lowest = ops.cast(np.finfo(backend.standardize_dtype(scores.dtype)).min, scores.dtype)
    zero = ops.zeros((), scores.dtype)
    logs = ops.log_softmax(scores if mask is None else ops.where(mask, scores, lowest), axis=-1)
    shares = ops.exp(logs)
    some = shares > 0 if mask is None else ops.logical_and(mask, shares > 0)
    return ops.where(some, logs, zero), ops.where(some, shares, zero)
