"""Readable labels of tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

LONGEST = 24
"""Maximum number of characters of a label; longer ones end in an ellipsis."""

_CLOSING, _OPENING, _JOINING = set(".,;:!?%)]}»”،؛؟"), set("([{«“$€£#"), set("-'’/")
_UNSPACED = re.compile(  # Chinese characters, kana, their punctuation, full-width letters
    "[\u2e80-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"
    "\U00020000-\U0003ffff]"
)
_SPECIAL = re.compile(r"<[^<>\s]+>|\[[A-Z]+\]")


def is_special(token: str) -> bool:
    """Return whether a token is a special token (`</s>`, `[SEP]`)."""
    return _SPECIAL.fullmatch(token) is not None


def make_readable(token: str) -> str:
    """Return the token without prefix, truncated, unprintable characters as escape sequences."""
    text = strip_prefix(token)
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def strip_prefix(token: str) -> str:
    """Return the token without its tokenizer's prefix, `▁` or `##`."""
    text = token.replace("▁", " ").strip(" ")
    return text[2:] if text.startswith("##") and len(text) > 2 else text


def get_max_width(labels: Iterable[str]) -> int:
    """Return the width of the widest label in Latin letters; East Asian letters count twice."""
    return max(sum(1 + (c >= "\u1100") for c in label) for label in labels)


def find_gaps(tokens: Sequence[str]) -> list[bool]:
    """Return whether a space precedes each token when tokens are joined to a text.

    If any token has the prefix `▁`, spaces are where it is. Otherwise they follow typography: none
    before a comma, none between the digits of a number, none beside a Chinese character or kana,
    except between it and a special token.
    """
    if any(token.startswith("▁") for token in tokens):
        return [index > 0 and token.startswith("▁") for index, token in enumerate(tokens)]
    spaces = []
    for index, token in enumerate(tokens):
        before, last = tokens[max(index - 2, 0) : index], tokens[index - 1] if index else ""
        number = token.isdecimal() and len(token) == 1 and _is_inside_number("".join(before))
        joined = token in _CLOSING | _JOINING or last in _OPENING | _JOINING
        joined = joined or number or token.startswith("##") or _is_unspaced(last, token)
        spaces.append(index > 0 and not joined)
    return spaces


def _is_unspaced(last: str, token: str) -> bool:
    """Return whether two tokens meet in a script that is written without spaces."""
    if is_special(last) or is_special(token):
        return False
    return _UNSPACED.match(last[-1:]) is not None or _UNSPACED.match(token) is not None


def _is_inside_number(before: str) -> bool:
    """Return whether a text ends in a digit, or in a point, comma or colon after one."""
    return before[-1:].isdecimal() or (before[-2:-1].isdecimal() and before[-1] in ".,:")
