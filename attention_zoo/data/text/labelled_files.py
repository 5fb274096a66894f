"""Readers of labelled texts, and of labelled pairs of texts, from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from attention_zoo.data.examples import ColumnFactory, make_list
from attention_zoo.data.progress import log_progress
from attention_zoo.data.reading import (
    Paths,
    decode_utf8,
    describe_paths,
    get_field,
    list_paths,
    parse_json_object,
    read_numbered_lines,
    read_raw_lines,
    walk_files,
)
from attention_zoo.data.text.labelled import LabelledTexts, TextFields
from attention_zoo.data.text.labelled_fields import E, LabelledFields, LabelledRow
from attention_zoo.data.text.tables import (
    TableFormat,
    make_csv_format,
    make_tsv_format,
    select_columns,
)


def read_labelled_csv(
    path: Paths,
    fields: LabelledFields[E],
    skip_bad: int = 0,
    header: bool = True,
    delimiter: str = ",",
    column_factory: ColumnFactory = make_list,
) -> E:
    """Read labelled texts or pairs from named columns of a CSV, as Python's `csv` module reads it.

    Args:
        path: the file, or a list of files; UTF-8, compressed or not.
        fields: the columns: `TextFields` for `LabelledTexts`, `PairFields` for `LabelledPairs`.
            Without a header, a column is a number from "0".
        skip_bad: maximum number of bad rows to skip. More raise an error.
        header: whether the first line of each file contains the column names.
        delimiter: the character between two cells.
        column_factory: function from the name of a column to an empty column with the method
            `append`; by default, a list.

    Raises:
        ValueError: a missing or empty file, a missing or repeated column, no rows, or a bad row
            (file:line): see `read_csv`; an empty text or label; a label that is a decimal number,
            or a score that is no finite number; a relevance that is neither 0 nor 1.
    """
    table = make_csv_format(fields.names, header, delimiter)
    return _read_table(path, table, fields, skip_bad, column_factory)


def read_labelled_tsv(
    path: Paths,
    fields: LabelledFields[E],
    skip_bad: int = 0,
    header: bool = True,
    column_factory: ColumnFactory = make_list,
) -> E:
    """Read labelled texts or pairs from named columns of a TSV without quoting.

    Args:
        path, fields, skip_bad, header, column_factory: as in `read_labelled_csv`.

    Raises:
        ValueError: as `read_labelled_csv`, and see `read_tsv`.
    """
    table = make_tsv_format(fields.names, header)
    return _read_table(path, table, fields, skip_bad, column_factory)


def _read_table(
    paths: Paths,
    table: TableFormat,
    fields: LabelledFields[E],
    skip_bad: int,
    column_factory: ColumnFactory,
) -> E:
    rows = (
        _make_row(file, location, get_cells)
        for file in list_paths(paths)
        for location, get_cells in select_columns(file, table)
    )
    return fields.collect(rows, describe_paths(paths), skip_bad, column_factory)


def read_labelled_jsonl(
    path: Paths,
    fields: LabelledFields[E],
    skip_bad: int = 0,
    column_factory: ColumnFactory = make_list,
) -> E:
    """Read labelled texts or pairs from named fields of a JSON lines file.

    A text may be a list of sentences. A class is a text or a whole number or, in multi-label
    corpora, a list of these.

    Args:
        path, skip_bad, column_factory: as in `read_labelled_csv`.
        fields: the fields: `TextFields` for `LabelledTexts`, `PairFields` for `LabelledPairs`.

    Raises:
        ValueError: as `read_labelled_csv`; a line (file:line) that is no JSON object; a missing or
            repeated field, or one of another type.
    """

    def get_values(location: str, raw: bytes) -> list[Any]:
        row = parse_json_object(location, decode_utf8(location, raw))
        return [get_field(location, row, name) for name in fields.names.values()]

    rows = (
        _make_row(file, location, partial(get_values, location, raw))
        for file in list_paths(path)
        for location, raw in read_numbered_lines(file)
    )
    return fields.collect(rows, describe_paths(path), skip_bad, column_factory)


def _make_row(file: str, location: str, get_values: Callable[[], Sequence[Any]]) -> LabelledRow:
    return LabelledRow(location, file, int(location.rpartition(":")[2]), get_values)


def read_text_folders(folder: str | Path, skip_bad: int = 0) -> LabelledTexts:
    """Read labelled texts from a folder that has a folder of `.txt` files for each class.

    A file is one text, without the white space around it. Texts are sorted by class, the name of
    the outermost folder, and by file name. Other files, and names that begin with a dot, are
    ignored.

    Args:
        folder: the folder, with files such as `positive/1.txt`; UTF-8, compressed or not.
        skip_bad: maximum number of texts to skip because they are bad or in no class. More raise
            an error.

    Raises:
        ValueError: no folder; no texts; a class folder without texts; a single folder around all
            class folders; a text that is in no class, blank, or not UTF-8.
    """
    root = Path(folder)
    names = [file.relative_to(root).as_posix() for file in walk_files(root)]
    texts = sorted(name.split("/") for name in names if name.lower().endswith(".txt"))
    classes = {name[0] for name in texts if len(name) > 1}
    if len(classes) == 1 and all(len(name) > 2 for name in texts):
        raise ValueError(
            f"{folder}: all texts are in subfolders of {min(classes)!r}; give the path of that"
            " folder"
        )
    for empty in sorted({name.partition("/")[0] for name in names if "/" in name} - classes):
        raise ValueError(f"{folder}/{empty}: contains no .txt file; remove the folder")

    def read_values(name: list[str]) -> list[str]:
        file = root.joinpath(*name)
        if len(name) == 1:
            raise ValueError(f"{file}: is in no class folder; move it into one")
        lines = (decode_utf8(location, raw) for location, raw in read_raw_lines(file))
        return ["".join(lines).strip(), name[0]]

    rows = (
        LabelledRow(f"{file}:1", str(file), 1, partial(read_values, name))
        for name in log_progress(texts, str(folder), "texts")
        for file in [root.joinpath(*name)]
    )
    return TextFields().collect(rows, str(folder), skip_bad)
