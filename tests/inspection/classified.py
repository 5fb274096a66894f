"""Classified texts as a task answers them, small enough to check by eye."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

SOURCE = "Not bad, really."
TOKENS = ("Not", "bad", ",", "really", ".")
OFFSETS = ((0, 3), (4, 7), (7, 8), (9, 15), (15, 16))


def classified(**more: Any) -> Any:
    """One sentence, without sentence weights."""
    settings = {
        "ok": True,
        "error": None,
        "text": "positive",
        "labels": ("positive",),
        "classes": ("negative", "positive", "neutral"),
        "probabilities": (0.25, 0.7, 0.05),
        "source": SOURCE,
        "tokens": TOKENS,
        "offsets": OFFSETS,
        "attention": (0.2, 0.5, 0.05, 0.25, 0.0),
        "sentences": (),
        "sentence_attention": None,
    }
    return SimpleNamespace(**settings | more)


def document(**more: Any) -> Any:
    """Two sentences on three lines, the first with weight 0.36 and the second with 0.64."""
    settings = {
        "source": "So dull!\n\n A joy\nto see. ",
        "tokens": ("So", "dull", "!", "A", "joy", "to", "see", "."),
        "offsets": ((0, 2), (3, 7), (7, 8), (11, 12), (13, 16), (17, 19), (20, 23), (23, 24)),
        "attention": (0.0, 1.0, 0.0, 0.1, 0.5, 0.1, 0.2, 0.1),
        "sentences": ((0, 8), (11, 24)),
        "sentence_attention": (0.36, 0.64),
    }
    return classified(**settings | more)


FAILED = SimpleNamespace(ok=False, error="text 3 is <blank>. Remove it.")
