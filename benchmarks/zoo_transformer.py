"""Searches with a plain Transformer of random weights, as a script that a benchmark runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from attention_zoo.decoding import InPlace, StepOutput
from attention_zoo.models.searching import Reading, Searching

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import common

BIG_NEGATIVE = -1e9
STRETCHES = (16, 64, 256)  # steps of a cache that are looked at, while so few are written


class Heads(layers.Layer):
    """Multi-head attention without its masks: queries `(B, H, N, d)` at keys and values.

    Keys are held as `(B, H, d, K)`, so that a matrix product reads them as they lie.
    """

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.query, self.memory, self.out = (layers.Dense(n * width) for n in (1, 2, 1))

    def split(self, x: Any, parts: int) -> list[Any]:
        """`(B, N, parts D)` as so many `(B, H, N, d)`."""
        batch, count, _ = ops.shape(x)
        x = ops.reshape(x, (batch, count, parts, self.heads, self.size))
        return ops.unstack(ops.transpose(x, (2, 0, 3, 1, 4)), axis=0)

    def read(self, x: Any) -> tuple[Any, Any]:
        """Keys `(B, H, d, S)` and values `(B, H, S, d)` of `x (B, S, D)`."""
        keys, values = self.split(self.memory(x), 2)
        return ops.transpose(keys, (0, 1, 3, 2)), values

    def look(self, x: Any, keys: Any, values: Any, hidden: Any = None) -> Any:
        """`x (B, N, D)` at a memory; `hidden (B, 1, N, K)` is not seen."""
        (query,) = self.split(self.query(x), 1)
        scores = ops.matmul(query * self.size**-0.5, keys)
        if hidden is not None:
            scores = ops.where(hidden, BIG_NEGATIVE, scores)
        weights = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True))
        context = ops.matmul(weights, values) / ops.sum(weights, axis=-1, keepdims=True)
        return self.out(ops.reshape(ops.transpose(context, (0, 2, 1, 3)), ops.shape(x)))


class Block(layers.Layer):
    """Pre-norm: self-attention, attention at the source in a decoder, feed-forward."""

    def __init__(self, heads: int, width: int, inner: int) -> None:
        super().__init__()
        self.own, self.source = Heads(heads, width), Heads(heads, width)
        self.norms = [layers.LayerNormalization(epsilon=1e-6) for _ in range(3)]
        self.inner, self.outer = layers.Dense(inner, "relu"), layers.Dense(width)

    def feed_forward(self, x: Any) -> Any:
        return x + self.outer(self.inner(self.norms[2](x)))

    def encode(self, x: Any) -> Any:
        y = self.norms[0](x)
        return self.feed_forward(x + self.own.look(y, *self.own.read(y)))

    def step(
        self, x: Any, cache: Any, memory: Any, at: Any, width: int, hidden: Any
    ) -> tuple[Any, Any]:
        """One token of N hypotheses `(B, N, D)`; there is room for `width` at each step.

        A look goes to all places of a stretch of the cache, those of other hypotheses hidden:
        nothing is moved.
        """
        y = self.norms[0](x)
        keys, values = self.own.read(y)
        keys = ops.slice_update(cache[0], (0, 0, 0, at * width), keys)
        values = ops.slice_update(cache[1], (0, 0, at * width, 0), values)

        def look(steps: Any) -> Any:
            end = steps * width
            return self.own.look(y, keys[..., :end], values[:, :, :end], hidden[..., :end])

        x = x + in_stretch(at, look, ops.shape(values)[2] // width)
        x = x + self.source.look(self.norms[1](x), *memory)
        return self.feed_forward(x), [keys, values]


def in_stretch(
    at: Any, look: Callable[[Any], Any], room: Any, sizes: tuple[int, ...] = STRETCHES
) -> Any:
    """`look(n)` for the shortest stretch of n steps that has step `at`, the whole room the longest.

    So a step costs what was written, not what there is room for, and all shapes are static.
    """
    if not sizes or (isinstance(room, int) and 2 * sizes[0] > room):
        return look(room)
    size = sizes[0] if isinstance(room, int) else ops.minimum(sizes[0], room)
    return ops.cond(
        at < sizes[0], lambda: look(size), lambda: in_stretch(at, look, room, sizes[1:])
    )


class Transformer(Searching, keras.Model):
    """An encoder and a decoder of so many blocks each."""

    def __init__(self, depth: int, heads: int, width: int, inner: int, vocabulary: int) -> None:
        super().__init__()
        self.heads, self.width, self.target_vocabulary_size = heads, width, vocabulary
        self.tables = [layers.Embedding(vocabulary, width) for _ in range(2)]
        self.places = layers.Embedding(256, width)
        self.encoder = [Block(heads, width, inner) for _ in range(depth)]
        self.decoder = [Block(heads, width, inner) for _ in range(depth)]
        self.norms = [layers.LayerNormalization(epsilon=1e-6) for _ in range(2)]
        self.vocabulary = layers.Dense(vocabulary)

    def decoder_step(self, source: Any, width: int, room: Any) -> Reading:
        x = self.tables[0](source) + self.places(ops.arange(ops.shape(source)[1]))
        for block in self.encoder:
            x = block.encode(x)
        memory = self.norms[0](x)
        memories = [block.source.read(memory) for block in self.decoder]
        batch = ops.shape(source)[0]

        def step(tokens: Any, state: dict[str, Any]) -> StepOutput:
            at = ops.max(state["at"])
            count = tokens.shape[1]
            here = ops.broadcast_to(ops.arange(count, dtype="int32"), (batch, count))
            came_by = ops.slice_update(state["came_by"], (0, 0, at), here[..., None])
            hidden = _not_ancestors(came_by, at, width)
            x = self.tables[1](tokens) + self.places(at)
            caches = []
            for block, cache, memory in zip(
                self.decoder, state["caches"].value, memories, strict=True
            ):
                x, cache = block.step(x, cache, memory, at, width, hidden)
                caches.append(cache)
            state = {"at": state["at"] + 1, "came_by": came_by, "caches": InPlace(caches)}
            return StepOutput(self.vocabulary(self.norms[1](x)), state)

        size, places = self.width // self.heads, room * width
        empty = (
            ops.zeros((batch, self.heads, size, places)),
            ops.zeros((batch, self.heads, places, size)),
        )
        state = {
            "at": ops.zeros((batch,), dtype="int32"),
            "came_by": ops.zeros((batch, room), dtype="int32"),
            "caches": InPlace([list(empty) for _ in self.decoder]),
        }
        return Reading(step, state)


def _not_ancestors(came_by: Any, at: Any, width: int) -> Any:
    """`(B, 1, N, L W)` bool, the places that each hypothesis does not come by."""
    places = ops.arange(width, dtype="int32")
    later = ops.arange(ops.shape(came_by)[2], dtype="int32") > at
    other = ops.logical_or(came_by[..., None] != places, later[:, None])
    batch, count, steps, _ = ops.shape(other)
    return ops.reshape(other, (batch, 1, count, steps * width))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs=5, metavar="N", help="depth heads width ffn words")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--widths", type=int, nargs="+", default=[1, 5])
    options = parser.parse_args()
    keras.utils.set_random_seed(1)
    model = Transformer(*options.sizes)
    source = np.random.default_rng(0).integers(4, options.sizes[-1], (common.SEARCHED, 20))
    length = {"max_length": options.steps, "min_length": options.steps}
    for width in options.widths:
        seconds = common.median_seconds(
            lambda width=width: model.compiled_search(source, jit=True, beam_width=width, **length),
            8,
        )
        rate = common.SEARCHED / seconds
        common.report("attention_zoo", f"beam {width} XLA", seconds, sentences_per_second=rate)


if __name__ == "__main__":
    main()
