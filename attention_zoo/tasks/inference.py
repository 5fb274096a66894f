"""Inference of models, compiled by Keras for many inputs or repeated calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import keras
from keras import ops
from numpy.typing import NDArray

from attention_zoo.layers.attention.steps import is_long_sequence
from attention_zoo.layers.attention.weights_hooks import has_weights_hooks
from attention_zoo.tasks.progress import report_predicted
from attention_zoo.tasks.text_inputs import round_batch_size
from attention_zoo.typing import Tensor

PaddedShape = tuple[int, ...]
Arrays = dict[str, NDArray[Any]]

MAX_EAGER_INPUTS = 128
"""Number of inputs of a call above which the model is compiled."""

MAX_EAGER_CALLS = 16
"""Number of calls of `predict` after which the model is compiled."""


class Inference(keras.Model):
    """Base class of the inference of a model as one Keras model, so that Keras can compile it.

    Args:
        model: the model.
        expect_long: whether sequences may be long, see `expect_long_sequences`.
    """

    def __init__(self, model: keras.Model, expect_long: bool = False) -> None:
        super().__init__(name="inference", dtype="float32")  # whatever the global dtype policy
        self.model, self.expect_long = model, expect_long
        self.jit_compile = keras.backend.backend() != "tensorflow"

    def run(self, inputs: dict[str, Any], compiled: bool) -> Arrays:
        """Return the outputs of `call` as arrays. Compiled calls are slow at first."""
        if compiled:
            predicted: Arrays = self.predict_on_batch(inputs)
            return predicted
        tensors = {name: ops.convert_to_tensor(array) for name, array in inputs.items()}
        return {name: ops.convert_to_numpy(output) for name, output in self(tensors).items()}

    @abstractmethod
    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return outputs by name."""


AnyInference = TypeVar("AnyInference", bound=Inference)


class InferenceCache(Generic[AnyInference]):
    """Cache of inferences by their options, which keeps their compiled functions.

    Args:
        inference_class: the class of the inferences.
    """

    def __init__(self, inference_class: type[AnyInference]) -> None:
        self._class = inference_class
        self._inferences: dict[tuple[Any, ...], AnyInference] = {}

    def get(self, model: keras.Model, **options: Any) -> AnyInference:
        """Return the inference of a model with these options, a new one if weights are recorded."""
        if has_weights_hooks(model):
            return self._class(model, **options)
        key = tuple(sorted(options.items()))
        inference = self._inferences.get(key)
        if inference is None or inference.model is not model:
            inference = self._inferences[key] = self._class(model, **options)
        return inference


def run_by_shape(
    shapes: Sequence[PaddedShape], batch_size: int, run: Callable[[list[int], PaddedShape], Arrays]
) -> Iterator[tuple[int, Arrays]]:
    """Yield the row number and the outputs of each example, in batches of equal padded shape.

    Args:
        shapes: padded shape of each example.
        batch_size: maximum number of examples of a batch.
        run: returns the outputs of the examples with these row numbers, padded to a shape. Their
            number is a power of two or `batch_size`, so that few shapes are compiled; row numbers
            after those of the batch repeat the first one.
    """
    groups: dict[PaddedShape, list[int]] = {}
    for row, shape in enumerate(shapes):
        groups.setdefault(shape, []).append(row)
    for shape, group in sorted(groups.items()):
        for start in range(0, len(group), batch_size):
            rows = group[start : start + batch_size]
            size = round_batch_size(len(rows), batch_size)
            outputs = run([*rows, *[rows[0]] * (size - len(rows))], shape)
            for index, row in enumerate(rows):
                yield row, {name: output[index] for name, output in outputs.items()}
            report_predicted(len(rows))


class BatchedInference:
    """Inference on many examples, in batches of equal padded shape.

    Args:
        inference_class: the class of the inference, which takes `attention` and `expect_long`.
    """

    def __init__(self, inference_class: type[Inference]) -> None:
        self._inferences = InferenceCache(inference_class)

    def run(
        self,
        model: keras.Model,
        shapes: Sequence[PaddedShape],
        make_inputs: Callable[[list[int], PaddedShape], Arrays],
        batch_size: int,
        compiled: bool = False,
        attention: bool = False,
    ) -> Iterator[tuple[int, Arrays]]:
        """Return an iterator over row numbers and outputs of each example.

        Args:
            model: the model.
            shapes: padded shape of each example.
            make_inputs: returns the inputs of the examples with these row numbers.
            batch_size: maximum number of examples of a batch.
            compiled: whether to compile the model; it is compiled for more than `MAX_EAGER_INPUTS`
                examples in any case.
            attention: whether to return attention weights.
        """

        def run(rows: list[int], shape: PaddedShape) -> Arrays:
            options = {"attention": attention, "expect_long": is_long_sequence(max(shape))}
            inference = self._inferences.get(model, **options)
            return inference.run(
                make_inputs(rows, shape), compiled or len(shapes) > MAX_EAGER_INPUTS
            )

        return run_by_shape(shapes, batch_size, run)
