"""Files that are whole or not there, and folders whose damage is seen."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

MANIFEST = "manifest.json"

Entry = dict[str, Any]
"""What a manifest says of a file."""


class Damage(NamedTuple):
    """A file of a sealed folder that is not as it was, and what is wrong with it."""

    name: str
    wrong: str

    def __str__(self) -> str:
        return self.name + self.wrong


def seal(folder: Path, names: Iterable[str], known: Mapping[str, Entry] | None = None) -> None:
    """Writes the manifest of files of a folder: their sizes and SHA-256.

    Args:
        folder: where they lie, all just written. What sealed folders inside say of theirs is taken
            from there, where it is of a file of that size.
        names: of them.
        known: what `write_and_hash` said of some, which are not read again.
    """
    names = list(names)
    known = {**_known_inside(folder, names), **(known or {})}
    entries = {name: known.get(name) or _entry(folder / name) for name in names}
    (folder / MANIFEST).write_bytes(_manifest(entries))


def write_and_hash(path: Path, data: memoryview) -> Entry:
    """Writes a large file, and meanwhile finds what a manifest says of it."""
    with ThreadPoolExecutor(1) as meanwhile:
        entry = meanwhile.submit(_entry_of, data)
        path.write_bytes(data)
        return entry.result()


def damage(folder: Path) -> Damage | None:
    """What is wrong with a sealed folder; None if all that its manifest lists is as it was.

    Files that others put there, as file managers do, are no damage.
    """
    name, found = MANIFEST, {}
    try:
        written = (folder / MANIFEST).read_bytes()
        listed = json.loads(written)
        for name in listed:
            found[name] = _entry(folder / name)
        if written == _manifest(found):
            return None
        changed = [name for name in sorted(listed) if listed[name] != found[name]]
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        return Damage(name, " is missing" if missing else f": {error.strerror}")
    except (ValueError, TypeError):
        changed = []
    return Damage(changed[0] if changed else MANIFEST, " is damaged")


def replace_file(path: Path, text: str) -> None:
    """Writes a file anew: killed at any moment, the old text or the new one is there, whole."""
    fresh = path.with_name(path.name + ".new")
    try:
        fresh.write_text(text, encoding="utf-8")
        to_disk(fresh)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    os.replace(fresh, path)


@contextmanager
def new_folder(folder: str | Path) -> Iterator[Path]:
    """A folder to write into, which takes its name when all is written, or is gone.

    Raises:
        ValueError: the folder exists.
    """
    folder = Path(folder)
    if folder.exists():
        raise ValueError(f"{folder}: exists already; name a folder that does not")
    there = next(parent for parent in folder.absolute().parents if parent.is_dir())
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=there))
    try:
        yield unfinished
        os.chmod(unfinished, 0o755)  # mkdtemp's folders are the owner's alone
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.rename(unfinished, folder)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def to_disk(path: Path) -> None:
    """Waits until a file or folder is on the disk, where a power cut leaves it."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _known_inside(folder: Path, names: list[str]) -> dict[str, Entry]:
    """What the manifests of folders inside say."""
    found = {}
    for name in names:
        inside, _, last = name.rpartition("/")
        if last == MANIFEST and inside:
            listed = _listed(folder / name)
            found.update({f"{inside}/{one}": entry for one, entry in listed.items()})
    sizes = {name: (folder / name).stat().st_size for name in names if name in found}
    return {name: found[name] for name, size in sizes.items() if _is_entry(found[name], size)}


def _listed(path: Path) -> dict[str, Any]:
    """What a manifest lists; nothing if it is no manifest of ours."""
    try:
        listed = json.loads(path.read_bytes())
    except ValueError:
        return {}
    return listed if isinstance(listed, dict) else {}


def _is_entry(entry: Any, size: int) -> bool:
    return isinstance(entry, dict) and {*entry} == {"bytes", "sha256"} and entry["bytes"] == size


def _manifest(files: dict[str, Any]) -> bytes:
    """The one text that lists these files."""
    return (json.dumps(files, indent=1, sort_keys=True) + "\n").encode()


def _entry(path: Path) -> Entry:
    return _entry_of(path.read_bytes())


def _entry_of(data: bytes | memoryview) -> Entry:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
