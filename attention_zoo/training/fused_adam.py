"""Adam and AdamW with one operation per variable."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from attention_zoo.typing import Tensor


class _FusedUpdate:
    """Update of Adam in TensorFlow's fused kernel, for float32 without AMSGrad.

    Keras builds about 30 operations for each variable, which take long to trace and copy each
    variable several times.
    """

    def _backend_update_step(
        self: Any, grads: list[Tensor], trainable_variables: list[Any], learning_rate: Tensor
    ) -> None:
        """Compute the scalars of the update once, and pass them on as the learning rate."""
        step = tf.cast(self.iterations.value + 1, tf.float32)
        scalars = {
            "beta1_power": tf.pow(self.beta_1, step),
            "beta2_power": tf.pow(self.beta_2, step),
            "lr": tf.cast(learning_rate, tf.float32),
            "beta1": tf.constant(self.beta_1),
            "beta2": tf.constant(self.beta_2),
            "epsilon": tf.constant(self.epsilon),
        }
        super()._backend_update_step(grads, trainable_variables, scalars)  # type: ignore[misc]

    def update_step(
        self: Any, gradient: Tensor, variable: Any, learning_rate: dict[str, Tensor]
    ) -> None:
        scalars = learning_rate
        if self.amsgrad or variable.dtype != tf.float32:
            super().update_step(gradient, variable, scalars["lr"])  # type: ignore[misc]
            return
        index = self._get_variable_index(variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            grad=tf.convert_to_tensor(gradient),
            **scalars,
        )


@keras.saving.register_keras_serializable("attention_zoo")
class FusedAdam(_FusedUpdate, keras.optimizers.Adam):
    """`keras.optimizers.Adam` with TensorFlow's fused kernel; the arguments are the same."""


@keras.saving.register_keras_serializable("attention_zoo")
class FusedAdamW(_FusedUpdate, keras.optimizers.AdamW):
    """`keras.optimizers.AdamW` with TensorFlow's fused kernel; the arguments are the same."""
