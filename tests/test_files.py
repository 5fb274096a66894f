"""A sealed folder tells any change of what it lists; a file is replaced whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.files import (
    HashedFile,
    check_format_version,
    damage,
    new_folder,
    replace_file,
    seal,
)


def sealed(folder: Path) -> Path:
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "weights").write_bytes(bytes(range(256)))
    (folder / "empty").write_bytes(b"")
    seal(folder, ["model/weights", "empty"])
    return folder


def test_what_is_as_it_was_is_whole(tmp_path: Path) -> None:
    folder = sealed(tmp_path / "a")
    assert damage(folder) is None
    (folder / "model" / ".DS_Store").write_text("a file manager's")
    assert damage(folder) is None


def test_a_change_is_named(tmp_path: Path) -> None:
    folder = sealed(tmp_path / "a")
    (folder / "model" / "weights").write_bytes(bytes(range(255)))
    assert str(damage(folder)) == "model/weights is damaged"
    sealed(tmp_path / "b")
    (tmp_path / "b" / "empty").unlink()
    assert str(damage(tmp_path / "b")) == "empty is missing"
    (tmp_path / "b" / "empty").mkdir()
    assert str(damage(tmp_path / "b")) == "empty: Is a directory"


def test_a_manifest_that_is_none_is_damage(tmp_path: Path) -> None:
    folder = sealed(tmp_path / "a")
    good = (folder / "manifest.json").read_bytes()
    old = good.replace(b'"format_version": 2', b'"format_version": 1')
    bad = (b"", b"[1]", b"{}", b"7", b'{"\\u0000": {}}', b"\xff", good + b" ", good[1:], old)
    for content in bad:
        (folder / "manifest.json").write_bytes(content)
        assert str(damage(folder)) == "manifest.json is damaged"
    (folder / "manifest.json").unlink()
    assert str(damage(folder)) == "manifest.json is missing"
    assert str(damage(tmp_path / "nowhere")) == "manifest.json is missing"


@pytest.mark.parametrize(
    "convert",
    [lambda files: {name: entry["sha256"] for name, entry in files.items()}, dict],
    ids=["version 0", "version 1"],
)
def test_manifests_of_earlier_versions_are_read(
    convert: Callable[[Any], dict[str, Any]], tmp_path: Path
) -> None:
    folder = sealed(tmp_path / "a")
    manifest = folder / "manifest.json"
    files = json.loads(manifest.read_bytes())["files"]
    manifest.write_text(json.dumps(convert(files), indent=2))
    assert damage(folder) is None
    (folder / "empty").write_bytes(b"1")
    assert str(damage(folder)) == "empty is damaged"


def test_newer_formats_are_refused(tmp_path: Path) -> None:
    folder = sealed(tmp_path / "a")
    (folder / "manifest.json").write_text('{"format_version": 3, "entries": []}')
    message = "has format_version 3, but this version of attention_zoo reads up to 2; upgrade"
    assert str(damage(folder)).startswith(f"manifest.json {message}")
    path = tmp_path / "task.json"
    check_format_version(path, {}, 2)
    check_format_version(path, {"format_version": 2}, 2)
    with pytest.raises(ValueError, match=f"task.json {message} attention_zoo"):
        check_format_version(path, {"format_version": 3}, 2)
    for version in ("2", True, None, -1):
        with pytest.raises(ValueError, match="format_version must be a positive integer, got"):
            check_format_version(path, {"format_version": version}, 2)


def test_a_file_is_replaced_whole_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    replace_file(path, "öld")
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, _full)
            with pytest.raises(OSError, match="No space"):
                replace_file(path, "new")
        assert path.read_text("utf-8") == "öld"
    replace_file(path, "new")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("log", "new")]


def test_a_folder_is_new_and_whole_or_gone(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    with new_folder(folder) as unfinished:
        (unfinished / "one").write_text("1")
        assert not folder.exists()
    assert [path.name for path in folder.iterdir()] == ["one"]
    assert folder.stat().st_mode & 0o777 == 0o755
    with pytest.raises(ValueError, match="er: already exists; choose"), new_folder(folder):
        pass
    with pytest.raises(OSError, match="No space"), new_folder(tmp_path / "new") as unfinished:
        _full((unfinished / "one").write_text("1"))
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]


def _full(*given: object) -> None:
    raise OSError(28, "No space left on device")


def test_what_a_sealed_folder_inside_says_is_not_read_again(tmp_path: Path) -> None:
    inside = tmp_path / "model"
    inside.mkdir()
    with HashedFile(inside / "weights") as file:
        assert file.write(memoryview(b"num")) == 3
        assert file.write(np.frombuffer(b"bers", "int16")) == 4
    assert (inside / "weights").read_bytes() == b"numbers"
    seal(inside, ["weights"], {"weights": file.entry})
    (tmp_path / "words").write_bytes(b"a b")
    seal(tmp_path, ["model/weights", "model/manifest.json", "words"])
    assert damage(inside) is None
    assert damage(tmp_path) is None
    (inside / "weights").write_bytes(b"nombers")
    found = damage(tmp_path)
    assert found is not None
    assert found.name == "model/weights"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
def test_a_full_disk_is_told_when_a_hashed_file_closes(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(OSError, match="No space"), HashedFile(Path("/dev/full")) as file:
        np.savez(file, some=np.ones(1000), more=np.ones(1000))
    file.close()
    assert not recwarn.list


def test_a_manifest_of_others_inside_says_nothing(tmp_path: Path) -> None:
    inside = tmp_path / "web"
    inside.mkdir()
    (inside / "a.js").write_bytes(b"script")
    for text in ("[1]", "no json", '{"a.js": "v1"}', '{"a.js": {"bytes": 5, "sha256": "?"}}'):
        (inside / "manifest.json").write_text(text)
        seal(tmp_path, ["web/a.js", "web/manifest.json"])
        assert damage(tmp_path) is None


def test_a_disk_that_cannot_be_read_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real = sealed(tmp_path / "it"), Path.read_bytes

    def read(path: Path) -> bytes:
        if path.name == "weights":
            raise OSError(5, "Input/output error")
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read)
    assert str(damage(folder)) == "model/weights: Input/output error"
