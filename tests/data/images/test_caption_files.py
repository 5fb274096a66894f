"""Readers of captioned images from folders, zips and COCO JSON."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_zoo.data import CaptionedImages, read_captions, read_coco, read_image
from tests.data.images.image_folders import make_image_file, write_folder, write_zip
from tests.refusals import refuses

Corpus = list[tuple[str, bytes, list[str]]]
"""Name, bytes and captions of each image."""


CORPUS: Corpus = [
    ("z.jpg", make_image_file(0, kind="JPEG"), ["A dog runs .", "Ein Hund läuft ."]),
    ("sub/a.png", make_image_file(1), ["A cat ."]),
    ("b.PNG", make_image_file(2), ["Two\u2028birds .", "A bird and a bird .", "Birds ."]),
]


def make_json_lines(corpus: Corpus) -> bytes:
    rows = [{"image": name, "captions": texts, "more": 1} for name, _, texts in corpus]
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()


def make_coco(corpus: Corpus) -> dict[str, Any]:
    """Return COCO JSON in which captions of different images alternate."""
    images = [{"id": 7 * row, "file_name": name} for row, (name, _, _) in enumerate(corpus)]
    texts = [
        (index, 7 * row, text)
        for row, (*_, texts) in enumerate(corpus)
        for index, text in enumerate(texts)
    ]
    annotations = [{"image_id": row, "id": 1, "caption": text} for _, row, text in sorted(texts)]
    return {"info": {}, "images": images, "annotations": annotations}


def get_files(corpus: Corpus) -> dict[str, bytes]:
    return {name: raw for name, raw, _ in corpus}


def write_corpus_to_folder(path: Path, corpus: Corpus) -> tuple[Any, ...]:
    (write_folder(path / "folder", get_files(corpus)) / "captions.jsonl").write_bytes(
        make_json_lines(corpus)
    )
    return read_captions, path / "folder"


def write_corpus_to_gzipped_folder(path: Path, corpus: Corpus) -> tuple[Any, ...]:
    raw = gzip.compress(make_json_lines(corpus))
    (write_folder(path / "gzipped", get_files(corpus)) / "captions.jsonl.gz").write_bytes(raw)
    return read_captions, str(path / "gzipped")


def write_corpus_to_zip(path: Path, corpus: Corpus) -> tuple[Any, ...]:
    (path / "captions.jsonl").write_bytes(b"\xef\xbb\xbf" + make_json_lines(corpus) + b"\n")
    archive = write_zip(path / "a.zip", get_files(corpus), zipfile.ZIP_STORED)
    return read_captions, archive, path / "captions.jsonl"


def write_corpus_to_coco(path: Path, corpus: Corpus) -> tuple[Any, ...]:
    (path / "notes.json").write_text(json.dumps(make_coco(corpus), indent=1))
    return read_coco, write_folder(path / "coco", get_files(corpus)), path / "notes.json"


def write_corpus_to_zipped_coco(path: Path, corpus: Corpus) -> tuple[Any, ...]:
    (path / "notes.json.gz").write_bytes(gzip.compress(json.dumps(make_coco(corpus)).encode()))
    return read_coco, write_zip(path / "b.zip", get_files(corpus)), path / "notes.json.gz"


LAYOUTS: list[Callable[[Path, Corpus], tuple[Any, ...]]] = [
    write_corpus_to_folder,
    write_corpus_to_gzipped_folder,
    write_corpus_to_zip,
    write_corpus_to_coco,
    write_corpus_to_zipped_coco,
]


def assert_corpus(actual: CaptionedImages, corpus: Corpus, size: Any) -> None:
    expected = [read_image(raw, size) for _, raw, _ in corpus]
    np.testing.assert_array_equal(actual.images, expected)
    assert actual.names == [name for name, *_ in corpus]
    assert actual.captions == [tuple(texts) for *_, texts in corpus]
    assert actual.skipped == 0


@pytest.mark.parametrize("write_corpus", LAYOUTS)
@pytest.mark.parametrize("size", [None, (4, 6)])
def test_images_and_captions_are_read_in_order(
    tmp_path: Path, write_corpus: Any, size: Any
) -> None:
    read, *paths = write_corpus(tmp_path, CORPUS)
    corpus = read(*paths, size=size)
    assert_corpus(corpus, CORPUS, size)
    assert all(str(path) in corpus.origin for path in paths)
    assert_corpus(corpus.take([2, 0]), [CORPUS[2], CORPUS[0]], size)


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=9).map(lambda s: s + "x")
ROWS = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["PNG", "JPEG"]), st.lists(TEXTS, min_size=1)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=10)
@given(rows=ROWS, order=st.randoms(use_true_random=False))
def test_all_layouts_give_the_same_corpus(tmp_path_factory: Any, rows: Any, order: Any) -> None:
    corpus = [
        (
            f"{'é/' * (number % 2)}{row}.{kind}",
            make_image_file(number, (3 + number, 4, 3), kind),
            texts,
        )
        for row, (number, kind, texts) in enumerate(rows)
    ]
    order.shuffle(corpus)
    path = tmp_path_factory.mktemp("corpus")
    for write_corpus in LAYOUTS:
        read, *paths = write_corpus(path, corpus)
        assert_corpus(read(*paths, size=5), corpus, 5)


def make_line(name: str, *texts: str) -> bytes:
    return json.dumps({"image": name, "captions": list(texts)}).encode()


SKIP = ".*skip_bad=1 or more"


@refuses(
    (b"{", r"captions\.jsonl:4: not valid JSON" + SKIP),
    (b"[]", r"captions\.jsonl:4: not a JSON object" + SKIP),
    (b'{"img": "c.png"}', r":4: has no field 'image'; did you mean 'img'" + SKIP),
    (b'{"image": 3, "captions": ["a"]}', r":4: field 'image' must be .*, got 3;" + SKIP),
    (b'{"image": "c.png"}', r":4: has no field 'captions' \(fields: image\)" + SKIP),
    (make_line("c.png"), r":4: the field 'captions' is empty" + SKIP),
    (make_line("c.png", "a", " "), r":4: the field 'captions' is empty" + SKIP),
    (b'{"image": "c.png", "captions": [1]}', r":4: field 'captions' must be a s" + SKIP),
    (b'{"image": "c.png", "captions": "\xe9"}', r":4: not valid UTF-8" + SKIP),
    (make_line("d.png", "a"), r":4: image 'd\.png' is not in .*folder" + SKIP),
    (make_line("../c.png", "a"), r":4: image '\.\./c\.png' is not in .*folder" + SKIP),
    (make_line("b.PNG", "a"), r":4: image 'b\.PNG' is already .*captions\.jsonl:3; give" + SKIP),
)
def test_invalid_line_raises_with_location(raw: bytes, tmp_path: Path) -> None:
    _, path = write_corpus_to_folder(tmp_path, CORPUS)
    (path / "captions.jsonl").write_bytes(make_json_lines(CORPUS) + b"\n" + raw)
    (tmp_path / "c.png").write_bytes(make_image_file(9))
    corpus = read_captions(path, skip_bad=1)
    assert (corpus.names, corpus.skipped) == (["z.jpg", "sub/a.png", "b.PNG"], 1)
    read_captions(path)


@refuses(
    (make_image_file(9)[:-9], r"folder/c\.png: the PNG data is damaged or truncated" + SKIP),
    (b"a dog", r"folder/c\.png: is not in a known image format" + SKIP),
    (
        make_image_file(9, (7, 5, 3)),
        r"c\.png: has size 7 x 5 x 3, but .*z\.jpg has 5 x 7 x 3" + SKIP,
    ),
)
def test_invalid_image_raises_with_name(raw: bytes, tmp_path: Path) -> None:
    _, path = write_corpus_to_folder(tmp_path, [*CORPUS, ("c.png", raw, ["A dog ."])])
    corpus = read_captions(path, skip_bad=1)
    assert (corpus.names, len(corpus.images), corpus.skipped) == ([n for n, *_ in CORPUS], 3, 1)
    read_captions(path)


def test_image_without_caption_raises_with_name(tmp_path: Path) -> None:
    _, path = write_corpus_to_folder(tmp_path, CORPUS)
    write_folder(path, dict.fromkeys(("sub/c.JPEG", "d.gif", "notes.md"), b""))
    with pytest.raises(ValueError, match=r"folder/d\.gif: has no caption in .*captions\.jsonl"):
        read_captions(path)
    with pytest.raises(ValueError, match=r"folder/sub/c\.JPEG: has no caption .*skip_bad=2 or"):
        read_captions(path, skip_bad=1)
    corpus = read_captions(path, skip_bad=2)
    assert (len(corpus), corpus.skipped) == (3, 2)


def test_missing_captions_or_images_raise(tmp_path: Path) -> None:
    write_folder(tmp_path / "folder", get_files(CORPUS))
    archive = write_zip(tmp_path / "a.zip", get_files(CORPUS))
    with pytest.raises(ValueError, match=r"folder: has no captions\.jsonl; give the path"):
        read_captions(tmp_path / "folder")
    with pytest.raises(ValueError, match=r"a\.zip: not a folder, so it has no captions file"):
        read_captions(archive)
    with pytest.raises(ValueError, match=r"none\.jsonl: No such file"):
        read_captions(archive, tmp_path / "none.jsonl")
    (tmp_path / "captions.jsonl").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: no image with a caption"):
        read_captions(tmp_path / "empty", tmp_path / "captions.jsonl")
    with pytest.raises(ValueError, match="none: No such file"):
        read_captions(tmp_path / "none", tmp_path / "captions.jsonl")


def change_entry(key: str, index: int, **fields: Any) -> dict[str, Any]:
    content = make_coco(CORPUS)
    content[key][index] |= fields
    return {k: [e for e in v if e] if isinstance(v, list) else v for k, v in content.items()}


def add_entry(key: str, entry: Any) -> dict[str, Any]:
    content = make_coco(CORPUS)
    content[key].append(entry)
    return content


@refuses(
    ([], r"notes\.json: not a JSON object"),
    ({"annotations": []}, r"notes\.json: has no field 'images'"),
    ({"images": {}}, r"notes\.json: field 'images' must be a list"),
    (add_entry("images", 3), r"notes\.json: images\[3\]: not a JSON object"),
    (add_entry("images", {"id": 8}), r"images\[3\]: has no field 'file_name'"),
    (add_entry("images", {"file_name": "c.png"}), r"images\[3\]: has no field 'id'"),
    (add_entry("images", {"file_name": "c", "id": []}), r"images\[3\]: field 'id' must be an"),
    (add_entry("images", {"file_name": "c", "id": True}), r"images\[3\]: field 'id' must be an"),
    (add_entry("images", {"file_name": "c.png", "id": 7}), r"images\[3\]: id 7 is already .*\[1\]"),
    (change_entry("images", 0, file_name="y.jpg"), r"images\[0\]: image 'y\.jpg' is not in"),
    (change_entry("annotations", 2, image_id=9), r"annotations\[2\]: image_id 9 is not the id"),
    (change_entry("annotations", 1, caption=" "), r"annotations\[1\]: the field 'caption' is emp"),
    (add_entry("images", {"id": 8, "file_name": "d.png"}), r"coco/d\.png: has no caption"),
)
def test_invalid_annotations_raise_with_location(content: Any, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "coco", get_files(CORPUS))
    if "d.png" in str(content):
        write_folder(path, {"d.png": make_image_file(3)})
    (tmp_path / "notes.json").write_text(json.dumps(content))
    read_coco(path, tmp_path / "notes.json")


def test_invalid_annotations_are_skipped_and_counted(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "coco", get_files(CORPUS))
    (tmp_path / "notes.json").write_text(
        json.dumps(add_entry("annotations", {"image_id": 70, "caption": "a"}))
    )
    corpus = read_coco(path, tmp_path / "notes.json", skip_bad=1)
    assert (len(corpus), corpus.skipped) == (3, 1)
    assert corpus.captions == [tuple(texts) for *_, texts in CORPUS]


def test_invalid_annotation_is_skipped_as_a_whole(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "coco", get_files(CORPUS))
    annotations = add_entry("annotations", {"image_id": 7, "caption": ["half", " "]})
    (tmp_path / "notes.json").write_text(json.dumps(annotations))
    corpus = read_coco(path, tmp_path / "notes.json", skip_bad=1)
    assert corpus.captions == [tuple(texts) for *_, texts in CORPUS]


def test_invalid_size_is_not_skipped(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "coco", get_files(CORPUS))
    (tmp_path / "notes.json").write_text(json.dumps(make_coco(CORPUS)))
    (tmp_path / "lines.jsonl").write_bytes(make_json_lines(CORPUS))
    for read, file_name in ((read_coco, "notes.json"), (read_captions, "lines.jsonl")):
        with pytest.raises(ValueError, match=r"^size=0: expected one side or") as caught:
            read(path, tmp_path / file_name, size=0, skip_bad=9)
        assert "skip_bad" not in str(caught.value)


def test_invalid_json_raises_with_line(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"images":\n [}')
    with pytest.raises(ValueError, match=r"notes\.json: not valid JSON: .* at line 2, character 3"):
        read_coco(tmp_path, tmp_path / "notes.json")


PIXELS = np.zeros((2, 4, 4, 3), np.uint8)
FIELDS: dict[str, Any] = {
    "images": PIXELS,
    "captions": [("a",), ("b", "c")],
    "names": ["1", "2"],
    "origin": "mine",
    "boxes": [{}, {}],
}


@refuses(
    ({"names": ["1"]}, "^mine: .* per example, got 2 images, 2 captions, 1 names"),
    ({"captions": [("a",)]}, "^mine: .* per example, got 2 images, 1 captions, 2 names"),
    ({"boxes": [{}]}, "^mine: .* got 2 images, 2 captions, 2 names, 1 boxes"),
    ({"captions": [("a",), ()]}, "^mine: image 2 has no caption"),
    ({"captions": [("a",), "b"]}, "^mine: captions of image 2 must be a tuple, got a string"),
    ({"images": PIXELS / 255}, "^mine: images must be uint8, .* got float64"),
    ({"images": PIXELS[..., :1]}, r"^mine: images must be \(N, H, W, 3\), got .*\(2, 4, 4, 1\)"),
)
def test_inconsistent_fields_raise(changes: dict[str, Any]) -> None:
    assert len(CaptionedImages(**FIELDS).take([]).resize(3)) == 0
    CaptionedImages(**{**FIELDS, **changes})
