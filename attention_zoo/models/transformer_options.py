"""Options of Transformer models: sizes, layers, and positional encodings by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from attention_zoo.layers import POSITIONS, MultiHeadAttention
from attention_zoo.layers.positions import make_positions
from attention_zoo.layers.transformer.encoder_layer import LAYER_OPTIONS
from attention_zoo.models.presets import Config, check_options
from attention_zoo.ops import static_size, to_front
from attention_zoo.registry import check_known
from attention_zoo.typing import Tensor

NONE, LEARNED = "none", "learned"


def check_positions(name: Any, *absolute: str) -> None:
    """Raise ValueError unless the name is "none", in `absolute` or in `layers.POSITIONS`."""
    check_known("unknown positions", [name], (NONE, *absolute, *POSITIONS.names()))


def check_layer_settings(settings: Config, *absolute: str) -> None:
    """Check `layer`, `positions` and `num_heads` of a Transformer; replace a `layer` of None by {}.

    Args:
        settings: settings of the model; without `positions`, they are an option of `layer`.
        *absolute: names of the model's absolute positions, the default first.

    Raises:
        ValueError: an unknown option, unknown positions, or heads that do not divide the width.
    """
    extra = () if "positions" in settings else ("positions",)
    settings["layer"] = check_options("layer", settings["layer"], (*LAYER_OPTIONS, *extra))
    positions = settings.get("positions", settings["layer"].get("positions", absolute[0]))
    check_positions(positions, *absolute)
    width, num_heads = settings["embedding_dim"], settings["num_heads"]
    if width % num_heads:
        raise ValueError(
            f"num_heads must divide embedding_dim, got num_heads={num_heads}, embedding_dim={width}"
        )


def make_self_attention(
    name: str,
    num_heads: int,
    width: int,
    dropout: float = 0.0,
    *,
    causal: bool = False,
    dtype: Any = None,
) -> MultiHeadAttention:
    """Return the self-attention of a Transformer layer, with relative positions if `name` is one.

    Args:
        name: name of the positions, checked by `check_positions`.
        num_heads: H.
        width: D, width of the layer; a head has width D / H.
        dropout: dropout rate on the attention weights.
        causal: whether queries attend to no later position.
        dtype: policy of the attention and its positions.
    """
    positions = make_positions(name, dtype, causal) if name in POSITIONS else None
    return MultiHeadAttention(
        num_heads, width // num_heads, dropout=dropout, positions=positions, dtype=dtype
    )


def check_length(tokens: Tensor, max_length: int) -> None:
    """Raise ValueError for sequences `(B, T)` longer than `max_length`."""
    length = static_size(tokens.shape[1])
    if length is not None and length > max_length:
        raise ValueError(
            f"sequence length {length} of tokens exceeds max_length={max_length}. Truncate the "
            "input, or build the model with a larger max_length."
        )


def make_sizes(embedding_dim: int, num_layers: int) -> Config:
    """Return the settings of a size: heads of 64, feed-forward networks four times as wide."""
    return {
        "embedding_dim": embedding_dim,
        "units": 4 * embedding_dim,
        "num_heads": embedding_dim // 64,
        "num_layers": num_layers,
    }


def run_layers(
    layers: Sequence[Any], x: Tensor, mask: Tensor, positions: str, **options: Any
) -> Tensor:
    """Apply self-attention layers; with relative positions, distances count tokens only.

    Padding is moved to the end for them.

    Args:
        layers: called with `mask` and the options.
        x: `(B, T, D)`, with padding anywhere; the result has the same order.
        mask: `(B, T)`, True at tokens.
        positions: name of the positions.
    """
    is_relative = positions in POSITIONS
    if is_relative:
        order = to_front(mask)
        x, mask = _reorder(x, order), ops.take_along_axis(mask, order, axis=1)
    for layer in layers:
        x = layer(x, mask=mask, **options)
    return _reorder(x, ops.argsort(order, axis=1)) if is_relative else x


def _reorder(x: Tensor, order: Tensor) -> Tensor:
    return ops.take_along_axis(x, order[..., None], axis=1)
