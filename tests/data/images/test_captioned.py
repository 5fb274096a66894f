"""The same images and captions come out of a folder, a zip and COCO's JSON; faults are named."""

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
from tests.data.images.image_folders import folder, picture, zipped
from tests.refusals import refuses

Corpus = list[tuple[str, bytes, list[str]]]
"""Of each image its name, its bytes and its captions."""


CORPUS: Corpus = [
    ("z.jpg", picture(0, kind="JPEG"), ["A dog runs .", "Ein Hund läuft ."]),
    ("sub/a.png", picture(1), ["A cat ."]),
    ("b.PNG", picture(2), ["Two\u2028birds .", "A bird and a bird .", "Birds ."]),
]


def json_lines(corpus: Corpus) -> bytes:
    rows = [{"image": name, "captions": texts, "more": 1} for name, _, texts in corpus]
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode()


def coco(corpus: Corpus) -> dict[str, Any]:
    """COCO's JSON, captions of different images in turn, as theirs are."""
    images = [{"id": 7 * row, "file_name": name} for row, (name, _, _) in enumerate(corpus)]
    texts = [
        (turn, 7 * row, text)
        for row, (*_, texts) in enumerate(corpus)
        for turn, text in enumerate(texts)
    ]
    notes = [{"image_id": row, "id": 1, "caption": text} for _, row, text in sorted(texts)]
    return {"info": {}, "images": images, "annotations": notes}


def files_of(corpus: Corpus) -> dict[str, bytes]:
    return {name: raw for name, raw, _ in corpus}


def in_a_folder(path: Path, corpus: Corpus) -> tuple[Any, ...]:
    (folder(path / "folder", files_of(corpus)) / "captions.jsonl").write_bytes(json_lines(corpus))
    return read_captions, path / "folder"


def in_a_folder_gzipped(path: Path, corpus: Corpus) -> tuple[Any, ...]:
    raw = gzip.compress(json_lines(corpus))
    (folder(path / "gzipped", files_of(corpus)) / "captions.jsonl.gz").write_bytes(raw)
    return read_captions, str(path / "gzipped")


def in_a_zip(path: Path, corpus: Corpus) -> tuple[Any, ...]:
    (path / "captions.jsonl").write_bytes(b"\xef\xbb\xbf" + json_lines(corpus) + b"\n")
    archive = zipped(path / "a.zip", files_of(corpus), zipfile.ZIP_STORED)
    return read_captions, archive, path / "captions.jsonl"


def in_coco(path: Path, corpus: Corpus) -> tuple[Any, ...]:
    (path / "notes.json").write_text(json.dumps(coco(corpus), indent=1))
    return read_coco, folder(path / "coco", files_of(corpus)), path / "notes.json"


def in_coco_zipped(path: Path, corpus: Corpus) -> tuple[Any, ...]:
    (path / "notes.json.gz").write_bytes(gzip.compress(json.dumps(coco(corpus)).encode()))
    return read_coco, zipped(path / "b.zip", files_of(corpus)), path / "notes.json.gz"


FORMS: list[Callable[[Path, Corpus], tuple[Any, ...]]] = [
    in_a_folder,
    in_a_folder_gzipped,
    in_a_zip,
    in_coco,
    in_coco_zipped,
]


def check(found: CaptionedImages, corpus: Corpus, size: Any) -> None:
    expected = [read_image(raw, size) for _, raw, _ in corpus]
    np.testing.assert_array_equal(found.images, expected)
    assert found.names == [name for name, *_ in corpus]
    assert found.captions == [tuple(texts) for *_, texts in corpus]
    assert found.skipped == 0


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [None, (4, 6)])
def test_images_and_captions_are_read_in_order(tmp_path: Path, form: Any, size: Any) -> None:
    read, *paths = form(tmp_path, CORPUS)
    found = read(*paths, size=size)
    check(found, CORPUS, size)
    assert all(str(path) in found.origin for path in paths)
    check(found.take([2, 0]), [CORPUS[2], CORPUS[0]], size)


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=9).map(lambda s: s + "x")
ROWS = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["PNG", "JPEG"]), st.lists(TEXTS, min_size=1)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=10)
@given(rows=ROWS, order=st.randoms(use_true_random=False))
def test_a_corpus_is_the_same_in_every_form(tmp_path_factory: Any, rows: Any, order: Any) -> None:
    corpus = [
        (f"{'é/' * (number % 2)}{row}.{kind}", picture(number, (3 + number, 4, 3), kind), texts)
        for row, (number, kind, texts) in enumerate(rows)
    ]
    order.shuffle(corpus)
    path = tmp_path_factory.mktemp("corpus")
    for form in FORMS:
        read, *paths = form(path, corpus)
        check(read(*paths, size=5), corpus, 5)


def line(name: str, *texts: str) -> bytes:
    return json.dumps({"image": name, "captions": list(texts)}).encode()


SKIP = ".*skip_bad=1 or more"


@refuses(
    (b"{", r"captions\.jsonl:4: not valid JSON" + SKIP),
    (b"[]", r"captions\.jsonl:4: the line is not a JSON object" + SKIP),
    (b'{"img": "c.png"}', r":4: has no field 'image'; did you mean 'img'" + SKIP),
    (b'{"image": 3, "captions": ["a"]}', r":4: field 'image' must be .*, got 3;" + SKIP),
    (b'{"image": "c.png"}', r":4: has no field 'captions' \(fields: image\)" + SKIP),
    (line("c.png"), r":4: the field 'captions' is empty" + SKIP),
    (line("c.png", "a", " "), r":4: the field 'captions' is empty" + SKIP),
    (b'{"image": "c.png", "captions": [1]}', r":4: field 'captions' must be a s" + SKIP),
    (b'{"image": "c.png", "captions": "\xe9"}', r":4: not valid UTF-8" + SKIP),
    (line("d.png", "a"), r":4: image 'd\.png' is not in .*folder" + SKIP),
    (line("../c.png", "a"), r":4: image '\.\./c\.png' is not in .*folder" + SKIP),
    (line("b.PNG", "a"), r":4: image 'b\.PNG' is already .*captions\.jsonl:3; give" + SKIP),
)
def test_a_bad_line_is_refused_with_its_place(raw: bytes, tmp_path: Path) -> None:
    _, path = in_a_folder(tmp_path, CORPUS)
    (path / "captions.jsonl").write_bytes(json_lines(CORPUS) + b"\n" + raw)
    (tmp_path / "c.png").write_bytes(picture(9))
    found = read_captions(path, skip_bad=1)
    assert (found.names, found.skipped) == (["z.jpg", "sub/a.png", "b.PNG"], 1)
    read_captions(path)


@refuses(
    (picture(9)[:-9], r"folder/c\.png: the PNG data is damaged or truncated" + SKIP),
    (b"a dog", r"folder/c\.png: is not in a known image format" + SKIP),
    (picture(9, (7, 5, 3)), r"c\.png: has size 7 x 5 x 3, but .*z\.jpg has 5 x 7 x 3" + SKIP),
)
def test_a_bad_image_is_refused_by_name(raw: bytes, tmp_path: Path) -> None:
    _, path = in_a_folder(tmp_path, [*CORPUS, ("c.png", raw, ["A dog ."])])
    found = read_captions(path, skip_bad=1)
    assert (found.names, len(found.images), found.skipped) == ([n for n, *_ in CORPUS], 3, 1)
    read_captions(path)


def test_an_image_without_caption_is_refused_by_name(tmp_path: Path) -> None:
    _, path = in_a_folder(tmp_path, CORPUS)
    folder(path, dict.fromkeys(("sub/c.JPEG", "d.gif", "notes.md"), b""))
    with pytest.raises(ValueError, match=r"folder/d\.gif: has no caption in .*captions\.jsonl"):
        read_captions(path)
    with pytest.raises(ValueError, match=r"folder/sub/c\.JPEG: has no caption .*skip_bad=2 or"):
        read_captions(path, skip_bad=1)
    found = read_captions(path, skip_bad=2)
    assert (len(found), found.skipped) == (3, 2)


def test_captions_or_images_that_are_not_there_are_refused(tmp_path: Path) -> None:
    folder(tmp_path / "folder", files_of(CORPUS))
    archive = zipped(tmp_path / "a.zip", files_of(CORPUS))
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


def changed(key: str, place: int, **fields: Any) -> dict[str, Any]:
    whole = coco(CORPUS)
    whole[key][place] |= fields
    return {k: [e for e in v if e] if isinstance(v, list) else v for k, v in whole.items()}


def more(key: str, entry: Any) -> dict[str, Any]:
    whole = coco(CORPUS)
    whole[key].append(entry)
    return whole


@refuses(
    ([], r"notes\.json: not a JSON object"),
    ({"annotations": []}, r"notes\.json: has no field 'images'"),
    ({"images": {}}, r"notes\.json: field 'images' must be a list"),
    (more("images", 3), r"notes\.json: images\[3\]: not a JSON object"),
    (more("images", {"id": 8}), r"images\[3\]: has no field 'file_name'"),
    (more("images", {"file_name": "c.png"}), r"images\[3\]: has no field 'id'"),
    (more("images", {"file_name": "c", "id": []}), r"images\[3\]: field 'id' must be an"),
    (more("images", {"file_name": "c", "id": True}), r"images\[3\]: field 'id' must be an"),
    (more("images", {"file_name": "c.png", "id": 7}), r"images\[3\]: id 7 is already .*\[1\]"),
    (changed("images", 0, file_name="y.jpg"), r"images\[0\]: image 'y\.jpg' is not in"),
    (changed("annotations", 2, image_id=9), r"annotations\[2\]: image_id 9 is not the id"),
    (changed("annotations", 1, caption=" "), r"annotations\[1\]: the field 'caption' is emp"),
    (more("images", {"id": 8, "file_name": "d.png"}), r"coco/d\.png: has no caption"),
)
def test_bad_annotations_are_refused_with_their_place(whole: Any, tmp_path: Path) -> None:
    path = folder(tmp_path / "coco", files_of(CORPUS))
    if "d.png" in str(whole):
        folder(path, {"d.png": picture(3)})
    (tmp_path / "notes.json").write_text(json.dumps(whole))
    read_coco(path, tmp_path / "notes.json")


def test_bad_annotations_are_left_out_and_counted(tmp_path: Path) -> None:
    path = folder(tmp_path / "coco", files_of(CORPUS))
    (tmp_path / "notes.json").write_text(
        json.dumps(more("annotations", {"image_id": 70, "caption": "a"}))
    )
    found = read_coco(path, tmp_path / "notes.json", skip_bad=1)
    assert (len(found), found.skipped) == (3, 1)
    assert found.captions == [tuple(texts) for *_, texts in CORPUS]


def test_of_a_bad_annotation_nothing_is_kept(tmp_path: Path) -> None:
    path = folder(tmp_path / "coco", files_of(CORPUS))
    half = more("annotations", {"image_id": 7, "caption": ["half", " "]})
    (tmp_path / "notes.json").write_text(json.dumps(half))
    found = read_coco(path, tmp_path / "notes.json", skip_bad=1)
    assert found.captions == [tuple(texts) for *_, texts in CORPUS]


def test_an_impossible_size_is_no_bad_image(tmp_path: Path) -> None:
    path = folder(tmp_path / "coco", files_of(CORPUS))
    (tmp_path / "notes.json").write_text(json.dumps(coco(CORPUS)))
    (tmp_path / "lines.jsonl").write_bytes(json_lines(CORPUS))
    for read, notes in ((read_coco, "notes.json"), (read_captions, "lines.jsonl")):
        with pytest.raises(ValueError, match=r"^size=0: expected one side or") as caught:
            read(path, tmp_path / notes, size=0, skip_bad=9)
        assert "skip_bad" not in str(caught.value)


def test_json_of_several_lines_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"images":\n [}')
    with pytest.raises(ValueError, match=r"notes\.json: not valid JSON: .* at line 2, character 3"):
        read_coco(tmp_path, tmp_path / "notes.json")


PIXELS = np.zeros((2, 4, 4, 3), np.uint8)
PARTS: dict[str, Any] = {
    "images": PIXELS,
    "captions": [("a",), ("b", "c")],
    "names": ["1", "2"],
    "origin": "mine",
    "boxes": [{}, {}],
}


@refuses(
    ({"names": ["1"]}, "^mine: names must .* per image, got 1 entries and 2 images"),
    ({"captions": [("a",)]}, "^mine: captions must .* per image, got 1 entries and 2"),
    ({"boxes": [{}]}, "^mine: boxes must .* per image, got 1 entries and 2 images"),
    ({"captions": [("a",), ()]}, "^mine: image 2 has no caption"),
    ({"captions": [("a",), "b"]}, "^mine: captions of image 2 must be a tuple, got a string"),
    ({"images": PIXELS / 255}, "^mine: images must be uint8, .* got float64"),
    ({"images": PIXELS[..., :1]}, r"^mine: images must be \(N, H, W, 3\), got .*\(2, 4, 4, 1\)"),
)
def test_parts_that_do_not_belong_together_are_refused(part: dict[str, Any]) -> None:
    assert len(CaptionedImages(**PARTS).take([]).resized(3)) == 0
    CaptionedImages(**{**PARTS, **part})
