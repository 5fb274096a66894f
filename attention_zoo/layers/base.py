"""Base class of the layers, with an automatic `get_config`."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

import keras

from attention_zoo.ops import attach_mask
from attention_zoo.typing import Shape, Tensor


class BaseLayer(keras.layers.Layer):
    """Base class of layers with an automatic `get_config`, as in scikit-learn's `BaseEstimator`.

    The constructor stores each argument under its own name (`self.units = units`). `get_config`
    returns these attributes; Keras objects among them are serialized. If the constructor has
    `**kwargs`, the arguments of its base classes are included. An argument without an attribute is
    not in the config. For an argument that is stored in another form, override `get_config`:
    `def get_config(self): return {**super().get_config(), "name": value}`.

    `build` need not set `built`, and a layer that defines `compute_mask` need not set
    `supports_masking`: Keras sets both.
    """

    config_excludes: ClassVar[tuple[str, ...]] = ()
    """Arguments of this class and its base classes that are left out of the config, such as an
    argument of the base class that this class fixes."""

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that create an equal layer."""
        stored = vars(self)
        names = [name for name in _argument_names(type(self)) if name in stored]
        arguments = {name: _serialize(stored[name]) for name in names}
        return {**super().get_config(), **arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Create a layer from a config; Keras objects in it are deserialized first."""
        created: Self = super().from_config({name: deserialize(x) for name, x in config.items()})
        return created

    def make_symbolic_output(self, shape: Shape, mask: Tensor | None = None) -> keras.KerasTensor:
        """Return a symbolic output of this shape in the compute dtype, with its Keras mask."""
        return attach_mask(keras.KerasTensor(shape, dtype=self.compute_dtype), mask)


def _argument_names(cls: type) -> list[str]:
    """Return the arguments in the config: the class's and, with `**kwargs`, its base classes'."""
    names: list[str] = []
    excluded: set[str] = set()
    for base in cls.__mro__[: cls.__mro__.index(BaseLayer)]:
        excluded |= {*vars(base).get("config_excludes", ())}
        if "__init__" not in vars(base):
            continue
        _, *parameters = inspect.signature(vars(base)["__init__"]).parameters.values()  # no `self`
        named = [one.name for one in parameters if one.kind != one.VAR_KEYWORD]
        names += [name for name in named if name not in (*names, *excluded)]
        if len(named) == len(parameters):  # no **kwargs: base classes get no further arguments
            break
    return names


def _serialize(value: Any) -> Any:
    if inspect.isfunction(value):
        return keras.activations.serialize(value)
    return keras.saving.serialize_keras_object(value)


def deserialize(value: Any) -> Any:
    """Return a value of a config, with the Keras objects in it deserialized."""
    if isinstance(value, list | tuple):
        return [deserialize(x) for x in value]
    return keras.saving.deserialize_keras_object(value) if isinstance(value, dict) else value
