"""Compiled training and test steps.

Loss and gradient are summed over devices and micro-batches, then divided by the total count.
"""

from __future__ import annotations

import copy
import gc
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from attention_zoo.data.batching.batching import Batches
from attention_zoo.layers.attention.expected_lengths import expect_long_sequences
from attention_zoo.layers.attention.steps import is_long_sequence
from attention_zoo.ops import CopyProjection, Projection, use_compact_gradients
from attention_zoo.training.averages import Averages
from attention_zoo.training.loss_scale import LossScale
from attention_zoo.typing import Tensor

MEANS = ("mean", "sum_over_batch_size")
APPLIED, OVERFLOW, FAULT = range(3)


@dataclass(frozen=True)
class Outcome:
    """Outcome of a step.

    Args:
        loss: sum of the losses, without auxiliary losses.
        count: number of tokens, or examples, in that sum.
        code: APPLIED; OVERFLOW if the gradient overflowed float16 and the loss scale was lowered
            instead of an update; FAULT for any other loss or gradient that is not finite. Without
            an update, weights, optimizer and averages are unchanged.
        auxiliary_loss: the sum of the model's auxiliary losses (`add_loss`), times `count`.
    """

    loss: float
    count: float
    code: int = APPLIED
    auxiliary_loss: float = 0.0


class CompiledSteps:
    """Compiled training step and test step of a model.

    Every device sums loss and gradient over its shard of a batch. The sums are added over devices,
    hosts and micro-batches, then divided by the total count. The gradient is clipped by its global
    norm after that. Integer counters of layers advance once per update and have the same value in
    all its micro-batches.

    Args:
        model: a compiled model whose weights were built in the strategy's scope.
        strategy: the result of `training.devices.make_strategy`.
        accumulate: micro-batches per update.
        clip_norm: maximum global norm of the gradient, or None.
        ema: decay of the moving averages of the weights, or None.
        jit: compile with XLA.
        expect_long: whether sequences may be long, see `expect_long_sequences`.
    """

    def __init__(
        self,
        model: keras.Model,
        strategy: tf.distribute.Strategy,
        accumulate: int = 1,
        clip_norm: float | None = None,
        ema: float | None = None,
        jit: bool = False,
        expect_long: bool = False,
    ) -> None:
        self.model, self.strategy = model, strategy
        self.expect_long = expect_long
        self.accumulate, self.clip_norm = accumulate, clip_norm
        self.weights = model.trainable_variables
        # The logits are the largest tensor of a batch. If the loss has a `total`, the model returns
        # its outputs before the projection, and `total` sums the loss without storing the logits.
        arguments = inspect.signature(model.call).parameters
        loss_projects = "project" in arguments and _has_matching_total(model.loss)
        self._options = {"project": False} if loss_projects else {}
        self.unit = getattr(
            model.loss, "unit", "tokens" if hasattr(model.loss, "count") else "examples"
        )
        self.statistics = _get_statistics(model)
        self.has_auxiliary_loss = False  # known once the training step is traced
        half = model.dtype_policy.compute_dtype == "float16"
        with strategy.scope():
            self.scale = LossScale() if half else None
            self.averages = Averages([] if ema is None else self.weights, ema or 0.0)
        # The gradients are already summed over devices.
        model.optimizer._all_reduce_sum_gradients = lambda pairs: pairs
        self._sum_gradients = _compile(self._compute_gradients, jit_compile=jit)
        self._sum_losses = _compile(self._compute_losses, jit_compile=jit)
        # `jit` implies a single device, see `devices.use_xla`: XLA cannot compile communication.
        self._apply = _compile(self._optimize, jit_compile=True) if jit else self._optimize
        self._train, self._test = _compile(self._train_step), _compile(self._test_step)

    @property
    def variables(self) -> dict[str, list[Any]]:
        """Variables, besides the weights, that are needed to resume a run exactly."""
        model = self.model
        excluded = {id(variable) for variable in (*model.weights, *model.metrics_variables)}
        return {
            "optimizer": list(model.optimizer.variables),
            "seeds": [variable for variable in model.variables if id(variable) not in excluded],
            "averages": self.averages.variables,
            "loss_scale": [] if self.scale is None else self.scale.variables,
        }

    def train(self, batches: Any) -> Outcome:
        """Do one update with the next batches of an iterator."""
        with pause_garbage_collection():
            loss, count, code, auxiliary_loss = self._train(batches).numpy()
        return Outcome(float(loss), float(count), int(code), float(auxiliary_loss))

    def test(self, batches: Any) -> Outcome:
        """Compute the loss of the next batch of an iterator, without auxiliary losses."""
        with pause_garbage_collection():
            loss, _, count = self._test(batches).numpy()
        return Outcome(float(loss), float(count))

    # On one device.

    def _compute_losses(self, batch: Any, training: bool = False) -> list[Tensor]:
        """Return the sums of loss and auxiliary losses of a shard, and their count."""
        inputs, targets, is_counted = batch
        with expect_long_sequences(self.expect_long):
            outputs = self.model(inputs, training=training, **self._options)
        loss, count = compute_sums(self.model.loss, targets, outputs)
        auxiliary_losses = self.model.losses
        if training:
            self.has_auxiliary_loss = bool(auxiliary_losses)
        auxiliary_loss = count * sum(tf.cast(term, loss.dtype) for term in auxiliary_losses)
        return [tf.where(is_counted, x, 0.0) for x in (loss, auxiliary_loss, count)]

    def _compute_gradients(self, batch: Any) -> list[Tensor]:
        """Return the sums of loss, auxiliary losses, count and (dense) gradients of a shard."""
        with tf.GradientTape() as tape, use_compact_gradients():
            loss, auxiliary_loss, count = self._compute_losses(batch, training=True)
            scaled_loss = loss + auxiliary_loss
            if self.scale is not None:
                # Scale the mean loss: the sum over a large batch would overflow float16.
                loss_scale = self.scale.value / tf.maximum(count, 1.0)
                scaled_loss = scaled_loss * loss_scale
        weights = [weight.value for weight in self.weights]
        gradients = tape.gradient(scaled_loss, weights, unconnected_gradients="zero")
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        if self.scale is not None:
            gradients = [gradient / loss_scale for gradient in gradients]
        return [loss, auxiliary_loss, count, *gradients]

    def _optimize(self, gradients: list[Tensor]) -> None:
        self.model.optimizer.apply(gradients, self.weights)

    # On all devices.

    def _run_on_devices(self, function: Any, *arguments: Any) -> Any:
        return self.strategy.run(tf.autograph.experimental.do_not_convert(function), arguments)

    def _average_statistics(self) -> None:
        """Replace floating-point statistics, such as moving means, by their mean over devices.

        This makes them the same on all devices, for evaluation and checkpoints.
        """
        values = [weight.value for weight in self.statistics]
        variables = [value for value in values if value.dtype.is_floating]
        if variables and self.strategy.num_replicas_in_sync > 1:
            means = _all_reduce("MEAN", variables)
            for variable, mean in zip(variables, means, strict=True):
                variable.assign(mean)

    def _get_first(self, value: Any) -> Tensor:
        return self.strategy.experimental_local_results(value)[0]

    def _train_step(self, batches: Any) -> Tensor:
        old_values = [tf.identity(self._get_first(weight.value)) for weight in self.statistics]
        old_statistics = list(zip(self.statistics, old_values, strict=True))
        sums = self._run_on_devices(self._sum_gradients, next(batches))
        if self.accumulate > 1:
            counters = [pair for pair in old_statistics if pair[1].dtype.is_integer]
            sums = self._add_micro_batches(batches, sums, counters)
        self._run_on_devices(self._average_statistics)
        normalized = self._run_on_devices(self._normalize_gradients, sums)
        loss, auxiliary_loss, count, norm = map(self._get_first, normalized[:4])
        code = self._get_code(loss + auxiliary_loss, norm)

        def update() -> Tensor:
            self._run_on_devices(self._apply, normalized[4:])
            self.averages.update(self.strategy, self.model.optimizer.iterations.value)
            return code

        def restore_statistics() -> Tensor:
            for weight, value in old_statistics:
                weight.value.assign(value)
            return code

        tf.cond(tf.equal(code, APPLIED), update, restore_statistics)
        if self.scale is not None:
            self.scale.update(tf.equal(code, OVERFLOW))
        return tf.stack([loss, count, tf.cast(code, tf.float32), auxiliary_loss])

    def _add_micro_batches(self, batches: Any, sums: Any, counters: list[Any]) -> Any:
        """Add the other micro-batches of an update to `sums`; reset the counters before each."""

        def add_micro_batch(number: Tensor, sums: Any) -> Any:
            for weight, value in counters:
                weight.value.assign(value)

            def add(batch: Any, sums: Any) -> Any:
                return [a + b for a, b in zip(sums, self._sum_gradients(batch), strict=True)]

            return number + 1, self._run_on_devices(add, next(batches), sums)

        def has_next(number: Tensor, sums: Any) -> Tensor:
            return number < self.accumulate

        return tf.while_loop(has_next, add_micro_batch, (1, sums))[1]

    def _normalize_gradients(self, sums: list[Tensor]) -> list[Tensor]:
        """Return the sums over all devices, the norm, and the clipped gradient.

        The sums are those of loss, auxiliary losses and count. The norm and the gradient are
        divided by the count.
        """
        loss, auxiliary_loss, count, *gradients = _all_reduce("SUM", sums)
        factor = 1.0 / tf.maximum(count, 1.0)
        norm = tf.linalg.global_norm(gradients) * factor
        if self.clip_norm is not None:
            factor *= tf.minimum(1.0, self.clip_norm / norm)
        return [loss, auxiliary_loss, count, norm, *(x * factor for x in gradients)]

    def _get_code(self, loss: Tensor, norm: Tensor) -> Tensor:
        is_loss_finite, is_norm_finite = tf.math.is_finite(loss), tf.math.is_finite(norm)
        failed = FAULT
        if self.scale is not None:
            # An infinite gradient with a finite loss: the scale is too large, and can be lowered.
            failed = tf.where(is_loss_finite & (self.scale.value > 1.0), OVERFLOW, FAULT)
        return tf.where(is_loss_finite & is_norm_finite, APPLIED, failed)

    def _test_step(self, batches: Any) -> Tensor:
        sums = self._run_on_devices(self._sum_losses, next(batches))
        totals = self._run_on_devices(partial(_all_reduce, "SUM"), sums)
        return tf.stack([self._get_first(total) for total in totals])


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause Python's garbage collector, which takes a sixth of the time of the first step.

    Tracing creates many objects that stay alive, and the collector visits them again and again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _all_reduce(kind: str, values: list[Tensor]) -> Any:
    return tf.distribute.get_replica_context().all_reduce(kind, values)


def compute_sums(loss: keras.losses.Loss, targets: Tensor, outputs: Tensor) -> list[Tensor]:
    """Return the sum of a batch's losses, and their count.

    A loss with `count(targets)` is a mean over that many terms. A loss with `total` computes the
    sum from the model's outputs before the projection to logits. For any other loss, the terms are
    its values per example or position; masked positions are excluded.
    """
    if isinstance(outputs, (Projection, CopyProjection)):
        return [loss.total(targets, outputs), loss.count(targets)]
    if hasattr(loss, "count"):
        count = loss.count(targets)
        return [loss(targets, outputs) * count, count]
    unreduced = copy.copy(loss)
    unreduced.reduction = "none"
    losses, mask = unreduced(targets, outputs), getattr(outputs, "_keras_mask", None)
    unmasked = tf.ones_like(losses) if mask is None else tf.cast(mask, losses.dtype)
    return [tf.reduce_sum(losses), tf.reduce_sum(unmasked)]


def _has_matching_total(loss: Any) -> bool:
    """Return whether the loss has a `total` that is consistent with its `call`.

    A subclass that overrides only `call` inherits a `total` that computes another loss.
    """
    for cls in type(loss).__mro__:
        if "total" in vars(cls) or "call" in vars(cls):
            return "total" in vars(cls)
    return False


def _get_statistics(model: keras.Model) -> list[Any]:
    """Return the statistics of trainable layers (moving means, counters), without seeds."""
    trainable = [layer for layer in model._flatten_layers() if layer.trainable]
    statistics = {id(v) for layer in trainable for v in layer._non_trainable_variables}
    return [weight for weight in model.non_trainable_weights if id(weight) in statistics]


def may_be_long(batches: Any) -> bool:
    """Return whether attention within a batch may have so many scores that it must be blockwise.

    One long example is enough. False for batches of a user's class, whose lengths are unknown.
    """
    return isinstance(batches, Batches) and is_long_sequence(batches.max_length)


def check_loss(loss: Any) -> None:
    """Raise ValueError for a loss that is not a mean, since the divisor of its sum is unknown."""
    is_mean = hasattr(loss, "count") or getattr(loss, "reduction", None) in MEANS
    if not (isinstance(loss, keras.losses.Loss) and is_mean):
        raise ValueError(
            f"the task's loss must be a keras.losses.Loss that averages, got {loss!r}. Set"
            " reduction='sum_over_batch_size', or define count(targets)."
        )


def _compile(function: Any, **options: Any) -> Any:
    return tf.function(function, autograph=False, reduce_retracing=True, **options)
