from __future__ import annotations

import numpy as np
import pytest

from attention_zoo.layers import POSITIONS, MultiHeadAttention, TransformerEncoderLayer
from attention_zoo.models.transformer_options import check_positions, make_self_attention


@pytest.mark.parametrize("name", POSITIONS.names())
def test_heads_of_relative_positions(name: str) -> None:
    heads = make_self_attention(name, 2, 8, dtype="mixed_float16")
    assert type(heads) is MultiHeadAttention
    assert (heads.num_heads, heads.key_dim) == (2, 4)
    assert type(heads.positions) is POSITIONS.get(name)
    assert heads.dtype_policy.name == heads.positions.dtype_policy.name == "mixed_float16"
    layer = TransformerEncoderLayer(6, 2, make_self_attention(name, 2, 8, causal=True))
    assert layer(np.ones((1, 3, 8), "float32"), use_causal_mask=True).shape == (1, 3, 8)


@pytest.mark.parametrize("name", ["none", "sinusoidal", "learned"])
def test_heads_without_relative_positions(name: str) -> None:
    check_positions(name, "learned" if name == "none" else name)
    heads = make_self_attention(name, 2, 8, 0.5)
    assert (heads.num_heads, heads.key_dim, heads.dropout) == (2, 4, 0.5)
    assert heads.positions is None


def test_unknown_names_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"^unknown positions 'learned' \(known: none, sinusoid"):
        check_positions("learned", "sinusoidal")
    with pytest.raises(ValueError, match="unknown positions 'learnd'; did you mean 'learned'"):
        check_positions("learnd", "learned")
