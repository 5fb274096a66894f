from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import (
    SCORES,
    AdditiveScore,
    Attention,
    BilinearScore,
    ConcatScore,
    CosineScore,
    CoverageScore,
    DotScore,
    EuclideanScore,
    GeneralScore,
    LocationScore,
    LocationSensitiveScore,
    ScaledDotScore,
    Score,
    TrilinearScore,
)
from tests.layers.attention_case import Array, Weights, additive_hidden, additive_scores, numbers
from tests.layers.conformance import ScoreConformance
from tests.layers.running import (
    MODES,
    WIDE,
    array,
    check_gradients,
    close,
    compiled,
    differentiable,
    needs_dynamic_shapes,
    randomise,
    with_dynamic_shapes,
)
from tests.variants import numerics_only


class TestDotScore(ScoreConformance):
    covers = DotScore
    registered = "dot"
    widths = (6, 6)

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        return query @ key.swapaxes(-1, -2)


class TestScaledDotScore(ScoreConformance):
    covers = ScaledDotScore
    registered = "scaled_dot"
    widths = (6, 6)

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        return query @ key.swapaxes(-1, -2) / np.sqrt(6)


class TestGeneralScore(ScoreConformance):
    covers = GeneralScore
    registered = "general"
    options = {"scale": True}
    changed = {"scale": False}

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        scores = query @ (key @ weights["key_kernel"]).swapaxes(-1, -2)
        return weights["gain"] * scores


class TestAdditiveScore(ScoreConformance):
    covers = AdditiveScore
    registered = "additive"
    options = {"units": 8, "normalize": True}
    changed = {"units": 9, "normalize": False}

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        scores = additive_scores(weights, query, key)
        return weights["gain"] * scores / np.sqrt((weights["v"] ** 2).sum())


@numerics_only
class TestAdditiveScoreWithoutNormalization(ScoreConformance):
    covers = AdditiveScore
    options = {"units": 8}

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        return additive_scores(weights, query, key)


class TestConcatScore(ScoreConformance):
    covers = ConcatScore
    registered = "concat"
    options = {"units": 8}
    changed = {"units": 9}

    def oracle(self, weights: Weights, query: np.ndarray, key: np.ndarray) -> np.ndarray:
        """Concatenated, as in the paper."""
        steps, sources = query.shape[-2], key.shape[-2]
        pairs = np.concatenate(
            [np.repeat(query[:, :, None], sources, axis=2), np.repeat(key[:, None], steps, axis=1)],
            axis=-1,
        )
        return np.tanh(pairs @ weights["kernel"]) @ weights["v"]


def test_base_class_is_rejected() -> None:
    with pytest.raises(TypeError, match="base class"):
        Score().compute_scores(None, None)


def test_initial_gain_equals_the_expected_norm() -> None:
    score = AdditiveScore(16, normalize=True)
    score.build((1, 1, 3), (1, 1, 4))
    assert float(array(score.gain)) == pytest.approx(0.25)
    assert not array(score.bias).any()


def test_user_defined_scores_are_supported() -> None:
    """A user-defined score, given as an object."""

    class Distance(Score):
        def compute_scores(self, query: object, keys: object) -> object:
            from keras import ops

            return -ops.sum(ops.square(query[..., :, None, :] - keys[..., None, :, :]), axis=-1)

    keys = np.array([[[0.0], [5.0]]], "float32")
    context = Attention(score=Distance(), alignment="hard")(np.array([[[4.0]]], "float32"), keys)
    assert float(array(context)[0, 0, 0]) == 5


def only(scores: Any) -> float:
    """Return the single number of scores `(1, 1, 1)`."""
    return float(array(scores)[0, 0, 0])


def vectors(*rows: list[float]) -> Array:
    return np.array([rows], "float32")


def convolved(weights: Array, filters: Array) -> Array:
    """Convolve rows `(..., S)` with taps `(K, 1, F)` to `(..., S, F)`, with zero padding."""
    taps, sources = len(filters), weights.shape[-1]
    result = np.zeros((*weights.shape, filters.shape[-1]))
    for position in range(sources):
        for tap in range(taps):
            source = position + tap - (taps - 1) // 2
            if 0 <= source < sources:
                result[..., position, :] += weights[..., source, None] * filters[tap, 0]
    return result


class TestCosineScore(ScoreConformance):
    covers = CosineScore
    registered = "cosine"
    options = {"temperature": 0.5}
    changed = {"temperature": 0.25, "learn_temperature": True}
    widths = (6, 6)

    def oracle(self, weights: Weights, query: Array, key: Array) -> Array:
        lengths = np.linalg.norm(query, axis=-1)[..., None] * np.linalg.norm(key, axis=-1)[:, None]
        return query @ key.swapaxes(-1, -2) / lengths / 0.5


@numerics_only
class TestCosineScoreOfLearnedTemperature(TestCosineScore):
    options = {"temperature": 0.5, "learn_temperature": True}

    def oracle(self, weights: Weights, query: Array, key: Array) -> Array:
        return super().oracle({}, query, key) * 0.5 / np.exp(weights["log_temperature"])


class TestTrilinearScore(ScoreConformance):
    covers = TrilinearScore
    registered = "trilinear"
    widths = (6, 6)

    def oracle(self, weights: Weights, query: Array, key: Array) -> Array:
        """Concatenated, as in the paper."""
        steps, sources = query.shape[-2], key.shape[-2]
        query = np.repeat(query[:, :, None], sources, axis=2)
        key = np.repeat(key[:, None], steps, axis=1)
        return np.concatenate([query, key, query * key], axis=-1) @ weights["kernel"]


class TestLocationScore(ScoreConformance):
    covers = LocationScore
    unused_inputs = (1,)  # the scores depend only on the number of keys
    registered = "location"
    options = {"max_length": 8}
    changed = {"max_length": 9}

    def oracle(self, weights: Weights, query: Array, key: Array) -> Array:
        return (query @ weights["kernel"])[..., : key.shape[1]]

    def test_found_by_name(self) -> None:
        assert SCORES.get("location") is LocationScore
        with pytest.raises(ValueError, match="needs max_length, the length of the longest memory"):
            Attention(score="location")

    def test_leading_axes_of_the_keys_only(self) -> None:
        layer, (query, key) = self.make_random(), self.tensors()
        heads = ops.convert_to_tensor(np.stack([key, key], axis=1))
        got = array(layer.compute_scores(ops.convert_to_tensor(query[:, None]), heads))
        for head in range(2):
            close(got[:, head], layer(query, key), 1e-6)


class TestBilinearScore(ScoreConformance):
    covers = BilinearScore
    registered = "bilinear"
    options = {"activation": "tanh"}
    changed = {"activation": "relu", "use_bias": False}

    def tensors(self, batch: int = 3, seed: int = 0, scale: float = 0.5) -> tuple[Array, ...]:
        """Small values: a float32 sum has errors of the size of its terms."""
        return super().tensors(batch, seed, scale)

    def oracle(self, weights: Weights, query: Array, key: Array) -> Array:
        return np.tanh(query @ weights["kernel"] @ key.swapaxes(-1, -2) + weights["bias"])


@numerics_only
class TestBilinearScoreWithoutBias(TestBilinearScore):
    options = {"use_bias": False}

    def oracle(self, weights: Weights, query: Array, key: Array) -> Array:
        assert list(weights) == ["kernel"]
        return np.einsum("btq,qk,bsk->bts", query, weights["kernel"], key)


class TestEuclideanScore(ScoreConformance):
    covers = EuclideanScore
    registered = "euclidean"
    widths = (6, 6)

    def oracle(self, weights: Weights, query: Array, key: Array) -> Array:
        return 1 / (1 + np.linalg.norm(query[:, :, None] - key[:, None], axis=-1))


class StatefulScoreConformance(ScoreConformance):
    """A score whose state has the shape of scores; `oracle` takes it too."""

    def oracle(self, weights: Weights, query: Array, key: Array, previous: Any = 0.0) -> Array:
        raise TypeError("a case implements oracle")

    @pytest.mark.numerics
    def test_scores_of_later_steps(self) -> None:
        layer = self.make_random()
        for seed in range(20):
            randomise(layer, seed)
            query, key = self.tensors(seed=seed)
            previous = np.random.default_rng(seed).random((3, 4, 5)).astype("float32")
            got = _compared(layer, query, key, previous)
            wide = (x.astype("float64") for x in (query, key, previous))
            close(got, self.oracle(numbers(layer), *wide), 1e-6)
            assert np.abs(array(got) - array(layer(query, key))).max() > 1e-2

    @pytest.mark.numerics
    def test_gradients_of_later_steps_are_finite_differences(self) -> None:
        layer = self.make(dtype=WIDE)
        tensors = [x.astype(WIDE) for x in self.tensors()]
        previous = np.random.default_rng(1).random((3, 4, 5)).astype(WIDE)
        layer(*tensors)
        randomise(layer)

        def run(query: Any, key: Any, previous: Any) -> Any:
            return _compared(layer, query, key, previous)

        check_gradients(layer, differentiable(layer, run), [*tensors, previous])

    def test_state_of_every_leading_axis(self) -> None:
        """Heads and hypotheses: `(B, H, T, S)`, each attention step from its own state."""
        layer, (query, key) = self.make_random(), self.tensors()
        previous = np.random.default_rng(2).random((3, 2, 4, 5)).astype("float32")
        keys = layer.project(ops.convert_to_tensor(key))[:, None]
        states = ops.convert_to_tensor(np.stack([query, 2 * query], axis=1))
        got = array(layer.compute_scores(states, keys, (ops.convert_to_tensor(previous),)))
        for head in range(2):
            single = _compared(layer, (head + 1) * query, key, previous[:, head])
            close(got[:, head], single, 1e-6)

    def test_initial_state_is_zero(self) -> None:
        layer = self.make_random()
        assert layer.is_stateful
        for dtype, expected in (("float16", "float32"), ("float32", "float32")):
            (state,) = layer.initial_state(ops.ones((3, 2, 5), dtype))
            assert tuple(state.shape) == (3, 2, 5)
            assert keras.backend.standardize_dtype(state.dtype) == expected
            assert not array(state).any()
        query, key = self.tensors()
        close(_compared(layer, query, key, np.zeros((3, 4, 5), "float32")), layer(query, key), 1e-6)


def _compared(layer: Any, query: Any, key: Any, previous: Any) -> Any:
    query, key, previous = (ops.convert_to_tensor(x) for x in (query, key, previous))
    return layer.compute_scores(query, layer.project(key), (previous,))


class TestCoverageScore(StatefulScoreConformance):
    covers = CoverageScore
    registered = "coverage"
    options = {"units": 8}
    changed = {"units": 9}

    def oracle(self, weights: Weights, query: Array, key: Array, previous: Any = 0.0) -> Array:
        covered = np.asarray(previous)[..., None] * weights["coverage_kernel"]
        return np.tanh(additive_hidden(weights, query, key) + covered) @ weights["v"]

    def test_state_contains_the_sum_of_weights(self) -> None:
        (state,) = CoverageScore().update_state(np.array([0.25, 0.75]), (np.array([1.0, 0.5]),))
        assert state.tolist() == [1.25, 1.25]


class TestLocationSensitiveScore(StatefulScoreConformance):
    covers = LocationSensitiveScore
    registered = "location_sensitive"
    options = {"units": 7, "filters": 3, "kernel_size": 3}
    changed = {"units": 9, "filters": 4, "kernel_size": 5, "cumulative": True}

    def oracle(self, weights: Weights, query: Array, key: Array, previous: Any = 0.0) -> Array:
        location_term = np.zeros(())
        if np.ndim(previous):
            location_term = (
                convolved(previous, weights["location_filters"]) @ weights["location_kernel"]
            )
        return np.tanh(additive_hidden(weights, query, key) + location_term) @ weights["v"]

    def test_state_contains_the_last_weights_or_their_sum(self) -> None:
        new, old = np.array([0.25, 0.75]), (np.array([1.0, 0.5]),)
        assert self.make().update_state(new, old)[0].tolist() == [0.25, 0.75]
        assert self.make(cumulative=True).update_state(new, old)[0].tolist() == [1.25, 1.25]


@numerics_only
class TestLocationSensitiveScoreOfEvenAndWideKernels(TestLocationSensitiveScore):
    """More taps than positions, an even number of them."""

    options = {"units": 7, "filters": 3, "kernel_size": 12}


def test_cosine_by_hand() -> None:
    query, key = vectors([3, 4]), vectors([0, 2])
    assert only(CosineScore()(query, key)) == pytest.approx(8 / 10)
    assert only(CosineScore(0.5)(query, key)) == pytest.approx(1.6)
    assert only(CosineScore()(query, -query)) == pytest.approx(-1)


def test_cosine_of_any_length_is_that_of_the_direction() -> None:
    query, key = vectors([3, 4]), vectors([0, 2])
    for size in (1e-30, 1e30):
        scaled = (query * np.float32(size), key / np.float32(size))
        run = differentiable(CosineScore(), CosineScore())
        scores, gradients, _ = run(*scaled)
        assert only(scores) == pytest.approx(0.8)
        assert all(np.isfinite(x).all() for x in gradients)


def test_zero_vector_has_cosine_0_and_zero_gradient() -> None:
    run = differentiable(CosineScore(), CosineScore())
    scores, (of_query, of_key), _ = run(vectors([3, 4], [0, 0]), vectors([0, 2], [0, 0]))
    np.testing.assert_allclose(scores[0], [[0.8, 0], [0, 0]], rtol=1e-6)
    assert np.isfinite(of_query).all()
    assert np.isfinite(of_key).all()
    assert of_query[0, 0].any()
    assert not of_query[0, 1].any()
    assert not of_key[0, 1].any()


def test_learned_temperature_has_its_initial_value_and_stays_positive() -> None:
    score = CosineScore(0.5, learn_temperature=True)
    run = differentiable(score, score)
    query, key = vectors([3, 4]), vectors([0, 2])
    score(query, key)
    scores, _, (gradient,) = run(query, key)
    assert only(scores) == pytest.approx(1.6)
    assert float(gradient) == pytest.approx(-1.6 * np.cos(1), rel=1e-5)  # d score / d log t
    score.log_temperature.assign(-4.0)
    assert only(score(query, key)) == pytest.approx(0.8 * np.exp(4), rel=1e-5)


def test_trilinear_by_hand() -> None:
    score, query, key = TrilinearScore(), vectors([1, 2]), vectors([3, -1])
    score(query, key)
    score.kernel.assign([1, 2, 3, 4, 5, 6])
    # q . (1, 2) = 5, k . (3, 4) = 5, (3, -2) . (5, 6) = 3
    assert only(score(query, key)) == pytest.approx(13)


@pytest.mark.parametrize("mode", MODES)
def test_trilinear_creates_no_pairwise_tensor(mode: str) -> None:
    """At T = S = 2000 and D = 64, a tensor of 3 D numbers per pair would take 3 GB."""
    rng = np.random.default_rng(0)
    score = TrilinearScore()
    query, key = rng.normal(size=(2, 1, 2000, 64)).astype("float32")
    score.build(query.shape, key.shape)
    randomise(score)
    got = array(compiled(score, mode)(query, key))[0, 1999, :3]
    w = array(score.kernel)
    pairs = [np.concatenate([query[0, 1999], k, query[0, 1999] * k]) @ w for k in key[0, :3]]
    np.testing.assert_allclose(got, pairs, rtol=1e-4)


def test_location_by_hand() -> None:
    score, query = LocationScore(3), vectors([1, 2])
    score(query, np.full((1, 3, 5), np.nan, "float32"))
    score.kernel.assign([[1, 0, 2], [0, 1, -1]])
    for length in (3, 2, 1):
        got = array(score(query, np.full((1, length, 5), np.nan, "float32")))[0, 0]
        assert got.tolist() == [1, 2, 0][:length], "what stands in the memory plays no part"


def test_location_score_rejects_a_longer_memory() -> None:
    states, memory = np.ones((2, 3, 4), "float32"), np.ones((2, 6, 4), "float32")
    layer = Attention(score=LocationScore(max_length=5))
    with pytest.raises(ValueError, match="the length of key, 6, exceeds max_length=5"):
        layer(states, memory)
    layer(states, memory[:, :5])
    with pytest.raises(ValueError, match="the length of key, 6, exceeds max_length=5"):
        layer(states, memory)
    with pytest.raises(ValueError, match="the length of key, 6, exceeds max_length=5"):
        Attention(score=LocationScore(max_length=5))(keras.Input((3, 4)), keras.Input((6, 4)))


@needs_dynamic_shapes
@pytest.mark.parametrize("max_length", [1, 5])
def test_location_fails_on_a_longer_memory_of_unknown_length(max_length: int) -> None:
    score = LocationScore(max_length)
    score.build((None, None, 4), (None, None, 4))
    run = with_dynamic_shapes(score.compute_scores, (None, None, 4), (None, None, 4))
    query, key = np.ones((2, 3, 4), "float32"), np.ones((2, max_length + 1, 4), "float32")
    assert run(query, key[:, 1:]).shape == (2, 3, max_length)
    with pytest.raises(Exception, match=r"[Ii]nvalid|size\["):
        run(query, key)


def test_bilinear_by_hand() -> None:
    score, query, key = BilinearScore("tanh"), vectors([1, 2]), vectors([3, 0, 1])
    score(query, key)
    score.kernel.assign([[1, 0, 1], [0, 5, -2]])
    score.bias.assign(-0.5)
    # q W = (1, 10, -3), . k = 0, + b = -0.5
    assert only(score(query, key)) == pytest.approx(np.tanh(-0.5))
    assert np.array_equal(BilinearScore(keras.ops.tanh)(query, key).shape, (1, 1, 1))


def test_euclidean_by_hand() -> None:
    run = differentiable(EuclideanScore(), EuclideanScore())
    scores, (of_query, of_key), _ = run(vectors([3, 4]), vectors([0, 0], [3, 4], [3, 3]))
    np.testing.assert_allclose(scores[0, 0], [1 / 6, 1, 1 / 2], rtol=1e-6)
    # d(1 / (1 + r)) = -dr / (1 + r)^2, and dr / dk = (k - q) / r
    slopes = np.array([[3, 4], [0, 0], [0, 5]]) / np.array([[5 * 36], [1], [5 * 4]])
    np.testing.assert_allclose(of_key[0], slopes * np.cos([[1], [2], [3]]), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(of_query[0, 0], -of_key[0].sum(0), rtol=1e-5)


def test_euclidean_score_of_close_and_distant_vectors() -> None:
    """Expanding the square would give 0 or rounding errors for the first of these."""
    query = np.full((1, 1, 4), 1000, "float32")
    near, far = query + np.float32(2**-8), query + np.float32(1e25)
    run = differentiable(EuclideanScore(), EuclideanScore())
    for key, expected in ((near, 1 / (1 + 2 * 2**-8)), (far, 0)):
        scores, gradients, _ = run(query, key)
        assert only(scores) == pytest.approx(expected, abs=1e-6)
        assert all(np.isfinite(x).all() for x in gradients)


def test_unequal_widths_are_rejected() -> None:
    for name, other in (("cosine", "general"), ("trilinear", "concat"), ("euclidean", "additive")):
        with pytest.raises(ValueError, match=f'{name} needs equal widths of que.*score="{other}"'):
            Attention(score=name)(np.ones((1, 2, 3), "float32"), np.ones((1, 2, 4), "float32"))
