"""Tokens as a reader wants to see them."""

from __future__ import annotations

import re
from collections.abc import Iterable

LONGEST = 24
"""Characters of a label; what is longer ends in an ellipsis."""

_SPECIAL = re.compile(r"<[^<>\s]+>|\[[A-Z]+\]")


def is_special(token: str) -> bool:
    """Whether a token is a sign of the model (`</s>`, `[SEP]`) and no text."""
    return _SPECIAL.fullmatch(token) is not None


def readable(token: str) -> str:
    """The token without the marks of its tokenizer: a leading `▁` or `##`."""
    text = token.replace("▁", " ").strip(" ")
    text = text[2:] if text.startswith("##") and len(text) > 2 else text
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def longest(labels: Iterable[str]) -> int:
    """Width of the widest label in Latin letters; a letter of East Asia counts for two."""
    return max(sum(1 + (c >= "\u1100") for c in label) for label in labels)
