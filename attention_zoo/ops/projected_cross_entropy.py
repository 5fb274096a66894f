"""Cross entropy over a large vocabulary, without creating all logits at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from attention_zoo.ops.positions import count_blocks
from attention_zoo.ops.recurrence import scan
from attention_zoo.typing import Tensor

MAX_LOGITS = 2**21
"""Number of logits in memory at a time: as many as fit the CPU caches."""


class Projection(NamedTuple):
    """Lazily computed logits `(..., V)`: `hidden kernel + bias`.

    hidden: `(..., D)`. kernel: `(D, V)`. bias: `(V,)` or None.
    """

    hidden: Tensor
    kernel: Tensor
    bias: Tensor | None = None

    def logits(self) -> Tensor:
        """Compute the logits."""
        logits = ops.matmul(self.hidden, ops.cast(self.kernel, self.hidden.dtype))
        return logits if self.bias is None else logits + ops.cast(self.bias, logits.dtype)


class _Tokens(NamedTuple):
    """Tokens: hidden `(N, D)`, the others `(N,)`; in chunks, with one more leading axis.

    mixture: both parts of the mixture, or empty.
    """

    hidden: Tensor
    labels: Tensor
    weights: Tensor
    mixture: tuple[Tensor, ...] = ()


def projected_cross_entropy(
    projection: Projection,
    labels: Tensor,
    weights: Tensor,
    label_smoothing: float = 0.0,
    rows: int | None = None,
    mixture: tuple[Tensor, ...] = (),
) -> Tensor:
    """Compute `sum_n w_n ((1 - e) -log p_n(y_n) + e mean_v -log p_n(v))`, a float32 scalar.

    Loss and gradient are computed together, chunk by chunk. Only the logits of one chunk of tokens
    are in memory, instead of N V, and no product is computed twice. The gradient is
    `w (p - (1 - e) onehot(y) - e / V)` times the projection. Only p requires a product over the
    vocabulary; the other two terms are rows of the kernel and its mean. In a mixture, w is
    multiplied by the vocabulary's share of the label's probability.

    Args:
        projection: hidden states `(N, D)`, kernel `(D, V)` and bias `(V,)` or None.
        labels: y, `(N,)` integers; one outside the vocabulary makes the loss NaN.
        weights: w, `(N,)`; tokens of weight 0 are ignored, whatever their other values.
        label_smoothing: e.
        rows: tokens per chunk; if None, about CELLS / V, from 64 to 256.
        mixture: `(first, second)`, `(N,)` float32 each: adds a second distribution (such as
            copying), `p(y) = exp(first) softmax(logits)_y + exp(second)`; requires e = 0.
    """
    rows = rows or min(256, max(64, MAX_LOGITS // projection.kernel.shape[1]))
    tensors = [ops.copy(part) for part in projection if part is not None]
    tensors, num_projection = [*tensors, *mixture], len(tensors)
    weights, labels = ops.cast(weights, "float32"), ops.cast(labels, "int32")
    is_weighted = ops.not_equal(weights, 0)
    tensors[0] = ops.where(is_weighted[:, None], tensors[0], 0)
    is_outside = ops.logical_or(labels < 0, labels >= tensors[1].shape[1])
    weights = ops.where(ops.logical_and(is_weighted, is_outside), float("nan"), weights)
    labels = ops.where(is_outside, 0, labels)

    def run(*parts: Tensor) -> tuple[Tensor, Callable[..., Any]]:
        projection = Projection(*parts[:num_projection])
        tokens = _Tokens(projection.hidden, labels, weights, tuple(parts[num_projection:]))
        loss, gradients = _loss_and_gradients(projection, tokens, label_smoothing, rows)

        def gradient(*tensors: Tensor, upstream: Tensor | None = None) -> tuple[Tensor, ...]:
            upstream = tensors[0] if upstream is None else upstream
            pairs = zip(gradients, parts, strict=True)
            return tuple(ops.cast(part * upstream, like.dtype) for part, like in pairs)

        return loss, gradient

    loss: Tensor = ops.custom_gradient(run)(*tensors)
    return loss


def _loss_and_gradients(
    projection: Projection, tokens: _Tokens, smoothing: float, rows: int
) -> tuple[Tensor, list[Tensor]]:
    """Return the loss and its float32 gradients.

    These are by hidden states, kernel, bias (if any) and both parts of the mixture (if any).
    """
    kernel = ops.cast(projection.kernel, projection.hidden.dtype)
    bias = None if projection.bias is None else ops.cast(projection.bias, "float32")
    count, width = ops.shape(projection.hidden)
    size = projection.kernel.shape[1]
    # In half precision, subtract before rounding: rounded terms that are nearly equal cancel to 0.
    is_half_precision = keras.backend.standardize_dtype(kernel.dtype) in ("float16", "bfloat16")

    def process_chunk(state: list[Tensor], chunk: _Tokens) -> tuple[list[Tensor], Any]:
        loss, by_kernel, *by_bias = state
        logits = ops.cast(ops.matmul(chunk.hidden, kernel), "float32")
        logits = logits if bias is None else logits + bias
        top = ops.max(logits, axis=-1, keepdims=True)
        exps = ops.exp(logits - top)
        total = ops.sum(exps, axis=-1)
        label_logits = ops.take_along_axis(logits, chunk.labels[:, None], axis=-1)[:, 0]
        losses = ops.log(total) + top[:, 0] - (1 - smoothing) * label_logits
        losses, weights, by_mixture = _apply_mixture(losses, chunk)
        loss += ops.sum(chunk.weights * losses)
        share = (weights / total)[:, None]
        if is_half_precision:
            targets = (1 - smoothing) * ops.one_hot(chunk.labels, size) + smoothing / size
            exps, share = share * exps - weights[:, None] * targets, ops.ones_like(share)
        exps = ops.cast(exps, kernel.dtype)
        by_hidden = share * ops.cast(_multiply_transposed(exps, kernel), "float32")
        shared = ops.cast(ops.transpose(ops.cast(chunk.hidden, "float32") * share), kernel.dtype)
        by_kernel += ops.cast(ops.matmul(shared, exps), "float32")
        by_bias = [part + ops.sum(share * ops.cast(exps, "float32"), axis=0) for part in by_bias]
        return [loss, by_kernel, *by_bias], (by_hidden, by_mixture)

    start = [ops.zeros(()), ops.zeros((width, size))]
    start += [] if bias is None else [ops.zeros((size,))]
    terms: list[Tensor] = []
    if not tokens.mixture:
        start[0], terms = _compute_label_terms(projection, tokens, kernel, smoothing)
        if not is_half_precision:
            start[1:] = terms[1:]  # the sums start from them, which saves a copy of the kernel
    chunks = _split_into_chunks(tokens, rows)
    like = ops.zeros((rows, width)), tuple(ops.zeros((rows,)) for _ in tokens.mixture)
    (loss, *by_weights), (by_hidden, by_mixture) = scan(
        process_chunk, start, chunks, like, overlap=False
    )
    gradients = [ops.reshape(by_hidden, (-1, width))[:count], *by_weights]
    by_mixture = [ops.reshape(part, (-1,))[:count] for part in by_mixture]
    if is_half_precision:
        return loss, [*gradients, *by_mixture]
    if tokens.mixture:  # the weights are known only now
        tokens = tokens._replace(weights=-by_mixture[0])
        _, terms = _compute_label_terms(projection, tokens, kernel, smoothing)
        gradients[1:] = [a + b for a, b in zip(gradients[1:], terms[1:], strict=True)]
    gradients[0] += terms[0]
    return loss, [*gradients, *by_mixture]


def _multiply_transposed(exps: Tensor, kernel: Tensor) -> Tensor:
    """Compute `exps kernel^T` without transposing the kernel, which may be large."""
    return ops.transpose(ops.matmul(kernel, ops.transpose(exps)))


def _apply_mixture(losses: Tensor, chunk: _Tokens) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """Return the mixture's costs, the weights of its first part, and gradients by both parts."""
    if not chunk.mixture:
        return losses, chunk.weights, ()
    first, second = chunk.mixture[0] - losses, chunk.mixture[1]
    log_total = log_sum(first, second)
    # Not `1 - share`: its rounding error could be divided by a tiny probability.
    shares = [chunk.weights * ops.exp(log_prob - log_total) for log_prob in (first, second)]
    return -log_total, shares[0], tuple(-share for share in shares)


def log_sum(a: Tensor, b: Tensor) -> Tensor:
    """Compute `log(exp(a) + exp(b))` of finite numbers; the gradient is exact where a equals b."""
    top = ops.stop_gradient(ops.maximum(a, b))
    return top + ops.log(ops.exp(a - top) + ops.exp(b - top))


def _split_into_chunks(tokens: _Tokens, rows: int) -> _Tokens:
    """Split tokens into at least one chunk, `(chunks, rows, ...)`; padding has weight 0."""
    count = ops.shape(tokens.labels)[0]
    padding = count_blocks(count, rows) * rows - count

    def split(part: Tensor) -> Tensor:
        padded = ops.pad(part, ((0, padding), *((0, 0),) * (len(part.shape) - 1)))
        return ops.reshape(padded, (-1, rows, *part.shape[1:]))

    chunks: _Tokens = keras.tree.map_structure(split, tokens)
    return chunks


def _compute_label_terms(
    projection: Projection, tokens: _Tokens, kernel: Tensor, smoothing: float
) -> tuple[Tensor, list[Tensor]]:
    """Compute `-e mean_v logits` and the gradients of `-(1 - e) logits(y) - e mean_v logits`."""
    size = projection.kernel.shape[1]
    hidden = ops.cast(tokens.hidden, "float32")
    mean = ops.mean(ops.cast(kernel, "float32"), axis=1)
    means = ops.matmul(hidden, mean[:, None])[:, 0]
    weights = -tokens.weights[:, None]
    rows = ops.cast(ops.transpose(ops.take(kernel, tokens.labels, axis=1)), "float32")
    by_hidden = weights * ((1 - smoothing) * rows + smoothing * mean)
    weighted = weights * hidden
    by_classes = (1 - smoothing) * ops.segment_sum(weighted, tokens.labels, size)
    by_kernel = ops.transpose(by_classes) + smoothing / size * ops.sum(weighted, axis=0)[:, None]
    gradients = [by_hidden, by_kernel]
    if projection.bias is not None:
        means += ops.mean(ops.cast(projection.bias, "float32"))
        counts = ops.segment_sum(weights[:, 0], tokens.labels, size)
        gradients.append((1 - smoothing) * counts + smoothing / size * ops.sum(weights))
    return smoothing * ops.sum(weights[:, 0] * means), gradients
