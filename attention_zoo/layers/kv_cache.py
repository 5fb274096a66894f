"""Keys and values of what hypotheses have written, in place: nothing is ever moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

Tensor = Any

STRETCHES = (16, 64, 256)
"""Steps of a cache that are looked at, while so few are written."""


class KeysAndValues(NamedTuple):
    """What heads look at.

    keys: `(B, H, K, S)`, as a matrix product with queries reads them. values: `(B, H, S, V)`.
    """

    keys: Tensor
    values: Tensor


class Ancestors(NamedTuple):
    """By which places of a cache each hypothesis came.

    A search takes its hypotheses from others at each step. What hypothesis n wrote at step t
    stays at place `t W + n`, W the width of the search; `came_by` follows the hypotheses.

    at: `(B,)` int32, steps before this one, the same for all. came_by: `(B, N, L)` int32, which
    hypothesis of each step it descends from. width: W. read: P, places of the cache that were
    filled before the first step, the same for all hypotheses of a source.
    """

    at: Tensor
    came_by: Tensor
    width: int
    read: Any = 0

    @property
    def step(self) -> Tensor:
        """Scalar: which step this is."""
        return ops.max(self.at, initial=0)

    @property
    def place(self) -> Tensor:
        """Scalar: how many tokens stand before this step's, if all that was read is one text."""
        return self.read + self.step

    def here(self) -> Ancestors:
        """With this step: every hypothesis came by itself."""
        batch, count, _ = ops.shape(self.came_by)
        itself = ops.broadcast_to(ops.arange(count, dtype="int32"), (batch, count))
        came_by = ops.slice_update(self.came_by, (0, 0, self.step), itself[..., None])
        return self._replace(came_by=came_by)

    def seen(self) -> Tensor:
        """`(B, 1, N, L W)` bool, the places that each hypothesis came by."""
        places = ops.arange(self.width, dtype="int32")
        written = ops.arange(ops.shape(self.came_by)[2], dtype="int32") <= self.step
        mine = ops.logical_and(self.came_by[..., None] == places, written[:, None])
        batch, count, steps, _ = ops.shape(mine)
        return ops.reshape(mine, (batch, 1, count, steps * self.width))

    def distances(self, places: Tensor) -> Tensor:
        """`(S,)` int32, how far behind this step's the tokens at the first S places stand."""
        every = ops.arange(places, dtype="int32")
        written = (every - self.read) // self.width + self.read
        return ops.where(every < self.read, every, written) - self.place


class Cache(NamedTuple):
    """Room for what one layer writes, and who sees what.

    room: `(B, H, K, P + L W)` and `(B, H, P + L W, V)`. seen: `(B, 1, N, P + L W)` bool.
    """

    room: KeysAndValues
    ancestors: Ancestors
    seen: Tensor

    def write(self, new: KeysAndValues) -> Cache:
        """With the keys `(B, H, K, N)` and values `(B, H, N, V)` of this step."""
        place = self.ancestors.read + self.ancestors.step * self.ancestors.width
        keys = ops.slice_update(self.room.keys, (0, 0, 0, place), new.keys)
        values = ops.slice_update(self.room.values, (0, 0, place, 0), new.values)
        return self._replace(room=KeysAndValues(keys, values))

    def look(self, look: Callable[[KeysAndValues, Tensor], Tensor]) -> Tensor:
        """`look(keys and values, (B, 1, N, S) seen)` at the shortest stretch that has this step."""
        width, read = self.ancestors.width, self.ancestors.read

        def within(steps: Tensor) -> Tensor:
            end = read + steps * width
            keys, values = self.room
            stretch = KeysAndValues(keys[..., :end], values[:, :, :end])
            return look(stretch, self.seen[..., :end])

        room = (ops.shape(self.room.values)[2] - read) // width
        return in_stretch(self.ancestors.step, within, room)


def in_stretch(
    at: Tensor, look: Callable[[Any], Tensor], room: Any, sizes: tuple[int, ...] = STRETCHES
) -> Tensor:
    """`look(n)` for the shortest stretch of n steps that has step `at`, the whole room the longest.

    So a step costs what was written, not what there is room for, and all shapes are static.
    """
    if not sizes or (isinstance(room, int) and 2 * sizes[0] > room):
        return look(room)
    size = sizes[0] if isinstance(room, int) else ops.minimum(sizes[0], room)
    return ops.cond(
        at < sizes[0], lambda: look(size), lambda: in_stretch(at, look, room, sizes[1:])
    )
