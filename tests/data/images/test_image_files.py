"""Files of folders and zips, and stacks of images of one size."""

from __future__ import annotations

import os
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.data.images.image_files import ImageStack, is_image, list_image_files
from tests.data.images.image_folders import write_folder, write_zip

CONTENTS = {"b.jpg": b"bb" * 99, "a/2.PNG": b"2", "a/10.png": b"10", "notes.txt": b"n"}
SYSTEM_FILES = {".DS_Store": b"", "__MACOSX/._b.jpg": b"x", "a/.2.PNG": b"y"}


def write_archive(path: Path, method: int = zipfile.ZIP_DEFLATED) -> Path:
    write_zip(path, CONTENTS | SYSTEM_FILES, method)
    with zipfile.ZipFile(path, "a") as archive:
        archive.mkdir("a")
    return path


@pytest.mark.parametrize("kind", ["folder", "stored", "deflated"])
def test_files_are_listed_by_name_and_read(tmp_path: Path, kind: str) -> None:
    method = zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED
    path = (
        write_folder(tmp_path / "f", CONTENTS | SYSTEM_FILES)
        if kind == "folder"
        else write_archive(tmp_path / "f.zip", method)
    )
    with list_image_files(path) as files:
        assert list(files) == sorted(CONTENTS)
        assert {name: read() for name, read in files.items()} == CONTENTS
        assert [name for name in files if is_image(name, files)] == ["a/10.png", "a/2.PNG", "b.jpg"]


def test_neither_folder_nor_zip_raises(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"no zip")
    with (
        pytest.raises(ValueError, match=r"a\.zip: neither a folder nor an intact zip"),
        list_image_files(tmp_path / "a.zip"),
    ):
        raise AssertionError
    with pytest.raises(ValueError, match="none: No such file"), list_image_files(tmp_path / "none"):
        raise AssertionError


def test_links_are_followed_without_cycles(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "f", CONTENTS | SYSTEM_FILES)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "3.png").write_bytes(b"3")
    (path / "linked").symlink_to(tmp_path / "other")
    (path / "a" / "up").symlink_to(path)
    (path / "gone.png").symlink_to(tmp_path / "nowhere.png")
    with list_image_files(path) as files:
        assert sorted(files) == sorted([*CONTENTS, "linked/3.png", "gone.png"])
        assert files["linked/3.png"]() == b"3"
        with pytest.raises(ValueError, match=r"f/gone\.png: No such file"):
            files["gone.png"]()


def test_zip_names_are_normalized_and_unique(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("./b.png", "/c/d.png", "//e.png"):
            archive.writestr(name, name)
    with list_image_files(tmp_path / "a.zip") as files:
        assert list(files) == ["b.png", "c/d.png", "e.png"]
        assert files["b.png"]() == b"./b.png"
    with zipfile.ZipFile(tmp_path / "a.zip", "a") as archive:
        archive.writestr("b.png", "another")
    with (
        pytest.raises(ValueError, match=r"a\.zip: has two files named 'b\.png'; repack it"),
        list_image_files(tmp_path / "a.zip"),
    ):
        raise AssertionError


def test_damaged_zip_errors_name_the_zip(tmp_path: Path) -> None:
    path, rng = tmp_path / "a.zip", np.random.default_rng(0)
    errors: list[str] = []
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        raw = write_archive(path, method).read_bytes()
        for _ in range(200):
            damaged = bytearray(raw)
            damaged[rng.integers(len(raw))] ^= int(rng.integers(1, 256))
            path.write_bytes(damaged)
            try:
                with list_image_files(path) as files:
                    assert all(len(read()) <= 200 for read in files.values())
            except ValueError as error:
                errors.append(str(error))
    assert len(errors) > 100
    assert [message for message in errors if not message.startswith(str(path))] == []


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_damaged_zip_entry_raises_with_file_name(tmp_path: Path, method: int) -> None:
    path = write_archive(tmp_path / "a.zip", method)
    raw = bytearray(path.read_bytes())
    offset = raw.index(b"b.jpg") + len("b.jpg")
    raw[offset : offset + 4] = b"\xff" * 4
    path.write_bytes(raw)
    with list_image_files(path) as files:
        assert files["a/2.PNG"]() == b"2"
        with pytest.raises(ValueError, match=r"a\.zip/b\.jpg: the zip data is damaged or trunc"):
            files["b.jpg"]()


def test_encrypted_zip_raises(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a.zip")
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"b.jpg") - 30 + 6] |= 1  # flags of the entry and of the central directory
    raw[raw.index(b"b.jpg", raw.index(b"PK\1\2")) - 46 + 8] |= 1
    path.write_bytes(raw)
    with (
        list_image_files(path) as files,
        pytest.raises(ValueError, match=r"b\.jpg: encrypted or compressed"),
    ):
        files["b.jpg"]()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unsupported_compression_raises(tmp_path: Path, method: int) -> None:
    with (
        list_image_files(write_archive(tmp_path / "a.zip", method)) as files,
        pytest.raises(ValueError, match=r"b\.jpg: encrypted or compressed .* with deflate"),
    ):
        files["b.jpg"]()


def test_no_more_than_the_declared_size_is_unpacked(tmp_path: Path) -> None:
    """The zip declares 1,000 bytes for 64 MiB of zeros."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", b"\0" * (1 << 26))
    raw = path.read_bytes()
    offset = raw.index(b"PK\1\2") + 24
    path.write_bytes(raw[:offset] + (1000).to_bytes(4, "little") + raw[offset + 4 :])
    tracemalloc.start()
    with (
        list_image_files(path) as files,
        pytest.raises(ValueError, match=r"a\.png: the zip data is dam"),
    ):
        files["a.png"]()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_is_image_uses_suffix_or_first_bytes(tmp_path: Path) -> None:
    image_files = {
        "a.PPM": b"x",
        "b.ico": b"x",
        "jpeg": b"\xff\xd8\xff..",
        "png": b"\x89PNG\r\n\x1a\n..",
    }
    for name, raw in (image_files | {"LICENSE": b"to all", "c.txt": b"\xff\xd8\xff"}).items():
        (tmp_path / name).write_bytes(raw)
    for name in ("Thumbs.db", "desktop.ini"):
        (tmp_path / name).write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to_pipe.png").symlink_to(tmp_path / "pipe")
    with list_image_files(tmp_path) as files:
        assert sorted(files) == sorted([*image_files, "LICENSE", "c.txt"])
        assert {name for name in files if is_image(name, files)} == set(image_files)


def test_unreadable_files_without_a_suffix_are_no_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attention_zoo.data.images.images.MAX_BYTES", 20)
    contents = {"a.png": b"x", "png": b"\x89PNG\r\n\x1a\n" + bytes(20), "LICENSE": b"to all" * 9}
    folder, path = write_folder(tmp_path / "f", contents), tmp_path / "a.zip"
    (folder / "latest").symlink_to("gone")
    write_zip(path, contents, zipfile.ZIP_STORED)
    path.write_bytes(path.read_bytes().replace(b"LICENSEto", b"LICENCEto"))
    for source in (folder, path):
        with list_image_files(source) as files:
            assert [name for name in sorted(files) if is_image(name, files)] == ["a.png", "png"]
            with pytest.raises(ValueError, match="more than 20 bytes; make the image smaller"):
                files["png"]()


def test_zip_entry_of_excessive_declared_size_raises(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", b"\0")
    raw = path.read_bytes()
    offset = raw.index(b"PK\1\2") + 24  # declared size of the file
    path.write_bytes(raw[:offset] + b"\xff\xff\xff\x7f" + raw[offset + 4 :])
    with (
        list_image_files(path) as files,
        pytest.raises(ValueError, match=r"a\.png: more than \d+ by"),
    ):
        files["a.png"]()


@pytest.mark.parametrize("count", [0, 1, 64, 65, 200])
def test_stack_returns_its_images(count: int) -> None:
    images = np.random.default_rng(0).integers(0, 256, (count, 2, 3, 1), np.uint8)
    stack = ImageStack()
    for number, image in enumerate(images):
        stack.add(str(number), image)
    np.testing.assert_array_equal(stack.images().reshape(images.shape), images)


def test_stack_raises_for_an_image_of_another_size() -> None:
    stack = ImageStack()
    stack.add("a.png", np.zeros((2, 3, 3), np.uint8))
    message = r"b\.png: has size 3 x 2 x 3, but a\.png has 2 x 3 x 3; set size"
    with pytest.raises(ValueError, match=message):
        stack.add("b.png", np.zeros((3, 2, 3), np.uint8))
    assert len(stack.images()) == 1


def test_stack_of_one_image_needs_no_extra_memory() -> None:
    stack, image = ImageStack(), np.zeros((1000, 1000, 3), np.uint8)
    stack.add("a.png", image)
    array = stack.images().base
    assert array is not None
    assert array.nbytes == image.nbytes


def test_stack_out_of_memory_raises_with_name(monkeypatch: Any) -> None:
    def raise_memory_error(arrays: Any) -> Any:
        raise MemoryError

    stack = ImageStack()
    stack.add("a.png", np.zeros((2, 3, 3), np.uint8))
    monkeypatch.setattr(np, "concatenate", raise_memory_error)
    with pytest.raises(ValueError, match=r"b\.png: out of memory after 1 images of this size"):
        stack.add("b.png", np.zeros((2, 3, 3), np.uint8))
