"""Training loop: evaluation intervals of steps, with Keras callbacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras

from attention_zoo.training.devices import distribute_batches
from attention_zoo.training.memory import trim_malloc
from attention_zoo.training.recipe import TrainingOptions
from attention_zoo.training.run_folder import RunState
from attention_zoo.training.step import FAULT, CompiledSteps, Outcome

MOST_SKIPPED = 50  # consecutive updates


class TrainingLoop:
    """Loop that alternates training and evaluation and calls Keras callbacks like `model.fit`.

    One "epoch" is one evaluation interval, one "batch" one update.

    Args:
        steps: the compiled steps.
        train: the training batches.
        validation: the validation batches.
        options: the recipe's training section.
        state: the run's state; the loop updates its sums, the callbacks update the rest.
        callbacks: Keras callbacks; the first one counts the steps.
    """

    def __init__(
        self,
        steps: CompiledSteps,
        train: Any,
        validation: Any,
        options: TrainingOptions,
        state: RunState,
        callbacks: Sequence[keras.callbacks.Callback],
    ) -> None:
        self.steps, self.train, self.options, self.state = steps, train, options, state
        whole = validation.dataset_in_order()
        self.validation_steps = int(whole.cardinality())
        # Spread once only, because TensorFlow never frees the functions of a dataset.
        self.validation = distribute_batches(steps.strategy, whole)
        self.around = keras.callbacks.CallbackList(list(callbacks), model=steps.model)
        self.skipped_in_a_row = 0

    def run(self) -> None:
        """Train until the last step, or until a callback stops training.

        Raises:
            ValueError: a loss or a gradient is not finite and `on_nan` is "stop", or too many
                consecutive updates were skipped.
        """
        state, model = self.state, self.steps.model
        model.stop_training = False
        first = state.step * self.options.accumulate
        batches = iter(distribute_batches(self.steps.strategy, self.train.dataset(first)))
        self.around.on_train_begin()
        logs: dict[str, float] = {}
        while not (state.finished or model.stop_training):
            # Pending metrics: a signal interrupted the evaluation, which is repeated now.
            logs = self._train(batches) if state.pending is None else state.pending
            logs = {**logs, "val_loss": self._evaluate(logs)}
        self.around.on_train_end(logs)

    def _train(self, batches: Any) -> dict[str, float]:
        """Train to the end of the interval; return its running means."""
        state, every = self.state, self.options.evaluate_every
        self.around.on_epoch_begin(state.step // every)
        stop = min((state.step // every + 1) * every, self.options.steps)
        for number in range(stop - state.step):
            self.around.on_train_batch_begin(number)
            self._record_outcome(self.steps.train(batches))
            self.around.on_train_batch_end(number, self._compute_means())
            if self.steps.model.stop_training:
                break
        return self._compute_means()

    def _evaluate(self, trained: dict[str, float]) -> float:
        """Evaluate, end the interval, and return the validation loss."""
        interval = (self.state.step - 1) // self.options.evaluate_every
        with self.steps.averages.in_use():
            self.around.on_test_begin()
            batches = iter(self.validation)
            loss = count = 0.0
            for number in range(self.validation_steps):
                self.around.on_test_batch_begin(number)
                outcome = self.steps.test(batches)
                loss, count = loss + outcome.loss, count + outcome.count
                self.around.on_test_batch_end(number, {"loss": _divide(loss, count)})
            mean = _divide(loss, count)
            self._check_validation_loss(mean)
            self.around.on_test_end({"loss": mean})
            self.around.on_epoch_end(interval, {**trained, "val_loss": mean})
        trim_malloc()
        return mean

    def _check_validation_loss(self, loss: float) -> None:
        """Raise ValueError if the validation loss is not finite and `on_nan` is "stop"."""
        if self.options.on_nan == "stop" and not math.isfinite(loss):
            raise ValueError(
                f"step {self.state.step}: the validation loss is {loss}, so no checkpoint of this"
                " step was saved. Lower training.learning_rate, fix the validation examples, or set"
                " training.on_nan=skip"
            )

    def _compute_means(self) -> dict[str, float]:
        state = self.state
        means = {"loss": _divide(state.loss, state.count)}
        if self.steps.has_auxiliary_loss:
            means["auxiliary_loss"] = _divide(state.auxiliary_loss, state.count)
        if self.options.on_nan == "skip":
            means["skipped"] = state.skipped
        return means

    def _record_outcome(self, outcome: Outcome) -> None:
        """Add the outcome of a step to the sums; raise ValueError if a fault cannot be skipped."""
        if outcome.code != FAULT:
            self.state.loss += outcome.loss
            self.state.auxiliary_loss += outcome.auxiliary_loss
            self.state.count += outcome.count
            if self.state.first_loss is None and outcome.count:
                self.state.first_loss = _divide(outcome.loss, outcome.count)
            self.skipped_in_a_row = 0
            return
        self.state.skipped += 1
        self.skipped_in_a_row += 1
        fault = self._describe_fault(outcome)
        if self.options.on_nan == "stop":
            raise ValueError(
                f"{fault}; the update was not applied, and no checkpoint was changed. Fix these"
                " examples, lower training.learning_rate, or set training.on_nan=skip"
            )
        print(f"{fault}; skipped", flush=True)
        if self.skipped_in_a_row == MOST_SKIPPED:
            raise ValueError(
                f"{fault}; the {MOST_SKIPPED - 1} updates before were skipped too. Fix these"
                " examples, or lower training.learning_rate"
            )

    def _describe_fault(self, outcome: Outcome) -> str:
        """Return a message with the step, the fault and the numbers of the training examples."""
        first = self.state.step * self.options.accumulate
        batches = range(first, first + self.options.accumulate)
        numbers = [number for batch in batches for number in self.train.get_example_numbers(batch)]
        value = (outcome.loss + outcome.auxiliary_loss) / max(outcome.count, 1.0)
        what = "gradient is not finite" if math.isfinite(value) else f"loss is {value}"
        examples = ", ".join(map(str, numbers))
        return f"step {self.state.step + 1}: the {what} on training examples {examples}"


def _divide(total: float, count: float) -> float:
    return total / count if count else math.nan
