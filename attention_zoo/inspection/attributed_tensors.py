"""Tensors that are attributed: outputs of embedding and other layers, and inputs of a model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops, tree
from numpy.typing import NDArray

from attention_zoo.data.tokenizers.vocabulary import UNKNOWN
from attention_zoo.inspection.attribution_targets import ExampleTarget
from attention_zoo.inspection.keras_layers import override_attribute, restore_attribute
from attention_zoo.ops.arguments import format_value, whole_number
from attention_zoo.typing import Tensor

INPUT_NAMES = ("source", "tokens", "image", "token_ids")
"""Names of the input that is attributed by default, in models with several inputs."""


class TargetFunction:
    """Function that computes the target of a model for copies of its inputs.

    Args:
        model: the model.
        inputs: its inputs: a tensor, a list or a dict, with B examples.
        target: function from the model's outputs to `(B,)`.
        arguments: further arguments of the model's call.
    """

    def __init__(
        self, model: Any, inputs: Any, target: Callable[[Any], Tensor], arguments: dict[str, Any]
    ) -> None:
        self.model, self.target, self.arguments = model, target, arguments
        self.inputs = tree.map_structure(_convert_to_tensor, inputs)
        sizes = {x.shape[0] for x in tree.flatten(self.inputs) if x is not None and len(x.shape)}
        if len(sizes) != 1 or 0 in sizes:
            raise ValueError(
                f"inputs must have one number of examples, at least 1, got {sorted(sizes)}"
            )
        (self.batch_size,) = sizes

    def compute_target(self, inputs: Any = None, copies: int = 1) -> Tensor:
        """Return the target `(copies, B)` of inputs that consist of copies of all examples."""
        inputs = self.inputs if inputs is None else inputs
        outputs = self.model(inputs, **self.arguments)
        if isinstance(self.target, ExampleTarget):
            values = self._check(self.target(outputs, copies), copies)
            return ops.reshape(values, (copies, self.batch_size))
        parts = [self._select_copy(outputs, copy, copies) for copy in range(copies)]
        return ops.stack([self._check(self.target(part), 1) for part in parts])

    def _select_copy(self, outputs: Any, copy: int, copies: int) -> Any:
        """Return the outputs of one copy of all examples."""
        size = self.batch_size
        rows = slice(copy * size, (copy + 1) * size)
        return tree.map_structure(
            lambda x: x[rows] if _count_rows(x) == copies * size else x, outputs
        )

    def _check(self, target: Any, copies: int) -> Tensor:
        """Return the target as a float32 tensor; raise ValueError for a wrong shape."""
        target, size = ops.convert_to_tensor(target), self.batch_size
        if tuple(target.shape) != (copies * size,):
            raise ValueError(
                f"target must return one number for each example, shape ({size},), got shape "
                f"{tuple(target.shape)}. Select one output, such as lambda y: y[:, 0]."
            )
        return ops.cast(target, "float32")

    def repeat_inputs(self, copies: int) -> Any:
        """Return copies of the inputs, all examples of a copy after those of the one before."""
        return tree.map_structure(lambda x: _repeat(x, copies), self.inputs)

    def get_input(self, name: str | int | None) -> Tensor:
        """Return one of the inputs; None for the only one."""
        return self.inputs if name is None else self.inputs[name]

    def find_input_name(self, name: str | int | None) -> str | int | None:
        """Return the name of the attributed input; raise ValueError if it is unknown."""
        if not isinstance(self.inputs, (Mapping, Sequence)):
            if name is not None:
                raise ValueError(f"input_name must be None for a model of one input, got {name!r}")
            return None
        is_dict = isinstance(self.inputs, Mapping)
        names = list(self.inputs if is_dict else range(len(self.inputs)))
        if name is None:
            known = names if len(names) == 1 else [x for x in INPUT_NAMES if x in names]
            name = known[0] if known else None
        if name not in names:
            raise ValueError(
                f"input_name must be one of {', '.join(map(str, names))}, the inputs of the model, "
                f"got {name!r}"
            )
        return name


class ModelInput:
    """An input whose values are attributed: images, feature grids, embedded texts.

    Args:
        call: the call of the model.
        name: name of the input, None for the only one.
    """

    ids: NDArray[Any] | None = None

    def __init__(self, call: TargetFunction, name: str | int | None) -> None:
        self.call, self.name = call, name
        self.value = ops.cast(call.get_input(name), "float32")
        self.has_features = len(self.value.shape) > 2

    def compute_target(self, x: Tensor, copies: int) -> Tensor:
        """Return the target `(copies, B)` with x in place of copies of the value."""
        inputs = replace_input(self.call.repeat_inputs(copies), self.name, x)
        return self.call.compute_target(inputs, copies)

    def make_baseline(self, baseline: Any) -> Tensor:
        """Return the baseline of the value: zeros, a number, or an array that broadcasts to it."""
        return broadcast_baseline(baseline, self.value)


class TokenInput(ModelInput):
    """Token ids that occlusion replaces by another id.

    Args:
        call: the call of the model.
        name: name of the input, None for the only one.
    """

    def __init__(self, call: TargetFunction, name: str | int | None) -> None:
        self.call, self.name, self.has_features = call, name, False
        self.value = call.get_input(name)
        self.ids = ops.convert_to_numpy(self.value)

    def make_baseline(self, baseline: Any) -> Tensor:
        """Return the token id that replaces others, the unknown token by default."""
        token = UNKNOWN if baseline is None else whole_number("baseline, a token id,", baseline, 0)
        return ops.full_like(self.value, token)


class LayerOutput:
    """The output of one call of a layer, which is attributed.

    Args:
        call: the call of the model.
        layer_call: the call of the layer, see `record_calls`.
    """

    def __init__(self, call: TargetFunction, layer_call: LayerCall) -> None:
        self.call, self.layer, self.number = call, layer_call.layer, layer_call.number
        self.ids, self.dtype = layer_call.ids, layer_call.output.dtype
        self.value = ops.cast(layer_call.output, "float32")
        self.has_features = self.ids is not None or len(self.value.shape) > 2
        if self.value.shape[0] % call.batch_size:
            raise ValueError(
                f"the output of layer {self.layer.name} must have a row for each of "
                f"{call.batch_size} examples, got shape {tuple(self.value.shape)}"
            )

    def compute_target(self, x: Tensor, copies: int) -> Tensor:
        """Return the target `(copies, B)` with x in place of copies of the value."""
        with replace_output(self.layer, self.number, ops.cast(x, self.dtype)):
            return self.call.compute_target(self.call.repeat_inputs(copies), copies)

    def make_baseline(self, baseline: Any) -> Tensor:
        """Return the baseline of the value; an integer is a token id if the layer embeds tokens."""
        is_id = isinstance(baseline, (int, np.integer)) and not isinstance(baseline, bool)
        if is_id and self.ids is not None:
            whole_number("baseline, a token id,", baseline, 0, self.layer.input_dim - 1)
            baseline = self.layer(ops.full((1,) * self.ids.ndim, int(baseline), "int32"))
        return broadcast_baseline(baseline, self.value)


class LayerCall(NamedTuple):
    """A call of a layer.

    number: counts the calls of the layer, from 0. ids: the token ids of an embedding layer, or
    None. output: its output.
    """

    layer: Any
    number: int
    ids: NDArray[Any] | None
    output: Tensor


def find_embedding_layers(model: Any) -> list[Any]:
    """Return all `keras.layers.Embedding` inside a model, with those of subclasses."""
    layers = {id(x): x for x in model._flatten_layers() if isinstance(x, keras.layers.Embedding)}
    return list(layers.values())


def record_calls(call: TargetFunction, layers: Sequence[Any]) -> tuple[list[LayerCall], Tensor]:
    """Run the model; return the calls of layers, in their order, and the target `(1, B)`."""
    calls: list[LayerCall] = []
    counts = dict.fromkeys(map(id, layers), 0)

    def add(layer: Any, output: Tensor, x: Tensor) -> Tensor:
        ids = ops.convert_to_numpy(x) if isinstance(layer, keras.layers.Embedding) else None
        calls.append(LayerCall(layer, counts[id(layer)], ids, output))
        counts[id(layer)] += 1
        return output

    with contextlib.ExitStack() as stack:
        for layer in layers:
            stack.enter_context(_override_output(layer, add))
        target = call.compute_target()
    return calls, target


@contextlib.contextmanager
def replace_output(layer: Any, number: int, value: Tensor) -> Iterator[None]:
    """Replace the output of one call of a layer in the context, counted from 0 at its start."""
    count = 0

    def replace(layer: Any, output: Tensor, x: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return value if count == number + 1 else output

    with _override_output(layer, replace):
        yield


@contextlib.contextmanager
def _override_output(
    layer: Any, function: Callable[[Any, Tensor, Tensor], Tensor]
) -> Iterator[None]:
    """Replace the output of one layer by `function(layer, output, x)` for its first argument x.

    Embedding layers may also project onto the vocabulary (KerasHub's `ReversibleEmbedding`); these
    calls, whose output has the rank of the input, are left alone.
    """
    name = "call" if getattr(layer, "quantization_mode", None) is None else "quantized_call"
    method = getattr(layer, name)
    is_embedding = isinstance(layer, keras.layers.Embedding)

    def call(*args: Any, **kwargs: Any) -> Tensor:
        output = method(*args, **kwargs)
        x = args[0] if args else next(iter(kwargs.values()))
        is_projection = is_embedding and len(output.shape) == len(x.shape)
        return output if is_projection else function(layer, output, x)

    with override_attribute(layer, name, call):
        yield


def restore_input_dtypes(model: Any) -> contextlib.AbstractContextManager[None]:
    """Restore the input dtypes that our models store in a call, which exports use."""
    return restore_attribute(model, "_input_dtypes")


def replace_input(inputs: Any, name: str | int | None, value: Tensor) -> Any:
    """Return the inputs with another value of one of them; None for the only one."""
    if name is None:
        return value
    if isinstance(inputs, Mapping):
        return {**inputs, name: value}
    return [value if index == name else x for index, x in enumerate(inputs)]


def broadcast_baseline(baseline: Any, value: Tensor) -> Tensor:
    """Return a baseline in the shape of a value; zeros for None."""
    if baseline is None:
        return ops.zeros_like(value)
    try:
        x = ops.cast(ops.convert_to_tensor(baseline), "float32")
        return ops.broadcast_to(x, value.shape)
    except Exception:
        shape = getattr(baseline, "shape", None)
        got = format_value(baseline) if shape is None else f"shape {tuple(shape)}"
        raise ValueError(
            "baseline must be None (zeros), a token id, a number or an array that broadcasts to "
            f"the attributed tensor, shape {tuple(value.shape)}, got {got}"
        ) from None


def _convert_to_tensor(x: Any) -> Tensor:
    return None if x is None else ops.convert_to_tensor(x)


def _count_rows(x: Any) -> int | None:
    shape = tuple(getattr(x, "shape", None) or ())
    return shape[0] if shape else None


def _repeat(x: Tensor, copies: int) -> Tensor:
    if x is None or copies == 1:
        return x
    return ops.tile(x, (copies, *[1] * (len(x.shape) - 1)))
