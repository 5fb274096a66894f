"""Ban on repeated n-grams."""

from __future__ import annotations

from typing import Any

from keras import ops

from attention_zoo.decoding.rules.history import WrittenRule, among


class NoRepeatNgram(WrittenRule):
    """A rule that bans repeated n-grams (Paulus et al. 2018, section 2.5).

    Args:
        size: n; with 1, no token occurs twice.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def allowed(self, shape: tuple[Any, ...], memory: Any, step: Any) -> Any:
        return ops.logical_not(among(self.ends(memory, step), shape[-1]))

    def ends(self, taken: Any, step: Any) -> Any:
        """Return `taken (B, N, L)` where the same token would repeat an n-gram, -1 elsewhere.

        Position i ends an n-gram that starts with the last `n - 1` tokens if, for every k from 1 to
        `n - 1`, tokens `i - k` and `step - k` are equal.
        """
        places = ops.arange(ops.shape(taken)[2], dtype="int32")
        same = ops.logical_and(places >= self.size - 1, places < step)
        for back in range(1, self.size):
            last = ops.take(taken, ops.maximum(step - back, 0), axis=2)[..., None]
            before = ops.take(taken, ops.maximum(places - back, 0), axis=2)
            same = ops.logical_and(same, before == last)
        return ops.where(same, taken, -1)
