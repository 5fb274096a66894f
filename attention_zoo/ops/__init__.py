"""Pure functions on tensors: no weights, no state, any Keras backend."""

from attention_zoo.ops.masking import (
    as_boolean_mask,
    causal_mask,
    clear,
    combine_masks,
    implicit_mask,
    pass_mask_on,
)
from attention_zoo.ops.recurrence import scan
from attention_zoo.ops.softmax import at_least_float32, masked_softmax
from attention_zoo.ops.windows import Window, spread_window, take_places

__all__ = [
    "Window",
    "as_boolean_mask",
    "at_least_float32",
    "causal_mask",
    "clear",
    "combine_masks",
    "implicit_mask",
    "masked_softmax",
    "pass_mask_on",
    "scan",
    "spread_window",
    "take_places",
]
