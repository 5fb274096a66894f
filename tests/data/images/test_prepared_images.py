"""Images with captions or classes come out of data sets of TFDS; mock data stand for theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import read_caption_tfds, read_image, read_labelled_tfds
from tests.refusals import refuses

RNG = np.random.default_rng(0)


def test_images_and_their_captions_are_read(tfds: Any, tmp_path: Path) -> None:
    with tfds.testing.mock_data(num_examples=3):
        found = read_caption_tfds("coco_captions", "train", size=(6, 4), data_dir=tmp_path)
        builder = tfds.builder("coco_captions", data_dir=tmp_path)
        rows = list(builder.as_dataset(split="train").as_numpy_iterator())
    expected = [read_image(row["image"], (6, 4)) for row in rows]
    np.testing.assert_array_equal(found.images, expected)
    texts = [tuple(text.decode() for text in row["captions"]["text"]) for row in rows]
    assert found.captions == texts
    assert found.names == ["1", "2", "3"]
    assert found.origin == "coco_captions train"


def test_a_feature_of_one_text_is_one_caption(tfds: Any, tmp_path: Path) -> None:
    with tfds.testing.mock_data(num_examples=2):
        found = read_caption_tfds(
            "coco_captions", "val", captions="image/filename", size=4, data_dir=tmp_path
        )
    assert [len(texts) for texts in found.captions] == [1, 1]
    assert all(text for texts in found.captions for text in texts)


def coco_rows(captions: list[list[str]], sides: list[tuple[int, int]]) -> Any:
    """What makes rows of these captions, and of images of these sides."""
    import tensorflow as tf

    def rows(self: Any, *args: Any, **kwargs: Any) -> Any:
        def generate() -> Any:
            for texts, (height, width) in zip(captions, sides, strict=True):
                image = np.zeros((height, width, 3), np.uint8)
                yield {"image": image, "captions": {"text": np.array(texts, "S")}}

        signature = {
            "image": tf.TensorSpec([None, None, 3], tf.uint8),
            "captions": {"text": tf.TensorSpec([None], tf.string)},
        }
        return tf.data.Dataset.from_generator(generate, output_signature=signature)

    return rows


SKIP = ".*skip_bad=1 or more"


@refuses(
    (
        [["a"], [], ["b"]],
        [(4, 4)] * 3,
        "^coco_captions train: row 2: the field 'captions/text' is empty" + SKIP,
    ),
    (
        [["a"], ["c", " "], ["b"]],
        [(4, 4)] * 3,
        "^coco_captions train: row 2: the field 'captions/text' is emp" + SKIP,
    ),
    (
        [["a"], ["c"], ["b"]],
        [(4, 4), (4, 5), (4, 4)],
        "^coco_captions train: row 2: has size 4 x 5 x 3, but" + SKIP,
    ),
    (
        [["a"], ["c"], ["b"]],
        [(4, 4), (4, 0), (4, 4)],
        "^coco_captions train: row 2: 4 x 0, an image without pix" + SKIP,
    ),
)
def test_bad_rows_are_refused_or_counted(
    captions: Any, sides: Any, tfds: Any, tmp_path: Path
) -> None:
    with tfds.testing.mock_data(as_dataset_fn=coco_rows(captions, sides)):
        found = read_caption_tfds("coco_captions", "train", data_dir=tmp_path, skip_bad=1)
        assert found.captions == [("a",), ("b",)]
        assert (found.names, found.images.shape, found.skipped) == (["1", "3"], (2, 4, 4, 3), 1)
        read_caption_tfds("coco_captions", "train", data_dir=tmp_path)


def test_a_split_without_rows_is_refused(tfds: Any, tmp_path: Path) -> None:
    with (
        tfds.testing.mock_data(as_dataset_fn=coco_rows([], [])),
        pytest.raises(ValueError, match="coco_captions train: no image with a caption"),
    ):
        read_caption_tfds("coco_captions", "train", data_dir=tmp_path)


def test_a_row_that_cannot_be_read_is_named(tfds: Any, tmp_path: Path) -> None:
    """As an image that TFDS fails to decode, or a file of rows that is cut."""
    rows = coco_rows([["a"], ["b"]], [(4, 4)])  # whose second row raises an error
    with (
        tfds.testing.mock_data(as_dataset_fn=rows),
        pytest.raises(ValueError, match=r"^coco_captions train: row 2 cannot be read: .*again\Z"),
    ):
        read_caption_tfds("coco_captions", "train", data_dir=tmp_path)


@pytest.mark.parametrize("size", [None, 8])
def test_grey_images_and_their_classes_are_read(tfds: Any, tmp_path: Path, size: Any) -> None:
    with tfds.testing.mock_data(num_examples=5):
        found = read_labelled_tfds("mnist", "train", size=size, data_dir=tmp_path)
        builder = tfds.builder("mnist", data_dir=tmp_path)
        rows = list(builder.as_dataset(split="train").as_numpy_iterator())
    assert found.images.shape == (5, size or 28, size or 28, 1)
    expected = [read_image(row["image"], size)[..., :1] for row in rows]
    np.testing.assert_array_equal(found.images, expected)
    assert found.labels.tolist() == [row["label"] for row in rows]
    assert found.classes == [str(number) for number in range(10)]


@refuses(
    (read_caption_tfds, {"captions": "captions/txt"}, "did you mean 'captions/text'"),
    (read_caption_tfds, {"image": "image/id"}, "feature 'image/id' is not an image; ch"),
    (read_caption_tfds, {"captions": "captions/id"}, "row 1: field 'captions/id' must be a str"),
    (read_labelled_tfds, {"label": "image/id"}, "'image/id' is not a ClassLabel; choose"),
)
def test_unsuitable_features(read: Any, features: Any, tfds: Any, tmp_path: Path) -> None:
    with tfds.testing.mock_data(num_examples=1):
        read("coco_captions", "train", data_dir=tmp_path, **features)


def test_a_set_that_is_not_prepared_is_not_fetched(tfds: Any, tmp_path: Path) -> None:
    for read, name in ((read_caption_tfds, "coco_captions"), (read_labelled_tfds, "mnist")):
        with pytest.raises(ValueError, match=f"{name} is not prepared in .*download_and_prepare"):
            read(name, "train", data_dir=tmp_path)
