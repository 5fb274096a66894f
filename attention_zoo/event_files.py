"""TensorBoard event files, written without TensorFlow."""

from __future__ import annotations

import io
import itertools
import os
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from attention_zoo.extras import explain_missing_package

FORMAT = "brain.Event:2"
_numbers = itertools.count()  # several files of one process and second


class EventFile:
    """New TensorBoard event file in a folder; needs the package tensorboard.

    Args:
        folder: folder of the file, created if it does not exist. TensorBoard merges its files.

    Raises:
        ValueError: tensorboard is not installed.
        OSError: the file cannot be written; its `filename` is the folder.
    """

    def __init__(self, folder: str | Path) -> None:
        with explain_missing_package():
            from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2
            from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary, self._tensor = event_pb2, summary_pb2, tensor_pb2
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        try:
            self._file = (self.folder / f"events.out.tfevents.{name}").open("xb")
        except OSError as error:
            raise self._name_folder(error) from error
        self._records = RecordWriter(self._file)
        self._write(file_version=FORMAT)
        self.flush()

    def write_scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write one point of each curve, by name."""
        for name, value in values.items():
            tensor = self._tensor.TensorProto(dtype="DT_FLOAT", float_val=[value])
            self._write_tensor(step, name, "scalars", tensor)

    def write_images(self, step: int, name: str, images: Sequence[NDArray[np.uint8]]) -> None:
        """Write images `(height, width)` or `(height, width, channels)`, uint8, of one size."""
        height, width = images[0].shape[:2]
        texts = [str(width).encode(), str(height).encode(), *map(_encode_png, images)]
        tensor = self._tensor.TensorProto(dtype="DT_STRING", string_val=texts)
        tensor.tensor_shape.dim.add(size=len(texts))
        self._write_tensor(step, name, "images", tensor)

    def flush(self) -> None:
        """Flush the written events to the file."""
        try:
            self._file.flush()
        except OSError as error:
            raise self._name_folder(error) from error

    def close(self) -> None:
        """Flush and close the file."""
        with suppress(OSError):
            self._file.close()

    def _write_tensor(self, step: int, name: str, plugin: str, tensor: Any) -> None:
        metadata = self._summary.SummaryMetadata(plugin_data={"plugin_name": plugin})
        value = self._summary.Summary.Value(tag=name, tensor=tensor, metadata=metadata)
        self._write(step=step, summary=self._summary.Summary(value=[value]))

    def _write(self, **fields: Any) -> None:
        event = self._event.Event(wall_time=time.time(), **fields)
        try:
            self._records.write(event.SerializeToString())
        except OSError as error:
            raise self._name_folder(error) from error

    def _name_folder(self, error: OSError) -> OSError:
        return OSError(error.errno, error.strerror, str(self.folder))


def _encode_png(image: NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return buffer.getvalue()
