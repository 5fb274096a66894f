"""Importance of attention heads for the loss of a model, by gradient and by masking."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops, tree
from numpy.typing import NDArray

from attention_zoo.inspection.attention_layers import (
    MULTI_HEAD,
    attention_hooks,
    find_attention_layers,
)
from attention_zoo.ops.arguments import whole_number
from attention_zoo.ops.gradients import gradient
from attention_zoo.registry import check_choice
from attention_zoo.typing import Tensor

METHODS = ("gradient", "mask")


def head_importance(
    model: keras.layers.Layer,
    inputs: Any,
    targets: Any,
    loss: Any,
    layers: Sequence[Any] | None = None,
    method: str = "gradient",
    batch_size: int = 32,
) -> dict[str, NDArray[np.float64]]:
    """Importance of each attention head for the loss of a model.

    "gradient": `I_h = mean over examples of |d loss / d xi_h| at xi = 1`, where xi_h is a factor of
    the context of head h, before the output projection. "mask": the increase of the mean loss if
    the context of head h is 0, `loss(xi_h = 0) - loss`; negative if the loss decreases.

    The model runs eagerly in inference mode. If a layer is called several times, its factors apply
    to all calls.

    Args:
        model: any built Keras model or layer; see `record` for the attention layers.
        inputs: the argument of the model: an array, or a nest of arrays, with N examples.
        targets: an array, or a nest of arrays, with N examples.
        loss: name of a Keras loss, a `keras.losses.Loss`, whose reduction is ignored, or a function
            of targets and outputs. It returns `(B, ...)`, losses that are averaged over all axes
            but the first.
        layers: paths, patterns of paths such as `"encoder/*"`, or layers; all if None.
        method: "gradient", one forward and backward pass, or "mask", one forward pass for each
            head.
        batch_size: number of examples per forward pass. It must be 1 for a layer whose batch is not
            the batch of the model, such as one over the sentences of several documents.

    Returns:
        Importances `(H,)` by layer path; H is 1 in layers without heads.

    Raises:
        ValueError: an unknown method or loss, inputs and targets with different numbers of
            examples, a loss that is not `(B, ...)`, a model without attention layers, an entry of
            `layers` that matches none or did not run, or a layer with another batch.

    Example:
        >>> import keras, numpy as np
        >>> from attention_zoo.inspection.head_importance import head_importance
        >>> x = keras.Input((3, 8))
        >>> y = keras.layers.MultiHeadAttention(2, 4, name="attention")(x, x)
        >>> model = keras.Model(x, keras.layers.Dense(1)(y[:, 0]))
        >>> inputs, targets = np.ones((5, 3, 8), "float32"), np.ones((5, 1), "float32")
        >>> {k: v.shape for k, v in head_importance(model, inputs, targets, "mse").items()}
        {'attention': (2,)}

    Reference:
        Michel et al. 2019, arXiv 1905.10650: sections 2.3 (xi_h), 3.2 (masking one head) and 4.1
        (I_h), without the normalization of I_h by layer. The paper masks heads and measures BLEU or
        accuracy instead of the loss.
    """
    check_choice("method", method, METHODS)
    whole_number("batch_size", batch_size, 1)
    compute_loss = _make_loss(loss)
    found = find_attention_layers(model, layers)
    factors, total, num_examples = _HeadFactors(found), np.zeros(0), 0
    compute = _compute_gradients if method == "gradient" else _compute_increases
    with attention_hooks(list(found.values()), factors):
        for size, x, y in _split_batches(inputs, targets, batch_size):
            forward = functools.partial(model, x, training=False)
            if not factors.num_heads:
                factors.find_heads(forward, layers)
                total = np.zeros(sum(factors.num_heads.values()))
            run = functools.partial(_compute_losses, factors, forward, compute_loss, y, size)
            total += compute(run, size, len(total))
            num_examples += size
    parts = np.split(total / num_examples, np.cumsum([*factors.num_heads.values()])[:-1])
    return dict(zip(factors.num_heads, parts, strict=True))


def _compute_gradients(
    run: Callable[[Tensor], Tensor], size: int, num_heads: int
) -> NDArray[np.float64]:
    """Return the absolute gradients of a batch's losses by the factors, summed over examples."""
    gradients = ops.convert_to_numpy(gradient(run, ops.ones((size, num_heads))))
    return np.abs(gradients.astype("float64")).sum(0)


def _compute_increases(
    run: Callable[[Tensor], Tensor], size: int, num_heads: int
) -> NDArray[np.float64]:
    """Return the increases of a batch's loss, summed over examples, by masking single heads."""

    def compute_sum(factors: NDArray[np.float32]) -> float:
        return float(ops.convert_to_numpy(run(ops.convert_to_tensor(factors))).sum(dtype="float64"))

    unmasked = compute_sum(np.ones((1, num_heads), "float32"))
    masks = 1 - np.eye(num_heads, dtype="float32")
    return np.array([compute_sum(mask[None]) - unmasked for mask in masks])


class _HeadFactors:
    """Hook that multiplies the contexts of attention heads by factors."""

    def __init__(self, layers: dict[str, Any]) -> None:
        self.paths = {id(layer): path for path, layer in layers.items()}
        self.num_heads: dict[str, int] = {}
        """Number of heads by path, in the order of the layers."""
        self._factors: dict[str, Tensor] = {}
        self._called: dict[str, int] = {}

    def find_heads(self, run: Callable[[], Any], selection: Sequence[Any] | None) -> None:
        """Run the model to find the number of heads of each layer that runs."""
        run()
        missing = [path for path in self.paths.values() if path not in self._called]
        if missing and (selection is not None or not self._called):
            raise ValueError(
                f"attention layer {missing[0]} did not run in the call of the model. Omit it from"
                " `layers`; a `tf.function` that was traced before must be retraced."
            )
        self.num_heads = {
            path: self._called[path] for path in self.paths.values() if path in self._called
        }

    def apply(self, factors: Tensor, run: Callable[[], Any]) -> Any:
        """Run the model with factors `(B, H)` or `(1, H)` of all heads of all layers."""
        ends = np.cumsum([*self.num_heads.values()])
        for (path, count), end in zip(self.num_heads.items(), ends, strict=True):
            self._factors[path] = factors[:, end - count : end]
        self._called = {}
        try:
            outputs = run()
        finally:
            self._factors = {}
        missing = ", ".join(path for path in self.num_heads if path not in self._called)
        if missing:
            raise ValueError(
                f"attention layers must run in every call, got none of {missing} in a later call."
                " Call the uncompiled function instead of a `tf.function`."
            )
        return outputs

    def __call__(self, layer: Any, weights: Tensor, mask: Tensor | None, output: Tensor) -> Tensor:
        path = self.paths[id(layer)]
        axis = _find_head_axis(layer, output)
        self._called[path] = 1 if axis is None else int(output.shape[axis])
        if path not in self._factors:
            return output
        factors = self._factors[path]
        if factors.shape[0] not in (1, output.shape[0]):
            raise ValueError(
                f"layer {path} must run on the batch of the model, got {output.shape[0]} rows for"
                f" {factors.shape[0]} examples. Use batch_size=1."
            )
        shape = [1] * len(output.shape)
        shape[0] = factors.shape[0]
        if axis is not None:
            shape[axis] = factors.shape[1]
        return output * ops.cast(ops.reshape(factors, shape), output.dtype)


def _find_head_axis(layer: Any, output: Tensor) -> int | None:
    """Return the axis of the heads in the context of a layer, or None without heads."""
    if isinstance(layer, MULTI_HEAD):  # (B, T, H, V)
        return len(output.shape) - 2
    return 1 if getattr(layer, "heads", None) else None  # (B, H, T, V)


def _make_loss(loss: Any) -> Callable[[Any, Any], Tensor]:
    """Return a loss as a function without reduction."""
    function = keras.losses.get(loss) if isinstance(loss, str) else loss
    function = function.call if isinstance(function, keras.losses.Loss) else function
    if not callable(function):
        raise ValueError(
            f"loss must be a name, a Keras loss or a function of targets and outputs, got {loss!r}"
        )
    return function


def _compute_losses(
    factors: _HeadFactors,
    forward: Callable[[], Any],
    loss: Callable[[Any, Any], Tensor],
    targets: Any,
    size: int,
    xi: Tensor,
) -> Tensor:
    """Return the losses `(B,)` of a batch for factors `(B, H)` or `(1, H)` of all heads."""
    losses = ops.convert_to_tensor(loss(targets, factors.apply(xi, forward)))
    if tuple(losses.shape[:1]) != (size,):
        raise ValueError(
            f"loss must return ({size}, ...) for {size} examples, without reduction, got shape"
            f" {tuple(losses.shape)}"
        )
    return ops.mean(ops.reshape(losses, (size, -1)), axis=1)


def _split_batches(inputs: Any, targets: Any, batch_size: int) -> Iterator[tuple[int, Any, Any]]:
    """Yield the size, the inputs and the targets of batches, as tensors."""
    inputs, targets = _as_arrays(inputs), _as_arrays(targets)
    sizes = {len(leaf) for leaf in tree.flatten((inputs, targets))}
    if len(sizes) != 1 or not max(sizes):
        raise ValueError(
            "inputs and targets must have the same number of examples, at least 1, got"
            f" {sorted(sizes)}"
        )
    count = max(sizes)
    for start in range(0, count, batch_size):
        rows = slice(start, min(start + batch_size, count))
        yield rows.stop - start, _take_rows(inputs, rows), _take_rows(targets, rows)


def _as_arrays(nest: Any) -> Any:
    """Return a list of numbers as an array, and other nests unchanged."""
    is_list = isinstance(nest, (list, tuple))
    if is_list and not any(hasattr(leaf, "shape") for leaf in tree.flatten(nest)):
        return np.asarray(nest)
    return nest


def _take_rows(nest: Any, rows: slice) -> Any:
    return tree.map_structure(lambda leaf: ops.convert_to_tensor(leaf[rows]), nest)
