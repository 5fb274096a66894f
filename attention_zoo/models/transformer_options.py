"""Options of Transformer models: sizes, layers, and positional encodings by name."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

from keras import ops

from attention_zoo.layers import POSITIONS, MultiHeadAttention
from attention_zoo.layers.positions import RelativePositions, make_positions
from attention_zoo.layers.transformer.encoder_layer import LAYER_OPTIONS
from attention_zoo.models.presets import Config, check_options
from attention_zoo.ops import finite_number, static_size, to_front, whole_number
from attention_zoo.registry import check_known
from attention_zoo.typing import Tensor

NONE, LEARNED = "none", "learned"
HEAD_OPTIONS = ("key_dim", "use_bias")
"""Arguments of `MultiHeadAttention` in the option "attention" of `layer`."""
FIXED_ARGUMENTS = ("bidirectional", "kwargs")
"""Arguments of relative positions that are not options of a model."""


class PositionOptions(NamedTuple):
    """Positions of an encoder-decoder, and how they are combined with token embeddings.

    Attributes:
        kind: name of the positions.
        arguments: arguments of the class of relative positions.
        scale: factor of the embeddings; None for the square root of their width.
        norm: whether the sum of embeddings and positions is normalized.
        max_length: number of learned positions; None for other kinds.
        shared: whether the layers of a stack share their relative positions.
    """

    kind: str
    arguments: Config
    scale: float | None = None
    norm: bool = False
    max_length: int | None = None
    shared: bool = False

    def make_relative(self, dtype: Any, causal: bool = False) -> RelativePositions | None:
        """Return relative positions; None for another kind."""
        if self.kind not in POSITIONS:
            return None
        return make_positions(self.kind, dtype, causal, **self.arguments)


def read_positions(value: str | Config, *absolute: str) -> PositionOptions:
    """Return the options of the argument `positions`: a name, or a dict with "kind".

    Args:
        value: the argument; further options of relative positions are arguments of their class.
        *absolute: names of the model's absolute positions.

    Raises:
        ValueError: unknown positions, an unknown option or one without effect.
    """
    if not isinstance(value, dict):
        check_positions(value, *absolute)
        value = {"kind": value}
    if "kind" not in value:
        raise ValueError(f"positions has no kind, got {value}; write {{'kind': 'sinusoidal', ...}}")
    kind: Any = value["kind"]
    check_positions(kind, *absolute)
    known = ["kind", "scale", "norm"]
    if kind == LEARNED:
        known.append("max_length")
        if "max_length" not in value:
            raise ValueError(
                f"positions of kind 'learned' require max_length, got {value}; write"
                " {'kind': 'learned', 'max_length': 1024}"
            )
        whole_number("max_length", value["max_length"])
    for name in ("norm", "shared"):
        if not isinstance(value.get(name, False), bool):
            raise ValueError(f"{name} must be true or false, got {value[name]!r}")
    if value.get("scale") is not None:
        finite_number("scale", value["scale"], above=0)
    if kind in POSITIONS:
        parameters = inspect.signature(POSITIONS.get(kind)).parameters
        known += ["shared", *(name for name in parameters if name not in FIXED_ARGUMENTS)]
    check_known(f"positions of kind {kind!r} have no option", value, known)
    options = {name: x for name, x in value.items() if name in PositionOptions._fields}
    arguments = {name: x for name, x in value.items() if name not in options}
    return PositionOptions(arguments=arguments, **options)


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
    check_num_heads(settings)


def check_num_heads(settings: Config) -> None:
    """Raise ValueError unless `num_heads` divides the width."""
    width, num_heads = settings["embedding_dim"], settings["num_heads"]
    if width % num_heads:
        raise ValueError(
            f"num_heads must divide embedding_dim, got num_heads={num_heads}, embedding_dim={width}"
        )


def make_self_attention(
    positions: Any,
    num_heads: int,
    width: int,
    dropout: float = 0.0,
    *,
    causal: bool = False,
    dtype: Any = None,
    **options: Any,
) -> MultiHeadAttention:
    """Return the self-attention of a Transformer layer, with or without relative positions.

    Args:
        positions: relative positions, None, or a name that `check_positions` has checked.
        num_heads: H.
        width: D, width of the layer; by default, a head has width D / H.
        dropout: dropout rate on the attention weights.
        causal: whether queries attend to no later position.
        dtype: policy of the attention and its positions.
        **options: further arguments of `MultiHeadAttention`.
    """
    if isinstance(positions, str):
        positions = make_positions(positions, dtype, causal) if positions in POSITIONS else None
    options = {"key_dim": width // num_heads, "dropout": dropout, "dtype": dtype, **options}
    return MultiHeadAttention(num_heads, positions=positions, **options)


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
