"""What holds for every public layer."""

from __future__ import annotations

import doctest
import inspect
import json
import re
from typing import Any, ClassVar

import keras
import numpy as np
import pytest

from tests.layers.running import MODES, POLICIES, array, arrays, close, compiled, randomise, same

SECTIONS = ("Args", "Call arguments", "Returns", "Weights", "Masking", "Cost", "Example")


def check_docstring(cls: type, sections: tuple[str, ...], formula: bool) -> None:
    """One line, a formula, the sections in the house's order, a paper with the place in it."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    assert re.match(r"[A-Z].*[.:]\n\n", doc), "the docstring starts with one line"
    if formula:
        head = doc.split("Call arguments:")[0].split("Args:")[0]
        assert "`" in head, "a formula in backticks comes before the arguments"
    places = [doc.find(f"\n{name}:\n") for name in (*sections, "Reference")]
    missing = [
        name for name, place in zip((*sections, "Reference"), places, strict=True) if place < 0
    ]
    assert not missing, f"{cls.__name__}'s docstring has no {', '.join(missing)}"
    assert places == sorted(places), "the sections are out of order"
    reference = doc[places[-1] :]
    # Papers that neither has are named by their titles.
    assert re.search(r"arXiv \d{4}\.\d{4,5}|ACL [A-Z]\d{2}-\d{4}|\d{4}, \"[A-Z]", reference)
    assert re.search(r"equation|section|appendix", reference)
    for name in constructor_arguments(cls):
        assert re.search(rf"\b{name}\b", doc), f"the docstring does not explain {name}"


def run_example(cls: type) -> None:
    """Runs the docstring's example as a doctest."""
    test = doctest.DocTestParser().get_doctest(cls.__doc__ or "", {}, cls.__name__, None, 0)
    assert test.examples, "the docstring has no example"
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


def constructor_arguments(cls: type) -> list[str]:
    parameters = inspect.signature(cls).parameters.values()
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.kind not in starred]


class LayerCase:
    """One public layer. A case says what it covers, how to make it and what to call it with."""

    covers: ClassVar[type]
    options: ClassVar[dict[str, Any]] = {}
    """What the layers of the tests are made with."""
    changed: ClassVar[dict[str, Any]] = {}
    """For every constructor argument a value that `options` and the default do not have."""
    sections: ClassVar[tuple[str, ...]] = SECTIONS
    formula: ClassVar[bool] = True
    tolerance: ClassVar[float] = 1e-6
    keras_cells: ClassVar[bool] = False
    """Made of Keras's recurrent layers, whose initializer (a QR) knows no half precision."""

    def make(self, **options: Any) -> Any:
        return self.covers(**{**self.options, **options})

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        """What the layer is called with."""
        raise TypeError(f"{type(self).__name__} does not say what to call the layer with")

    def apply(self, layer: Any, *tensors: Any) -> Any:
        return layer(*tensors)

    def built(self, **options: Any) -> Any:
        """A layer with random weights."""
        layer = self.make(**options)
        self.apply(layer, *self.tensors())
        randomise(layer)
        return layer

    def functional(self) -> tuple[Any, keras.Model]:
        """A layer, and a functional model around it."""
        layer = self.make()
        inputs = [keras.Input(x.shape[1:], dtype=str(x.dtype)) for x in self.tensors()]
        model = keras.Model(inputs, flat(self.apply(layer, *inputs)))
        randomise(model)
        return layer, model


class LayerConformance(LayerCase):
    """Configuration, paths, dtypes and documentation."""

    # configuration

    def test_every_constructor_argument_survives(self) -> None:
        names = constructor_arguments(self.covers)
        assert sorted(self.changed) == sorted(names), "`changed` names every argument"
        base = self.make(name="layer").get_config()
        for name, value in self.changed.items():
            layer = self.make(**{name: value, "name": "layer"})
            config = layer.get_config()
            assert config != base, f"{name} is not in the config"
            again = self.covers.from_config(json.loads(json.dumps(config)))
            assert again.get_config() == config
            saved = json.loads(json.dumps(keras.saving.serialize_keras_object(layer)))
            assert keras.saving.deserialize_keras_object(saved).get_config() == config

    def test_name_dtype_and_trainable_survive(self) -> None:
        layer = self.make(name="other", dtype="mixed_bfloat16", trainable=False)
        again = self.covers.from_config(layer.get_config())
        assert (again.name, again.dtype_policy.name, again.trainable) == (
            "other",
            "mixed_bfloat16",
            False,
        )

    def test_config_makes_the_same_layer(self) -> None:
        layer = self.built()
        again = self.covers.from_config(layer.get_config())
        self.apply(again, *self.tensors())
        again.set_weights(layer.get_weights())
        same_nest(self.apply(again, *self.tensors()), self.apply(layer, *self.tensors()))

    # paths

    @pytest.mark.every_backend
    @pytest.mark.parametrize("mode", MODES[1:])
    def test_compiled_is_eager(self, mode: str) -> None:
        layer, tensors = self.built(), self.tensors()
        want = self.apply(layer, *tensors)
        got = compiled(lambda *x: self.apply(layer, *x), mode)(*tensors)
        for a, b in zip(flat(got), flat(want), strict=True):
            close(a, b, self.tolerance)

    def test_functional_model_is_eager(self) -> None:
        layer, model = self.functional()
        tensors = self.tensors()
        outputs = flat(self.apply(layer, *tensors))
        for a, b in zip(flat(model(list(tensors))), outputs, strict=True):
            close(a, b, self.tolerance)

    @pytest.mark.every_backend
    @pytest.mark.parametrize("policy", POLICIES)
    def test_dtype_policy(self, policy: str) -> None:
        if self.keras_cells and policy in ("float16", "bfloat16"):
            policy = f"mixed_{policy}"
        keras.config.set_dtype_policy(policy)
        layer, tensors = self.make(), self.tensors()
        symbolic = [keras.KerasTensor(x.shape, str(x.dtype)) for x in tensors]
        spec = flat(self.apply(layer, *symbolic))
        outputs = flat(self.apply(layer, *tensors))
        wanted = keras.dtype_policies.get(policy)
        for expected, output in zip(spec, outputs, strict=True):
            dtype = keras.backend.standardize_dtype(output.dtype)
            assert dtype == expected.dtype == wanted.compute_dtype
            assert tuple(output.shape) == tuple(expected.shape)
            assert np.isfinite(array(output)).all()
        assert {v.dtype for v in layer.weights} <= {wanted.variable_dtype}

    def test_own_dtype_reaches_every_weight(self) -> None:
        policy = "mixed_float16" if self.keras_cells else "float16"
        layer = self.make(dtype=policy)
        outputs = flat(self.apply(layer, *self.tensors()))
        assert {keras.backend.standardize_dtype(x.dtype) for x in outputs} == {"float16"}
        wanted = keras.dtype_policies.get(policy).variable_dtype
        assert {v.dtype for v in layer.weights} <= {wanted}

    @pytest.mark.every_backend
    def test_no_rows(self) -> None:
        outputs = flat(self.apply(self.make(), *self.tensors(batch=0)))
        assert all(x.shape[0] == 0 for x in outputs)

    def test_build_makes_every_weight(self) -> None:
        layer = self.built()
        before = [v.path for v in layer.variables]
        self.apply(layer, *self.tensors())
        assert [v.path for v in layer.variables] == before

    # documentation

    def test_docstring(self) -> None:
        check_docstring(self.covers, self.sections, self.formula)

    def test_example(self) -> None:
        run_example(self.covers)


def flat(nest: Any) -> list[Any]:
    return keras.tree.flatten(nest)


def same_nest(got: Any, want: Any) -> None:
    for a, b in zip(flat(arrays(got)), flat(arrays(want)), strict=True):
        same(a, b)
