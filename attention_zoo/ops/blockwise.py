"""Exact blockwise attention, whose memory is linear in the sequence length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras import backend, ops

from attention_zoo.ops.arguments import static_size
from attention_zoo.ops.block_biases import DistanceBias, PairBias
from attention_zoo.ops.mask_pattern import FULL_ATTENTION, BlockIterator, MaskPattern, Pair
from attention_zoo.ops.masking import at_least_float32, combine_masks, zero_masked
from attention_zoo.ops.positions import count_blocks
from attention_zoo.ops.random import sample_keep_mask
from attention_zoo.ops.recurrence import update_rows
from attention_zoo.typing import Tensor

Tensors = tuple[Tensor, ...]

MIN_DYNAMIC_BLOCK = 32
"""Number of positions in a block, at least, if a length is dynamic."""


def blockwise_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float = 1.0,
    mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    pattern: MaskPattern = FULL_ATTENTION,
    distance_bias: Tensor | None = None,
    attention_bias: Tensor | None = None,
    dropout: float = 0.0,
    seed: Tensor | None = None,
    block: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute `softmax(scale query key^T + bias) value` without creating all scores at once.

    Blocks that `pattern` masks entirely are skipped. The backward pass recomputes the weights from
    the scores and their log-sum-exp. On JAX there are no second derivatives.

    Args:
        query: `(B, H, T, K)`.
        key: `(B, G, S, K)`, each shared by a group of H / G adjacent query heads.
        value: `(B, G, S, V)`.
        mask: `(B, S)` booleans, the padding mask of the sources.
        attention_mask: `(B or 1, H or 1, T, S)` booleans.
        pattern: mask pattern defined by positions (causal, window).
        distance_bias: `(H, T + S + 1)`, score bias by distance, for the distances -T .. S.
        attention_bias: `(B or 1, H or 1, T, S)`, added to the scores.
        dropout: rate of dropped weights; the dropout mask is `dropout_mask(seed, ...)`.
        seed: two integers, required with dropout.
        block: number of queries and of sources in a block, fewer for shorter sequences; when
            None, `pattern.block_size`.

    Returns:
        Context `(B, H, T, V)`, and the log-sum-exp of the unmasked scores, `(B, H, T)`; both in at
        least float32. For fully masked rows they are 0 and -inf.

    Reference:
        Dao et al. 2022, arXiv 2205.14135, algorithms 1 and 4: O is the context, L is the
        log-sum-exp; and Rabe and Staats 2021, arXiv 2112.05682.
    """
    if block is None:
        block = pattern.block_size
    if mask is not None:
        key, value = zero_masked(key, mask[:, None]), zero_masked(value, mask[:, None])
    blocks = _Blocks(query, key, pattern, mask, attention_mask, dropout, seed, block)
    biases: list[Tensor] = []
    if distance_bias is not None:
        biases.append(distance_bias)
        blocks.biases.append(DistanceBias(blocks))
    if attention_bias is not None:
        biases.append(attention_bias)
        blocks.biases.append(PairBias(blocks, attention_bias))

    def run(*inputs: Tensor) -> tuple[Pair, Callable[..., Tensors]]:
        inputs = tuple(ops.stop_gradient(x) for x in inputs)  # autodiff must not record the loops
        tensors = blocks.split(*inputs)
        results = _forward(blocks, tensors, scale)

        def gradient(*upstream: Any) -> Tensors:
            if len(upstream) == 1:  # JAX passes both as one tuple
                upstream = upstream[0]
            gradients = _backward(blocks, tensors, scale, results, upstream)
            return tuple(ops.cast(x, like.dtype) for x, like in zip(gradients, inputs, strict=True))

        context, log_sum_exp = map(blocks.merge_queries, results)
        return (context, log_sum_exp[..., 0]), gradient

    return ops.custom_gradient(run)(query, key, value, *biases)


def dropout_mask(
    seed: Tensor, rate: float, heads: Tensor, shape: Pair, start: Pair = (0, 0)
) -> Tensor:
    """Return the scaled dropout mask, 0 or 1 / (1 - rate), `(heads, *shape)` float32.

    Each entry depends only on the seed and its index, so a block equals that part of the full mask.

    Args:
        seed: two integers.
        heads: number of heads times batch size.
        shape: number of queries and number of sources.
        start: index of the first query and of the first source.
    """
    is_kept = sample_keep_mask(seed, rate, (heads, *shape), (0, *start))
    return ops.where(is_kept, 1 / (1 - rate), 0.0)


class _Blocks:
    """Split of T queries into N blocks and S sources into M, and the pairs of blocks to visit."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        pattern: MaskPattern,
        mask: Tensor | None,
        attention_mask: Tensor | None,
        dropout: float,
        seed: Tensor | None,
        block: int,
    ) -> None:
        self.batch, self.heads, self.steps, _ = ops.shape(query)
        self.groups, self.sources = key.shape[1], ops.shape(key)[2]
        self.group_size = self.heads // self.groups
        self.pattern, self.dropout, self.seed = pattern, dropout, seed
        self.dtype = backend.standardize_dtype(at_least_float32(query[:0]).dtype)
        self.size = _block_size(block, self.steps, self.sources)
        self.rows, self.columns = (count_blocks(n, self.size) for n in (self.steps, self.sources))
        # padding widths (before, after)
        self.query_padding = (0, self.rows * self.size - self.steps)
        self.source_padding = (0, self.columns * self.size - self.sources)
        self.iterator = BlockIterator(pattern, self.size, self.rows, self.columns)
        length = static_size(self.columns * self.size)
        if mask is None and (length is None or key.shape[2] != length):
            mask = ops.ones((1, self.sources), "bool")
        self.mask = None if mask is None else self.split_sources(mask[:, None, :, None])
        widths = ((0, 0), (0, 0), self.query_padding, self.source_padding)
        self.attention_mask = None if attention_mask is None else ops.pad(attention_mask, widths)
        self.biases: list[DistanceBias | PairBias] = []

    # conversion to blocks and back

    def split(self, query: Tensor, key: Tensor, value: Tensor, *bias_tensors: Tensor) -> Tensors:
        """Split tensors into blocks along a new first axis.

        query: `(N, B, G, H / G block, K)`, the heads of a group concatenated. key, value:
        `(M, B, G, block, ...)`. bias_tensors: the biases, in the order of `biases`.
        """
        key, value = self.split_sources(key), self.split_sources(value)
        pairs = zip(self.biases, bias_tensors, strict=True)
        return (self.split_queries(query), key, value, *(bias.split(x) for bias, x in pairs))

    def merge(self, query: Tensor, key: Tensor, value: Tensor, *bias_tensors: Tensor) -> Tensors:
        """Merge blocks of gradients: the transpose of `split`."""
        key, value = self._merge_sources(key), self._merge_sources(value)
        pairs = zip(self.biases, bias_tensors, strict=True)
        return (self.merge_queries(query), key, value, *(bias.merge(x) for bias, x in pairs))

    def split_queries(self, x: Tensor) -> Tensor:
        """Split queries, `(B, H, T, X)` to `(N, B, G, H / G block, X)`."""
        width, group = x.shape[-1], self.group_size
        x = ops.pad(x, ((0, 0), (0, 0), self.query_padding, (0, 0)))
        x = ops.reshape(x, (self.batch, self.groups, group, self.rows, self.size, width))
        x = ops.transpose(x, (3, 0, 1, 2, 4, 5))
        return ops.reshape(x, (self.rows, self.batch, self.groups, group * self.size, width))

    def merge_queries(self, x: Tensor) -> Tensor:
        """Invert `split_queries`."""
        width, group = x.shape[-1], self.group_size
        x = ops.reshape(x, (self.rows, self.batch, self.groups, group, self.size, width))
        x = ops.transpose(x, (1, 2, 3, 0, 4, 5))
        x = ops.reshape(x, (self.batch, self.heads, self.rows * self.size, width))
        return x[:, :, : self.steps]

    def split_sources(self, x: Tensor) -> Tensor:
        """Split sources, `(B, G, S, X)` to `(M, B, G, block, X)`."""
        batch, groups, _, width = ops.shape(x)
        x = ops.pad(x, ((0, 0), (0, 0), self.source_padding, (0, 0)))
        x = ops.reshape(x, (batch, groups, self.columns, self.size, width))
        return ops.transpose(x, (2, 0, 1, 3, 4))

    def _merge_sources(self, x: Tensor) -> Tensor:
        """Invert `split_sources`."""
        x = ops.transpose(x, (1, 2, 0, 3, 4))
        batch, groups, _, _, width = ops.shape(x)
        x = ops.reshape(x, (batch, groups, self.columns * self.size, width))
        return x[:, :, : self.sources]

    # pairs of blocks

    def add_biases_and_mask(
        self, scores: Tensor, bias_tensors: Sequence[Tensor], pair: Pair
    ) -> Tensor:
        """Return one pair's scores, `(B, G, H / G block, block)`, with bias; -inf where masked."""
        group, size = self.group_size, self.size
        shape = (self.batch, self.groups, group, size, size)
        mask = self._mask(*pair)
        if mask is None and not self.biases:
            return scores
        scores = ops.reshape(scores, shape)
        for bias, bias_tensor in zip(self.biases, bias_tensors, strict=True):
            scores = scores + bias.expand(self.cast(bias_tensor[bias.index(pair)]))
        if mask is not None:
            scores = ops.where(mask, scores, float("-inf"))
        return ops.reshape(scores, (self.batch, self.groups, group * size, size))

    def _mask(self, i: Tensor, j: Tensor) -> Tensor | None:
        """Return a mask that broadcasts against `(B, G, H / G, block, block)`, or None."""
        positions = ops.arange(self.size, dtype="int32")
        masks = [self.pattern.mask(i * self.size + positions, j * self.size + positions)]
        if self.mask is not None:
            masks.append(self.mask[j][:, :, None, None, :, 0])
        if self.attention_mask is not None:
            batch, heads = ops.shape(self.attention_mask)[:2]
            start, shape = (0, 0, i * self.size, j * self.size), (batch, heads, *[self.size] * 2)
            part = ops.slice(self.attention_mask, start, shape)
            groups = (1, 1) if heads == 1 else (self.groups, self.group_size)
            masks.append(ops.reshape(part, (batch, *groups, self.size, self.size)))
        return combine_masks(*masks)

    def dropout_mask(self, pair: Pair) -> Tensor | None:
        """Return the scaled dropout mask of one pair, or None without dropout."""
        if not self.dropout:
            return None
        start, shape = (pair[0] * self.size, pair[1] * self.size), (self.size, self.size)
        mask = dropout_mask(self.seed, self.dropout, self.batch * self.heads, shape, start)
        rows = self.group_size * self.size
        return self.cast(ops.reshape(mask, (self.batch, self.groups, rows, self.size)))

    def cast(self, x: Tensor) -> Tensor:
        return ops.cast(x, self.dtype)


def _block_size(block: int, num_queries: Tensor, num_sources: Tensor) -> Tensor:
    """Return the number of positions of a block, so that short sequences are padded little."""
    if isinstance(num_queries, int) and isinstance(num_sources, int):
        return min(block, max(1, num_queries, num_sources))
    shorter = ops.minimum(num_queries, num_sources)
    return ops.minimum(block, ops.maximum(shorter, MIN_DYNAMIC_BLOCK))


def _forward(blocks: _Blocks, tensors: Tensors, scale: float) -> Pair:
    """Compute contexts and log-sum-exps, in blocks of queries.

    The loop keeps a running maximum of each query's scores, and running sums of `exp(score - max)`
    and of `exp(score - max) value`. When the maximum grows, both sums are rescaled.
    """
    queries, keys, values, *bias_tensors = tensors
    iterator = blocks.iterator

    def step(pair: Pair, row: Tensors) -> tuple[Pair, Tensors]:
        context, total, old_max = row
        query = blocks.cast(queries[pair[0]]) * scale
        key, value = blocks.cast(keys[pair[1]]), blocks.cast(values[pair[1]])
        scores = ops.matmul(query, ops.swapaxes(key, -1, -2))
        scores = blocks.add_biases_and_mask(scores, bias_tensors, pair)
        new_max = ops.max(scores, axis=-1, keepdims=True, initial=float("-inf"))
        new_max = ops.maximum(old_max, new_max)  # without `initial`, empty batches fail
        finite_max = _finite(new_max)
        weights, rescale = ops.exp(scores - finite_max), ops.exp(old_max - finite_max)
        total = total * rescale + ops.sum(weights, axis=-1, keepdims=True)
        dropped = _multiply(weights, blocks.dropout_mask(pair))
        context = context * rescale + ops.matmul(dropped, value)
        return iterator.next(pair), (context, total, new_max)

    def rows(pair: Pair) -> Tensors:
        return (pair[0],) * 3

    *shape, _ = ops.shape(queries)
    context = ops.zeros((*shape, values.shape[-1]), blocks.dtype)
    total = ops.zeros((*shape, 1), blocks.dtype)
    maximum = ops.full((*shape, 1), float("-inf"), blocks.dtype)
    tables: Tensors = (context, total, maximum)
    tables = update_rows(iterator.is_valid, rows, step, iterator.first(), tables)
    context, total, maximum = tables
    has_unmasked = total != 0
    context = context / ops.where(has_unmasked, total, 1)
    return context, ops.where(has_unmasked, _finite(maximum) + ops.log(total), maximum)


def _backward(
    blocks: _Blocks, tensors: Tensors, scale: float, results: Pair, upstream: Pair
) -> Tensors:
    """Compute gradients by query, key, value and bias; weights are `exp(score - log-sum-exp)`.

    The gradient by a score is `weight (gradient by the weight - mean)`. The mean is weighted by the
    weights, and equals the dot product of the context and its gradient.

    Args:
        results: contexts and log-sum-exps, from `_forward`. upstream: their gradients.
    """
    queries, keys, values, *bias_tensors = tensors
    iterator, (context, log_sum_exp) = blocks.iterator, results
    log_sum_exp = _finite(log_sum_exp)
    by_context = blocks.split_queries(blocks.cast(upstream[0]))
    by_log_sum_exp = blocks.split_queries(blocks.cast(upstream[1][..., None]))
    mean = ops.sum(by_context * context, axis=-1, keepdims=True) - by_log_sum_exp

    def step(pair: Pair, row: Tensors) -> tuple[Pair, Tensors]:
        i, j = pair
        query, by_row = blocks.cast(queries[i]) * scale, by_context[i]
        key, value = blocks.cast(keys[j]), blocks.cast(values[j])
        scores = ops.matmul(query, ops.swapaxes(key, -1, -2))
        scores = blocks.add_biases_and_mask(scores, bias_tensors, pair)
        weights = ops.exp(scores - log_sum_exp[i])
        mask = blocks.dropout_mask(pair)
        by_value = ops.einsum("bgts,bgtv->bgsv", _multiply(weights, mask), by_row)
        by_weights = _multiply(ops.matmul(by_row, ops.swapaxes(value, -1, -2)), mask)
        by_scores = weights * (by_weights - mean[i])
        by_query = ops.matmul(by_scores, key) * scale
        by_key = ops.einsum("bgts,bgtk->bgsk", by_scores, query)
        by_biases = (bias.reduce(by_scores) for bias in blocks.biases)
        gradients = (by_query, by_key, by_value, *by_biases)
        row = tuple(x + y for x, y in zip(row, gradients, strict=True))
        return iterator.next(pair), row

    def rows(pair: Pair) -> Tensors:
        return (*pair, pair[1], *(bias.index(pair) for bias in blocks.biases))

    gradients = tuple(ops.zeros(ops.shape(x), blocks.dtype) for x in tensors)
    gradients = update_rows(iterator.is_valid, rows, step, iterator.first(), gradients)
    return blocks.merge(*gradients)


def _multiply(weights: Tensor, mask: Tensor | None) -> Tensor:
    """Multiply by a dropout mask, if there is one."""
    return weights if mask is None else weights * mask


def _finite(x: Tensor) -> Tensor:
    """Replace infinities and NaN by 0."""
    return ops.where(ops.isfinite(x), x, 0)
