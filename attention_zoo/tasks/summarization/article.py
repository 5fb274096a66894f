"""Encoded texts to summarize, and their length limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Article(NamedTuple):
    """An encoded text to summarize.

    ids: token ids (S), including the extended ids of out-of-vocabulary words. words: the words of
    the extended ids, in order. surfaces: the piece of text of each token (S). labels: a readable
    label of each token (S). truncated: whether the text was truncated.
    """

    ids: list[int]
    words: tuple[str, ...]
    surfaces: list[str]
    labels: tuple[str, ...]
    truncated: bool


def check_limits(limits: Mapping[str, int], positions: int | None, num_special_tokens: int) -> None:
    """Raise ValueError for a limit of tokens that the model does not support.

    Args:
        limits: "max_source_length" and "max_target_length".
        positions: number of the model's positions; None for no limit.
        num_special_tokens: number of special tokens of a source.
    """
    for name, limit in limits.items():
        if positions is not None and limit > positions:
            raise ValueError(
                f"{name} must be at most the {positions} positions of the model, got {limit}; set"
                f" data.{name} in a recipe"
            )
    if limits["max_source_length"] <= num_special_tokens:
        raise ValueError(
            f"max_source_length must be at least {num_special_tokens + 1} (special tokens and one"
            f" more), got {limits['max_source_length']}"
        )
