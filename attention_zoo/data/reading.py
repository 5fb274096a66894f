"""Folders, and lines of text and JSON files, compressed or not, with errors at file:line."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import re
import stat
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

from attention_zoo.data.progress import log_progress
from attention_zoo.json_files import MAX_VALUES, check_value_count
from attention_zoo.registry import did_you_mean

Paths = str | Path | Sequence[str | Path]
"""One file, or several files that are read in order."""
Line = tuple[str, bytes]
"""`file:line` and the bytes of the line."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_COMPRESSIONS = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bzip2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
}
"""First bytes of compressed files."""
_UNSUPPORTED_FORMATS = {
    b"PK\x03\x04": "a zip file",
    b"PK\x05\x06": "an empty zip file",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"\x04\x22\x4d\x18": "compressed by lz4",
    b"7z\xbc\xaf\x27\x1c": "a 7z file",
    b"Rar!\x1a\x07": "a RAR file",
}
"""Descriptions of unsupported file formats, by their first bytes."""
_DECOMPRESSORS: dict[str, Callable[[Any], Any]] = {
    "gzip": gzip.open,
    "bzip2": bz2.open,
    "xz": lzma.open,
}


MAX_LINE_BYTES = 1 << 24
"""Maximum size of a line, such as a row of JSON lines. Each is in memory as a whole."""
MAX_RATIO = 100
"""Maximum ratio of the unpacked and the compressed size of a file. That of texts is below 30, so
that a file of any size can be read, and one of some kilobytes cannot fill the memory."""
MIN_CHECKED_BYTES = 1 << 18
"""Unpacked size up to which a file may be compressed by any ratio."""


def list_paths(paths: Paths) -> list[str]:
    """Return the paths as a list of strings; raise ValueError if there are none."""
    files = [str(paths)] if isinstance(paths, str | Path) else [str(path) for path in paths]
    if not files:
        raise ValueError("the list of files is empty; name at least one")
    return files


def describe_paths(paths: Paths) -> str:
    """Return the paths in one line, shortened if there are more than three."""
    files = list_paths(paths)
    more = f", ... ({len(files)} files)" if len(files) > 3 else ""
    return ", ".join(files[:2] if more else files) + more


def read_raw_lines(path: str | Path, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """Yield `file:line` and the line's bytes with its end. Only "\\n" ends a line.

    A file compressed by gzip, bzip2 or xz is detected by its content. A byte order mark is removed.

    Args:
        path: the file.
        max_line_bytes: maximum size of a line.

    Raises:
        ValueError: a missing file, damaged compressed data, an unsupported format, a line above the
            maximum size, or compressed data that unpack to more than `MAX_RATIO` times their size.
    """
    if "\0" in str(path):
        raise ValueError(f"{str(path)!r}: the path contains a null character; remove it")
    name = ""
    try:
        with open(path, "rb") as file:
            head = file.peek(10)
            _refuse_unsupported_format(path, head)
            name = next((name for name, start in _COMPRESSIONS.items() if start.match(head)), "")
            stream = _DECOMPRESSORS[name](file) if name else file
            state = os.fstat(file.fileno())
            is_checked = name and stat.S_ISREG(state.st_mode)  # the size of a pipe is unknown
            limit = max(MIN_CHECKED_BYTES, MAX_RATIO * state.st_size) if is_checked else sys.maxsize
            lines = _limit_lines(path, stream, max_line_bytes, limit)
            for number, raw in enumerate(log_progress(lines, str(path), "lines"), 1):
                if number == 1:
                    raw = raw.removeprefix(_BYTE_ORDER_MARK)
                yield f"{path}:{number}", raw
    except MemoryError:  # an xz file declares the size of its dictionary
        raise ValueError(f"{path}: does not fit into memory; give a smaller file") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        reason = getattr(error, "strerror", None)  # decompressors raise errors without it
        damage = f"the {name} data is damaged or truncated; download it again"
        raise ValueError(f"{path}: {reason or damage}") from None


def _limit_lines(
    path: str | Path, stream: BinaryIO, max_line_bytes: int, max_bytes: int
) -> Iterator[bytes]:
    """Yield the lines of a stream; raise ValueError for a long line, or more than `max_bytes`."""
    number, remaining = 1, max_bytes
    while raw := stream.readline(min(max_line_bytes, remaining) + 1):
        remaining -= len(raw)
        if remaining < 0:
            raise ValueError(
                f"{path}:{number}: the compressed data unpack to more than {max_bytes:,} bytes,"
                f" {MAX_RATIO} times their size; unpack the file if you trust it"
            )
        if len(raw) > max_line_bytes:
            raise ValueError(
                f"{path}:{number}: the line has more than {max_line_bytes:,} bytes; split it"
            )
        yield raw
        number += 1


def _refuse_unsupported_format(path: str | Path, head: bytes) -> None:
    """Raise ValueError if the first bytes of a file are those of an unsupported format."""
    for start, name in _UNSUPPORTED_FORMATS.items():
        if head.startswith(start):
            raise ValueError(f"{path}: is {name}; unpack it, or compress it with gzip, bzip2 or xz")


def read_numbered_lines(paths: Paths, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """Yield `file:line` and the line's bytes, without its end ("\\n" or "\\r\\n"), of all files."""
    for path in list_paths(paths):
        for location, raw in read_raw_lines(path, max_line_bytes):
            yield location, raw.removesuffix(b"\n").removesuffix(b"\r")


def decode_utf8(location: str, raw: bytes) -> str:
    """Return the bytes as text; raise ValueError unless they are UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{location}: not valid UTF-8 at byte {error.start + 1}; convert the file to UTF-8"
        ) from None


def is_system_file(name: str) -> bool:
    """Return whether a file or folder is one that an operating system adds."""
    is_named_by_system = name.lower() in ("thumbs.db", "desktop.ini")
    return is_named_by_system or (name.startswith((".", "__MACOSX")) and name != "..")


def walk_files(folder: Path, parents: frozenset[str] = frozenset()) -> Iterator[Path]:
    """Yield the files of a folder and its subfolders, including broken links."""
    resolved = os.path.realpath(folder)
    if resolved in parents:
        return
    try:
        entries = list(folder.iterdir())
    except OSError as error:
        raise ValueError(f"{folder}: {error.strerror}") from None
    for entry in entries:
        if is_system_file(entry.name):
            continue
        if entry.is_dir():
            yield from walk_files(entry, parents | {resolved})
        elif entry.is_file() or not entry.exists():
            yield entry


def get_first_line(error: BaseException) -> str:
    """Return the first line of an error's message that is not blank, or the error's repr."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), repr(error))


def check_not_blank(location: str, text: str, what: str) -> str:
    """Return the text; raise ValueError if it is blank."""
    if not text.strip():
        raise ValueError(f"{location}: the {what} is empty")
    return text


class _RepeatedFieldError(Exception):
    """A JSON object has two fields of the same name."""


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise _RepeatedFieldError(name)
    return content


def parse_json(location: str, text: str, max_values: int = MAX_VALUES) -> Any:
    """Parse a JSON text; raise ValueError if it is invalid or may have more than `max_values`."""
    try:
        check_value_count(text, max_values)
    except ValueError as error:
        raise ValueError(f"{location}: {error}; split it") from None
    try:
        return json.loads(text, object_pairs_hook=_make_object)
    except _RepeatedFieldError as error:
        raise ValueError(f"{location}: field {str(error)!r} is repeated; keep one") from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        reason = f"{error.msg} at {line}character {error.colno}"
        raise ValueError(f"{location}: not valid JSON: {reason}") from None
    except ValueError:
        raise ValueError(f"{location}: not valid JSON: a number has too many digits") from None
    except RecursionError:
        raise ValueError(f"{location}: not valid JSON: nested too deeply") from None


def parse_json_object(location: str, text: str, max_values: int = MAX_VALUES) -> dict[str, Any]:
    """Return the JSON object of a text; raise ValueError as `parse_json`, or if there is none."""
    return check_object(location, parse_json(location, text, max_values))


def check_object(location: str, value: Any) -> dict[str, Any]:
    """Return a value of a JSON text; raise ValueError if it is not an object."""
    if not isinstance(value, dict):
        raise ValueError(f"{location}: not a JSON object; expected {{...}}")
    return value


def get_field(location: str, row: dict[str, Any], name: str) -> Any:
    """Return a field of a JSON object; raise ValueError, listing the fields, if it is missing."""
    if name not in row:
        fields = f"{did_you_mean(name, row)} (fields: {', '.join(row)})"
        raise ValueError(f"{location}: has no field {name!r}{fields}")
    return row[name]


def get_field_texts(location: str, row: dict[str, Any], name: str) -> list[str]:
    """Return the texts of a field; raise ValueError unless it is a text or a list of texts."""
    value = get_field(location, row, name)
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{location}: field {name!r} must be a string or a list of strings")
    if not texts:
        raise ValueError(f"{location}: the field {name!r} is empty")
    for text in texts:
        if not text.isascii() and _SURROGATE.search(text):
            raise ValueError(
                f"{location}: field {name!r} is not valid Unicode: contains a lone surrogate"
            )
    return texts


class BadRowSkipper(AbstractContextManager[Any]):
    """Context manager that skips and counts bad rows, with one `with` block per row.

    Args:
        limit: maximum number of bad rows.

    Raises:
        ValueError: more than `limit` rows are bad. The message explains how to skip the row.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.count = 0

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> bool:
        if not isinstance(problem, ValueError):
            return False
        self.count += 1
        if self.count > self.limit:
            raise ValueError(
                f"{problem}; fix it, or skip bad rows with data.skip_bad={self.count} or more"
            ) from None
        return True
