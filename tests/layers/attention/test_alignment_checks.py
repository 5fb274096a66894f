"""Custom scores, alignments and positions: sublayers, and checks when the layer is built."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import keras
import pytest
from keras import ops

from attention_zoo.layers import (
    Alignment,
    Attention,
    AttentionFeatureMap,
    AttentionPooling,
    CoAttention,
    MochaAlignment,
    MultiHeadAttention,
    RelativePositions,
    Score,
)
from attention_zoo.layers.scores.base import dot
from attention_zoo.ops import Window, masked_softmax
from tests.layers.running import MODES, compiled, normal, same


@keras.saving.register_keras_serializable("attention_zoo_tests")
class NetworkScore(Score):
    """A score of sublayers, without `build`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.query_network, self.key_network = keras.layers.Dense(4), keras.layers.Dense(4)

    def project(self, key: Any) -> Any:
        return self.key_network(key)

    def compute_scores(self, query: Any, keys: Any) -> Any:
        return dot(self.query_network(query), keys)


@keras.saving.register_keras_serializable("attention_zoo_tests")
class NetworkAlignment(Alignment):
    """An alignment with a sublayer, without `build`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.gate = keras.layers.Dense(1, "sigmoid")

    def call(
        self, scores: Any, mask: Any = None, state: Any = (), training: bool = False
    ) -> tuple[Any, Any]:
        return masked_softmax(scores * self.gate(scores[..., None])[..., 0], mask), state


@pytest.mark.parametrize(
    "make",
    [
        lambda: Attention(NetworkScore(), NetworkAlignment()),
        lambda: MultiHeadAttention(2, 3, score=NetworkScore()),
    ],
)
def test_parts_with_sublayers_survive_saving(make: Any, tmp_path: Path) -> None:
    query, value = normal((2, 3, 6), (2, 4, 5))
    inputs = [keras.Input((None, 6)), keras.Input((None, 5))]
    model = keras.Model(inputs, make()(*inputs))
    model.save(tmp_path / "model.keras")
    same(keras.models.load_model(tmp_path / "model.keras")([query, value]), model([query, value]))
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    same(clone([query, value]), model([query, value]))


@keras.saving.register_keras_serializable("attention_zoo_tests")
class QueryAlignment(NetworkAlignment):
    """An alignment that passes queries and keys through sublayers."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.query_network, self.key_network = keras.layers.Dense(3), keras.layers.Dense(3)

    def prepare(self, keys: Any) -> Any:
        return self.key_network(keys)

    def precompute(self, query: Any, memory: Any, state: Any) -> Any:
        return dot(self.query_network(query), memory.extra)

    def call(
        self,
        scores: Any,
        mask: Any = None,
        state: Any = (),
        training: bool = False,
        aux: Any = None,
    ) -> tuple[Any, Any]:
        return super().call(scores + aux, mask, state)


class NetworkPositions(RelativePositions):
    """Relative positions with sublayers, without `build`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.query_network, self.weights_network = keras.layers.Dense(3), keras.layers.Dense(1)

    def bias(self, query: Any, sources: Any) -> Any:
        return ops.repeat(ops.sum(self.query_network(query), -1, keepdims=True), sources, -1)

    def offset(self, weights: Any) -> Any:
        return self.weights_network(ops.sum(weights, -1, keepdims=True))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Attention("dot", QueryAlignment()),
        lambda: Attention("dot", MochaAlignment(chunk_score=NetworkScore())),
        lambda: MultiHeadAttention(2, 3, alignment=QueryAlignment(), num_key_value_heads=1),
        lambda: MultiHeadAttention(2, 3, positions=NetworkPositions()),
        lambda: CoAttention(NetworkScore()),
        lambda: AttentionFeatureMap(5, NetworkScore()),
        lambda: AttentionPooling(alignment=QueryAlignment()),
    ],
)
def test_building_creates_the_weights_of_sublayers(make: Any) -> None:
    """A loaded or cloned layer is built, not called, before its weights are set."""
    layer, x = make(), normal((2, 4, 5))[0]
    inputs = [x] if isinstance(layer, AttentionPooling) else [x, x]
    layer.build(*(one.shape for one in inputs))
    count = len(layer.weights)
    layer(*inputs)
    assert len(layer.weights) == count


class WeightsOnlyAlignment(Alignment):
    def call(self, scores: Any, mask: Any = None, state: Any = (), training: bool = False) -> Any:
        return masked_softmax(scores, mask)


class UnmaskedAlignment(Alignment):
    def call(self, scores: Any, mask: Any = None, state: Any = (), training: bool = False) -> Any:
        return ops.softmax(scores), state


class LeakingAlignment(Alignment):
    """An alignment whose weights are 0 where the score is 0, masked or not."""

    def call(self, scores: Any, mask: Any = None, state: Any = (), training: bool = False) -> Any:
        return ops.relu(scores), state


class LeakingRowAlignment(Alignment):
    """A softmax in which a fully masked row is not 0."""

    def call(self, scores: Any, mask: Any = None, state: Any = (), training: bool = False) -> Any:
        return ops.softmax(ops.where(mask, scores, -1e9)), state


class ValueAlignment(QueryAlignment):
    """An alignment that passes the values, not the keys, through a sublayer."""

    def precompute(self, query: Any, memory: Any, state: Any) -> Any:
        return dot(self.query_network(query), self.key_network(memory.values))

    def prepare(self, keys: Any) -> Any:
        return ()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Attention("dot", ValueAlignment()),
        lambda: MultiHeadAttention(2, 4, value_dim=3, alignment=ValueAlignment()),
    ],
    ids=["attention", "multi_head"],
)
def test_values_and_keys_may_have_different_widths(make: Any) -> None:
    query, value, key = normal((3, 4, 8), (3, 5, 6), (3, 5, 8))
    assert make()(query, value, key).shape[:2] == (3, 4)


class UnmaskedQueryAlignment(Alignment):
    def precompute(self, query: Any, memory: Any, state: Any) -> Any:
        return query

    def call(
        self,
        scores: Any,
        mask: Any = None,
        state: Any = (),
        training: bool = False,
        aux: Any = None,
    ) -> Any:
        return ops.softmax(scores), state


class UnmaskedWindowAlignment(UnmaskedQueryAlignment):
    def width(self, sources: Any) -> Any:
        return 3

    def precompute(self, query: Any, memory: Any, state: Any) -> Any:
        start = ops.zeros((*ops.shape(query)[:-1], 1), "int32") - 1
        return Window(start, ops.ones((3,), "bool"), ops.cast(start + 1, "float32"))


class NarrowAlignment(Alignment):
    def call(self, scores: Any, mask: Any = None, state: Any = (), training: bool = False) -> Any:
        return scores[..., :1], state


class WrongShapeScore(Score):
    def compute_scores(self, query: Any, keys: Any) -> Any:
        return ops.sum(query, axis=-1)


@pytest.mark.parametrize("mode", MODES[:2])
@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            lambda: Attention("dot", WeightsOnlyAlignment()),
            r"WeightsOnlyAlignment.call must return \(weights, state\)",
        ),
        *(
            (partial(make, alignment=leaking()), f"{leaking.__name__}.call must return weight 0")
            for leaking in (
                UnmaskedAlignment,
                LeakingAlignment,
                LeakingRowAlignment,
                UnmaskedWindowAlignment,
                UnmaskedQueryAlignment,
            )
            for make in (Attention, partial(MultiHeadAttention, 2, 3))
        ),
        (
            lambda: Attention("dot", NarrowAlignment()),
            r"NarrowAlignment.call must return weights with the shape of the scores, \(1, 4, 4\),",
        ),
        (lambda: Attention(WrongShapeScore()), "WrongShapeScore.compute_scores must return scores"),
    ],
)
def test_contracts_of_parts_are_checked(make: Any, match: str, mode: str) -> None:
    """The layer is checked when it is built, also while a graph is traced."""
    query, value = normal((2, 3, 5), (2, 4, 5))
    with pytest.raises(ValueError, match=match):
        compiled(make(), mode)(query, value)
