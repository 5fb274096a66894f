"""Look at one place, drawn at random, and learn as if the draw were soft."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment, State, Tensor
from attention_zoo.ops import at_least_float32, hardmax, masked_softmax, number, whole_number

AWAY_FROM_DROPOUT = 104729
"""Added to a seed: an attention's dropout with the same seed draws other numbers."""


@ALIGNMENTS.register("gumbel")
@keras.saving.register_keras_serializable("attention_zoo")
class GumbelAlignment(Alignment):
    """A place drawn from softmax(scores), with the gradient of a soft look in its stead.

    `soft = softmax((scores + g) / temperature)`, `g_j = -log(-log(u_j))`, u uniform in (0, 1);
    `weights = onehot(argmax_j (score_j + g_j))` forward, soft backward

    The draw follows softmax(scores) whatever the temperature, which trades bias (high) for
    variance (low) of the gradient. Nothing is drawn at inference: the greatest score has it all.

    Args:
        temperature: above 0; at first 1 or so. Where it stands is a weight that nothing trains, so
            that it is saved and a callback can lower it, `alignment.temperature.assign(0.5)`.
        straight_through: False makes training see the soft weights too.
        seed: of the draws, an integer or None.

    Call arguments:
        scores: `(..., S)`.
        mask: booleans that broadcast against `scores`, or None.
        state: `()`.
        training: changes nothing; without noise the look is an argmax.
        noise: g, `(..., S)`, from `draw`.

    Returns:
        Weights `(..., S)`, float32 at least, and `()`. A row with nothing to attend is all 0.

    Weights:
        temperature: `()`, not trainable.

    Masking:
        A hidden position is never drawn, weighs exactly 0 and gets no gradient.

    Cost:
        O(S) a row.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import GumbelAlignment
        >>> align, scores = GumbelAlignment(seed=1), np.zeros((1, 4), "float32")
        >>> weights, _ = align(scores, noise=align.draw((1, 4), "float32"), training=True)
        >>> sorted(float(w) for w in weights[0])
        [0.0, 0.0, 0.0, 1.0]

    Reference:
        Jang et al. 2016, arXiv 1611.01144, equations 1 (the draw: z is the row of weights, log pi
        the scores) and 2 (y is soft, tau the temperature); section 2.2 (straight-through).
    """

    def __init__(
        self,
        temperature: float = 1.0,
        straight_through: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not 0 < number(temperature) < math.inf:
            raise ValueError(f"temperature must be above 0, got {temperature!r}")
        self.first_temperature, self.straight_through = temperature, straight_through
        self.seed, self.seed_generator = seed, noise_generator(seed)

    def build(self, scores_shape: tuple[Any, ...]) -> None:
        self.temperature = self.add_weight(
            shape=(),
            initializer=keras.initializers.Constant(self.first_temperature),
            trainable=False,
            autocast=False,
            name="temperature",
        )
        self.built = True

    def draw(self, shape: tuple[Any, ...], dtype: str) -> Tensor:
        return gumbel_noise(shape, dtype, self.seed_generator)

    def call(
        self,
        scores: Tensor,
        mask: Tensor | None = None,
        state: State = (),
        training: bool = False,
        noise: Tensor | None = None,
    ) -> tuple[Tensor, State]:
        scores = at_least_float32(scores)
        if noise is None:
            return hardmax(scores, mask), state
        noisy = scores + ops.cast(noise, scores.dtype)
        soft = masked_softmax(noisy / ops.cast(self.temperature, scores.dtype), mask)
        if not self.straight_through:
            return soft, state
        return hardmax(noisy, mask) + (soft - ops.stop_gradient(soft)), state

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "temperature": self.first_temperature,
            "straight_through": self.straight_through,
            "seed": self.seed,
        }


def noise_generator(seed: int | None) -> keras.random.SeedGenerator:
    """Seeds for what an alignment draws."""
    if seed is not None:
        seed = whole_number("seed", seed, low=0) + AWAY_FROM_DROPOUT
    return keras.random.SeedGenerator(seed)


def gumbel_noise(shape: tuple[Any, ...], dtype: str, seed: keras.random.SeedGenerator) -> Tensor:
    """Standard Gumbel draws, all finite: `argmax(scores + noise)` is drawn from softmax(scores)."""
    uniform = ops.maximum(keras.random.uniform(shape, dtype=dtype, seed=seed), _TINY)
    return -ops.log(-ops.log(uniform))


_TINY = float(np.finfo("float32").tiny)
