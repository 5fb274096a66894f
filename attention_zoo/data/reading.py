"""Lines of text files: numbered, gzipped or not, and refused by file:line where they are bad."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

_GZIP, _BYTE_ORDER_MARK = b"\x1f\x8b", b"\xef\xbb\xbf"


def numbered_lines(path: str | Path) -> Iterator[tuple[str, bytes]]:
    """`file:line` and the line's bytes, without its end ("\\n" or "\\r\\n").

    A gzipped file is known by its content; a byte order mark is ignored.

    Raises:
        ValueError: no such file, or damaged gzip data.
    """
    try:
        with open(path, "rb") as file:
            zipped = file.read(len(_GZIP)) == _GZIP
        with gzip.open(path) if zipped else open(path, "rb") as file:
            for number, raw in enumerate(file, 1):
                if number == 1:
                    raw = raw.removeprefix(_BYTE_ORDER_MARK)
                yield f"{path}:{number}", raw.removesuffix(b"\n").removesuffix(b"\r")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{path}: the gzip data is damaged or cut; fetch it again") from None
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None


def decoded(where: str, raw: bytes) -> str:
    """The bytes as text; ValueError unless they are UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{where}: not valid UTF-8 at byte {error.start}; convert the file to UTF-8"
        ) from None


def filled(where: str, text: str, what: str) -> str:
    """The text; ValueError where it is blank."""
    if not text.strip():
        raise ValueError(f"{where}: the {what} is empty")
    return text
