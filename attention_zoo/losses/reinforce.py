"""What turns a reward into a gradient for what was drawn at random."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo.ops import check_shape, number, refuse_float_mask, sizes_or

Tensor = Any


@keras.saving.register_keras_serializable("attention_zoo")
class Reinforce(keras.layers.Layer):
    """A term for the loss whose gradient makes rewarded choices likelier.

    `-coefficient mean((reward - b) log p(chosen)) - entropy_bonus mean(H)`;
    after it in training, `b <- baseline_decay b + (1 - baseline_decay) mean(reward)`

    Reward and b are constants to the gradient. Its expectation, with the coefficient at 1 and no
    bonus, is that of minus the mean reward; b changes its variance only. The value of the term
    means nothing.

    Args:
        baseline_decay: how much of the moving average b stays at each step, in [0, 1).
        coefficient: weight of the term, at least 0.
        entropy_bonus: what spread-out choices are paid, at least 0; it keeps them from settling
            early.

    Call arguments:
        reward: `(B,)`, one number for each example, the higher the better.
        log_probability: `(B,)`, of what the example's looks chose (`ReinforceAlignment.choice`).
        entropy: `(B,)`, of what they were chosen from, or None where there is no bonus.
        example_mask: `(B,)` boolean (or 0 and 1), of examples that there are; all if None.
        training: whether b moves.

    Returns:
        A number, float32 at least; 0 for no rows.

    Weights:
        baseline: b, `()`, not trainable; at first 0.

    Masking:
        Examples that are not there count in no mean. One that chose nothing has log-probability and
        entropy 0, and adds nothing.

    Cost:
        O(B).

    Example:
        >>> import keras, numpy as np
        >>> from keras import ops
        >>> from attention_zoo.layers import HardAttention
        >>> from attention_zoo.losses import Reinforce
        >>> class Pointer(keras.Model):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.look = HardAttention("reinforce", units=8)
        ...         self.answer = keras.layers.Dense(3)
        ...         self.reinforce = Reinforce()
        ...
        ...     def call(self, inputs, training=False):
        ...         context, state = self.look(*inputs, return_state=True, training=training)
        ...         choice = self.look.alignment.choice(state)
        ...         return {"logits": self.answer(context[:, 0]), **choice._asdict()}
        ...
        ...     def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
        ...         looked = y_pred["log_probability"], y_pred["entropy"]
        ...         losses = ops.sparse_categorical_crossentropy(y, y_pred["logits"], True)
        ...         return ops.mean(losses) + self.reinforce(-losses, *looked, training=training)
        >>> query, memory = np.ones((4, 1, 5), "float32"), np.ones((4, 6, 5), "float32")
        >>> model = Pointer()
        >>> model.compile("adam")
        >>> history = model.fit((query, memory), np.array([0, 1, 2, 0]), verbose=0)
        >>> bool(np.isfinite(history.history["loss"][0]))
        True

    Reference:
        Xu et al. 2015, arXiv 1502.03044, section 4.1: log p(y | s, a) is the reward (minus the
        loss), lambda_r the coefficient, lambda_e the bonus, b_k the baseline. The authors' code
        has the bonus .002 and the coefficient .1; 1, here, is what the derivation gives.
    """

    def __init__(
        self,
        baseline_decay: float = 0.9,
        coefficient: float = 1.0,
        entropy_bonus: float = 0.002,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"autocast": False, **kwargs})
        if not 0 <= number(baseline_decay) < 1:
            raise ValueError(f"baseline_decay must be in [0, 1), got {baseline_decay!r}")
        for name, value in (("coefficient", coefficient), ("entropy_bonus", entropy_bonus)):
            if not 0 <= number(value) < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, got {value!r}")
        self.baseline_decay = baseline_decay
        self.coefficient, self.entropy_bonus = coefficient, entropy_bonus
        self.baseline = self.add_weight(
            shape=(),
            initializer="zeros",
            dtype="float32",
            trainable=False,
            autocast=False,
            aggregation="mean",
            name="baseline",
        )
        self.built = True

    def call(
        self,
        reward: Tensor,
        log_probability: Tensor,
        entropy: Tensor | None = None,
        example_mask: Tensor | None = None,
        training: bool = False,
    ) -> Tensor:
        if entropy is None and self.entropy_bonus:
            raise ValueError("entropy is None, but there is a bonus: give it, or entropy_bonus=0")
        check_shape("reward", reward.shape, ("batch",))
        each = sizes_or(("batch",), reward.shape)
        check_shape("log_probability", log_probability.shape, each)
        if entropy is not None:
            check_shape("entropy", entropy.shape, each)
        mask = example_mask
        if mask is not None:
            check_shape("example_mask", mask.shape, each)
            refuse_float_mask("example_mask", mask)
            mask = ops.cast(mask, "bool")
        log_probability = _there(log_probability, mask)
        reward = ops.stop_gradient(_there(reward, mask))
        gained = reward - ops.stop_gradient(self.baseline)
        term = -self.coefficient * _mean(gained * log_probability, mask)
        if self.entropy_bonus:
            term = term - self.entropy_bonus * _mean(_there(entropy, mask), mask)
        if training:
            self._move_baseline(reward, mask)
        return term

    def _move_baseline(self, reward: Tensor, mask: Tensor | None) -> None:
        """Towards the mean reward of the batch, if there is a row in it."""
        step = (1 - self.baseline_decay) * (_mean(reward, mask) - self.baseline)
        some = _rows(reward, mask) > 0
        self.baseline.assign_add(ops.where(some, step, 0.0))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "baseline_decay": self.baseline_decay,
            "coefficient": self.coefficient,
            "entropy_bonus": self.entropy_bonus,
        }


def _there(x: Tensor, mask: Tensor | None) -> Tensor:
    """The examples' numbers, float32; 0 of those that are not there, whatever it was."""
    x = ops.cast(x, "float32")
    return x if mask is None else ops.where(mask, x, 0.0)


def _mean(x: Tensor, mask: Tensor | None) -> Tensor:
    """Over the rows that there are; 0 where there are none."""
    return ops.sum(x) / ops.cast(ops.maximum(_rows(x, mask), 1), x.dtype)


def _rows(x: Tensor, mask: Tensor | None) -> Tensor:
    """How many there are."""
    if mask is None:
        return ops.convert_to_tensor(ops.shape(x)[0])
    return ops.sum(ops.cast(mask, "int32"))
