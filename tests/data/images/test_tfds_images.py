"""Readers of images with captions or class labels from (mocked) TFDS data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import read_caption_tfds, read_image, read_labelled_tfds
from tests.refusals import refuses

RNG = np.random.default_rng(0)


def test_read_caption_tfds(tfds: Any, tmp_path: Path) -> None:
    with tfds.testing.mock_data(num_examples=3):
        corpus = read_caption_tfds("coco_captions", "train", size=(6, 4), data_dir=tmp_path)
        builder = tfds.builder("coco_captions", data_dir=tmp_path)
        rows = list(builder.as_dataset(split="train").as_numpy_iterator())
    expected = [read_image(row["image"], (6, 4)) for row in rows]
    np.testing.assert_array_equal(corpus.images, expected)
    texts = [tuple(text.decode() for text in row["captions"]["text"]) for row in rows]
    assert corpus.captions == texts
    assert corpus.names == ["1", "2", "3"]
    assert corpus.origin == "coco_captions train"


def test_feature_of_one_text_gives_one_caption(tfds: Any, tmp_path: Path) -> None:
    with tfds.testing.mock_data(num_examples=2):
        corpus = read_caption_tfds(
            "coco_captions", "val", captions="image/filename", size=4, data_dir=tmp_path
        )
    assert [len(texts) for texts in corpus.captions] == [1, 1]
    assert all(text for texts in corpus.captions for text in texts)


def make_coco_dataset(captions: list[list[str]], sides: list[tuple[int, int]]) -> Any:
    """Return `as_dataset` for `mock_data`: rows with these captions and image sizes."""
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
def test_invalid_rows_raise_or_are_skipped(
    captions: Any, sides: Any, tfds: Any, tmp_path: Path
) -> None:
    with tfds.testing.mock_data(as_dataset_fn=make_coco_dataset(captions, sides)):
        corpus = read_caption_tfds("coco_captions", "train", data_dir=tmp_path, skip_bad=1)
        assert corpus.captions == [("a",), ("b",)]
        assert (corpus.names, corpus.images.shape, corpus.skipped) == (["1", "3"], (2, 4, 4, 3), 1)
        read_caption_tfds("coco_captions", "train", data_dir=tmp_path)


def test_empty_split_raises(tfds: Any, tmp_path: Path) -> None:
    with (
        tfds.testing.mock_data(as_dataset_fn=make_coco_dataset([], [])),
        pytest.raises(ValueError, match="coco_captions train: no image with a caption"),
    ):
        read_caption_tfds("coco_captions", "train", data_dir=tmp_path)


def test_unreadable_row_raises_with_number(tfds: Any, tmp_path: Path) -> None:
    """For example, an image that TFDS cannot decode, or a truncated file."""
    rows = make_coco_dataset([["a"], ["b"]], [(4, 4)])  # the second row raises an error
    with (
        tfds.testing.mock_data(as_dataset_fn=rows),
        pytest.raises(ValueError, match=r"^coco_captions train: row 2 cannot be read: .*again\Z"),
    ):
        read_caption_tfds("coco_captions", "train", data_dir=tmp_path)


@pytest.mark.parametrize("size", [None, 8])
def test_read_labelled_tfds(tfds: Any, tmp_path: Path, size: Any) -> None:
    with tfds.testing.mock_data(num_examples=5):
        corpus = read_labelled_tfds("mnist", "train", size=size, data_dir=tmp_path)
        builder = tfds.builder("mnist", data_dir=tmp_path)
        rows = list(builder.as_dataset(split="train").as_numpy_iterator())
    assert corpus.images.shape == (5, size or 28, size or 28, 1)
    expected = [read_image(row["image"], size)[..., :1] for row in rows]
    np.testing.assert_array_equal(corpus.images, expected)
    assert corpus.labels.tolist() == [row["label"] for row in rows]
    assert corpus.classes == [str(number) for number in range(10)]


@refuses(
    (read_caption_tfds, {"captions": "captions/txt"}, "did you mean 'captions/text'"),
    (read_caption_tfds, {"image": "image/id"}, "feature 'image/id' is not an image; ch"),
    (read_caption_tfds, {"captions": "captions/id"}, "row 1: field 'captions/id' must be a str"),
    (read_labelled_tfds, {"label": "image/id"}, "'image/id' is not a ClassLabel; choose"),
)
def test_unsuitable_features_raise(read: Any, features: Any, tfds: Any, tmp_path: Path) -> None:
    with tfds.testing.mock_data(num_examples=1):
        read("coco_captions", "train", data_dir=tmp_path, **features)


def test_unprepared_set_is_not_downloaded(tfds: Any, tmp_path: Path) -> None:
    for read, name in ((read_caption_tfds, "coco_captions"), (read_labelled_tfds, "mnist")):
        with pytest.raises(ValueError, match=f"{name} is not prepared in .*download_and_prepare"):
            read(name, "train", data_dir=tmp_path)
