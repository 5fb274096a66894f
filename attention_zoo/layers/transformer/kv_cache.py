"""KV cache for decoding, updated in place: entries are not reordered with the beam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

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

    at: `(B,)` int32, number of previous steps, equal in all rows. parents: `(B, N, L)` int32, beam
    index of the ancestor at each of L steps. width: W. read: P, number of cache positions that are
    filled before the first step (the prompt), shared by all hypotheses of a source.
    """

    at: Tensor
    parents: Tensor
    width: int
    read: Any = 0

    @property
    def step(self) -> Tensor:
        """Index of the current step, a scalar."""
        return ops.max(self.at, initial=0)

    @property
    def place(self) -> Tensor:
        """Position of the current token, a scalar, including the P prefilled positions."""
        return self.read + self.step

    def here(self) -> Ancestors:
        """Return the ancestors, including each hypothesis as its own at the current step."""
        batch, count, _ = ops.shape(self.parents)
        itself = ops.broadcast_to(ops.arange(count, dtype="int32"), (batch, count))
        parents = ops.slice_update(self.parents, (0, 0, self.step), itself[..., None])
        return self._replace(parents=parents)

    def seen(self) -> Tensor:
        """Return the mask of generated entries, `(B, 1, N, L W)` bool, True at ancestors."""
        places = ops.arange(self.width, dtype="int32")
        written = ops.arange(ops.shape(self.parents)[2], dtype="int32") <= self.step
        mine = ops.logical_and(self.parents[..., None] == places, written[:, None])
        batch, count, steps, _ = ops.shape(mine)
        return ops.reshape(mine, (batch, 1, count, steps * self.width))

    def distances(self, places: Tensor) -> Tensor:
        """Return the positions of the first S entries relative to the current token, `(S,)`."""
        every = ops.arange(places, dtype="int32")
        written = (every - self.read) // self.width + self.read
        return ops.where(every < self.read, every, written) - self.place


class Cache(NamedTuple):
    """KV cache of one layer, and its mask.

    room: cached keys `(B, H, K, P + L W)` and values `(B, H, P + L W, V)`. seen: attention mask
    `(B, 1, N, P + L W)` bool, True where a hypothesis may attend.
    """

    room: KeysAndValues
    ancestors: Ancestors
    seen: Tensor

    def write(self, new: KeysAndValues) -> Cache:
        """Return the cache with the keys `(B, H, K, N)` and values `(B, H, N, V)` of this step."""
        place = self.ancestors.read + self.ancestors.step * self.ancestors.width
        keys = ops.slice_update(self.room.keys, (0, 0, 0, place), new.keys)
        values = ops.slice_update(self.room.values, (0, 0, place, 0), new.values)
        return self._replace(room=KeysAndValues(keys, values))

    def apply_to_bucket(self, function: Callable[[KeysAndValues, Tensor], Tensor]) -> Tensor:
        """Call `function(keys_and_values, mask)` on the current bucket; mask `(B, 1, N, S)`."""
        width, read = self.ancestors.width, self.ancestors.read

        def within(steps: Tensor) -> Tensor:
            end = read + steps * width
            keys, values = self.room
            bucket = KeysAndValues(keys[..., :end], values[:, :, :end])
            return function(bucket, self.seen[..., :end])

        room = (ops.shape(self.room.values)[2] - read) // width
        return in_bucket(self.ancestors.step, within, room)


def in_bucket(
    at: Tensor, function: Callable[[Any], Tensor], room: Any, sizes: tuple[int, ...] = BUCKETS
) -> Tensor:
    """Call `function(n)` for the smallest bucket of n steps that contains step `at`.

    The largest bucket is the whole cache, `room` steps. The cost of a step thus grows with the
    filled part of the cache, although each bucket has a static shape (if `room` is static).
    """
    if not sizes or (isinstance(room, int) and 2 * sizes[0] > room):
        return function(room)
    size = sizes[0] if isinstance(room, int) else ops.minimum(sizes[0], room)
    return ops.cond(
        at < sizes[0], lambda: function(size), lambda: in_bucket(at, function, room, sizes[1:])
    )
