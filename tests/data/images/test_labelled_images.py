"""Images of classes out of arrays and folders, and what is wrong with them."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.data import LabelledImages, read_class_folders, read_image, read_npz_images
from tests.data.images.image_folders import folder, picture, zipped
from tests.refusals import refuses

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (6, 4, 5), np.uint8)
NUMBERS = np.array([2, 0, 1, 2, 0, 4], np.uint8)


@pytest.mark.parametrize("shape", [(6, 4, 5), (6, 4, 5, 1), (6, 4, 5, 3)])
def test_arrays_are_read(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pixels = RNG.integers(0, 256, shape, np.uint8)
    path = tmp_path / "train.npz"
    (np.savez_compressed if len(shape) == 3 else np.savez)(path, x_train=pixels, y_train=NUMBERS)
    found = read_npz_images(path)
    np.testing.assert_array_equal(found.images, pixels.reshape(6, 4, 5, -1))
    assert found.labels.tolist() == NUMBERS.tolist()
    assert found.labels.dtype == np.int32
    assert found.classes == ["0", "1", "2", "3", "4"]
    assert found.names == ["1", "2", "3", "4", "5", "6"]
    assert found.origin == str(path)
    part = found.take([5, 0])
    assert (len(part), part.labels.tolist(), part.names) == (2, [4, 2], ["6", "1"])
    np.testing.assert_array_equal(part.images, found.images[[5, 0]])


@refuses(
    ({"x_trainn": GREY, "y_train": NUMBERS}, "no array 'x_train'; did you mean 'x_trainn'"),
    ({"x_train": GREY / 255}, "'x_train' must be uint8, .* got float64"),
    ({"x_train": GREY.reshape(6, 20)}, r"must be \(N, H.*, got shape \(6, 20\)"),
    ({"x_train": np.uint8(3)}, r"must be \(N, H.*, got shape \(\)"),
    ({"x_train": np.stack([GREY] * 2, -1)}, r"images must be .*, got shape \(6, 4, 5, 2\)"),
    ({"y_train": NUMBERS / 2}, "'y_train' must be integers .*, got float64 of shape"),
    ({"y_train": np.eye(6, dtype=int)}, r"got int64 of shape \(6, 6\)"),
    ({"y_train": NUMBERS.astype(int) - 1}, "from 0 to 65535, got -1 to 3"),
    ({"y_train": NUMBERS.astype(int) * 99_999}, "got 0 to 399996"),
    ({"y_train": NUMBERS[:5]}, "per image, got 6 images, 5 labels and 5 names"),
    ({"x_train": GREY[:0], "y_train": NUMBERS[:0]}, "'y_train' is empty"),
    ({"x_train": np.array([None])}, "contains Python objects"),
)
def test_bad_arrays(arrays: dict[str, Any], tmp_path: Path) -> None:
    good = {} if "x_trainn" in arrays else {"x_train": GREY, "y_train": NUMBERS}
    np.savez(tmp_path / "a.npz", **good | arrays)
    read_npz_images(tmp_path / "a.npz")


def test_what_is_no_npz_is_refused(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.savez_compressed(file, x_train=GREY, y_train=NUMBERS)
    raw = file.getvalue()
    middle = raw[:80] + b"\xff" * 20 + raw[100:]
    for content in (b"", b"text", raw[:-9], middle):
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.npz: not an npz file, or a damaged one"):
            read_npz_images(tmp_path / "a.npz")
    with pytest.raises(ValueError, match=r"none\.npz: No such file"):
        read_npz_images(tmp_path / "none.npz")


@refuses(
    ((6, 4, 5), b"\0" * 10, r"a\.npz: not an npz file, or a damaged one"),
    ((-1, 4, 5), b"", r"a\.npz: not an npz file, or a damaged one"),
    ((1 << 20, 1 << 20, 1 << 20), b"", r"a\.npz: does not fit into memory"),
    ((6, 0, 5), b"", r"a\.npz: images must be \(N, H, W, 1\) or .*\(6, 0, 5, 1\)"),
)
def test_an_array_that_contradicts_its_header(shape: Any, body: bytes, tmp_path: Path) -> None:
    file, path = io.BytesIO(), tmp_path / "a.npz"
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    np.savez(path, y_train=NUMBERS)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("x_train.npy", file.getvalue() + body)
    read_npz_images(path)


def test_whatever_byte_of_an_npz_is_wrong_the_file_is_named(tmp_path: Path) -> None:
    path, rng = tmp_path / "a.npz", np.random.default_rng(0)
    np.savez(path, x_train=GREY, y_train=NUMBERS)
    raw, refused = path.read_bytes(), list[str]()
    for _ in range(300):
        damaged = bytearray(raw)
        damaged[rng.integers(len(raw))] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            assert len(read_npz_images(path)) == 6
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > 200
    assert [said for said in refused if not said.startswith(f"{path}: ")] == []


FILES = {
    name: picture(seed, (4, 5))
    for seed, name in enumerate(("dog/2.png", "dog/1.png", "cat/deep/3.PNG"))
}


@pytest.mark.parametrize("size", [None, (3, 2)])
@pytest.mark.parametrize("put", [folder, zipped])
def test_folders_are_classes(tmp_path: Path, put: Any, size: Any) -> None:
    found = read_class_folders(put(tmp_path / "f", FILES | {"dog/notes.txt": b"n"}), size)
    assert found.classes == ["cat", "dog"]
    assert found.names == ["cat/deep/3.PNG", "dog/1.png", "dog/2.png"]
    assert found.labels.tolist() == [0, 1, 1]
    expected = [read_image(FILES[name], size) for name in found.names]
    np.testing.assert_array_equal(found.images, expected)


SKIP = ".*skip_bad=1 or more"


@refuses(
    ("notes/a.txt", b"n", "f/notes: contains no image; remove" + SKIP),
    ("dog/3.ppm", b"P6", r"f/dog/3\.ppm: is not in a known image format" + SKIP),
    ("dog/3.jfif", b"a dog", r"f/dog/3\.jfif: is not in a known image format" + SKIP),
    ("3.png", picture(3, (4, 5)), r"f/3\.png: is in no class folder; move it" + SKIP),
    ("dog/3.jpg", b"a dog", r"f/dog/3\.jpg: is not in a known image format" + SKIP),
    ("dog/3.png", picture(3, (5, 5)), r"3\.png: has size 5 x 5 x 3, but .*3\.PNG has 4 x" + SKIP),
)
def test_bad_files_are_refused_or_counted(name: str, raw: bytes, tmp_path: Path) -> None:
    path = folder(tmp_path / "f", FILES | {name: raw})
    found = read_class_folders(path, skip_bad=1)
    assert (len(found), len(found.images), found.skipped) == (3, 3, 1)
    read_class_folders(path)


def test_folders_without_images_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dog").mkdir()
    with pytest.raises(ValueError, match="no image in a class folder"):
        read_class_folders(tmp_path)
    with pytest.raises(ValueError, match="none: No such file"):
        read_class_folders(tmp_path / "none")


@pytest.mark.parametrize("put", [folder, zipped])
def test_a_folder_around_those_of_classes_is_no_class(tmp_path: Path, put: Any) -> None:
    path = put(tmp_path / "f", {f"all/{name}": raw for name, raw in FILES.items()})
    with pytest.raises(ValueError, match="are in subfolders of 'all'; give the path of that"):
        read_class_folders(path, skip_bad=3)


def test_an_image_without_suffix_is_one(tmp_path: Path) -> None:
    path = folder(tmp_path / "f", FILES | {"cat/5": picture(5, (4, 5)), "README": b"of cats"})
    assert "cat/5" in read_class_folders(path).names


@pytest.mark.parametrize("size", [0, 1 << 20])
def test_an_impossible_size_is_no_bad_image(tmp_path: Path, size: int) -> None:
    with pytest.raises(ValueError, match=f"^size={size}: ") as caught:
        read_class_folders(folder(tmp_path / "f", FILES), size, skip_bad=3)
    assert "skip_bad" not in str(caught.value)


@refuses(
    (-1, r"mine: the label of image b must be in \[0, 2\), .*, got -1"),
    (2, r"mine: the label of image b must be in \[0, 2\), .*, got 2"),
)
def test_labels_must_be_of_classes(label: int) -> None:
    labels = np.array([0, label], np.int32)
    LabelledImages(np.zeros((2, 4, 4, 1), np.uint8), labels, ["x", "y"], ["a", "b"], "mine")


def test_what_are_no_images_is_refused_and_none_are_resized() -> None:
    images, labels = np.zeros((2, 4, 4, 1), np.uint8), np.zeros(2, np.int32)
    rest = (labels, ["x"], ["a", "b"], "mine")
    with pytest.raises(ValueError, match=r"^mine: images must be uint8, from .*, got float64"):
        LabelledImages(images / 255, *rest)
    assert LabelledImages(images, *rest).resized(3).images.shape == (2, 3, 3, 1)
    assert LabelledImages(images, *rest).take([]).resized(3).images.shape == (0, 3, 3, 1)
