"""Token ids of a corpus: columns of rows, and which examples they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from attention_zoo.data.batching.ragged import Integers, RaggedBuilder
from attention_zoo.data.storage.integers import (
    IntegerFile,
    IntegerList,
    IntegerStore,
    shrink_integers,
)
from attention_zoo.data.tokenizers.flat_ids import FlatIds, Row

ROWS = "rows.npy"


class EncodedCorpus(Mapping[str, RaggedBuilder]):
    """Token ids of the examples within the length limits, by column; collected part by part.

    Args:
        folder: folder of the files that hold the arrays; None keeps the arrays in memory.
        create: whether to create the files instead of reading them.
    """

    def __init__(self, folder: Path | None = None, create: bool = True) -> None:
        self._folder = folder
        self._rows: IntegerStore = (
            IntegerList(np.int64) if folder is None else IntegerFile(folder / ROWS, create)
        )
        self._columns: dict[str, RaggedBuilder] = {}
        for path in () if folder is None or create else sorted(folder.glob("*.ids.npy")):
            name = path.name.removesuffix(".ids.npy")
            self._columns[name] = RaggedBuilder(path.with_name(name), create=False)

    def extend(
        self,
        rows: Sequence[int] | Integers,
        columns: Mapping[str, FlatIds | Sequence[Row]],
    ) -> None:
        """Add examples.

        Args:
            rows: indices of the examples in the corpus.
            columns: rows of token ids by column.
        """
        self._rows.extend(np.asarray(rows, np.int64))
        for name, ids in columns.items():
            if name not in self._columns:
                path = None if self._folder is None else self._folder / name
                self._columns[name] = RaggedBuilder(path)
            self._columns[name].extend(ids)

    def get_all(self) -> tuple[Integers, dict[str, FlatIds]]:
        """Return rows and columns of all examples, as `extend` takes them; close the files."""
        columns = self._columns.items()
        return self.rows, {name: FlatIds(ids.flat, ids.lengths) for name, ids in columns}

    def close(self) -> None:
        """Finish the files."""
        self._rows.close()
        for column in self._columns.values():
            column.close()

    @property
    def rows(self) -> Integers:
        """Index of each example in the corpus."""
        return shrink_integers(self._rows.read())

    def __getitem__(self, name: str) -> RaggedBuilder:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)
