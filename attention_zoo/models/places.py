"""How a model of many layers tells places, by a name: on embeddings, or in self-attentions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attention_zoo.layers import POSITIONS, MultiHeadAttention
from attention_zoo.layers.positions import make_positions
from attention_zoo.registry import did_you_mean

NONE = "none"


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
    if name not in POSITIONS:
        return None
    positions = make_positions(name, dtype, causal)
    return MultiHeadAttention(num_heads, width // num_heads, positions=positions, dtype=dtype)
