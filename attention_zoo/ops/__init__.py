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

__all__ = [
    "as_boolean_mask",
    "at_least_float32",
    "causal_mask",
    "clear",
    "combine_masks",
    "implicit_mask",
    "masked_softmax",
    "pass_mask_on",
    "scan",
]
