"""Manifests detect changes of files; files and folders are written atomically."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo.files import (
    HashedFile,
    check_format_version,
    create_folder,
    find_damage,
    replace_file,
    write_manifest,
)


def make_folder_with_manifest(folder: Path) -> Path:
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "weights").write_bytes(bytes(range(256)))
    (folder / "empty").write_bytes(b"")
    write_manifest(folder, ["model/weights", "empty"])
    return folder


def test_unchanged_folder_has_no_damage(tmp_path: Path) -> None:
    folder = make_folder_with_manifest(tmp_path / "a")
    assert find_damage(folder) is None
    (folder / "model" / ".DS_Store").write_text("a file manager's")
    assert find_damage(folder) is None


def test_find_damage_names_the_file(tmp_path: Path) -> None:
    folder = make_folder_with_manifest(tmp_path / "a")
    (folder / "model" / "weights").write_bytes(bytes(range(255)))
    assert str(find_damage(folder)) == "model/weights is damaged"
    make_folder_with_manifest(tmp_path / "b")
    (tmp_path / "b" / "empty").unlink()
    assert str(find_damage(tmp_path / "b")) == "empty is missing"
    (tmp_path / "b" / "empty").mkdir()
    assert str(find_damage(tmp_path / "b")) == "empty: Is a directory"


def test_invalid_manifest_is_damage(tmp_path: Path) -> None:
    folder = make_folder_with_manifest(tmp_path / "a")
    good = (folder / "manifest.json").read_bytes()
    old = good.replace(b'"format_version": 2', b'"format_version": 1')
    bad = (b"", b"[1]", b"{}", b"7", b'{"\\u0000": {}}', b"\xff", good + b" ", good[1:], old)
    for content in bad:
        (folder / "manifest.json").write_bytes(content)
        assert str(find_damage(folder)) == "manifest.json is damaged"
    (folder / "manifest.json").unlink()
    assert str(find_damage(folder)) == "manifest.json is missing"
    assert str(find_damage(tmp_path / "nowhere")) == "manifest.json is missing"


@pytest.mark.parametrize(
    "convert",
    [lambda files: {name: entry["sha256"] for name, entry in files.items()}, dict],
    ids=["version 0", "version 1"],
)
def test_manifests_of_earlier_versions_are_read(
    convert: Callable[[Any], dict[str, Any]], tmp_path: Path
) -> None:
    folder = make_folder_with_manifest(tmp_path / "a")
    manifest = folder / "manifest.json"
    files = json.loads(manifest.read_bytes())["files"]
    manifest.write_text(json.dumps(convert(files), indent=2))
    assert find_damage(folder) is None
    (folder / "empty").write_bytes(b"1")
    assert str(find_damage(folder)) == "empty is damaged"


def test_newer_formats_raise(tmp_path: Path) -> None:
    folder = make_folder_with_manifest(tmp_path / "a")
    (folder / "manifest.json").write_text('{"format_version": 3, "entries": []}')
    message = "has format_version 3, but this version of attention_zoo reads up to 2; upgrade"
    assert str(find_damage(folder)).startswith(f"manifest.json {message}")
    path = tmp_path / "task.json"
    check_format_version(path, {}, 2)
    check_format_version(path, {"format_version": 2}, 2)
    with pytest.raises(ValueError, match=f"task.json {message} attention_zoo"):
        check_format_version(path, {"format_version": 3}, 2)
    for version in ("2", True, None, -1):
        with pytest.raises(ValueError, match="format_version must be a positive integer, got"):
            check_format_version(path, {"format_version": version}, 2)


def test_replace_file_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    replace_file(path, "öld")
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, _full)
            with pytest.raises(OSError, match="No space"):
                replace_file(path, "new")
        assert path.read_text("utf-8") == "öld"
    replace_file(path, "new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("log", "new")]


@pytest.mark.parametrize("parent", ["file", "link"])
def test_create_folder_checks_the_parents_first(parent: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    with (
        pytest.raises(OSError, match=r"is a (file|link to nowhere)"),
        create_folder(tmp_path / parent / "new"),
    ):
        pytest.fail("the content must not be computed")


def test_create_folder_names_the_folder_without_permission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(prefix: str, dir: Path) -> None:
        raise PermissionError(13, "Permission denied", f"{dir}/{prefix}xyz")

    monkeypatch.setattr(tempfile, "mkdtemp", deny)
    with pytest.raises(PermissionError) as caught, create_folder(tmp_path / "new"):
        pytest.fail("the content must not be computed")
    assert caught.value.filename == str(tmp_path)
    assert caught.value.strerror == "Permission denied; use another folder"


def test_create_folder_is_atomic(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    with create_folder(folder) as unfinished:
        (unfinished / "one").write_text("1")
        assert not folder.exists()
    assert [path.name for path in folder.iterdir()] == ["one"]
    assert folder.stat().st_mode & 0o777 == 0o755
    with pytest.raises(ValueError, match="er: already exists; choose"), create_folder(folder):
        pass
    with pytest.raises(OSError, match="No space"), create_folder(tmp_path / "new") as unfinished:
        _full((unfinished / "one").write_text("1"))
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]


def _full(*given: object) -> None:
    raise OSError(28, "No space left on device")


def test_entries_of_subfolder_manifests_are_reused(tmp_path: Path) -> None:
    subfolder = tmp_path / "model"
    subfolder.mkdir()
    with HashedFile(subfolder / "weights") as file:
        assert file.write(memoryview(b"num")) == 3
        assert file.write(np.frombuffer(b"bers", "int16")) == 4
    assert (subfolder / "weights").read_bytes() == b"numbers"
    write_manifest(subfolder, ["weights"], {"weights": file.entry})
    (tmp_path / "words").write_bytes(b"a b")
    write_manifest(tmp_path, ["model/weights", "model/manifest.json", "words"])
    assert find_damage(subfolder) is None
    assert find_damage(tmp_path) is None
    (subfolder / "weights").write_bytes(b"nombers")
    damage = find_damage(tmp_path)
    assert damage is not None
    assert damage.name == "model/weights"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
def test_hashed_file_raises_at_close_on_a_full_disk(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(OSError, match="No space"), HashedFile(Path("/dev/full")) as file:
        np.savez(file, some=np.ones(1000), more=np.ones(1000))
    file.close()
    assert not recwarn.list


def test_foreign_manifests_in_subfolders_are_ignored(tmp_path: Path) -> None:
    subfolder = tmp_path / "web"
    subfolder.mkdir()
    (subfolder / "a.js").write_bytes(b"script")
    for text in ("[1]", "no json", '{"a.js": "v1"}', '{"a.js": {"bytes": 5, "sha256": "?"}}'):
        (subfolder / "manifest.json").write_text(text)
        write_manifest(tmp_path, ["web/a.js", "web/manifest.json"])
        assert find_damage(tmp_path) is None


def test_unreadable_file_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, real = make_folder_with_manifest(tmp_path / "it"), Path.open

    def open_file(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.name == "weights":
            raise OSError(5, "Input/output error")
        return real(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", open_file)
    assert str(find_damage(folder)) == "model/weights: Input/output error"


def test_manifest_of_all_files_does_not_list_itself(tmp_path: Path) -> None:
    folder = make_folder_with_manifest(tmp_path / "a")
    for _ in range(2):
        write_manifest(folder)
        assert find_damage(folder) is None
    (folder / "empty").write_bytes(b"x")
    assert find_damage(folder) is not None
