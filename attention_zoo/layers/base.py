"""Base class of the layers, with an automatic `get_config`."""

from __future__ import annotations

import gc
import inspect
import weakref
from typing import Any, ClassVar, Self

import keras

# Keras has no public API for whether a model is being loaded, nor for its `default` decorator.
from keras.src.backend.common.global_state import get_global_attribute
from keras.src.utils.python_utils import default

from attention_zoo.layers.quantization import (
    list_quantized,
    quantize_sublayers,
    restore_quantization,
    warn_of_float_weights,
)
from attention_zoo.ops import attach_mask
from attention_zoo.typing import Shape, Tensor

_INSTANCES: weakref.WeakSet[Any] = weakref.WeakSet()
"""All layers, which `_is_shared` searches for the parents of a layer."""


class BaseLayer(keras.layers.Layer):
    """Base class of layers with an automatic `get_config`, as in scikit-learn's `BaseEstimator`.

    The constructor stores each argument under its own name (`self.units = units`). `get_config`
    returns these attributes; Keras objects among them are serialized. If the constructor has
    `**kwargs`, the arguments of its base classes are included. An argument without an attribute is
    not in the config. For an argument that is stored in another form, override `get_config`:
    `def get_config(self): return {**super().get_config(), "name": value}`.

    A layer passed to several layers, such as T5's shared relative position bias, or twice to one
    layer, is still shared after saving and loading. `from_config`, and therefore `clone_model`,
    cannot restore the sharing and raises ValueError.

    `build` need not set `built`, and a layer that defines `compute_mask` need not set
    `supports_masking`: Keras sets both.
    """

    config_excludes: ClassVar[tuple[str, ...]] = ()
    """Arguments of this class and its base classes that are left out of the config, such as an
    argument of the base class that this class fixes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        _INSTANCES.add(self)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that create an equal layer."""
        stored = vars(self)
        names = [name for name in _argument_names(type(self)) if name in stored]
        arguments = {name: serialize(stored[name]) for name in names}
        return {**super().get_config(), **arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Create a layer from a config; Keras objects in it are deserialized first."""
        created: Self = super().from_config({name: deserialize(x) for name, x in config.items()})
        return created

    @default  # so that Keras traces `call` for symbolic outputs, which may be nested
    def compute_output_shape(self, *shapes: Shape, **named_shapes: Shape) -> Any:
        """Compute the output shapes from the input shapes.

        Args:
            *shapes: shapes of the call's tensor arguments, in order.
            **named_shapes: shapes by argument name plus `_shape`, such as `inputs_shape`.

        Returns:
            The output shape, or a structure of shapes with the structure of the outputs.
        """
        tensors = [self._make_symbolic_inputs(shape) for shape in shapes]
        named = {
            name.removesuffix("_shape"): self._make_symbolic_inputs(shape)
            for name, shape in named_shapes.items()
            if shape is not None
        }
        try:
            inspect.signature(self.call).bind(*tensors, **named)
        except TypeError:  # Keras's `summary` passes the arguments of `build`
            return super().compute_output_shape(*tensors, **named)  # raises the error it expects
        infer = self.compute_output_spec if self.built else self
        return keras.tree.map_structure(lambda x: x.shape, infer(*tensors, **named))

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        """Quantize the kernels of the layer and of its sublayers, as `keras.Model.quantize` does.

        "int8" quantizes all kernels of this library. Keras's own sublayers are quantized in every
        mode that they support. One warning names the matrices that stay in floating point, such as
        those of recurrent cells.
        """
        quantize_sublayers(self, mode, config)
        warn_of_float_weights(self, mode, self._flatten_layers())

    def get_build_config(self) -> dict[str, Any] | None:
        """Return the shapes of the inputs, and which sublayers are quantized."""
        quantized = list_quantized(self)
        config: dict[str, Any] | None = super().get_build_config()
        return {**config, "quantized": quantized} if config and quantized else config

    def build_from_config(self, config: dict[str, Any]) -> None:
        """Build the layer, and quantize the sublayers that were quantized."""
        super().build_from_config(config)
        restore_quantization(self, config.get("quantized", []))

    def _make_symbolic_inputs(self, shapes: Any) -> Any:
        """Return symbolic tensors for a structure of shapes."""
        return keras.tree.map_shape_structure(
            lambda shape: None if shape is None else keras.KerasTensor(shape, self.compute_dtype),
            shapes,
        )

    def make_symbolic_output(self, shape: Shape, mask: Tensor | None = None) -> keras.KerasTensor:
        """Return a symbolic output of this shape in the compute dtype, with its Keras mask."""
        return attach_mask(keras.KerasTensor(shape, dtype=self.compute_dtype), mask)


def is_custom_layer(layer: Any) -> bool:
    """Return whether a layer's class is defined outside this package."""
    return not type(layer).__module__.startswith("attention_zoo.layers.")


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


def serialize(value: Any) -> Any:
    """Serialize a config value; shared layers get a `shared_object_id`."""
    if isinstance(value, list | tuple) and any(isinstance(x, keras.layers.Layer) for x in value):
        return [serialize(x) for x in value]
    if inspect.isfunction(value):
        return keras.activations.serialize(value)
    config = keras.saving.serialize_keras_object(value)
    if isinstance(value, keras.layers.Layer) and _is_shared(value):
        # Keras sets this id too, but not in configs nested in layer configs.
        config["shared_object_id"] = id(value)
    return config


def _is_shared(layer: keras.layers.Layer) -> bool:
    """Return whether sharing would be lost in a copy made from the layer's config.

    True if at least two constructor arguments reference the layer (of several layers, of one layer,
    or two items of one list), or if it is a Keras layer, such as `StackedRNNCells`, that references
    one of its sublayers twice.
    """
    if not isinstance(layer, BaseLayer):
        counts = (_count_in_attributes(layer, sublayer) for sublayer in layer._layers)
        if any(max(references.values(), default=0) > 1 for references in counts):
            return True
    if _count_references(layer) < 2:
        return False
    gc.collect()  # remove parents that are no longer referenced
    return _count_references(layer) > 1


def _count_references(layer: keras.layers.Layer) -> int:
    """Return the number of constructor arguments that reference the layer.

    If one parent creates another, an argument of the inner parent counts only if the outer
    constructor has an argument of that name and does not store the layer under it. Otherwise one
    argument would count twice.
    """
    parents = [(instance, _count_in_attributes(instance, layer)) for instance in list(_INSTANCES)]
    parents = [(parent, references) for parent, references in parents if references]
    count = 0
    for parent, references in parents:
        counts = references
        for outer, outer_references in parents:
            if _is_created_by(outer, parent):
                names = {*_argument_names(type(outer))} - {*outer_references}
                counts = {name: n for name, n in counts.items() if name in names}
        count += sum(counts.values())
    return count


def _is_created_by(outer: Any, parent: Any) -> bool:
    """Return whether `parent` is a sublayer of `outer`, and not an argument of any constructor."""
    if not any(x is parent for x in outer._flatten_layers(include_self=False)):
        return False
    return not any(
        name in _argument_names(type(instance))
        for instance in list(_INSTANCES)
        for name in _count_in_attributes(instance, parent)
    )


def _count_in_attributes(parent: Any, layer: Any) -> dict[str, int]:
    """Return the number of references to `layer` per attribute of `parent`, directly or in a list.

    Only constructor arguments count if one of them references the layer; otherwise only the first
    attribute counts.
    """
    # `_layers` also has layers that were attributes before; it is short, so it is searched first.
    if not any(x is layer for x in parent._layers):
        return {}
    references = {}
    for name, value in vars(parent).items():
        values = keras.tree.flatten(value) if isinstance(value, list | tuple | dict) else [value]
        count = sum(x is layer for x in values)
        if count and name != "_layers":
            references[name] = count
    arguments = _argument_names(type(parent)) if isinstance(parent, BaseLayer) else []
    in_arguments = {name: count for name, count in references.items() if name in arguments}
    return in_arguments or dict(list(references.items())[:1])


def deserialize(value: Any) -> Any:
    """Return a value of a config, with the Keras objects in it deserialized.

    Raises:
        ValueError: an object is shared with another layer, and no whole model is being loaded.
    """
    if isinstance(value, list | tuple):
        return [deserialize(x) for x in value]
    if not isinstance(value, dict):
        return value
    is_loading_model = get_global_attribute("shared_objects/id_to_obj_map") is not None
    if "shared_object_id" in value and not is_loading_model:
        raise ValueError(
            f"{value['class_name']} {value['config'].get('name')!r} is shared by several layers, "
            "or used twice by one layer, and a copied layer would not share it; save and load the "
            "whole model as a .keras file instead of cloning it, or build a new model in code"
        )
    return keras.saving.deserialize_keras_object(value)
