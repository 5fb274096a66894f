"""Rules that depend on the position: minimum length, forced tokens and prefix."""

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
        limits: `(B, 1)` int32, lengths at which the end token is allowed in any case; None for
            none.
    """

    def __init__(self, length: int, end_token: int, limits: Any = None) -> None:
        self.length, self.end_token, self.limits = length, end_token, limits

    def compute_allowed_mask(self, shape: tuple[Any, ...], state: Any, step: Any) -> Any:
        others = ops.convert_to_tensor(np.arange(shape[-1]) != self.end_token)
        allowed = ops.logical_or(others, step + 1 >= self.length)[None, None]
        if self.limits is None:
            return allowed
        return ops.logical_or(allowed, (self.limits == step + 1)[..., None])


class ForcedTokens(Rule):
    """A rule that forces one token at some positions.

    Args:
        tokens: maps positions, from 0, to tokens.
    """

    def __init__(self, tokens: dict[int, int]) -> None:
        self.positions = np.array(list(tokens), "int32")
        self.tokens = np.array(list(tokens.values()), "int32")

    def compute_allowed_mask(self, shape: tuple[Any, ...], state: Any, step: Any) -> Any:
        is_forced = ops.convert_to_tensor(self.positions) == step
        token = ops.sum(ops.where(is_forced, ops.convert_to_tensor(self.tokens), 0))
        is_token = ops.arange(shape[-1], dtype="int32") == token
        return ops.logical_or(is_token, ops.logical_not(ops.any(is_forced)))[None, None]


class ForcedStart(Rule):
    """A rule that forces the first token, with probability 1.

    Args:
        token: the id.
    """

    def __init__(self, token: int) -> None:
        self.token = token

    def adjust_logits(self, logits: Any, state: Any, step: Any) -> Any:
        is_other = ops.arange(logits.shape[-1], dtype="int32") != self.token
        return logits + ops.where(ops.logical_and(step == 0, is_other), float("-inf"), 0.0)


class ForcedEnd(Rule):
    """A rule that forces the end token, with probability 1, at the maximum length of each source.

    Args:
        limits: `(B, 1)` int32, maximum number of tokens for each source.
        end_token: the id that ends an output.
    """

    is_per_source = True

    def __init__(self, limits: Any, end_token: int) -> None:
        self.limits, self.end_token = limits, end_token

    def adjust_logits(self, logits: Any, state: Any, step: Any) -> Any:
        is_last = (self.limits == step + 1)[..., None]
        is_other = ops.arange(logits.shape[-1], dtype="int32") != self.end_token
        penalty = ops.where(ops.logical_and(is_last, is_other), float("-inf"), 0.0)
        return logits + penalty  # the sum keeps NaN and turns inf into NaN


class Prefix(Rule):
    """A rule that forces the first tokens of the output for each source.

    Args:
        tokens: `(B, P)` ids, padded at the end.
        pad_token: the id of padding.
    """

    is_per_source = True

    def __init__(self, tokens: Any, pad_token: int) -> None:
        self.tokens, self.pad_token = ops.cast(tokens, "int32"), pad_token
        if len(self.tokens.shape) != 2:
            raise ValueError(f"prefix must have shape (B, P), got {tuple(self.tokens.shape)}")

    def compute_allowed_mask(self, shape: tuple[Any, ...], state: Any, step: Any) -> Any:
        check_sources("prefix", self.tokens, shape)
        padded = ops.pad(self.tokens, ((0, 0), (0, 1)), constant_values=self.pad_token)
        length = ops.shape(self.tokens)[1]
        token = ops.take(padded, ops.minimum(step, length), axis=1)[:, None, None]
        is_free = token == self.pad_token
        return ops.logical_or(is_free, ops.arange(shape[-1], dtype="int32") == token)
