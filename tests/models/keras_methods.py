"""Conformance of every model as a `keras.Model`: Keras's methods, plain `compile` and `fit`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.layers.layer_conformance import without_names
from tests.layers.running import JAX, array, close

NUM_EXAMPLES, BATCH_SIZE = 10, 4
"""The last batch is smaller than the others."""


def summarize(model: keras.Model, **options: Any) -> str:
    """Return what `summary` prints."""
    lines: list[str] = []
    model.summary(line_length=200, print_fn=lines.append, **options)
    return "\n".join(lines)


def to_keras_inputs(specs: Any) -> Any:
    """Return a `keras.Input` for each spec."""
    return keras.tree.map_structure(
        lambda x: keras.Input(x.shape[1:], dtype=x.dtype, name=x.name), specs
    )


class KerasMethodsConformance:
    """A case defines `make`, `inputs` and `training_examples`."""

    make: Any
    inputs: Any

    def training_examples(self, model: Any) -> tuple[Any, Any, Any]:
        """Return inputs, labels and the loss for `compile`."""
        raise NotImplementedError

    # without a call

    def test_summary(self) -> None:
        model = self.make()
        summary = summarize(model, show_trainable=True, expand_nested=True)
        assert f"Total params: {model.count_params():,}" in summary
        assert all(f"{layer.name} (" in summary for layer in model.layers)
        for number, layer in enumerate(model.layers):
            assert model.get_layer(layer.name) is model.get_layer(index=number) is layer

    def test_build_again_changes_nothing(self) -> None:
        model = self.make()
        weights = list(model.weights)
        model.build()
        model.build(keras.tree.map_structure(lambda x: x.shape, self.inputs()))
        model.build_from_config(model.get_build_config())
        assert all(x is y for x, y in zip(model.weights, weights, strict=True))

    def test_copies_have_the_same_config(self) -> None:
        model = self.make()
        expected, shapes = without_names(model.get_config()), [v.shape for v in model.weights]
        for copy in (
            keras.models.clone_model(model),
            keras.models.model_from_json(model.to_json()),
        ):
            assert without_names(copy.get_config()) == expected
            assert [v.shape for v in copy.weights] == shapes

    @pytest.mark.full
    def test_symbolic_outputs(self) -> None:
        """Shapes and dtypes are those of a call, also with dynamic shapes in functional models."""
        model, inputs = self.make(), self.inputs()
        expected = model(inputs)
        shapes = model.compute_output_shape(keras.tree.map_structure(lambda x: x.shape, inputs))
        symbolic = model(to_keras_inputs(model.get_input_signature()))
        keras.tree.assert_same_structure(symbolic, expected)
        for x, shape, y in zip(
            keras.tree.flatten(symbolic),
            keras.tree.flatten(keras.tree.map_shape_structure(str, shapes)),
            keras.tree.flatten(expected),
            strict=True,
        ):
            assert shape == str(tuple(y.shape))
            assert (x.dtype, x.ndim) == (keras.backend.standardize_dtype(y.dtype), y.ndim)
            assert all(a in (None, b) for a, b in zip(x.shape, y.shape, strict=True))

    @pytest.mark.full
    def test_int8_outputs_are_close(self) -> None:
        """Matrices that the model reads from its sublayers are scaled back."""
        model, inputs = self.make(), self.inputs()
        expected = array(keras.tree.flatten(model(inputs))[0])
        with warnings.catch_warnings():  # of weights that stay in floating point
            warnings.simplefilter("ignore")
            model.quantize("int8")
        difference = np.abs(array(keras.tree.flatten(model(inputs))[0]) - expected)
        assert difference.max() <= 0.1 * np.abs(expected).max()

    def test_missing_input_is_rejected(self) -> None:
        model, inputs = self.make(), self.inputs()
        if isinstance(inputs, dict):
            for given in ({}, list(inputs.values())):
                with pytest.raises(ValueError, match=f"must be a dict with {next(iter(inputs))}"):
                    model(given)

    # training

    @pytest.mark.full
    @pytest.mark.parametrize("jit_compile", [JAX, True], ids=["graph", "xla"])
    def test_plain_compile_and_fit(self, jit_compile: bool, tmp_path: Path) -> None:
        """Ten examples in batches of four: the last batch has another size."""
        model = self.make()
        inputs, labels, loss = self.training_examples(model)
        inputs, labels = keras.tree.map_structure(
            lambda x: x[np.arange(NUM_EXAMPLES) % len(x)], (inputs, labels)
        )
        before = [array(v) for v in model.trainable_variables]
        options = {"batch_size": BATCH_SIZE, "verbose": 0}
        model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=jit_compile)
        history = model.fit(
            inputs, labels, validation_data=(inputs, labels), epochs=3, **options
        ).history
        assert np.isfinite([*history["loss"], *history["val_loss"]]).all()
        after = zip(model.trainable_variables, before, strict=True)
        assert any((array(v) != old).any() for v, old in after)
        evaluated = model.evaluate(inputs, labels, return_dict=True, **options)
        assert evaluated["loss"] == pytest.approx(history["val_loss"][-1], rel=1e-5)
        assert float(model.get_metrics_result()["loss"]) == pytest.approx(evaluated["loss"])
        for run in (model.train_on_batch, model.test_on_batch):
            assert np.isfinite(run(inputs, labels)).all()
        single = keras.tree.flatten(model.predict_on_batch(inputs))
        together = keras.tree.flatten(model.predict(inputs, batch_size=NUM_EXAMPLES, verbose=0))
        for a, b in zip(single, together, strict=True):
            close(a, b, 1e-5)
        self.check_files(model, inputs, tmp_path)

    def check_files(self, model: Any, inputs: Any, folder: Path) -> None:
        """Check that weights and whole models are saved and loaded."""
        model.save(folder / "model.keras")
        loaded = keras.models.load_model(folder / "model.keras")
        assert type(loaded.optimizer) is type(model.optimizer)
        assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations)
        model.save_weights(folder / "model.weights.h5")
        other = self.make()
        other.load_weights(folder / "model.weights.h5")
        expected = model(inputs)  # not compiled, as in the copies
        for copy in (loaded, other):
            close(copy(inputs), expected, 1e-6)
