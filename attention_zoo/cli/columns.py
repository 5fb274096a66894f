"""Columns of CSV and TSV files, and their names, as inputs of `attention-zoo predict`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from attention_zoo.cli.items import Item, Layout, Lines, make_item

if TYPE_CHECKING:
    from attention_zoo.data.text.tables import Row

DELIMITERS = (";", "|", "\t", ",")
"""Characters that separate the columns of CSV files."""


def read_rows(lines: Lines, layout: Layout) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV."""
    from attention_zoo.data.text.tables import parse_delimiter, read_csv_rows, split_tabs

    if layout.format == "tsv":
        return ((location, partial(split_tabs, location, raw)) for location, raw in lines)
    ended = ((location, raw + b"\n") for location, raw in lines)
    return read_csv_rows(ended, parse_delimiter(layout.delimiter))


def read_columns(lines: Lines, layout: Layout) -> Iterator[Item]:
    """Yield the texts in the columns of a table.

    Raises:
        ValueError: the table has no row, or a column is missing, repeated or not named.
    """
    from attention_zoo.data.text.tables import count_columns

    rows = read_rows(lines, layout)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{layout.name}: contains no row; give one {layout.noun} per row")
    table_columns, reference = _find_in_header(first, layout), "the header"
    if table_columns is None:
        reference = "most lines"
        sample, rows = layout.read_ahead(chain([first], rows), lambda row: count_columns([row]) > 0)
        table_columns = _find_by_number(sample, layout)
    width, columns = table_columns
    for location, get_cells in rows:
        yield make_item(
            location, partial(_select_cells, get_cells, width, columns, reference, layout)
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

    It names the columns of the texts or, since texts may contain the delimiter of a CSV but no tab,
    has several columns in a TSV or without a header. A tab separates the texts of a pair, so a row
    with one tab is a pair of texts unless it has the columns of a TSV.
    """
    header, fields, count = read_header(lines, layout), layout.fields, layout.kind.count
    if layout.header is not False:
        is_named = not {*fields}.isdisjoint(_strip_names(header, fields))
        return is_named or (layout.format == "tsv" and len(header) > count)
    if count > 1 and layout.format == "csv" and "".join(header).count("\t") == count - 1:
        return False
    has_columns = {*fields} <= {str(number) for number in range(len(header))}
    return len(header) > 1 and (count == 1 or len(header) > count or has_columns)


def _strip_names(header: list[str], fields: Sequence[str]) -> list[str]:
    """Return column names without spaces around them, unless `fields` are names with spaces."""
    has_fields = fields and {*fields} <= {*header}
    return header if has_fields else [name.strip(" ") for name in header]


def _select_cells(
    get_cells: Callable[[], list[str]],
    width: int,
    columns: Sequence[int],
    reference: str,
    layout: Layout,
) -> Any:
    cells = get_cells()
    if len(cells) != width:
        raise ValueError(
            f"expected {width} columns, as in {reference}, got {len(cells)}; fix or remove the row"
        )
    return layout.make_input([cells[column] for column in columns])


def _find_in_header(row: Row, layout: Layout) -> tuple[int, list[int]] | None:
    """Return the number of columns and the indices of the text columns; None without a header.

    Raises ValueError if it must contain them, but a column of the texts is missing.
    """
    from attention_zoo.data.text.tables import NO_HEADER_HINT, find_column

    (location, get_cells), fields, has_header = row, layout.fields, layout.header
    kind = layout.kind
    if has_header is None and fields:
        has_header = not all(field.isdecimal() for field in fields)
    if has_header is False:
        return None
    try:
        header = _strip_names(get_cells(), fields)
    except ValueError:
        if has_header:
            raise
        return None
    if not fields:
        is_texts_only = has_header and len(header) == kind.count
        fields = tuple(header) if is_texts_only else kind.find_names(header)
    if not fields or not {*fields} <= {*header}:
        _check_delimiter(location, header, layout)
    if not fields:
        if has_header:
            kind.raise_missing_columns(location, header)
        return None
    hint = (
        f"; name the {kind.column_noun} of the texts with --field, {NO_HEADER_HINT}; for lines"
        " without column names, add --format text"
    )
    return len(header), [find_column(location, header, field, hint) for field in fields]


def _find_by_number(rows: Sequence[Row], layout: Layout) -> tuple[int, list[int]]:
    """Return the most frequent number of columns and the indices of the text columns.

    Raises ValueError if the number of a column is not given or too large.
    """
    from attention_zoo.data.text.tables import count_columns, parse_column_number

    width, location, count = count_columns(rows), rows[0][0], layout.kind.count
    if not width or (width == count and not layout.fields):
        return width, [*range(count)]
    location, cells = next(
        (location, get_cells())
        for location, get_cells in rows
        if count_columns([(location, get_cells)])
    )
    if not layout.fields:
        layout.kind.raise_missing_columns(location, cells)
    if width == 1 and layout.fields != ("0",):
        _check_delimiter(location, cells, layout)
    return width, [parse_column_number(location, field, width) for field in layout.fields]


def _check_delimiter(location: str, cells: Sequence[str], layout: Layout) -> None:
    """Raise ValueError if a row of a CSV is one cell that contains another delimiter."""
    others = [x for x in DELIMITERS if len(cells) == 1 and x in cells[0] and x != layout.delimiter]
    if layout.format == "csv" and others:
        raise ValueError(
            f"{location}: has one column, but contains {others[0]!r}; set"
            f" data.delimiter={others[0]!r}, or data.header=false for texts without a header"
        )
