"""Conformance of a model's constructor arguments and config."""

from __future__ import annotations

from typing import Any, ClassVar
from unittest import mock

import keras
import numpy as np

from tests.layers.layer_laws import ArgumentCase, same_behaviour, saved_config, without_names
from tests.layers.running import array

BASES: dict[tuple[type, str], Any] = {}
"""Unchanged models, by case and options."""
OUTPUTS: dict[tuple[type, str, bool], list[np.ndarray]] = {}
"""Their outputs and losses, by the training switch too."""


class ConfigurationTests(ArgumentCase):
    """Every constructor argument has an effect, and survives `get_config` and `from_config`."""

    small: ClassVar[dict[str, Any]] = {}
    """Options that make the models of these tests smaller than those of the others."""

    def make(self, **options: Any) -> Any:
        raise TypeError(f"{type(self).__name__} does not make a model")

    def inputs(self) -> Any:
        """What the model is called with."""
        raise TypeError(f"{type(self).__name__} does not say what to call the model with")

    def inputs_of(self, model: Any) -> Any:
        """Inputs of a model with other options, where these differ."""
        return self.inputs()

    def test_every_constructor_argument_survives(self, argument: str) -> None:
        """A model rebuilt with one argument changed has other weight shapes, outputs or losses."""
        self.check_names()
        others = {**self.small, **self.together.get(argument, {})}
        with mock.patch("random.randint", return_value=7):  # the seed of all that have none
            model = self.make(**{**others, **self.changed_option(argument)})
            config = saved_config(model)
            again = self.covers.from_config(config)
            assert without_names(again.get_config()) == without_names(model.get_config())
            assert shapes(again) == shapes(model)
            base = self.base(others)
            assert config[argument] != saved_config(base)[argument]
            if shapes(again) != shapes(base):
                return
            unchanged = all(
                same_behaviour(
                    self.behaviour(again, training), self.base_behaviour(others, training)
                )
                for training in (True, False)
            )
            assert not unchanged, f"{argument} has no effect"

    def test_rebuilt_model_computes_the_same(self) -> None:
        """In training too: noise and dropout masks follow from the seed alone."""
        with mock.patch("random.randint", return_value=7):
            again = self.covers.from_config(saved_config(self.make(**self.small)))
            behaviour = self.behaviour(again, training=True)
            assert same_behaviour(behaviour, self.base_behaviour(self.small, training=True))

    def base(self, options: dict[str, Any]) -> Any:
        """The model that an argument is changed of."""
        key = type(self), repr(options)
        if key not in BASES:
            BASES[key] = self.make(**options)
        return BASES[key]

    def base_behaviour(self, options: dict[str, Any], training: bool) -> list[np.ndarray]:
        key = type(self), repr(options), training
        if key not in OUTPUTS:
            OUTPUTS[key] = self.behaviour(self.base(options), training)
        return OUTPUTS[key]

    def behaviour(self, model: Any, training: bool) -> list[np.ndarray]:
        """Outputs and losses; models made with one seed have the same weights."""
        outputs = keras.tree.flatten(model(self.inputs_of(model), training=training))
        return [array(x) for x in [*outputs, *model.losses] if keras.ops.is_tensor(x)]


def shapes(model: Any) -> list[tuple[int, ...]]:
    return [tuple(v.shape) for v in model.weights]
