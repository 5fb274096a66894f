"""Allowed and banned tokens, independent of the prefix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.decoding.rules.base import Rule, check_sources, check_vocabulary


class BannedTokens(Rule):
    """A rule that bans tokens at every step.

    Args:
        tokens: ids.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = np.array(sorted(tokens), "int32")

    def compute_allowed_mask(self, shape: tuple[Any, ...], state: Any, step: Any) -> Any:
        mask = np.ones((1, 1, shape[-1]), "bool")
        mask[..., self.tokens] = False
        return ops.convert_to_tensor(mask)


class AllowedTokens(Rule):
    """A rule that restricts each source to some tokens, at all steps or per step.

    Args:
        mask: bool, `(V,)` for all sources, `(B, V)` per source or `(B, L, V)` per source and step;
            after step L, the mask of the last step applies.
    """

    def __init__(self, mask: Any) -> None:
        mask = ops.convert_to_tensor(mask)
        zoo_ops.refuse_float_mask("mask", mask)
        self.mask = ops.cast(mask, "bool")
        if len(self.mask.shape) not in (1, 2, 3):
            got = tuple(self.mask.shape)
            raise ValueError(f"mask must have shape (V,), (B, V) or (B, L, V), got {got}")
        self.is_per_source = len(self.mask.shape) > 1

    def compute_allowed_mask(self, shape: tuple[Any, ...], state: Any, step: Any) -> Any:
        mask = self.mask
        if self.is_per_source:
            check_sources("mask", mask, shape)
        check_vocabulary("mask", mask, shape)
        if len(mask.shape) == 1:
            return mask[None, None]
        if len(mask.shape) == 2:
            return mask[:, None]
        return ops.take(mask, ops.minimum(step, ops.shape(mask)[1] - 1), axis=1)[:, None]
