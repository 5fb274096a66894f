"""What models share that write sequences: the search, and the search compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from attention_zoo.decoding import Rule, SearchOptions, SearchResult, search
from attention_zoo.ops.random import scramble

Tensor = Any

PAD, START, END = 0, 2, 3


class Reading(NamedTuple):
    """A decoder that has read its sources.

    step: see `decoding.StepFunction`.
    state: before the first token, a nest of `(B, ...)`.
    """

    step: Callable[..., Any]
    state: Any


class Searching:
    """A model that writes: it defines `decoder_step(source, width, room) -> Reading`.

    Token ids: 0 pads, 1 is unknown, 2 starts, 3 ends.
    """

    decoder_step: Callable[[Tensor, int, Any], Reading]
    """Reads `source (B, S)` for `width` hypotheses of each, and at most `room` steps."""

    def search(
        self,
        source: Tensor,
        options: SearchOptions | None = None,
        *,
        prefix: Tensor | None = None,
        rules: Sequence[Rule] = (),
        **changes: Any,
    ) -> SearchResult:
        """The best targets of each source.

        Args:
            source: `(B, S)` integers, padded with 0.
            options: how to search; greedily if None.
            prefix: `(B, P)` integers that the targets begin with, padded with 0.
            rules: more of what may be taken at a step.
            **changes: fields of `SearchOptions` in place of those of `options`.

        Raises:
            ValueError: an unknown option, options that contradict, an id outside the vocabulary.
        """
        options = (options or SearchOptions()).override(**changes)
        source = ops.cast(source, "int32")
        reading = self.decoder_step(source, options.width, options.limit(ops.shape(source)[1]) + 1)
        return search(
            reading.step,
            reading.state,
            options,
            batch_size=ops.shape(source)[0],
            start_token=START,
            end_token=END,
            pad_token=PAD,
            source_mask=ops.not_equal(source, PAD),
            source_keys=fingerprints(source),
            prefix=prefix,
            rules=rules,
        )

    def compiled_search(
        self,
        source: Tensor,
        options: SearchOptions | None = None,
        *,
        prefix: Tensor | None = None,
        jit: bool = False,
        **changes: Any,
    ) -> SearchResult:
        """`search`, compiled once for each set of options; returns NumPy arrays.

        Args:
            source: `(B, S)` integers.
            options, prefix, changes: those of `search`.
            jit: compile with XLA, anew for each shape of `source`.
        """
        options = (options or SearchOptions()).override(**changes)
        known = self.__dict__.setdefault("_compiled", _Searches()).known
        key = (jit, prefix is not None, repr(options))
        if key not in known:
            known[key] = _Search(self, options, jit)
        inputs = {"source": ops.convert_to_tensor(source)}
        if prefix is not None:
            inputs["prefix"] = ops.convert_to_tensor(prefix)
        parts = known[key].predict_on_batch(inputs)
        return SearchResult(**{"attention": None, **parts})


def fingerprints(source: Tensor) -> Tensor:
    """`(B,)` int32 that depend on the tokens of each source and their order, not on its padding."""
    places = ops.cast(ops.arange(ops.shape(source)[1], dtype="int32") + 1, "uint32")
    bits = scramble(ops.cast(source, "uint32") + scramble(places))
    bits = ops.cast(ops.right_shift(bits, ops.cast(1, "uint32")), "int32")
    return ops.sum(ops.where(ops.not_equal(source, PAD), bits, 0), axis=1)


class _Searches:
    """Compiled searches by their options; an object of its own, so that Keras tracks none."""

    def __init__(self) -> None:
        self.known: dict[tuple[Any, ...], _Search] = {}


class _Search(keras.Model):
    """`search` as the call of a model, because that is what Keras compiles on every backend."""

    def __init__(self, writer: Searching, options: SearchOptions, jit: bool) -> None:
        super().__init__(name="search")
        self.writer, self.search_options = writer, options
        self.jit_compile = jit

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        prefix = inputs.get("prefix")
        found = self.writer.search(inputs["source"], self.search_options, prefix=prefix)
        return {name: part for name, part in found._asdict().items() if part is not None}
