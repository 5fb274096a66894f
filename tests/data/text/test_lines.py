"""Reader of plain text lines."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from attention_zoo.data import TextLines, generate_date_lines, generate_dates, read_lines
from tests.refusals import refuses


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("is_gzipped", [False, True])
def test_read_lines_skips_blank_lines(tmp_path: Path, end: bytes, is_gzipped: bool) -> None:
    content = end.join([b"\xef\xbb\xbfA caf\xc3\xa9.", b"", b" \t", b"two\xe2\x80\xa8lines", b""])
    path = tmp_path / "text"
    path.write_bytes(gzip.compress(content) if is_gzipped else content)
    lines = read_lines(path)
    assert lines.texts == ["A café.", "two\u2028lines"]
    assert lines.origin == str(path)
    assert lines.locations() == [f"{path}:1", f"{path}:4"]
    assert list(lines) == lines.texts
    assert len(lines) == 2


def test_take_keeps_line_numbers() -> None:
    lines = TextLines(["a", "b", "c"], "here")
    selected = lines.take(iter([2, 0]))
    assert selected == TextLines(["c", "a"], "here", [3, 1])
    assert selected.locations() == ["here:3", "here:1"]
    assert selected.take([1]).locations() == ["here:1"]
    assert lines.take([]).locations() == []


@refuses(
    (b"", "/text: no line contains text"),
    (b"\n \n", "/text: no line contains text"),
    (b"a\n\ncaf\xe9\n", "/text:3: not valid UTF-8 at byte 4"),
    (gzip.compress(b"a line")[:-4], "/text: the gzip data is damaged or truncated"),
    (b"PK\x03\x04\x14\0", "/text: is a zip file; unpack it, or compress it with gzip, bzip2 or xz"),
    (b"\x28\xb5\x2f\xfd\x04\0", "/text: is compressed by zstd; unpack it"),
)
def test_invalid_files_raise(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(content)
    read_lines(tmp_path / "text")


def test_bad_lines_are_skipped_in_all_files(tmp_path: Path) -> None:
    for name, content in {"a": b"one\ncaf\xe9\n", "b": b"\n\xff\ntwo\n"}.items():
        (tmp_path / name).write_bytes(content)
    paths = [tmp_path / "a", tmp_path / "b"]
    lines = read_lines(paths, skip_bad=2)
    assert (lines.texts, lines.skipped) == (["one", "two"], 2)
    assert lines.locations() == [f"{tmp_path}/a:1", f"{tmp_path}/b:3"]
    assert lines.take([1]).locations() == [f"{tmp_path}/b:3"]
    with pytest.raises(ValueError, match="/b:2: not valid UTF-8"):
        read_lines(paths, skip_bad=1)


def test_missing_file_raises(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere: No such file"):
        read_lines(tmp_path / "nowhere")


@pytest.mark.parametrize("language", ["en", "fr", "zh"])
def test_date_lines_equal_one_side_of_the_pairs(language: str) -> None:
    lines = generate_date_lines(20, language, "test", seed=3, max_phrases=2)
    pairs = generate_dates(20, "en", "fr", "test", seed=3, max_phrases=2)
    assert len(set(lines)) == len(lines) == 20
    if language != "zh":
        assert lines.texts == (pairs.sources if language == "en" else pairs.targets)
    assert lines.origin == f"dates {language} test (seed 3)"
    with pytest.raises(ValueError, match="dates: unknown language 'eng'; did you mean 'en'"):
        generate_date_lines(1, "eng")
