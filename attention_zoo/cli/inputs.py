"""Inputs of `attention-zoo predict`: lines, columns of files and CoNLL sentences."""

from __future__ import annotations

import contextlib
import itertools
import queue
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from attention_zoo.registry import did_you_mean

Lines = Iterator[tuple[str, bytes]]
"""Location (file:line) and content of each line."""
Row = tuple[str, Callable[[], list[str]]]
"""Location (file:line), and a function that returns the cells or raises ValueError."""

SUFFIXES = {
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
FIELDS = ("text", "source", "sentence", "document", "article")
"""Names of columns and fields that hold the text, if none is given."""


@dataclass(frozen=True)
class Item:
    """An input of `predict`, or the reason why it cannot be read.

    Args:
        location: file:line, or the path of an image.
        value: the input of `predict`.
        error: why it could not be read; "" if it could.
        sentence: in a CoNLL file, the lines of the sentence, and for each line whether it is a
            word.
    """

    location: str
    value: Any = None
    error: str = ""
    sentence: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True)
class Layout:
    """Where the inputs are in a file.

    Args:
        format: "text", "csv", "tsv", "jsonl" or "conll".
        field: column or field of the text; None for the default.
        words: column of the words in a CoNLL file.
        pretokenized: whether texts are words separated by spaces.
    """

    format: str = "text"
    field: str | None = None
    words: int = 0
    pretokenized: bool = False


def find_format(name: str) -> str:
    """Return the format of a file by its name; "text" for an unknown suffix."""
    suffixes = [suffix.lower() for suffix in Path(name).suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1], "text") if suffixes else "text"


def read_items(name: str, layout: Layout) -> Iterator[Item]:
    """Yield the inputs of a file, or of standard input ("-"); an unreadable one has an error."""
    lines = _read_standard_input() if name == "-" else _read_file(name)
    first = next(lines, None)
    if first is None:
        shown = "stdin" if name == "-" else name
        raise ValueError(f"{shown}: is empty; give one text per line")
    yield from READERS[layout.format](itertools.chain([first], lines), layout)


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


def format_conll(item: Item, tags: Sequence[str], column: int | None) -> str:
    """Return the lines of a sentence with the tag of each word.

    Args:
        item: a sentence of a CoNLL file.
        tags: the tags; "_" for all words if there are none.
        column: the column to replace in CoNLL-U; None to add a column.
    """
    from attention_zoo.data.text.conll import CONLLU_WIDTH

    remaining, lines = iter(tags), []
    for line, is_word in item.sentence:
        if is_word:
            separator = "\t" if "\t" in line else " "
            cells, tag = line.split(separator), next(remaining, "_")
            if column is not None and len(cells) == CONLLU_WIDTH:
                cells[column] = tag
            else:
                cells.append(tag)
            line = separator.join(cells)
        lines.append(line)
    return "\n".join(lines) + "\n"


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


def _make_item(location: str, read: Callable[[], Any]) -> Item:
    """Return the input that `read` returns, or one with the error that it raises."""
    try:
        return Item(location, read())
    except ValueError as error:
        return Item(location, error=str(error).removeprefix(f"{location}: "))


def _read_text(lines: Lines, layout: Layout) -> Iterator[Item]:
    from attention_zoo.data.reading import decode_utf8

    for location, raw in lines:

        def read(location: str = location, raw: bytes = raw) -> Any:
            text = decode_utf8(location, raw)
            return text.split() if layout.pretokenized else text

        yield _make_item(location, read)


def _read_jsonl(lines: Lines, layout: Layout) -> Iterator[Item]:
    from attention_zoo.data.reading import decode_utf8, parse_json_object

    for location, raw in lines:

        def read(location: str = location, raw: bytes = raw) -> Any:
            row = parse_json_object(location, decode_utf8(location, raw))
            value = row[_find_field(location, row, layout.field)]
            if isinstance(value, list) and all(isinstance(part, str) for part in value):
                return value if layout.pretokenized else " ".join(value)
            if not isinstance(value, str):
                raise ValueError("the field is neither a text nor a list of texts")
            return value.split() if layout.pretokenized else value

        yield _make_item(location, read)


def _read_csv(lines: Lines, layout: Layout) -> Iterator[Item]:
    """Yield a column of a CSV; a quoted cell may contain line feeds."""
    from attention_zoo.data.text.tables import read_csv_rows

    ended = ((location, raw + b"\n") for location, raw in lines)
    yield from _read_column(read_csv_rows(ended), layout)


def _read_tsv(lines: Lines, layout: Layout) -> Iterator[Item]:
    from attention_zoo.data.text.tables import split_tabs

    rows = ((location, partial(split_tabs, location, raw)) for location, raw in lines)
    yield from _read_column(rows, layout)


def _read_column(rows: Iterator[Row], layout: Layout) -> Iterator[Item]:
    """Yield one column of a table, with a header unless the column is given by its number."""
    location, get_header = next(rows)
    header = get_header()
    field = layout.field
    has_header = any(name in header for name in ((field,) if field else FIELDS))
    if has_header:
        column = header.index(_find_field(location, dict.fromkeys(header), field))
    elif field is not None and field.isdecimal():
        column = int(field)
    elif len(header) == 1 and field is None:
        column = 0
    else:
        _find_field(location, dict.fromkeys(header), field)
        column = 0
    if not has_header:
        rows = itertools.chain([(location, get_header)], rows)
    for location, get_cells in rows:

        def read(get_cells: Callable[[], list[str]] = get_cells) -> Any:
            row = get_cells()
            if len(row) != len(header):
                raise ValueError(f"expected {len(header)} columns, got {len(row)}")
            if column >= len(row):
                raise ValueError(f"has no column {column}, only {len(row)} columns")
            return row[column].split() if layout.pretokenized else row[column]

        yield _make_item(location, read)


def _find_field(location: str, row: Mapping[str, Any], field: str | None) -> str:
    """Return the name of the field that holds the text; ValueError if none is found."""
    if field is not None and field in row:
        return field
    candidates = [] if field else [name for name in FIELDS if name in row] or list(row)
    if field or (len(candidates) > 1 and candidates[0] not in FIELDS) or not candidates:
        known = ", ".join(row) or "none"
        wrong = f"no field is named {' or '.join(FIELDS)}"
        if field:
            wrong = f"has no field {field!r}{did_you_mean(field, row)}"
        raise ValueError(f"{location}: {wrong}; name the text with --field (fields: {known})")
    return candidates[0]


def _read_conll(lines: Lines, layout: Layout) -> Iterator[Item]:
    """Yield the sentences of a CoNLL file, which blank lines separate."""
    sentence: list[tuple[str, bytes]] = []
    for location, raw in itertools.chain(lines, [("", b"")]):
        if raw.strip(b" \t"):
            sentence.append((location, raw))
        elif sentence:
            yield _parse_sentence(sentence, layout)
            sentence = []


def _parse_sentence(sentence: list[tuple[str, bytes]], layout: Layout) -> Item:
    """Return a sentence. In CoNLL-U, comments, ranges and empty nodes are not words."""
    from attention_zoo.data.text.conll import CONLLU_WIDTH, RANGE_OR_EMPTY_NODE

    location = sentence[0][0]
    cells = [raw.split(b"\t") if b"\t" in raw else re.split(b"[ \t]+", raw) for _, raw in sentence]
    comments = [
        raw.startswith(b"#") and len(row) < CONLLU_WIDTH
        for (_, raw), row in zip(sentence, cells, strict=True)
    ]
    rows = [row for row, is_comment in zip(cells, comments, strict=True) if not is_comment]
    is_conllu = bool(rows) and all(
        len(row) == CONLLU_WIDTH and (row[0].isdigit() or RANGE_OR_EMPTY_NODE.fullmatch(row[0]))
        for row in rows
    )
    column = 1 if is_conllu and layout.words == 0 else layout.words
    words, lines = [], []

    def read() -> list[str]:
        for (_, raw), row, is_comment in zip(sentence, cells, comments, strict=True):
            is_word = not is_conllu or (not is_comment and row[0].isdigit())
            if is_word and not -len(row) <= column < len(row):
                raise ValueError(f"has no column {column}, only {len(row)} columns")
            if is_word:
                words.append(row[column].decode("utf-8", "surrogateescape"))
            lines.append((raw.decode("utf-8", "surrogateescape"), is_word))
        return words

    item = _make_item(location, read)
    return Item(item.location, item.value, item.error, tuple(lines))


READERS: dict[str, Callable[[Lines, Layout], Iterator[Item]]] = {
    "text": _read_text,
    "csv": _read_csv,
    "tsv": _read_tsv,
    "jsonl": _read_jsonl,
    "conll": _read_conll,
}
"""The reader of each format."""
