"""Inputs of `attention-zoo predict` in all formats of text: lines, tables and CoNLL sentences."""

from __future__ import annotations

import contextlib
import itertools
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from attention_zoo.cli.columns import is_table, read_columns
from attention_zoo.cli.items import Item, Layout, Lines, make_item
from attention_zoo.cli.sentences import read_sentences
from attention_zoo.registry import did_you_mean

SUFFIXES = {
    ".txt": "text",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".conll": "conll",
    ".conllu": "conll",
    ".iob": "conll",
}
"""Format by file suffix; a compression suffix after it is ignored."""
COMPRESSIONS = (".gz", ".bz2", ".xz")


def find_suffix(name: str) -> str:
    """Return the suffix of a file in lower case, without that of its compression."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def find_format(name: str, default: str = "text") -> str:
    """Return the format of a file by its name; the default for an unknown suffix."""
    return SUFFIXES.get(find_suffix(name), default)


def read_items(name: str, layout: Layout) -> Iterator[Item]:
    """Yield the inputs of a file, or of standard input ("-"); an unreadable one has an error."""
    is_stream = name == "-"
    lines = _read_standard_input() if is_stream else _read_file(name)
    first, display_name = next(lines, None), "stdin" if is_stream else name
    if first is None:
        raise ValueError(f"{display_name}: is empty; give one {layout.noun} per line")
    layout = replace(layout, name=display_name, is_stream=is_stream)
    lines = itertools.chain([first], lines)
    if layout.is_assumed:
        lines, ahead = itertools.tee(lines)
        if not _may_have_format(ahead, layout):
            layout = replace(layout, format="text")
        del ahead  # so that `tee` keeps no lines
    yield from READERS[layout.format](lines, layout)


def _may_have_format(lines: Lines, layout: Layout) -> bool:
    """Return whether the first line or row that is not blank is one of a file in this format."""
    if layout.format != "jsonl":
        return is_table(lines, layout)
    first = next((line for _, raw in lines if (line := raw.strip())), b"")
    return first.startswith((b"{", b"["))


def split_batches(items: Iterable[Item], size: int, is_stream: bool) -> Iterator[list[Item]]:
    """Yield the items in batches of at most `size`.

    Items of a stream are read in a thread; a batch contains all that have arrived, at least one.
    """
    if not is_stream:
        batch: list[Item] = []
        for item in items:
            batch.append(item)
            if len(batch) == size:
                yield batch
                batch = []
        if batch:
            yield batch
        return
    arrived: queue.Queue[Item | BaseException | None] = queue.Queue(maxsize=2 * size)

    def read() -> None:
        try:
            for item in items:
                arrived.put(item)
            arrived.put(None)
        except BaseException as error:
            arrived.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        taken: list[Any] = [arrived.get()]
        while isinstance(taken[-1], Item) and len(taken) < size and not arrived.empty():
            taken.append(arrived.get())
        batch = [item for item in taken if isinstance(item, Item)]
        if batch:
            yield batch
        if isinstance(taken[-1], BaseException):
            raise taken[-1]
        if taken[-1] is None:
            return


# Lines.


def _read_file(name: str) -> Lines:
    from attention_zoo.data.reading import read_numbered_lines

    if not Path(name).exists():
        near = did_you_mean(name, [str(path) for path in Path(name).parent.glob("*")])
        raise ValueError(f"{name}: no such file{near}")
    yield from read_numbered_lines(name)


def _read_standard_input() -> Lines:
    """Yield the lines of standard input.

    The thread that reads a stream may still wait when Python exits. It must not hold the lock of
    `sys.stdin` then, so it reads another file object.
    """
    stream: Any = sys.stdin.buffer
    if hasattr(stream, "fileno") and stream.readable():
        with contextlib.suppress(OSError):  # not a file, in a program that replaced `sys.stdin`
            stream = open(stream.fileno(), "rb", closefd=False)  # noqa: SIM115
    for number, raw in enumerate(stream, 1):
        if number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        yield f"stdin:{number}", raw.removesuffix(b"\n").removesuffix(b"\r")


# Formats.


def _read_text(lines: Lines, layout: Layout) -> Iterator[Item]:
    from attention_zoo.data.reading import decode_utf8

    for location, raw in lines:

        def read(location: str = location, raw: bytes = raw) -> Any:
            return layout.make_input(layout.kind.split_line(decode_utf8(location, raw)))

        yield make_item(location, read)


def _read_jsonl(lines: Lines, layout: Layout) -> Iterator[Item]:
    from attention_zoo.data.reading import decode_utf8, parse_json_object

    for location, raw in lines:

        def read(location: str = location, raw: bytes = raw) -> Any:
            if not raw.strip(b" \t"):
                return layout.make_input([""] * layout.kind.count)  # as in other formats
            row = parse_json_object(location, decode_utf8(location, raw))
            names = _find_fields(location, row, layout)
            return layout.make_input([_read_field(row[name], name, layout) for name in names])

        yield make_item(location, read)


def _find_fields(location: str, row: Mapping[str, Any], layout: Layout) -> tuple[str, ...]:
    """Return the names of the fields that hold the texts; ValueError if they are not found."""
    kind, fields = layout.kind, layout.fields or layout.kind.find_names(row)
    if not fields:
        if kind.count > 1 or len(row) > 1 or not row:  # JSON fields have no order
            kind.raise_missing_columns(location, row)
        return tuple(row)
    for field in fields:
        if field not in row:
            raise ValueError(
                f"{location}: has no field {field!r}{did_you_mean(field, row)}; pass --field"
                f" {kind.placeholder} (fields: {', '.join(row) or 'none'})"
            )
    return fields


def _read_field(value: Any, name: str, layout: Layout) -> Any:
    """Return the value of a field: a text, or a list of texts as the kind of texts has them."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return value if layout.pretokenized else layout.kind.join(value)
    if not isinstance(value, str):
        raise ValueError(f"field {name!r} is neither a text nor a list of texts")
    return value


READERS: dict[str, Callable[[Lines, Layout], Iterator[Item]]] = {
    "text": _read_text,
    "csv": read_columns,
    "tsv": read_columns,
    "jsonl": _read_jsonl,
    "conll": read_sentences,
}
"""The reader of each format."""
