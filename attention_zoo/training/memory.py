"""Memory that nobody uses is given back to the system."""

from __future__ import annotations

import ctypes


def trim_malloc() -> None:
    """Gives back what malloc keeps for later; where there is no glibc, nothing is done.

    Batches of many sizes leave gaps between what is in use, and a long run would seem to grow.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return
    trim(0)
