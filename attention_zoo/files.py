"""Files that are whole or not there, and folders whose damage is seen."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

MANIFEST = "manifest.json"


class Damage(NamedTuple):
    """A file of a sealed folder that is not as it was, and what is wrong with it."""

    name: str
    wrong: str

    def __str__(self) -> str:
        return self.name + self.wrong


def seal(folder: Path, names: Iterable[str]) -> None:
    """Writes the manifest of files of a folder: their sizes and SHA-256."""
    (folder / MANIFEST).write_bytes(_manifest({name: _entry(folder / name) for name in names}))


def damage(folder: Path) -> Damage | None:
    """What is wrong with a sealed folder; None if all that its manifest lists is as it was.

    Files that others put there, as file managers do, are no damage.
    """
    try:
        written = (folder / MANIFEST).read_bytes()
        listed = json.loads(written)
        found = {name: _entry(folder / name) for name in listed}
        if written == _manifest(found):
            return None
        changed = [name for name in sorted(listed) if listed[name] != found[name]]
    except OSError as error:
        name = Path(error.filename).relative_to(folder).as_posix()
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


def _manifest(files: dict[str, Any]) -> bytes:
    """The one text that lists these files."""
    return (json.dumps(files, indent=1, sort_keys=True) + "\n").encode()


def _entry(path: Path) -> dict[str, Any]:
    """What a manifest says of a file."""
    data = path.read_bytes()
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
