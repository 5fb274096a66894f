"""Readers of labelled images from arrays and class folders."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import LabelledImages, read_class_folders, read_image, read_npz_images
from tests.data.images.image_folders import make_image_file, write_folder, write_zip
from tests.refusals import refuses

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (6, 4, 5), np.uint8)
LABELS = np.array([2, 0, 1, 2, 0, 4], np.uint8)


@pytest.mark.parametrize("shape", [(6, 4, 5), (6, 4, 5, 1), (6, 4, 5, 3)])
def test_read_npz_images(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pixels = RNG.integers(0, 256, shape, np.uint8)
    path = tmp_path / "train.npz"
    (np.savez_compressed if len(shape) == 3 else np.savez)(path, x_train=pixels, y_train=LABELS)
    corpus = read_npz_images(path)
    np.testing.assert_array_equal(corpus.images, pixels.reshape(6, 4, 5, -1))
    assert corpus.labels.tolist() == LABELS.tolist()
    assert corpus.labels.dtype == np.int32
    assert corpus.classes == ["0", "1", "2", "3", "4"]
    assert corpus.names == ["1", "2", "3", "4", "5", "6"]
    assert corpus.origin == str(path)
    selected = corpus.take([5, 0])
    assert (len(selected), selected.labels.tolist(), selected.names) == (2, [4, 2], ["6", "1"])
    np.testing.assert_array_equal(selected.images, corpus.images[[5, 0]])


@refuses(
    ({"x_trainn": GREY, "y_train": LABELS}, "no array 'x_train'; did you mean 'x_trainn'"),
    ({"x_train": GREY / 255}, "'x_train' must be uint8, .* got float64"),
    ({"x_train": GREY.reshape(6, 20)}, r"must be \(N, H.*, got shape \(6, 20\)"),
    ({"x_train": np.uint8(3)}, r"must be \(N, H.*, got shape \(\)"),
    ({"x_train": np.stack([GREY] * 2, -1)}, r"images must be .*, got shape \(6, 4, 5, 2\)"),
    ({"y_train": LABELS / 2}, "'y_train' must be integers .*, got float64 of shape"),
    ({"y_train": np.eye(6, dtype=int)}, r"got int64 of shape \(6, 6\)"),
    ({"y_train": LABELS.astype(int) - 1}, "from 0 to 65535, got -1 to 3"),
    ({"y_train": LABELS.astype(int) * 99_999}, "got 0 to 399996"),
    ({"y_train": LABELS[:5]}, "per example, got 6 images, 5 labels, 5 names"),
    ({"x_train": GREY[:0], "y_train": LABELS[:0]}, "'y_train' is empty"),
    ({"x_train": np.array([None])}, "contains Python objects"),
)
def test_invalid_arrays_raise(arrays: dict[str, Any], tmp_path: Path) -> None:
    good = {} if "x_trainn" in arrays else {"x_train": GREY, "y_train": LABELS}
    np.savez(tmp_path / "a.npz", **good | arrays)
    read_npz_images(tmp_path / "a.npz")


def test_invalid_npz_file_raises(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.savez_compressed(file, x_train=GREY, y_train=LABELS)
    raw = file.getvalue()
    damaged_raw = raw[:80] + b"\xff" * 20 + raw[100:]
    for content in (b"", b"text", raw[:-9], damaged_raw):
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.npz: .*damaged.*; save arrays of numbers"):
            read_npz_images(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"none\.npz: No such file"):
        read_npz_images(tmp_path / "none.npz")


@refuses(
    ((6, 4, 5), b"\0" * 10, r"a\.npz: array .* declares shape .* not match its 10 bytes"),
    ((-1, 4, 5), b"", r"a\.npz: array .* declares shape .* not match its 0 bytes"),
    ((1 << 20, 1 << 20, 1 << 20), b"", r"a\.npz: array .* not match its 0 bytes"),
    ((6, 0, 5), b"", r"a\.npz: images must be \(N, H, W, 1\) or .*\(6, 0, 5, 1\)"),
)
def test_array_that_contradicts_its_header_raises(shape: Any, body: bytes, tmp_path: Path) -> None:
    file, path = io.BytesIO(), tmp_path / "a.npz"
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    np.savez(path, y_train=LABELS)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x_train.npy", file.getvalue() + body)
    read_npz_images(path)


def test_damaged_npz_errors_name_the_file(tmp_path: Path) -> None:
    path, rng = tmp_path / "a.npz", np.random.default_rng(0)
    np.savez(path, x_train=GREY, y_train=LABELS)
    raw, errors = path.read_bytes(), list[str]()
    for _ in range(300):
        damaged = bytearray(raw)
        damaged[rng.integers(len(raw))] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            assert len(read_npz_images(path)) == 6
        except ValueError as error:
            errors.append(str(error))
    assert len(errors) > 200
    assert [message for message in errors if not message.startswith(f"{path}: ")] == []


FILES = {
    name: make_image_file(seed, (4, 5))
    for seed, name in enumerate(("dog/2.png", "dog/1.png", "cat/deep/3.PNG"))
}


@pytest.mark.parametrize("size", [None, (3, 2)])
@pytest.mark.parametrize("write", [write_folder, write_zip])
def test_class_folders_give_labels(tmp_path: Path, write: Any, size: Any) -> None:
    corpus = read_class_folders(write(tmp_path / "f", FILES | {"dog/notes.txt": b"n"}), size)
    assert corpus.classes == ["cat", "dog"]
    assert corpus.names == ["cat/deep/3.PNG", "dog/1.png", "dog/2.png"]
    assert corpus.labels.tolist() == [0, 1, 1]
    expected = [read_image(FILES[name], size) for name in corpus.names]
    np.testing.assert_array_equal(corpus.images, expected)


SKIP = ".*skip_bad=1 or more"


@refuses(
    ("notes/a.txt", b"n", "f/notes: contains no image; remove" + SKIP),
    ("dog/3.ppm", b"P6", r"f/dog/3\.ppm: is not in a known image format" + SKIP),
    ("dog/3.jfif", b"a dog", r"f/dog/3\.jfif: is not in a known image format" + SKIP),
    ("3.png", make_image_file(3, (4, 5)), r"f/3\.png: is in no class folder; move it" + SKIP),
    ("dog/3.jpg", b"a dog", r"f/dog/3\.jpg: is not in a known image format" + SKIP),
    (
        "dog/3.png",
        make_image_file(3, (5, 5)),
        r"3\.png: has size 5 x 5 x 3, but .*3\.PNG has 4 x" + SKIP,
    ),
)
def test_invalid_files_raise_or_are_skipped(name: str, raw: bytes, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "f", FILES | {name: raw})
    corpus = read_class_folders(path, skip_bad=1)
    assert (len(corpus), len(corpus.images), corpus.skipped) == (3, 3, 1)
    read_class_folders(path)


def test_folders_without_images_raise(tmp_path: Path) -> None:
    (tmp_path / "dog").mkdir()
    with pytest.raises(ValueError, match="no image in a class folder"):
        read_class_folders(tmp_path)
    with pytest.raises(ValueError, match="none: No such file"):
        read_class_folders(tmp_path / "none")


@pytest.mark.parametrize("write", [write_folder, write_zip])
def test_single_folder_around_class_folders_raises(tmp_path: Path, write: Any) -> None:
    path = write(tmp_path / "f", {f"all/{name}": raw for name, raw in FILES.items()})
    with pytest.raises(ValueError, match="are in subfolders of 'all'; give the path of that"):
        read_class_folders(path, skip_bad=3)


def test_image_without_suffix_is_read(tmp_path: Path) -> None:
    path = write_folder(
        tmp_path / "f", FILES | {"cat/5": make_image_file(5, (4, 5)), "README": b"of cats"}
    )
    assert "cat/5" in read_class_folders(path).names


@pytest.mark.parametrize("size", [0, 1 << 20])
def test_invalid_size_is_not_skipped(tmp_path: Path, size: int) -> None:
    with pytest.raises(ValueError, match=f"^size={size}: ") as caught:
        read_class_folders(write_folder(tmp_path / "f", FILES), size, skip_bad=3)
    assert "skip_bad" not in str(caught.value)


@refuses(
    (-1, r"mine: the label of image b must be in \[0, 2\), .*, got -1"),
    (2, r"mine: the label of image b must be in \[0, 2\), .*, got 2"),
)
def test_labels_out_of_range_raise(label: int) -> None:
    labels = np.array([0, label], np.int32)
    LabelledImages(np.zeros((2, 4, 4, 1), np.uint8), labels, ["x", "y"], ["a", "b"], "mine")


def test_invalid_images_raise_and_resize_keeps_channels() -> None:
    images, labels = np.zeros((2, 4, 4, 1), np.uint8), np.zeros(2, np.int32)
    fields = (labels, ["x"], ["a", "b"], "mine")
    with pytest.raises(ValueError, match=r"^mine: images must be uint8, from .*, got float64"):
        LabelledImages(images / 255, *fields)
    assert LabelledImages(images, *fields).resize(3).images.shape == (2, 3, 3, 1)
    assert LabelledImages(images, *fields).take([]).resize(3).images.shape == (0, 3, 3, 1)
