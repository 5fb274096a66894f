"""Release of unused memory to the operating system."""

from __future__ import annotations

import ctypes


def trim_malloc() -> None:
    """Release the free memory that malloc holds; do nothing without glibc.

    Batches of many sizes fragment the heap, so the memory of a long run would appear to grow.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return
    trim(0)
