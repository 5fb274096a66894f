"""Generation: search, eager and compiled, for models that decode sequences."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from attention_zoo.decoding import Rule, SearchOptions, SearchResult, StepOutput, search
from attention_zoo.decoding.options import NUMBER_RANGES, SCALAR_INTEGERS, as_fraction
from attention_zoo.decoding.plan import Vocabulary, get_static_value
from attention_zoo.decoding.problem import check_ids
from attention_zoo.decoding.rules import as_rules
from attention_zoo.layers.attention.expected_lengths import (
    expect_long_sequences,
    expects_long_sequences,
)
from attention_zoo.layers.attention.steps import is_long_sequence
from attention_zoo.layers.attention.weights_hooks import has_weights_hooks
from attention_zoo.layers.positions.absolute import compute_positions
from attention_zoo.models.prebuilt import make_token_spec
from attention_zoo.ops.random import scramble
from attention_zoo.typing import Tensor

PAD, START, END = 0, 2, 3
MAX_COMPILED_SEARCHES = 16  # compiled searches kept per model
ALWAYS_INPUTS: dict[str, tuple[str, ...]] = {
    "sampling": ("seed", "temperature"),
    "diverse_beam": ("diversity_penalty",),
    "contrastive": ("degeneration_penalty",),
}
"""Options that are inputs of a compiled search with this method, even at their defaults."""
NO_MAX_LENGTH = SCALAR_INTEGERS["max_length"][1]
"""Value of the input `max_length` of a compiled search that means no limit."""


class DecoderStart(NamedTuple):
    """A decoder after encoding its sources.

    step: see `decoding.StepFunction`.
    state: before the first token, a nest of `(B, ...)`.
    start: input of the first step, an id or ids `(B,)`.
    source_mask: `(B, S)`, only for sources that are not tokens.
    source_keys: `(B,)` int32, which identify each source in sampling; only for such sources.
    """

    step: Callable[..., Any]
    state: Any
    start: Any = START
    source_mask: Tensor | None = None
    source_keys: Tensor | None = None

    def mask_special_tokens(self) -> DecoderStart:
        """Return a start whose steps have logit -inf for padding and start."""

        def step(tokens: Tensor, state: Any) -> StepOutput:
            output = self.step(tokens, state)
            return output._replace(logits=mask_special_tokens(output.logits))

        return self._replace(step=step)


class GenerationMixin:
    """Mixin for models that generate token sequences.

    A model sets `target_vocabulary_size` and defines `start_decoding`, which returns a
    `DecoderStart`; `search` and `compiled_search` then generate. `source_vocabulary_size`, if set,
    is the limit of source ids. The default `input_specs` are "source" `(B, S)` and "target"
    `(B, T)`. Token ids: 0 is padding, 1 unknown, 2 start, 3 end.
    """

    target_vocabulary_size: int
    """Number of tokens in the logits of `start_decoding`."""

    start_decoding: Callable[[Tensor, int, Any], DecoderStart]
    """Encodes `source (B, S)` for `width` hypotheses each and at most `max_steps` steps."""

    @property
    def input_specs(self) -> dict[str, keras.InputSpec]:
        """Specs of the inputs of a call."""
        return {name: make_token_spec(name) for name in ("source", "target")}

    def check_search(self, source: Tensor, options: SearchOptions) -> None:
        """Raise ValueError for invalid sources, as far as their values are known."""
        check_source(source, getattr(self, "source_vocabulary_size", None))

    def get_max_target_lengths(self, source_lengths: Tensor) -> Tensor | None:
        """Return the maximum number of generated tokens, `(B,)`, for source lengths `(B,)`.

        None for no limit.
        """
        return None

    def convert_source(self, source: Any) -> Tensor:
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
        source = self.convert_source(source)
        start = self.start_decoding(source, options.width, options.limit(ops.shape(source)[1]) + 1)
        source_mask, source_keys, source_tokens = start.source_mask, start.source_keys, None
        if source_mask is None:
            source_mask, source_tokens = ops.not_equal(source, PAD), source
        lengths = ops.sum(ops.cast(source_mask, "int32"), axis=1)
        return search(
            start.step,
            start.state,
            options,
            batch_size=ops.shape(source)[0],
            start_token=start.start,
            end_token=END,
            pad_token=PAD,
            source_mask=source_mask,
            source_keys=hash_sources(source) if source_keys is None else source_keys,
            prefix=prefix,
            rules=rules,
            length_limits=self.get_max_target_lengths(lengths),
            source_tokens=source_tokens,
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

        Other numbers (the seed, `batch_size`, penalties, `temperature` and so on; without XLA,
        limits of the length) do not recompile. With XLA, each new source shape is
        compiled; without it, at most one more. Attention is blockwise in source tokens `(B, S)` if
        S is 2,048 or more; such sources are compiled separately.

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
        fixed, inputs = _split_options(options)
        inputs["source"] = self.convert_source(source)
        if prefix is not None:
            inputs["prefix"] = ops.cast(prefix, "int32")
        shape = inputs["source"].shape
        is_long = len(shape) == 2 and is_long_sequence(shape[1])
        key = (repr(fixed), tuple(inputs), tuple(map(id, rules)), is_long)
        if has_weights_hooks(self):  # a search that is recorded is traced anew and not cached
            return _Search(self, fixed, rules, is_long).run(inputs)
        searches = self.__dict__.setdefault("_compiled", _Searches())
        return searches.run(key, lambda: _Search(self, fixed, rules, is_long), inputs)


def mask_special_tokens(logits: Tensor) -> Tensor:
    """Set the logits `(..., V)` of padding and start to -inf."""
    ids = ops.arange(logits.shape[-1])
    is_forbidden = ops.logical_or(ids == PAD, ids == START)
    return ops.where(is_forbidden, ops.cast(float("-inf"), logits.dtype), logits)


def check_vocabulary_size(name: str, size: int) -> None:
    """Raise ValueError unless a vocabulary has more than the special tokens."""
    if size < END + 2:
        raise ValueError(
            f"{name} must be at least {END + 2} (4 special tokens and one more), got {size}"
        )


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


def hash_sources(source: Tensor) -> Tensor:
    """Return `(B,)` int32 hashes of the tokens of each source and their order, without padding."""
    mask = ops.not_equal(source, PAD)
    positions = ops.cast(compute_positions(mask) + 1, "uint32")
    bits = scramble(ops.cast(source, "uint32") + scramble(positions))
    bits = ops.cast(ops.right_shift(bits, ops.cast(1, "uint32")), "int32")
    return ops.sum(ops.where(mask, bits, 0), axis=1)


def _split_options(options: SearchOptions) -> tuple[SearchOptions, dict[str, Tensor]]:
    """Split options into static ones and tensor inputs.

    New values of the inputs do not recompile the search. A number is an input if it has an effect.
    The names of the inputs are a part of the key under which the compiled search is cached, so an
    option without an effect costs nothing.
    """
    always = ALWAYS_INPUTS.get(options.method, ())
    if options.length_penalty != "none":
        always += ("length_penalty_weight",)
    names = {name for name in (*NUMBER_RANGES, *SCALAR_INTEGERS) if options.is_set(name)}
    names.update(always)
    has_static_lengths = _has_static_lengths(options)
    if has_static_lengths:
        names -= {"min_length", "max_length", "max_length_ratio"}
    values = {name: getattr(options, name) for name in names}
    if not has_static_lengths:
        limit = options.max_length
        values["max_length"] = NO_MAX_LENGTH if limit is None else min(limit, NO_MAX_LENGTH - 1)
    if "max_length_ratio" in values:
        ratio = float(as_fraction(values["max_length_ratio"]))
        values["max_length_ratio"] = max(ratio, NUMBER_RANGES["max_length_ratio"][0])
    inputs = {name: _to_tensor(name, value) for name, value in sorted(values.items())}
    defaults = {name: getattr(SearchOptions, name) for name in values}
    return options.override(batch_size=1, **defaults), inputs


def _has_static_lengths(options: SearchOptions) -> bool:
    """Return whether shapes in the compiled search depend on options that limit lengths."""
    return options.jit or keras.backend.backend() != "tensorflow"


def _to_tensor(name: str, value: Any) -> Tensor:
    """Return a numeric option as a tensor."""
    dtype = "uint32" if name == "seed" else "float32" if name in NUMBER_RANGES else "int32"
    return ops.convert_to_tensor(np.array(value, dtype))


class _GraphOptions(SearchOptions):
    """Search options whose `max_length` is a tensor, `NO_MAX_LENGTH` for none."""

    def limit(self, source_length: Any) -> Any:
        """Return the maximum output length for a source length."""
        limit = self.limit_by_source(source_length)
        if self.max_length_ratio is not None:
            return ops.minimum(limit, self.max_length)
        return ops.where(self.max_length == NO_MAX_LENGTH, limit, self.max_length)


class _Searches:
    """Cache of compiled searches; a separate object, so that Keras does not track them."""

    def __init__(self) -> None:
        self.searches: OrderedDict[tuple[Any, ...], _Search] = OrderedDict()

    def run(
        self, key: tuple[Any, ...], make: Callable[[], _Search], inputs: dict[str, Tensor]
    ) -> SearchResult:
        """Run the search of a key and cache it if it succeeds; evict the least recently used."""
        search = self.searches.pop(key, None) or make()
        result = search.run(inputs)
        self.searches[key] = search
        while len(self.searches) > MAX_COMPILED_SEARCHES:
            self.searches.popitem(last=False)
        return result


class _Search(keras.Model):
    """`search` as the call of a model, which is what Keras compiles on every backend."""

    def __init__(
        self,
        generator: GenerationMixin,
        options: SearchOptions,
        rules: Sequence[Rule],
        expect_long: bool,
    ) -> None:
        super().__init__(name="search", dtype="float32")  # whatever the global dtype policy
        self.generator, self.rules, self.expect_long = generator, rules, expect_long
        kind = SearchOptions if _has_static_lengths(options) else _GraphOptions
        self.search_options = kind(**options.as_dict())
        is_tensorflow = keras.backend.backend() == "tensorflow"
        if options.jit and is_tensorflow and has_weights_hooks(generator):
            raise ValueError(
                "a search with jit=True cannot be recorded on TensorFlow: XLA cannot call Python "
                "functions. Use jit=False within `record`."
            )
        self.jit_compile = options.jit or not is_tensorflow

    def run(self, inputs: dict[str, Tensor]) -> SearchResult:
        """Run the search; raise its own ValueError, not Keras's wrapper of it."""
        _thread_state.error = None
        try:
            fields = self.predict_on_batch(inputs)
        except ValueError:
            if _thread_state.error is None:
                raise
            raise _thread_state.error from None
        finally:
            _thread_state.error = None
        return SearchResult(**{"attention": None, **fields})

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        options = {name: x for name, x in inputs.items() if name not in ("source", "prefix")}
        try:
            with expect_long_sequences(self.expect_long or expects_long_sequences()):
                result = self.generator.search(
                    inputs["source"],
                    self.search_options,
                    prefix=inputs.get("prefix"),
                    rules=self.rules,
                    **options,
                )
        except ValueError as error:
            _thread_state.error = error
            raise
        return {name: value for name, value in result._asdict().items() if value is not None}


_thread_state = threading.local()
"""Holds the error of this thread's search, which Keras and TensorFlow wrap in other messages."""
