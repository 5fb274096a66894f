"""Sliding-window self-attention."""

from __future__ import annotations

from typing import Any

import keras

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention.multi_head_attention import MultiHeadAttention
from attention_zoo.layers.attention.self_attention import SelfAttentionBase


@keras.saving.register_keras_serializable("attention_zoo")
class WindowedAttention(SelfAttentionBase):
    """Sliding-window self-attention, with optional global positions.

    `y = MultiHeadAttention(x, x)` in which position t attends to s where `|s - t| <= w`, or where
    `min(s, t) < g`

    Use it for sequences of many thousands of positions.

    Args:
        num_heads: H, number of heads.
        key_dim: K, width of each head's queries, keys and values.
        window: w, number of attended positions on each side.
        num_global_tokens: g, number of global positions at the start of the sequence; they attend
            to all positions and all positions attend to them.
        dropout: dropout rate on the weights, in training, 0 to 1.
        use_bias: whether the four projections have a bias.
        num_key_value_heads: G, number of key and value heads; H when None.
        positions: name of relative positions (`POSITIONS.names()`), a `RelativePositions`
            instance, or None.
        seed: random seed of the dropout, an integer or None.

    Call arguments:
        inputs: `(B, T, D)`.
        mask: `(B, T)`, True at valid positions; combined by AND with the implicit Keras mask.
        attention_mask, attention_bias: as in `MultiHeadAttention`.
        use_causal_mask: whether position t attends only to positions 0 .. t.
        return_attention_scores: whether to also return the weights.
        training: whether to apply dropout.

    Returns:
        `(B, T, D)`; on request the weights `(B, H, T, T)`, before dropout.

    Weights:
        Those of `MultiHeadAttention`.

    Masking:
        A masked position gets weight exactly 0, its values do not affect the other outputs, and
        its own output is 0. The mask is propagated. Global positions are counted from the first
        position, masked or not.

    Cost:
        O(T (w + g) H K) time and O(T H K) memory, if T is dynamic (but not symbolic, as on JAX), or
        at least 512 and several times w, and the `positions` add nothing or only a bias that
        depends on the distance. Otherwise, and if the weights are requested, O(T^2 H K) and
        O(H T^2).

    Example:
        >>> import numpy as np
        >>> from attention_zoo.layers import WindowedAttention
        >>> layer = WindowedAttention(num_heads=2, key_dim=4, window=1)
        >>> y, weights = layer(np.ones((1, 5, 8), "float32"), return_attention_scores=True)
        >>> tuple(y.shape), [round(float(w), 2) for w in weights[0, 0, 0]]
        ((1, 5, 8), [0.5, 0.5, 0.0, 0.0, 0.0])

    Reference:
        Beltagy et al. 2020, arXiv 2004.05150, section 3.1, "Sliding Window" (the paper's w counts
        both sides: it is 2 w here) and "Global Attention" (here for the first g positions, without
        projections of its own).
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        window: int,
        num_global_tokens: int = 0,
        dropout: float = 0.0,
        use_bias: bool = True,
        num_key_value_heads: int | None = None,
        positions: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.window = zoo_ops.whole_number("window", window, low=0)
        self.num_global_tokens = zoo_ops.whole_number("num_global_tokens", num_global_tokens, low=0)
        self.attention = MultiHeadAttention(
            num_heads,
            key_dim,
            dropout=dropout,
            use_bias=use_bias,
            num_key_value_heads=num_key_value_heads,
            positions=positions,
            seed=seed,
            **self.part_arguments,
        )
        pattern = zoo_ops.MaskPattern(False, self.window, self.num_global_tokens)
        self.attention.mask_pattern = pattern
        self.supports_masking = True

    def get_config(self) -> dict[str, Any]:
        attention = self.attention.get_config()
        names = ("num_heads", "key_dim", "dropout", "use_bias", "num_key_value_heads", "positions")
        arguments = {name: attention[name] for name in (*names, "seed")}
        return {**super().get_config(), **arguments}
