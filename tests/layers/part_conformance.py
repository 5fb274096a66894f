"""Conformance of scores and alignments."""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from keras import ops

from attention_zoo.layers import ALIGNMENTS, SCORES, Attention
from attention_zoo.registry import Registry
from tests.layers.attention_case import Weights, numbers, softmax
from tests.layers.layer_conformance import LayerConformance
from tests.layers.masking_rules import masking_rule
from tests.layers.running import (
    JAX,
    MODES,
    WIDE,
    array,
    check_gradients,
    close,
    compiled,
    differentiable,
    randomise,
)
from tests.tiers import EXAMPLES, ORACLE_CASES

PART_SECTIONS = ("Call arguments", "Returns", "Cost", "Example")


class PartConformance(LayerConformance):
    """A score or alignment: a layer that is registered by name."""

    registry: ClassVar[Registry]
    registered: ClassVar[str]

    def test_found_by_name(self) -> None:
        assert type(self.registry.get(self.registered)()) is self.covers
        with pytest.raises(ValueError, match=f"did you mean '{self.registered}'"):
            self.registry.get(self.registered + "x")

    @masking_rule(4)
    def test_other_precisions_compute_in_float32(self) -> None:
        """Scores and weights are at least float32 for inputs of any dtype."""
        layer = self.make(dtype="float16")
        for output in keras.tree.flatten(self.apply(layer, *self.tensors())):
            assert keras.backend.standardize_dtype(output.dtype) == "float32"

    # Scores and weights are returned in float32, so these two tests differ here.
    test_dtype_policy = None
    test_dtype_argument_applies_to_every_weight = None


class ScoreConformance(PartConformance):
    """A score. A case implements `oracle`, its formula in float64."""

    registry = SCORES
    sections = PART_SECTIONS
    widths: ClassVar[tuple[int, int]] = (6, 5)

    def compute_outputs(self, layer: Any, query: Any, key: Any) -> Any:
        """Return context and weights of an attention with the score."""
        return Attention(layer)(query, key, return_attention_scores=True)

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        """Return scores `(..., T, S)` in float64."""
        raise TypeError(f"{type(self).__name__} has no oracle")

    def tensors(self, batch: int = 3, seed: int = 0, scale: float = 1.0) -> tuple[np.ndarray, ...]:
        rng = np.random.default_rng(seed)
        shapes = ((batch, 4, self.widths[0]), (batch, 5, self.widths[1]))
        return tuple((scale * rng.normal(size=shape)).astype("float32") for shape in shapes)

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_oracle(self) -> None:
        layer = self.make_random()
        run = differentiable(layer, layer)
        for seed in range(ORACLE_CASES):
            randomise(layer, seed)
            tensors = self.tensors(seed=seed)
            got = run(*tensors)[0] if JAX else layer(*tensors)
            close(got, self.oracle(numbers(layer), *(x.astype("float64") for x in tensors)), 1e-6)

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_gradients_are_finite_differences(self) -> None:
        layer = self.make(dtype=WIDE)
        tensors = [x.astype(WIDE) for x in self.tensors()]
        layer(*tensors)
        randomise(layer)
        check_gradients(layer, differentiable(layer, layer), tensors)

    def test_keys_are_projected_once(self) -> None:
        layer, (query, key) = self.make_random(), self.tensors()
        keys = layer.project(ops.convert_to_tensor(key))
        for t in range(4):
            one = layer.compute_scores(ops.convert_to_tensor(query[:, t : t + 1]), keys)
            close(one, array(layer(query, key))[:, t : t + 1], 1e-6)

    def test_leading_axes_broadcast(self) -> None:
        layer, (query, key) = self.make_random(), self.tensors()
        keys = layer.project(ops.convert_to_tensor(key))[:, None]
        states = np.stack([query, 2 * query], axis=1)
        got = layer.compute_scores(ops.convert_to_tensor(states), keys)
        close(array(got)[:, 0], layer(query, key), 1e-6)
        close(array(got)[:, 1], layer(2 * query, key), 1e-6)

    def test_shapes_other_than_built_are_rejected(self) -> None:
        layer, (query, key) = self.make_random(), self.tensors()
        wide = [np.concatenate([x, x], axis=-1) for x in (query, key)]
        for pair in ((query[0, 0], key), (query, key[0, 0]), (wide[0], key), (query, wide[1])):
            with pytest.raises(
                ValueError, match=r"(query|key) must be \(\.\.\., steps, \d+\), got"
            ):
                layer(*pair)

    @masking_rule(4)
    def test_large_inputs_do_not_overflow(self) -> None:
        layer = self.make(dtype="float16")
        query, key = self.tensors(scale=200)
        assert np.isfinite(array(layer(query, key))).all()


class AlignmentConformance(PartConformance):
    """An alignment. A case implements `oracle`, its formula in float64."""

    registry = ALIGNMENTS
    sections = PART_SECTIONS
    test_output_shape_is_inferred = None  # the state is not a tensor
    test_inside_time_distributed = None
    test_masks_of_outputs = None  # the mask is that of the sources, not of the rows
    sums_to_one: ClassVar[bool] = True
    at_most_one: ClassVar[bool] = True
    """Whether weights sum to at most one."""

    def oracle(self, scores: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return softmax(scores, mask)

    def tensors(self, batch: int = 3) -> tuple[np.ndarray, ...]:
        """Return scores, and the state tensors of a stateful alignment."""
        scores = np.random.default_rng(0).normal(size=(batch, 4, 7)).astype("float32")
        state = self.make().initial_state(ops.convert_to_tensor(scores))
        return (scores, *(ops.convert_to_numpy(leaf) for leaf in state))

    def apply(self, layer: Any, scores: Any, *state: Any) -> Any:
        return layer(scores, state=state)[0]

    def compute_outputs(self, layer: Any, query: Any, *state: Any) -> Any:
        """Return context and weights of an attention with the alignment."""
        return Attention("dot", layer)(query, query[:, ::-1], return_attention_scores=True)

    def align(self, layer: Any, scores: Any, mask: Any = None) -> Any:
        """Return the weights of the first step."""
        scores = ops.convert_to_tensor(scores)
        return layer(scores, mask=mask, state=layer.initial_state(scores))[0]

    @functools.cached_property
    def compiled(self) -> Any:
        layer = self.make_random()
        return compiled(lambda scores, mask: self.align(layer, scores, mask), MODES[1])

    @pytest.mark.numerics
    @pytest.mark.every_backend
    @settings(max_examples=100 if JAX else EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(
        hnp.arrays(
            "float32", (3, 7), elements=st.floats(-1e5, 1e5, width=32, allow_subnormal=False)
        ),
        hnp.arrays("bool", (3, 7)),
    )
    def test_rows_sum_to_at_most_one(self, scores: np.ndarray, mask: np.ndarray) -> None:
        """Weights are not negative, exactly 0 at masked positions, and sum to 1 otherwise."""
        scores = scores + np.float32(0)  # no -0.0, which argmax ranks below 0.0
        weights = array(self.compiled(scores, mask))
        assert (weights >= 0).all()
        assert not weights[~mask].any()
        if self.sums_to_one:
            np.testing.assert_allclose(weights.sum(-1), mask.any(-1), atol=1e-6)
        if self.at_most_one:
            assert (weights.sum(-1) <= 1 + 1e-6).all()
        np.testing.assert_allclose(weights, self.oracle(scores.astype("float64"), mask), atol=2e-6)

    @pytest.mark.every_backend
    @pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
    @masking_rule(3)
    def test_masked_positions_have_zero_weight(self, dtype: str) -> None:
        """A mask by a large negative number fails here: the masked score is even larger."""
        mask = np.array([[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 1]], "bool")
        layer = self.make_random()
        for size in (1e4, 6e4, 1e5, -1e4, -6e4, -1e5):
            tops = np.array([[size, size, -size, 0], [size] * 4, [-np.inf, np.nan, 1, 2]])
            if dtype == "float16":
                tops = np.clip(tops, -65504, 65504)
            scores = ops.cast(ops.convert_to_tensor(tops.astype("float32")), dtype)
            weights = array(self.align(layer, scores, mask))
            assert np.isfinite(weights).all()
            assert not weights[~mask].any()
            if self.sums_to_one:
                np.testing.assert_allclose(weights.sum(-1), [1, 0, 1], atol=1e-6)

    @pytest.mark.parametrize("hidden", [0.0, -1e9])
    def test_float_masks_are_rejected(self, hidden: float) -> None:
        layer, (scores, *state) = self.make_random(), self.tensors()
        mask = np.full(scores.shape, hidden, "float32")
        with pytest.raises(ValueError, match="mask has dtype float32, but masks are boolean"):
            layer(scores, mask=mask, state=tuple(state))
        with pytest.raises(ValueError, match="mask has dtype float32, but masks are boolean"):
            layer(scores, mask, tuple(state))

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_masked_scores_have_zero_gradient(self) -> None:
        layer = self.make_random()
        mask = np.array([[1, 1, 0, 1], [0, 0, 0, 0]], "bool")
        scores = np.array([[1, 2, np.nan, 3], [np.inf, 1e5, -1e5, np.nan]], "float32")
        run = differentiable(layer, lambda x: self.align(layer, x, mask))
        _, (gradient,), weight_gradients = run(scores)
        assert np.isfinite(gradient).all()
        assert not gradient[~mask].any()
        assert all(np.isfinite(x).all() for x in weight_gradients)

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_fully_masked(self) -> None:
        layer = self.make_random()
        for shape in ((0, 3), (2, 0)):
            assert tuple(self.align(layer, np.zeros(shape, "float32")).shape) == shape

    def test_rows_are_independent(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        full = array(self.apply(layer, *tensors))
        for row in range(3):
            single = self.apply(layer, *[x[row : row + 1] for x in tensors])
            close(array(single)[0], full[row], 1e-6)

    def test_state_is_declared(self) -> None:
        """`initial_state` has the structure and shapes of the state that a step returns."""
        layer, (scores, *_) = self.make_random(), self.tensors()
        state = layer.initial_state(ops.convert_to_tensor(scores))
        _, after = layer(scores, state=state)
        assert bool(state) is layer.is_stateful
        assert [tuple(x.shape) for x in after] == [tuple(x.shape) for x in state]
