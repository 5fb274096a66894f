"""REINFORCE: a gradient for sampled choices from a reward."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from attention_zoo.ops import check_shape, number, rate, refuse_float_mask, sizes_or
from attention_zoo.typing import Shape, Tensor


@keras.saving.register_keras_serializable("attention_zoo")
class Reinforce(keras.layers.Layer):
    """REINFORCE loss term with a moving-average baseline.

    `-coefficient mean((reward - b) log p(chosen)) - entropy_bonus mean(H)`;
    in training, followed by `b <- baseline_decay b + (1 - baseline_decay) mean(reward)`

    No gradient flows through reward and b. With coefficient 1 and no bonus, the expected gradient
    is that of minus the mean reward; b only changes its variance. The value of the term has no
    meaning.

    Args:
        baseline_decay: decay of the moving average b, in [0, 1).
        coefficient: weight of the term, at least 0.
        entropy_bonus: weight of the entropy, at least 0; it discourages early convergence to one
            choice.

    Call arguments:
        reward: `(B,)`, one value per example; higher is better.
        log_probability: `(B,)`, of the choices sampled in the example's attention steps
            (`ReinforceAlignment.choice`).
        entropy: `(B,)`, of the distributions they were sampled from; may be None if there is no
            bonus.
        example_mask: `(B,)` boolean (or 0 and 1), False for masked examples; all are unmasked if
            None.
        training: whether to update b.

    Returns:
        A float32 scalar; 0 for an empty batch.

    Weights:
        baseline: b, `()`, not trainable, initially 0.

    Masking:
        Masked examples are excluded from averages. An example without choices has log probability
        and entropy 0, and adds nothing.

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
        ...         self.attention = HardAttention("reinforce", units=8)
        ...         self.answer = keras.layers.Dense(3)
        ...         self.reinforce = Reinforce()
        ...
        ...     def call(self, inputs, training=False):
        ...         context, state = self.attention(*inputs, return_state=True, training=training)
        ...         choice = self.attention.alignment.choice(state)
        ...         return {"logits": self.answer(context[:, 0]), **choice._asdict()}
        ...
        ...     def compute_loss(self, x, y, y_pred, sample_weight=None, training=True):
        ...         sampled = y_pred["log_probability"], y_pred["entropy"]
        ...         losses = ops.sparse_categorical_crossentropy(y, y_pred["logits"], True)
        ...         return ops.mean(losses) + self.reinforce(-losses, *sampled, training=training)
        >>> query, memory = np.ones((4, 1, 5), "float32"), np.ones((4, 6, 5), "float32")
        >>> model = Pointer()
        >>> model.compile("adam")
        >>> history = model.fit((query, memory), np.array([0, 1, 2, 0]), verbose=0)
        >>> bool(np.isfinite(history.history["loss"][0]))
        True

    Reference:
        Xu et al. 2015, arXiv 1502.03044, section 4.1: log p(y | s, a) is the reward (minus the
        loss), lambda_r the coefficient, lambda_e the bonus, b_k the baseline. The authors' code
        uses a bonus of .002 and a coefficient of .1; the default 1 here is what the derivation
        gives.
    """

    def __init__(
        self,
        baseline_decay: float = 0.9,
        coefficient: float = 1.0,
        entropy_bonus: float = 0.002,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{"autocast": False, **kwargs})
        for name, value in (("coefficient", coefficient), ("entropy_bonus", entropy_bonus)):
            if not 0 <= number(value) < math.inf:
                raise ValueError(f"{name} must be at least 0 and finite, got {value!r}")
        self.baseline_decay = rate("baseline_decay", baseline_decay)
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

    def compute_output_shape(self, *shapes: Shape, **named_shapes: Shape) -> Shape:
        return ()

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> keras.KerasTensor:
        return keras.KerasTensor((), dtype="float32")

    def call(
        self,
        reward: Tensor,
        log_probability: Tensor,
        entropy: Tensor | None = None,
        example_mask: Tensor | None = None,
        training: bool = False,
    ) -> Tensor:
        if entropy is None and self.entropy_bonus:
            raise ValueError(
                f"entropy must be given for entropy_bonus={self.entropy_bonus}, got None: pass it, "
                "or set entropy_bonus=0"
            )
        check_shape("reward", reward.shape, ("batch",))
        batch_shape = sizes_or(("batch",), reward.shape)
        check_shape("log_probability", log_probability.shape, batch_shape)
        if entropy is not None:
            check_shape("entropy", entropy.shape, batch_shape)
        mask = example_mask
        if mask is not None:
            check_shape("example_mask", mask.shape, batch_shape)
            refuse_float_mask("example_mask", mask)
            mask = ops.cast(mask, "bool")
        log_probability = _mask_values(log_probability, mask)
        reward = ops.stop_gradient(_mask_values(reward, mask))
        advantage = reward - ops.stop_gradient(self.baseline)
        loss = -self.coefficient * _compute_mean(advantage * log_probability, mask)
        if self.entropy_bonus:
            loss = loss - self.entropy_bonus * _compute_mean(_mask_values(entropy, mask), mask)
        if training:
            self._update_baseline(reward, mask)
        return loss

    def _update_baseline(self, reward: Tensor, mask: Tensor | None) -> None:
        """Move the baseline towards the mean reward; skip a fully masked batch."""
        step = (1 - self.baseline_decay) * (_compute_mean(reward, mask) - self.baseline)
        has_examples = _count_examples(reward, mask) > 0
        self.baseline.assign_add(ops.where(has_examples, step, 0.0))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "baseline_decay": self.baseline_decay,
            "coefficient": self.coefficient,
            "entropy_bonus": self.entropy_bonus,
        }


def _mask_values(x: Tensor, mask: Tensor | None) -> Tensor:
    """Cast values to float32 and set those of masked examples to 0, even NaN."""
    x = ops.cast(x, "float32")
    return x if mask is None else ops.where(mask, x, 0.0)


def _compute_mean(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return the mean over unmasked examples; 0 if there are none."""
    return ops.sum(x) / ops.cast(ops.maximum(_count_examples(x, mask), 1), x.dtype)


def _count_examples(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return the number of unmasked examples."""
    if mask is None:
        return ops.convert_to_tensor(ops.shape(x)[0])
    return ops.sum(ops.cast(mask, "int32"))
