"""Rules that depend on the position: minimum length, forced tokens and a prefix."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras import ops

from attention_zoo.decoding.rules.base import Rule, check_sources


class MinLength(Rule):
    """A rule that bans the end token before the minimum length, which includes the end token.

    Args:
        length: minimum number of tokens.
        end_token: the id that ends an output.
    """

    def __init__(self, length: int, end_token: int) -> None:
        self.length, self.end_token = length, end_token

    def allowed(self, shape: tuple[Any, ...], memory: Any, step: Any) -> Any:
        others = ops.convert_to_tensor(np.arange(shape[-1]) != self.end_token)
        return ops.logical_or(others, step + 1 >= self.length)[None, None]


class ForcedTokens(Rule):
    """A rule that forces one token at some positions.

    Args:
        tokens: maps positions, from 0, to tokens.
    """

    def __init__(self, tokens: dict[int, int]) -> None:
        self.places = np.array(list(tokens), "int32")
        self.tokens = np.array(list(tokens.values()), "int32")

    def allowed(self, shape: tuple[Any, ...], memory: Any, step: Any) -> Any:
        here = ops.convert_to_tensor(self.places) == step
        token = ops.sum(ops.where(here, ops.convert_to_tensor(self.tokens), 0))
        wanted = ops.arange(shape[-1], dtype="int32") == token
        return ops.logical_or(wanted, ops.logical_not(ops.any(here)))[None, None]


class Prefix(Rule):
    """A rule that forces the first tokens of the output for each source.

    Args:
        tokens: `(B, P)` ids, padded at the end.
        pad_token: the id of padding.
    """

    of_sources = True

    def __init__(self, tokens: Any, pad_token: int) -> None:
        self.tokens, self.pad_token = ops.cast(tokens, "int32"), pad_token
        if len(self.tokens.shape) != 2:
            raise ValueError(f"prefix must have shape (B, P), got {tuple(self.tokens.shape)}")

    def allowed(self, shape: tuple[Any, ...], memory: Any, step: Any) -> Any:
        check_sources("prefix", self.tokens, shape)
        longer = ops.pad(self.tokens, ((0, 0), (0, 1)), constant_values=self.pad_token)
        room = ops.shape(self.tokens)[1]
        token = ops.take(longer, ops.minimum(step, room), axis=1)[:, None, None]
        free = token == self.pad_token
        return ops.logical_or(free, ops.arange(shape[-1], dtype="int32") == token)
