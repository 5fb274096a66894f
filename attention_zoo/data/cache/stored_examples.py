"""Examples in the cache: each column is an Arrow file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from attention_zoo.data.cache.columns import StoredColumn
from attention_zoo.data.examples import Examples

E = TypeVar("E", bound=Examples)
FIELDS = "examples.json"


def write_examples(folder: Path, read: Callable[[Callable[[str], Any]], Examples]) -> None:
    """Write the examples that a reader returns to a folder, column by column.

    Args:
        folder: an empty folder.
        read: function that reads the examples. Its argument is a function from the name of a column
            to an empty column, to which it appends the values. Other columns that it returns are
            written afterwards.
    """
    written: dict[str, StoredColumn] = {}

    def make_column(name: str) -> StoredColumn:
        written[name] = StoredColumn(folder / f"{name}.arrow")
        return written[name]

    examples = read(make_column)
    for column in written.values():
        column.close()
    names = [name for name in examples.columns if getattr(examples, name) is not None]
    for name in names:
        values = getattr(examples, name)
        if values is not written.get(name):  # some examples were removed after reading
            path = folder / f"{name}.arrow"
            path.unlink(missing_ok=True)
            column = StoredColumn(path)
            for value in values:
                column.append(value)
            column.close()
    fields = {"columns": names, "origin": examples.origin, "skipped": examples.skipped}
    (folder / FIELDS).write_text(json.dumps(fields), encoding="utf-8")


def load_examples(folder: Path, cls: type[E]) -> E:
    """Return the examples that `write_examples` wrote to a folder."""
    fields = json.loads((folder / FIELDS).read_text(encoding="utf-8"))
    columns = {name: StoredColumn(folder / f"{name}.arrow") for name in fields.pop("columns")}
    constructor: Any = cls
    examples: E = constructor(**columns, **fields)
    return examples
