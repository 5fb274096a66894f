"""Long articles: search in one graph that holds each encoded source once for all beams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from attention_zoo.models import PointerGenerator
from tests.layers.running import JAX

ARTICLES, PLACES, BEAM, STEPS = 16, 400, 4, 6
VOCABULARY, COPIES, WIDTH = 30, 20, 14  # the last array of the encoded source
MEMORY = (ARTICLES, PLACES, WIDTH)
COPYING = {"Tile", "BroadcastTo", "Gather", "GatherV2", "GatherNd", "ConcatV2", "Pack"}

pytestmark = pytest.mark.skipif(JAX, reason="the graph is TensorFlow's")


def operations(graph: Any, functions: Any) -> Iterator[Any]:
    """Return all operations of a graph, including those of loops and branches."""
    for operation in graph.get_operations():
        yield operation
        for value in operation.node_def.attr.values():
            if value.HasField("func"):
                yield from operations(functions(value.func.name).graph, functions)


def largest(tensors: Any) -> int:
    """Return the size of the largest tensor; the graph is for one shape, so most are known."""
    return max((one.shape.num_elements() or 0 for one in tensors), default=0)


@pytest.mark.full
def test_search_is_one_graph_without_tiled_memory() -> None:
    """Keys and values enter the loop once; only scores have an axis of hypotheses."""
    import tensorflow as tf

    model = PointerGenerator(VOCABULARY, 5, WIDTH // 2, COPIES, coverage={"from_step": 0})
    search = tf.function(
        lambda source: model.search(source, beam_width=BEAM, max_length=STEPS), autograph=False
    ).get_concrete_function(tf.TensorSpec((ARTICLES, PLACES), tf.int32))
    every = list(operations(search.graph, search.graph._get_function))
    assert not [one.type for one in every if "Py" in one.type]
    loops = [o for o in every if "While" in o.type and MEMORY in [i.shape for i in o.inputs]]
    assert len(loops) == 1
    assert [tuple(i.shape) for i in loops[0].inputs].count(MEMORY) == 2
    tiled = BEAM * np.prod(MEMORY)
    assert largest(loops[0].inputs) < tiled
    assert not [o.name for o in search.graph.get_operations() if largest(o.outputs) >= tiled]
    large = {o.type for o in every if largest(o.outputs) >= tiled}
    assert "Tanh" in large
    assert not large & COPYING
    rng = np.random.default_rng(0)
    some, others = rng.integers(4, VOCABULARY + COPIES, (2, ARTICLES, PLACES)).astype("int32")
    for source in (some, others):
        result = search(tf.constant(source))
        assert result.tokens.shape == (ARTICLES, 1, STEPS)
        assert np.isfinite(result.scores).all()
        np.testing.assert_allclose(result.attention.numpy()[:, :, 0].sum(-1), 1, rtol=1e-5)
