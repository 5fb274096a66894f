"""Find the attention layers of a Keras model and call hooks with their weights."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import keras
from keras import layers, ops

from attention_zoo.inspection.keras_layers import check_keras_model, override_attribute
from attention_zoo.layers.attention.weights_hooks import weights_hooks
from attention_zoo.typing import Tensor

MULTI_HEAD = (layers.MultiHeadAttention, layers.GroupQueryAttention)
"""Keras layers, and their subclasses, whose `_compute_attention` returns output and weights."""
SINGLE_HEAD = (layers.Attention,)
"""Keras layers, and their subclasses, whose `_apply_scores` returns output and weights."""


def find_attention_layers(
    model: keras.layers.Layer, selection: Sequence[Any] | None = None
) -> dict[str, Any]:
    """Return the attention layers of a model, by path.

    A path consists of attribute names and indices, such as `encoder/layers/0/attention`, and of
    layer names in functional and sequential models. The path of the model itself is its name.

    Args:
        model: any Keras layer or model.
        selection: paths, patterns of paths with `*`, or layers; all attention layers if None.

    Raises:
        ValueError: the model has no attention layer, or an entry of the selection matches none.
    """
    check_keras_model(model)
    found = {path: layer for path, layer in _walk(model) if _is_attention(layer)}
    if not found:
        raise ValueError(
            f"{model.name} has no attention layer: none of attention_zoo, and no "
            "keras.layers.MultiHeadAttention, GroupQueryAttention, Attention or "
            "AdditiveAttention. A model that creates its layers in `build` must be built first."
        )
    if selection is None:
        return found
    if isinstance(selection, str) or not isinstance(selection, Sequence):
        raise ValueError(f"layers must be a list of paths or layers, got {selection!r}")
    selected = set()
    for entry in selection:
        matching = {path for path, layer in found.items() if _matches(entry, path, layer)}
        if not matching:
            raise ValueError(
                f"layers: no attention layer matches {entry!r}; known: {', '.join(found)}"
            )
        selected |= matching
    return {path: layer for path, layer in found.items() if path in selected}


def _matches(entry: Any, path: str, layer: Any) -> bool:
    if isinstance(entry, str):
        return path == entry or fnmatchcase(path, entry)
    return entry is layer


def _is_attention(layer: Any) -> bool:
    has_hooks = getattr(layer, "runs_weights_hooks", False)
    return has_hooks or isinstance(layer, (*MULTI_HEAD, *SINGLE_HEAD))


def _walk(root: Any) -> Iterator[tuple[str, Any]]:
    """Yield path and layer of a model and of all layers inside, each layer once."""
    visited: set[int] = set()

    def visit(value: Any, path: str) -> Iterator[tuple[str, Any]]:
        if id(value) in visited:
            return
        if isinstance(value, keras.layers.Layer):
            visited.add(id(value))
            yield path or value.name, value
            children = _get_children(value)
        elif isinstance(value, Mapping):
            children = [(str(key), child) for key, child in value.items()]
        elif isinstance(value, (list, tuple)):
            children = [(str(index), child) for index, child in enumerate(value)]
        else:
            return
        for name, child in children:
            yield from visit(child, f"{path}/{name}" if path else name)

    yield from visit(root, "")
    for layer in root._flatten_layers():  # such as those that a functional model calls by itself
        yield from visit(layer, layer.name)


def _get_children(layer: Any) -> list[tuple[str, Any]]:
    """Return what may contain sublayers, by name; private attributes and Keras's `_layers` last."""
    if isinstance(layer, keras.Sequential) or hasattr(layer, "operations"):  # functional
        return [(child.name, child) for child in layer.layers]
    attributes = [
        (name, value)
        for name, value in vars(layer).items()
        if isinstance(value, (keras.layers.Layer, list, tuple, Mapping))
    ]
    return sorted(attributes, key=lambda item: (item[0].startswith("_"), item[0] == "_layers"))


@contextlib.contextmanager
def attention_hooks(attention_layers: Sequence[Any], hook: Callable[..., Tensor]) -> Iterator[None]:
    """Call a hook with the weights of attention layers in the context, as in `weights_hooks`."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(weights_hooks(attention_layers, hook))
        for layer in attention_layers:
            observe: Callable[..., Any]
            if isinstance(layer, MULTI_HEAD):
                name, observe = "_compute_attention", _observe_heads
            elif isinstance(layer, SINGLE_HEAD):
                name, observe = "_apply_scores", _observe_scores
            else:
                continue
            method = functools.partial(observe, layer, getattr(layer, name), hook)
            stack.enter_context(override_attribute(layer, name, method))
        yield


def _observe_heads(
    layer: Any,
    method: Callable[..., Any],
    hook: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *args: Any,
    use_causal_mask: bool = False,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Call `_compute_attention`; compute the weights beside it if it is fused.

    query: `(B, T, H, K)`; key: `(B, S, H, K)`; the fused path has these ranks only.
    """
    causal = {"use_causal_mask": True} if use_causal_mask else {}
    output, weights = method(query, key, value, attention_mask, *args, **kwargs, **causal)
    mask = attention_mask
    if use_causal_mask:
        steps, sources = ops.arange(ops.shape(query)[1]), ops.arange(ops.shape(key)[1])
        mask = steps[:, None] >= sources
        if attention_mask is not None:
            mask = ops.logical_and(ops.cast(attention_mask, "bool"), mask)
    observed = weights
    if weights is None:
        scale = ops.cast(query.shape[-1] ** -0.5, query.dtype)
        scores = ops.einsum("btnk,bsnk->bnts", query * scale, key)
        observed = layer._masked_softmax(scores, mask)
    return hook(layer, observed, mask, output), weights


def _observe_scores(
    layer: Any,
    method: Callable[..., Any],
    hook: Callable[..., Tensor],
    scores: Tensor,
    value: Tensor,
    scores_mask: Tensor | None = None,
    training: bool = False,
) -> tuple[Tensor, Tensor]:
    """Call `_apply_scores`, which returns the weights too, after dropout."""
    output, weights = method(scores, value, scores_mask=scores_mask, training=training)
    observed = weights
    if training and layer.dropout > 0:
        _, observed = method(scores, value, scores_mask=scores_mask, training=False)
    return hook(layer, observed, scores_mask, output), weights
