"""What holds for every model that reads one sequence of tokens, padded with 0.

    class TestBERT(ReadingConformance):
        covers = BERT
        options = {"vocabulary_size": 13, ...}   # the tiny model of the tests
        changed = {"vocabulary_size": 15, ...}   # every constructor argument, changed

A model calls `{"tokens": (B, T)}` and gives tensors `(B, T, ...)`, of which those at padding mean
nothing, or `(B, ...)`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
from keras import ops

import attention_zoo as az
from tests.layers.layer_laws import check_docstring
from tests.layers.running import (
    JAX,
    JAX_EXCEPTIONS,
    MODES,
    any_batch,
    array,
    close,
    compiled,
    differentiable,
    quick,
)
from tests.models.configuration import ConfigurationTests
from tests.tiers import FULL, in_full_tier

TOKENS = np.array([[4, 5, 6, 7, 8, 9], [9, 8, 7, 0, 0, 0], [5, 0, 0, 0, 0, 0]], "int32")
LIVE = TOKENS != 0
DEPTH = 12 if FULL else 2

ALONE = """
import json, sys
import tensorflow as tf
served = tf.saved_model.load(sys.argv[1])
given = {name: tf.constant(value, "int32") for name, value in json.load(sys.stdin).items()}
outputs = tf.nest.flatten(served.serve(given))
assert "attention_zoo" not in sys.modules
print(json.dumps([x.numpy().tolist() for x in outputs]))
"""


def outputs(model: Any, tokens: np.ndarray, mode: str | None = None) -> list[np.ndarray]:
    """All outputs, in the order of their names."""
    run = quick if mode is None else lambda function: compiled(function, mode)
    result = run(lambda t: keras.tree.flatten(model({"tokens": t}, training=False)))
    return [array(x) for x in result(ops.convert_to_tensor(tokens))]


def of_tokens(results: list[np.ndarray], tokens: np.ndarray) -> list[np.ndarray]:
    """The outputs without those at padding."""
    live = tokens != 0
    return [x[live] if x.shape[1:2] == tokens.shape[1:] else x for x in results]


def fill(model: Any) -> None:
    """Random biases and embeddings; kernels as they begin, for larger ones drown what goes around.

    Those narrower than what goes around them would be heard too little: embeddings are wide.
    """
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        noise = rng.normal(size=tuple(variable.shape))
        if len(variable.shape) == 1:
            variable.assign(array(variable) + 0.2 * noise)
        elif "embedding" in variable.path or "positions" in variable.path:
            variable.assign(noise)


def answers_alone(model: Any, given: dict[str, np.ndarray], folder: Path) -> list[np.ndarray]:
    """What the exported model says to inputs in a process that imports TensorFlow alone."""
    spec = {
        name: keras.InputSpec(shape=(None,) * x.ndim, dtype="int32", name=name)
        for name, x in given.items()
    }
    model.export(folder, input_signature=[spec], verbose=False)
    done = subprocess.run(
        [sys.executable, "-c", ALONE, folder],
        input=json.dumps({name: x.tolist() for name, x in given.items()}),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [np.array(x) for x in json.loads(done.stdout.splitlines()[-1])]


class ReadingConformance(ConfigurationTests):
    """One public model. A case says `covers`, `options` and `changed`, and `make` if need be."""

    options: ClassVar[dict[str, Any]]
    places: ClassVar[tuple[str, ...]] = ("right", "left", "inside")
    """Where padding cannot be seen."""

    def make(self, **options: Any) -> Any:
        return self.covers(**{**self.options, **options})

    def deep(self) -> Any:
        """As tiny, as deep as a real one, with random weights."""
        return self.filled(num_layers=DEPTH)

    def filled(self, **options: Any) -> Any:
        model = self.make(**options)
        fill(model)
        return model

    def inputs(self) -> dict[str, np.ndarray]:
        """What a model of this case can be called with."""
        return {"tokens": TOKENS}

    # the law of masks

    def padded(self, tokens: np.ndarray, where: str, pads: int) -> np.ndarray:
        rows, length = tokens.shape
        none = np.zeros((rows, pads), "int32")
        cut = {"right": length, "left": 0, "inside": length // 2}[where]
        return np.concatenate([tokens[:, :cut], none, tokens[:, cut:]], axis=1)

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_pads_cannot_be_seen(self) -> None:
        model = self.deep()
        want = of_tokens(outputs(model, TOKENS), TOKENS)
        for where in self.places:
            for pads in (50,) if JAX else (1, 7, 50) if FULL else (7,):
                longer = self.padded(TOKENS, where, pads)
                got = of_tokens(outputs(model, longer), longer)
                for a, b in zip(got, want, strict=True):
                    close(a, b, 1e-5)

    def test_batch_cannot_be_seen(self) -> None:
        model = self.deep()
        together = outputs(model, TOKENS)
        for row in range(len(TOKENS)):
            one = TOKENS[row : row + 1, LIVE[row]]
            same_row = [
                x[row : row + 1, LIVE[row]] if x.shape[1:2] == TOKENS.shape[1:] else x[row][None]
                for x in together
            ]
            for alone, b in zip(outputs(model, one), same_row, strict=True):
                close(alone, b, 1e-5)

    @pytest.mark.every_backend
    def test_tokens_can_be_seen(self) -> None:
        """A law kept by saying nothing would be none: another token changes what follows it."""
        model = self.deep()
        changed = TOKENS.copy()
        changed[:, 0] = 10
        for a, b in zip(outputs(model, changed), outputs(model, TOKENS), strict=True):
            assert (np.abs(a - b)[0] > 1e-4 * np.abs(b).max()).any()

    # paths

    @pytest.mark.every_backend
    @pytest.mark.parametrize("mode", MODES[1:])
    def test_compiled_is_eager(self, mode: str) -> None:
        model = self.filled()
        for a, b in zip(outputs(model, TOKENS, mode), outputs(model, TOKENS), strict=True):
            close(a, b, 1e-5)

    @pytest.mark.full
    @pytest.mark.parametrize("own", [False, True])
    @pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
    def test_mixed_precision(self, policy: str, own: bool) -> None:
        """By the global policy, and by the model's own dtype alone."""
        if not own:
            keras.config.set_dtype_policy(policy)
        model = self.make(**({"dtype": policy} if own else {}))
        sublayers = model._flatten_layers(include_self=False)
        assert {layer.dtype_policy.name for layer in sublayers} == {policy}
        assert {v.dtype for v in model.trainable_variables} == {"float32"}
        for x in keras.tree.flatten(model({"tokens": TOKENS})):
            assert keras.backend.standardize_dtype(x.dtype) == policy.removeprefix("mixed_")
            assert np.isfinite(array(x)).all()

    @pytest.mark.numerics
    @pytest.mark.parametrize("sizes", [in_full_tier((0, 4)), (1, 1), (2, 3)], ids=str)
    def test_small_sizes(self, sizes: tuple[int, int]) -> None:
        model = self.make()

        def run(tokens: Any) -> Any:
            return keras.tree.flatten(model({"tokens": tokens}))

        for x in (any_batch(run) if FULL else run)(np.full(sizes, 4, "int32")):
            assert x.shape[0] == sizes[0]
            assert np.isfinite(array(x)).all()

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_gradients_are_finite(self) -> None:
        """Of a batch in which a row is nothing but padding; every weight has some."""
        model = self.filled()
        tokens = np.concatenate([TOKENS, np.zeros_like(TOKENS[:1])])
        run = differentiable(
            model, lambda t: keras.tree.flatten(model({"tokens": t}, training=False))
        )
        results, _, by_weights = run(tokens)
        assert all(np.isfinite(x).all() for x in (*keras.tree.flatten(results), *by_weights))
        still = [
            variable.path
            for variable, gradient in zip(model.trainable_variables, by_weights, strict=True)
            if not np.abs(gradient).max()
        ]
        assert still == []

    @pytest.mark.full
    @pytest.mark.skipif(JAX, reason="an export is TensorFlow's")
    def test_export_answers_without_this_library(self, tmp_path: Path) -> None:
        model = self.filled()
        want = outputs(model, TOKENS, "graph")
        got = answers_alone(model, {"tokens": TOKENS}, tmp_path / "served")
        for a, b in zip(got, want, strict=True):
            close(a, b, 1e-5)

    # configuration

    def test_weights_exist_before_the_first_call(self) -> None:
        model = self.make()
        before = [v.path for v in model.variables]
        outputs(model, TOKENS)
        assert before
        assert [v.path for v in model.variables] == before

    @pytest.mark.skipif(JAX, reason=JAX_EXCEPTIONS["a file in a fresh process"])
    def test_preset_folder(self, tmp_path: Path) -> None:
        model = self.filled()
        model.save_to_preset(tmp_path / "saved")
        for again in (
            az.models.from_preset(tmp_path / "saved"),
            self.covers.from_preset(str(tmp_path / "saved")),
        ):
            assert type(again) is self.covers
            assert again.settings == model.settings
            for a, b in zip(outputs(again, TOKENS), outputs(model, TOKENS), strict=True):
                np.testing.assert_array_equal(a, b)

    def test_docstring(self) -> None:
        check_docstring(self.covers, ("Args", "Call arguments", "Returns", "Masking"), formula=True)
