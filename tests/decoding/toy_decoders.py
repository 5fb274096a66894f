"""Small decoders whose every sequence can be scored by hand, and ways to run a search on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from attention_zoo.decoding import SearchOptions, SearchResult, StepOutput, search
from tests.tiers import FULL, mark_full

START, END = 2, 3
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"
MODES = ["eager", mark_full("graph"), "xla"] if ON_TENSORFLOW else ["xla"]
ENDS = ["eager", "xla"] if ON_TENSORFLOW else ["xla"]  # the two that differ most, for edge cases
DEFAULT = "eager" if ON_TENSORFLOW and not FULL else "xla"


def compiled(function: Callable[..., Any], mode: str) -> Callable[..., Any]:
    """The function run eagerly, as a graph, or compiled by XLA, on either backend."""
    if mode == "eager":
        return function
    if not ON_TENSORFLOW:
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=mode == "xla")


REQUEST = ("start_token", "end_token", "pad_token", "source_mask", "source_keys", "prefix", "rules")


def find(step: Any, state: Any, *, batch_size: Any, **given: Any) -> SearchResult:
    """`search` with options and request in one; all hypotheses that run unless `n_best` is said."""
    request = {"start_token": START, "end_token": END}
    request |= {name: given.pop(name) for name in REQUEST if name in given}
    options = SearchOptions(**{"n_best": given.get("beam_width", 1)} | given)
    return search(step, state, options, batch_size=batch_size, **request)


def to_numpy(result: SearchResult) -> SearchResult:
    return SearchResult(*(None if x is None else ops.convert_to_numpy(x) for x in result))


def lookup(table: Any, tokens: Any) -> Any:
    """`table (B, V, ...)` at `tokens (B, N)`."""
    sources, vocabulary, *rest = table.shape
    rows = ops.reshape(table, (sources * vocabulary, *rest))
    places = tokens + ops.arange(0, sources * vocabulary, vocabulary)[:, None]
    found = ops.take(rows, places, axis=0)
    return ops.reshape(found, (*ops.shape(tokens), *rest))  # JAX loses the shape of no source


class Tables(NamedTuple):
    """A second-order model: logits depend on the last token and on the one before it.

    The attention of a step is what was taken before it (a number for the whole history, the last
    token, the one before), so that a result whose attention is not its own is found out.
    """

    first: np.ndarray
    second: np.ndarray

    @classmethod
    def random(cls, seed: int, sources: int, vocabulary: int, end_bias: float = 0.0) -> Tables:
        rng = np.random.default_rng(seed)
        first, second = 2 * rng.normal(size=(2, sources, vocabulary, vocabulary))
        first[..., END] += end_bias
        return cls(first.astype("float32"), second.astype("float32"))

    @property
    def sources(self) -> int:
        return self.first.shape[0]

    def state(self) -> dict[str, Any]:
        return {
            "previous": ops.zeros((self.sources,), dtype="int32"),
            "history": ops.zeros((self.sources, 1), dtype="float32"),
        }

    def step(self, tokens: Any, state: dict[str, Any]) -> StepOutput:
        logits = lookup(self.first, tokens) + lookup(self.second, state["previous"])
        now = ops.cast(tokens, "float32")[..., None]
        history = state["history"] * 0.5 + now
        previous = ops.cast(state["previous"], "float32")[..., None]
        attention = ops.concatenate([history, now, previous], axis=-1)
        return StepOutput(logits, {"previous": tokens, "history": history}, attention)

    def log_probs(self, source: int, taken: Sequence[int]) -> np.ndarray:
        """Float64 log probabilities of the next token after `taken`."""
        before = [0, START, *taken]
        logits = self.first[source, before[-1]].astype("float64") + self.second[source, before[-2]]
        top = logits.max()
        return logits - top - np.log(np.exp(logits - top).sum())

    def attention(self, taken: Sequence[int]) -> np.ndarray:
        """What a hypothesis looks at to take its next token."""
        before, history = [0, START, *taken], 0.0
        for token in before[1:]:
            history = history * 0.5 + token
        return np.array([history, before[-1], before[-2]])

    def row(self, source: int) -> Tables:
        return Tables(self.first[source : source + 1], self.second[source : source + 1])

    def search(self, mode: str = DEFAULT, step: Any = None, **options: Any) -> SearchResult:
        """Run `find` with `step`, by default the step of these tables."""
        given = {"batch_size": self.sources} | options
        run = compiled(lambda: find(step or self.step, self.state(), **given), mode)
        return to_numpy(run())


class Hypothesis(NamedTuple):
    score: float
    tokens: tuple[int, ...]
    finished: bool


PENALTIES: dict[str, Callable[[int, float], float]] = {
    "none": lambda n, weight: 1.0,
    "average": lambda n, weight: n**weight,
    "gnmt": lambda n, weight: ((5 + n) / 6) ** weight,
}


def beam_by_hand(
    tables: Tables, source: int, width: int, max_length: int, penalty: str, weight: float
) -> list[Hypothesis]:
    """Beam search as it is told in words; never stops early."""
    running: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    ended: list[Hypothesis] = []
    for length in range(1, max_length + 1):
        divisor = PENALTIES[penalty](length, weight)
        grown = [
            (log_prob + float(more), (*taken, token))
            for log_prob, taken in running
            for token, more in enumerate(tables.log_probs(source, taken))
        ]
        kept = sorted(grown, key=lambda one: -one[0])[:width]
        ended += [Hypothesis(p / divisor, taken, True) for p, taken in kept if taken[-1] == END]
        running = [(p, taken) for p, taken in kept if taken[-1] != END]
    cut = [Hypothesis(p / PENALTIES[penalty](max_length, weight), t, False) for p, t in running]
    return sorted(ended + cut, key=lambda one: -one.score)


def assert_hypotheses(
    tables: Tables, source: int, result: SearchResult, want: Sequence[Hypothesis]
) -> None:
    """The result for a source is exactly these hypotheses, with their own attention."""
    for rank, one in enumerate(want):
        length = len(one.tokens)
        row = result.tokens[source, rank]
        assert row[:length].tolist() == list(one.tokens)
        assert not row[length:].any()
        assert result.lengths[source, rank] == length
        assert result.finished[source, rank] == one.finished
        np.testing.assert_allclose(result.scores[source, rank], one.score, rtol=1e-5, atol=1e-5)
        looks = [tables.attention(one.tokens[:t]) for t in range(length)]
        np.testing.assert_allclose(result.attention[source, rank, :length], looks, rtol=1e-6)
        assert not result.attention[source, rank, length:].any()
