"""Search state of decoders with a KV cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from attention_zoo.decoding import InPlace
from attention_zoo.layers import MultiHeadAttention
from attention_zoo.layers.transformer.kv_cache import Ancestors, KeysAndValues
from attention_zoo.ops.buffers import empty_buffer
from attention_zoo.typing import Tensor

State = dict[str, Any]


def make_empty_state(
    heads: MultiHeadAttention,
    prompts: Sequence[KeysAndValues | None],
    batch_size: Tensor,
    width: int,
    max_steps: Any,
) -> State:
    """Return the state before the first step, with an empty KV cache.

    Args:
        heads: the self-attention of a layer; those of the others have the same sizes.
        prompts: for each layer, the keys and values of the prompt, `(B, H, K, P)` and
            `(B, H, P, V)`, or None.
        batch_size: B.
        width: W, hypotheses per source.
        max_steps: L, maximum number of steps.
    """
    count, size, dtype = heads.num_heads, heads.key_dim, heads.compute_dtype
    keys = empty_buffer((batch_size, count, size, max_steps * width), 3, dtype)
    values = empty_buffer((batch_size, count, max_steps * width, size), 2, dtype)

    def append_empty(prompt: KeysAndValues | None) -> list[Tensor]:
        if prompt is None:
            return [keys, values]
        return [
            ops.concatenate([ops.cast(prompt.keys, dtype), keys], axis=3),
            ops.concatenate([ops.cast(prompt.values, dtype), values], axis=2),
        ]

    return {
        "num_steps": ops.zeros((batch_size,), dtype="int32"),
        "parents": empty_buffer((batch_size, max_steps), 1, "int32"),
        "cache": InPlace([append_empty(prompt) for prompt in prompts]),
    }


def make_next_state(ancestors: Ancestors, cache: Sequence[KeysAndValues]) -> State:
    """Return the state after the step of `ancestors`, with the updated cache of each layer."""
    updated = InPlace([list(layer_cache) for layer_cache in cache])
    return {"num_steps": ancestors.num_steps + 1, "parents": ancestors.parents, "cache": updated}
