"""Tokens that may be taken, or may not, whatever went before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from attention_zoo import ops as zoo_ops
from attention_zoo.decoding.rules.base import Rule, check_sources


class BannedTokens(Rule):
    """Tokens that are never taken.

    Args:
        tokens: ids.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = np.array(sorted(tokens), "int32")

    def allowed(self, shape: tuple[Any, ...], memory: Any, step: Any) -> Any:
        everything = np.ones((1, 1, shape[-1]), "bool")
        everything[..., self.tokens] = False
        return ops.convert_to_tensor(everything)


class AllowedTokens(Rule):
    """The tokens that each source may be answered with, the same ones at every step or not.

    Args:
        mask: bool `(V,)`, `(B, V)` of each source or `(B, L, V)` of each step of it; past the
            last step, the last one stands.
    """

    def __init__(self, mask: Any) -> None:
        mask = ops.convert_to_tensor(mask)
        zoo_ops.refuse_float_mask("mask", mask)
        self.mask = ops.cast(mask, "bool")
        if len(self.mask.shape) not in (1, 2, 3):
            raise ValueError(
                f"mask is of shape {tuple(self.mask.shape)}: (V,), (B, V) or (B, L, V)"
            )
        self.of_sources = len(self.mask.shape) > 1

    def allowed(self, shape: tuple[Any, ...], memory: Any, step: Any) -> Any:
        mask = self.mask
        if self.of_sources:
            check_sources("mask", mask, shape)
        if mask.shape[-1] != shape[-1]:
            raise ValueError(
                f"mask is of shape {tuple(mask.shape)} but step gives logits of {shape[-1]} tokens"
            )
        if len(mask.shape) == 1:
            return mask[None, None]
        if len(mask.shape) == 2:
            return mask[:, None]
        return ops.take(mask, ops.minimum(step, ops.shape(mask)[1] - 1), axis=1)[:, None]
