"""Keras callback that logs attention to TensorBoard."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops
from numpy.typing import NDArray

from attention_zoo.event_files import EventFile
from attention_zoo.extras import check_installed
from attention_zoo.inspection.attention_layers import find_attention_layers
from attention_zoo.inspection.head_statistics import attention_entropy, diagonality
from attention_zoo.inspection.record import AttentionRecord, join_decoder_steps, record
from attention_zoo.ops.arguments import format_value, whole_number

EPOCH = "epoch"
MIN_PIXELS, MAX_POSITIONS = 128, 256  # of a map


class AttentionCallback(keras.callbacks.Callback):
    """Keras callback that logs head entropy, diagonality and attention maps to TensorBoard.

    It runs the model in inference mode on a fixed batch, within `record`. It writes
    `attention_entropy/PATH` and `attention_diagonality/PATH`, the means over heads and examples,
    and the images `attention_map/PATH` for each attention layer. Queries that
    the mask does not exclude count, including padding. It works with `fit` of any Keras model and
    with `training.fit`, on any backend, and needs the package tensorboard, but not TensorFlow.
    Training does not change: random seeds and other variables that the forward pass updates are
    restored.

    A decoder that attends once per call has one map with a row for each call. Of other layers that
    are called several times, the scalars are means over the calls, and the maps show the first one.

    Args:
        log_dir: the folder of the event file.
        inputs: inputs of the model, a small batch; the first example is shown in the maps.
        layers: paths, patterns of paths, or attention layers, as in `record`; all if None.
        every: "epoch", or the number of training batches between two logs. The step in TensorBoard
            is the index of the epoch, as in `keras.callbacks.TensorBoard`, or the number of
            batches.
        max_maps: maximum number of maps, one for each head, of each layer. A map shows at most 256
            queries and sources, and no masked ones; white is its largest weight.

    Raises:
        ValueError: an option is invalid, or tensorboard is not installed. At the start of training:
            the model has no attention layer, or an entry of `layers` matches none.

    Example:
        >>> import keras, numpy as np, tempfile
        >>> from attention_zoo.inspection import AttentionCallback
        >>> x = keras.Input((5, 8))
        >>> model = keras.Model(x, keras.layers.MultiHeadAttention(2, 4)(x, x))
        >>> model.compile("sgd", "mse")
        >>> data = np.ones((4, 5, 8), "float32")
        >>> callback = AttentionCallback(tempfile.mkdtemp(), data[:2])
        >>> history = model.fit(data, data, verbose=0, callbacks=[callback])

    Reference: this library.
    """

    def __init__(
        self,
        log_dir: str | Path,
        inputs: Any,
        layers: Sequence[Any] | None = None,
        every: str | int = EPOCH,
        max_maps: int = 4,
    ) -> None:
        super().__init__()
        check_installed(["tensorboard"])
        self.every: int | None = None  # None for once an epoch
        if isinstance(every, str) and every != EPOCH:
            raise ValueError(
                f'every must be "epoch" or a number of batches, got {format_value(every)}'
            )
        if not isinstance(every, str):
            self.every = whole_number("every", every, 1)
        self.max_maps = whole_number("max_maps", max_maps, 0)
        self.log_dir, self.inputs, self.layers = Path(log_dir), inputs, layers
        self.num_batches = self._last_batch = 0
        self._file: EventFile | None = None

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        find_attention_layers(self.model, self.layers)
        self._file = EventFile(self.log_dir)

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._last_batch = -1

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        before = self.num_batches
        self.num_batches += batch - self._last_batch  # above 1 with `steps_per_execution`
        self._last_batch = batch
        if self.every and self.num_batches // self.every > before // self.every:
            self.write(self.num_batches)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self.every is None:
            self.write(epoch)

    def write(self, step: int) -> None:
        """Run the model on the inputs, and write scalars and maps of each attention layer."""
        if self._file is None:
            self._file = EventFile(self.log_dir)
        model = self.model
        with _restore_variables(model), record(model, self.layers) as records:
            model(self.inputs, training=False)
        for path, calls in records.items():
            calls = join_decoder_steps(calls)
            entropy = _average(attention_entropy, calls)
            scalars = {f"attention_entropy/{path}": entropy}
            scalars[f"attention_diagonality/{path}"] = _average(diagonality, calls)
            self._file.write_scalars(step, scalars)
            maps = _draw_maps(calls[0], self.max_maps)
            if maps:
                self._file.write_images(step, f"attention_map/{path}", maps)
        self._file.flush()


@contextlib.contextmanager
def _restore_variables(model: Any) -> Iterator[None]:
    """Restore the variables that a forward pass may change, such as seeds and moving means."""
    variables = model.non_trainable_variables
    before = [np.array(ops.convert_to_numpy(variable)) for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            if not np.array_equal(ops.convert_to_numpy(variable), value):
                variable.assign(value)


def _average(statistic: Any, calls: Sequence[AttentionRecord]) -> float:
    """Return the mean of a statistic over calls, examples and heads, or NaN without weights.

    The weights of a model that diverged are not finite, and the scores of sentence pairs may be
    negative; neither must end the training.
    """
    if not all((call.weights >= 0).all() for call in calls):
        return math.nan
    return float(np.mean([statistic(call.weights, call.mask).mean() for call in calls]))


def _draw_maps(call: AttentionRecord, count: int) -> list[NDArray[np.uint8]]:
    """Return images of the weights of the first example, one for each of the first heads."""
    weights = np.maximum(np.nan_to_num(call.weights[0]), 0)  # (H, T, S)
    if call.mask is not None:
        mask = np.broadcast_to(call.mask, call.weights.shape)[0]
        weights = weights[:, mask.any((0, 2))][:, :, mask.any((0, 1))]
    weights = weights[:count, :MAX_POSITIONS, :MAX_POSITIONS].astype("float32")
    if not weights.size:
        return []
    scale = max(1, math.ceil(MIN_PIXELS / max(weights.shape[1:])))
    largest = np.maximum(weights.max((1, 2), keepdims=True), np.finfo("float32").tiny)
    pixels = np.rint(255 * weights / largest).astype("uint8")
    return list(pixels.repeat(scale, axis=1).repeat(scale, axis=2))
