"""Generation: search, eager and compiled, for models that decode sequences."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from attention_zoo.decoding import Rule, SearchOptions, SearchResult, search
from attention_zoo.decoding.plan import Vocabulary, get_static_value
from attention_zoo.decoding.problem import check_ids
from attention_zoo.decoding.rules import as_rules
from attention_zoo.layers.positions.absolute import positions_of
from attention_zoo.ops.random import scramble
from attention_zoo.typing import Tensor

PAD, START, END = 0, 2, 3
MOST_COMPILED = 16  # compiled searches kept per model


class DecoderStart(NamedTuple):
    """A decoder after encoding its sources.

    step: see `decoding.StepFunction`.
    state: before the first token, a nest of `(B, ...)`.
    start: input of the first step, an id or ids `(B,)`.
    places: source mask `(B, S)`, for sources that are not tokens.
    keys: `(B,)` int32 that identify each source in sampling, for sources that are not tokens.
    """

    step: Callable[..., Any]
    state: Any
    start: Any = START
    places: Tensor | None = None
    keys: Tensor | None = None


class GenerationMixin:
    """Mixin for models that generate: with a `target_vocabulary_size` and `decoder_step`.

    Token ids: 0 is padding, 1 unknown, 2 start, 3 end.
    """

    target_vocabulary_size: int
    """Number of tokens in the logits of `decoder_step`."""

    decoder_step: Callable[[Tensor, int, Any], DecoderStart]
    """Encodes `source (B, S)` for `width` hypotheses each and at most `room` steps."""

    def check_search(self, source: Tensor, options: SearchOptions) -> None:
        """Raise ValueError for invalid sources, as far as their values are known."""
        check_source(source, getattr(self, "source_vocabulary_size", None))

    def as_source(self, source: Any) -> Tensor:
        """Convert sources to the model's input, by default to int32 tokens."""
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
        """Generate the best targets of each source.

        Args:
            source: `(B, S)` integers, padded with 0.
            options: search options; greedy search if None.
            prefix: `(B, P)` integers that the targets begin with, padded with 0.
            rules: further constraints on the tokens of each step.
            **changes: fields of `SearchOptions` that override those of `options`.

        Raises:
            ValueError: an unknown option, contradictory options, an id outside the vocabulary.
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
        """Run `search`, compiled once for each set of options; return NumPy arrays.

        Changing the seed, `batch_size` or, without XLA, `max_length` does not recompile. With
        XLA every new source shape does, without it at most one.

        Args:
            source: `(B, S)` integers.
            options, prefix, changes: as in `search`.
            rules: as in `search`. Other rule objects recompile, even if they are equal.

        Raises:
            ValueError: as in `search`, before anything is compiled.
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
    """Set the logits `(..., V)` of padding and start to -inf."""
    ids = ops.arange(logits.shape[-1])
    never = ops.logical_or(ids == PAD, ids == START)
    return ops.where(never, ops.cast(float("-inf"), logits.dtype), logits)


def check_source(source: Tensor, vocabulary: int | None) -> None:
    """Raise ValueError unless sources are ids `(B, S)` below `vocabulary`, if values are known."""
    if len(source.shape) != 2 or "int" not in keras.backend.standardize_dtype(source.dtype):
        raise ValueError(
            f"source must be integer token ids (B, S), got {source.dtype} of shape "
            f"{tuple(source.shape)}"
        )
    ids = get_static_value(source)
    if vocabulary is None or ids is None or not ids.size:
        return
    for token in (ids.min(), ids.max()):
        if not 0 <= token < vocabulary:
            raise ValueError(
                "source token ids must be at least 0 and less than the vocabulary size "
                f"{vocabulary}, got {token}"
            )


def fingerprints(source: Tensor) -> Tensor:
    """Return `(B,)` int32 hashes of the tokens of each source and their order, without padding."""
    live = ops.not_equal(source, PAD)
    places = ops.cast(positions_of(live) + 1, "uint32")
    bits = scramble(ops.cast(source, "uint32") + scramble(places))
    bits = ops.cast(ops.right_shift(bits, ops.cast(1, "uint32")), "int32")
    return ops.sum(ops.where(live, bits, 0), axis=1)


def _fed(options: SearchOptions) -> tuple[SearchOptions, dict[str, Tensor]]:
    """Split options into static ones and tensor inputs, whose values do not recompile."""
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
    """Cache of compiled searches; a separate object, so that Keras does not track them."""

    def __init__(self) -> None:
        self.known: OrderedDict[tuple[Any, ...], _Search] = OrderedDict()

    def run(
        self, key: tuple[Any, ...], make: Callable[[], _Search], inputs: dict[str, Tensor]
    ) -> SearchResult:
        """Run the search of a key and cache it if it succeeds; evict the least recently used."""
        search = self.known.pop(key, None) or make()
        found = search.find(inputs)
        self.known[key] = search
        while len(self.known) > MOST_COMPILED:
            self.known.popitem(last=False)
        return found


class _Search(keras.Model):
    """`search` as the call of a model, which is what Keras compiles on every backend."""

    def __init__(
        self, writer: GenerationMixin, options: SearchOptions, rules: Sequence[Rule]
    ) -> None:
        super().__init__(name="search", dtype="float32")  # whatever the global dtype policy
        self.writer, self.search_options, self.rules = writer, options, rules
        self.jit_compile = options.jit or keras.backend.backend() != "tensorflow"

    def find(self, inputs: dict[str, Tensor]) -> SearchResult:
        """Run the search; raise its own ValueError, not Keras's wrapper of it."""
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
"""Holds the error of this thread's search, which Keras and TensorFlow wrap in other messages."""
