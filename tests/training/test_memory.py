"""`trim_malloc` returns free memory to the system."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from attention_zoo.training import memory

BLOCK, COUNT = 2**16, 2000  # below malloc's threshold for mmap


def resident_megabytes() -> float:
    """Return the resident_megabytes memory of this process in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


@pytest.mark.skipif(sys.platform != "linux", reason="needs glibc")
def test_free_blocks_are_returned() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    if not hasattr(libc, "malloc_trim"):
        pytest.skip("needs glibc")
    blocks = [libc.malloc(BLOCK) for _ in range(COUNT)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    for block in blocks[:-1]:  # the last one keeps the top of the heap where it is
        libc.free(block)
    before = resident_megabytes()
    memory.trim_malloc()
    assert resident_megabytes() < before - 0.8 * BLOCK * COUNT / 1e6
    libc.free(blocks[-1])


def test_trim_malloc_without_glibc_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    memory.trim_malloc()
