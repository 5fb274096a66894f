"""Event files: read back by TensorBoard and by TensorFlow."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorflow.compat.v1 import Event

from attention_zoo.event_files import EventFile


def test_scalars_and_images_are_read_back(tmp_path: Path) -> None:
    images = [np.arange(12, dtype="uint8").reshape(3, 4), np.full((3, 4), 7, "uint8")]
    for step in (2, 5):  # two files in one folder
        file = EventFile(tmp_path / "log")
        file.write_scalars(step, {"loss": step / 3, "a/b": -1.0})
        file.write_images(step, "map", images)
        file.write_images(step, "color", [np.zeros((2, 5, 3), "uint8")])
        file.close()
    read = EventAccumulator(str(tmp_path / "log"), size_guidance={"tensors": 0})
    read.Reload()
    values = [(x.step, tf.make_ndarray(x.tensor_proto)) for x in read.Tensors("loss")]
    assert values == [(2, np.float32(2 / 3)), (5, np.float32(5 / 3))]
    assert read.SummaryMetadata("a/b").plugin_data.plugin_name == "scalars"
    assert read.SummaryMetadata("map").plugin_data.plugin_name == "images"
    width, height, *encoded = tf.make_ndarray(read.Tensors("map")[0].tensor_proto)
    assert (width, height) == (b"4", b"3")
    for image, png in zip(images, encoded, strict=True):
        np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(png))), image)
    assert tuple(tf.make_ndarray(read.Tensors("color")[0].tensor_proto)[:2]) == (b"5", b"2")


def test_first_record_is_the_version(tmp_path: Path) -> None:
    EventFile(tmp_path).close()
    (path,) = tmp_path.glob("events.out.tfevents.*")
    (record,) = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    assert Event.FromString(record).file_version == "brain.Event:2"


def test_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.record_writer", None)
    with pytest.raises(ValueError, match=r"pip install 'attention-zoo\[tensorboard\]'"):
        EventFile(tmp_path / "log")
    assert not (tmp_path / "log").exists()
