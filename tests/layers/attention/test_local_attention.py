from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from keras import ops

from attention_zoo.layers import (
    Attention,
    LocalAttention,
    LocalPredictiveAlignment,
    MultiHeadAttention,
)
from attention_zoo.layers.alignments.local import unmasked_span
from attention_zoo.layers.attention.steps import Memory
from tests.layers.attention_case import (
    ATTENTION_MASK,
    OTHER_MASK,
    QUERY_MASK,
    VALUE_MASK,
    Array,
    AttentionCase,
    B,
    Result,
    S,
    T,
    Weights,
    additive_scores,
    numbers,
    softmax,
)
from tests.layers.attention_conformance import (
    FullyMaskedRowConformance,
    NumericConformance,
    PaddingConformance,
    StepConformance,
)
from tests.layers.conformance import AttentionConformance
from tests.layers.mask_conformance import MaskConformance, masked
from tests.layers.running import JAX, array, build_random, close, differentiable, normal
from tests.layers.stateful_conformance import InDecoderConformance
from tests.layers.wrapper_conformance import WrapperConformance


def local_p(scores: Array, share: Array, mask: Array, reach: int, span: Any = None) -> Array:
    """Equations 9 and 10 of Luong et al. over all positions; `share` is the sigmoid `(..., T)`."""
    positions = np.arange(scores.shape[-1])
    centre = (scores.shape[-1] if span is None else span) * share[..., None]
    in_window = softmax(scores, mask & (np.abs(positions - centre) <= reach))
    return in_window * np.exp(-((positions - centre) ** 2) / (2 * (reach / 2) ** 2))


def predicted(weights: Weights, query: Array) -> Array:
    hidden = np.tanh(query @ weights["position_kernel"]) @ weights["position_v"]
    return 1 / (1 + np.exp(-hidden))


class LocalAttentionConformance(AttentionCase):
    """A value mask at either end of the memory moves the window, an attention mask does not.

    So a value mask is not equal to the same mask as an attention mask, as in other layers.
    """

    sums_to_one = False
    tolerance = 1e-5  # a predicted position multiplies rounding errors by the length of the memory

    def test_gradients_are_finite_differences(self) -> None:
        """On JAX, where steps are long, with a window that no position leaves within a step."""
        case = type(self)()
        if JAX:
            case.options = {**self.options, "window": S}
        super(LocalAttentionConformance, case).test_gradients_are_finite_differences()

    def test_attention_bias_is_added_to_the_scores(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        bias = np.random.default_rng(6).normal(size=(B, T, S)).astype("float32")
        scores = self.scores
        self.scores = lambda *args: scores(*args) + bias
        expected = self.oracle(numbers(layer), tensors, np.ones((B, T, S), "bool"))
        close(self.attend(layer, *tensors, attention_bias=bias), expected, self.tolerance)

    def test_all_masks_combine_by_and(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        per_tensor = {"query_mask": QUERY_MASK, "value_mask": VALUE_MASK & OTHER_MASK}
        causal = np.tril(np.ones((T, S), "bool"))
        expected = self.attend(
            layer, *tensors, **per_tensor, attention_mask=ATTENTION_MASK & causal
        )
        per_tensor = {"query_mask": QUERY_MASK, "value_mask": VALUE_MASK, "key_mask": OTHER_MASK}
        pairs = {"attention_mask": ATTENTION_MASK, "use_causal_mask": True}
        got = self.attend(layer, *tensors, **per_tensor, **pairs)
        close(got[0], expected[0], 1e-6)
        close(got[1], expected[1], 1e-6)
        hidden = (
            (VALUE_MASK & OTHER_MASK)[:, None] & QUERY_MASK[:, :, None] & ATTENTION_MASK & causal
        )
        assert not got[1][~hidden].any()

    def test_implicit_mask_is_kept_for_a_second_layer(self) -> None:
        first, second = self.make_random(), self.make_random()
        query, value, key = self.tensors()
        shared, keys = masked(value, VALUE_MASK), masked(key, OTHER_MASK)
        expected = self.attend(first, query, value, key, value_mask=VALUE_MASK & OTHER_MASK)
        for layer in (first, first, second):
            got = self.attend(layer, query, shared, keys)
            close(got[0], expected[0], 1e-6)


class TestLocalAttention(
    LocalAttentionConformance, AttentionConformance, InDecoderConformance, WrapperConformance
):
    covers = LocalAttention
    options = {"score": "additive", "window": 2, "units": 8}
    changed = {
        "score": "concat",
        "window": 3,
        "kind": "monotonic",
        "units": 9,
        "dropout": 0.3,
        "seed": 5,
    }

    def scores(self, weights: Weights, query: Array, key: Array) -> Array:
        return additive_scores(weights, query, key)

    def oracle(self, weights: Weights, tensors: tuple[Array, ...], mask: Array) -> Result:
        query, value, key = (x.astype("float64") for x in tensors)
        attention_weights = local_p(
            self.scores(weights, query, key), predicted(weights, query), mask, 2
        )
        return attention_weights @ value, attention_weights

    def equivalent(self) -> Attention:
        return Attention("general", "local_predictive")


class TestGeneralLocalAttention(LocalAttentionConformance, NumericConformance):
    """The general score of the paper."""

    covers = LocalAttention
    options = {"window": 2}

    oracle = TestLocalAttention.oracle

    def scores(self, weights: Weights, query: Array, key: Array) -> Array:
        return query @ (key @ weights["key_kernel"]).swapaxes(1, 2)


class TestMonotonicLocalAttention(
    LocalAttentionConformance, NumericConformance, InDecoderConformance
):
    covers = LocalAttention
    options = {"score": "additive", "window": 1, "kind": "monotonic", "units": 8}
    scores = TestLocalAttention.scores

    def oracle(self, weights: Weights, tensors: tuple[Array, ...], mask: Array) -> Result:
        query, value, key = (x.astype("float64") for x in tensors)
        positions, steps = np.arange(value.shape[1]), np.arange(query.shape[1])
        in_window = np.abs(positions - steps[:, None]) <= 1
        attention_weights = softmax(self.scores(weights, query, key), mask & in_window)
        return attention_weights @ value, attention_weights


@pytest.mark.full
class TestMasksOfMonotonicLocalAttention(
    LocalAttentionConformance,
    MaskConformance,
    FullyMaskedRowConformance,
    PaddingConformance,
    StepConformance,
):
    covers = LocalAttention
    options = TestMonotonicLocalAttention.options
    test_gradients_are_finite_differences = None
    test_attention_bias_is_added_to_the_scores = None


def make_aimed_layer(window: int, share: float, **options: Any) -> LocalAttention:
    """Return a layer with `score = q . k` for width 1 and centre `share` of S for query 1."""
    layer = LocalAttention("dot", window=window, **options)
    layer(np.ones((1, 1, 1), "float32"), np.ones((1, 1, 1), "float32"))
    logit = np.log(share / (1 - share)) if 0 < share < 1 else 200 * (share - 0.5)
    layer.alignment.position_kernel.assign([[100.0]])
    layer.alignment.position_v.assign([logit])
    return layer


def test_local_p_by_hand() -> None:
    """S = 8, p = 4, D = 2, sigma = 1: positions 2 to 6 at distances 2, 1, 0, 1, 2."""
    value = np.log(np.array([9, 9, 1, 2, 4, 2, 1, 9], "float32"))[None, :, None]
    query = np.ones((1, 1, 1), "float32")
    context, weights = make_aimed_layer(2, 0.5)(query, value, return_attention_scores=True)
    half, two = np.exp(-0.5), np.exp(-2)
    expected = [0, 0, 0.1 * two, 0.2 * half, 0.4, 0.2 * half, 0.1 * two, 0]
    np.testing.assert_allclose(array(weights)[0, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(array(context)[0, 0, 0], value[0, :, 0] @ expected, rtol=1e-5)


def test_local_p_by_hand_between_two_positions() -> None:
    """S = 5, p = 2.5, D = 1: positions 2 and 3 at distance 1/2, sigma = 1/2."""
    query, value = np.ones((1, 1, 1), "float32"), np.zeros((1, 5, 1), "float32")
    _, weights = make_aimed_layer(1, 0.5)(query, value, return_attention_scores=True)
    each = 0.5 * np.exp(-0.5)
    np.testing.assert_allclose(array(weights)[0, 0], [0, 0, each, each, 0], rtol=1e-5)


def test_local_m_by_hand() -> None:
    value = np.log(np.array([[1.0, 2, 4, 8]], "float32"))[..., None]
    query = np.ones((1, 6, 1), "float32")
    layer = LocalAttention("dot", window=1, kind="monotonic")
    _, weights = layer(query, value, return_attention_scores=True)
    expected = [
        [1 / 3, 2 / 3, 0, 0],
        [1 / 7, 2 / 7, 4 / 7, 0],
        [0, 1 / 7, 2 / 7, 4 / 7],
        [0, 0, 1 / 3, 2 / 3],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
    ]
    np.testing.assert_allclose(array(weights)[0], expected, atol=1e-6)


def test_local_m_counts_unmasked_queries_and_positions() -> None:
    """Two padding positions before the memory, one before the queries and one among them."""
    layer = LocalAttention("dot", window=0, kind="monotonic")
    query, value = np.ones((1, 5, 1), "float32"), np.arange(6, dtype="float32")[None, :, None]
    masks = {
        "query_mask": np.array([[0, 1, 1, 0, 1]], "bool"),
        "value_mask": np.array([[0, 0, 1, 1, 1, 1]], "bool"),
    }
    context, (_, (step,)) = layer(query, value, **masks, return_state=True)
    assert array(context)[0, :, 0].tolist() == [0, 2, 3, 0, 4]
    assert array(step).tolist() == [[3]]


def test_local_m_continues_after_an_empty_window() -> None:
    """A masked range wider than the window: steps in it are fully masked, later ones are not."""
    layer = LocalAttention("dot", window=0, kind="monotonic")
    query, value = np.ones((1, 4, 1), "float32"), np.arange(1, 5, dtype="float32")[None, :, None]
    mask = np.array([[1, 0, 0, 1]], "bool")
    assert array(layer(query, value, value_mask=mask))[0, :, 0].tolist() == [1, 0, 0, 4]
    memory = layer.prepare(value, value_mask=mask)
    state, attended = layer.initial_state(memory), []
    for _ in range(4):
        context, _, state = layer.attend(query[:, 0], memory, state)
        attended.append(float(array(context)[0, 0]))
    assert attended == [1, 0, 0, 4]


@pytest.mark.parametrize("window", [0, 1, 3, 50])
@pytest.mark.parametrize("share", [0, 1e-3, 0.5, 0.999, 1])
@pytest.mark.parametrize("sources", [1, 2, 7])
def test_any_window_at_any_centre(window: int, share: float, sources: int) -> None:
    layer, query = make_aimed_layer(window, share), np.ones((1, 1, 1), "float32")
    value = np.random.default_rng(0).normal(size=(1, sources, 1)).astype("float32")
    run = differentiable(layer, lambda q, v: layer(q, v, return_attention_scores=True))
    (_, weights), by_inputs, by_weights = run(query, value)
    centre = sources * share
    in_window = np.abs(np.arange(sources) - centre) <= window
    if window == 0:
        in_window = np.arange(sources) == min(np.rint(centre), sources - 1)
    assert weights.sum() > 0.1
    if centre % 1 != 0.5 or window:  # rounding decides between two equal positions
        assert (weights[0, 0] > 0).tolist() == in_window.tolist()
    assert all(np.isfinite(x).all() for x in (*by_inputs, *by_weights))
    if 0 < share < 1 and (window or centre % 1):
        assert by_weights[1].any(), "the centre learns"


@pytest.mark.parametrize("kind", ["predictive", "monotonic"])
def test_window_with_masked_centre(kind: str) -> None:
    layer = LocalAttention("dot", window=2, kind=kind)
    query, value = np.zeros((2, 3, 4), "float32"), np.ones((2, 6, 4), "float32")
    mask = np.array([[1, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]], "bool")
    run = differentiable(
        layer, lambda q, v: layer(q, v, value_mask=mask, return_attention_scores=True)
    )
    (context, weights), by_inputs, by_weights = run(query, value)
    assert not weights[0][:, ~mask[0]].any()
    assert not weights[1].any()
    assert not context[1].any()
    if kind == "monotonic":  # steps 0, 1 and 2 attend to position 0
        np.testing.assert_allclose(weights[0, :, 0], 1, rtol=1e-6)
    assert all(np.isfinite(x).all() for x in (*by_inputs, *by_weights))


def test_each_row_uses_its_own_length() -> None:
    layer = make_aimed_layer(1, 0.5)
    query, value = np.ones((4, 1, 1), "float32"), np.zeros((4, 8, 1), "float32")
    spans = [(0, 8), (0, 4), (2, 8), (5, 6)]
    mask = np.array([[lo <= s < hi for s in range(8)] for lo, hi in spans])
    _, weights = layer(query, value, value_mask=mask, return_attention_scores=True)
    for row, (lo, hi) in zip(array(weights), spans, strict=True):
        expected = local_p(
            np.zeros((1, hi - lo)), np.array([0.5]), np.ones((1, hi - lo), "bool"), 1
        )
        np.testing.assert_allclose(row[0, lo:hi], expected[0], rtol=1e-5)
        assert not row[0, :lo].any()
        assert not row[0, hi:].any()


def test_span_covers_first_to_last_valid_position() -> None:
    mask = np.array([[0, 1, 0, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], "bool")
    for heads in ((), (2,)):
        values = ops.zeros((3, *heads, 5, 1))
        first, length = unmasked_span(Memory(values, values, ops.convert_to_tensor(mask)))
        assert tuple(first.shape) == tuple(length.shape) == (3, *(1,) * len(heads), 1, 1)
        assert array(first).ravel().tolist()[:2] == [1, 0]
        assert array(length).ravel().tolist() == [3, 5, 0]
    first, length = unmasked_span(Memory(values, values, None))
    assert (int(first), int(length)) == (0, 5)


def test_distant_centre_in_half_precision() -> None:
    """float16 has no odd integers above 2048: the centre is computed in float32."""
    for dtype in ("float16", "bfloat16"):
        layer = make_aimed_layer(3, 7001 / 8192, dtype=dtype)
        share = array(ops.sigmoid(ops.cast(layer.alignment.position_v, "float32")))[0]
        query, value = np.ones((1, 1, 1), "float32"), np.zeros((1, 8192, 1), "float32")
        _, weights = layer(query, value, return_attention_scores=True)
        attended = np.flatnonzero(array(weights)[0, 0])
        assert attended.tolist() == list(
            range(int(np.ceil(8192 * share - 3)), int(8192 * share) + 4)
        )


@pytest.mark.parametrize("score", ["general", "additive", "dot"])
@pytest.mark.parametrize("kind", ["predictive", "monotonic"])
def test_windowed_path_equals_the_full_path(score: str, kind: str) -> None:
    """If windows cover fewer positions than S, only keys in windows are projected."""
    layer = LocalAttention(score, window=2, kind=kind)
    query, value = normal((2, 4, 6), (2, 80, 6))
    mask = np.arange(80) < np.array([[80], [50]])
    build_random(layer, query, value)
    assert layer.prepare(value, None, mask, num_queries=4).keys is None
    assert layer.prepare(value, None, mask, num_queries=40).unprojected is None
    few = differentiable(layer, lambda q, v: layer(q, v, value_mask=mask))(query, value)

    def one_by_one(query: Any, value: Any) -> Any:
        memory, contexts = layer.prepare(value, value_mask=mask), []
        state = layer.initial_state(memory)
        for t in range(4):
            context, _, state = layer.attend(query[:, t], memory, state)
            contexts.append(context)
        return ops.stack(contexts, axis=1)

    all_projected = differentiable(layer, one_by_one)(query, value)
    close(few, all_projected, 2e-5)


@pytest.mark.skipif(JAX, reason="inspects TensorFlow's graph")
@pytest.mark.parametrize("kind", ["predictive", "monotonic"])
def test_no_tensor_of_all_query_memory_pairs_is_created(kind: str) -> None:
    """With few queries, no second tensor of the memory's size is created either, in both passes."""
    import tensorflow as tf

    steps, sources, width = 5, 1009, 8
    layer = LocalAttention(window=2, kind=kind)
    query, value = tf.ones((1, steps, width)), tf.ones((1, sources, width))
    layer(query, value)

    def by_weights(query: Any, value: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(query, value, value_mask=tf.ones((1, sources), "bool")))
        return tape.gradient(loss, [v.value for v in layer.trainable_variables])

    graph = tf.function(by_weights, autograph=False).get_concrete_function(query, value).graph
    sizes = {
        t.name: t.shape.num_elements()
        for op in graph.get_operations()
        for t in op.outputs
        if t.dtype.is_floating and t.shape.num_elements()
    }
    assert max(sizes.values()) == sources * width, "the memory itself"
    of_memory = [name for name, size in sizes.items() if size > sources]
    assert {name.split("/")[-1].split(":")[0].rstrip("0123456789_") for name in of_memory} <= {
        "value",
        "SelectV",  # the memory with masked positions set to 0
        "Reshape",
    }


def test_dropout_applies_to_the_window() -> None:
    """The dropout mask is `(B, T, 2 D + 1)`, and weights are dropped or doubled."""
    layer = LocalAttention("dot", window=2, dropout=0.5, seed=1)
    states = np.eye(7, dtype="float32")[None]
    layer(states, states)
    memory = layer.prepare(states)
    assert tuple(layer.sample_noise(memory, 3, True).dropout_mask.shape) == (1, 3, 5)
    context, weights = layer(states, states, return_attention_scores=True, training=True)
    ratio = array(context)[array(weights) > 0] / array(weights)[array(weights) > 0]
    np.testing.assert_allclose(np.unique(np.round(ratio, 4)), [0, 2])


def test_window_is_required() -> None:
    with pytest.raises(ValueError, match="local_predictive needs aux, the window"):
        LocalPredictiveAlignment()(np.zeros((1, 21), "float32"))


def test_centre_units_are_configurable() -> None:
    layer = Attention(score="dot", alignment=LocalPredictiveAlignment(units=3))
    layer(np.ones((1, 2, 4), "float32"), np.ones((1, 2, 4), "float32"))
    shapes = {v.name: tuple(v.shape) for v in layer.weights}
    assert shapes == {"position_kernel": (4, 3), "position_v": (3,)}


def test_value_mask_moves_the_window_but_attention_mask_does_not() -> None:
    layer = make_aimed_layer(0, 0.4)
    query, value = np.ones((1, 1, 1), "float32"), np.arange(1, 11, dtype="float32")[None, :, None]
    half = np.arange(10)[None] < 5
    assert float(array(layer(query, value))[0, 0, 0]) == 5
    assert float(array(layer(query, value, value_mask=half))[0, 0, 0]) == 3
    assert float(array(layer(query, value, attention_mask=half[:, None]))[0, 0, 0]) == 5


@pytest.mark.parametrize("make", [Attention, partial(MultiHeadAttention, 2, 4)])
def test_nan_query_gives_nan(make: Any) -> None:
    """The window of a NaN query is unknown; the output is 0 only with a fully masked memory."""
    query, value = normal((3, 2, 4), (3, 20, 4))
    query[:2, 0] = np.nan
    mask = np.arange(20) >= np.array([[12], [20], [0]])
    layer = make(score="dot", alignment=LocalPredictiveAlignment(2))
    context, weights = layer(query, value, value_mask=mask, return_attention_scores=True)
    is_nan = np.isnan(array(context)).any(-1)
    assert is_nan.tolist() == [[True, False], [False, False], [False, False]]
    assert np.isnan(array(context)[0, 0]).all()
    assert np.isnan(array(weights)[0, ..., 0, :]).any()
    assert not array(weights)[0, ..., :12].any()
    assert not array(context)[1].any()
