"""Conversion of TensorFlow Addons (TFA) attention weights to layers of this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_zoo.layers import Attention, AttentionCell
from attention_zoo.layers.alignments.monotonic import MonotonicAlignment
from attention_zoo.layers.scores.additive import AdditiveScore
from attention_zoo.layers.scores.general import GeneralScore

__all__ = ["set_tfa_weights"]

Arrays = Sequence[np.ndarray]
Slot = tuple[str, Any]
"""Name of a weight in TensorFlow Addons, and the variable that it is assigned to."""


def set_tfa_weights(layer: Any, weights: Arrays) -> None:
    """Assign the weights of a TensorFlow Addons 0.23 layer to a built layer.

    Args:
        layer: a built `Attention` with an additive or general score, for the weights of a
            `BahdanauAttention`, a `LuongAttention` or their monotonic variants; or a built
            `AttentionCell`, for the weights of an `AttentionWrapper`.
        weights: the list that the TFA layer's `get_weights()` returned, in the same order.

    Raises:
        ValueError: TensorFlow Addons has no equivalent of the layer, the layer is not built, or the
            number of weights or the shape of one does not match. No weight is assigned then.
    """
    if not layer.built:
        raise ValueError(f"{layer.name} has no weights yet: call it once, or build it, first")
    if isinstance(layer, AttentionCell):
        slots, weights = _cell_slots(layer, list(weights))
    elif isinstance(layer, Attention):
        slots = _attention_slots(layer)
    else:
        raise ValueError(f"set_tfa_weights takes an Attention or an AttentionCell, got {layer!r}")
    _check_weights(layer, slots, weights)
    for (_, variable), array in zip(slots, weights, strict=True):
        variable.assign(array)


def _attention_slots(attention: Attention) -> list[Slot]:
    """Return slots in TFA's order: the mechanism's variables, then its query and memory layers."""
    score, alignment = attention.score, attention.alignment
    bias: list[Slot] = []
    if isinstance(alignment, MonotonicAlignment):
        bias = [("attention_score_bias", alignment.score_bias)]
    if isinstance(score, AdditiveScore):
        slots = [("attention_v", score.v), *bias]
        if score.normalize:
            slots += [("attention_g", score.gain), ("attention_b", score.bias)]
        slots.append(("query_layer/kernel", score.query_kernel))
        return [*slots, ("memory_layer/kernel", score.key_kernel)]
    if isinstance(score, GeneralScore):
        gain = [("attention_g", score.gain)] if score.scale else []
        return [*gain, *bias, ("memory_layer/kernel", score.key_kernel)]
    raise ValueError(
        f"TensorFlow Addons has no attention with {type(score).__name__}; "
        "use AdditiveAttention or MultiplicativeAttention"
    )


def _cell_slots(cell: AttentionCell, weights: list[np.ndarray]) -> tuple[list[Slot], Arrays]:
    """Return the slots in TFA's order: attention layers, the cell, the mechanisms.

    TFA's wrapper has one attention layer per mechanism. Each is applied to [cell output; context],
    and their outputs are concatenated. Here, one kernel is applied to the cell output and all
    contexts. It is zero where a TFA layer does not use a context.
    """
    slots: list[Slot] = []
    if cell.attention_kernel is not None:
        layers, weights = weights[: len(cell.attentions)], weights[len(cell.attentions) :]
        weights = [_merge_kernels(layers, cell.hidden_size), *weights]
        slots.append(("attention_layer/kernel", cell.attention_kernel))
    slots += [(f"cell/{variable.name}", variable) for variable in cell.cell.weights]
    for attention in cell.attentions:
        slots += _attention_slots(attention)
    return slots, weights


def _merge_kernels(kernels: Arrays, hidden: int) -> np.ndarray:
    """Merge kernels `(H + Dv_i, A_i)` into one of `(H + sum Dv_i, sum A_i)`."""
    for kernel in kernels:
        if np.ndim(kernel) != 2:
            raise ValueError(
                f"attention_layer/kernel must be (cell output and context, units), "
                f"got {np.shape(kernel)}"
            )
    rows = hidden + sum(kernel.shape[0] - hidden for kernel in kernels)
    merged = np.zeros((rows, sum(kernel.shape[1] for kernel in kernels)), "float32")
    row, column = hidden, 0
    for kernel in kernels:
        height, width = kernel.shape[0] - hidden, kernel.shape[1]
        merged[:hidden, column : column + width] = kernel[:hidden]
        merged[row : row + height, column : column + width] = kernel[hidden:]
        row, column = row + height, column + width
    return merged


def _check_weights(layer: Any, slots: list[Slot], weights: Arrays) -> None:
    """Raise ValueError if the layer has weights that TFA lacks, or the weights do not fit."""
    assigned = {id(variable) for _, variable in slots}
    unassigned = [variable.path for variable in layer.weights if id(variable) not in assigned]
    if unassigned:
        raise ValueError(f"TensorFlow Addons has no equivalent of {', '.join(unassigned)}")
    expected = [(name, tuple(variable.shape)) for name, variable in slots]
    if len(weights) != len(expected):
        names = ", ".join(f"{name} {shape}" for name, shape in expected)
        raise ValueError(f"got {len(weights)} weights, this layer takes {len(expected)}: {names}")
    for (name, shape), array in zip(expected, weights, strict=True):
        if np.shape(array) != shape:
            raise ValueError(f"{name} must be {shape}, got {np.shape(array)}")
