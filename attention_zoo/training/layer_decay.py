"""Layer-wise learning rate decay (LLRD), also called discriminative fine-tuning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from attention_zoo.typing import Tensor


def scale_learning_rates(optimizer: Any, model: keras.Model, decay: float | None) -> None:
    """Multiply the learning rate of each layer by a factor that decreases from the top down.

    The factor of group l of the L groups of `model.layers_by_depth` (l = 1: the embeddings) is
    `decay ** (L + 1 - l)`; that of all other weights, such as those of the output layers, is 1.
    Decoupled weight decay, which Keras multiplies by the learning rate, is scaled too. The training
    step clips the gradients before, over all layers. The optimizer has no further variables.

    Args:
        optimizer: an optimizer of Keras without its own clipping, accumulation or moving average,
            which the training step does; its updates are proportional to the learning rate.
        model: a built model. Frozen layers count as layers.
        decay: above 0 and at most 1; with 1 or None, nothing is changed.

    Raises:
        ValueError: the model defines no order of its layers.

    Reference:
        Howard and Ruder 2018, arXiv 1801.06146, section 3.2, "discriminative fine-tuning": decay is
        1 / 2.6; the output layer is the last layer. Sun et al. 2019, arXiv 1905.05583: 0.95 for
        BERT, whose top layer has the full rate there.
    """
    if decay in (None, 1.0):
        return
    factors = compute_factors(model, float(decay))
    apply, get_rate = optimizer._backend_apply_gradients, optimizer._get_current_learning_rate
    factor = 1.0

    def apply_by_factor(gradients: Sequence[Tensor], variables: Sequence[Any]) -> None:
        nonlocal factor
        groups: dict[float, list[tuple[Tensor, Any]]] = {}
        for gradient, variable in zip(gradients, variables, strict=True):
            groups.setdefault(factors.get(id(variable), 1.0), []).append((gradient, variable))
        try:
            for value, pairs in groups.items():
                factor = value
                apply(*map(list, zip(*pairs, strict=True)))
        finally:
            factor = 1.0

    optimizer._backend_apply_gradients = apply_by_factor
    optimizer._get_current_learning_rate = lambda: get_rate() * factor


def compute_factors(model: keras.Model, decay: float) -> dict[int, float]:
    """Return the factors of the learning rate by `id` of the variable; without those of 1."""
    groups = getattr(model, "layers_by_depth", [])
    if not groups:
        raise ValueError(
            f"training.layer_decay={decay:g}: {type(model).__name__} defines no order of its layers"
            " (layers_by_depth), as BERT and GPT do. Remove training.layer_decay, or use one of"
            " these models."
        )
    return {
        id(variable): decay ** (len(groups) - number)
        for number, group in enumerate(groups)
        for layer in group
        for variable in layer.weights
    }
