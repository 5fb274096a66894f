"""Tables: named columns of TSV and CSV files, compressed or not, and pairs of texts from two."""

from __future__ import annotations

import csv
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, combinations, islice
from typing import NamedTuple

from attention_zoo.data.examples import ColumnFactory, make_list
from attention_zoo.data.reading import (
    Line,
    Paths,
    decode_utf8,
    describe_paths,
    list_paths,
    read_numbered_lines,
    read_raw_lines,
)
from attention_zoo.data.text.pairs import TextPairs, collect_pairs
from attention_zoo.registry import did_you_mean

Row = tuple[str, Callable[[], list[str]]]
"""Location (file:line), and a function that returns the cells or raises ValueError."""

LAYOUT_ROWS = 10_000
"""Number of rows, at the start of a file without a header, that determine its number of columns."""

NO_HEADER_HINT = (
    "or for a file without a header, set data.header=false and name columns by number, from 0"
)


def read_tsv(
    path: Paths,
    source: str,
    target: str,
    skip_bad: int = 0,
    header: bool = True,
    column_factory: ColumnFactory = make_list,
) -> TextPairs:
    """Read pairs from two columns of a TSV.

    Lines end in "\\n" (or "\\r\\n") alone. Only tabs separate columns, and quotes have no special
    meaning. A byte order mark is ignored.

    Args:
        path: the file, or a list of files; UTF-8, compressed or not.
        source: column of the source texts: its name in the first line or, without a header, its
            number from "0".
        target: column of the target texts.
        skip_bad: maximum number of bad lines to skip. More raise an error.
        header: whether the first line of each file contains the column names.
        column_factory: function from the name of a column to an empty column with the method
            `append`; by default, a list.

    Raises:
        ValueError: a missing or empty file, a missing or repeated column, no rows, or a bad line
            (file:line): invalid UTF-8, an empty field, another number of fields than in the header
            (or, without a header, in most of the first `LAYOUT_ROWS` lines).
    """
    table = make_tsv_format({"source": source, "target": target}, header)
    return _read_pairs(path, table, skip_bad, column_factory)


def read_csv(
    path: Paths,
    source: str,
    target: str,
    skip_bad: int = 0,
    header: bool = True,
    delimiter: str = ",",
    column_factory: ColumnFactory = make_list,
) -> TextPairs:
    """Read pairs from two columns of a CSV, as Python's `csv` module reads it.

    A cell in double quotes may contain the delimiter, line ends, and doubled quotes. Blank lines
    are skipped.

    Args:
        path, source, target, skip_bad, header: see `read_tsv`.
        delimiter: the character between two cells.
        column_factory: function from the name of a column to an empty column with the method
            `append`; by default, a list.

    Raises:
        ValueError: as `read_tsv`; a delimiter of several characters; a quoted cell without a
            closing quote, or with text after it (file:line).
    """
    table = make_csv_format({"source": source, "target": target}, header, delimiter)
    return _read_pairs(path, table, skip_bad, column_factory)


def parse_delimiter(delimiter: str) -> str:
    """Return a delimiter, which may be written `\\t`; raise ValueError unless it is a character."""
    character = "\t" if delimiter == "\\t" else delimiter
    if len(character) != 1 or character in '"\r\n':
        raise ValueError(f"data.delimiter must be one character, such as ',', got {delimiter!r}")
    return character


def read_csv_rows(lines: Iterator[Line], delimiter: str = ",") -> Iterator[Row]:
    """Yield the rows of a CSV that are not blank.

    After a row that is not valid CSV, reading continues at its second line, so that an unclosed
    quote does not affect the lines that follow.

    Args:
        lines: location (file:line) and bytes of each line, with its end.
        delimiter: the character between two cells.
    """
    pending, used = deque[Line](), list[Line]()

    def decode_lines() -> Iterator[str]:
        for line in iter(lambda: pending.popleft() if pending else next(lines, None), None):
            used.append(line)
            yield line[1].decode("utf-8", "surrogateescape")

    limit = csv.field_size_limit(sys.maxsize)
    try:
        reader = csv.reader(decode_lines(), delimiter=delimiter, strict=True)
        while True:
            used.clear()
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield used[0][0], partial(_raise_csv_error, used[0][0], str(error))
                pending.extendleft(reversed(used[1:]))
                reader = csv.reader(decode_lines(), delimiter=delimiter, strict=True)
            else:
                if cells:
                    yield used[0][0], partial(_check_cells, list(used), cells)
    finally:
        csv.field_size_limit(limit)


def _raise_csv_error(location: str, problem: str) -> list[str]:
    if "new-line" in problem:
        reason = "a carriage return outside quotes; put the cell in quotes"
    else:
        reason = (
            "a quoted cell has no closing quote, or text after it; write quotes inside a cell twice"
        )
    raise ValueError(f"{location}: not valid CSV: {reason}")


def _check_cells(lines: Sequence[Line], cells: list[str]) -> list[str]:
    """Return the cells of a CSV row; raise ValueError if one of its lines is not UTF-8."""
    for location, raw in lines:
        decode_utf8(location, raw)
    return cells


def _read_tsv_rows(path: str) -> Iterator[Row]:
    for location, raw in read_numbered_lines(path):
        yield location, partial(split_tabs, location, raw)


def split_tabs(location: str, raw: bytes) -> list[str]:
    """Return the cells of a TSV row; raise ValueError if it is not UTF-8."""
    return decode_utf8(location, raw).split("\t")


class TableFormat(NamedTuple):
    """Format of a table, and the columns to read.

    read_rows: function that yields the rows of a file.
    columns: description of the columns, for messages.
    header: whether the first row contains the column names.
    names: name, or number, of each column to read, by the option that contains it.
    """

    read_rows: Callable[[str], Iterator[Row]]
    columns: str
    header: bool
    names: Mapping[str, str]


def make_tsv_format(names: Mapping[str, str], header: bool = True) -> TableFormat:
    """Return the format of a TSV; see `TableFormat` for the arguments."""
    return TableFormat(_read_tsv_rows, "tab-separated columns", header, names)


def make_csv_format(
    names: Mapping[str, str], header: bool = True, delimiter: str = ","
) -> TableFormat:
    """Return the format of a CSV; see `TableFormat` and `read_csv` for the arguments."""
    delimiter = parse_delimiter(delimiter)

    def read_rows(path: str) -> Iterator[Row]:
        return read_csv_rows(read_raw_lines(path), delimiter)

    return TableFormat(read_rows, f"columns separated by {delimiter!r}", header, names)


def _read_pairs(
    paths: Paths, table: TableFormat, skip_bad: int, column_factory: ColumnFactory
) -> TextPairs:
    rows, origin = select_columns(paths, table), describe_paths(paths)
    names = table.names["source"], table.names["target"]
    return collect_pairs(
        rows, lambda _, get_cells: tuple(get_cells()), origin, names, skip_bad, column_factory
    )


def select_columns(paths: Paths, table: TableFormat) -> Iterator[Row]:
    """Yield the rows of files with only the columns in `table.names`, in that order.

    Raises:
        ValueError: a missing or empty file, a missing or repeated column. The function of a row
            raises it if the row is bad: invalid, or with another number of cells than the header
            (or, without a header, than most of the first `LAYOUT_ROWS` rows).
    """
    for path in list_paths(paths):
        rows, width, columns = _find_columns(path, table)
        for location, get_cells in rows:
            yield location, partial(_select_cells, location, get_cells, width, columns, table)


def _select_cells(
    location: str,
    get_cells: Callable[[], list[str]],
    width: int,
    columns: Sequence[int],
    table: TableFormat,
) -> list[str]:
    """Return the cells of the columns; raise ValueError unless the row has `width` cells."""
    cells = get_cells()
    if len(cells) != width:
        like = "the header" if table.header else "most lines"
        raise ValueError(
            f"{location}: expected {width} {table.columns}, as in {like}, got {len(cells)}"
        )
    return [cells[column] for column in columns]


def _find_columns(path: str, table: TableFormat) -> tuple[Iterator[Row], int, list[int]]:
    """Return the rows of a file below its header, their number of cells, and the columns."""
    rows = table.read_rows(path)
    if table.header:
        location, get_cells = next(rows, (f"{path}:1", list))
        header = get_cells()
        if not any(name.strip() for name in header):
            raise ValueError(f"{location}: no header; the first line must name the columns")
        width = len(header)
        columns = [
            find_column(location, header, name, f"; change data.{option}, {NO_HEADER_HINT}")
            for option, name in table.names.items()
        ]
    else:
        known = list(islice(rows, LAYOUT_ROWS))
        width = count_columns(known)
        while not width and (more := list(islice(rows, LAYOUT_ROWS))):
            known, width = known + more, count_columns(more)
        location, rows = known[0][0] if known else path, chain(known, rows)
        names = table.names.values() if known else ()
        columns = [parse_column_number(location, name, width) for name in names]
    by_option = zip(table.names.items(), columns, strict=False)  # an empty file has no columns
    for ((option, name), column), ((other, _), other_column) in combinations(by_option, 2):
        if column == other_column:
            raise ValueError(
                f"{location}: data.{option} and data.{other} are the same column, {name!r}; name"
                " two columns"
            )
    return rows, width, columns


def find_column(location: str, header: Sequence[str], name: str, hint: str = "") -> int:
    """Return the index of a column; raise ValueError, with the hint, unless it occurs once."""
    positions = [index for index, cell in enumerate(header) if cell == name]
    if len(positions) > 1:
        numbers = " and ".join(str(index + 1) for index in positions)
        raise ValueError(
            f"{location}: column {name!r} is repeated in the header (columns {numbers}); rename one"
        )
    if not positions:
        raise ValueError(
            f"{location}: column {name!r} is missing in the header{did_you_mean(name, header)}"
            f" (columns: {', '.join(header)}){hint}"
        )
    return positions[0]


def count_columns(rows: Sequence[Row]) -> int:
    """Return the number of cells that most rows have."""
    counts = Counter[int]()
    for _, get_cells in rows:
        try:
            counts[len(get_cells())] += 1
        except ValueError:
            continue
    return counts.most_common(1)[0][0] if counts else 0


def parse_column_number(location: str, name: str, width: int) -> int:
    """Return the index of a column, given by its number; raise ValueError if there is none."""
    hint = "; set data.header=true if the first line names the columns"
    if not name.isdecimal():
        raise ValueError(
            f"{location}: without a header, a column is a number from 0, got {name!r}{hint}"
        )
    if int(name) >= width:
        raise ValueError(f"{location}: has no column {name}, only {width}, counted from 0{hint}")
    return int(name)
