"""Conformance of every model: constructor arguments, config, files, dtype policies, exports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import keras
import numpy as np
import pytest
from keras import ops

import attention_zoo as az
from tests.layers.layer_case import ArgumentCase
from tests.layers.layer_conformance import (
    check_docstring,
    same_behaviour,
    saved_config,
    without_names,
)
from tests.layers.running import (
    JAX,
    MODES,
    QUICK,
    array,
    close,
    compiled,
    in_fresh_process,
    randomise,
    same,
)
from tests.models.keras_methods import KerasMethodsConformance
from tests.tiers import FULL

BASES: dict[tuple[type, str], Any] = {}  # models by case and options
OUTPUTS: dict[tuple[type, str, bool], list[np.ndarray]] = {}  # and losses; also by `training`

SERVE = """
import sys
import numpy as np
import tensorflow as tf
served = tf.saved_model.load(sys.argv[1])
given = dict(np.load(sys.argv[2]))
outputs = tf.nest.flatten(served.serve(given.get("", given)))
assert "attention_zoo" not in sys.modules
np.savez(sys.argv[3], *outputs)
"""


def outputs(model: Any, inputs: Any, mode: str = QUICK) -> list[np.ndarray]:
    """Return all outputs in the order of their names."""
    run = compiled(lambda x: keras.tree.flatten(model(x, training=False)), mode)
    return [array(x) for x in run(keras.tree.map_structure(ops.convert_to_tensor, inputs))]


def served_outputs(model: Any, inputs: Any, folder: Path) -> list[np.ndarray]:
    """Return outputs of the exported model from a process that imports only TensorFlow.

    Integer inputs have dynamic shapes; of images only the batch size is dynamic.
    """

    def spec(name: str, x: np.ndarray) -> keras.InputSpec:
        sizes = x.shape[1:] if x.dtype == np.uint8 else (None,) * (x.ndim - 1)
        return keras.InputSpec(shape=(None, *sizes), dtype=str(x.dtype), name=name or None)

    named = inputs if isinstance(inputs, dict) else {"": inputs}
    specs = {name: spec(name, x) for name, x in named.items()}
    model.export(folder / "served", input_signature=[specs.get("", specs)], verbose=False)
    files = [folder / name for name in ("served", "given.npz", "outputs.npz")]
    np.savez(files[1], **named)
    in_fresh_process(SERVE, *files)
    with np.load(files[2]) as result:
        return [result[name] for name in result.files]


def with_numpy_numbers(options: Any) -> Any:
    """Replace numbers by NumPy scalars, which JSON cannot serialize."""

    def of_numpy(x: Any) -> Any:
        return {int: np.int64, float: np.float32}.get(type(x), lambda x: x)(x)

    return keras.tree.map_structure(of_numpy, options)


def assert_finite_and_nonzero(model: Any, gradients: list[np.ndarray]) -> None:
    for weight, gradient in zip(model.trainable_variables, gradients, strict=True):
        assert np.isfinite(gradient).all(), weight.path
        assert gradient.any(), weight.path


@contextmanager
def assert_every_weight_changes(model: Any) -> Iterator[None]:
    before = [array(v) for v in model.trainable_variables]
    yield
    shifted = zip(model.trainable_variables, before, strict=True)
    assert [v.path for v, old in shifted if (array(v) == old).all()] == [], "unchanged weights"


def make_training_steps(model: Any, inputs: Any, labels: Any, **options: Any) -> tuple[Any, Any]:
    """Return training steps for a model, and an iterator whose batches hold all examples."""
    import tensorflow as tf

    from attention_zoo.training.devices import distribute_batches
    from attention_zoo.training.step import CompiledSteps, check_loss

    model.compile(keras.optimizers.Adam(0.01), model.make_loss(), auto_scale_loss=False)
    check_loss(model.loss)
    model.optimizer.build(model.trainable_variables)
    strategy = tf.distribute.get_strategy()
    data = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(len(labels)).repeat()
    return CompiledSteps(model, strategy, **options), iter(distribute_batches(strategy, data))


def count_parameters(cls: type, settings: dict[str, Any], **vocabulary: int) -> int:
    """Compute the size of a deep model from those with one and two layers, to save memory."""
    one, two = (
        cls(**{**settings, **dict.fromkeys(vocabulary, 5), "num_layers": n}).count_params()
        for n in (1, 2)
    )
    (size,) = set(vocabulary.values())
    words = (size - 5) * settings["embedding_dim"]
    return one + (settings["num_layers"] - 1) * (two - one) + words


class ModelConformance(KerasMethodsConformance, ArgumentCase):
    """Every constructor argument has an effect and is restored from the config."""

    small: ClassVar[dict[str, Any]] = {}
    """Options of smaller models for these tests."""

    options: ClassVar[dict[str, Any]]
    fill: Any = staticmethod(randomise)
    """Function that sets random weights."""

    def make(self, **options: Any) -> Any:
        return self.covers(**{**self.options, **options})

    def make_random(self, **options: Any) -> Any:
        model = self.make(**options)
        self.fill(model)
        return model

    def inputs(self) -> Any:
        raise NotImplementedError

    def inputs_of(self, model: Any) -> Any:
        """Return inputs of a model whose options may require others."""
        return self.inputs()

    def test_every_constructor_argument_is_saved_and_restored(self, argument: str) -> None:
        """A model rebuilt with one argument changed has other weight shapes, outputs or losses."""
        self.check_names()
        others = {**self.small, **self.together.get(argument, {})}
        with mock.patch("random.randint", return_value=7):  # the default seed
            model = self.make(**{**others, **self.changed_option(argument)})
            config = saved_config(model)
            repeated = self.covers.from_config(config)
            assert without_names(repeated.get_config()) == without_names(model.get_config())
            assert shapes(repeated) == shapes(model)
            base = self.base(others)
            assert config[argument] != saved_config(base)[argument]
            inputs = self.changed_option(argument)[argument]
            if isinstance(inputs, bool | int | float | str):
                assert config[argument] == inputs
            if shapes(repeated) != shapes(base):
                return
            unchanged = (
                same_behaviour(self.behaviour(repeated, mode), self.base_behaviour(others, mode))
                for mode in (True, False)
            )
            assert not all(unchanged), f"{argument} has no effect"

    def test_rebuilt_model_computes_the_same(self) -> None:
        """Also in training: noise and dropout masks depend only on the seed."""
        options = with_numpy_numbers({**self.options, **self.small})
        with mock.patch("random.randint", return_value=7):
            repeated = self.covers.from_config(saved_config(self.make(**options)))
            behaviour = self.behaviour(repeated, training=True)
            assert same_behaviour(behaviour, self.base_behaviour(self.small, training=True))

    def base(self, options: dict[str, Any]) -> Any:
        """Return the cached model with these options."""
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
        """Return outputs and losses; models with the same seed have the same weights."""
        outputs = keras.tree.flatten(model(self.inputs_of(model), training=training))
        return [array(x) for x in [*outputs, *model.losses] if keras.ops.is_tensor(x)]

    def test_weights_exist_before_the_first_call(self) -> None:
        model = self.make()
        before = [v.path for v in model.variables]
        model(self.inputs(), training=True)
        assert before
        assert [v.path for v in model.variables] == before

    def test_preset_folder(self, tmp_path: Path) -> None:
        model = self.make_random()
        model.save_to_preset(tmp_path / "saved")
        loads = (az.models.from_preset, self.covers.from_preset)
        for load in loads if FULL else loads[:1]:
            repeated = load(str(tmp_path / "saved"))
            assert type(repeated) is self.covers
            assert repeated.settings == model.settings
            for a, b in zip(*(outputs(x, self.inputs()) for x in (repeated, model)), strict=True):
                same(a, b)

    def with_policy(self, policy: str, own: bool = True) -> Any:
        """Return a model with its own or the global dtype policy; check that all layers have it."""
        if not own:
            keras.config.set_dtype_policy(policy)
        model = self.make(**({"dtype": policy} if own else {}))
        sublayers = model._flatten_layers(include_self=False)
        assert {layer.dtype_policy.name for layer in sublayers} == {policy}
        expected = keras.dtype_policies.get(policy).variable_dtype
        assert {v.dtype for v in model.trainable_variables} == {expected}
        return model

    def test_docstring(self) -> None:
        check_docstring(self.covers, ("Args", "Call arguments", "Returns", "Masking"), formula=True)


class ExportableModelConformance(ModelConformance):
    """A model that predicts in one call, compiled and exported."""

    def all_inputs(self) -> Any:
        return self.inputs()

    @pytest.mark.numerics
    @pytest.mark.every_backend
    @pytest.mark.parametrize("mode", MODES[1:])
    def test_compiled_equals_eager(self, mode: str) -> None:
        model, inputs = self.make_random(**({} if FULL else self.small)), self.all_inputs()
        for a, b in zip(outputs(model, inputs, mode), outputs(model, inputs, "eager"), strict=True):
            close(a, b, 1e-5)

    @pytest.mark.full
    @pytest.mark.skipif(JAX, reason="exports need TensorFlow")
    def test_export_runs_without_this_library(self, tmp_path: Path) -> None:
        model, inputs = self.make_random(), self.all_inputs()
        expected = outputs(model, inputs, "graph")
        for a, b in zip(served_outputs(model, inputs, tmp_path), expected, strict=True):
            close(a, b, 1e-5)


def shapes(model: Any) -> list[tuple[int, ...]]:
    return [tuple(v.shape) for v in model.weights]
