"""Examples in a folder, one file per column: images in a NumPy file, others in Arrow files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from attention_zoo.data.examples import ColumnFactory, Examples
from attention_zoo.data.storage.columns import ArrowColumn
from attention_zoo.data.storage.image_column import ImageFile
from attention_zoo.json_files import read_strict_json

E = TypeVar("E", bound=Examples)
FIELDS = "examples.json"
IMAGES = "images"
"""Name of the column of images."""


def write_examples(folder: Path, read: Callable[[ColumnFactory], Examples]) -> None:
    """Write the examples that a reader returns to a folder, column by column.

    Args:
        folder: an empty folder.
        read: function that reads the examples. Its argument is a function from the name of a column
            to an empty column, to which it appends the values. Other columns that it returns are
            written afterwards.
    """
    written: dict[str, ArrowColumn | ImageFile] = {}

    def make_column(name: str) -> ArrowColumn | ImageFile:
        written[name] = _open_column(folder, name, create=True)
        return written[name]

    try:
        examples = read(make_column)
    finally:
        for column in written.values():
            column.close()
    names = [name for name in examples.columns if getattr(examples, name) is not None]
    for name in names:
        values = getattr(examples, name)
        if values is not written.get(name):  # some examples were removed after reading
            column = _open_column(folder, name, create=True)
            for value in values:
                column.append(value)
            column.close()
    fields = {"columns": names, "origin": examples.origin, "skipped": examples.skipped}
    (folder / FIELDS).write_text(json.dumps(fields), encoding="utf-8")


def load_examples(folder: Path, cls: type[E]) -> E:
    """Return the examples that `write_examples` wrote to a folder."""
    fields = read_strict_json(folder / FIELDS)
    columns: dict[str, Any] = dict.fromkeys(cls.columns)  # those that are not written are None
    columns |= {name: _open_column(folder, name) for name in fields.pop("columns")}
    constructor: Any = cls
    examples: E = constructor(**columns, **fields)
    return examples


def _open_column(folder: Path, name: str, create: bool = False) -> ArrowColumn | ImageFile:
    if name == IMAGES:
        return ImageFile(folder / f"{name}.npy", create)
    return ArrowColumn(folder / f"{name}.arrow", create)
