"""A loaded export that computes rows of values."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf.json_format import MessageToDict
from numpy.typing import NDArray

from attention_zoo.export_description import read_description
from attention_zoo.serving.exports import verify_export
from attention_zoo.serving.rest import IMAGE, PredictRequest, TensorSpec

BUCKETS = tuple(4**power for power in range(4, 16))


class RejectedInputError(ValueError):
    """The graph of a model rejects a value of a request."""


class BatchKey(NamedTuple):
    """What the requests of a batch have in common.

    Attributes:
        signature: name of the signature.
        inputs: names and shapes of the inputs of a row.
        options: names and values of the options.
        length: bucket of the length of the texts, in bytes: the next power of 4 from 256.
        joint_number: a different number for each request with a joint signature; 0 for others.
    """

    signature: str
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    options: tuple[tuple[str, Any], ...]
    length: int = 0
    joint_number: int = 0


class ServedModel:
    """A loaded export that computes rows of values.

    Args:
        folder: folder of `attention-zoo export`.

    Attributes:
        signatures: the inputs of each signature.
        metadata: the signatures as TensorFlow Serving describes them: a `SignatureDefMap` as JSON.
        joint_signatures: signatures whose outputs depend on all rows. Requests with these share no
            batch.
        task: name of the task, None if unknown.
        examples: examples of inputs, for the demo page.
        has_images: whether a signature has encoded images.

    Raises:
        ValueError: as `load_export`.
    """

    def __init__(self, folder: str | Path) -> None:
        definitions = verify_export(folder).signature_def
        description = read_description(folder)
        self.task, self.examples = description.task, description.examples
        self.joint_signatures = frozenset(description.joint_signatures)
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
        self.has_images = any(
            IMAGE in specs and specs[IMAGE].dtype.kind == "O" for specs in self.signatures.values()
        )
        self._joint_numbers = itertools.count(1)
        self.metadata = {name: _describe(definitions[name]) for name in self.signatures}

    def warm_up(self) -> None:
        """Call each signature once, because the first call of a graph takes seconds.

        Raises:
            ValueError: a signature fails.
        """
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            list(threads.map(self._warm_up, self.signatures))

    def _warm_up(self, name: str) -> None:
        required = {
            key: np.full([size or 1 for size in spec.shape[1:]], _WARM_UP[spec.dtype.kind])
            for key, spec in self.signatures[name].items()
            if not spec.is_optional
        }
        row = {key: value for key, value in required.items() if self.signatures[name][key].shape}
        options = tuple((key, required[key].item()) for key in required.keys() - row.keys())
        key = BatchKey(name, tuple((key, value.shape) for key, value in row.items()), options)
        try:
            self.run(key, [row])
        except RejectedInputError:
            pass  # of the values above, not of the signature
        except Exception as error:
            raise ValueError(
                f"signature {name!r} fails in the warm-up call: {type(error).__name__}"
            ) from error

    def get_batch_keys(self, request: PredictRequest) -> list[BatchKey]:
        """Return the key of each row of a request; rows with equal keys may share a batch."""
        options = tuple((name, value.item()) for name, value in sorted(request.options.items()))
        return [
            BatchKey(
                request.signature,
                tuple((name, value.shape) for name, value in sorted(row.items())),
                options,
                _find_bucket(row),
                next(self._joint_numbers) if request.is_joint else 0,
            )
            for row in request.rows
        ]

    def run(
        self, key: BatchKey, rows: Sequence[dict[str, NDArray[Any]]]
    ) -> list[dict[str, NDArray[Any]]]:
        """Compute rows with an equal key.

        Args:
            key: the key of the rows.
            rows: the values of each row by input; for a joint signature, one entry with the values
                of all rows.

        Returns:
            The outputs of each row by name, without the axis of the rows. Axes of variable length
            are padded to the longest row. For a joint signature, one entry with all outputs.

        Raises:
            RejectedInputError: the graph rejects a value.
        """
        specs = self.signatures[key.signature]
        if key.joint_number:
            (values,) = rows
        else:
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
        if key.joint_number:
            return [arrays]
        return [
            {name: array[row, ...] for name, array in arrays.items()} for row in range(len(rows))
        ]


_WARM_UP = {"O": b"a", "b": False, "i": 0, "u": 0, "f": 0.0}
"""Value of each kind of input in the first call."""


def load_model(folder: str | Path) -> ServedModel:
    """Load an export and warm it up.

    Raises:
        ValueError: as `ServedModel` and `ServedModel.warm_up`.
    """
    model = ServedModel(folder)
    try:
        model.warm_up()
    except ValueError as error:
        raise ValueError(f"{folder}: {error}; export the model again") from error
    return model


def _describe(definition: Any) -> dict[str, Any]:
    """Return a `SignatureDef` as JSON, with the order of TensorFlow Serving's fields."""
    described: dict[str, Any] = MessageToDict(
        definition, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return described


def _find_bucket(row: dict[str, NDArray[Any]]) -> int:
    """Return the bucket of the length of the longest text of a row.

    Encoded images are resized to one size, so their bytes do not count.
    """
    longest = max(
        (
            len(text)
            for name, value in row.items()
            if value.dtype.kind == "O" and name != IMAGE
            for text in value.flat
        ),
        default=0,
    )
    return next(bucket for bucket in BUCKETS if longest <= bucket)
