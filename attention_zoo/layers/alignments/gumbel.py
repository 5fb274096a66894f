"""Hard attention trained with the straight-through Gumbel-softmax estimator."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from attention_zoo.layers.alignments.base import ALIGNMENTS, Alignment
from attention_zoo.ops import at_least_float32, finite_number, hardmax, masked_softmax, whole_number
from attention_zoo.ops.random import sample_gumbel
from attention_zoo.typing import State, Tensor

SEED_OFFSET = 104729
"""Added to a seed, so that the dropout of an attention layer with the same seed is independent."""


@ALIGNMENTS.register("gumbel")
@keras.saving.register_keras_serializable("attention_zoo")
class GumbelAlignment(Alignment):
    """Gumbel-softmax: a position sampled from softmax(scores), with a straight-through gradient.

    `soft = softmax((scores + g) / temperature)`, `g_j = -log(-log(u_j))`, u uniform in (0, 1);
    `weights = onehot(argmax_j (score_j + g_j))` forward, soft backward

    The sample follows softmax(scores) at any temperature. A high temperature gives the gradient
    more bias, a low one more variance. At inference nothing is sampled: the greatest score gets all
    the weight.

    Use it to sample one position and train by backpropagation; the gradient is biased.

    Args:
        temperature: initial temperature, above 0; start at about 1. The current one is stored in a
            non-trainable weight, so that it is saved and a callback can lower it:
            `alignment.temperature.assign(0.5)`.
        straight_through: if False, the forward pass in training uses the soft weights too.
        seed: seed of the noise, an integer or None.

    Call arguments:
        scores: `(..., S)`.
        mask: boolean, broadcasts against `scores`, or None.
        state: `()`.
        training: unused; without noise the weights are the one-hot argmax.
        noise: g, `(..., S)`, from `sample_noise`.

    Returns:
        Weights `(..., S)`, at least float32, and `()`. A fully masked row is all 0.

    Weights:
        temperature: `()`, not trainable.

    Masking:
        A masked position is never sampled, has weight exactly 0 and gets no gradient.

    Cost:
        O(S) per row.

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import GumbelAlignment
        >>> align, scores = GumbelAlignment(seed=1), np.zeros((1, 4), "float32")
        >>> weights, _ = align(scores, noise=align.sample_noise((1, 4), "float32"), training=True)
        >>> sorted(float(w) for w in weights[0])
        [0.0, 0.0, 0.0, 1.0]

    Reference:
        Jang et al. 2016, arXiv 1611.01144, equations 1 (the sample: z is the row of weights, log pi
        the scores) and 2 (y is soft, tau the temperature); section 2.2 (straight-through).
    """

    config_excludes = ("temperature",)  # the attribute is the current one

    def __init__(
        self,
        temperature: float = 1.0,
        straight_through: bool = True,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.initial_temperature = finite_number("temperature", temperature, above=0)
        self.straight_through = straight_through
        self.seed, self.seed_generator = seed, noise_generator(seed)

    def build(self, scores_shape: tuple[Any, ...]) -> None:
        start = keras.initializers.Constant(self.initial_temperature)
        self.temperature = self.add_weight(
            (), start, trainable=False, autocast=False, name="temperature"
        )

    def sample_noise(self, shape: tuple[Any, ...], dtype: str) -> Tensor:
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
        return {**super().get_config(), "temperature": self.initial_temperature}


def noise_generator(seed: int | None) -> keras.random.SeedGenerator:
    """Return the seed generator for an alignment's noise."""
    if seed is not None:
        seed = whole_number("seed", seed, low=0) + SEED_OFFSET
    return keras.random.SeedGenerator(seed)


def gumbel_noise(shape: tuple[Any, ...], dtype: str, seed: keras.random.SeedGenerator) -> Tensor:
    """Return finite Gumbel noise: `argmax(scores + noise)` is a sample from softmax(scores)."""
    return ops.cast(sample_gumbel(seed.next(), shape), dtype)
