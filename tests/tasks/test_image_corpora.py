"""Image corpora: splits, resizing, and errors for missing files."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo.data import generate_scenes, read_image
from attention_zoo.tasks.caption_corpora import CaptionLines, CaptionsTfds, Coco, Scenes
from attention_zoo.tasks.glimpses.corpora import Arrays, ClassFolders, GeneratedDigits, LabelledTfds
from attention_zoo.training import Recipe
from tests.tasks.captioners import encoded, make_untrained_task, picture

KINDS = {"image": tf.uint8, "label": tf.int64}


def test_scenes_sizes_and_splits() -> None:
    scenes = Scenes(size=5, validation_size=3, test_size=2, seed=4, image_size=32)
    found = {split: scenes.read(split) for split in scenes.splits}
    sizes = {split: len(corpus) for split, corpus in found.items()}
    assert sizes == {"train": 5, "validation": 3, "test": 2, "unseen": 2}
    for split, corpus in found.items():
        full = generate_scenes(len(corpus), split, 4)
        assert corpus.boxes == full.boxes
        caption_sets = [{*captions} for captions in corpus.captions]
        if split == "train":
            sizes = [min(4, len(all_captions)) for all_captions in full.captions]
            assert [len(part) for part in caption_sets] == sizes
            assert all(a <= {*b} for a, b in zip(caption_sets, full.captions, strict=True))
        else:
            assert corpus.captions == full.captions
        expected = [read_image(image, 32) for image in full.images]
        np.testing.assert_array_equal(corpus.images, expected)


def test_numbers_of_things_and_captions() -> None:
    """An image with fewer captions keeps all of them."""
    scenes = Scenes(
        size=9, validation_size=1, test_size=4, min_things=1, max_things=2, max_captions=3
    )
    assert {len(boxes) for boxes in scenes.read("train").boxes or ()} == {1, 2}
    counts = {len(captions) for captions in scenes.read("train").captions}
    assert counts == {2, 3}
    with pytest.raises(ValueError, match=r"scenes train .*: captions per image must be .*, got 0"):
        Scenes(size=2, max_captions=0).read("train")


def test_captions_of_a_folder_and_of_a_zip(tmp_path: Path) -> None:
    """By default, images are in the folder of the captions."""
    (tmp_path / "train").mkdir()
    raw = {"a.png": encoded(picture(1)), "b.jpg": encoded(picture(2), "JPEG")}
    with zipfile.ZipFile(tmp_path / "test.zip", "w") as archive:
        for name, content in raw.items():
            (tmp_path / "train" / name).write_bytes(content)
            archive.writestr(name, content)
    rows = [{"image": name, "captions": [f"{name} is", "a dog"]} for name in raw]
    path = tmp_path / "train" / "captions.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    corpus = CaptionLines(
        train=str(path), test=str(path), test_images=str(tmp_path / "test.zip"), image_size=8
    )
    for split in ("train", "test"):
        found = corpus.read(split)
        assert found.captions == [("a.png is", "a dog"), ("b.jpg is", "a dog")]
        np.testing.assert_array_equal(found.images, [read_image(one, 8) for one in raw.values()])
    with pytest.raises(ValueError, match=r"data\.validation is missing; name the file that holds"):
        corpus.read("validation")
    (tmp_path / "train" / "c.png").write_bytes(raw["a.png"][:50])
    path.write_text(path.read_text() + '\n{"image": "c.png", "captions": ["cut"]}')
    with pytest.raises(ValueError, match=r"c\.png: the PNG data is damaged"):
        corpus.read("train")
    corpus.skip_bad = 1
    assert (len(corpus.read("train")), corpus.read("train").skipped) == (2, 1)


def test_coco(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(encoded(picture(1)))
    notes = [{"image_id": 7, "caption": text} for text in ("a dog", "two dogs")]
    content = {"images": [{"id": 7, "file_name": "a.png"}], "annotations": notes}
    (tmp_path / "dev.json").write_text(json.dumps(content))
    paths = {"validation": "dev.json", "validation_images": "images"}
    corpus = Coco(**{name: str(tmp_path / place) for name, place in paths.items()})
    found = corpus.read("validation")
    assert found.captions == [("a dog", "two dogs")]
    assert found.images.shape == (1, 224, 224, 3)


@pytest.mark.full
def test_captions_tfds(tfds: Any, tmp_path: Path) -> None:
    corpus = CaptionsTfds(image_size=6, data_dir=str(tmp_path))
    with tfds.testing.mock_data(num_examples=2):
        found = corpus.read("validation")
    assert found.origin == "coco_captions val"
    assert found.images.shape == (2, 6, 6, 3)
    assert all(found.captions)


def test_captioning_reads_captions() -> None:
    kinds = ["scenes", "captions", "coco", "captions_tfds"]
    corpora = make_untrained_task().corpora
    assert corpora.names() == sorted(kinds)
    for kind in kinds:
        corpus: Any = corpora.get(kind)()
        assert corpus.corpus == kind
        with pytest.raises(ValueError, match=f"unknown data.corpus '{kind}'"):
            Recipe(data=corpus)


def test_copies_of_training_images_have_other_positions() -> None:
    sizes = {"size": 3, "validation_size": 2, "image_size": 40, "scattered": "translated"}
    one, three = (GeneratedDigits(**sizes, copies=n) for n in (1, 3))
    corpus = three.read("train")
    assert (corpus.images.shape, corpus.names) == ((9, 40, 40, 1), ["1", "2", "3"] * 3)
    np.testing.assert_array_equal(corpus.labels, np.tile(one.read("train").labels, 3))
    copies = corpus.images[::3].astype("int64")  # copies of the first image
    assert len(set(copies.sum((1, 2, 3)).tolist())) == 1
    assert len({image.tobytes() for image in copies}) == 3
    np.testing.assert_array_equal(three.read("validation").images, one.read("validation").images)
    with pytest.raises(ValueError, match="copies=2: copies are identical with scattered=nowhere"):
        GeneratedDigits(copies=2)
    with pytest.raises(ValueError, match="copies must be at least 1, got 0"):
        GeneratedDigits(copies=0)


def test_digits_are_scattered() -> None:
    sizes = {"size": 4, "validation_size": 3, "test_size": 2}
    plain, moved = (
        GeneratedDigits(**sizes),
        GeneratedDigits(**sizes, image_size=40, scattered="translated"),
    )
    for split, size in zip(("train", "validation", "test"), (4, 3, 2), strict=True):
        found, other = plain.read(split), moved.read(split)
        assert (found.images.shape, other.images.shape) == ((size, 28, 28, 1), (size, 40, 40, 1))
        assert found.labels.tolist() == other.labels.tolist()
        assert found.classes == list("0123456789")
        assert other.images.sum() == found.images.sum(), "nothing is lost"
    cluttered = GeneratedDigits(**sizes, image_size=60, scattered="cluttered").read("validation")
    assert plain.read("test").origin == "digits test, seed 1"
    assert moved.read("test").origin == "digits test, seed 1, translated on 40 x 40, seed 1"
    assert cluttered.origin == "digits validation, seed 1, cluttered on 60 x 60, seed 1"
    among = cluttered.images.sum(axis=(1, 2, 3), dtype="int64")
    assert (among > plain.read("validation").images.sum(axis=(1, 2, 3), dtype="int64")).all()
    assert cluttered.labels.tolist() == plain.read("validation").labels.tolist()
    with pytest.raises(ValueError, match=r"data\.scattered 'clutered'; did you mean"):
        GeneratedDigits(scattered="clutered")


def digit_files(path: Path) -> Path:
    """Write ten images in a folder for each class."""
    digits = GeneratedDigits(size=10).read("train")
    for number, (image, label) in enumerate(zip(digits.images, digits.labels, strict=True)):
        (path / str(label)).mkdir(exist_ok=True)
        (path / str(label) / f"{number}.png").write_bytes(encoded(image.repeat(3, axis=-1)))
    return path


def test_digits_from_folders_are_scattered_at_their_size(tmp_path: Path) -> None:
    options = {"train": str(digit_files(tmp_path)), "image_size": 60}
    plain = ClassFolders(**options | {"image_size": 28}).read("train")
    moved = ClassFolders(**options, scattered="translated", copies=2).read("train")
    assert moved.images.shape == (20, 60, 60, 3)
    assert moved.images[:10].sum() == moved.images[10:].sum() == plain.images.sum()
    assert (moved.images[:10] != moved.images[10:]).any()


def test_classes_tfds(tfds: Any, tmp_path: Path) -> None:
    corpus = LabelledTfds(image_size=6, data_dir=str(tmp_path))
    rows = [(4, 4), (4, 0), (5, 3)]

    def images(builder: Any, *given: Any, **named: Any) -> Any:
        columns = {"image": [np.ones((*size, 1), np.uint8) for size in rows], "label": [3, 1, 2]}
        signature = {name: tf.TensorSpec(None, kind) for name, kind in KINDS.items()}
        parts = [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
        return tf.data.Dataset.from_generator(lambda: iter(parts), output_signature=signature)

    with tfds.testing.mock_data(as_dataset_fn=images):
        with pytest.raises(ValueError, match=r"row 2: 4 x 0, an image without pixels.*skip_bad=1"):
            corpus.read("train")
        corpus.skip_bad = 1
        found = corpus.read("train")
    assert (found.images.shape, found.labels.tolist(), found.skipped) == ((2, 6, 6, 1), [3, 2], 1)


def test_last_arrays_can_be_held_out(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 4), np.uint8)
    np.savez(tmp_path / "all.npz", x_train=images, y_train=np.arange(5))
    corpus = Arrays(train=str(tmp_path / "all.npz"), image_size=4, held_out=2)
    found = {split: corpus.read(split) for split in ("train", "validation")}
    assert {split: one.labels.tolist() for split, one in found.items()} == {
        "train": [0, 1, 2],
        "validation": [3, 4],
    }
    np.testing.assert_array_equal(found["validation"].images[..., 0], images[3:])
    origins = {split: one.origin.partition("all.npz")[2] for split, one in found.items()}
    assert origins == {"train": ", images 1 to 3", "validation": ", images 4 to 5"}
    corpus.held_out = 5
    with pytest.raises(ValueError, match=r"held_out must be .* got 5 of 5 images of data\.train"):
        corpus.read("train")
    corpus.held_out = 0
    with pytest.raises(ValueError, match=r"data\.validation is missing"):
        corpus.read("validation")


def test_a_folder_for_each_class(tmp_path: Path) -> None:
    for number, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.png").write_bytes(encoded(picture(number)))
    found = ClassFolders(test=str(tmp_path), image_size=6).read("test")
    assert (found.classes, found.labels.tolist()) == (["cat", "dog"], [0, 1])
    np.testing.assert_array_equal(found.images[1], read_image(picture(1), 6))
