"""What models share that write sequences: the search, and the search compiled."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from attention_zoo.decoding import Rule, SearchOptions, SearchResult, search
from attention_zoo.decoding.plan import Vocabulary, known
from attention_zoo.decoding.problem import check_ids
from attention_zoo.decoding.rules import as_rules
from attention_zoo.layers.positions.places import places_of
from attention_zoo.ops.random import scramble

Tensor = Any

PAD, START, END = 0, 2, 3
MOST_COMPILED = 16  # searches of a model that are kept compiled


class DecoderStart(NamedTuple):
    """A decoder that has read its sources.

    step: see `decoding.StepFunction`.
    state: before the first token, a nest of `(B, ...)`.
    start: what the first step is given, an id or ids `(B,)`.
    places: `(B, S)`, True where a source has a place to look at; of sources that are no tokens.
    keys: `(B,)` int32 that tell sources apart which are no tokens.
    """

    step: Callable[..., Any]
    state: Any
    start: Any = START
    places: Tensor | None = None
    keys: Tensor | None = None


class GenerationMixin:
    """A model that writes: it has a `target_vocabulary_size` and defines `decoder_step`.

    Token ids: 0 pads, 1 is unknown, 2 starts, 3 ends.
    """

    target_vocabulary_size: int
    """How many tokens `decoder_step` gives logits of."""

    decoder_step: Callable[[Tensor, int, Any], DecoderStart]
    """Reads `source (B, S)` for `width` hypotheses of each, and at most `room` steps."""

    def check_search(self, source: Tensor, options: SearchOptions) -> None:
        """ValueError for sources that cannot be searched like that, where they are known."""
        check_source(source, getattr(self, "source_vocabulary_size", None))

    def as_source(self, source: Any) -> Tensor:
        """The sources as what the model reads: tokens, where it says nothing else."""
        return ops.cast(source, "int32")

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
        self.check_search(source, options)
        source = self.as_source(source)
        reading = self.decoder_step(source, options.width, options.limit(ops.shape(source)[1]) + 1)
        places, keys = reading.places, reading.keys
        return search(
            reading.step,
            reading.state,
            options,
            batch_size=ops.shape(source)[0],
            start_token=reading.start,
            end_token=END,
            pad_token=PAD,
            source_mask=ops.not_equal(source, PAD) if places is None else places,
            source_keys=fingerprints(source) if keys is None else keys,
            prefix=prefix,
            rules=rules,
        )

    def compiled_search(
        self,
        source: Tensor,
        options: SearchOptions | None = None,
        *,
        prefix: Tensor | None = None,
        rules: Sequence[Rule] = (),
        **changes: Any,
    ) -> SearchResult:
        """`search`, compiled once for each set of options; returns NumPy arrays.

        Another seed, another option `batch_size` and, without XLA, another `max_length` compile
        nothing anew. Other shapes of sources do: with XLA each, without it one more.

        Args:
            source: `(B, S)` integers.
            options, prefix, changes: those of `search`.
            rules: those of `search`; other ones, even if they say the same, compile anew.

        Raises:
            ValueError: as `search`, before anything is compiled.
        """
        options = (options or SearchOptions()).override(**changes)
        rules = as_rules(rules)
        self.check_search(source, options)
        check_ids(options, prefix, Vocabulary(self.target_vocabulary_size, END, PAD))
        fixed, inputs = _fed(options)
        inputs["source"] = self.as_source(source)
        if prefix is not None:
            inputs["prefix"] = ops.cast(prefix, "int32")
        key = (repr(fixed), tuple(inputs), tuple(map(id, rules)))
        searches = self.__dict__.setdefault("_compiled", _Searches())
        return searches.run(key, lambda: _Search(self, fixed, rules), inputs)


def mask_special_tokens(logits: Tensor) -> Tensor:
    """Logits `(..., V)` by which padding and the start never follow."""
    ids = ops.arange(logits.shape[-1])
    never = ops.logical_or(ids == PAD, ids == START)
    return ops.where(never, ops.cast(float("-inf"), logits.dtype), logits)


def check_source(source: Tensor, vocabulary: int | None) -> None:
    """ValueError for sources that are no ids `(B, S)` of the vocabulary, where they are known."""
    if len(source.shape) != 2 or "int" not in keras.backend.standardize_dtype(source.dtype):
        raise ValueError(f"source is {source.dtype} of shape {tuple(source.shape)}: ids (B, S)")
    ids = known(source)
    if vocabulary is None or ids is None or not ids.size:
        return
    for token in (ids.min(), ids.max()):
        if not 0 <= token < vocabulary:
            raise ValueError(f"source has token {token} but the model reads {vocabulary} tokens")


def fingerprints(source: Tensor) -> Tensor:
    """`(B,)` int32 that depend on the tokens of each source and their order, not on its padding."""
    live = ops.not_equal(source, PAD)
    places = ops.cast(places_of(live) + 1, "uint32")
    bits = scramble(ops.cast(source, "uint32") + scramble(places))
    bits = ops.cast(ops.right_shift(bits, ops.cast(1, "uint32")), "int32")
    return ops.sum(ops.where(live, bits, 0), axis=1)


def _fed(options: SearchOptions) -> tuple[SearchOptions, dict[str, Tensor]]:
    """Options without what a compiled search is fed, and that: other values compile nothing."""
    fixed, fed = options.override(batch_size=1), {}
    if options.method == "sampling":
        fed["seed"] = ops.convert_to_tensor(np.uint32(options.seed))
        fixed = fixed.override(seed=0)
    shapes_vary = keras.backend.backend() == "tensorflow" and not options.jit
    if shapes_vary and options.max_length is not None:
        fed["max_length"] = ops.convert_to_tensor(np.int32(options.max_length))
        fixed = fixed.override(max_length=None)
    return fixed, fed


class _Searches:
    """The last compiled searches; an object of its own, so that Keras tracks none."""

    def __init__(self) -> None:
        self.known: OrderedDict[tuple[Any, ...], _Search] = OrderedDict()

    def run(
        self, key: tuple[Any, ...], make: Callable[[], _Search], inputs: dict[str, Tensor]
    ) -> SearchResult:
        """What the search of that key finds; one that works is kept, in place of the oldest."""
        search = self.known.pop(key, None) or make()
        found = search.find(inputs)
        self.known[key] = search
        while len(self.known) > MOST_COMPILED:
            self.known.popitem(last=False)
        return found


class _Search(keras.Model):
    """`search` as the call of a model, because that is what Keras compiles on every backend."""

    def __init__(
        self, writer: GenerationMixin, options: SearchOptions, rules: Sequence[Rule]
    ) -> None:
        super().__init__(name="search", dtype="float32")  # or the global policy would reach in
        self.writer, self.search_options, self.rules = writer, options, rules
        self.jit_compile = options.jit or keras.backend.backend() != "tensorflow"

    def find(self, inputs: dict[str, Tensor]) -> SearchResult:
        """The search; an error of its own comes as it was, not as Keras wraps it."""
        refused.error = None
        try:
            parts = self.predict_on_batch(inputs)
        except ValueError:
            if refused.error is None:
                raise
            raise refused.error from None
        finally:
            refused.error = None
        return SearchResult(**{"attention": None, **parts})

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        options = {name: inputs[name] for name in ("seed", "max_length") if name in inputs}
        try:
            found = self.writer.search(
                inputs["source"],
                self.search_options,
                prefix=inputs.get("prefix"),
                rules=self.rules,
                **options,
            )
        except ValueError as error:
            refused.error = error
            raise
        return {name: part for name, part in found._asdict().items() if part is not None}


refused = threading.local()
"""What this thread's search said no with: Keras and TensorFlow wrap it in words of their own."""
