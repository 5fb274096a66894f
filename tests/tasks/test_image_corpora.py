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
from tests.data.images.image_folders import write_folder, write_zip
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


PICTURES = {f"{name}.jpg": encoded(picture(i), "JPEG") for i, name in enumerate("abcd")}
TOKENS = "a.jpg#0\tA dog .\na.jpg#1\tDogs , two .\nb.jpg#0\tA cat .\na.jpg#2\tMore\nc.jpg#0\tC\n"
CSV = 'image,caption\na.jpg,A dog .\na.jpg,"Dogs , two ."\nb.jpg,A cat .\na.jpg,More\nc.jpg,C\n'
LINES = """{"image": "a.jpg", "captions": ["A dog .", "Dogs , two .", "More"]}
{"image": "b.jpg", "captions": "A cat ."}\n{"image": "c.jpg", "captions": ["C"]}\n"""
CAPTIONS = {"a.jpg": ("A dog .", "Dogs , two .", "More"), "b.jpg": ("A cat .",), "c.jpg": ("C",)}


@pytest.fixture
def flickr(tmp_path: Path) -> Path:
    """Return a folder as Flickr8k is distributed: all images, captions, and lists of names."""
    write_folder(tmp_path / "Images", PICTURES)
    (tmp_path / "train.txt").write_text("b.jpg\na.jpg \n\n")
    (tmp_path / "dev.txt").write_text("c.jpg")
    return tmp_path


@pytest.mark.parametrize("text", [TOKENS, CSV, LINES], ids=["tokens", "csv", "jsonl"])
def test_formats_of_captions(flickr: Path, text: str) -> None:
    """Blank lines are skipped."""
    (flickr / "captions.txt").write_text(text.replace("\n", "\n\n") + " \n\n" * (text != CSV))
    paths = {split: str(flickr / "captions.txt") for split in ("train", "test")}
    corpus = CaptionLines(**paths, images=str(flickr / "Images"), image_size=8)
    found = corpus.read("train")
    assert dict(zip(found.names, found.captions, strict=True)) == CAPTIONS
    assert found.skipped == 0
    raw = [PICTURES[name] for name in found.names]
    np.testing.assert_array_equal(found.images, [read_image(one, 8) for one in raw])


@pytest.mark.parametrize("text", [TOKENS, CSV, LINES], ids=["tokens", "csv", "jsonl"])
def test_lists_of_names_select_the_images_of_a_split(flickr: Path, text: str) -> None:
    (flickr / "captions.txt").write_text(text)
    names = {"train": str(flickr / "train.txt"), "validation": str(flickr / "dev.txt")}
    corpus = CaptionLines(
        **names, captions=str(flickr / "captions.txt"), images=str(flickr / "Images"), image_size=8
    )
    assert {split: corpus.read(split).names for split in names} == {
        "train": ["b.jpg", "a.jpg"],
        "validation": ["c.jpg"],
    }
    (flickr / "dev.txt").write_text("c.jpg\nd.jpg\n")
    with pytest.raises(
        ValueError, match=r"data\.validation: .*dev\.txt:2: image 'd\.jpg' has no ca"
    ):
        corpus.read("validation")
    corpus.skip_bad = 1
    assert corpus.read("validation").skipped == 1


def test_images_without_captions_in_a_folder_of_several_splits(flickr: Path) -> None:
    (flickr / "a.token").write_text(TOKENS)
    images = str(flickr / "Images")
    alone = CaptionLines(train=str(flickr / "a.token"), train_images=images, image_size=8)
    with pytest.raises(ValueError, match=r"^data\.train: .*d\.jpg: has no caption in .*a\.token"):
        alone.read("train")
    other = {"validation": str(flickr / "b.token"), "validation_images": f"{images}/../Images"}
    shared = CaptionLines(**vars(alone) | other)
    assert shared.read("train").names == list(CAPTIONS)
    missing = CaptionLines(**vars(alone) | {"train_images": f"{images}2"})
    with pytest.raises(ValueError, match=r"^data\.train_images: .*Images2: no such file or folder"):
        missing.read("train")


@pytest.mark.parametrize("images", ["", "archive.zip"])
def test_outer_folder_of_images(flickr: Path, images: str) -> None:
    """Archives of Flickr8k have all images in one folder, and the captions beside it."""
    (flickr / "captions.txt").write_text(CSV)
    write_zip(flickr / "archive.zip", {f"Images/{name}": raw for name, raw in PICTURES.items()})
    paths = {split: str(flickr / "captions.txt") for split in ("train", "test")}
    corpus = CaptionLines(**paths, images=str(flickr / images) if images else None, image_size=8)
    assert corpus.read("train").names == list(CAPTIONS)


BAD_LINES = {
    TOKENS: [
        ("a.jpg A dog .", r":6: expected `name\.jpg#0`, a tab and a caption"),
        ("b.jpg#1\t ", ":6: the caption is empty"),
        ("x.jpg#0\tA dog .", ":6: image 'x.jpg' is not in "),
    ],
    CSV: [
        ("a.jpg,a, dog", ":7: expected 2 columns, as in the header, got 3; quote a cell"),
        ("b.jpg,", ":7: the caption is empty"),
        (",A dog", ":7: the name of the image is empty"),
        ('a.jpg,"A dog', ":7: not valid CSV"),
        ("x.jpg,A dog .", ":7: image 'x.jpg' is not in "),
    ],
}


@pytest.mark.parametrize(
    ("text", "line", "message"), [(text, *row) for text, rows in BAD_LINES.items() for row in rows]
)
def test_bad_caption_lines(flickr: Path, text: str, line: str, message: str) -> None:
    (flickr / "a").write_text(f"{text}{line}\n")
    corpus = CaptionLines(train=str(flickr / "a"), images=str(flickr / "Images"), image_size=8)
    with pytest.raises(ValueError, match=f"^data.train: .*a{message}.*data.skip_bad=1 or more"):
        corpus.read("train")
    corpus.skip_bad = 1
    found = corpus.read("train")
    assert dict(zip(found.names, found.captions, strict=True)) == CAPTIONS
    assert found.skipped == 1


def test_columns_and_delimiter_of_captions(flickr: Path) -> None:
    """The format of Flickr30k."""
    (flickr / "a").write_text("name| number| text\na.jpg| 0| A dog , two .\n")
    options: dict[str, Any] = {"train": str(flickr / "a"), "images": str(flickr / "Images")}
    corpus = CaptionLines(**options, image="name", caption="text", delimiter="|", image_size=8)
    assert corpus.read("train").captions == [("A dog , two .",)]
    with pytest.raises(
        ValueError, match=r"a:1: column 'image' is missing .*; a file of captions has"
    ):
        CaptionLines(**options).read("train")
    with pytest.raises(
        ValueError, match=r"data\.format must be one of jsonl, tokens, csv, got 'tsv'"
    ):
        CaptionLines(format="tsv")
    with pytest.raises(ValueError, match=r"a:1: not valid JSON"):
        CaptionLines(**options, format="jsonl").read("train")


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
    (tmp_path / "images" / "b.png").write_bytes(encoded(picture(2)))
    with pytest.raises(ValueError, match=r"b\.png: has no caption"):
        corpus.read("validation")
    corpus.test, corpus.test_images = corpus.validation, corpus.validation_images
    assert corpus.read("validation").names == ["a.png"]


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


def test_arrays_of_another_split_are_not_read(tmp_path: Path) -> None:
    """Keras's `mnist.npz` has arrays of two splits."""
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4), np.uint8)
    arrays = {"x_train": images[:4], "y_train": np.arange(4), "x_test": images[4:]}
    np.savez(tmp_path / "mnist.npz", **arrays, y_test=np.arange(2))
    path = str(tmp_path / "mnist.npz")
    corpus = Arrays(train=path, validation=path, test=path, image_size=4)
    np.testing.assert_array_equal(corpus.read("train").images[..., 0], images[:4])
    test = corpus.read("test")
    np.testing.assert_array_equal(test.images[..., 0], images[4:])
    assert test.origin == f"{path}, arrays x_test and y_test"
    message = r"^data\.validation: .*mnist\.npz: has no arrays x_validation and y_validation of the"
    with pytest.raises(ValueError, match=message):
        corpus.read("validation")
    np.savez(tmp_path / "a.npz", x_train=images, y_train=np.arange(6), x_val=images[:1], y_val=[1])
    corpus = Arrays(validation=str(tmp_path / "a.npz"), test=str(tmp_path / "a.npz"), image_size=4)
    assert corpus.read("validation").labels.tolist() == [1]
    with pytest.raises(
        ValueError, match=r"no arrays x_test and y_test of the test split \(arrays: x"
    ):
        corpus.read("test")
    np.savez(tmp_path / "b.npz", pixels=images[:2], y=[0, 1])
    named = Arrays(test=str(tmp_path / "b.npz"), images="pixels", labels="y", image_size=4)
    assert len(named.read("test")) == 2
    with pytest.raises(ValueError, match=r"data\.test must name one file or folder, got 2"):
        Arrays(test=[path, path]).read("test")


@pytest.mark.parametrize("case", [str.upper, str.capitalize, str.lower])
def test_names_of_arrays_in_any_case(tmp_path: Path, case: Any) -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4), np.uint8)
    arrays = {"images_train": images[:4], "labels_train": np.arange(4), "images_test": images[4:]}
    arrays |= {"labels_test": np.arange(2)}
    path = str(tmp_path / "all.npz")
    np.savez(path, **{"_".join(map(case, name.split("_"))): x for name, x in arrays.items()})
    names = {name: "_".join(map(case, (name, "train"))) for name in ("images", "labels")}
    corpus = Arrays(train=path, test=path, image_size=4, **names)
    np.testing.assert_array_equal(corpus.read("train").images[..., 0], images[:4])
    np.testing.assert_array_equal(corpus.read("test").images[..., 0], images[4:])


def test_arrays_are_not_read_for_two_splits(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4), np.uint8)
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", images=images, labels=np.arange(6), images_val=images)
    paths = {"train": f"{tmp_path}/a.npz", "test": f"{tmp_path}/./a.npz"}
    paths["validation"] = f"{tmp_path}/b.npz"
    corpus = Arrays(**paths, images="images", labels="labels", image_size=4)
    assert len(corpus.read("train")) == len(corpus.read("validation")) == 6
    message = (
        r"^data\.test: .*a\.npz: arrays images and labels are also read as the train split; giv"
    )
    with pytest.raises(ValueError, match=message):
        corpus.read("test")


def test_a_folder_for_each_class(tmp_path: Path) -> None:
    for number, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.png").write_bytes(encoded(picture(number)))
    found = ClassFolders(test=str(tmp_path), image_size=6).read("test")
    assert (found.classes, found.labels.tolist()) == (["cat", "dog"], [0, 1])
    np.testing.assert_array_equal(found.images[1], read_image(picture(1), 6))
