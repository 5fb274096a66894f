"""Search options, checked once before tracing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

import keras
import numpy as np
from keras import ops

from attention_zoo.decoding.length_penalty import LENGTH_PENALTIES
from attention_zoo.decoding.plan import (
    Plan,
    check_agreement,
    check_forced_tokens,
    check_integer,
    check_plan,
    get_static_value,
)
from attention_zoo.ops import number, whole_number
from attention_zoo.ops.arguments import format_value
from attention_zoo.registry import Registry, check_known

METHODS = Registry("search method")
"""Search methods by name: `run(problem) -> SearchResult`."""

METHOD_OPTIONS = {
    "beam": ("early_stopping", "fill_beam"),
    "sampling": ("temperature", "top_k", "top_p", "min_p", "seed"),
    "diverse_beam": ("groups", "diversity_penalty"),
    "contrastive": ("candidates", "degeneration_penalty"),
}
"""Options that only one method uses."""

INTEGER_MINIMUMS = {
    **dict.fromkeys(("beam_width", "n_best", "groups", "candidates", "batch_size"), 1),
    **dict.fromkeys(("no_repeat_ngram", "no_repeat_source_ngram", "top_k"), 0),
}
"""Minimum values of integer options."""

SCALAR_INTEGERS = {
    "min_length": (0, 2**31 - 1),
    "max_length": (1, 2**31 - 1),
    "seed": (0, 2**32 - 1),
}
"""Minimum and maximum values of integer options that may be tensors."""

BOOLEANS = ("renormalize", "fill_beam", "force_end", "replace_unknown", "jit")
"""Boolean options."""

NUMBER_RANGES = {
    "length_penalty_weight": (0, math.inf),
    "coverage_penalty": (0, math.inf),
    "diversity_penalty": (0, math.inf),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "degeneration_penalty": (0, 1),
    "repetition_penalty": (1e-6, math.inf),
    "temperature": (1e-6, math.inf),
    "max_length_ratio": (1e-6, 1000),
}
"""Minimum and maximum values of numeric options, which may be tensors."""

EARLY_STOPPING = ("never", False, True)
"""Values of `early_stopping`."""

FLOAT32_ROUNDING = 1e-7
"""Upper bound of the relative error of a number in float32."""


def check_number(name: str, value: Any, low: float, high: float = math.inf) -> float:
    """Return a float; raise ValueError unless `value` is a finite number in `[low, high]`."""
    if not low <= number(value) <= high or value == math.inf:
        limits = f"of at least {low:g}" if high == math.inf else f"from {low:g} to {high:g}"
        raise ValueError(f"{name} must be a finite number {limits}, got {format_value(value)}")
    return float(value)


def as_fraction(ratio: float) -> Fraction:
    """Round to a fraction with a denominator of at most 1000.

    0.29 times 100 is then 29, while `int(0.29 * 100)` is 28.
    """
    return Fraction(ratio).limit_denominator(1000)


@dataclass(frozen=True)
class SearchOptions:
    """Search options: the same in Python, in a recipe and on the command line.

    Lengths count output tokens, including the end token. Tokens are ids. In a graph, `min_length`,
    `max_length`, `seed` and all options that are floats may be scalar tensors, so that a new value
    does not retrace it.

    Args:
        method: "beam" (greedy search if `beam_width` is 1), "diverse_beam", "sampling" or
            "contrastive".
        beam_width: number of running hypotheses per source; in sampling, the number of samples.
        n_best: number of hypotheses returned, best first; at most `beam_width`. With
            `early_stopping="never"`, a lower value lets the search stop sooner. Except in diverse
            beam search, it does not change the best hypotheses. In diverse beam search, two groups
            may return the same hypothesis; if `n_best` exceeds the group size, only if the rules
            allow no alternative.
        length_penalty: divisor of the log probability of a hypothesis of n tokens: "none" (1),
            "average" (`n ** w`) or "gnmt" (`((5 + n) / 6) ** w`).
        length_penalty_weight: w, at least 0.
        renormalize: renormalize the probabilities over the tokens that the rules allow
            (`renormalize_logits` of `transformers`); by default, a ban does not change the
            probabilities of other tokens.
        early_stopping: stopping condition of beam search, with the values of `transformers`:
            "never" stops when no running hypothesis can still enter the n best; True, as soon as
            `beam_width` hypotheses are complete; False, when the best running hypothesis, scored at
            its current length, is no better than the worst of `beam_width` complete ones (a
            heuristic: with a length penalty, its score may still rise).
        fill_beam: select the `beam_width` best unfinished hypotheses at every step from the
            `2 * beam_width` best continuations, as `transformers` does; by default, a hypothesis
            that ends takes one of the `beam_width` slots of that step. No effect in greedy search.
        coverage_penalty: weight of `sum_i log min(sum_t a_ti, 1)` in the score, where a_ti is the
            attention weight of target position t for source position i; the term penalizes a
            hypothesis that does not attend to the whole source (Wu et al. 2016, equation 14).
        min_length: minimum number of tokens; the end token is banned until then.
        max_length: maximum number of tokens; without it and `max_length_ratio`, twice the source
            length plus 10, or more if `min_length` or forced tokens need it.
        max_length_ratio: maximum number of tokens per source token; the limit is rounded down and
            at least 1, or more if `min_length` or forced tokens need it. If both are set, the
            smaller limit applies.
        force_end: force the end token, with probability 1, at the maximum length
            (`forced_eos_token_id` of `transformers`); by default, such a hypothesis is truncated.
        forced_start: first token, forced with probability 1 (`forced_bos_token_id` of
            `transformers`); a forced token of another option keeps the probability of the model.
        no_repeat_ngram: no n-gram of this size may occur twice; 0 allows all.
        no_repeat_source_ngram: no n-gram of the source of this size may occur, by token id
            (`encoder_no_repeat_ngram_size` of `transformers`); 0 allows all.
        repetition_penalty: positive logits of tokens that were already generated are divided by
            this value, negative ones multiplied by it (Keskar et al. 2019, section 4.1); 1 has no
            effect.
        banned_tokens: tokens that are never generated.
        forced_tokens: maps positions, from 0, to the token that must be generated there.
        prefix_tokens: tokens that every output starts with.
        replace_unknown: a task replaces unknown tokens by the source token with the greatest
            attention weight.
        temperature: sampling temperature; values below 1 sharpen the distribution.
        top_k: sample from the k most likely tokens; 0 means all tokens.
        top_p: sample from the smallest set of most likely tokens whose total probability reaches
            `top_p`.
        min_p: sample from tokens whose probability is at least `min_p` times the greatest.
        seed: sampling seed; the same seed gives a source the same samples.
        groups: number of groups in diverse beam search; must divide `beam_width`.
        diversity_penalty: amount subtracted from the log probability of a token for each hypothesis
            of an earlier group that takes it at the same step (Vijayakumar et al. 2018).
        candidates: number of tokens that contrastive search compares at each step.
        degeneration_penalty: weight, from 0 to 1, of the largest cosine similarity between the
            hidden state of a candidate and those of all earlier tokens (Su et al. 2022, equation 5,
            `alpha` there).
        batch_size: number of sources that a task decodes at once.
        jit: compile with XLA, once per shape of the sources; used by `compiled_search` and tasks.

    Raises:
        ValueError: if an option is invalid, or two options conflict. The message contains the
            option, its value and the requirement.
    """

    method: str = "beam"
    beam_width: int = 1
    n_best: int = 1
    length_penalty: str = "none"
    length_penalty_weight: float = 1.0
    renormalize: bool = False
    early_stopping: bool | str = "never"
    fill_beam: bool = False
    coverage_penalty: float = 0.0
    min_length: int = 0
    max_length: int | None = None
    max_length_ratio: float | None = None
    force_end: bool = False
    forced_start: int | None = None
    no_repeat_ngram: int = 0
    no_repeat_source_ngram: int = 0
    repetition_penalty: float = 1.0
    banned_tokens: tuple[int, ...] = ()
    forced_tokens: dict[int, int] = field(default_factory=dict)
    prefix_tokens: tuple[int, ...] = ()
    replace_unknown: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    groups: int = 1
    diversity_penalty: float = 0.5
    candidates: int = 5
    degeneration_penalty: float = 0.6
    batch_size: int = 64
    jit: bool = False

    def __post_init__(self) -> None:
        METHODS.get(self.method)
        LENGTH_PENALTIES.get(self.length_penalty)
        is_known = self.early_stopping in EARLY_STOPPING
        if not is_known or not isinstance(self.early_stopping, (bool, str)):  # 1 == True
            value = format_value(self.early_stopping)
            raise ValueError(f"early_stopping must be 'never', False or True, got {value}")
        for name, value in self._normalize_fields():
            object.__setattr__(self, name, value)
        if get_static_value(self.top_p) == 0:
            raise ValueError("top_p must be above 0, got 0: no token would be left to sample")
        self._check_lengths_and_tokens()
        self._check_widths_and_method()

    def _normalize_fields(self) -> Iterator[tuple[str, Any]]:
        """Yield numbers and tokens as Python types; raise ValueError if one is out of range."""
        for name, low in INTEGER_MINIMUMS.items():
            yield name, check_integer(name, getattr(self, name), low)
        for name, (least, high) in NUMBER_RANGES.items():
            value = getattr(self, name)
            if value is not None or name != "max_length_ratio":
                yield name, _check_scalar(name, value, check_number, least, high)
        for name in BOOLEANS:
            yield name, _check_bool(name, getattr(self, name))
        for name in ("banned_tokens", "prefix_tokens"):
            yield name, _check_token_ids(name, getattr(self, name))
        yield "forced_tokens", check_forced_tokens(self.forced_tokens)
        if self.forced_start is not None:
            yield "forced_start", check_integer("forced_start", self.forced_start, 0)
        for name, (low, high) in SCALAR_INTEGERS.items():
            value = getattr(self, name)
            if value is not None or name != "max_length":
                yield name, _check_scalar(name, value, whole_number, low, high)

    def _check_lengths_and_tokens(self) -> None:
        min_length, max_length = map(get_static_value, (self.min_length, self.max_length))
        if max_length is not None and min_length is not None and min_length > max_length:
            raise ValueError(
                f"min_length must be at most max_length, got min_length={min_length}, "
                f"max_length={max_length}: raise max_length or lower min_length"
            )
        prefix = dict(enumerate(self.prefix_tokens))
        check_agreement("forced_tokens", self.forced_tokens, "prefix_tokens", prefix)
        for name, plan in (("prefix_tokens", prefix), ("forced_tokens", self.forced_tokens)):
            check_agreement("forced_start", self.start_plan, name, plan)
        check_plan("forced_start", self.start_plan, self)
        check_plan("prefix_tokens", prefix, self)
        check_plan("forced_tokens", self.plan, self)

    def _check_widths_and_method(self) -> None:
        if self.n_best > self.beam_width:
            raise ValueError(
                f"n_best must be at most beam_width, got n_best={self.n_best}, "
                f"beam_width={self.beam_width}: lower n_best or raise beam_width"
            )
        if self.beam_width % self.groups:
            got = f"groups={self.groups}, beam_width={self.beam_width}"
            raise ValueError(f"groups must divide beam_width, got {got}")
        if self.method == "contrastive" and self.beam_width > 1:
            raise ValueError(
                f"method 'contrastive' needs beam_width=1, got {self.beam_width}: "
                "set the number of tokens compared per step by candidates"
            )
        if self.length_penalty == "none" and self.is_set("length_penalty_weight"):
            raise ValueError(
                "length_penalty_weight has no effect with length_penalty='none', got "
                f"{format_value(self.length_penalty_weight)}: remove it or set length_penalty"
            )
        for method, names in METHOD_OPTIONS.items():
            for name in names if method != self.method else ():
                if self.is_set(name):
                    raise ValueError(
                        f"{name} applies to method {method!r} only, got {name}="
                        f"{format_value(getattr(self, name))}, method={self.method!r}: remove it "
                        f"or set method={method!r}"
                    )

    def is_set(self, name: str) -> bool:
        """Return whether an option differs from its default; True for a tensor."""
        value = getattr(self, name)
        return bool(ops.is_tensor(value) or value != getattr(SearchOptions, name))

    @property
    def plan(self) -> Plan:
        """Forced tokens by position, including the prefix."""
        return self.start_plan | dict(enumerate(self.prefix_tokens)) | self.forced_tokens

    @property
    def start_plan(self) -> Plan:
        """The plan of `forced_start`."""
        return {} if self.forced_start is None else {0: self.forced_start}

    @property
    def min_target_length(self) -> Any:
        """Number of tokens that every output must be able to have, an integer or a tensor."""
        num_forced = max(self.plan, default=-1) + 1
        needed = max(num_forced + self.force_end, 1)
        if ops.is_tensor(self.min_length):
            return ops.maximum(self.min_length, needed)
        return max(self.min_length, needed)

    @property
    def width(self) -> int:
        """Number of hypotheses that the decoder processes per source in a step.

        In contrastive search, the number of candidates. The first step has one hypothesis.
        """
        return self.candidates if self.method == "contrastive" else self.beam_width

    def override(self, **changes: Any) -> SearchOptions:
        """Return a copy with some options changed; raise ValueError for an unknown name.

        With another method, the options that only the old one uses get their defaults.
        """
        check_known("unknown search option", changes, [one.name for one in fields(self)])
        if changes.get("method", self.method) != self.method:
            names = METHOD_OPTIONS[self.method]
            changes = {name: getattr(SearchOptions, name) for name in names} | changes
        return replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Return the options by name."""
        return asdict(self)

    def limit(self, source_length: Any) -> Any:
        """Return the maximum output length for a source length: an integer, or a tensor of them."""
        if self.max_length is None:
            return self.limit_by_source(source_length)
        if self.max_length_ratio is None:
            return self.max_length
        limit = self.limit_by_source(source_length)
        is_tensor = ops.is_tensor(limit) or ops.is_tensor(self.max_length)
        return ops.minimum(limit, self.max_length) if is_tensor else min(limit, self.max_length)

    def limit_by_source(self, source_length: Any) -> Any:
        """Return the maximum output length for a source length, without `max_length`."""
        if self.max_length_ratio is None:
            limit = 2 * source_length + 10
        elif ops.is_tensor(self.max_length_ratio):
            limit = ops.cast(source_length, "float64") * ops.cast(self.max_length_ratio, "float64")
            limit = ops.cast(ops.floor(limit * (1 + FLOAT32_ROUNDING)), "int32")
        else:
            ratio = as_fraction(self.max_length_ratio)
            limit = source_length * ratio.numerator // ratio.denominator
        if ops.is_tensor(limit) or ops.is_tensor(self.min_length):
            return ops.maximum(limit, self.min_target_length)
        return max(limit, self.min_target_length)  # Python integers stay Python integers

    def score(self, log_probs: Any, length: Any, coverage: Any = 0.0) -> Any:
        """Compute the scores by which hypotheses are compared.

        Args:
            log_probs: log probabilities of whole hypotheses.
            length: number of tokens of the hypotheses; broadcasts to `log_probs`.
            coverage: `sum_i log min(sum_t a_ti, 1)` of each hypothesis.
        """
        penalty = LENGTH_PENALTIES.get(self.length_penalty)
        divisor = penalty(ops.cast(length, "float32"), self.length_penalty_weight)
        return log_probs / divisor + self.coverage_penalty * coverage


def _check_bool(name: str, value: Any) -> bool:
    """Return a Python bool; raise ValueError unless `value` is a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be a bool, got {format_value(value)}")
    return bool(value)


def _check_scalar(name: str, value: Any, check: Callable[..., Any], low: float, high: float) -> Any:
    """Return a checked number or scalar tensor; raise ValueError for a wrong value, dtype or shape.

    The value of a symbolic tensor is not checked.
    """
    if not ops.is_tensor(value):
        return check(name, value, low, high)
    dtype = keras.backend.standardize_dtype(value.dtype)
    kind, dtypes = ("integer", "int") if check is whole_number else ("float", "float")
    if len(value.shape) or dtypes not in dtype:
        got = f"{dtype} of shape {tuple(value.shape)}"
        raise ValueError(f"{name} must be a scalar {kind}, got {got}")
    known = get_static_value(value)
    if known is not None:
        check(name, known.item(), low, high)
    return value


def _check_token_ids(name: str, tokens: Any) -> tuple[int, ...]:
    """Return the ids as a tuple; raise ValueError unless they are token ids."""
    if isinstance(tokens, str) or not isinstance(tokens, Iterable):
        raise ValueError(
            f"{name} must be a list of token ids, such as [2, 3], got {format_value(tokens)}"
        )
    return tuple(check_integer(f"an id of {name}", token, 0) for token in tokens)
