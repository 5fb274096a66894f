"""Atomic file writes, and folders with a manifest of checksums."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from errno import ELOOP, ENOENT, ENOTDIR
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from attention_zoo.json_files import (
    MAX_BYTES,
    parse_strict_json,
    read_limited,
    read_strict_json,
)
from attention_zoo.registry import UnknownNameError

MANIFEST = "manifest.json"
MANIFEST_VERSION = 2  # 2: entries under "files"; 1: entries at top level; 0: only hashes

RETRAIN = "train again, or use the version of attention_zoo that wrote it"

Entry = dict[str, Any]
"""Manifest entry of a file: its size and SHA-256."""


class Damage(NamedTuple):
    """A file of a folder with a manifest that fails verification.

    Attributes:
        name: path of the file, relative to the folder.
        reason: text that follows the name, such as " is missing".
    """

    name: str
    reason: str

    def __str__(self) -> str:
        return self.name + self.reason


def write_manifest(
    folder: Path, names: Iterable[str] | None = None, known: Mapping[str, Entry] | None = None
) -> None:
    """Write the manifest of a folder: the size and SHA-256 of its files.

    Args:
        folder: the folder of the files, all of which were just written. If a subfolder has a
            manifest, its entries are reused for files of the listed size.
        names: paths of the files, relative to `folder`; None for all files.
        known: entries that are already known, as from `HashedFile.entry`. These files are not read
            again.
    """
    if names is None:
        files = (path for path in folder.rglob("*") if path.is_file())
        names = (path.relative_to(folder).as_posix() for path in files)
    names = [name for name in names if name != MANIFEST]
    known = {**_read_subfolder_entries(folder, names), **(known or {})}
    entries = {name: known.get(name) or _compute_entry(folder / name) for name in names}
    (folder / MANIFEST).write_bytes(_make_manifest(entries))


class HashedFile(io.RawIOBase):
    """A file that computes its manifest entry while it is written.

    `close` raises the errors of failed writes, such as those of a full disk. `write` does not
    raise, because `zipfile` (`numpy.savez`) would raise the error again when it closes.

    Args:
        path: path of the new file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("wb", buffering=0)
        self._digest, self._bytes = hashlib.sha256(), 0
        self._failure: OSError | None = None

    @property
    def entry(self) -> Entry:
        """Manifest entry of the data written so far: size and SHA-256."""
        return {"bytes": self._bytes, "sha256": self._digest.hexdigest()}

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        remaining = memoryview(data).cast("B")
        size = len(remaining)
        self._digest.update(remaining)
        self._bytes += size
        try:
            while self._failure is None and remaining:
                remaining = remaining[self._file.write(remaining) :]
        except OSError as error:
            self._failure = error
        return size

    def close(self) -> None:
        super().close()
        self._file.close()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure


def find_damage(folder: Path) -> Damage | None:
    """Return the first damage of a folder, or None if all files match its manifest.

    Files that the manifest does not list are ignored, since file managers add some. Manifests up to
    `MANIFEST_VERSION` are supported; a newer one is reported as damage. Only regular files inside
    the folder are read, and only if they have the listed size.
    """
    name, actual = MANIFEST, dict[str, Entry]()
    try:
        raw_manifest = read_limited(folder / MANIFEST)
        version, listed = _parse_manifest(parse_strict_json(raw_manifest))
        if version > MANIFEST_VERSION:
            return Damage(MANIFEST, f" {_describe_newer_version(version, MANIFEST_VERSION)}")
        for name, entry in listed.items():
            if not is_inside(name):
                return Damage(MANIFEST, f" lists {name!r}, which is outside of the folder")
            mode = (folder / name).stat().st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                return Damage(name, " is not a regular file")
            actual[name] = _compute_entry(folder / name, entry.get("bytes"))
        damaged = [n for n in sorted(listed) if {**actual[n], **listed[n]} != actual[n]]
        is_valid = bool(listed)
        if version == MANIFEST_VERSION:
            is_valid = raw_manifest == _make_manifest(actual)
    except FileNotFoundError:
        return Damage(name, " is missing")
    except OSError as error:
        return Damage(name, f": {error.strerror}")
    except (AttributeError, KeyError, TypeError, ValueError):
        damaged, is_valid = [], False
    if damaged or not is_valid:
        return Damage(damaged[0] if damaged else MANIFEST, " is damaged")
    return None


def is_inside(name: str) -> bool:
    """Return whether a relative path with `/` names a file inside of its folder on all systems."""
    path = PurePosixPath(name)
    is_relative = not path.is_absolute() and ".." not in path.parts
    return is_relative and "\\" not in name and name[1:2] != ":"


def check_format_version(path: Path | str, content: Mapping[str, Any], newest: int) -> None:
    """Raise ValueError if a file has a newer format than this package can read.

    Args:
        path: path of the file, for error messages.
        content: fields of the file. A file without `format_version` has version 1.
        newest: newest version that can be read.
    """
    version = content.get("format_version", 1)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"{path}: format_version must be a positive integer, got {version!r}")
    if version > newest:
        raise ValueError(f"{path} {_describe_newer_version(version, newest)}")


def read_json(path: Path, newest: int, fix: str, limit: int = MAX_BYTES) -> dict[str, Any]:
    """Return the fields of a JSON file, without its `format_version`.

    Args:
        path: the file.
        newest: newest version of its format that can be read.
        fix: what to do with a damaged file, for error messages.
        limit: maximum size of the file in bytes.

    Raises:
        ValueError: the file is damaged or too large, or it has a newer format.
        OSError: the file cannot be read.
    """
    try:
        content = read_strict_json(path, limit)
        if not isinstance(content, dict):
            raise ValueError(f"expected a JSON object, got {type(content).__name__}")
    except ValueError as error:
        raise ValueError(f"{path}: damaged ({error}); {fix}") from None
    check_format_version(path, content, newest)
    content.pop("format_version", None)
    return content


@contextmanager
def explain_outdated(path: Path, fix: str = RETRAIN) -> Iterator[None]:
    """Raise ValueError that names a file as outdated or edited if reading its fields fails.

    Args:
        path: the file.
        fix: what to do, for the error message.

    Raises:
        ValueError: a field is missing, unknown or invalid.
    """
    try:
        yield
    except UnknownNameError as error:
        raise ValueError(
            f"{path}: {error}; import the module that registers it first (on the command"
            f" line, --import MODULE); without such a module the file is outdated or edited: {fix}"
        ) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path}: outdated or edited ({reason}); {fix}") from error


def replace_file(path: Path, text: str) -> None:
    """Replace a file atomically.

    A process killed at any moment leaves the complete old text or the complete new text.
    """
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.write_text(text, encoding="utf-8")
        flush_to_disk(temporary)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    os.replace(temporary, path)


def check_can_create(folder: Path) -> None:
    """Raise OSError if a folder does not exist and cannot be created because of its parents."""
    if not folder.is_absolute():
        try:
            Path.cwd()
        except FileNotFoundError as error:
            reason = "the current folder was deleted; change to another one"
            raise FileNotFoundError(error.errno, reason, str(folder)) from None
    for path in (folder, *folder.parents):
        mode = read_mode(path)
        if mode is None and path.is_symlink():
            reason = f"is a link to {os.readlink(path)}, which does not exist"
            raise FileNotFoundError(ENOENT, reason, str(path))
        if mode is not None:
            if not stat.S_ISDIR(mode):
                raise NotADirectoryError(ENOTDIR, "is a file; use another folder", str(path))
            return


def read_mode(path: Path) -> int | None:
    """Return the mode of a file or folder, or None if it does not exist.

    A single `stat` call avoids a race with a process that creates or removes the file.
    """
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno not in (ENOENT, ENOTDIR, ELOOP):
            raise
        return None


@contextmanager
def create_folder(folder: str | Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `folder` on success and deleted on an error.

    Raises:
        ValueError: the folder exists.
    """
    folder = Path(os.path.expanduser(folder))
    if folder.exists():
        raise ValueError(f"{folder}: already exists; choose another folder")
    check_can_create(folder)
    existing_parent = next(parent for parent in folder.absolute().parents if parent.is_dir())
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=existing_parent))
    except OSError as error:
        reason = f"{error.strerror}; use another folder"
        raise OSError(error.errno, reason, str(existing_parent)) from None
    try:
        yield temporary
        os.chmod(temporary, 0o755)  # mkdtemp's folders are private to the owner
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.rename(temporary, folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def flush_to_disk(path: Path) -> None:
    """Flush a file or folder to disk, so that it survives a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_subfolder_entries(folder: Path, names: list[str]) -> dict[str, Entry]:
    """Return the entries in the manifests of subfolders that match the size of the file."""
    entries = {}
    for name in names:
        subfolder, _, file_name = name.rpartition("/")
        if file_name == MANIFEST and subfolder:
            # A manifest of another program is ignored.
            with suppress(AttributeError, KeyError, OSError, TypeError, ValueError):
                _, listed = _parse_manifest(read_strict_json(folder / name))
                for inner_name, entry in listed.items():
                    size = (folder / subfolder / inner_name).stat().st_size
                    if {*entry} == {"bytes", "sha256"} and entry["bytes"] == size:
                        entries[f"{subfolder}/{inner_name}"] = entry
    return entries


def _parse_manifest(content: Any) -> tuple[int, dict[str, Entry]]:
    """Return the version of a manifest and its entries."""
    version = content.get("format_version")
    if isinstance(version, int):
        if version < 2:
            raise ValueError("manifests of versions 0 and 1 have no format_version")
        return version, dict(content.get("files", {}))
    if all(isinstance(entry, str) for entry in content.values()):
        return 0, {name: {"sha256": digest} for name, digest in content.items()}
    return 1, {name: {"bytes": e["bytes"], "sha256": e["sha256"]} for name, e in content.items()}


def _describe_newer_version(version: int, newest: int) -> str:
    return (
        f"has format_version {version}, but this version of attention_zoo reads up to {newest};"
        " upgrade attention_zoo"
    )


def _make_manifest(files: dict[str, Any]) -> bytes:
    """Return the canonical manifest of these entries; `find_damage` compares it by bytes."""
    content = {"format_version": MANIFEST_VERSION, "files": files}
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


def _compute_entry(path: Path, expected_bytes: Any = None) -> Entry:
    """Return the entry of a file, without its SHA-256 if it has another size than expected."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if expected_bytes is not None and size != expected_bytes:
            return {"bytes": size}
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"bytes": file.tell(), "sha256": digest}
