"""Columns of examples in Arrow files, which are written and read in batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import Any, overload

BATCH = 2048
"""Number of values of a record batch, which is in memory as a whole."""


class StoredColumn(Sequence[Any]):
    """A column in a file of Arrow's IPC format: texts, integers, or lists of these or of booleans.

    Values are appended first, and then read. Lists are read as tuples. A batch is read as a whole
    and kept until another one is read, so that access in order is fast. The file is read instead of
    being mapped, because mapped pages count as memory of the process.

    Args:
        path: the file. If it does not exist, it is created with the first batch, from whose values
            the type is inferred.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._pending: list[Any] = []
        self._length = 0
        self._type: Any = None
        self._file: Any = None
        self._writer: Any = None
        self._reader: Any = None
        self._read_batch = lru_cache(maxsize=2)(self._load_batch)
        if self.path.exists():
            self._open()

    def append(self, value: Any) -> None:
        """Add a value, of the same type as all others."""
        self._pending.append(value)
        self._length += 1
        if len(self._pending) == BATCH:
            self._write_pending()

    def _write_pending(self) -> None:
        import pyarrow
        from pyarrow import ipc

        # Ranges are not converted.
        values = [list(one) if isinstance(one, range) else one for one in self._pending]
        array = pyarrow.array(values, self._type)
        batch = pyarrow.record_batch([array], names=["value"])
        if self._writer is None:
            self._type = array.type
            options = ipc.IpcWriteOptions(compression="lz4")
            self._file = pyarrow.OSFile(str(self.path), "wb")
            self._writer = ipc.new_file(self._file, batch.schema, options=options)
        self._writer.write(batch)
        self._pending = []

    def close(self) -> None:
        """Finish writing; the column can then be read."""
        if self._pending:
            self._write_pending()
        if self._writer is not None:
            self._writer.close()
            self._file.close()
            self._writer = None

    def _open(self) -> None:
        import pyarrow
        from pyarrow import ipc

        self._reader = ipc.open_file(pyarrow.OSFile(str(self.path)))
        full = self._reader.num_record_batches - 1
        self._length = full * BATCH + self._reader.get_batch(full).num_rows

    def _load_batch(self, number: int) -> list[Any]:
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
            return [self[row] for row in range(*index.indices(len(self)))]
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        number, offset = divmod(row, BATCH)
        return self._read_batch(number)[offset]

    def __iter__(self) -> Iterator[Any]:
        for number in range(-(-len(self) // BATCH)):
            yield from self._load_batch(number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]
