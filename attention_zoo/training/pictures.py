"""Pictures of what the model makes of a few validation examples, at each evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

from attention_zoo.training.run_folder import RunState
from attention_zoo.training.tensorboard import Events

SHOWN = 3  # validation examples

Draw = Callable[[Any], Any]
"""From an answer to a picture `(height, width, channels)` of bytes, or None for no picture."""


class Pictures(keras.callbacks.Callback):
    """Answers the examples and puts what is drawn of each answer where TensorBoard finds it.

    Args:
        answers: the answers of the model as it is now.
        draw: a picture of an answer.
        events: where to put it.
        state: for the step.
    """

    def __init__(
        self, answers: Callable[[], Sequence[Any]], draw: Draw, events: Events, state: RunState
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
