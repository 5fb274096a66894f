"""Weights of TensorFlow Addons' attention, for layers of this package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_zoo.layers import (
    AdditiveScore,
    Attention,
    AttentionCell,
    GeneralScore,
    MonotonicAlignment,
)

Arrays = Sequence[np.ndarray]
Slot = tuple[str, Any]
"""What TensorFlow Addons calls a weight, and the variable that takes it."""


def set_tfa_weights(layer: Any, weights: Arrays) -> None:
    """Gives a built layer the weights that TensorFlow Addons 0.23 had, in its order.

    Args:
        layer: a built `Attention` of additive or general score for the `get_weights()` of a
            `BahdanauAttention`, `LuongAttention` or their monotonic forms; a built
            `AttentionCell` for that of an `AttentionWrapper`.
        weights: the list, as it came.

    Raises:
        ValueError: a layer that TensorFlow Addons had no like of, or is not built, a weight too
            many or too few, or of another shape; nothing is set then.
    """
    if not layer.built:
        raise ValueError(f"{layer.name} has no weights yet: call it once, or build it, first")
    if isinstance(layer, AttentionCell):
        slots, weights = _cell_slots(layer, list(weights))
    elif isinstance(layer, Attention):
        slots = _attention_slots(layer)
    else:
        raise ValueError(f"set_tfa_weights takes an Attention or an AttentionCell, got {layer!r}")
    _refuse_what_is_left_out(layer, slots)
    _check(slots, weights)
    for (_, variable), array in zip(slots, weights, strict=True):
        variable.assign(array)


def _attention_slots(attention: Attention) -> list[Slot]:
    """TFA lists a mechanism's own variables first, then those of its query and memory layers."""
    score, alignment = attention.score, attention.alignment
    bias: list[Slot] = []
    if isinstance(alignment, MonotonicAlignment):
        bias = [("attention_score_bias", alignment.score_bias)]
    if isinstance(score, AdditiveScore):
        normalized = [("attention_g", score.gain), ("attention_b", score.bias)]
        return [
            ("attention_v", score.v),
            *bias,
            *(normalized if score.normalize else []),
            ("query_layer/kernel", score.query_kernel),
            ("memory_layer/kernel", score.key_kernel),
        ]
    if isinstance(score, GeneralScore):
        gain = [("attention_g", score.gain)] if score.scale else []
        return [*gain, *bias, ("memory_layer/kernel", score.key_kernel)]
    raise ValueError(
        f"TensorFlow Addons has no attention with {type(score).__name__}; "
        "take AdditiveAttention or MultiplicativeAttention"
    )


def _cell_slots(cell: AttentionCell, weights: list[np.ndarray]) -> tuple[list[Slot], Arrays]:
    """TFA lists attention layers first, then the cell, then the mechanisms.

    Its wrapper has an attention layer for each mechanism, over [cell output; context] and side by
    side; here one kernel reads all contexts, with zeros where a layer reads none of a context.
    """
    slots: list[Slot] = []
    if cell.attention_kernel is not None:
        layers, weights = weights[: len(cell.attentions)], weights[len(cell.attentions) :]
        weights = [_one_kernel(layers, cell.hidden_size), *weights]
        slots.append(("attention_layer/kernel", cell.attention_kernel))
    slots += [(f"cell/{variable.name}", variable) for variable in cell.cell.weights]
    for attention in cell.attentions:
        slots += _attention_slots(attention)
    return slots, weights


def _one_kernel(kernels: Arrays, hidden: int) -> np.ndarray:
    """Kernels `(H + Dv_i, A_i)` as one of `(H + sum Dv_i, sum A_i)`."""
    for kernel in kernels:
        if np.ndim(kernel) != 2:
            raise ValueError(
                f"attention_layer/kernel must be (cell output and context, units), "
                f"got {np.shape(kernel)}"
            )
    rows = hidden + sum(kernel.shape[0] - hidden for kernel in kernels)
    joint = np.zeros((rows, sum(kernel.shape[1] for kernel in kernels)), "float32")
    row, column = hidden, 0
    for kernel in kernels:
        height, width = kernel.shape[0] - hidden, kernel.shape[1]
        joint[:hidden, column : column + width] = kernel[:hidden]
        joint[row : row + height, column : column + width] = kernel[hidden:]
        row, column = row + height, column + width
    return joint


def _refuse_what_is_left_out(layer: Any, slots: list[Slot]) -> None:
    """ValueError for a layer of which TensorFlow Addons' weights are a part only."""
    taken = {id(variable) for _, variable in slots}
    left = [variable.path for variable in layer.weights if id(variable) not in taken]
    if left:
        raise ValueError(f"TensorFlow Addons has nothing for {', '.join(left)}")


def _check(slots: list[Slot], weights: Arrays) -> None:
    wanted = [(name, tuple(variable.shape)) for name, variable in slots]
    if len(weights) != len(wanted):
        names = ", ".join(f"{name} {shape}" for name, shape in wanted)
        raise ValueError(f"got {len(weights)} weights, this layer takes {len(wanted)}: {names}")
    for (name, shape), array in zip(wanted, weights, strict=True):
        if np.shape(array) != shape:
            raise ValueError(f"{name} must be {shape}, got {np.shape(array)}")
