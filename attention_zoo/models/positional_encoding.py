"""Positional encodings by name, for models with many layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from attention_zoo.layers import POSITIONS, MultiHeadAttention
from attention_zoo.layers.positions import RelativePositions, make_positions
from attention_zoo.ops import to_front
from attention_zoo.registry import did_you_mean
from attention_zoo.typing import Tensor

NONE, LEARNED = "none", "learned"


def check_positions(name: Any, absolute: Sequence[str]) -> None:
    """Raise ValueError unless the name is "none", in `absolute` or in `layers.POSITIONS`."""
    known = (NONE, *absolute, *POSITIONS.names())
    if name not in known:
        raise ValueError(
            f"unknown positions {name!r}{did_you_mean(name, known)} (known: {', '.join(known)})"
        )


def make_self_attention(
    name: str, num_heads: int, width: int, *, causal: bool = False, dtype: Any = None
) -> MultiHeadAttention | None:
    """Return self-attention with relative positions, as a Transformer layer's `attention`.

    Args:
        name: of the positions, checked by `check_positions`.
        num_heads: H.
        width: D, of the layer; D / H is that of a head.
        causal: whether queries attend to no later position.
        dtype: policy of the attention and its positions.

    Returns:
        None if the name is not in `layers.POSITIONS`: the layer then builds its own attention.
    """
    positions = make_relative_positions(name, causal=causal, dtype=dtype)
    if positions is None:
        return None
    return MultiHeadAttention(num_heads, width // num_heads, positions=positions, dtype=dtype)


def make_relative_positions(
    name: str, *, causal: bool = False, dtype: Any = None
) -> RelativePositions | None:
    """Return relative positions, or None; arguments as in `make_self_attention`."""
    return make_positions(name, dtype, causal) if name in POSITIONS else None


def run_left_aligned(run: Callable[[Tensor, Tensor], Tensor], x: Tensor, mask: Tensor) -> Tensor:
    """Apply `run` with padding moved to the end, so that distances count tokens only.

    Args:
        run: takes `(B, T, D)` and its mask, and returns a tensor of the same shape.
        x: `(B, T, D)`, with padding anywhere; the result has the same order.
        mask: `(B, T)`, True at tokens.
    """
    order = to_front(mask)
    x = run(_reorder(x, order), ops.take_along_axis(mask, order, axis=1))
    return _reorder(x, ops.argsort(order, axis=1))


def _reorder(x: Tensor, order: Tensor) -> Tensor:
    return ops.take_along_axis(x, order[..., None], axis=1)
