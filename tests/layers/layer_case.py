"""Base class of layer tests: the class, its constructor arguments, and the tensors of a call."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar

import keras
import numpy as np
import pytest

from tests.layers.running import randomise

SECTIONS = ("Args", "Call arguments", "Returns", "Weights", "Masking", "Cost", "Example")


def constructor_arguments(cls: type) -> list[str]:
    parameters = inspect.signature(cls).parameters.values()
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.kind not in starred]


class ArgumentCase:
    """A class whose constructor arguments are tested one by one."""

    covers: ClassVar[type]
    changed: ClassVar[dict[str, Any]] = {}
    """Another value for each constructor argument, or a function or class that creates it."""
    together: ClassVar[dict[str, dict[str, Any]]] = {}
    """Other arguments that an argument needs to have an effect."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Generate a test for each constructor argument, or one for a class without any."""
        if "argument" in metafunc.fixturenames:
            metafunc.parametrize("argument", constructor_arguments(self.covers) or [None])

    def check_names(self) -> None:
        names = constructor_arguments(self.covers)
        assert sorted(self.changed) == sorted(names), "`changed` names every argument"

    def changed_option(self, argument: str | None) -> dict[str, Any]:
        """Return the argument with its value from `changed`."""
        if argument is None:
            return {}
        value = self.changed[argument]
        is_factory = inspect.isfunction(value) or inspect.isclass(value)
        return {argument: value() if is_factory else value}


class LayerCase(ArgumentCase):
    """A public layer: its class, its constructor arguments, and the tensors of a call."""

    options: ClassVar[dict[str, Any]] = {}
    """Constructor arguments in tests."""
    sections: ClassVar[tuple[str, ...]] = SECTIONS
    formula: ClassVar[bool] = True
    tolerance: ClassVar[float] = 1e-6
    keras_cells: ClassVar[bool] = False
    """Uses Keras's recurrent layers, whose initializer (a QR) does not support half precision."""

    def make(self, **options: Any) -> Any:
        return self.covers(**{**self.options, **options})

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        """Return the tensors of a call."""
        raise TypeError(f"{type(self).__name__} does not define `tensors`")

    def apply(self, layer: Any, *tensors: Any) -> Any:
        return layer(*tensors)

    def compute_outputs(self, layer: Any, *tensors: Any) -> Any:
        """Return the outputs of a call that training has an effect on."""
        return self.apply(layer, *tensors)

    def make_random(self, **options: Any) -> Any:
        """Return a layer with random weights."""
        layer = self.make(**options)
        self.apply(layer, *self.tensors())
        randomise(layer)
        return layer

    static_axes: ClassVar[tuple[int, ...]] = (-1,)
    """Axes of the tensors of a call whose sizes are static."""

    def dynamic_shape(self, x: np.ndarray) -> tuple[int | None, ...]:
        static = {axis % x.ndim for axis in self.static_axes} if x.ndim > 1 else set()
        return tuple(size if axis in static else None for axis, size in enumerate(x.shape))

    def make_functional(self) -> tuple[Any, keras.Model]:
        """Return a layer and a functional model that contains it."""
        layer = self.make()
        inputs = [keras.Input(x.shape[1:], dtype=str(x.dtype)) for x in self.tensors()]
        model = keras.Model(inputs, flatten(self.apply(layer, *inputs)))
        randomise(model)
        return layer, model


def flatten(nest: Any) -> list[Any]:
    return keras.tree.flatten(nest)
