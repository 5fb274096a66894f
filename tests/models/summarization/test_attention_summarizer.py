"""Rush et al.'s language model with attention: equations and window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from attention_zoo.models import AttentionSummarizer
from attention_zoo.models.presets import PRESETS
from tests.layers.running import array, close
from tests.models.generation_conformance import (
    SOURCE,
    START,
    TARGET,
    GenerationConformance,
    forward,
)
from tests.refusals import refuses


class TestAttentionSummarizer(GenerationConformance):
    covers = AttentionSummarizer
    vocabulary = {"vocabulary_size": 12}
    options = {"embedding_dim": 4, "units": 6, "source_dim": 5, "context": 3, "window": 1}
    changed = {
        "vocabulary_size": 14,
        "embedding_dim": 5,
        "units": 7,
        "source_dim": 3,
        "context": 2,
        "window": 2,
        "dropout": 0.25,
    }


def tiny(**options: Any) -> AttentionSummarizer:
    return TestAttentionSummarizer().make_random(**options)


def by_the_paper(model: AttentionSummarizer, source: list[int], target: list[int]) -> np.ndarray:
    """Section 3, word by word, for a source without padding: `(T, V)`."""
    size = model.settings
    f, g, e = (
        array(table.embeddings)
        for table in (model.source_embedding, model.query_embedding, model.word_embedding)
    )
    p, u, vw = (
        array(weight)
        for weight in (
            model.attention.score.key_kernel,
            model.hidden.kernel,
            model.vocabulary.kernel,
        )
    )
    x = f[source]
    q = size["window"]
    means = np.array([x[max(i - q, 0) : i + q + 1].mean(0) for i in range(len(source))])
    tokens, logits = [START] * (size["context"] - 1) + target, []
    for t in range(len(target)):
        words = tokens[t : t + size["context"]]
        energies = x @ p @ g[words].ravel()
        alignment = np.exp(energies) / np.exp(energies).sum()
        hidden = np.tanh(e[words].ravel() @ u)
        logits.append(np.concatenate([hidden, alignment @ means]) @ vw)
    return np.array(logits)


@pytest.mark.every_backend
@pytest.mark.parametrize(("context", "window"), [(3, 1), (1, 0), (7, 5)])
def test_follows_the_equations_of_the_paper(context: int, window: int) -> None:
    model = tiny(context=context, window=window)
    result = forward(model, SOURCE, TARGET)
    for row in range(len(SOURCE)):
        source, target = (ids[row][ids[row] != 0].tolist() for ids in (SOURCE, TARGET))
        close(result[row, : len(target)], by_the_paper(model, source, target), 1e-5)


@pytest.mark.parametrize("context", [1, 3, 7])
def test_only_the_last_words_are_encoded(context: int) -> None:
    model = tiny(context=context)
    target = np.array([[2, 4, 5, 6, 7, 8, 9, 10]], "int32")
    other = target.copy()
    other[0, 2] = 11
    before, after = (forward(model, SOURCE[:1], ids)[0] for ids in (target, other))
    changed = [t for t in range(8) if np.abs(after[t] - before[t]).max() > 1e-6]
    assert changed == list(range(2, min(2 + context, 8)))


@pytest.mark.parametrize("context", [1, 5])
def test_search_continues_from_any_context(context: int) -> None:
    """The state is a window of previous words, filled with the start token."""
    model = tiny(context=context)
    result = model.compiled_search(SOURCE, beam_width=2, n_best=2, max_length=4)
    trace = model.trace(SOURCE, result.tokens[:, 0])
    assert array(trace.attention).shape == (3, result.tokens.shape[-1], 6)
    assert not array(trace.copied).any()
    for row, length in enumerate(result.lengths[:, 0]):
        expected = array(trace.attention)[row, :length]
        close(result.attention[row, 0, :length], expected, 1e-5)
        np.testing.assert_allclose(expected.sum(-1), 1, atol=1e-5)


SIZES = {
    "attention_summarizer_base": (200, 400, 400),
    "attention_summarizer_official": (64, 64, 200),
}


@pytest.mark.parametrize("name", SIZES)
def test_parameter_counts_follow_the_sizes(name: str) -> None:
    """F; E and G; P; U; and [V W]."""
    d, h, m = SIZES[name]
    v, c = 9, 5
    model = PRESETS.get(name)()[0].from_preset(name, vocabulary_size=v)
    assert model.count_params() == v * m + 2 * v * d + m * c * d + c * d * h + (h + m) * v
    assert model.settings["window"] == 2


@refuses(
    ({"context": 0}, "context must be at least 1, got 0"),
    ({"window": -1}, "window must be at least 0, got -1"),
    ({"units": 2.5}, "units must be an integer of at least 1, got 2.5"),
)
def test_invalid_sizes_are_rejected(options: dict) -> None:
    tiny(**options)
