"""Exact attention block by block: memory grows with the length, not with its square."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import backend, ops

from attention_zoo.ops.mask_pattern import FULL_ATTENTION, BlockIterator, MaskPattern, Pair
from attention_zoo.ops.masking import combine_masks, zero_masked
from attention_zoo.ops.positions import skew, unskew
from attention_zoo.ops.random import kept
from attention_zoo.ops.recurrence import revise
from attention_zoo.ops.softmax import at_least_float32

Tensor = Any
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
    """`softmax(scale query key^T + bias) value`, and never more than blocks of the scores.

    Blocks out of reach are not visited. The gradient computes the weights once more, from the
    scores and the logarithm of their sum; it has no gradient itself on JAX.

    Args:
        query: `(B, H, T, K)`.
        key: `(B, G, S, K)`, each for the H / G neighbours of a group of heads.
        value: `(B, G, S, V)`.
        mask: `(B, S)` booleans, which sources there are.
        attention_mask: `(B or 1, T, S)` booleans.
        reach: what the places themselves allow.
        bias: `(H, T + S + 1)`, what is added to scores by distance, of the distances -T .. S.
        dropout: rate of dropped weights, by `keep_places` of the seed.
        seed: two integers, with dropout.
        block: how many queries and how many sources a block has, fewer where there are no more;
            256 when None, or a window's width where that is less.

    Returns:
        Context `(B, H, T, V)`, and `(B, H, T)` the logarithm of the sum of the exponentials of
        what was allowed; both in float32 at least. With nothing to attend they are 0 and -inf.

    Reference:
        Dao et al. 2022, arXiv 2205.14135, algorithms 1 and 4: O is the context, L is the
        logarithm; and Rabe and Staats 2021, arXiv 2112.05682.
    """
    if block is None:
        block = BLOCK if reach.window is None else min(BLOCK, max(LEAST, reach.window))
    if mask is not None:
        key, value = zero_masked(key, mask[:, None]), zero_masked(value, mask[:, None])
    blocks = _Blocks(query, key, reach, mask, attention_mask, dropout, seed, block)

    def run(*given: Tensor) -> tuple[tuple[Tensor, Tensor], Callable[..., tuple[Tensor, ...]]]:
        given = tuple(ops.stop_gradient(x) for x in given)  # what happens inside is not recorded
        cut = blocks.cut(*given)
        context, total = _forward(blocks, cut, scale)

        def gradient(*above: Any) -> tuple[Tensor, ...]:
            by_outputs = above[0] if len(above) == 1 else above  # JAX gives the two as one
            found = _backward(blocks, cut, scale, (context, total), by_outputs)
            return tuple(ops.cast(x, like.dtype) for x, like in zip(found, given, strict=True))

        return (blocks.joined_queries(context), blocks.joined_queries(total)[..., 0]), gradient

    return ops.custom_gradient(run)(query, key, value, *(() if bias is None else (bias,)))


def keep_places(
    seed: Tensor, rate: float, heads: Tensor, shape: Pair, start: Pair = (0, 0)
) -> Tensor:
    """What dropout multiplies weights with: 0, or 1 / (1 - rate); `(heads, *shape)` float32.

    Each is drawn for its own place, so that a block of the places draws what all of them draw.

    Args:
        seed: two integers.
        heads: how many there are, in all rows of the batch together.
        shape: how many queries and how many sources.
        start: the first query and the first source.
    """
    keep = kept(seed, rate, (heads, *shape), (0, *start))
    return ops.where(keep, 1 / (1 - rate), 0.0)


class _Cut(NamedTuple):
    """Tensors in blocks, along their first axis.

    query: `(N, B, G, H / G block, K)`, the heads of a group one after the other. key, value:
    `(M, B, G, block, ...)`. bias: `(N + M - 1, H, 2 block + 1)`, by how many blocks the sources
    stand behind the queries; none of it without.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    bias: tuple[Tensor, ...] = ()


class _Blocks:
    """How T queries are cut into N blocks and S sources into M, and which pairs are visited."""

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
        """Behind the queries and behind the sources."""
        rows, columns = self.rows * self.size, self.columns * self.size
        return (0, rows - self.steps), (0, columns - self.sources)

    # to blocks and back

    def cut(self, query: Tensor, key: Tensor, value: Tensor, *bias: Tensor) -> _Cut:
        table = tuple(self._of_distances(x) for x in bias)
        return _Cut(self.of_queries(query), self.of_sources(key), self.of_sources(value), table)

    def of_queries(self, x: Tensor) -> Tensor:
        """`(B, H, T, X)` to `(N, B, G, H / G block, X)`."""
        width, group = x.shape[-1], self.heads // self.groups
        x = ops.pad(x, ((0, 0), (0, 0), self._pads()[0], (0, 0)))
        x = ops.reshape(x, (self.batch, self.groups, group, self.rows, self.size, width))
        x = ops.transpose(x, (3, 0, 1, 2, 4, 5))
        return ops.reshape(x, (self.rows, self.batch, self.groups, group * self.size, width))

    def joined_queries(self, x: Tensor) -> Tensor:
        """The way back."""
        width, group = x.shape[-1], self.heads // self.groups
        x = ops.reshape(x, (self.rows, self.batch, self.groups, group, self.size, width))
        x = ops.transpose(x, (1, 2, 3, 0, 4, 5))
        x = ops.reshape(x, (self.batch, self.heads, self.rows * self.size, width))
        return x[:, :, : self.steps]

    def of_sources(self, x: Tensor) -> Tensor:
        """`(B, G, S, X)` to `(M, B, G, block, X)`."""
        batch, groups, _, width = ops.shape(x)
        x = ops.pad(x, ((0, 0), (0, 0), self._pads()[1], (0, 0)))
        x = ops.reshape(x, (batch, groups, self.columns, self.size, width))
        return ops.transpose(x, (2, 0, 1, 3, 4))

    def joined_sources(self, x: Tensor) -> Tensor:
        """The way back."""
        x = ops.transpose(x, (1, 2, 0, 3, 4))
        batch, groups, _, _, width = ops.shape(x)
        x = ops.reshape(x, (batch, groups, self.columns * self.size, width))
        return x[:, :, : self.sources]

    def _of_distances(self, bias: Tensor) -> Tensor:
        """`(H, T + S + 1)` to `(N + M - 1, H, 2 block + 1)`: each block and the next, and a 0."""
        (_, before), (_, behind) = self._pads()
        bias = ops.pad(bias[:, :-1], ((0, 0), (before, behind)))
        bias = ops.reshape(bias, (self.heads, self.rows + self.columns, self.size))
        both = ops.concatenate([bias[:, :-1], bias[:, 1:], ops.zeros_like(bias[:, 1:, :1])], -1)
        return ops.transpose(both, (1, 0, 2))

    def joined_distances(self, x: Tensor) -> Tensor:
        """What was found for each block and the next, added up."""
        x = ops.transpose(x, (1, 0, 2))
        none = ((0, 0), (0, 0))
        first = ops.pad(x[..., : self.size], (none[0], (0, 1), none[1]))
        second = ops.pad(x[..., self.size : -1], (none[0], (1, 0), none[1]))
        length = (self.rows + self.columns) * self.size
        flat = ops.pad(ops.reshape(first + second, (self.heads, length)), ((0, 0), (0, 1)))
        before = self.rows * self.size - self.steps
        return flat[:, before : before + self.steps + self.sources + 1]

    # the pairs

    def shown(self, scores: Tensor, bias: tuple[Tensor, ...], pair: Pair) -> Tensor:
        """Scores of one pair `(B, G, H / G block, block)` with the bias; -inf where hidden."""
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
        """A mask that broadcasts against `(B, G, H / G, block, block)`, or None."""
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
        """What dropout multiplies the weights of one pair with."""
        if not self.dropout:
            return None
        start = tuple(place * self.size for place in pair)
        shape = (self.size, self.size)
        keep = keep_places(self.seed, self.dropout, self.batch * self.heads, shape, start)
        rows = self.heads // self.groups * self.size
        keep = ops.reshape(keep, (self.batch, self.groups, rows, self.size))
        return ops.cast(keep, self.dtype)

    def apart(self, pair: Pair) -> Tensor:
        """Which block of distances a pair has."""
        return pair[1] - pair[0] + self.rows - 1

    def exact(self, x: Tensor) -> Tensor:
        return ops.cast(x, self.dtype)


def _forward(blocks: _Blocks, cut: _Cut, scale: float) -> tuple[Tensor, Tensor]:
    """Contexts and logarithms of sums, in blocks of queries.

    Of each query: the greatest score so far, and sums of `exp(score - greatest)`, alone and times
    the values. Where a greater one comes, the sums so far shrink.
    """

    def step(pair: Pair, now: tuple[Tensor, ...]) -> tuple[Pair, tuple[Tensor, ...]]:
        context, total, top = now
        query = blocks.exact(cut.query[pair[0]]) * scale
        key, value = (blocks.exact(x[pair[1]]) for x in (cut.key, cut.value))
        scores = blocks.shown(ops.matmul(query, ops.swapaxes(key, -1, -2)), cut.bias, pair)
        higher = ops.max(scores, axis=-1, keepdims=True, initial=float("-inf"))
        higher = ops.maximum(top, higher)  # `initial`: else no row is refused
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
    context, total, top = revise(
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
    """Gradients by query, key, value and bias; the weights are `exp(score - logarithm of sum)`.

    That of a score is `weight (gradient of the weight - mean)`, their mean weighted by the weights:
    the product of the context and its gradient.
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
    by_query, *by_sources = revise(blocks.walk.going, rows, step, blocks.walk.first(), tables)
    return (
        blocks.joined_queries(by_query),
        *(blocks.joined_sources(x) for x in by_sources[:2]),
        *(blocks.joined_distances(x) for x in by_sources[2:]),
    )


def _by_distance(blocks: _Blocks, by_scores: Tensor) -> Tensor:
    """`(B, G, H / G block, block)` to sums of equal distance, `(H, 2 block + 1)`."""
    size = blocks.size
    apart = ops.sum(by_scores, axis=0)
    return ops.sum(unskew(ops.reshape(apart, (blocks.heads, size, size))), axis=1)


def _finite(x: Tensor) -> Tensor:
    """0 for what is infinite or no number."""
    return ops.where(ops.isfinite(x), x, ops.zeros((), x.dtype))


def _count(length: Tensor, size: int) -> Tensor:
    """How many blocks hold them; one at least."""
    count = -(-length // size)
    return max(count, 1) if isinstance(count, int) else ops.maximum(count, 1)
