"""Conformance of every public layer."""

from __future__ import annotations

import doctest
import inspect
import json
import re
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import keras
import numpy as np
import pytest

from tests.layers.keras_conformance import KerasContract
from tests.layers.layer_case import LayerCase, constructor_arguments, flatten
from tests.layers.running import (
    JAX,
    MODES,
    POLICIES,
    array,
    close,
    compiled,
    is_float,
    needs_dynamic_shapes,
    randomise,
    same,
    with_dynamic_shapes,
)

BASES: dict[tuple[type, str], tuple[Any, list[np.ndarray]]] = {}  # by case and options


def check_docstring(cls: type, sections: tuple[str, ...], formula: bool) -> None:
    """Check the summary line, formula, sections, explained arguments and the reference."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    assert re.match(r"[A-Z].*[.:]\n\n", doc), "the docstring starts with one line"
    if formula:
        head = doc.split("Call arguments:")[0].split("Args:")[0]
        assert "`" in head, "a formula in backticks comes before the arguments"
    positions = [doc.find(f"\n{name}:\n") for name in (*sections, "Reference")]
    missing = [
        name
        for name, position in zip((*sections, "Reference"), positions, strict=True)
        if position < 0
    ]
    assert not missing, f"{cls.__name__}'s docstring has no {', '.join(missing)}"
    assert positions == sorted(positions), "the sections are out of order"
    for name in constructor_arguments(cls):
        assert re.search(rf"\b{name}\b", doc), f"the docstring does not explain {name}"
    reference = doc[positions[-1] :]
    if re.match(r"\nReference:\n    [Tt]his library\b", reference):
        return  # an idea without a paper
    # Papers that neither has are named by their titles.
    assert re.search(r"arXiv \d{4}\.\d{4,5}|ACL [A-Z]\d{2}-\d{4}|\d{4}, \"[A-Z]", reference)
    assert re.search(r"equation|section|appendix", reference)


def run_example(cls: type) -> None:
    """Run the example of a docstring as a doctest."""
    test = doctest.DocTestParser().get_doctest(cls.__doc__ or "", {}, cls.__name__, None, 0)
    assert test.examples, "the docstring has no example"
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


class ConfigurationTests(LayerCase):
    """Every constructor argument has an effect and is restored from the config and from files."""

    together: ClassVar[dict[str, dict[str, Any]]] = {"seed": {"dropout": 0.5}}
    same_results: ClassVar[tuple[str, ...]] = ()
    """Arguments that, as documented, do not change results."""

    def test_every_constructor_argument_is_saved_and_restored(self, argument: str | None) -> None:
        """A changed argument changes the behaviour, and the rebuilt layer behaves the same."""
        self.check_names()
        others = self.together.get(argument, {})
        with mock.patch("random.randint", return_value=7):  # the default seed
            config, behaviour = self.check_rebuilding({**others, **self.changed_option(argument)})
            if argument is None:
                return
            base_config, base_behaviour = self.base(others)
            assert config != base_config, f"{argument} is not in the config"
            unchanged = same_behaviour(behaviour, base_behaviour)
            if argument in self.same_results:
                assert unchanged, f"{argument} changes results"
            else:
                assert not unchanged, f"{argument} has no effect"

    def base(self, options: dict[str, Any]) -> tuple[Any, list[np.ndarray]]:
        """Return config and behaviour of the layer with these options, cached."""
        key = type(self), repr(options)
        if key not in BASES:
            layer = self.make(**options)
            BASES[key] = without_names(saved_config(layer)), self.behaviour(layer)
        return BASES[key]

    def check_rebuilding(self, options: dict[str, Any]) -> tuple[Any, list[np.ndarray]]:
        """Return config and behaviour of a layer; check that rebuilt layers have the same."""
        layer = self.make(**options)
        config = saved_config(layer)
        saved = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
        behaviour = self.behaviour(layer)
        rebuilt = self.covers.from_config(config), keras.saving.deserialize_keras_object(saved)
        for repeated in rebuilt:
            assert without_names(repeated.get_config()) == without_names(config)
            assert same_behaviour(self.behaviour(repeated), behaviour), "the rebuilt layer differs"
        return without_names(config), behaviour

    def behaviour(self, layer: Any) -> list[np.ndarray]:
        """Return initial weights and outputs, and outputs and losses of training."""
        run = WithTrainingArgument(self.compute_outputs, layer)
        results = [run(self.tensors(), training=False)]
        weights = [array(v) for v in layer.weights]
        randomise(layer)
        results += [run(self.tensors(), training=True), list(layer.losses)]
        return [*weights, *map(array, filter(keras.ops.is_tensor, flatten(results)))]

    def test_name_dtype_and_trainable_are_restored(self) -> None:
        layer = self.make(name="other", dtype="mixed_bfloat16", trainable=False)
        repeated = self.covers.from_config(layer.get_config())
        settings = repeated.name, repeated.dtype_policy.name, repeated.trainable
        assert settings == ("other", "mixed_bfloat16", False)

    def test_dtype_argument_applies_to_every_weight(self) -> None:
        policy = "mixed_float16" if self.keras_cells else "float16"
        layer = self.make(dtype=policy)
        outputs = flatten(self.apply(layer, *self.tensors()))
        assert {keras.backend.standardize_dtype(x.dtype) for x in outputs} == {"float16"}
        expected = keras.dtype_policies.get(policy).variable_dtype
        assert {v.dtype for v in layer.weights} <= {expected}

    def test_saves_and_loads(self, tmp_path: Path) -> None:
        """Save a functional model; `test_saving.py` loads all layers in a fresh process."""
        _, model = self.make_functional()
        model.save(tmp_path / "model.keras")
        repeated = keras.models.load_model(tmp_path / "model.keras")
        tensors = list(self.tensors())
        same(repeated(tensors), model(tensors))


class DocumentationTests(LayerCase):
    """The docstring has all sections, and its example runs."""

    def test_docstring(self) -> None:
        check_docstring(self.covers, self.sections, self.formula)

    def test_example(self) -> None:
        run_example(self.covers)


class NaNTests(LayerCase):
    """NaN in an input reaches an output, so that users notice it."""

    unused_inputs: ClassVar[tuple[int, ...]] = ()
    """Tensors of a call that affect no output by their values, such as keys of a location score."""

    nan_positions: ClassVar[tuple[float, ...]] = (0.0, 0.5, 1.0)
    """Relative positions of NaN within batch rows 0, 1 and 2 of a tensor."""
    skip_nan_check_of: ClassVar[tuple[str, ...]] = ()
    """Arguments whose value in `changed` does not fit `tensors`, or leaves one of them unused."""

    def test_nan_in_an_input_reaches_the_first_output(self) -> None:
        self.check_nan(WithTrainingArgument(self.apply, self.make_random()))

    @pytest.mark.full
    def test_nan_in_an_input_reaches_the_first_output_under_xla(self) -> None:
        layer = self.make_random()
        self.apply(layer, *self.tensors())

        def compute(*tensors: Any) -> Any:
            return next(filter(is_float, flatten(self.apply(layer, *tensors))))

        run = compiled(compute, "xla")
        self.check_nan(lambda tensors, training: [run(*tensors)], in_training=(False,))

    @pytest.mark.full
    def test_nan_reaches_the_first_output_with_other_options(self, argument: str | None) -> None:
        if argument in (None, *self.skip_nan_check_of):
            pytest.skip("no other option")
        options = {**self.together.get(argument, {}), **self.changed_option(argument)}
        layer = self.make(**options)
        self.apply(layer, *self.tensors())
        randomise(layer)
        self.check_nan(WithTrainingArgument(self.apply, layer))

    def check_nan(self, run: Any, in_training: tuple[bool, ...] = (False, True)) -> None:
        """Assert that NaN in any float input reaches the first output.

        Each batch row has NaN at another position.
        """
        tensors = self.tensors()
        for n, x in enumerate(tensors):
            if x.dtype.kind != "f" or n in self.unused_inputs:
                continue
            corrupted = x.copy()
            rows = corrupted.reshape(len(x), -1)  # a view
            for row, position in zip(rows, self.nan_positions, strict=True):
                row[int(position * (row.size - 1))] = np.nan
            for training in in_training:
                inputs = (*tensors[:n], corrupted, *tensors[n + 1 :])
                outputs = flatten(run(inputs, training=training))
                is_nan = np.isnan(array(next(filter(is_float, outputs))))
                has_nan = is_nan.reshape(len(x), -1).any(axis=1) if is_nan.ndim else is_nan
                assert has_nan.all(), (
                    f"NaN in input {n} did not reach every row of the first output "
                    f"(training={training}): {has_nan}"
                )


class DynamicShapeTests(LayerCase):
    """Batch and lengths may be dynamic in a user's own layer, and in training under XLA."""

    @pytest.mark.every_backend
    def test_works_inside_a_layer_with_dynamic_shapes(self) -> None:
        """Keras traces the call of the outer layer; on JAX with symbolic sizes."""
        self.apply_inside_a_layer(self.compute_outputs, training=True)
        self.check_inside_a_layer(self.apply)

    def apply_inside_a_layer(self, apply: Any, training: bool) -> tuple[Any, Any, Any]:
        """Return layer, symbolic inputs and symbolic outputs."""
        tensors = self.tensors()
        inputs = [keras.Input(self.dynamic_shape(x)[1:], dtype=str(x.dtype)) for x in tensors]
        outer = WithTrainingArgument(apply, self.make())
        outer.built = False
        return outer.layer, inputs, flatten(outer(inputs, training=training))

    def check_inside_a_layer(self, apply: Any) -> None:
        """Compare a functional model of the outer layer with the eager call."""
        layer, inputs, outputs = self.apply_inside_a_layer(apply, training=False)
        tensors = self.tensors()
        model = keras.Model(inputs, outputs)
        close(model(list(tensors)), flatten(apply(layer, *tensors)), self.tolerance)

    @pytest.mark.every_backend
    @pytest.mark.skipif(not JAX, reason="TensorFlow has no symbolic sizes")
    def test_exports_with_symbolic_sizes(self) -> None:
        """Each size of a dynamic axis has a symbol of its own; Keras has one for all."""
        import jax

        layer, tensors = self.make(), self.tensors()
        self.apply(layer, *[keras.KerasTensor(x.shape, str(x.dtype)) for x in tensors])
        scope = jax.export.SymbolicScope()
        specs = []
        for x in tensors:
            sizes = zip(x.shape, self.dynamic_shape(x), strict=True)
            names = [f"size_{size}" if static is None else f"{static}" for size, static in sizes]
            shape = jax.export.symbolic_shape(",".join(names), scope=scope)
            specs.append(jax.ShapeDtypeStruct(shape, x.dtype))
        run = compiled(lambda *tensors: flatten(self.apply(layer, *tensors)), "xla")
        exported = jax.export.export(run)(*specs)
        close(exported.call(*tensors), flatten(self.apply(layer, *tensors)), self.tolerance)

    @needs_dynamic_shapes
    def test_gradient_compiles_under_xla_with_dynamic_shapes(self) -> None:
        import tensorflow as tf

        layer, tensors = self.make_random(), self.tensors()

        def compute(*tensors: Any) -> Any:
            watched = [*filter(is_float, tensors), *(v.value for v in layer.trainable_variables)]
            with tf.GradientTape() as tape:
                tape.watch(watched)
                outputs = flatten(self.apply(layer, *tensors))
                losses = [tf.reduce_sum(tf.square(x)) for x in outputs if is_float(x)]
            zero = tf.UnconnectedGradients.ZERO
            return outputs, tape.gradient(losses, watched, unconnected_gradients=zero)

        specs = [(self.dynamic_shape(x), x.dtype) for x in tensors]
        tensors = tuple(map(tf.convert_to_tensor, tensors))
        got = with_dynamic_shapes(compute, *specs, mode="xla")(*tensors)
        expected = compute(*tensors)
        scale = max(float(np.abs(array(x)).max()) for x in flatten(expected))
        for x, y in zip(*map(flatten, (got, expected)), strict=True):
            np.testing.assert_allclose(array(x), array(y), rtol=0, atol=1e-4 * scale)

    @needs_dynamic_shapes
    @pytest.mark.full
    @pytest.mark.filterwarnings("ignore:Gradients do not exist")  # of weights that need a state
    def test_fits_under_xla_with_dynamic_shapes(self) -> None:
        layer, tensors = self.make(), self.tensors()
        inputs = [keras.Input(self.dynamic_shape(x)[1:], dtype=str(x.dtype)) for x in tensors]
        outputs = flatten(self.apply(layer, *inputs))
        model = keras.Model(inputs, outputs)
        if not model.trainable_variables:
            pytest.skip("no weights")
        targets = [np.zeros(x.shape, "float32") for x in flatten(model(list(tensors)))]
        model.compile("sgd", ["mse"] * len(outputs), jit_compile=True)
        history = model.fit(list(tensors), targets, batch_size=2, shuffle=False, verbose=0)
        assert np.isfinite(history.history["loss"][0])


class LayerConformance(
    ConfigurationTests, DocumentationTests, KerasContract, NaNTests, DynamicShapeTests
):
    """Configuration, documentation, execution modes, dtypes and NaN."""

    @pytest.mark.every_backend
    @pytest.mark.parametrize("mode", MODES[1:])
    def test_compiled_equals_eager(self, mode: str) -> None:
        layer, tensors = self.make_random(), self.tensors()
        expected = self.apply(layer, *tensors)
        got = compiled(lambda *x: self.apply(layer, *x), mode)(*tensors)
        close(got, expected, self.tolerance)

    def test_functional_model_equals_eager(self) -> None:
        layer, model = self.make_functional()
        tensors = self.tensors()
        outputs = flatten(self.apply(layer, *tensors))
        close(model(list(tensors)), outputs, self.tolerance)

    @pytest.mark.every_backend
    @pytest.mark.parametrize("policy", POLICIES)
    def test_dtype_policy(self, policy: str) -> None:
        if self.keras_cells and policy in ("float16", "bfloat16"):
            policy = f"mixed_{policy}"
        keras.config.set_dtype_policy(policy)
        layer, tensors = self.make(), self.tensors()
        symbolic = [keras.KerasTensor(x.shape, str(x.dtype)) for x in tensors]
        spec = flatten(self.apply(layer, *symbolic))
        outputs = flatten(self.apply(layer, *tensors))
        expected_policy = keras.dtype_policies.get(policy)
        for expected, output in zip(spec, outputs, strict=True):
            dtype = keras.backend.standardize_dtype(output.dtype)
            assert dtype == expected.dtype == expected_policy.compute_dtype, "output dtype"
            assert tuple(output.shape) == tuple(expected.shape)
            assert np.isfinite(array(output)).all(), f"{policy} overflows: compute in float32"
        assert {v.dtype for v in layer.weights} <= {expected_policy.variable_dtype}

    @pytest.mark.every_backend
    def test_empty_batch(self) -> None:
        outputs = flatten(self.apply(self.make(), *self.tensors(batch=0)))
        assert all(x.shape[0] == 0 for x in outputs)


class WithTrainingArgument(keras.layers.Layer):
    """Passes its own `training` argument on to a layer."""

    def __init__(self, apply: Any, layer: Any) -> None:
        super().__init__(dtype=layer.dtype_policy)
        self.apply, self.layer = apply, layer
        self.built = True  # Keras would otherwise trace `call` to build it

    def call(self, tensors: Any, training: bool = False) -> Any:
        return self.apply(self.layer, *tensors)


def saved_config(instance: Any) -> dict[str, Any]:
    """Return the config after a round trip through JSON."""
    return json.loads(json.dumps(instance.get_config()))


def without_names(config: Any) -> Any:
    """Remove names, which Keras generates for every layer, from a config."""
    if isinstance(config, dict):
        hidden = {"name", "shared_object_id"}
        return {k: without_names(v) for k, v in config.items() if k not in hidden}
    if isinstance(config, list | tuple):
        return [without_names(x) for x in config]
    return config


def same_behaviour(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    """Whether all arrays have the same shapes and nearly the same values."""
    return len(first) == len(second) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=1e-7)
        for a, b in zip(first, second, strict=True)
    )
