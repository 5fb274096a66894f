"""Base class of attention tests: sizes, tensors, masks and a call."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tests.layers.layer_case import LayerCase
from tests.layers.running import array

B, T, S = 3, 4, 5

VALUE_MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 1, 0]], "bool")
OTHER_MASK = np.array([[1, 0, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], "bool")
QUERY_MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]], "bool")
ATTENTION_MASK = np.random.default_rng(5).random((B, T, S)) > 0.3

Array = np.ndarray
Weights = dict[str, Array]
Result = tuple[Array, Array]  # context and weights


def softmax(scores: Array, mask: Array) -> Array:
    """Softmax in float64; fully masked rows are 0."""
    scores = np.where(mask, scores, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True, initial=-1e300)
    exp = np.exp(scores - top)
    return exp / np.maximum(exp.sum(axis=-1, keepdims=True), 1e-300)


def hard(scores: Array, mask: Array) -> Array:
    """One-hot at the first largest unmasked score; fully masked rows are 0."""
    weights = np.zeros(np.broadcast_shapes(scores.shape, mask.shape))
    ranked = np.where(mask, scores, -np.inf)
    for row in np.ndindex(weights.shape[:-1]):
        if np.broadcast_to(mask, weights.shape)[row].any():
            weights[row][int(np.argmax(ranked[row]))] = 1
    return weights


def additive_hidden(weights: Weights, query: Array, key: Array) -> Array:
    """Return `q W + k U + b` for every query and key, `(..., T, S, H)`."""
    queries = (query @ weights["query_kernel"])[..., :, None, :]
    return queries + (key @ weights["key_kernel"])[..., None, :, :] + weights.get("bias", 0)


def additive_scores(weights: Weights, query: Array, key: Array) -> Array:
    return np.tanh(additive_hidden(weights, query, key)) @ weights["v"]


class AttentionCase(LayerCase):
    """A case implements `scores`, in float64, and `align` if it is not a softmax."""

    widths: ClassVar[tuple[int, int, int]] = (6, 5, 7)
    """Widths of query, key and value."""
    sums_to_one: ClassVar[bool] = True
    """Whether weights sum to one in rows that are not fully masked."""
    uses_scores: ClassVar[bool] = True
    """Whether weights depend on scores, so that `attention_bias` has an effect."""

    def scores(self, weights: Weights, query: Array, key: Array) -> Array:
        """Return float64 scores `(B, T, S)` from the weights by name."""
        raise TypeError(f"{type(self).__name__} has no oracle")

    def align(self, scores: Array, mask: Array) -> Array:
        return softmax(scores, mask)

    def oracle(self, weights: Weights, tensors: tuple[Array, ...], mask: Array) -> Result:
        """Return context and weights in float64; the mask is `(B, T, S)`."""
        query, value, key = (x.astype("float64") for x in tensors)
        attention_weights = self.align(self.scores(weights, query, key), mask)
        return attention_weights @ value, attention_weights

    def tensors(
        self, batch: int = B, steps: int = T, sources: int = S, seed: int = 0, scale: float = 1.0
    ) -> tuple[Array, ...]:
        """Return query, value and key."""
        rng = np.random.default_rng(seed)
        wq, wk, wv = self.widths
        shapes = ((batch, steps, wq), (batch, sources, wv), (batch, sources, wk))
        return tuple((scale * rng.normal(size=shape)).astype("float32") for shape in shapes)

    def attend(self, layer: Any, *tensors: Any, **masks: Any) -> Result:
        """Return context and weights as float64 arrays."""
        outputs = layer(*tensors, return_attention_scores=True, **masks)
        context, weights = self.one_head(outputs)
        return array(context), array(weights)

    def one_head(self, outputs: Any) -> Any:
        """Return the context, or context and weights with one row per query.

        With several heads, return the mean of their weights.
        """
        return outputs

    @property
    def output_width(self) -> int:
        """Return the width of the context."""
        return self.widths[2]


def numbers(layer: Any) -> Weights:
    """Return float64 weights by name; the second one of the same name ends in `_2`."""
    result: Weights = {}
    for v in layer.weights:
        result[f"{v.name}_2" if v.name in result else v.name] = array(v)
    return result


def garbage(x: Array, mask: Array, fill: float) -> Array:
    """Return `x` with `fill` at masked positions."""
    return np.where(mask[..., None], x, np.asarray(fill, x.dtype))
