"""A loaded export that computes rows of values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from attention_zoo.serving.exports import verify_export
from attention_zoo.serving.rest import PredictRequest, TensorSpec


class RejectedInputError(ValueError):
    """The graph of a model rejects a value of a request."""


class BatchKey(NamedTuple):
    """What the requests of a batch have in common.

    Attributes:
        signature: name of the signature.
        inputs: names and shapes of the inputs of a row.
        options: names and values of the options.
    """

    signature: str
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    options: tuple[tuple[str, Any], ...]


class ServedModel:
    """A loaded export that computes rows of values.

    Args:
        folder: folder of `attention-zoo export`.

    Attributes:
        signatures: the inputs of each signature.

    Raises:
        ValueError: as `load_export`.
    """

    def __init__(self, folder: str | Path) -> None:
        definitions = verify_export(folder).signature_def
        self._model = tf.saved_model.load(str(folder))  # its functions do not hold its variables
        self.signatures: dict[str, dict[str, TensorSpec]] = {}
        self._defaults: dict[str, dict[str, tf.Tensor]] = {}
        for name, function in self._model.signatures.items():
            optional = definitions[name].defaults
            self._defaults[name] = {
                key: tf.constant(tf.make_ndarray(value)) for key, value in optional.items()
            }
            self.signatures[name] = {
                key: TensorSpec(
                    np.dtype(spec.dtype.as_numpy_dtype),
                    tuple(spec.shape.as_list()),
                    key in optional,
                )
                for key, spec in function.structured_input_signature[1].items()
            }

    def get_batch_keys(self, request: PredictRequest) -> list[BatchKey]:
        """Return the key of each row of a request; rows with equal keys may share a batch."""
        options = tuple((name, value.item()) for name, value in sorted(request.options.items()))
        return [
            BatchKey(
                request.signature,
                tuple((name, value.shape) for name, value in sorted(row.items())),
                options,
            )
            for row in request.rows
        ]

    def run(
        self, key: BatchKey, rows: Sequence[dict[str, NDArray[Any]]]
    ) -> list[dict[str, NDArray[Any]]]:
        """Compute rows with an equal key.

        Args:
            key: the key of the rows.
            rows: the values of each row by input.

        Returns:
            The outputs of each row by name, without the axis of the rows. Axes of variable length
            are padded to the longest row.

        Raises:
            RejectedInputError: the graph rejects a value.
        """
        specs = self.signatures[key.signature]
        values = {name: np.stack([row[name] for row in rows]) for name, _ in key.inputs}
        tensors = {
            name: tf.constant(value, tf.as_dtype(specs[name].dtype))
            for name, value in {**values, **dict(key.options)}.items()
        }
        arguments = {**self._defaults[key.signature], **tensors}
        try:
            outputs = self._model.signatures[key.signature](**arguments)
        except tf.errors.InvalidArgumentError as error:
            # The message is between the place of the operation and its name.
            lines = error.message.partition("\n\t [[")[0].splitlines()
            raise RejectedInputError(" ".join(lines[-1:]).strip()) from None
        arrays = {name: output.numpy() for name, output in outputs.items()}
        return [{name: array[row] for name, array in arrays.items()} for row in range(len(rows))]
