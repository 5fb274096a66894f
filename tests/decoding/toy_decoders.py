"""Small decoders whose sequences can be scored in plain Python, and helpers that search them."""

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
EDGE_MODES = ["eager", "xla"] if ON_TENSORFLOW else ["xla"]  # the two modes that differ most
DEFAULT_MODE = "eager" if ON_TENSORFLOW and not FULL else "xla"


def compile_function(function: Callable[..., Any], mode: str) -> Callable[..., Any]:
    """Return the function to run eagerly, as a graph or compiled by XLA, on either backend."""
    if mode == "eager":
        return function
    if not ON_TENSORFLOW:
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(function, jit_compile=mode == "xla")


SEARCH_ARGUMENTS = (
    "start_token",
    "end_token",
    "pad_token",
    "source_mask",
    "source_keys",
    "prefix",
    "rules",
    "length_limits",
    "source_tokens",
)


def run_search(step: Any, state: Any, *, batch_size: Any, **options: Any) -> SearchResult:
    """Run `search` with options and arguments in one; `n_best` defaults to the beam width.

    Results are padded to `max_length`, as XLA returns them, so that modes can be compared.
    """
    arguments = {"start_token": START, "end_token": END}
    arguments |= {name: options.pop(name) for name in SEARCH_ARGUMENTS if name in options}
    options = SearchOptions(**{"n_best": options.get("beam_width", 1)} | options)
    result = search(step, state, options, batch_size=batch_size, **arguments)
    return pad_result(result, options.max_length, arguments.get("pad_token", 0))


def pad_result(result: SearchResult, length: int | None, pad_token: int) -> SearchResult:
    """Pad the tokens of a result, and what belongs to them, to a length; None for no padding."""
    if length is None:
        return result

    def pad(x: Any, value: int = 0) -> Any:
        if x is None:
            return None
        widths = [(0, 0)] * len(x.shape)
        widths[2] = (0, length - ops.shape(x)[2])
        return ops.pad(x, widths, constant_values=value)

    return result._replace(
        tokens=pad(result.tokens, pad_token),
        token_scores=pad(result.token_scores),
        attention=pad(result.attention),
    )


def to_numpy(result: SearchResult) -> SearchResult:
    return SearchResult(*(None if x is None else ops.convert_to_numpy(x) for x in result))


def gather_rows(table: Any, tokens: Any) -> Any:
    """Gather `table (B, V, ...)` at `tokens (B, N)`."""
    sources, vocabulary, *rest = table.shape
    rows = ops.reshape(table, (sources * vocabulary, *rest))
    index = tokens + ops.arange(0, sources * vocabulary, vocabulary)[:, None]
    gathered = ops.take(rows, index, axis=0)
    return ops.reshape(
        gathered, (*ops.shape(tokens), *rest)
    )  # JAX drops the shape of an empty batch


class Tables(NamedTuple):
    """A second-order model: logits depend on the last token and on the one before it.

    The attention of a step encodes its prefix (a number for the whole history, the last token, the
    one before), so that a hypothesis with the attention of another one fails the test.
    """

    first: np.ndarray  # logits by last token
    second: np.ndarray  # logits by the token before it

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
        logits = gather_rows(self.first, tokens) + gather_rows(self.second, state["previous"])
        now = ops.cast(tokens, "float32")[..., None]
        history = state["history"] * 0.5 + now
        previous = ops.cast(state["previous"], "float32")[..., None]
        attention = ops.concatenate([history, now, previous], axis=-1)
        return StepOutput(logits, {"previous": tokens, "history": history}, attention)

    def log_probs(self, source: int, prefix: Sequence[int]) -> np.ndarray:
        """Return float64 log probabilities of the next token after `prefix`."""
        before = [0, START, *prefix]
        logits = self.first[source, before[-1]].astype("float64") + self.second[source, before[-2]]
        top = logits.max()
        return logits - top - np.log(np.exp(logits - top).sum())

    def attention(self, prefix: Sequence[int]) -> np.ndarray:
        """Return the attention of the step that follows a prefix."""
        before, history = [0, START, *prefix], 0.0
        for token in before[1:]:
            history = history * 0.5 + token
        return np.array([history, before[-1], before[-2]])

    def row(self, source: int) -> Tables:
        return Tables(self.first[source : source + 1], self.second[source : source + 1])

    def search(self, mode: str = DEFAULT_MODE, step: Any = None, **options: Any) -> SearchResult:
        """Run `run_search` with `step`, by default the step of these tables."""
        given = {"batch_size": self.sources} | options
        run = compile_function(lambda: run_search(step or self.step, self.state(), **given), mode)
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


def reference_beam_search(
    tables: Tables, source: int, width: int, max_length: int, penalty: str, weight: float
) -> list[Hypothesis]:
    """Run beam search in plain Python, without stopping early."""
    running: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    finished: list[Hypothesis] = []
    for length in range(1, max_length + 1):
        divisor = PENALTIES[penalty](length, weight)
        candidates = [
            (log_prob + float(token_log_prob), (*prefix, token))
            for log_prob, prefix in running
            for token, token_log_prob in enumerate(tables.log_probs(source, prefix))
        ]
        beam = sorted(candidates, key=lambda one: -one[0])[:width]
        finished += [
            Hypothesis(p / divisor, prefix, True) for p, prefix in beam if prefix[-1] == END
        ]
        running = [(p, prefix) for p, prefix in beam if prefix[-1] != END]
    truncated = [
        Hypothesis(p / PENALTIES[penalty](max_length, weight), t, False) for p, t in running
    ]
    return sorted(finished + truncated, key=lambda one: -one.score)


def assert_hypotheses(
    tables: Tables, source: int, result: SearchResult, want: Sequence[Hypothesis]
) -> None:
    """Check that the result for a source is these hypotheses, with their attention."""
    for rank, one in enumerate(want):
        length = len(one.tokens)
        row = result.tokens[source, rank]
        assert row[:length].tolist() == list(one.tokens)
        assert not row[length:].any()
        assert result.lengths[source, rank] == length
        assert result.finished[source, rank] == one.finished
        np.testing.assert_allclose(result.scores[source, rank], one.score, rtol=1e-5, atol=1e-5)
        attention = [tables.attention(one.tokens[:t]) for t in range(length)]
        np.testing.assert_allclose(result.attention[source, rank, :length], attention, rtol=1e-6)
        assert not result.attention[source, rank, length:].any()
