"""Files of folders and zips are found by the same names; images of one size are put together."""

from __future__ import annotations

import os
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.data.images.image_files import ImageStack, image_files, is_image
from tests.data.images.image_folders import folder, zipped

CONTENTS = {"b.jpg": b"bb" * 99, "a/2.PNG": b"2", "a/10.png": b"10", "notes.txt": b"n"}
ADDED = {".DS_Store": b"", "__MACOSX/._b.jpg": b"x", "a/.2.PNG": b"y"}


def packed(path: Path, method: int = zipfile.ZIP_DEFLATED) -> Path:
    zipped(path, CONTENTS | ADDED, method)
    with zipfile.ZipFile(path, "a") as archive:
        archive.mkdir("a")
    return path


@pytest.mark.parametrize("kind", ["folder", "stored", "deflated"])
def test_files_are_found_by_name_and_read(tmp_path: Path, kind: str) -> None:
    method = zipfile.ZIP_STORED if kind == "stored" else zipfile.ZIP_DEFLATED
    path = (
        folder(tmp_path / "f", CONTENTS | ADDED)
        if kind == "folder"
        else packed(tmp_path / "f.zip", method)
    )
    with image_files(path) as files:
        assert list(files) == sorted(CONTENTS)
        assert {name: read() for name, read in files.items()} == CONTENTS
        assert [name for name in files if is_image(name, files)] == ["a/10.png", "a/2.PNG", "b.jpg"]


def test_what_is_neither_folder_nor_zip_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"no zip")
    with (
        pytest.raises(ValueError, match=r"a\.zip: neither a folder nor an intact zip"),
        image_files(tmp_path / "a.zip"),
    ):
        raise AssertionError
    with pytest.raises(ValueError, match="none: No such file"), image_files(tmp_path / "none"):
        raise AssertionError


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    path = folder(tmp_path / "f", CONTENTS | ADDED)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "3.png").write_bytes(b"3")
    (path / "linked").symlink_to(tmp_path / "other")
    (path / "a" / "up").symlink_to(path)
    (path / "gone.png").symlink_to(tmp_path / "nowhere.png")
    with image_files(path) as files:
        assert sorted(files) == sorted([*CONTENTS, "linked/3.png", "gone.png"])
        assert files["linked/3.png"]() == b"3"
        with pytest.raises(ValueError, match=r"f/gone\.png: No such file"):
            files["gone.png"]()


def test_names_in_a_zip_are_made_plain_and_are_one_files_each(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("./b.png", "/c/d.png", "//e.png"):
            archive.writestr(name, name)
    with image_files(tmp_path / "a.zip") as files:
        assert list(files) == ["b.png", "c/d.png", "e.png"]
        assert files["b.png"]() == b"./b.png"
    with zipfile.ZipFile(tmp_path / "a.zip", "a") as archive:
        archive.writestr("b.png", "another")
    with (
        pytest.raises(ValueError, match=r"a\.zip: has two files named 'b\.png'; repack it"),
        image_files(tmp_path / "a.zip"),
    ):
        raise AssertionError


def test_whatever_byte_of_a_zip_is_wrong_the_zip_is_named(tmp_path: Path) -> None:
    path, rng = tmp_path / "a.zip", np.random.default_rng(0)
    refused: list[str] = []
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA):
        raw = packed(path, method).read_bytes()
        for _ in range(200):
            damaged = bytearray(raw)
            damaged[rng.integers(len(raw))] ^= int(rng.integers(1, 256))
            path.write_bytes(damaged)
            try:
                with image_files(path) as files:
                    assert all(len(read()) <= 200 for read in files.values())
            except ValueError as error:
                refused.append(str(error))
    assert len(refused) > 100
    assert [said for said in refused if not said.startswith(str(path))] == []


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_zip_is_refused_by_the_name_of_the_file(tmp_path: Path, method: int) -> None:
    path = packed(tmp_path / "a.zip", method)
    raw = bytearray(path.read_bytes())
    at = raw.index(b"b.jpg") + len("b.jpg")
    raw[at : at + 4] = b"\xff" * 4
    path.write_bytes(raw)
    with image_files(path) as files:
        assert files["a/2.PNG"]() == b"2"
        with pytest.raises(ValueError, match=r"a\.zip/b\.jpg: the zip data is damaged or trunc"):
            files["b.jpg"]()


def test_a_locked_zip_is_refused(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.zip")
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"b.jpg") - 30 + 6] |= 1  # the flags of the entry, there and in the list
    raw[raw.index(b"b.jpg", raw.index(b"PK\1\2")) - 46 + 8] |= 1
    path.write_bytes(raw)
    with (
        image_files(path) as files,
        pytest.raises(ValueError, match=r"b\.jpg: encrypted or compressed"),
    ):
        files["b.jpg"]()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_cannot_be_unpacked_bit_by_bit_is_refused(tmp_path: Path, method: int) -> None:
    with (
        image_files(packed(tmp_path / "a.zip", method)) as files,
        pytest.raises(ValueError, match=r"b\.jpg: encrypted or compressed .* with deflate"),
    ):
        files["b.jpg"]()


def test_no_more_is_unpacked_than_the_zip_says_that_there_is(tmp_path: Path) -> None:
    """64 MiB of zeros that are said to be 1,000 bytes."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", b"\0" * (1 << 26))
    raw = path.read_bytes()
    at = raw.index(b"PK\1\2") + 24
    path.write_bytes(raw[:at] + (1000).to_bytes(4, "little") + raw[at + 4 :])
    tracemalloc.start()
    with (
        image_files(path) as files,
        pytest.raises(ValueError, match=r"a\.png: the zip data is dam"),
    ):
        files["a.png"]()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1 << 20


def test_images_are_known_by_their_suffix_or_without_one_by_what_they_hold(tmp_path: Path) -> None:
    named = {"a.PPM": b"x", "b.ico": b"x", "jpeg": b"\xff\xd8\xff..", "png": b"\x89PNG\r\n\x1a\n.."}
    for name, raw in (named | {"LICENSE": b"to all", "c.txt": b"\xff\xd8\xff"}).items():
        (tmp_path / name).write_bytes(raw)
    for added in ("Thumbs.db", "desktop.ini"):
        (tmp_path / added).write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to_pipe.png").symlink_to(tmp_path / "pipe")
    with image_files(tmp_path) as files:
        assert sorted(files) == sorted([*named, "LICENSE", "c.txt"])
        assert {name for name in files if is_image(name, files)} == set(named)


def test_a_file_of_a_zip_that_would_be_enormous_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.png", b"\0")
    raw = path.read_bytes()
    at = raw.index(b"PK\1\2") + 24  # how long the file is said to be
    path.write_bytes(raw[:at] + b"\xff\xff\xff\x7f" + raw[at + 4 :])
    with image_files(path) as files, pytest.raises(ValueError, match=r"a\.png: more than \d+ by"):
        files["a.png"]()


@pytest.mark.parametrize("count", [0, 1, 64, 65, 200])
def test_a_stack_holds_its_images(count: int) -> None:
    made = np.random.default_rng(0).integers(0, 256, (count, 2, 3, 1), np.uint8)
    stack = ImageStack()
    for number, image in enumerate(made):
        stack.add(str(number), image)
    np.testing.assert_array_equal(stack.images().reshape(made.shape), made)


def test_a_stack_refuses_an_image_of_another_size() -> None:
    stack = ImageStack()
    stack.add("a.png", np.zeros((2, 3, 3), np.uint8))
    message = r"b\.png: has size 3 x 2 x 3, but a\.png has 2 x 3 x 3; set size"
    with pytest.raises(ValueError, match=message):
        stack.add("b.png", np.zeros((3, 2, 3), np.uint8))
    assert len(stack.images()) == 1


def test_a_stack_takes_the_room_of_what_it_holds() -> None:
    stack, image = ImageStack(), np.zeros((1000, 1000, 3), np.uint8)
    stack.add("a.png", image)
    held = stack.images().base
    assert held is not None
    assert held.nbytes == image.nbytes


def test_a_stack_that_memory_does_not_hold_is_refused_by_name(monkeypatch: Any) -> None:
    def none_left(arrays: Any) -> Any:
        raise MemoryError

    stack = ImageStack()
    stack.add("a.png", np.zeros((2, 3, 3), np.uint8))
    monkeypatch.setattr(np, "concatenate", none_left)
    with pytest.raises(ValueError, match=r"b\.png: out of memory after 1 images of this size"):
        stack.add("b.png", np.zeros((2, 3, 3), np.uint8))
