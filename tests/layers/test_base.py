"""The config of a layer is read from its constructor, also in subclasses of users."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.layers import (
    AdditiveAttention,
    AdditiveScore,
    Attention,
    AttentionCell,
    MochaAlignment,
    MonotonicChunkwiseAttention,
    MultiHeadAttention,
    RecurrentDecoder,
    T5Positions,
    TransformerEncoderLayer,
)
from attention_zoo.layers.base import BaseLayer
from attention_zoo.layers.scores import make_score
from tests.layers.running import close, same
from tests.tiers import mark_others_full


class Sharpened(AdditiveScore):
    """Adds an argument, and passes the others on as `**kwargs`."""

    def __init__(self, sharpness: float = 2.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.sharpness = sharpness


class Prefixed(BaseLayer):
    """Stores an argument in another form, and adds it to the config as usual in Keras."""

    def __init__(self, prefix: str, inner: Any, activation: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._prefix = f"{prefix}_"
        self.inner, self.activation = inner, keras.activations.get(activation)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "prefix": self._prefix[:-1]}


def rebuild(layer: Any) -> Any:
    """Return the layer of the config after a round trip through JSON."""
    config = json.loads(json.dumps(layer.get_config()))
    rebuilt = type(layer).from_config(config)
    assert json.loads(json.dumps(rebuilt.get_config())) == config
    return rebuilt


def test_arguments_of_base_classes_are_in_the_config() -> None:
    score = rebuild(Sharpened(sharpness=3.0, units=4, normalize=True, name="sharp"))
    assert (score.sharpness, score.units, score.normalize, score.name) == (3.0, 4, True, "sharp")


def test_arguments_that_a_subclass_sets_are_not_in_the_config() -> None:
    config = AdditiveAttention(4, dropout=0.5).get_config()
    assert "score" not in config
    assert (config["units"], config["dropout"]) == (4, 0.5)


class Chosen(AdditiveAttention):
    """Has an argument of its own that its base class fixes."""

    def __init__(self, score: Any = "dot", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.score = make_score(score)


def test_an_argument_that_only_the_base_class_fixes_is_in_the_config() -> None:
    assert type(rebuild(Chosen(score="general")).score) is type(make_score("general"))


@pytest.mark.parametrize("activation", [None, "tanh", keras.activations.relu])
def test_a_subclass_extends_the_config(activation: Any) -> None:
    layer = rebuild(Prefixed("a", [keras.layers.Dense(3), AdditiveScore(5)], activation))
    assert layer._prefix == "a_"
    assert [type(x) for x in layer.inner] == [keras.layers.Dense, AdditiveScore]
    assert layer.activation is keras.activations.get(activation)


def test_keras_objects_are_rebuilt() -> None:
    layer = rebuild(MultiHeadAttention(2, 4, score=AdditiveScore(3), positions="t5"))
    assert (layer.score.units, type(layer.positions).__name__) == (3, "T5Positions")


def test_errors_name_the_class() -> None:
    with pytest.raises(TypeError, match=r"class 'Attention'(.|\n)*scor"):
        Attention.from_config({**Attention().get_config(), "scor": "dot"})


def test_mechanisms_are_built_from_serialized_configs() -> None:
    """A subclass may have the plain `from_config` of Keras, `cls(**config)`."""
    config = Attention("additive", "entmax").get_config()
    layer = Attention(**config)
    assert isinstance(config["score"], dict)
    assert layer.get_config() == config
    config = MultiHeadAttention(2, 4, positions="shaw").get_config()
    assert MultiHeadAttention(**config).get_config() == config


@pytest.fixture
def frozen_objects() -> Iterator[None]:
    """Exclude all present objects from `gc.collect`, which removes unused parents of layers."""
    gc.freeze()
    yield
    gc.unfreeze()


def make_model(make_layers: Any) -> keras.Model:
    """Return a model that applies the layers from `make_layers()` in sequence."""
    outputs = inputs = keras.Input((None, 8))
    for layer in make_layers():
        takes_memory = isinstance(layer, Attention | RecurrentDecoder)
        outputs = layer(outputs, outputs) if takes_memory else layer(outputs)
    return keras.Model(inputs, outputs)


def share_positions() -> list[Any]:
    positions = T5Positions()
    return [
        TransformerEncoderLayer(16, 2, attention=MultiHeadAttention(2, 4, positions=positions))
        for _ in range(2)
    ]


def share_score() -> list[Any]:
    score = AdditiveScore(4)
    return [Attention(score), Attention(score, "sparsemax")]


def share_attention() -> list[Any]:
    attention = MultiHeadAttention(2, 4)
    return [TransformerEncoderLayer(16, 2, attention=attention) for _ in range(2)]


def share_within_attention() -> list[Any]:
    score = AdditiveScore(4)
    return [Attention(score, MochaAlignment(chunk_score=score))]


def share_within_named_attention() -> list[Any]:
    score = AdditiveScore(4)
    return [MonotonicChunkwiseAttention(score=score, chunk_score=score)]


def repeat_attention() -> list[Any]:
    attention = AdditiveAttention(4)
    return [RecurrentDecoder(AttentionCell(keras.layers.GRUCell(8), [attention, attention]))]


def repeat_cell() -> list[Any]:
    cell = keras.layers.GRUCell(8)
    return [RecurrentDecoder([cell, cell])]


SHARING = [
    share_score,
    *mark_others_full(
        [
            share_within_attention,
            share_within_named_attention,
            share_positions,
            share_attention,
            repeat_attention,
            repeat_cell,
        ]
    ),
]


@pytest.mark.usefixtures("frozen_objects")
@pytest.mark.parametrize("make_layers", SHARING)
def test_shared_layers_survive_saving(make_layers: Any, tmp_path: Path) -> None:
    model = make_model(make_layers)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert len(loaded.trainable_weights) == len(model.trainable_weights)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    same(loaded(x), model(x))
    for changed in (loaded, model):
        for weight in changed.layers[1].trainable_weights:  # some are the second layer's too
            weight.assign(weight + 0.1)
    close(loaded(x), model(x), 1e-6)


@pytest.mark.usefixtures("frozen_objects")
@pytest.mark.parametrize("make_layers", SHARING)
def test_shared_layers_are_not_cloned(make_layers: Any) -> None:
    model = make_model(make_layers)
    with pytest.raises(ValueError, match="is shared by several layers"):
        keras.models.clone_model(model)
    with pytest.raises(ValueError, match="is shared by several layers"):
        rebuild(model.layers[-1])


@pytest.mark.usefixtures("frozen_objects")
def test_layer_with_one_parent_is_cloned() -> None:
    """Parents that no longer exist, and parts of the same parent, do not count."""
    positions = T5Positions()
    for _ in range(2):
        model = make_model(lambda: [MultiHeadAttention(2, 4, positions=positions)])
        copy = keras.models.clone_model(model)
        assert len(copy.trainable_weights) == len(model.trainable_weights)
        del model, copy


def test_a_replaced_attribute_is_no_longer_shared() -> None:
    score = AdditiveScore(3)
    first = Attention(score)
    first.score = AdditiveScore(3)
    assert rebuild(Attention(score)).score.units == 3
    assert first.score is not score
