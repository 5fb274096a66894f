"""Captions of images in text files: JSON lines, lines of tokens as in Flickr8k, and CSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from attention_zoo.data.reading import (
    BadRowSkipper,
    Line,
    check_not_blank,
    decode_utf8,
    get_field,
    get_field_texts,
    parse_json_object,
    read_numbered_lines,
    read_raw_lines,
)
from attention_zoo.data.text.tables import Row, find_column, parse_delimiter, read_csv_rows
from attention_zoo.registry import check_choice

FORMATS = ("jsonl", "tokens", "csv")

_TOKENS = re.compile(rb"([^\t]+)#[0-9]+\t(.*)")
_HINT = "; a file of captions has JSON lines, lines `name.jpg#0<TAB>caption`, or a CSV header"


@dataclass(frozen=True)
class CaptionLayout:
    """Format of a text file of captions.

    Args:
        format: "jsonl", "tokens" or "csv"; None is the one that most lines of the file have.
        image, caption: columns of a CSV.
        delimiter: the character between two cells of a CSV.
    """

    format: str | None = None
    image: str = "image"
    caption: str = "caption"
    delimiter: str = ","

    def __post_init__(self) -> None:
        if self.format is not None:
            check_choice("data.format", self.format, FORMATS)
        parse_delimiter(self.delimiter)


class CaptionEntry(NamedTuple):
    """An image of a captions file: its first location, its file name and its captions."""

    location: str
    name: str
    captions: list[str]


class CaptionReader:
    """Reader of text files of captions, which collects the captions of each image.

    Attributes:
        entries: the images that have a caption, by name, in the order of their first lines.
        locations: first location of each image, also of those whose captions are bad.

    Args:
        layout: the format of the files.
        skipper: counter of bad lines.
    """

    def __init__(self, layout: CaptionLayout, skipper: BadRowSkipper) -> None:
        self.layout, self.skipper = layout, skipper
        self.entries: dict[str, CaptionEntry] = {}
        self.locations: dict[str, str] = {}

    def read(self, path: str) -> None:
        """Read a file.

        Raises:
            ValueError: a missing file, a missing column, or more bad lines than may be skipped.
        """
        name = self.layout.format or find_caption_format(path)
        if name == "jsonl":
            self._read_json_lines(path)
            return
        rows = _read_csv(path, self.layout) if name == "csv" else _read_tokens(path)
        for location, parse in rows:
            with self.skipper:
                image, caption = (cell.strip(" ") for cell in parse())
                check_not_blank(location, image, "name of the image")
                self.locations.setdefault(image, location)
                check_not_blank(location, caption, "caption")
                entry = self.entries.setdefault(image, CaptionEntry(location, image, []))
                entry.captions.append(caption)

    def _read_json_lines(self, path: str) -> None:
        for location, raw in _read_lines(path):
            with self.skipper:
                row = parse_json_object(location, decode_utf8(location, raw))
                name = parse_image_name(location, row, "image", self.locations)
                captions = get_captions(location, row, "captions")
                self.entries[name] = CaptionEntry(location, name, captions)


def _read_lines(path: str) -> Iterator[Line]:
    """Yield the lines of a file that are not blank."""
    return (line for line in read_numbered_lines(path) if line[1].strip(b" \t"))


def find_caption_format(path: str) -> str:
    """Return the format that most lines of a file have; CSV if it is neither of the others."""
    counts = dict.fromkeys(FORMATS, 0)
    for _, raw in _read_lines(path):
        is_json = raw.lstrip(b" \t").startswith((b"{", b"["))
        counts["jsonl" if is_json else "tokens" if _TOKENS.match(raw) else "csv"] += 1
    return max(counts, key=lambda name: counts[name])


def _read_tokens(path: str) -> Iterator[Row]:
    for location, raw in _read_lines(path):
        yield location, partial(_parse_tokens, location, raw)


def _parse_tokens(location: str, raw: bytes) -> list[str]:
    decode_utf8(location, raw)
    match = _TOKENS.fullmatch(raw)
    if match is None:
        raise ValueError(f"{location}: expected `name.jpg#0`, a tab and a caption")
    return [group.decode() for group in match.groups()]


def _read_csv(path: str, layout: CaptionLayout) -> Iterator[Row]:
    rows = read_csv_rows(read_raw_lines(path), parse_delimiter(layout.delimiter))
    location, get_header = next(rows, (f"{path}:1", list))
    header = [name.strip(" ") for name in get_header()]
    columns = [find_column(location, header, x, _HINT) for x in (layout.image, layout.caption)]
    for location, get_cells in rows:
        yield location, partial(_select_cells, location, get_cells, len(header), columns)


def _select_cells(
    location: str, get_cells: Callable[[], list[str]], width: int, columns: list[int]
) -> list[str]:
    cells = get_cells()
    if len(cells) != width:
        raise ValueError(
            f"{location}: expected {width} columns, as in the header, got {len(cells)}; quote a"
            " cell that contains the delimiter"
        )
    return [cells[column] for column in columns]


def parse_image_name(
    location: str, row: dict[str, Any], name: str, locations: dict[str, str]
) -> str:
    """Return the image name of a JSON row; raise ValueError if an earlier row has it."""
    image = get_field(location, row, name)
    if not isinstance(image, str):
        raise ValueError(f"{location}: field {name!r} must be the name of an image, got {image!r}")
    if image in locations:
        raise ValueError(
            f"{location}: image {image!r} is already listed in {locations[image]}; give all its"
            " captions there"
        )
    locations[image] = location
    return image


def get_captions(location: str, row: dict[str, Any], name: str) -> list[str]:
    """Return the captions of a JSON row; raise ValueError for a blank one."""
    texts = get_field_texts(location, row, name)
    return [check_not_blank(location, text, f"field {name!r}") for text in texts]
