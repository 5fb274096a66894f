"""Arrays of integers, collected in memory or in a file, equal the concatenated parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from attention_zoo.data.storage import integers
from attention_zoo.data.storage.integers import IntegerFile, IntegerList

PARTS = [[3, 4], [], [65535], [0] * 9]


@pytest.mark.parametrize(
    ("parts", "dtype"),
    [
        (PARTS, np.uint16),
        ([*PARTS, [65536], [7]], np.uint32),
        ([[2**31], *PARTS], np.uint32),
        ([], np.uint16),
    ],
    ids=["narrow", "widened", "wide from the start", "empty"],
)
def test_a_file_holds_all_parts_in_the_narrowest_type(
    parts: list[list[int]], dtype: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integers, "CHUNK", 3)
    file, whole = (
        IntegerFile(tmp_path / "ids.npy", create=True),
        [one for part in parts for one in part],
    )
    for part in parts:
        file.extend(np.array(part, np.int64))
    assert len(file) == len(whole)
    for array in (
        file.read(),
        np.load(tmp_path / "ids.npy"),
        IntegerFile(tmp_path / "ids.npy").read(),
    ):
        assert array.dtype == dtype
        assert array.tolist() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["ids.npy"]
    with pytest.raises(
        ValueError, match=r"ids\.npy: the file is complete; no integers can be added$"
    ):
        file.extend(np.array([1]))


def test_a_list_holds_all_parts() -> None:
    collected = IntegerList(np.int32)
    for part in PARTS:
        collected.extend(np.array(part, np.int32))
    assert len(collected) == 12
    assert collected.read().dtype == np.int32
    assert collected.read().tolist() == [one for part in PARTS for one in part]


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        IntegerFile(tmp_path / "ids.npy")
    assert not [*tmp_path.iterdir()]
