"""Columns of CSV and TSV files, and their names, as inputs of `attention-zoo predict`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NoReturn

from attention_zoo.cli.items import Item, Layout, Lines, make_item

if TYPE_CHECKING:
    from attention_zoo.data.text.tables import Row

FIELDS = ("text", "source", "sentence", "document", "article")
"""Default names of the column or field of the text."""
DELIMITERS = (";", "|", "\t", ",")
"""Characters that separate the columns of CSV files."""


def read_rows(lines: Lines, layout: Layout) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV."""
    from attention_zoo.data.text.tables import parse_delimiter, read_csv_rows, split_tabs

    if layout.format == "tsv":
        return ((location, partial(split_tabs, location, raw)) for location, raw in lines)
    ended = ((location, raw + b"\n") for location, raw in lines)
    return read_csv_rows(ended, parse_delimiter(layout.delimiter))


def read_column(lines: Lines, layout: Layout) -> Iterator[Item]:
    """Yield one column of a table.

    Raises:
        ValueError: the table has no row, or the column is missing, repeated or not named.
    """
    from attention_zoo.data.text.tables import count_columns

    rows = read_rows(lines, layout)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{layout.name}: contains no row; give one text per row")
    table_columns, reference = _find_in_header(first, layout), "the header"
    if table_columns is None:
        reference = "most lines"
        sample, rows = layout.read_ahead(chain([first], rows), lambda row: count_columns([row]) > 0)
        table_columns = _find_by_number(sample, layout)
    width, column = table_columns
    for location, get_cells in rows:
        yield make_item(
            location, partial(_select_cell, get_cells, width, column, reference, layout)
        )


def read_header(lines: Lines, layout: Layout) -> list[str]:
    """Return the first row of a table that is not blank; an empty list if it cannot be read."""
    rows = read_rows(lines, layout)
    with suppress(ValueError):
        for _, get_cells in rows:
            header = get_cells()
            if any(name.strip() for name in header):
                return header
    return []


def is_table(lines: Lines, layout: Layout) -> bool:
    """Return whether lines are a table and not texts, from the first row that is not blank.

    It names the column of the texts or, since texts may contain the delimiter of a CSV but no tab,
    has several columns in a TSV or without a header.
    """
    header = read_header(lines, layout)
    if layout.header is not False and layout.field in _strip_names(header, layout.field):
        return True
    return len(header) > 1 and (layout.format == "tsv" or layout.header is False)


def _strip_names(header: list[str], field: str | None) -> list[str]:
    """Return column names without spaces around them, unless `field` is a name with its spaces."""
    return header if field in header else [name.strip(" ") for name in header]


def _select_cell(
    get_cells: Callable[[], list[str]], width: int, column: int, reference: str, layout: Layout
) -> str | list[str]:
    cells = get_cells()
    if len(cells) != width:
        raise ValueError(
            f"expected {width} columns, as in {reference}, got {len(cells)}; fix or remove the row"
        )
    return layout.split(cells[column])


def _find_in_header(row: Row, layout: Layout) -> tuple[int, int] | None:
    """Return the number of columns and the index of the text column; None without a header.

    Raises ValueError if it must contain them, but the column of the texts is missing.
    """
    from attention_zoo.data.text.tables import NO_HEADER_HINT, find_column

    (location, get_cells), field, has_header = row, layout.field, layout.header
    if has_header is None and field is not None:
        has_header = not field.isdecimal()
    if has_header is False:
        return None
    try:
        header = _strip_names(get_cells(), field)
    except ValueError:
        if has_header:
            raise
        return None
    if field is None:
        names = header if has_header and len(header) == 1 else FIELDS
        field = next((name for name in names if name in header), None)
    if field not in header:
        _check_delimiter(location, header, layout)
    if field is None:
        if has_header:
            raise_missing_field(location, header)
        return None
    hint = (
        f"; name the column of the texts with --field, {NO_HEADER_HINT}; for lines without columns,"
        " add --format text"
    )
    return len(header), find_column(location, header, field, hint)


def _find_by_number(rows: Sequence[Row], layout: Layout) -> tuple[int, int]:
    """Return the most frequent number of columns and the index of the text column.

    Raises ValueError if the number of the column is not given or too large.
    """
    from attention_zoo.data.text.tables import count_columns, parse_column_number

    width, location = count_columns(rows), rows[0][0]
    if not width or (width == 1 and layout.field is None):
        return width, 0
    location, cells = next(
        (location, get_cells())
        for location, get_cells in rows
        if count_columns([(location, get_cells)])
    )
    if layout.field is None:
        raise_missing_field(location, cells)
    if width == 1 and layout.field != "0":
        _check_delimiter(location, cells, layout)
    return width, parse_column_number(location, layout.field, width)


def _check_delimiter(location: str, cells: Sequence[str], layout: Layout) -> None:
    """Raise ValueError if a row of a CSV is one cell that contains another delimiter."""
    others = [x for x in DELIMITERS if len(cells) == 1 and x in cells[0] and x != layout.delimiter]
    if layout.format == "csv" and others:
        raise ValueError(
            f"{location}: has one column, but contains {others[0]!r}; set"
            f" data.delimiter={others[0]!r}, or data.header=false for texts without a header"
        )


def raise_missing_field(location: str, names: Collection[str]) -> NoReturn:
    """Raise ValueError because no column or field has a default name."""
    available = ", ".join(names) or "none"
    raise ValueError(
        f"{location}: no column or field is named {' or '.join(FIELDS)}; pass --field NAME (fields:"
        f" {available})"
    )
