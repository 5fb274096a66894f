"""Python code that calls an exported model, for display."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

SIGNATURE = "serving_default"


def format_call(folder: str | Path) -> str:
    """Return lines of Python that load a SavedModel and call its signature, with its outputs.

    The model is not loaded. Inputs with a default are omitted.
    """
    content = SavedModel()
    content.ParseFromString((Path(folder) / "saved_model.pb").read_bytes())
    signature = content.meta_graphs[0].signature_def[SIGNATURE]
    arguments = ", ".join(
        f"{name}={_format_example(name, tensor)}"
        for name, tensor in sorted(signature.inputs.items())
        if name not in signature.defaults
    )
    return "\n".join(
        [
            "import tensorflow as tf",
            f'served = tf.saved_model.load("{folder}").signatures["{SIGNATURE}"]',
            f"outputs = served({arguments})  # {', '.join(sorted(signature.outputs))}",
        ]
    )


def _format_example(name: str, tensor: Any) -> str:
    """Return an example of an input: a text, an image file, or zeros."""
    dtype = tf.dtypes.as_dtype(tensor.dtype)
    shape = [max(dim.size, 1) for dim in tensor.tensor_shape.dim]  # unknown sizes are -1
    if dtype != tf.string:
        return f"tf.zeros({shape}, tf.{dtype.name})"
    content = 'open("image.png", "rb").read()' if "image" in name else '"..."'
    return f"tf.constant({'[' * len(shape)}{content}{']' * len(shape)})"
