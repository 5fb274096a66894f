"""Images of predictions on a few validation examples, at each evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

from attention_zoo.training.run_folder import RunState
from attention_zoo.training.tensorboard import Events

SHOWN = 3  # validation examples

Draw = Callable[[Any, Any], Any]
"""Function `(task, result)` that returns an image `(height, width, channels)`, uint8, or None."""


class Pictures(keras.callbacks.Callback):
    """Callback that predicts the examples and writes images of the predictions to TensorBoard.

    Args:
        answers: function that returns the predictions of the current model.
        draw: function from a prediction to an image, or to None.
        events: the TensorBoard writer.
        state: the run's state, the source of the step.
    """

    def __init__(
        self,
        answers: Callable[[], Sequence[Any]],
        draw: Callable[[Any], Any],
        events: Events,
        state: RunState,
    ) -> None:
        super().__init__()
        self.answers = answers
        self.draw = draw
        self.events = events
        self.state = state

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        for number, answer in enumerate(self.answers(), 1):
            pixels = self.draw(answer)
            if pixels is not None:
                self.events.picture(self.state.step, f"attention/{number}", pixels)
