"""Hooks that receive the attention weights of layers in the forward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attention_zoo import ops as zoo_ops
from attention_zoo.layers.attention import steps
from attention_zoo.typing import Tensor

HOOKS: dict[int, list[Callable[..., Tensor]]] = {}  # by the id of the layer


@contextlib.contextmanager
def weights_hooks(layers: Iterable[Any], hook: Callable[..., Tensor]) -> Iterator[None]:
    """Call a hook with the attention weights that these layers compute in the context.

    Args:
        layers: layers that call `run_weights_hooks`.
        hook: function `hook(layer, weights, mask, output)`. It receives the weights before dropout,
            `(B, [H], T, S)`, and their mask, which broadcasts to the weights, or None; it returns
            the output, the context before the output projection, or a changed one.
    """
    layers = list(layers)
    for layer in layers:
        HOOKS.setdefault(id(layer), []).append(hook)
    try:
        yield
    finally:
        for layer in layers:
            HOOKS[id(layer)].remove(hook)
            if not HOOKS[id(layer)]:
                del HOOKS[id(layer)]


def has_weights_hooks(model: Any) -> bool:
    """Return whether a layer or model, or any layer inside, has hooks."""
    return bool(HOOKS) and any(id(layer) in HOOKS for layer in model._flatten_layers())


def run_weights_hooks(layer: Any, weights: Tensor, mask: Tensor | None, output: Tensor) -> Tensor:
    """Call the hooks of a layer and return the output, which is then computed after them."""
    for hook in HOOKS.get(id(layer), ()):
        output = hook(layer, weights, mask, output)
    return output


def run_result_hooks(
    attention: Any,
    query: Tensor,
    memory: steps.Memory,
    masks: steps.AttentionMasks,
    result: steps.AttentionResult,
) -> steps.AttentionResult:
    """Call the hooks of an attention layer with the weights of T steps, if it has any.

    Weights that the blockwise path did not store are computed from the projected query
    `(B, [H], T, K)` and the memory.
    """
    if id(attention) not in HOOKS:
        return result
    weighted = result
    if result.weights is None:
        weighted = steps.attend_parallel(attention, query, memory, masks, ())
    weights = weighted.full_weights(zoo_ops.axis_size(memory.values, -2))
    mask = masks.full_mask(query, memory.values)
    return result._replace(context=run_weights_hooks(attention, weights, mask, result.context))
