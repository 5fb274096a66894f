"""Exact blockwise attention, whose memory is linear in the sequence length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import backend, ops

from attention_zoo.ops.mask_pattern import FULL_ATTENTION, BlockIterator, MaskPattern, Pair
from attention_zoo.ops.masking import combine_masks, zero_masked
from attention_zoo.ops.positions import skew, unskew
from attention_zoo.ops.random import dropout_mask
from attention_zoo.ops.recurrence import update_rows
from attention_zoo.ops.softmax import at_least_float32
from attention_zoo.typing import Tensor

BLOCK, LEAST = 256, 32


def blockwise_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float = 1.0,
    mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    reach: MaskPattern = FULL_ATTENTION,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    seed: Tensor | None = None,
    block: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute `softmax(scale query key^T + bias) value` without creating all scores at once.

    Blocks that `reach` masks entirely are skipped. The backward pass recomputes the weights from
    the scores and their log-sum-exp. On JAX there are no second derivatives.

    Args:
        query: `(B, H, T, K)`.
        key: `(B, G, S, K)`, each shared by a group of H / G adjacent query heads.
        value: `(B, G, S, V)`.
        mask: `(B, S)` booleans, the padding mask of the sources.
        attention_mask: `(B or 1, T, S)` booleans.
        reach: mask pattern defined by positions (causal, window).
        bias: `(H, T + S + 1)`, score bias by distance, for the distances -T .. S.
        dropout: rate of dropped weights; the dropout mask is `keep_places(seed, ...)`.
        seed: two integers, required with dropout.
        block: number of queries and of sources in a block, fewer for shorter sequences. When None,
            256, or `reach.window` if that is smaller, but at least 32.

    Returns:
        Context `(B, H, T, V)`, and the log-sum-exp of the unmasked scores, `(B, H, T)`; both in at
        least float32. For fully masked rows they are 0 and -inf.

    Reference:
        Dao et al. 2022, arXiv 2205.14135, algorithms 1 and 4: O is the context, L is the
        log-sum-exp; and Rabe and Staats 2021, arXiv 2112.05682.
    """
    if block is None:
        block = BLOCK if reach.window is None else min(BLOCK, max(LEAST, reach.window))
    if mask is not None:
        key, value = zero_masked(key, mask[:, None]), zero_masked(value, mask[:, None])
    blocks = _Blocks(query, key, reach, mask, attention_mask, dropout, seed, block)

    def run(*given: Tensor) -> tuple[tuple[Tensor, Tensor], Callable[..., tuple[Tensor, ...]]]:
        given = tuple(ops.stop_gradient(x) for x in given)  # autodiff must not record the loops
        cut = blocks.cut(*given)
        context, total = _forward(blocks, cut, scale)

        def gradient(*above: Any) -> tuple[Tensor, ...]:
            by_outputs = above[0] if len(above) == 1 else above  # JAX passes both as one tuple
            found = _backward(blocks, cut, scale, (context, total), by_outputs)
            return tuple(ops.cast(x, like.dtype) for x, like in zip(found, given, strict=True))

        return (blocks.joined_queries(context), blocks.joined_queries(total)[..., 0]), gradient

    return ops.custom_gradient(run)(query, key, value, *(() if bias is None else (bias,)))


def keep_places(
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
    keep = dropout_mask(seed, rate, (heads, *shape), (0, *start))
    return ops.where(keep, 1 / (1 - rate), 0.0)


class _Cut(NamedTuple):
    """Tensors split into blocks along their first axis.

    query: `(N, B, G, H / G block, K)`, the heads of a group concatenated. key, value:
    `(M, B, G, block, ...)`. bias: `(N + M - 1, H, 2 block + 1)`, indexed by the distance in blocks
    from queries to sources; empty without a bias.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    bias: tuple[Tensor, ...] = ()


class _Blocks:
    """Split of T queries into N blocks and S sources into M, and the pairs of blocks to visit."""

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        reach: MaskPattern,
        mask: Tensor | None,
        attention_mask: Tensor | None,
        dropout: float,
        seed: Tensor | None,
        block: int,
    ) -> None:
        self.batch, self.heads, self.steps, _ = ops.shape(query)
        self.groups, self.sources = key.shape[1], ops.shape(key)[2]
        self.reach, self.dropout, self.seed = reach, dropout, seed
        self.dtype = backend.standardize_dtype(at_least_float32(query[:0]).dtype)
        lengths = query.shape[2], key.shape[2]
        self.size = block if None in lengths else min(block, max(1, *lengths))
        self.rows, self.columns = (_count(n, self.size) for n in (self.steps, self.sources))
        self.walk = BlockIterator(reach, self.size, self.rows, self.columns)
        if mask is None and key.shape[2] != self.columns * self.size:
            mask = ops.ones((1, self.sources), "bool")
        self.mask = None if mask is None else self.of_sources(mask[:, None, :, None])
        self.pairs = attention_mask
        if attention_mask is not None:
            self.pairs = ops.pad(attention_mask, ((0, 0), self._pads()[0], self._pads()[1]))

    def _pads(self) -> tuple[Pair, Pair]:
        """Return the padding widths (before, after) of the queries and of the sources."""
        rows, columns = self.rows * self.size, self.columns * self.size
        return (0, rows - self.steps), (0, columns - self.sources)

    # conversion to blocks and back

    def cut(self, query: Tensor, key: Tensor, value: Tensor, *bias: Tensor) -> _Cut:
        table = tuple(self._of_distances(x) for x in bias)
        return _Cut(self.of_queries(query), self.of_sources(key), self.of_sources(value), table)

    def of_queries(self, x: Tensor) -> Tensor:
        """Split queries, `(B, H, T, X)` to `(N, B, G, H / G block, X)`."""
        width, group = x.shape[-1], self.heads // self.groups
        x = ops.pad(x, ((0, 0), (0, 0), self._pads()[0], (0, 0)))
        x = ops.reshape(x, (self.batch, self.groups, group, self.rows, self.size, width))
        x = ops.transpose(x, (3, 0, 1, 2, 4, 5))
        return ops.reshape(x, (self.rows, self.batch, self.groups, group * self.size, width))

    def joined_queries(self, x: Tensor) -> Tensor:
        """Invert `of_queries`."""
        width, group = x.shape[-1], self.heads // self.groups
        x = ops.reshape(x, (self.rows, self.batch, self.groups, group, self.size, width))
        x = ops.transpose(x, (1, 2, 3, 0, 4, 5))
        x = ops.reshape(x, (self.batch, self.heads, self.rows * self.size, width))
        return x[:, :, : self.steps]

    def of_sources(self, x: Tensor) -> Tensor:
        """Split sources, `(B, G, S, X)` to `(M, B, G, block, X)`."""
        batch, groups, _, width = ops.shape(x)
        x = ops.pad(x, ((0, 0), (0, 0), self._pads()[1], (0, 0)))
        x = ops.reshape(x, (batch, groups, self.columns, self.size, width))
        return ops.transpose(x, (2, 0, 1, 3, 4))

    def joined_sources(self, x: Tensor) -> Tensor:
        """Invert `of_sources`."""
        x = ops.transpose(x, (1, 2, 0, 3, 4))
        batch, groups, _, _, width = ops.shape(x)
        x = ops.reshape(x, (batch, groups, self.columns * self.size, width))
        return x[:, :, : self.sources]

    def _of_distances(self, bias: Tensor) -> Tensor:
        """Split the bias, `(H, T + S + 1)` to `(N + M - 1, H, 2 block + 1)`.

        Each row contains a block of distances, the next block, and a 0.
        """
        (_, before), (_, behind) = self._pads()
        bias = ops.pad(bias[:, :-1], ((0, 0), (before, behind)))
        bias = ops.reshape(bias, (self.heads, self.rows + self.columns, self.size))
        both = ops.concatenate([bias[:, :-1], bias[:, 1:], ops.zeros_like(bias[:, 1:, :1])], -1)
        return ops.transpose(both, (1, 0, 2))

    def joined_distances(self, x: Tensor) -> Tensor:
        """Add up the gradients of overlapping blocks: the transpose of `_of_distances`."""
        x = ops.transpose(x, (1, 0, 2))
        none = ((0, 0), (0, 0))
        first = ops.pad(x[..., : self.size], (none[0], (0, 1), none[1]))
        second = ops.pad(x[..., self.size : -1], (none[0], (1, 0), none[1]))
        length = (self.rows + self.columns) * self.size
        flat = ops.pad(ops.reshape(first + second, (self.heads, length)), ((0, 0), (0, 1)))
        before = self.rows * self.size - self.steps
        return flat[:, before : before + self.steps + self.sources + 1]

    # pairs of blocks

    def shown(self, scores: Tensor, bias: tuple[Tensor, ...], pair: Pair) -> Tensor:
        """Return one pair's scores, `(B, G, H / G block, block)`, with bias; -inf where masked."""
        group, size = self.heads // self.groups, self.size
        within = (self.batch, self.groups, group, size, size)
        allowed = self._allowed(*pair)
        if allowed is None and not bias:
            return scores
        apart = ops.reshape(scores, within)
        for table in bias:
            of_rows = ops.repeat(self.exact(table[self.apart(pair)])[:, None], size, axis=1)
            apart = apart + ops.reshape(skew(of_rows, size), within[1:])
        if allowed is not None:
            apart = ops.where(allowed, apart, ops.full((), float("-inf"), self.dtype))
        return ops.reshape(apart, (self.batch, self.groups, group * size, size))

    def _allowed(self, i: Tensor, j: Tensor) -> Tensor | None:
        """Return a mask that broadcasts against `(B, G, H / G, block, block)`, or None."""
        places = ops.arange(self.size, dtype="int32")
        seen = self.reach.mask(i * self.size + places, j * self.size + places)
        masks = [seen]
        if self.mask is not None:
            masks.append(self.mask[j][:, :, None, None, :, 0])
        if self.pairs is not None:
            shape = (ops.shape(self.pairs)[0], self.size, self.size)
            cut = ops.slice(self.pairs, (0, i * self.size, j * self.size), shape)
            masks.append(cut[:, None, None])
        return combine_masks(*masks)

    def keep(self, pair: Pair) -> Tensor | None:
        """Return the scaled dropout mask of one pair, or None without dropout."""
        if not self.dropout:
            return None
        start = tuple(place * self.size for place in pair)
        shape = (self.size, self.size)
        keep = keep_places(self.seed, self.dropout, self.batch * self.heads, shape, start)
        rows = self.heads // self.groups * self.size
        keep = ops.reshape(keep, (self.batch, self.groups, rows, self.size))
        return ops.cast(keep, self.dtype)

    def apart(self, pair: Pair) -> Tensor:
        """Return the index of a pair's block of distances."""
        return pair[1] - pair[0] + self.rows - 1

    def exact(self, x: Tensor) -> Tensor:
        return ops.cast(x, self.dtype)


def _forward(blocks: _Blocks, cut: _Cut, scale: float) -> tuple[Tensor, Tensor]:
    """Compute contexts and log-sum-exps, in blocks of queries.

    The loop keeps a running maximum of each query's scores, and running sums of `exp(score - max)`
    and of `exp(score - max) value`. When the maximum grows, both sums are rescaled.
    """

    def step(pair: Pair, now: tuple[Tensor, ...]) -> tuple[Pair, tuple[Tensor, ...]]:
        context, total, top = now
        query = blocks.exact(cut.query[pair[0]]) * scale
        key, value = (blocks.exact(x[pair[1]]) for x in (cut.key, cut.value))
        scores = blocks.shown(ops.matmul(query, ops.swapaxes(key, -1, -2)), cut.bias, pair)
        higher = ops.max(scores, axis=-1, keepdims=True, initial=float("-inf"))
        higher = ops.maximum(top, higher)  # without `initial`, empty batches fail
        base = _finite(higher)
        weights, fade = ops.exp(scores - base), ops.exp(top - base)
        total = total * fade + ops.sum(weights, axis=-1, keepdims=True)
        keep = blocks.keep(pair)
        weights = weights if keep is None else weights * keep
        context = context * fade + ops.matmul(weights, value)
        return blocks.walk.next(pair), (context, total, higher)

    *rows, _ = ops.shape(cut.query)
    context = ops.zeros((*rows, cut.value.shape[-1]), blocks.dtype)
    total = ops.zeros((*rows, 1), blocks.dtype)
    top = ops.full((*rows, 1), float("-inf"), blocks.dtype)
    context, total, top = update_rows(
        blocks.walk.going,
        lambda pair: (pair[0],) * 3,
        step,
        blocks.walk.first(),
        (context, total, top),
    )
    anything = total != 0
    context = context / ops.where(anything, total, 1)
    return context, ops.where(anything, _finite(top) + ops.log(total), top)


def _backward(
    blocks: _Blocks,
    cut: _Cut,
    scale: float,
    results: tuple[Tensor, Tensor],
    above: tuple[Tensor, Tensor],
) -> tuple[Tensor, ...]:
    """Compute gradients by query, key, value and bias; weights are `exp(score - log-sum-exp)`.

    The gradient by a score is `weight (gradient by the weight - mean)`. The mean is weighted by the
    weights, and equals the dot product of the context and its gradient.
    """
    context, total = results[0], _finite(results[1])
    above, of_total = (blocks.of_queries(blocks.exact(x)) for x in (above[0], above[1][..., None]))
    mean = ops.sum(above * context, axis=-1, keepdims=True) - of_total

    def step(pair: Pair, now: tuple[Tensor, ...]) -> tuple[Pair, tuple[Tensor, ...]]:
        i, j = pair
        query, of_context = blocks.exact(cut.query[i]) * scale, above[i]
        key, value = blocks.exact(cut.key[j]), blocks.exact(cut.value[j])
        scores = blocks.shown(ops.matmul(query, ops.swapaxes(key, -1, -2)), cut.bias, pair)
        weights = ops.exp(scores - total[i])
        keep = blocks.keep(pair)
        dropped = weights if keep is None else weights * keep
        by_value = ops.einsum("bgts,bgtv->bgsv", dropped, of_context)
        by_weights = ops.matmul(of_context, ops.swapaxes(value, -1, -2))
        by_weights = by_weights if keep is None else by_weights * keep
        by_scores = weights * (by_weights - mean[i])
        by_query = ops.matmul(by_scores, key) * scale
        by_key = ops.einsum("bgts,bgtk->bgsk", by_scores, query)
        found = (by_query, by_key, by_value, *(_by_distance(blocks, by_scores) for _ in cut.bias))
        return blocks.walk.next(pair), tuple(x + y for x, y in zip(now, found, strict=True))

    def rows(pair: Pair) -> tuple[Tensor, ...]:
        return (*pair, pair[1], *(blocks.apart(pair) for _ in cut.bias))

    like = (*cut[:3], *cut.bias)
    tables = tuple(ops.zeros(ops.shape(x), blocks.dtype) for x in like)
    by_query, *by_sources = update_rows(blocks.walk.going, rows, step, blocks.walk.first(), tables)
    return (
        blocks.joined_queries(by_query),
        *(blocks.joined_sources(x) for x in by_sources[:2]),
        *(blocks.joined_distances(x) for x in by_sources[2:]),
    )


def _by_distance(blocks: _Blocks, by_scores: Tensor) -> Tensor:
    """Sum `(B, G, H / G block, block)` over equal distances, to `(H, 2 block + 1)`."""
    size = blocks.size
    apart = ops.sum(by_scores, axis=0)
    return ops.sum(unskew(ops.reshape(apart, (blocks.heads, size, size))), axis=1)


def _finite(x: Tensor) -> Tensor:
    """Replace infinities and NaN by 0."""
    return ops.where(ops.isfinite(x), x, ops.zeros((), x.dtype))


def _count(length: Tensor, size: int) -> Tensor:
    """Return the number of blocks, at least one."""
    count = -(-length // size)
    return max(count, 1) if isinstance(count, int) else ops.maximum(count, 1)
