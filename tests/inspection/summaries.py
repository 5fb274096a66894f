"""A summary as a task answers it, small enough to check by eye."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

SOURCE = ["Ida", "Vorb", "paid", "1", "2", ".", "5", "crowns", "(", "green", ")", "."]
SUMMARY = ["Vorb", "paid", "1", "2", "."]


def summary(**more: Any) -> Any:
    """Each token has weight 0.7 on one position and 0.3 on the last one; two are copied."""
    attention = np.zeros((5, 12))
    attention[range(5), [1, 2, 3, 4, 11]] = 0.7
    attention[:, 11] += 0.3
    settings = {
        "ok": True,
        "score": -1.5,
        "tokens": tuple(SUMMARY),
        "source_tokens": tuple(SOURCE),
        "attention": attention,
        "copied": np.array([0.987, 0.25, 0.75, 0.0, 0.0]),
        "origins": np.array([1, -1, 3, -1, -1]),
        "truncated": False,
        "unknown": (1,),
        "alternatives": (),
        "source_truncated": False,
    }
    return SimpleNamespace(**settings | more)
