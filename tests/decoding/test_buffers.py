"""Buffers of searches: they grow with the output, and need no operation of XLA outside XLA."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import attention_zoo as az
from attention_zoo.decoding import SearchResult
from attention_zoo.ops.buffers import append, empty_buffer, is_compiled, replace_row
from tests.layers.running import JAX, array, randomise
from tests.models.generation_conformance import END, SOURCE, VOCABULARY

on_tensorflow = pytest.mark.skipif(JAX, reason="JAX compiles everything with XLA")

MODELS = ["rnnsearch_small", "transformer_small", "gpt_tiny"]
OPTIONS: dict[str, dict[str, Any]] = {
    "beam": {"beam_width": 3, "n_best": 2, "no_repeat_ngram": 2, "repetition_penalty": 1.2},
    "contrastive": {"method": "contrastive", "candidates": 3},
}


def make(preset: str) -> Any:
    """Return a small model that soon generates the end token."""
    names = VOCABULARY if preset != "gpt_tiny" else {"vocabulary_size": 12}
    sizes = {} if preset == "rnnsearch_small" else {"num_layers": 1, "num_heads": 2}
    model = az.models.from_preset(preset, **names, **sizes, units=6, embedding_dim=6)
    randomise(model)
    return model


def test_entries_are_appended_in_every_mode() -> None:
    import tensorflow as tf

    def fill() -> Any:
        buffer = empty_buffer((2, 3), 1, "int32", fill=-1)
        for position in range(2):
            buffer = append(buffer, np.full((2, 1), position, "int32"), position, axis=1)
        return buffer, replace_row(buffer, buffer[0] + 5, 1)

    grown, compiled = [[0, 1], [0, 1]], [[0, 1, -1], [0, 1, -1]]
    modes = [(fill, compiled if JAX else grown)]
    if not JAX:
        modes.append((tf.function(fill), grown))
        modes.append((tf.function(fill, jit_compile=True), compiled))
    for run, expected in modes:
        buffer, replaced = map(array, run())
        assert buffer.tolist() == expected
        assert replaced.tolist() == [expected[0], [x + 5 for x in expected[0]]]
    assert is_compiled() == JAX


@on_tensorflow
@pytest.mark.parametrize("preset", MODELS)
@pytest.mark.parametrize("name", OPTIONS)
def test_memory_does_not_depend_on_the_limit(preset: str, name: str) -> None:
    """Buffers of the size of the limit would need terabytes."""
    model, options = make(preset), OPTIONS[name] | {"prefix_tokens": [5, END]}
    if preset == "gpt_tiny":
        options["max_length"] = None  # limited by positions
    result: SearchResult = model.search(SOURCE, **{"max_length": 10**9} | options)
    assert array(result.tokens)[:, 0].tolist() == [[5, END]] * len(SOURCE)


@pytest.mark.full
@on_tensorflow
@pytest.mark.parametrize("preset", MODELS)
@pytest.mark.parametrize("name", OPTIONS)
def test_graphs_have_no_operation_of_xla(preset: str, name: str) -> None:
    import tensorflow as tf

    model, options = make(preset), {"max_length": 9} | OPTIONS[name]
    search = tf.function(
        lambda source: model.search(source, **options)._replace(attention=()),
        input_signature=[tf.TensorSpec([None, None], "int32")],
    )
    graph = search.get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    assert not {node.op for node in nodes if node.op.startswith("Xla")}
    for width in (4, 6):
        source = SOURCE[:, :width]
        expected = array(model.search(source, **options).tokens)
        np.testing.assert_array_equal(array(search(source).tokens), expected)


@pytest.mark.full
@on_tensorflow
def test_graph_with_constant_shapes_grows() -> None:
    import tensorflow as tf

    model = make("transformer_small")
    search = tf.function(lambda: model.search(SOURCE, max_length=10**9, prefix_tokens=[5, END]))
    assert array(search().tokens)[:, 0].tolist() == [[5, END]] * len(SOURCE)
    assert keras.backend.backend() == "tensorflow"
