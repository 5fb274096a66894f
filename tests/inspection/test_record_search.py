"""Attention weights recorded in searches: compiled in the full tier."""

from __future__ import annotations

import numpy as np
import pytest

import attention_zoo as az
from attention_zoo.inspection import record


@pytest.mark.parametrize("width", [1, 3])
def test_search_is_recorded(width: int) -> None:
    """Each step of a compiled search has a record, with a row for each hypothesis."""
    model = az.models.RNNSearch(
        20, 20, embedding_dim=4, units=4, attention_units=4, readout_units=4
    )
    source = np.array([[5, 6, 7, 8]], "int32")
    options = {"beam_width": width, "max_length": 3}
    expected = model.compiled_search(source, **options)
    with record(model) as weights:
        result = model.compiled_search(source, **options)
    np.testing.assert_array_equal(result.tokens, expected.tokens)
    np.testing.assert_allclose(result.scores, expected.scores, atol=1e-6)
    (records,) = weights.values()
    assert len(records) >= 3
    assert {entry.weights.shape[1:] for entry in records} <= {(1, 1, 4), (1, width, 4)}
    np.testing.assert_allclose(records[0].weights.sum(-1), 1, atol=1e-5)


@pytest.mark.parametrize("width", [1, 2])
def test_search_of_a_transformer_is_recorded(width: int) -> None:
    """Attention to the KV cache and to the encoder output has a record for each step."""
    model = az.models.Transformer(20, 20, num_layers=1, embedding_dim=8, num_heads=2, units=8)
    source = np.array([[5, 6, 7, 8], [9, 5, 0, 0]], "int32")
    expected = model.compiled_search(source, beam_width=width, max_length=3)
    with record(model) as weights:
        result = model.compiled_search(source, beam_width=width, max_length=3)
    np.testing.assert_array_equal(result.tokens, expected.tokens)
    paths = {path.split("/")[-1]: records for path, records in weights.items()}
    memory = paths["memory_attention"]
    assert memory[0].weights.shape[1] == 2
    for entry in memory:
        np.testing.assert_allclose(entry.weights.sum(-1), 1, atol=1e-5)
        assert not entry.weights[1, ..., 2:].any()


def test_predictions_of_a_task_are_recorded() -> None:
    task = az.load("esim_small.claims")
    pairs = [("Ulla gave the bell to Tess.", "Ulla got the bell from Tess.")]
    (expected,) = task.predict(pairs)
    with record(task.model) as weights:
        (result,) = task.predict(pairs)
    assert result.as_dict() == expected.as_dict()
    first, second = weights[task.model.name]
    assert first.weights.shape[-2:] == second.weights.shape[:-3:-1]


def test_xla_searches_are_rejected() -> None:
    model = az.models.RNNSearch(20, 20, embedding_dim=4, units=4, attention_units=4)
    source = np.array([[5, 6]], "int32")
    with (
        pytest.raises(ValueError, match="a search with jit=True cannot be recorded"),
        record(model),
    ):
        model.compiled_search(source, jit=True, max_length=2)


def test_searches_of_other_models_are_not_affected() -> None:
    recorded, other = (
        az.models.RNNSearch(20, 20, embedding_dim=4, units=4, attention_units=4, readout_units=4)
        for _ in range(2)
    )
    source = np.array([[5, 6]], "int32")
    other.compiled_search(source, max_length=2)
    searches = dict(other.__dict__["_compiled"].searches)
    with record(recorded):
        recorded.search(source, max_length=2)
        other.compiled_search(source, max_length=2)
    assert dict(other.__dict__["_compiled"].searches) == searches
