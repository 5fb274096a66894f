"""Tagging schemes of spans (BIO, BIOES, ...), and the tag sequences that they allow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attention_zoo.registry import Registry

OUTSIDE = "O"

TAG_SCHEMES = Registry("tag scheme")
"""Registry of tagging schemes; `register(name)(partial(TagScheme, ...))` adds one."""


class TagScheme(NamedTuple):
    """Rules for the letter of a tag (before the type), as strings of letters; "O" is outside spans.

    Attributes:
        starts: letters allowed where no span continues.
        continues: letters allowed right after a tag of the same type in `continuable`.
        closes: letters after which the span may end.
        continuable: letters after which the span may continue.
    """

    starts: str
    continues: str
    closes: str
    continuable: str

    def letters(self) -> str:
        """Return all letters, sorted."""
        return "".join(sorted(set(self.starts + self.continues)))


# In IOB1, B separates two adjacent spans of the same type, so it only follows that type.
TAG_SCHEMES.register("BIO")(partial(TagScheme, "B", "I", "BI", "BI"))
TAG_SCHEMES.register("IOB1")(partial(TagScheme, "I", "BI", "BI", "BI"))
TAG_SCHEMES.register("BIOES")(partial(TagScheme, "BS", "IE", "ES", "BI"))
TAG_SCHEMES.register("BMES")(partial(TagScheme, "BS", "ME", "ES", "BM"))


class TagConstraints(NamedTuple):
    """Allowed tag sequences, as boolean arrays.

    Attributes:
        transitions: `(K, K)`, whether the column's tag may follow the row's tag.
        starts, ends: `(K,)`, whether a tag may be the first, and the last.
    """

    transitions: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    def find_first_violation(self, tags: Sequence[int]) -> int | None:
        """Return the first position of a tag sequence that violates the constraints.

        None if the sequence is valid; its length if only its last tag may not be the last.
        """
        if not len(tags):
            return None
        if not self.starts[tags[0]]:
            return 0
        for position, (previous, tag) in enumerate(pairwise(tags), 1):
            if not self.transitions[previous, tag]:
                return position
        return None if self.ends[tags[-1]] else len(tags)


def tag_constraints(scheme: str, tags: Sequence[str]) -> TagConstraints:
    """Compute the constraints of a tagging scheme on a list of tags.

    Args:
        scheme: "BIO" (IOB2), "IOB1", "BIOES", "BMES", or another name in `TAG_SCHEMES`.
        tags: names by tag number: "O", a letter of the scheme, or a letter, "-" and a type.

    Raises:
        ValueError: an unknown scheme; a duplicate or malformed tag; a tag that no valid sequence of
            these tags contains, such as "I-LOC" in BIO without "B-LOC".
    """
    rules: TagScheme = TAG_SCHEMES.get(scheme)()
    letters_and_types = [split_tag(name, scheme, rules) for name in tags]
    duplicates = sorted({name for name in tags if list(tags).count(name) > 1})
    if duplicates:
        raise ValueError(f"tag {duplicates[0]!r} is listed twice; list every tag once")

    def has_letter_in(letters: str) -> np.ndarray:
        return np.array([letter in letters for letter, _ in letters_and_types], bool)

    starts, ends = has_letter_in(rules.starts + OUTSIDE), has_letter_in(rules.closes + OUTSIDE)
    continuable, continues = has_letter_in(rules.continuable), has_letter_in(rules.continues)
    types = np.array([kind for _, kind in letters_and_types], dtype=object)
    continues_span = continuable[:, None] & continues & (types[:, None] == types)
    constraints = TagConstraints((ends[:, None] & starts) | continues_span, starts, ends)
    _check_tags_are_usable(constraints, scheme, tags)
    return constraints


def split_tag(name: str, scheme: str, rules: TagScheme) -> tuple[str, str]:
    """Split "B-PER" into B and PER; raise ValueError for a tag that is not of the scheme."""
    letter, dash, kind = str(name).partition("-")
    is_known = letter in (*rules.letters(), OUTSIDE)
    if not is_known or bool(dash) != bool(kind) or (letter == OUTSIDE and dash):
        raise ValueError(
            f"tag {name!r} is not a {scheme} tag: use 'O', or {', '.join(rules.letters())}, alone "
            "or followed by '-' and a type; or use another scheme"
        )
    return letter, kind


def _check_tags_are_usable(constraints: TagConstraints, scheme: str, tags: Sequence[str]) -> None:
    """Raise ValueError for a tag that no valid sequence contains."""
    transitions, starts, ends = constraints
    is_usable = _find_reachable(starts, transitions) & _find_reachable(ends, transitions.T)
    if not is_usable.all():
        name = tags[int(np.argmin(is_usable))]
        raise ValueError(
            f"tag {name!r} cannot occur in any {scheme} sequence: the tag that must precede or "
            "follow it is not in the list of tags; add that tag, or use another scheme"
        )


def _find_reachable(start: np.ndarray, transitions: np.ndarray) -> np.ndarray:
    """Return the tags that are reachable from `start`."""
    reachable = start
    for _ in range(len(start)):
        reachable = reachable | (reachable[:, None] & transitions).any(0)
    return reachable
