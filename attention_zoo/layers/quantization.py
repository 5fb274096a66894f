"""Quantization of layers that have kernels of their own, sublayers, or both."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import keras
from keras import ops

from attention_zoo.typing import Tensor


class KernelQuantizer(keras.layers.Layer):
    """Sublayer without weights that quantizes the kernels of its parent.

    `keras.Model.quantize` only calls layers without sublayers, so it skips a layer that has both
    kernels and sublayers, such as a multi-head attention; it calls this one.
    """

    def __init__(self, quantize: Callable[[Any], None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._quantize = quantize
        self.built = True

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        self._quantize(mode)
        self._is_quantized = mode == "int8"


def quantize_sublayers(layer: Any, mode: Any, config: Any) -> None:
    """Quantize all built layers within a layer that support the mode, without warnings."""
    for sublayer in layer._flatten_layers(include_self=False):
        if sublayer.built and not sublayer._layers and not is_quantized(sublayer):
            with contextlib.suppress(NotImplementedError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sublayer.quantize(mode, config=config)


def warn_of_float_weights(layer: Any, mode: Any, sublayers: Iterable[Any]) -> None:
    """Give one warning that names the matrices of the sublayers that are not quantized, if any."""
    weights = [w for x in sublayers for w in x._trainable_variables + x._non_trainable_variables]
    paths = [x.path for x in weights if "float" in x.dtype and len(x.shape) > 1]
    # biases of several heads or gates are matrices
    paths = [path for path in paths if not path.endswith("bias")]
    if paths:
        warnings.warn(
            f"quantize({mode!r}) leaves weights of {type(layer).__name__} {layer.name!r} in "
            f"floating point: {', '.join(paths)}",
            stacklevel=4,
        )


def is_quantized(layer: Any) -> bool:
    """Return whether a layer is quantized."""
    return getattr(layer, "_is_quantized", False)


def list_quantized(layer: Any) -> list[list[Any]]:
    """Return the indices of the quantized layers within a layer, each with its mode."""
    layers = enumerate(layer._flatten_layers())
    return [[number, x.quantization_mode or "int8"] for number, x in layers if is_quantized(x)]


def restore_quantization(layer: Any, entries: list[list[Any]]) -> None:
    """Quantize the layers that `list_quantized` returned."""
    layers = list(layer._flatten_layers())
    with warnings.catch_warnings():  # they were already given before saving
        warnings.simplefilter("ignore")
        for number, mode in entries:
            if not is_quantized(layers[number]):
                layers[number].quantize(mode)


def get_float_kernel(dense: keras.layers.Dense) -> Tensor:
    """Return the kernel of a Keras layer in floating point, also if it is stored as int8."""
    _check_mode(dense)
    if dense.quantization_mode != "int8":
        return dense.kernel
    return ops.cast(dense.kernel, dense.compute_dtype) / dense.kernel_scale


def get_float_embeddings(embedding: keras.layers.Embedding) -> Tensor:
    """Return the matrix of an embedding in floating point, also if it is stored as int8."""
    _check_mode(embedding)
    if embedding.quantization_mode != "int8":
        return embedding.embeddings
    scale = embedding.embeddings_scale
    return ops.cast(embedding.embeddings, embedding.compute_dtype) / scale[:, None]


def _check_mode(layer: keras.layers.Layer) -> None:
    if layer.quantization_mode not in (None, "int8", "float8"):
        raise ValueError(
            f"{layer.path} is quantized with {layer.quantization_mode!r}, but the model reads its "
            'matrix, which needs quantize("int8")'
        )
