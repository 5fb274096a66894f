"""Search state of decoders with a KV cache that is updated in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from attention_zoo.decoding import InPlace
from attention_zoo.layers.transformer.kv_cache import Ancestors, KeysAndValues
from attention_zoo.typing import Tensor

State = dict[str, Any]


def nothing_written(
    read: Sequence[KeysAndValues | None],
    batch_size: Tensor,
    heads: tuple[int, int],
    width: int,
    room: Any,
    dtype: str,
) -> State:
    """Return the state before the first step, with an empty KV cache.

    Args:
        read: for each layer, the keys and values of the prompt, `(B, H, K, P)` and
            `(B, H, P, V)`, or None.
        batch_size: B.
        heads: H, and the width of a head.
        width: W, hypotheses per source.
        room: L, maximum number of steps.
        dtype: of the cached keys and values.
    """
    count, size = heads
    keys = ops.zeros((batch_size, count, size, room * width), dtype=dtype)
    values = ops.zeros((batch_size, count, room * width, size), dtype=dtype)

    def place(before: KeysAndValues | None) -> list[Tensor]:
        if before is None:
            return [keys, values]
        return [
            ops.concatenate([ops.cast(before.keys, dtype), keys], axis=3),
            ops.concatenate([ops.cast(before.values, dtype), values], axis=2),
        ]

    return {
        "at": ops.zeros((batch_size,), dtype="int32"),
        "parents": ops.zeros((batch_size, room), dtype="int32"),
        "rooms": InPlace([place(before) for before in read]),
    }


def one_step_on(ancestors: Ancestors, rooms: Sequence[KeysAndValues]) -> State:
    """Return the state after the step of `ancestors`, with the updated cache of each layer."""
    kept = InPlace([list(room) for room in rooms])
    return {"at": ancestors.at + 1, "parents": ancestors.parents, "rooms": kept}
