"""Columns of examples in Arrow files, which are written and read in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from sys import intern
from typing import Any, overload

BATCH = 256
"""Number of values of a record batch, which is in memory as a whole."""


class ArrowColumn(Sequence[Any]):
    """A column in a file of Arrow's IPC format: texts, numbers, or lists of these or of booleans.

    Values are appended first, and then read. Lists are read as tuples. A batch is read as a whole
    and kept until another one is read, so that access in order is fast. The file is read instead of
    being mapped, because mapped pages count as memory of the process.

    Args:
        path: the file.
        create: whether to create the file instead of reading it. The type of the column is that of
            the first values that are not empty lists.

    Raises:
        OSError: the file cannot be read.
    """

    def __init__(self, path: str | Path, create: bool = False) -> None:
        self.path = Path(path)
        self._is_complete = not create
        self._pending: list[Any] = []
        self._length = 0
        self._type: Any = None
        self._file: Any = None
        self._writer: Any = None
        self._reader: Any = None
        self._batch: tuple[int, list[Any]] = (-1, [])
        if not create:
            self._open()

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrowColumn, (self.path,)

    def __repr__(self) -> str:
        return f"<ArrowColumn: {len(self):,} values in {self.path}>"

    def append(self, value: Any) -> None:
        """Add a value, of the same type as all others; raise ValueError if the file is complete."""
        if self._is_complete:
            raise ValueError(f"{self.path}: the file is complete; no values can be appended")
        self._pending.append(value)
        self._length += 1
        if len(self._pending) % BATCH == 0:
            self._write_pending()

    def _write_pending(self) -> None:
        """Write the pending values, unless all are empty lists, whose type is not known yet."""
        import pyarrow
        from pyarrow import ipc

        if self._writer is None:
            recent = self._pending[-BATCH:]  # those before are empty lists
            is_text = isinstance(recent[0], str)  # a batch may have more than 2 GB
            self._type = pyarrow.large_string() if is_text else _make_array(recent).type
            if self._type == pyarrow.list_(pyarrow.null()) and not self._is_complete:
                return
            options = ipc.IpcWriteOptions(compression="lz4")
            self._file = pyarrow.OSFile(str(self.path), "wb")
            schema = pyarrow.schema([("value", self._type)])
            self._writer = ipc.new_file(self._file, schema, options=options)
        for start in range(0, len(self._pending), BATCH):
            array = _make_array(self._pending[start : start + BATCH], self._type)
            self._writer.write(pyarrow.record_batch([array], names=["value"]))
        self._pending = []

    def close(self) -> None:
        """Finish writing, and close the file; the column can then be read."""
        self._is_complete = True
        if self._pending:
            self._write_pending()
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            self._file.close()
        self._writer = self._reader = self._file = None

    def _open(self) -> None:
        import pyarrow
        from pyarrow import ipc

        self._file = pyarrow.OSFile(str(self.path))
        self._reader = ipc.open_file(self._file)
        full = self._reader.num_record_batches - 1
        self._length = full * BATCH + self._reader.get_batch(full).num_rows

    def _read_batch(self, number: int) -> list[Any]:
        if self._reader is None:
            self.close()
            self._open()
        values: list[Any] = self._reader.get_batch(number).column(0).to_pylist()
        if not isinstance(values[0], list):
            return values
        rows = (map(intern, row) if row and isinstance(row[0], str) else row for row in values)
        return [tuple(row) for row in rows]

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            rows = range(*index.indices(len(self)))
            if rows.step != 1 or not rows:
                return [self[row] for row in rows]
            # Faster than row by row.
            first, last = rows.start // BATCH, (rows.stop - 1) // BATCH
            values = [*chain.from_iterable(map(self._get_batch, range(first, last + 1)))]
            return values[rows.start - first * BATCH : rows.stop - first * BATCH]
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        number, offset = divmod(row, BATCH)
        return self._get_batch(number)[offset]

    def _get_batch(self, number: int) -> list[Any]:
        """Return the values of a batch; keep them until another batch is read."""
        kept, batch = self._batch
        if kept != number:
            batch = self._read_batch(number)
            self._batch = number, batch
        return batch

    def __iter__(self) -> Iterator[Any]:
        for number in range(-(-len(self) // BATCH)):
            yield from self._read_batch(number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]


def _make_array(values: Sequence[Any], of_type: Any = None) -> Any:
    """Return the values as an Arrow array, of the type of the values by default."""
    import pyarrow

    # Ranges are not converted.
    return pyarrow.array([list(one) if isinstance(one, range) else one for one in values], of_type)
