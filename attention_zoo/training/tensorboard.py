"""TensorBoard event files of a run, without duplicate steps."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.compat.v1 import Event

from attention_zoo.event_files import EventFile
from attention_zoo.extras import describe_missing

FOLDER = "tensorboard"
RECORD_OVERHEAD = 16
"""Bytes of a record besides its data: their number, and two checksums."""


class Events:
    """Writer of a new event file of a run; raises OSError if writing fails.

    Without the package tensorboard, nothing is written, and one line says so.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: Path) -> None:
        self.is_available = find_spec("tensorboard") is not None
        if not self.is_available:
            print(f"no log for TensorBoard: {describe_missing('tensorboard')}", flush=True)
            return
        self._file = EventFile(folder / FOLDER)

    def write_scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Write one point of each curve, and flush the file to disk."""
        if self.is_available:
            self._file.write_scalars(step, values)
            self._file.flush()

    def write_image(self, step: int, name: str, pixels: Any) -> None:
        """Write one image `(height, width, channels)`, uint8."""
        if self.is_available:
            self._file.write_images(step, name, [pixels])


def trim_events(folder: Path, step: int) -> None:
    """Remove the events after a step, and an incomplete last event, from a run's files."""
    for path in sorted((folder / FOLDER).glob("*tfevents*")):
        kept, is_intact = [], True
        _drop_incomplete_record(path)
        try:
            for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
                if Event.FromString(record).step <= step:
                    kept.append(record)
                else:
                    is_intact = False
        except (tf.errors.DataLossError, DecodeError):
            is_intact = False
        if len(kept) <= 1:  # only the record of the format's version
            path.unlink()
        elif not is_intact:
            # TensorBoard reads every file with tfevents in its name.
            fresh = path.with_name("rewritten")
            with _convert_errors(fresh), tf.io.TFRecordWriter(str(fresh)) as writer:
                for record in kept:
                    writer.write(record)
            os.replace(fresh, path)


def _drop_incomplete_record(path: Path) -> None:
    """Remove the last record of a file if its header declares more bytes than the file has.

    TensorFlow allocates the declared size, and crashes if it is too large.
    """
    size, end = path.stat().st_size, 0
    with path.open("rb") as file:
        while end < size:
            file.seek(end)
            following = end + RECORD_OVERHEAD + int.from_bytes(file.read(8), "little")
            if following > size:
                os.truncate(path, end)
                return
            end = following


@contextmanager
def _convert_errors(path: Path) -> Iterator[None]:
    """Convert TensorFlow's errors to OSError."""
    codes = {tf.errors.RESOURCE_EXHAUSTED: errno.ENOSPC, tf.errors.PERMISSION_DENIED: errno.EACCES}
    try:
        yield
    except tf.errors.OpError as error:
        number = codes.get(error.error_code, errno.EIO)
        raise OSError(number, os.strerror(number), str(path)) from error
