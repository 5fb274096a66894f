"""Token ids of pairs of texts, and pairs as inputs of `predict`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from attention_zoo.models.matching.matcher import SIDES
from attention_zoo.tasks.inputs import check_text, is_list

Pair = tuple[str, str]


class EncodedPair(NamedTuple):
    """Token ids of both texts of a pair, truncated to the limits.

    first, second: token ids.
    lengths: numbers of tokens before the texts were truncated.
    """

    first: list[int]
    second: list[int]
    lengths: tuple[int, int]

    @property
    def is_truncated(self) -> bool:
        """Whether tokens were dropped."""
        return (len(self.first), len(self.second)) != self.lengths


def encode_pairs(
    tokenizer: Any, firsts: Sequence[str], seconds: Sequence[str], limits: tuple[int, int]
) -> list[EncodedPair]:
    """Return the token ids of pairs.

    Args:
        tokenizer: the tokenizer of both texts.
        firsts, seconds: the texts.
        limits: maximum numbers of tokens of the first and of the second text.
    """
    return [
        EncodedPair(first[: limits[0]], second[: limits[1]], (len(first), len(second)))
        for first, second in zip(tokenizer.encode(firsts), tokenizer.encode(seconds), strict=True)
    ]


def check_pair(location: str, pair: Any) -> Pair:
    """Return a pair of texts; raise ValueError if it is none."""
    texts = list(pair) if is_list(pair) else []
    if len(texts) != 2:
        raise ValueError(f"{location}: expected a pair of texts, (first, second), got {pair!r}")
    first, second = (
        check_text(f"{location}: {side} text", text)
        for side, text in zip(SIDES, texts, strict=True)
    )
    return first, second
