"""Cross entropy with label smoothing."""

from __future__ import annotations

from keras import ops

from attention_zoo.ops.arguments import rate
from attention_zoo.ops.masking import at_least_float32
from attention_zoo.typing import Tensor


def check_label_smoothing(label_smoothing: float) -> float:
    """Return `label_smoothing`; raise ValueError unless it is in [0, 1)."""
    return rate("label_smoothing", label_smoothing)


def smoothed_cross_entropy(labels: Tensor, logits: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Compute `(1 - e) -log p(y) + e mean_v -log p(v)`, `p = softmax(logits)`.

    The result is in at least float32.

    Args:
        labels: y, `(...)` integers.
        logits: `(..., V)`, finite.
        label_smoothing: e, the probability that is spread over all classes.

    Returns:
        `(...)`.

    Reference:
        Szegedy et al. 2015, arXiv 1512.00567, section 7 (u uniform).
    """
    logits = at_least_float32(logits)
    losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    if not label_smoothing:
        return losses
    label_logits = ops.squeeze(ops.take_along_axis(logits, labels[..., None], axis=-1), axis=-1)
    return losses + label_smoothing * (label_logits - ops.mean(logits, axis=-1))
