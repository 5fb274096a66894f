"""The config of a layer is read from its constructor, also in subclasses of users."""

from __future__ import annotations

import json
from typing import Any

import keras
import pytest

from attention_zoo.layers import AdditiveAttention, AdditiveScore, Attention, MultiHeadAttention
from attention_zoo.layers.base import BaseLayer
from attention_zoo.layers.scores import make_score


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
