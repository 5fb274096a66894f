"""Tagging schemes of spans (BIO, BIOES, ...), and the tag sequences that they allow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attention_zoo.registry import Registry

Tag = tuple[str, str]
"""Letter and type of a tag: `("B", "PER")`; the type is "" if the tag has none."""

OUTSIDE = "O"
OUTSIDE_TAG: Tag = (OUTSIDE, "")

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

    def span_letters(self) -> frozenset[str]:
        """Return the letters that start a span whatever the previous tag is."""
        return frozenset(self.starts) - frozenset(self.continues) | {"B"}  # as IOB1's B does

    def allows(self, previous: Tag, tag: Tag) -> bool:
        """Return whether a tag may follow another; a sentence begins and ends with `OUTSIDE_TAG`.

        Args:
            previous, tag: tags as letter and type, from `split_tag`.
        """
        letter, label = tag
        previous_letter, previous_label = previous
        may_continue = previous_letter in self.continuable and label == previous_label
        may_start = letter == OUTSIDE or letter in self.starts
        may_end = previous_letter == OUTSIDE or previous_letter in self.closes
        return (may_continue and letter in self.continues) or (may_start and may_end)


# In IOB1, B separates two adjacent spans of the same type, so it only follows that type.
TAG_SCHEMES.register("BIO")(partial(TagScheme, "B", "I", "BI", "BI"))
TAG_SCHEMES.register("IOB1")(partial(TagScheme, "I", "BI", "BI", "BI"))
TAG_SCHEMES.register("BIOES")(partial(TagScheme, "BS", "IE", "ES", "BI"))
TAG_SCHEMES.register("BILOU")(partial(TagScheme, "BU", "IL", "LU", "BI"))
TAG_SCHEMES.register("BMES")(partial(TagScheme, "BS", "ME", "ES", "BM"))

ALIASES = {"IOB2": "BIO", "IOBES": "BIOES", "BIOUL": "BILOU", "BILUO": "BILOU"}
"""Other names of schemes."""


def get_tag_scheme(name: str) -> TagScheme:
    """Return the rules of a scheme, by its name or another name of it, in upper or lower case.

    Raises ValueError, listing the known names, if there is none.
    """
    names = {known.upper(): known for known in TAG_SCHEMES.names()}
    upper = str(name).upper()
    rules: TagScheme = TAG_SCHEMES.get(names.get(ALIASES.get(upper, upper), name))()
    return rules


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
        scheme: "BIO" (or "IOB2"), "IOB1", "BIOES", "BILOU", "BMES", or another of `TAG_SCHEMES`.
        tags: names by tag number: "O", a letter of the scheme, or a letter, "-" and a type.

    Raises:
        ValueError: an unknown scheme; a duplicate or malformed tag; a tag that no valid sequence of
            these tags contains, such as "I-LOC" in BIO without "B-LOC".
    """
    rules, parsed = get_tag_scheme(scheme), [split_tag(name, scheme) for name in tags]
    duplicates = sorted({name for name in tags if list(tags).count(name) > 1})
    if duplicates:
        raise ValueError(f"tag {duplicates[0]!r} is listed twice; list every tag once")
    pairs = [[rules.allows(previous, tag) for tag in parsed] for previous in parsed]
    constraints = TagConstraints(
        np.array(pairs, bool).reshape(len(parsed), len(parsed)),
        np.array([rules.allows(OUTSIDE_TAG, tag) for tag in parsed], bool),
        np.array([rules.allows(tag, OUTSIDE_TAG) for tag in parsed], bool),
    )
    _check_tags_are_usable(constraints, scheme, tags)
    return constraints


@lru_cache(maxsize=4096)
def split_tag(name: str, scheme: str) -> Tag:
    """Split "B-PER" into B and PER; raise ValueError for a tag that is not in the scheme."""
    rules = get_tag_scheme(scheme)
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
