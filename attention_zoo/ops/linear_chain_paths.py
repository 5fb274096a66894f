"""Linear-chain CRF: Viterbi decoding, n-best decoding and sampling."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.ops.linear_chain import (
    FORBIDDEN,
    IMPOSSIBLE,
    Chain,
    ForwardResult,
    reduce_log_sum,
    reduce_max,
    run_forward,
    split_positions,
)
from attention_zoo.ops.random import gumbel
from attention_zoo.ops.recurrence import scan, shift
from attention_zoo.typing import Tensor


def best_path(chain: Chain) -> tuple[Tensor, Tensor]:
    """Find the sequence with the greatest score (Viterbi), the lowest tag on ties.

    It takes T steps of O(K^2) forward, without back-pointers, and T steps of O(K) backward.

    Returns:
        tags: `(B, T)` int32, 0 at masked positions.
        score: score `s` of the sequence, `(B,)`; 0 for empty sentences. If every sequence is
            forbidden, the score is -inf and the tags are 0.
    """
    forward_result = run_forward(chain, reduce_max)
    tags = trace_back(chain, forward_result)[:, 0]
    return _mask_forbidden(tags, _compute_best_score(chain, forward_result))


def sample(chain: Chain, count: int = 1, seed: Any = 0) -> Tensor:
    """Sample tag sequences independently from their distribution, from the last tag backward.

    Args:
        chain: the scores.
        count: N, samples per sentence.
        seed: an integer, or a scalar integer tensor. The same seed gives the same samples, whatever
            the padding. The random numbers of a sentence depend on its batch row.

    Returns:
        `(B, N, T)` int32, 0 at masked positions.
    """
    rows, positions, tags = ops.shape(chain.emissions)
    forward_result = run_forward(chain, reduce_log_sum)
    keys = ops.arange(rows, dtype="int32")
    noise = gumbel((seed,), keys, (count, positions + 1, tags))
    paths = trace_back(chain, forward_result, ops.cast(noise, chain.emissions.dtype))
    return _mask_forbidden(paths, _compute_best_score(chain, forward_result)[:, None])[0]


def _compute_best_score(chain: Chain, forward_result: ForwardResult) -> Tensor:
    """Return the greatest score of a sequence, `(B,)`; 0 for empty sentences."""
    score = ops.max(forward_result.last + chain.ends, axis=1, initial=float("-inf"))
    score = ops.where(_has_nan(chain), float("nan"), score)  # XLA on CPUs drops NaN in `max`
    return ops.where(ops.any(chain.mask, axis=1), score, 0)


def trace_back(chain: Chain, forward_result: ForwardResult, noise: Tensor | None = None) -> Tensor:
    """Choose the last tag, then repeatedly the previous one, by the greatest forward score.

    Args:
        chain: the scores.
        forward_result: result of the forward recursion.
        noise: `(B, N, T + 1, K)`, added before each argmax, indexed by the number of the position
            among the unmasked ones. With Gumbel noise the result is a sample.

    Returns:
        `(B, N, T)` int32, 0 at masked positions; N is 1 without noise.
    """
    is_unmasked, _, has_previous = split_positions(chain.mask)
    transposed = ops.transpose(chain.transitions)
    # Forward scores alpha, with emissions.
    alphas = forward_result.incoming + ops.swapaxes(chain.emissions, 0, 1)
    scores = (forward_result.last + chain.ends)[:, None]
    inputs = [shift(alphas, axis=0)[:, :, None], is_unmasked, has_previous]
    if noise is not None:
        counts = ops.cast(chain.mask, "int32")
        numbers = ops.cumsum(counts, axis=1)  # of unmasked positions, from 1
        scores = scores + _gather_noise(noise, ops.sum(counts, axis=1, keepdims=True))[0]
        inputs.append(_gather_noise(noise, numbers - 1))
    last = ops.cast(ops.argmax(scores, axis=-1), "int32")

    def step(tag: Tensor, step_inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        previous, is_unmasked, has_previous, *noise_t = step_inputs
        scores = previous + ops.take(transposed, tag, axis=0)
        scores = scores + noise_t[0] if noise_t else scores
        best_tag = ops.cast(ops.argmax(scores, axis=-1), "int32")
        return ops.where(has_previous, best_tag, tag), ops.where(is_unmasked, tag, 0)

    _, tags = scan(step, last, tuple(inputs), like=last, reverse=True)
    return ops.moveaxis(tags, 0, -1)


def _gather_noise(noise: Tensor, position_numbers: Tensor) -> Tensor:
    """Gather noise `(B, N, T + 1, K)` at position numbers `(B, P)`, from 1, to `(P, B, N, K)`."""
    by_position = ops.swapaxes(noise, 1, 2)
    index = ops.maximum(position_numbers - 1, 0)[:, :, None, None]
    return ops.swapaxes(ops.take_along_axis(by_position, index, axis=1), 0, 1)


def best_paths(chain: Chain, count: int) -> tuple[Tensor, Tensor]:
    """Find the N sequences with the greatest scores, best first.

    It takes T steps of O(N K^2), which keep the N best sequences that end in each tag.

    Args:
        chain: the scores.
        count: N.

    Returns:
        tags: `(B, N, T)` int32, 0 at masked positions.
        scores: `(B, N)`; -inf, with tags 0, if there are fewer than N allowed sequences.
    """
    is_unmasked, is_first, has_previous = split_positions(chain.mask)
    rows, _, tags = ops.shape(chain.emissions)
    is_best = ops.arange(count, dtype="int32") == 0
    starts = ops.where(is_best, chain.starts[:, None], FORBIDDEN)  # (K, N)
    transposed = ops.transpose(chain.transitions)[:, :, None]

    def step(state: Tensor, step_inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        emission, is_unmasked, is_first = step_inputs
        candidates = state[:, None] + transposed  # (B, to, from, N)
        candidates = ops.reshape(candidates, (rows, tags, tags * count))
        incoming, pointers = ops.top_k(candidates, count)
        incoming = ops.where(is_first, starts, ops.where(is_unmasked, incoming, state))
        return incoming + emission, ops.cast(pointers, "int32")

    zeros = ops.zeros((rows, tags, count), chain.emissions.dtype)
    emissions = ops.swapaxes(chain.emissions, 0, 1)[..., None]
    like = ops.zeros((rows, tags, count), "int32")
    inputs = (emissions, is_unmasked[..., None], is_first[..., None])
    last, pointers = scan(step, zeros, inputs, like=like)
    last = ops.reshape(last + chain.ends[:, None], (rows, tags * count))
    scores, index = ops.top_k(last, count)
    paths = _follow_pointers(ops.cast(index, "int32"), pointers, is_unmasked, has_previous)
    # `top_k` does not propagate NaN.
    scores = ops.where(_has_nan(chain)[:, None], float("nan"), scores)
    is_empty = ops.logical_not(ops.any(chain.mask, axis=1, keepdims=True))
    scores = ops.where(is_empty, ops.where(is_best, ops.zeros((), scores.dtype), FORBIDDEN), scores)
    return _mask_forbidden(paths, scores)


def _has_nan(chain: Chain) -> Tensor:
    """Return whether any score of a sentence is NaN, `(B,)`."""
    shared = ops.stack(
        [ops.any(ops.isnan(x)) for x in (chain.transitions, chain.starts, chain.ends)]
    )
    return ops.logical_or(ops.any(ops.isnan(chain.emissions), axis=(1, 2)), ops.any(shared))


def _follow_pointers(
    index: Tensor, pointers: Tensor, is_unmasked: Tensor, has_previous: Tensor
) -> Tensor:
    """Follow back-pointers `(T, B, K, N)` from `index` `(B, N)`, and return tags `(B, N, T)`.

    Pointers are encoded as `tag N + rank`.
    """
    rows, tags, count = ops.shape(pointers)[1:]

    def step(index: Tensor, step_inputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        pointers, is_unmasked, has_previous = step_inputs
        previous = ops.take_along_axis(ops.reshape(pointers, (rows, tags * count)), index, axis=1)
        return ops.where(has_previous, previous, index), ops.where(is_unmasked, index // count, 0)

    inputs = (pointers, is_unmasked, has_previous)
    _, paths = scan(step, index, inputs, like=index, reverse=True)
    return ops.moveaxis(paths, 0, -1)


def _mask_forbidden(tags: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Replace tags `(..., T)` by 0 and scores `(...)` by -inf for forbidden sequences."""
    is_forbidden = scores <= IMPOSSIBLE  # False for NaN, which stays NaN
    scores = ops.where(is_forbidden, float("-inf"), scores)
    return ops.where(is_forbidden[..., None], 0, tags), scores
