"""Whether graphs must expect long sequences, if lengths are dynamic."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

_state = threading.local()


@contextlib.contextmanager
def expect_long_sequences(is_expected: bool = True) -> Iterator[None]:
    """Trace graphs for dynamic lengths that may be long: attention is blockwise in them.

    Without it they are traced for short ones: scores and weights are stored, which takes fewer
    operations, converts to ONNX, and has second derivatives. It applies to the current thread.
    """
    before = expects_long_sequences()
    _state.is_expected = is_expected
    try:
        yield
    finally:
        _state.is_expected = before


def expects_long_sequences() -> bool:
    """Return whether the calling code runs within `expect_long_sequences`."""
    return getattr(_state, "is_expected", False)
