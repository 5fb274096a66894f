"""Linear-chain CRF: Viterbi decoding, n-best decoding and sampling."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.ops.linear_chain import (
    FORBIDDEN,
    IMPOSSIBLE,
    Chain,
    Forward,
    forward,
    greatest_of,
    log_sum_of,
    there_and_first,
)
from attention_zoo.ops.random import gumbel
from attention_zoo.ops.recurrence import scan
from attention_zoo.typing import Tensor


def best_path(chain: Chain) -> tuple[Tensor, Tensor]:
    """Find the sequence with the greatest score (Viterbi), the lowest tag on ties.

    T steps of O(K^2) forward, without back-pointers, and T steps of O(K) back.

    Returns:
        tags: `(B, T)` int32, 0 at masked positions.
        score: its score `s`, `(B,)`; 0 for empty sentences. If every sequence is forbidden, the
            score is -inf and the tags are 0.
    """
    passed = forward(chain, greatest_of)
    tags = trace_back(chain, passed)[:, 0]
    return _unless_forbidden(tags, _greatest(chain, passed))


def sample(chain: Chain, count: int = 1, seed: Any = 0) -> Tensor:
    """Sample tag sequences independently from their distribution, from the last tag backward.

    Args:
        chain: the energies.
        count: N, samples per sentence.
        seed: an integer, or a scalar integer tensor. The same seed gives the same samples, whatever
            the padding. The random numbers of a sentence depend on its batch row.

    Returns:
        `(B, N, T)` int32, 0 at masked positions.
    """
    rows, places, tags = ops.shape(chain.emissions)
    passed = forward(chain, log_sum_of)
    keys = ops.arange(rows, dtype="int32")
    noise = gumbel((seed,), keys, (count, places + 1, tags))
    found = trace_back(chain, passed, ops.cast(noise, chain.emissions.dtype))
    return _unless_forbidden(found, _greatest(chain, passed)[:, None])[0]


def _greatest(chain: Chain, passed: Forward) -> Tensor:
    """Return the greatest score of a sequence, `(B,)`; 0 for empty sentences."""
    score = ops.max(passed.last + chain.ends, axis=1, initial=float("-inf"))
    return ops.where(ops.any(chain.mask, axis=1), score, ops.zeros((), score.dtype))


def trace_back(chain: Chain, passed: Forward, noise: Tensor | None = None) -> Tensor:
    """Choose the last tag, then repeatedly the previous one, by the greatest forward score.

    Args:
        chain: the energies.
        passed: result of the forward recursion.
        noise: `(B, N, T + 1, K)`, added before each argmax, indexed by the number of the position
            among the unmasked ones. With Gumbel noise the result is a sample.

    Returns:
        `(B, N, T)` int32, 0 at masked positions; N is 1 without noise.
    """
    there, first = there_and_first(chain.mask)
    backwards = ops.transpose(chain.transitions)
    alphas = passed.arrived + ops.swapaxes(chain.emissions, 0, 1)
    number = ops.cumsum(ops.cast(chain.mask, "int32"), axis=1)  # of unmasked positions, from 1
    energy = (passed.last + chain.ends)[:, None]
    inner = ops.logical_and(there, ops.logical_not(first))
    places = [ops.roll(alphas, 1, axis=0)[:, :, None], there, inner]
    if noise is not None:
        energy = energy + _noise_at(noise, ops.sum(ops.cast(chain.mask, "int32"), 1)[:, None])[0]
        places.append(_noise_at(noise, number - 1))
    last = ops.cast(ops.argmax(energy, axis=-1), "int32")

    def place(tag: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        before, there, inner, *drawn = now
        energy = before + ops.take(backwards, tag, axis=0)
        energy = energy + drawn[0] if drawn else energy
        chosen = ops.cast(ops.argmax(energy, axis=-1), "int32")
        return ops.where(inner, chosen, tag), ops.where(there, tag, 0)

    flipped = tuple(ops.flip(x, axis=0) for x in places)
    _, tags = scan(place, last, flipped, like=last)
    return ops.moveaxis(ops.flip(tags, axis=0), 0, -1)


def _noise_at(noise: Tensor, number: Tensor) -> Tensor:
    """Gather noise `(B, N, T + 1, K)` at position numbers `(B, P)`, from 1, to `(P, B, N, K)`."""
    by_place = ops.swapaxes(noise, 1, 2)
    at = ops.maximum(number - 1, 0)[:, :, None, None]
    return ops.swapaxes(ops.take_along_axis(by_place, at, axis=1), 0, 1)


def best_paths(chain: Chain, count: int) -> tuple[Tensor, Tensor]:
    """Find the N sequences with the greatest scores, best first.

    T steps of O(N K^2), which keep the N best sequences that end in each tag.

    Args:
        chain: the energies.
        count: N.

    Returns:
        tags: `(B, N, T)` int32, 0 at masked positions.
        scores: `(B, N)`; -inf, with tags 0, if there are fewer than N allowed sequences.
    """
    there, first = there_and_first(chain.mask)
    rows, _, tags = ops.shape(chain.emissions)
    lowest = ops.cast(FORBIDDEN, chain.emissions.dtype)
    ranks = ops.arange(count, dtype="int32")
    begin = ops.where(ranks == 0, chain.starts[:, None], lowest)  # (K, N)

    def place(so_far: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        energy, there, first = now
        ways = so_far[:, None] + ops.transpose(chain.transitions)[:, :, None]  # (B, to, from, N)
        ways = ops.reshape(ways, (rows, tags, tags * count))
        arrived, pointers = ops.top_k(ways, count)
        arrived = ops.where(first, begin, ops.where(there, arrived, so_far))
        return arrived + energy, ops.cast(pointers, "int32")

    nothing = ops.zeros((rows, tags, count), chain.emissions.dtype)
    energies = ops.swapaxes(chain.emissions, 0, 1)[..., None]
    like = ops.zeros((rows, tags, count), "int32")
    places = (energies, there[..., None], first[..., None])
    last, pointers = scan(place, nothing, places, like=like)
    last = ops.reshape(last + chain.ends[:, None], (rows, tags * count))
    scores, at = ops.top_k(last, count)
    inner = ops.logical_and(there, ops.logical_not(first))
    found = _follow(ops.cast(at, "int32"), pointers, there, inner)
    scores = ops.where(
        ops.any(chain.mask, axis=1, keepdims=True), scores, ops.where(ranks == 0, 0, lowest)
    )
    return _unless_forbidden(found, scores)


def _follow(at: Tensor, pointers: Tensor, there: Tensor, inner: Tensor) -> Tensor:
    """Follow back-pointers `(T, B, K, N)` from `at` `(B, N)`, and return tags `(B, N, T)`.

    Pointers are encoded as `tag N + rank`.
    """
    rows, tags, count = ops.shape(pointers)[1:]

    def place(at: Tensor, now: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        pointers, there, inner = now
        before = ops.take_along_axis(ops.reshape(pointers, (rows, tags * count)), at, axis=1)
        return ops.where(inner, before, at), ops.where(there, at // count, 0)

    places = tuple(ops.flip(x, axis=0) for x in (pointers, there, inner))
    _, found = scan(place, at, places, like=at)
    return ops.moveaxis(ops.flip(found, axis=0), 0, -1)


def _unless_forbidden(tags: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """Replace tags `(..., T)` by 0 and scores `(...)` by -inf for forbidden sequences."""
    found = scores > IMPOSSIBLE
    never = ops.cast(float("-inf"), scores.dtype)
    return ops.where(found[..., None], tags, 0), ops.where(found, scores, never)
