"""Tokens as a reader wants to see them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

LONGEST = 24
"""Characters of a label; what is longer ends in an ellipsis."""

_CLOSING, _OPENING, _JOINING = set(".,;:!?%)]}»”"), set("([{«“$€£#"), set("-'’/")
_SPECIAL = re.compile(r"<[^<>\s]+>|\[[A-Z]+\]")


def is_special(token: str) -> bool:
    """Whether a token is a sign of the model (`</s>`, `[SEP]`) and no text."""
    return _SPECIAL.fullmatch(token) is not None


def readable(token: str) -> str:
    """The token `plain`, no longer than a label may be, with what cannot be printed spelt out."""
    text = plain(token)
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def plain(token: str) -> str:
    """The token without the marks of its tokenizer: a leading `▁` or `##`."""
    text = token.replace("▁", " ").strip(" ")
    return text[2:] if text.startswith("##") and len(text) > 2 else text


def longest(labels: Iterable[str]) -> int:
    """Width of the widest label in Latin letters; a letter of East Asia counts for two."""
    return max(sum(1 + (c >= "\u1100") for c in label) for label in labels)


def gaps(tokens: Sequence[str]) -> list[bool]:
    """Whether a space stands before each token where they are run together to a text.

    The marks of a tokenizer (a leading `▁`) tell, where there are any. Without, spaces stand where
    print has them: not before a comma, not between the digits of a number.
    """
    if any(token.startswith("▁") for token in tokens):
        return [at > 0 and token.startswith("▁") for at, token in enumerate(tokens)]
    found = []
    for at, token in enumerate(tokens):
        before, last = tokens[max(at - 2, 0) : at], tokens[at - 1] if at else ""
        number = token.isdecimal() and len(token) == 1 and _inside_number("".join(before))
        joined = token in _CLOSING | _JOINING or last in _OPENING | _JOINING
        found.append(at > 0 and not (joined or number or token.startswith("##")))
    return found


def _inside_number(before: str) -> bool:
    """Whether two tokens end in a digit, or in a point or comma after one."""
    return before[-1:].isdecimal() or (before[-2:-1].isdecimal() and before[-1] in ".,:")
