"""Conformance of encoders of one sequence of tokens, padded with 0.

    class TestBERT(EncoderConformance):
        covers = BERT
        options = {"vocabulary_size": 13, ...}   # a tiny model
        changed = {"vocabulary_size": 15, ...}   # every constructor argument, changed

A model takes `{"tokens": (B, T)}` and returns tensors `(B, T, ...)`, whose values at padding are
undefined, or `(B, ...)`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
import pytest

from tests.layers.running import JAX, any_batch, array, close, differentiable
from tests.models.model_conformance import ExportableModelConformance, assert_finite_and_nonzero
from tests.models.model_conformance import outputs as outputs_of
from tests.tiers import FULL, mark_full

TOKENS = np.array([[4, 5, 6, 7, 8, 9], [9, 8, 7, 0, 0, 0], [5, 0, 0, 0, 0, 0]], "int32")
TOKEN_MASK = TOKENS != 0
DEPTH = 12 if FULL else 2


def outputs(model: Any, tokens: np.ndarray) -> list[np.ndarray]:
    return outputs_of(model, {"tokens": tokens})


def select_tokens(results: list[np.ndarray], tokens: np.ndarray) -> list[np.ndarray]:
    """Return the outputs without padding positions."""
    valid = tokens != 0
    return [x[valid] if x.shape[1:2] == tokens.shape[1:] else x for x in results]


def fill(model: Any) -> None:
    """Set random biases and embeddings; keep kernels, since larger ones hide the residual.

    Embeddings get a large scale, so that tokens have a clear effect on outputs.
    """
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        noise = rng.normal(size=tuple(variable.shape))
        if len(variable.shape) == 1:
            variable.assign(array(variable) + 0.2 * noise)
        elif "embedding" in variable.path or "positions" in variable.path:
            variable.assign(noise)


class EncoderConformance(ExportableModelConformance):
    """A public model. A case defines `covers`, `options`, `changed` and, if needed, `make`."""

    fill = staticmethod(fill)
    places: ClassVar[tuple[str, ...]] = ("right", "left", "inside")
    """Sides on which padding does not affect outputs."""

    def make_deep(self) -> Any:
        """Return a tiny model with the depth of a real one and random weights."""
        return self.make_random(num_layers=DEPTH)

    def inputs(self) -> dict[str, np.ndarray]:
        """Return the inputs of a call."""
        return {"tokens": TOKENS}

    def training_examples(self, model: Any) -> tuple[Any, Any, Any]:
        labels = {name: np.zeros(x.shape) for name, x in model(self.inputs()).items()}
        return self.inputs(), labels, dict.fromkeys(labels, "mse")

    # masking rules

    def padded(self, tokens: np.ndarray, where: str, pads: int) -> np.ndarray:
        rows, length = tokens.shape
        none = np.zeros((rows, pads), "int32")
        cut = {"right": length, "left": 0, "inside": length // 2}[where]
        return np.concatenate([tokens[:, :cut], none, tokens[:, cut:]], axis=1)

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_padding_does_not_affect_outputs(self) -> None:
        model = self.make_deep()
        expected = select_tokens(outputs(model, TOKENS), TOKENS)
        for where in self.places:
            for pads in (50,) if JAX else (1, 7, 50) if FULL else (7,):
                padded = self.padded(TOKENS, where, pads)
                got = select_tokens(outputs(model, padded), padded)
                for a, b in zip(got, expected, strict=True):
                    close(a, b, 1e-5)

    @pytest.mark.numerics
    def test_batch_members_do_not_affect_each_other(self) -> None:
        model = self.make_deep()
        together = outputs(model, TOKENS)
        for row in range(len(TOKENS)):
            one = TOKENS[row : row + 1, TOKEN_MASK[row]]
            same_row = [
                x[row : row + 1, TOKEN_MASK[row]]
                if x.shape[1:2] == TOKENS.shape[1:]
                else x[row][None]
                for x in together
            ]
            for single, b in zip(outputs(model, one), same_row, strict=True):
                close(single, b, 1e-5)

    @pytest.mark.every_backend
    def test_tokens_affect_outputs(self) -> None:
        """Rules out constant outputs: a changed token changes the outputs."""
        model = self.make_deep()
        changed = TOKENS.copy()
        changed[:, 0] = 10
        for a, b in zip(outputs(model, changed), outputs(model, TOKENS), strict=True):
            assert (np.abs(a - b)[0] > 1e-4 * np.abs(b).max()).any()

    # execution modes

    @pytest.mark.full
    @pytest.mark.parametrize("own", [False, True])
    @pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
    def test_mixed_precision(self, policy: str, own: bool) -> None:
        for x in keras.tree.flatten(self.with_policy(policy, own)({"tokens": TOKENS})):
            assert keras.backend.standardize_dtype(x.dtype) == policy.removeprefix("mixed_")
            assert np.isfinite(array(x)).all()

    @pytest.mark.numerics
    @pytest.mark.parametrize("sizes", [mark_full((0, 4)), (1, 1), (2, 3)], ids=str)
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
        """Finite for a batch with a row of padding only, and nonzero for every weight."""
        model = self.make_random()
        tokens = np.concatenate([TOKENS, np.zeros_like(TOKENS[:1])])
        run = differentiable(
            model, lambda t: keras.tree.flatten(model({"tokens": t}, training=False))
        )
        results, _, by_weights = run(tokens)
        assert all(np.isfinite(x).all() for x in keras.tree.flatten(results))
        assert_finite_and_nonzero(model, by_weights)
