"""What is given back to the system, measured by what the process holds."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

from attention_zoo.training import memory

BLOCK, COUNT = 2**16, 2000  # below what malloc takes from the system one by one


def resident() -> float:
    """MB of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_free_memory_is_returned_to_the_system() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    if not hasattr(libc, "malloc_trim"):
        pytest.skip("glibc's")
    blocks = [libc.malloc(BLOCK) for _ in range(COUNT)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    for block in blocks[:-1]:  # the last one keeps the top of the heap where it is
        libc.free(block)
    before = resident()
    memory.trim_malloc()
    assert resident() < before - 0.8 * BLOCK * COUNT / 1e6
    libc.free(blocks[-1])


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    memory.trim_malloc()
