"""Images for `predict`, in all formats of image corpora."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attention_zoo.cli import predict
from attention_zoo.cli.image_inputs import find_image_format, list_images
from attention_zoo.cli.items import Item, Layout

COCO_LIST = json.dumps({"images": [{"file_name": "sub/b.png"}]})
ARRAYS = {"pixels": np.zeros((2, 3, 3), np.uint8), "labels": np.array([1, 0])}
COCO = {"images": [{"id": 1, "file_name": "b.png"}, {"id": 2}]}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a folder with `all/a.png` and `all/sub/b.png`, alone and in a zip."""
    monkeypatch.chdir(tmp_path)
    Path("all/sub").mkdir(parents=True)
    with zipfile.ZipFile("all.zip", "w") as archive:
        for name in ("a.png", "sub/b.png", "notes.txt"):
            Path("all", name).write_bytes(name.encode())
            archive.writestr(name, name)
    return tmp_path


def list_items(name: str, folders: Any = (), image: str = "image", **options: Any) -> list[Item]:
    layout = Layout(**{"format": "", **options})
    layout = replace(layout, format=find_image_format(name, layout, image))
    return list(list_images(name, layout, folders, image))


def read(name: str, *options: Any, **layout: Any) -> list[tuple[str, Any]]:
    return [(item.location, item.value) for item in list_items(name, *options, **layout)]


@pytest.mark.parametrize("name", ["all", "all.zip"])
def test_folders_and_zips(name: str) -> None:
    values = ["all/a.png", "all/sub/b.png"] if name == "all" else [b"a.png", b"sub/b.png"]
    assert read(name) == list(zip([f"{name}/a.png", f"{name}/sub/b.png"], values, strict=True))


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("list.txt", "sub/b.png\n", {}),
        ("list.csv", "id,image\n1,sub/b.png\n", {}),
        ("list.tsv", "file\nsub/b.png\n", {"fields": ("file",)}),
        ("list.jsonl", '{"image": "sub/b.png"}', {}),
        ("tokens", "sub/b.png#0\ta dog\nsub/b.png#1\ttwo dogs\n", {}),
        ("captions.json", COCO_LIST, {}),
        ("captions.json.gz", gzip.compress(COCO_LIST.encode(), mtime=0), {}),
        ("captions.txt", "image,caption\nsub/b.png,a dog\nsub/b.png,a cat\n", {}),
        ("list.csv", "image,caption\nsub/b.png,a dog\nsub/b.png,a cat\n", {}),
        ("list.tsv", "file\tcaption\n sub/b.png\ta dog\nsub/b.png\ta cat\n", {"fields": ("file",)}),
        ("list.txt", "image;caption\nsub/b.png;a dog\n", {"delimiter": ";"}),
        ("list.txt", '{"image": "sub/b.png", "captions": ["a dog"]}\n', {}),
        ("list.tsv", "sub/b.png#0\ta dog\n", {}),
        ("list.csv", "sub/b.png#0\ta dog, or two\n", {}),
        ("list.tsv", "image,caption\nsub/b.png,a dog\n", {}),
        ("list.csv", "caption, image \na dog, sub/b.png\na cat, sub/b.png\n", {}),
        ("list.txt", "caption , file\na dog, sub/b.png\n", {"image": "file"}),
        ("list.json", '{"image": "sub/b.png", "captions": ["a dog"]}\n', {"image": "file"}),
        ("list", "image\tn\nsub/b.png\t1\n", {"format": "tsv"}),
        ("a.png", "sub/b.png", {"format": "text"}),
    ],
)
@pytest.mark.parametrize("beside", [True, False])
def test_lists(name: str, content: str | bytes, options: dict[str, Any], beside: bool) -> None:
    """Names are relative to the folder of the list, or to that of the images."""
    path = f"all/{name}" if beside else name
    Path(path).write_bytes(content.encode() if isinstance(content, str) else content)
    ((location, value),) = read(path, [] if beside else ["all"], **options)
    assert value == os.path.join("all", "sub/b.png")
    assert location.startswith(f"{path}:")
    assert location.endswith(": sub/b.png")


def test_lists_without_captions_keep_repeated_images() -> None:
    Path("list.csv").write_text("image,n\na.png,1\na.png,2\n")
    Path("list.txt").write_text("a.png\nimage, b\na.png\n")
    assert [value for _, value in read("list.csv")] == ["a.png", "a.png"]
    assert [value for _, value in read("list.txt")] == ["a.png", "image, b", "a.png"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.jfif", b"x"),
        ("x.JPE", b"x"),
        ("x.gif", b"GIF89a"),
        ("x", b"\xff\xd8\xff\n\n"),
        ("x.txt", b"\x89PNG\r\n\x1a\n"),
        ("missing.png", None),
    ],
)
def test_images_are_recognized_by_suffix_or_first_bytes(name: str, content: bytes | None) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    assert read(name) == [(name, name)]


def test_binary_files_are_no_lists() -> None:
    Path("x.bin").write_bytes(b"GIF\0\n")
    with pytest.raises(ValueError, match=r"^x\.bin: is neither an image .* nor a list"):
        read("x.bin")


def test_folders_are_read_as_in_training() -> None:
    """System files are ignored, links are followed, and a folder is no image."""
    Path("all/._a.png").write_bytes(b"x")
    Path("all/__MACOSX").mkdir()
    Path("all/__MACOSX/a.png").write_bytes(b"x")
    Path("all/x.jpg").mkdir()
    Path("all/plain").write_bytes(b"\xff\xd8\xff")
    Path("other").mkdir()
    Path("other/c.jfif").write_bytes(b"c")
    Path("all/linked").symlink_to(Path("other").resolve())
    names = ["a.png", "linked/c.jfif", "plain", "sub/b.png"]
    assert [location for location, _ in read("all")] == [f"all/{name}" for name in names]


def test_entries_without_a_name_have_an_error() -> None:
    Path("a.json").write_text(json.dumps(COCO))
    _, item = list_items("a.json")
    assert (item.location, item.value) == ("a.json: images[1]", None)
    assert item.error == "has no field 'file_name' with the name of an image"


def test_arrays() -> None:
    np.savez("a.npz", **ARRAYS)
    np.savez("b.npz", **ARRAYS, others=ARRAYS["pixels"] + 1)
    assert [location for location, _ in read("a.npz")] == ["a.npz: image 1", "a.npz: image 2"]
    assert {image.shape for _, image in read("a.npz")} == {(3, 3, 1)}
    assert all((image == 1).all() for _, image in read("b.npz", fields=("others",)))
    with pytest.raises(ValueError, match=r"b.npz: name the array .* \(arrays: pixels, labels, oth"):
        read("b.npz")


def test_damaged_members_of_a_zip_have_an_error() -> None:
    raw = Path("all.zip").read_bytes().replace(b"sub/b.pngPK", b"sub/c.pngPK", 1)
    Path("all.zip").write_bytes(raw)
    first, second = list_items("all.zip")
    assert first.value == b"a.png"
    assert (second.location, bool(second.error)) == ("all.zip/sub/b.png", True)


def test_a_zip_without_images_raises() -> None:
    zipfile.ZipFile("none.zip", "w").close()
    with pytest.raises(ValueError, match=r"^none.zip: no file ends in .jpg"):
        read("none.zip")


@pytest.mark.parametrize(
    ("name", "content", "data"),
    [
        ("c.txt", "b.png#0\ta dog\nb.png#1\tone dog\n", {}),
        ("c.csv", "file;n\nb.png;a dog\nb.png;one dog\n", {"delimiter": ";", "caption": "n"}),
        ("c.txt", "file,caption\n\nb.png, a dog\n ,one dog\n", {}),
        ("c.jsonl", '{"image": "b.png", "captions": ["a dog"]}\n\n', {}),
        ("c.txt", "all/sub/b.png\n\n", {}),
    ],
)
def test_searched_images_are_listed_as_in_training(name: str, content: str, data: Any) -> None:
    Path(name).write_text(content)
    task = SimpleNamespace(build_index=lambda images, names: (images, names))
    data = {"corpus": "captions", "images": "all/sub", "image": "file", **data}
    assert predict._build_index(task, name, data) == (["all/sub/b.png"], ["all/sub/b.png"])


def test_a_list_of_no_searched_image_raises() -> None:
    Path("blank.txt").write_text("\n\n")
    with pytest.raises(ValueError, match=r"^--images blank\.txt: lists no image; pass"):
        predict._build_index(None, "blank.txt", {})
