"""KV cache for decoding: entries stay at their positions and are not reordered with the beam.

L is the number of steps so far, or under XLA their limit (see `ops.buffers`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from attention_zoo.ops.buffers import append, is_compiled
from attention_zoo.typing import Tensor

BUCKETS = (16, 64, 256)
"""Cache buckets, in steps: a step attends within the smallest bucket that contains it."""


class KeysAndValues(NamedTuple):
    """Keys and values of all heads.

    keys: `(B, H, K, S)`, transposed for the matrix product with queries. values: `(B, H, S, V)`.
    """

    keys: Tensor
    values: Tensor


class Ancestors(NamedTuple):
    """Beam indices of the ancestors of each hypothesis, which locate its entries in the cache.

    At each step of a search, every hypothesis has a parent. The keys and values of hypothesis n at
    step t stay at cache position `P + t W + n`, where W is the beam width; only `parents` is
    reordered.

    num_steps: `(B,)` int32, number of previous steps, equal in all rows. parents: `(B, N, L)`
    int32, beam index of the ancestor at each of L steps. width: W. prompt_length: P, number of
    cache positions that are filled before the first step, shared by all hypotheses of a source.
    """

    num_steps: Tensor
    parents: Tensor
    width: int
    prompt_length: Any = 0

    @property
    def step(self) -> Tensor:
        """Index of the current step, a scalar."""
        return ops.max(self.num_steps, initial=0)

    @property
    def position(self) -> Tensor:
        """Position of the current token, a scalar, including the P prefilled positions."""
        return self.prompt_length + self.step

    def add_current_step(self) -> Ancestors:
        """Return the ancestors, including each hypothesis as its own at the current step."""
        batch, count, _ = ops.shape(self.parents)
        beam_indices = ops.broadcast_to(ops.arange(count, dtype="int32"), (batch, count))
        parents = append(self.parents, beam_indices[..., None], self.step, axis=2)
        return self._replace(parents=parents)

    def make_mask(self) -> Tensor:
        """Return the mask of generated entries, `(B, 1, N, L W)` bool, True at ancestors."""
        beams = ops.arange(self.width, dtype="int32")
        is_written = ops.arange(ops.shape(self.parents)[2], dtype="int32") <= self.step
        is_ancestor = ops.logical_and(self.parents[..., None] == beams, is_written[:, None])
        batch, count, steps, _ = ops.shape(is_ancestor)
        return ops.reshape(is_ancestor, (batch, 1, count, steps * self.width))

    def distances(self, num_entries: Tensor) -> Tensor:
        """Return the positions of the first S entries relative to the current token, `(S,)`."""
        entries = ops.arange(num_entries, dtype="int32")
        positions = (entries - self.prompt_length) // self.width + self.prompt_length
        return ops.where(entries < self.prompt_length, entries, positions) - self.position


class KVCache(NamedTuple):
    """KV cache of one layer, and its mask.

    entries: cached keys `(B, H, K, P + L W)` and values `(B, H, P + L W, V)`. mask: attention mask
    `(B, 1, N, P + L W)` bool, True where a hypothesis may attend.
    """

    entries: KeysAndValues
    ancestors: Ancestors
    mask: Tensor

    def write(self, new: KeysAndValues) -> KVCache:
        """Return the cache with the keys `(B, H, K, N)` and values `(B, H, N, V)` of this step."""
        position = self.ancestors.prompt_length + self.ancestors.step * self.ancestors.width
        free = self.ancestors.width - new.keys.shape[3]
        if free:  # the first step has one hypothesis
            pads = (0, 0), (0, 0), (0, 0), (0, free)
            new = KeysAndValues(
                ops.pad(new.keys, pads), ops.pad(new.values, pads[:2] + pads[:1:-1])
            )
        keys = append(self.entries.keys, new.keys, position, axis=3)
        values = append(self.entries.values, new.values, position, axis=2)
        return self._replace(entries=KeysAndValues(keys, values))

    def apply_to_bucket(self, function: Callable[[KeysAndValues, Tensor], Tensor]) -> Tensor:
        """Call `function(keys_and_values, mask)` on the current bucket; mask `(B, 1, N, S)`.

        Without XLA, a cache has no free entries, so it has no buckets.
        """
        if not is_compiled():
            return function(self.entries, self.mask)
        width, prompt_length = self.ancestors.width, self.ancestors.prompt_length

        def call_on(steps: Tensor) -> Tensor:
            end = prompt_length + steps * width
            keys, values = self.entries
            bucket = KeysAndValues(keys[..., :end], values[:, :, :end])
            return function(bucket, self.mask[..., :end])

        max_steps = (ops.shape(self.entries.values)[2] - prompt_length) // width
        return call_in_bucket(self.ancestors.step, call_on, max_steps)


def call_in_bucket(
    step: Tensor,
    function: Callable[[Any], Tensor],
    max_steps: Any,
    sizes: tuple[int, ...] = BUCKETS,
) -> Tensor:
    """Call `function(n)` for the smallest bucket of n steps that contains `step`.

    The largest bucket is the whole cache, `max_steps` steps. The cost of a step thus grows with the
    filled part of the cache, although each bucket has a static shape (if `max_steps` is static).
    """
    if not sizes or (isinstance(max_steps, int) and 2 * sizes[0] > max_steps):
        return function(max_steps)
    size = sizes[0] if isinstance(max_steps, int) else ops.minimum(sizes[0], max_steps)
    return ops.cond(
        step < sizes[0],
        lambda: function(size),
        lambda: call_in_bucket(step, function, max_steps, sizes[1:]),
    )
