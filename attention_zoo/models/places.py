"""How a model of many layers tells places, by a name: on embeddings, or in self-attentions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras import ops

from attention_zoo.layers import POSITIONS, MultiHeadAttention
from attention_zoo.layers.positions import RelativePositions, make_positions
from attention_zoo.ops import to_front
from attention_zoo.registry import did_you_mean

NONE, LEARNED = "none", "learned"
Tensor = Any


def check_positions(name: Any, absolute: Sequence[str]) -> None:
    """ValueError unless the name is "none", one of `absolute` or of `layers.POSITIONS`."""
    known = (NONE, *absolute, *POSITIONS.names())
    if name not in known:
        raise ValueError(
            f"unknown positions {name!r}{did_you_mean(name, known)} (known: {', '.join(known)})"
        )


def self_attention(
    name: str, num_heads: int, width: int, *, causal: bool = False, dtype: Any = None
) -> MultiHeadAttention | None:
    """Heads that know their places, as a Transformer layer's `attention`.

    Args:
        name: of the positions, as `check_positions` lets it in.
        num_heads: H.
        width: D, of the layer; D / H is that of a head.
        causal: whether no query sees what stands behind it.
        dtype: the policy of the heads and their positions.

    Returns:
        None where the name is no relative position's: the layer makes its own heads.
    """
    positions = relative(name, causal=causal, dtype=dtype)
    if positions is None:
        return None
    return MultiHeadAttention(num_heads, width // num_heads, positions=positions, dtype=dtype)


def relative(name: str, *, causal: bool = False, dtype: Any = None) -> RelativePositions | None:
    """Relative positions, None for a name that is not theirs; arguments as above."""
    return make_positions(name, dtype, causal) if name in POSITIONS else None


def at_front(run: Callable[[Tensor, Tensor], Tensor], x: Tensor, mask: Tensor) -> Tensor:
    """`run(x, mask)` with all padding at the end, so that distances count tokens only.

    Args:
        run: of positions `(B, T, D)` and a mask of them, the same shape of what becomes of them.
        x: the positions, wherever padding stands; the result's stand as they do.
        mask: `(B, T)`, which positions are tokens.
    """
    order = to_front(mask)
    x = run(_ordered(x, order), ops.take_along_axis(mask, order, axis=1))
    return _ordered(x, ops.argsort(order, axis=1))


def _ordered(x: Tensor, order: Tensor) -> Tensor:
    return ops.take_along_axis(x, order[..., None], axis=1)
