"""What TensorBoard shows of a run: event files that hold no step twice."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = "tensorboard"


class Events:
    """A new event file. What it is given is an OSError if it cannot be written.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf

        self._summary = tf.summary
        self.folder = folder / FOLDER
        self.folder.mkdir(exist_ok=True)
        with _as_of_the_system(self.folder):
            self._writer = tf.summary.create_file_writer(str(self.folder))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """One point of each curve, on the disk when it returns."""
        with _as_of_the_system(self.folder), self._writer.as_default():
            for name, value in values.items():
                self._summary.scalar(name, value, step=step)
            self._writer.flush()

    def picture(self, step: int, name: str, pixels: Any) -> None:
        """One picture, `(height, width, channels)` of bytes."""
        with _as_of_the_system(self.folder), self._writer.as_default():
            self._summary.image(name, pixels[None], step=step)


def cut_back(folder: Path, step: int) -> None:
    """Takes the events after a step out of a run's files, and one that was not written whole."""
    from tensorflow.compat.v1 import Event

    for path in sorted((folder / FOLDER).glob("*tfevents*")):
        records, whole = _records(path)
        kept = [record for record in records if Event.FromString(record).step <= step]
        if len(kept) <= 1:  # nothing but the format's version
            path.unlink()
        elif not whole or len(kept) < len(records):
            _rewrite(path, kept)


def _records(path: Path) -> tuple[list[bytes], bool]:
    """The records of an event file, and whether it ends with a whole one."""
    import tensorflow as tf

    records = []
    try:
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            records.append(record)
    except tf.errors.DataLossError:
        return records, False
    return records, True


def _rewrite(path: Path, records: list[bytes]) -> None:
    """An event file with these records in place of its own."""
    import tensorflow as tf

    fresh = path.with_name("rewritten")  # TensorBoard reads whatever has tfevents in its name
    with _as_of_the_system(fresh), tf.io.TFRecordWriter(str(fresh)) as writer:
        for record in records:
            writer.write(record)
    os.replace(fresh, path)


@contextmanager
def _as_of_the_system(path: Path) -> Iterator[None]:
    """TensorFlow's errors of writing, as Python has them."""
    import tensorflow as tf

    numbers = {
        tf.errors.RESOURCE_EXHAUSTED: errno.ENOSPC,
        tf.errors.PERMISSION_DENIED: errno.EACCES,
    }
    try:
        yield
    except tf.errors.OpError as error:
        number = numbers.get(error.error_code, errno.EIO)
        raise OSError(number, os.strerror(number), str(path)) from error
