from __future__ import annotations

import math
from typing import Any, ClassVar

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import (
    POSITIONS,
    AlibiPositions,
    AttentionCell,
    LearnedPositions,
    MultiHeadAttention,
    RecurrentDecoder,
    RelativePositions,
    RotaryPositions,
    ShawPositions,
    SinusoidalPositions,
    T5Positions,
)
from attention_zoo.layers.positions import make_positions
from attention_zoo.ops import implicit_mask
from tests.layers.attention.test_multi_head_attention import MultiHeadCase
from tests.layers.attention_case import Array, B, S, T, Weights, numbers
from tests.layers.attention_conformance import PaddingConformance
from tests.layers.conformance import LayerConformance
from tests.layers.mask_conformance import masked
from tests.layers.part_conformance import PART_SECTIONS, PartConformance
from tests.layers.running import (
    MODES,
    WIDE,
    array,
    build_random,
    check_gradients,
    close,
    compiled,
    differentiable,
    needs_dynamic_shapes,
    randomise,
    same,
    with_dynamic_shapes,
)

H, D = 4, 6


class AbsoluteCase(LayerConformance):
    """Absolute positions. A case implements `table`, the position vectors in float64."""

    def tensors(self, batch: int = B, width: int = D) -> tuple[Array, ...]:
        rng = np.random.default_rng(0)
        return (rng.normal(size=(batch, T, width)).astype("float32"),)

    def table(self, weights: Weights, positions: Array, width: int) -> Array:
        raise TypeError(f"{type(self).__name__} has no oracle")

    @pytest.mark.parametrize("width", [1, 2, 6, 7])
    def test_oracle(self, width: int) -> None:
        (x,) = self.tensors(width=width)
        layer = build_random(self.make(), x)
        for start in (0, 3):
            expected = x + self.table(numbers(layer), np.arange(T) + start, width)
            close(layer(x, start=start), expected, 1e-6)

    def test_rows_may_have_different_starts(self) -> None:
        """With `start` minus the number of padding tokens, left padding does not affect outputs."""
        layer, (x,) = self.make_random(), self.tensors()
        pads = np.array([0, 2, 3], "int32")
        run = compiled(lambda x, start: layer(x, start=start), MODES[1])
        got = array(run(x, -pads))
        for row, count in enumerate(pads):
            close(got[row : row + 1, count:], layer(x[row : row + 1, count:]), 1e-6)

    def test_steps_equal_the_call(self) -> None:
        layer, (x,) = self.make_random(), self.tensors()
        full = array(layer(x))
        run = compiled(lambda x, start: layer(x, start=start), MODES[1])
        for t in range(T):
            close(layer(x[:, t : t + 1], start=t), full[:, t : t + 1], 1e-6)
            close(run(x[:, t : t + 1], np.int32(t)), full[:, t : t + 1], 1e-6)

    def test_mask_is_passed_on(self) -> None:
        layer, (x,) = self.make_random(), self.tensors()
        mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0]], "bool")
        same(implicit_mask(layer(masked(x, mask))), mask)
        assert implicit_mask(layer(x)) is None

    def test_gradients_are_finite_differences(self) -> None:
        layer = self.make(dtype=WIDE)
        (x,) = (x.astype(WIDE) for x in self.tensors())
        build_random(layer, x)
        check_gradients(layer, differentiable(layer, lambda x: layer(x, start=1)), [x])

    def test_wrong_rank_is_rejected(self) -> None:
        with pytest.raises(ValueError, match=r"inputs must be \(batch, steps, features\)"):
            self.make()(np.ones((2, 3), "float32"))
        with pytest.raises(ValueError, match=r"inputs must be \(batch, steps, .*got shape \(3, 4"):
            self.make_random()(np.ones((3, 4), "float32"))

    def test_invalid_word_starts_are_rejected(self) -> None:
        layer, (x,) = self.make_random(), self.tensors()
        with pytest.raises(ValueError, match=r"start must be \(\d+\), got shape \(7,\)"):
            layer(x, start=np.arange(7))
        for start in (0.5, np.zeros(len(x), "float32")):
            with pytest.raises(ValueError, match="start must be an integer or integer tensor, got"):
                layer(x, start=start)


class TestSinusoidalPositions(AbsoluteCase):
    covers = SinusoidalPositions
    options = {"max_wavelength": 100.0}
    changed = {"max_wavelength": 1000.0, "interleaved": False}

    def table(self, weights: Weights, positions: Array, width: int) -> Array:
        rows = [
            [
                (math.cos if i % 2 else math.sin)(p / 100 ** (2 * (i // 2) / width))
                for i in range(width)
            ]
            for p in positions
        ]
        return np.array(rows)

    def test_worked_by_hand(self) -> None:
        """Four features at positions 0 and 1: sines and cosines of 1 and of 1/100."""
        y = array(SinusoidalPositions()(np.zeros((1, 2, 4), "float32")))
        expected = [[0, 1, 0, 1], [0.84147098, 0.54030231, 0.00999983, 0.99995]]
        np.testing.assert_allclose(y[0], expected, atol=1e-6)

    @pytest.mark.parametrize("width", [1, 4, 7])
    def test_sines_before_cosines(self, width: int) -> None:
        (x,) = self.tensors(width=width)
        order = [*range(0, width, 2), *range(1, width, 2)]
        np.testing.assert_allclose(
            array(SinusoidalPositions(interleaved=False)(x)) - x,
            (array(SinusoidalPositions()(x)) - x)[..., order],
            atol=1e-6,
        )

    def test_any_length(self) -> None:
        y = array(self.make()(np.zeros((1, 5000, 2), "float32"), start=-7))
        assert np.abs(y).max() <= 1
        np.testing.assert_allclose(y[0, 4999, 0], math.sin(4992), atol=1e-4)


class TestLearnedPositions(AbsoluteCase):
    covers = LearnedPositions
    options = {"max_length": 9}
    changed = {"max_length": 10}

    def table(self, weights: Weights, positions: Array, width: int) -> Array:
        return weights["table"][positions]

    def test_worked_by_hand(self) -> None:
        layer = LearnedPositions(max_length=3)
        layer(np.zeros((1, 1, 1), "float32"))
        layer.set_weights([np.array([[10.0], [20.0], [30.0]])])
        x = np.array([[[1.0], [2.0]]], "float32")
        assert array(layer(x))[0, :, 0].tolist() == [11, 22]
        assert array(layer(x, start=1))[0, :, 0].tolist() == [21, 32]
        start = ops.convert_to_tensor(np.array([-1], "int32"))
        assert array(layer(x, start=start))[0, :, 0].tolist() == [11, 12]

    def test_positions_beyond_max_length_are_rejected(self) -> None:
        layer = LearnedPositions(max_length=3)
        with pytest.raises(
            ValueError, match="sequence length 4 of inputs, including start=0, exceeds"
        ):
            layer(np.zeros((1, 4, 2), "float32"))
        with pytest.raises(
            ValueError, match="sequence length 5 of inputs, including start=3, exceeds"
        ):
            layer(np.zeros((1, 2, 2), "float32"), start=3)
        late = ops.convert_to_tensor(np.array([2], "int32"))
        y = array(layer(np.zeros((1, 2, 2), "float32"), start=late))
        assert np.isfinite(y[0, 0]).all()
        assert np.isnan(y[0, 1]).all(), "loud where only the run tells"


class RelativeCase(PartConformance):
    """Relative positions. A case implements `added`, the bias of one query and key, in float64."""

    registry = POSITIONS
    sections = PART_SECTIONS
    static_axes = (1, -1)  # heads and features
    shift: ClassVar[float] = 1e-5
    """Tolerance for scores of shifted positions."""

    def added(self, weights: Weights, query: Array, key: Array, head: int, t: int, s: int) -> Array:
        """Return scores `(...)` of queries `(..., D)` at position t and keys at position s."""
        raise TypeError(f"{type(self).__name__} has no oracle")

    def tensors(
        self, batch: int = B, steps: int = T, sources: int = S, seed: int = 0
    ) -> tuple[Array, ...]:
        rng = np.random.default_rng(seed)
        shapes = ((batch, H, steps, D), (batch, H, sources, D))
        return tuple(rng.normal(size=shape).astype("float32") for shape in shapes)

    def test_oracle(self) -> None:
        layer = self.make_random()
        for seed, (steps, sources) in enumerate([(4, 5), (5, 4), (1, 7), (7, 1), (9, 9)]):
            randomise(layer, seed)
            query, key = self.tensors(2, steps, sources, seed)
            got = array(layer(query, key))
            expected = np.zeros(got.shape)
            for h, t, s in np.ndindex(expected.shape[1:]):
                q, k = query[:, h, t].astype("float64"), key[:, h, s].astype("float64")
                expected[:, h, t, s] = self.added(numbers(layer), q, k, h, t, s)
            close(got, expected, 1e-6)

    def test_gradients_are_finite_differences(self) -> None:
        layer = self.make(dtype=WIDE)
        tensors = [x.astype(WIDE) for x in self.tensors()]
        build_random(layer, *tensors)
        check_gradients(layer, differentiable(layer, layer), tensors)

    def test_scores_depend_on_distances_only(self) -> None:
        """Shifting queries and keys together, as left padding does, keeps the scores."""
        layer, (query, key) = self.make_random(), self.tensors()
        expected = array(layer(query, key))
        for pads in (1, 3, 40):
            shifted = [
                np.concatenate([np.ones((B, H, pads, D), "float32"), x], 2) for x in (query, key)
            ]
            close(array(layer(*shifted))[:, :, pads:, pads:], expected, self.shift)

    @needs_dynamic_shapes
    def test_unknown_lengths(self) -> None:
        layer, (query, key) = self.make_random(), self.tensors()
        run = with_dynamic_shapes(layer, (None, H, None, D), (None, H, None, D))
        close(run(query, key), layer(query, key), 1e-6)

    @pytest.mark.parametrize(("steps", "sources"), [(0, 3), (3, 0), (0, 0), (1, 1)])
    def test_small_sizes(self, steps: int, sources: int) -> None:
        scores = self.make_random()(*self.tensors(2, steps, sources))
        assert tuple(scores.shape) == (2, H, steps, sources)


class TestRotaryPositions(RelativeCase):
    covers = RotaryPositions
    registered = "rotary"
    options = {"max_wavelength": 100.0}
    changed = {"max_wavelength": 1000.0}

    def added(self, weights: Weights, query: Array, key: Array, head: int, t: int, s: int) -> Array:
        """With pairs as complex numbers: the real part of q conj(k) e^(i (t - s) rate)."""
        q, k = (x[..., 0::2] + 1j * x[..., 1::2] for x in (query, key))
        turn = np.exp(1j * (t - s) * 100.0 ** (-2 * np.arange(D // 2) / D))
        return (q * np.conj(k) * turn).real.sum(-1) / np.sqrt(D)

    def test_worked_by_hand(self) -> None:
        """One pair rotates by one radian per position: (1, 0) at position 2 is (cos 2, sin 2)."""
        x = ops.convert_to_tensor(np.array([[[[1.0, 0.0]] * 3]], "float32"))
        rotated = array(RotaryPositions().transform(x))[0, 0]
        expected = [[1, 0], [math.cos(1), math.sin(1)], [math.cos(2), math.sin(2)]]
        np.testing.assert_allclose(rotated, expected, atol=1e-6)

    def test_lengths_are_unchanged(self) -> None:
        (x, _) = self.tensors(steps=50)
        rotated = array(self.make_random().transform(ops.convert_to_tensor(x)))
        np.testing.assert_allclose((rotated**2).sum(-1), (x**2).sum(-1), rtol=1e-5)

    def test_odd_widths_are_rejected(self) -> None:
        with pytest.raises(ValueError, match="key_dim must be even, got 5"):
            MultiHeadAttention(2, 5, positions="rotary")(*[np.ones((1, 2, 3), "float32")] * 2)


class TestAlibiPositions(RelativeCase):
    covers = AlibiPositions
    registered = "alibi"

    def added(self, weights: Weights, query: Array, key: Array, head: int, t: int, s: int) -> Array:
        slope = (1 / 4, 1 / 16, 1 / 64, 1 / 256)[head]
        return (query * key).sum(-1) / np.sqrt(D) - slope * abs(t - s)

    def test_worked_by_hand(self) -> None:
        """Eight heads: slopes 1/2 to 1/256; biases of the third position as in the paper."""
        bias = array(AlibiPositions().bias(ops.zeros((1, 8, 3, 2)), 3))[0]
        for head in range(8):
            slope = 2.0 ** -(head + 1)
            assert bias[head, 2].tolist() == [-2 * slope, -slope, 0]
            assert bias[head, 0].tolist() == [0, -slope, -2 * slope]

    def test_head_counts_that_are_not_powers_of_two(self) -> None:
        """Six heads: the slopes of 4 heads, then the first and third of 8."""
        bias = array(AlibiPositions().bias(ops.zeros((1, 6, 2, 2)), 2))[0, :, 0, 1]
        assert bias.tolist() == [-1 / 4, -1 / 16, -1 / 64, -1 / 256, -1 / 2, -1 / 8]


class TestT5Positions(RelativeCase):
    covers = T5Positions
    registered = "t5"
    options = {"num_buckets": 8, "max_distance": 6}
    changed = {"bidirectional": False, "num_buckets": 10, "max_distance": 20}

    def added(self, weights: Weights, query: Array, key: Array, head: int, t: int, s: int) -> Array:
        """Each direction: 0, 1, 2 to 3, then 4 (2 * (6 / 2)^(1 / 2) = 3.46) and more."""
        bucket = {0: 0, 1: 1, 2: 2, 3: 2}.get(abs(s - t), 3)
        bias = weights["bucket_bias"][bucket + (4 if s > t else 0), head]
        return (query * key).sum(-1) / np.sqrt(D) + bias

    @pytest.mark.parametrize("bidirectional", [True, False])
    def test_relative_position_buckets_follow_the_reference_implementation(
        self, bidirectional: bool
    ) -> None:
        """The reference formula, with a logarithm, for all distances from -200 to 200."""
        layer = T5Positions(bidirectional)
        distance = np.arange(-200, 201)
        got = array(layer.bucket(ops.convert_to_tensor(distance.astype("int32"))))
        behind, buckets, expected = -distance, 32, np.zeros(401, int)
        if bidirectional:
            buckets = 16
            expected += (behind < 0) * 16
            behind = np.abs(behind)
        behind = np.maximum(behind, 0)
        exact = buckets // 2
        grown = np.log(np.maximum(behind, 1).astype("float32") / exact) / math.log(128 / exact)
        far = np.minimum(exact + (grown * (buckets - exact)).astype(int), buckets - 1)
        expected += np.where(behind < exact, behind, far)
        np.testing.assert_array_equal(got, expected)

    def test_worked_by_hand(self) -> None:
        """Two buckets for each direction: distance 0, and all others."""
        layer = T5Positions(num_buckets=4, max_distance=2)
        layer.build((1, 1, 3, 2), (1, 1, 3, 2))
        layer.set_weights([np.array([[1.0], [2.0], [30.0], [40.0]])])
        bias = array(layer.bias(ops.zeros((1, 1, 3, 2)), 3))[0, 0]
        assert bias.tolist() == [[1, 40, 40], [2, 1, 40], [2, 2, 1]]

    def test_one_object_is_shared_by_layers(self) -> None:
        shared = T5Positions()
        first, second = (MultiHeadAttention(2, 4, positions=shared) for _ in range(2))
        x = np.ones((1, 3, 4), "float32")
        model = keras.Sequential([keras.Input((3, 4))])
        model.first, model.second = first, second
        second(first(x, x), x)
        assert first.positions.bucket_bias is second.positions.bucket_bias


class TestShawPositions(RelativeCase):
    covers = ShawPositions
    registered = "shaw"
    options = {"max_distance": 2}
    changed = {"max_distance": 3, "use_values": False}

    def added(self, weights: Weights, query: Array, key: Array, head: int, t: int, s: int) -> Array:
        vector = weights["key_table"][min(max(s - t, -2), 2) + 2]
        return (query * (key + vector)).sum(-1) / np.sqrt(D)

    def test_values_by_hand(self) -> None:
        """All weights of the second of three positions are 1/3: (c_-1 + c_0 + c_1) / 3."""
        layer = ShawPositions(max_distance=1)
        layer.build((1, 1, 3, 1), (1, 1, 3, 1))
        layer.set_weights([np.zeros((3, 1)), np.array([[3.0], [30.0], [300.0]])])
        weights = ops.convert_to_tensor(np.full((1, 1, 3, 3), 1 / 3, "float32"))
        got = array(layer.offset(weights))[0, 0, :, 0]
        np.testing.assert_allclose(got, [(30 + 600) / 3, 333 / 3, (6 + 30) / 3], rtol=1e-6)

    def test_value_dim_is_unconstrained_without_value_table(self) -> None:
        MultiHeadAttention(2, 4, value_dim=5, positions=ShawPositions(use_values=False))


class HeadsWithPositions(MultiHeadCase, PaddingConformance):
    """Outputs, gradients and padding of layers with grouped keys."""

    options = {"num_heads": H, "key_dim": D, "num_key_value_heads": 2}
    heads, groups = H, 2
    alone: ClassVar[type[RelativeCase]]
    """The case of the positions, which has the oracle."""

    def make(self, **options: Any) -> MultiHeadAttention:
        positions = self.alone().make(dtype=options.get("dtype"))
        return super().make(positions=positions, **options)

    def head_scores(self, weights: Weights, query: Array, key: Array, head: int) -> Array:
        scores = np.zeros((len(query), query.shape[1], key.shape[1]))
        for t, s in np.ndindex(scores.shape[1:]):
            scores[:, t, s] = self.alone().added(weights, query[:, t], key[:, s], head, t, s)
        return scores


class TestRotaryHeads(HeadsWithPositions):
    alone = TestRotaryPositions


class TestAlibiHeads(HeadsWithPositions):
    alone = TestAlibiPositions


class TestT5Heads(HeadsWithPositions):
    alone = TestT5Positions


class TestShawHeads(HeadsWithPositions):
    alone = TestShawPositions

    def head_context(self, weights: Weights, attention_weights: Array, value: Array) -> Array:
        """Equation 3, for each pair of positions."""
        context = np.zeros((*attention_weights.shape[:2], D))
        for t, s in np.ndindex(attention_weights.shape[1:]):
            vector = weights["value_table"][min(max(s - t, -2), 2) + 2]
            context[:, t] += attention_weights[:, t, s, None] * (value[:, s] + vector)
        return context


class OnEmbeddings(keras.layers.Layer):
    """Multi-head attention over sources with absolute positions."""

    def __init__(self, places: keras.layers.Layer) -> None:
        super().__init__()
        self.places, self.heads = places, MultiHeadAttention(2, 4)

    def call(self, query: Any, value: Any) -> Any:
        return self.heads(query, self.places(value))


ORDERED = {
    "sinusoidal": lambda: OnEmbeddings(SinusoidalPositions()),
    "learned": lambda: OnEmbeddings(LearnedPositions(max_length=S)),
    **{
        name: lambda name=name: MultiHeadAttention(2, 4, positions=name)
        for name in POSITIONS.names()
    },
}


def reordered(layer: Any) -> tuple[Array, Array]:
    """Return outputs for sources and for the same sources in another order."""
    rng = np.random.default_rng(0)
    query = rng.normal(size=(B, T, 6)).astype("float32")
    value = rng.normal(size=(B, S, 6)).astype("float32")
    build_random(layer, query, value)
    return array(layer(query, value)), array(layer(query, value[:, rng.permutation(S)]))


def test_attention_without_positions_ignores_order() -> None:
    before, after = reordered(MultiHeadAttention(2, 4))
    close(after, before, 1e-6)


@pytest.mark.parametrize("name", ORDERED)
def test_attention_with_positions_depends_on_order(name: str) -> None:
    before, after = reordered(ORDERED[name]())
    assert np.abs(after - before).max() > 1e-2 * np.abs(before).max()


def states() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return tuple(rng.normal(size=(B, n, 6)).astype("float32") for n in (T, S))


@needs_dynamic_shapes
@pytest.mark.parametrize("positions", POSITIONS.names())
def test_heads_of_unknown_lengths(positions: str) -> None:
    layer, tensors = MultiHeadAttention(2, 4, positions=positions), states()
    build_random(layer, *tensors)
    for mode in ("graph", "xla"):
        run = with_dynamic_shapes(layer, (None, None, 6), (None, None, 6), mode=mode)
        close(run(*tensors), layer(*tensors), 1e-6)
        assert not array(run(tensors[0], tensors[1][:, :0])).any()


@pytest.mark.parametrize("positions", POSITIONS.names())
def test_sequential_steps_use_their_positions(positions: str) -> None:
    layer = MultiHeadAttention(2, 4, alignment="monotonic", positions=positions)
    query, value = states()
    build_random(layer, query, value)
    _, weights = layer(query, value, return_attention_scores=True)
    memory = layer.prepare(ops.convert_to_tensor(value))
    scores = layer.compute_scores(
        layer.project_query(ops.convert_to_tensor(query)), memory.keys, ()
    )
    state = layer.alignment.initial_state(layer.weights_like(memory))
    for t in range(T):
        row, state = layer.alignment.call(scores[:, :, t], state=state)
        close(row, array(weights)[:, :, t], 1e-5)


def test_rotary_positions_with_windows_and_stateful_scores() -> None:
    query, value = states()
    for options in ({"alignment": "local_predictive"}, {"score": "coverage"}):
        layers = [MultiHeadAttention(2, 4, positions=p, **options) for p in ("rotary", None)]
        for layer in layers:
            build_random(layer, query, value)
        assert np.abs(array(layers[0](query, value)) - array(layers[1](query, value))).max() > 1e-3


@pytest.mark.parametrize("positions", ["alibi", "t5", "shaw"])
def test_incompatible_options_are_rejected(positions: str) -> None:
    query, value = states()
    with pytest.raises(ValueError, match=r"position bias .*, which a stateful score does not"):
        MultiHeadAttention(2, 4, score="coverage", positions=positions)
    layer = MultiHeadAttention(2, 4, alignment="local_predictive", positions=positions)
    with pytest.raises(ValueError, match='scores only a window; use positions="rotary"'):
        layer(query, value)


@pytest.mark.parametrize("positions", POSITIONS.names())
def test_single_steps_are_rejected(positions: str) -> None:
    layer, (query, value) = MultiHeadAttention(2, 4, positions=positions), states()
    layer(query, value)
    memory = layer.prepare(ops.convert_to_tensor(value))
    with pytest.raises(ValueError, match="`attend` does not know the query position"):
        layer.attend(ops.convert_to_tensor(query[:, 0]), memory)
    decoder = RecurrentDecoder(AttentionCell(keras.layers.GRUCell(6), layer))
    with pytest.raises(ValueError, match="`attend` does not know the query position"):
        decoder(query, value)


@pytest.mark.parametrize("name", POSITIONS.names())
def test_single_position_equals_a_row_of_the_sequence(name: str) -> None:
    """As in a search step: queries at one position, and distances from it."""
    positions, position = POSITIONS.get(name)(), 2
    shape = (B, H, S, D)
    positions.build(shape, shape)
    randomise(positions)
    rng = np.random.default_rng(0)
    x = ops.convert_to_tensor(rng.normal(size=shape).astype("float32"))
    attention_weights = ops.convert_to_tensor(rng.random((B, H, S, S)).astype("float32"))
    distances = ops.arange(S, dtype="int32") - position
    row = slice(position, position + 1)
    rotated = positions.transform(
        x[:, :, row], ops.convert_to_tensor(np.array([position], "int32"))
    )
    close(rotated, array(positions.transform(x))[:, :, row], 1e-6)
    close(
        positions.transform(x, ops.arange(S, dtype="int32") + 3)[:, :, :2],
        array(positions.transform(ops.concatenate([x[:, :, :3], x], axis=2)))[:, :, 3:5],
        1e-6,
    )
    for got, every in (
        (positions.bias_at(x[:, :, row], distances), positions.bias(x, S)),
        (
            positions.offset_at(attention_weights[:, :, row], distances),
            positions.offset(attention_weights),
        ),
    ):
        assert (got is None) is (every is None)
        if every is not None:
            close(got, array(every)[:, :, row], 1e-6)


@pytest.mark.parametrize("name", POSITIONS.names())
def test_causal_positions_are_unidirectional(name: str) -> None:
    causal = make_positions(name, "float16", causal=True)
    assert type(causal) is type(make_positions(name)) is POSITIONS.get(name)
    assert causal.dtype_policy.name == "float16"
    assert getattr(causal, "bidirectional", False) is False
    assert make_positions(causal, causal=True) is causal


def test_custom_positions() -> None:
    """User-defined positions in three lines: a bias by distance."""

    class Near(RelativePositions):
        def bias(self, query: Any, sources: Any) -> Any:
            steps = ops.arange(ops.shape(query)[-2])[:, None]
            same_place = ops.equal(ops.arange(sources)[None], steps)
            return ops.where(same_place, 1e4, 0.0)[None, None]

    query, value = states()
    _, weights = MultiHeadAttention(2, 4, positions=Near())(
        query, value, return_attention_scores=True
    )
    np.testing.assert_allclose(array(weights)[0, 0], np.eye(T, S), atol=1e-6)
    one = ops.zeros((1, 1, 1, 2))
    with pytest.raises(ValueError, match="Near overrides bias but not bias_at, which step-by-step"):
        Near().bias_at(one, ops.arange(3))
    assert Near().offset_at(one, ops.arange(2)) is None
