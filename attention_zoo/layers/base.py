"""Base class of the layers: the config is read from the constructor's arguments."""

from __future__ import annotations

import inspect
from typing import Any, ClassVar, Self

import keras

from attention_zoo.ops import attach_mask
from attention_zoo.typing import Shape, Tensor


class BaseLayer(keras.layers.Layer):
    """Layer whose config is read from its constructor, as in scikit-learn's `BaseEstimator`.

    The constructor stores each argument under its own name (`self.units = units`). The config holds
    these attributes, Keras objects serialized, also those of base classes whose arguments the
    constructor accepts as `**kwargs`. An argument that is not stored is not in the config. A class
    that stores one in another form adds it as usual in Keras: `def get_config(self): return
    {**super().get_config(), "name": value}`.

    `build` need not set `built`, and a layer that defines `compute_mask` need not set
    `supports_masking`: Keras does.
    """

    config_excludes: ClassVar[tuple[str, ...]] = ()
    """Arguments whose attributes are not read, such as those of a base class that a subclass sets
    itself."""

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that create an equal layer."""
        stored = vars(self)
        names = (name for name in _argument_names(type(self)) if name not in self.config_excludes)
        arguments = {name: _serialize(stored[name]) for name in names if name in stored}
        return {**super().get_config(), **arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Create a layer from a config; Keras objects in it are deserialized first."""
        created: Self = super().from_config({name: deserialize(x) for name, x in config.items()})
        return created

    def symbolic(self, shape: Shape, mask: Tensor | None = None) -> keras.KerasTensor:
        """Return a symbolic output of this shape in the compute dtype, with its Keras mask."""
        return attach_mask(keras.KerasTensor(shape, dtype=self.compute_dtype), mask)


def _argument_names(cls: type) -> list[str]:
    """Return the constructor's arguments, with those of base classes that `**kwargs` accepts."""
    names: dict[str, None] = {}  # ordered, each once
    for base in cls.__mro__[: cls.__mro__.index(BaseLayer)]:
        if "__init__" in vars(base):
            parameters = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
            names |= dict.fromkeys(x.name for x in parameters if x.kind != x.VAR_KEYWORD)
            if not parameters or parameters[-1].kind != inspect.Parameter.VAR_KEYWORD:
                break
    return list(names)


def _serialize(value: Any) -> Any:
    if inspect.isfunction(value):
        return keras.activations.serialize(value)
    return keras.saving.serialize_keras_object(value)


def deserialize(value: Any) -> Any:
    """Return a value of a config, with the Keras objects in it deserialized."""
    if isinstance(value, list | tuple):
        return [deserialize(x) for x in value]
    return keras.saving.deserialize_keras_object(value) if isinstance(value, dict) else value
