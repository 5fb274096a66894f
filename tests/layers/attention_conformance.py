"""Masking rules and numerics of every attention layer."""

from __future__ import annotations

from typing import Any, ClassVar

import keras
import numpy as np
import pytest
from keras import ops

from tests.layers.attention_case import (
    ATTENTION_MASK,
    OTHER_MASK,
    QUERY_MASK,
    VALUE_MASK,
    AttentionCase,
    B,
    S,
    T,
    garbage,
    numbers,
)
from tests.layers.layer_conformance import LayerConformance, WithTrainingArgument
from tests.layers.mask_conformance import MaskConformance
from tests.layers.masking_rules import masking_rule
from tests.layers.running import (
    JAX,
    MODES,
    POLICIES,
    WIDE,
    all_finite,
    array,
    build_random,
    check_gradients,
    close,
    differentiable,
    full_product,
    label,
    pairwise,
    quick,
    randomise,
    same,
)
from tests.tiers import FULL, ORACLE_CASES

FULLY_MASKED_AXES: dict[str, tuple[Any, ...]] = {
    "policy": ("float32", "mixed_float16") if JAX else POLICIES,
    "mode": MODES[1:] if JAX else MODES,
    "scores": (True, False),
    "dropout": (0.0, 0.1),
}


class FullyMaskedRowConformance(AttentionCase):
    """Rule 4: fully masked rows give zeros and zero gradients."""

    @pytest.mark.every_backend
    @pytest.mark.parametrize("case", pairwise(FULLY_MASKED_AXES), ids=label)
    def test_fully_masked(self, case: dict[str, Any]) -> None:
        check_fully_masked_rows(self, **case)

    @pytest.mark.soak
    @pytest.mark.parametrize("case", full_product(FULLY_MASKED_AXES), ids=label)
    def test_fully_masked_in_all_combinations(self, case: dict[str, Any]) -> None:
        check_fully_masked_rows(self, **case)


@masking_rule(4)
def check_fully_masked_rows(
    case: AttentionCase, policy: str, mode: str, scores: bool, dropout: float
) -> None:
    """Mask the memory of row 1 and query 2 of row 0; compare with the unmasked call.

    Gradients of the other rows must not change at all; those of masked tensors are exactly 0.
    """
    keras.config.set_dtype_policy(policy)
    layer = case.make_random(dropout=dropout)

    def call(query: Any, value: Any, key: Any, value_mask: Any, look_mask: Any) -> Any:
        masks = {"value_mask": value_mask, "attention_mask": look_mask}
        inputs = {"return_attention_scores": scores, "training": False, **masks}
        return case.one_head(layer(query, value, key, **inputs))

    run = differentiable(layer, call, mode)
    tensors = case.tensors()
    memory, attention_mask = np.ones((B, S), "bool"), np.ones((B, T, S), "bool")
    memory[2, 3:] = False
    unmasked, unmasked_grads, _ = run(*tensors, memory, attention_mask)
    memory[1], attention_mask[0, 2] = False, False
    outputs, grads, weight_grads = run(*tensors, memory, attention_mask)

    for output, before in zip(
        keras.tree.flatten(outputs), keras.tree.flatten(unmasked), strict=True
    ):
        assert not output[1].any()
        assert not output[0, 2].any()
        same(output[2], before[2])
        others = [0, 1] if layer.is_stateful else [0, 1, 3]
        same(output[0, others], before[0, others])
    assert all(np.isfinite(x).all() for x in [*grads, *weight_grads])
    query, value, key = grads
    assert not query[1].any()
    assert not query[0, 2].any()
    for hidden in (value, key):
        assert not hidden[1].any()
        assert not hidden[2, 3:].any()
    for gradient, before in zip(grads, unmasked_grads, strict=True):
        same(gradient[2], before[2])


class PaddingConformance(AttentionCase):
    """Rules 3 and 5: masked positions have zero weight and do not affect outputs."""

    @pytest.mark.every_backend
    @pytest.mark.parametrize("policy", ["float32", "float16", "bfloat16"])
    @masking_rule(3)
    def test_masked_positions_have_zero_weight_at_large_scores(self, policy: str) -> None:
        keras.config.set_dtype_policy(policy)
        layer = self.make()
        query, value, key = self.tensors(scale=200)
        layer(query, value, key)
        for sign in (1, -1):
            context, weights = self.attend(
                layer, sign * query, value, key, value_mask=VALUE_MASK, key_mask=OTHER_MASK
            )
            allowed = (VALUE_MASK & OTHER_MASK)[:, None] & np.ones((B, T, S), "bool")
            assert np.isfinite(context).all()
            assert np.isfinite(weights).all()
            assert not weights[~allowed].any()
            if self.sums_to_one:
                assert (weights.sum(-1) > 0.98).all()

    @pytest.mark.every_backend
    @pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf])
    def test_values_at_masked_positions_do_not_affect_outputs(self, fill: float) -> None:
        layer, (query, value, key) = self.make_random(), self.tensors()
        hidden = VALUE_MASK & OTHER_MASK
        masks = {"query_mask": QUERY_MASK, "value_mask": VALUE_MASK, "key_mask": OTHER_MASK}
        run = differentiable(
            layer, lambda q, v, k: layer(q, v, k, return_attention_scores=True, **masks)
        )
        clean = [
            garbage(x, m, 0)
            for x, m in zip((query, value, key), (QUERY_MASK, hidden, hidden), strict=True)
        ]
        dirty = [
            garbage(x, m, fill)
            for x, m in zip((query, value, key), (QUERY_MASK, hidden, hidden), strict=True)
        ]
        expected, got = run(*clean), run(*dirty)
        same(got, expected)
        assert all_finite(got)
        for gradient, mask in zip(got[1], (QUERY_MASK, hidden, hidden), strict=True):
            assert not gradient[~mask].any()

    def test_masked_queries_give_zeros(self) -> None:
        context, weights = self.attend(self.make_random(), *self.tensors(), query_mask=QUERY_MASK)
        assert not context[~QUERY_MASK].any()
        assert not weights[~QUERY_MASK].any()

    @pytest.mark.parametrize("pads", [1, 8, 100])
    def test_padding_does_not_affect_outputs(self, pads: int) -> None:
        layer, tensors = self.make_random(), self.tensors()
        expected, attention_weights = self.attend(
            layer, *tensors, value_mask=VALUE_MASK, query_mask=QUERY_MASK
        )
        rng = np.random.default_rng(1)
        padded = [
            np.concatenate([x, 50 * rng.normal(size=(B, pads, x.shape[2]))], 1).astype("float32")
            for x in tensors
        ]
        none = np.zeros((B, pads), "bool")
        got, weights = self.attend(
            layer,
            *padded,
            value_mask=np.concatenate([VALUE_MASK, none], 1),
            query_mask=np.concatenate([QUERY_MASK, none], 1),
        )
        close(got[:, :T], expected, 1e-5)
        close(weights[:, :T, :S], attention_weights, 1e-5)
        assert not got[:, T:].any()
        assert not weights[:, :, S:].any()

    def test_batch_members_do_not_affect_each_other(self) -> None:
        rows, steps = 32, 6
        layer, tensors = self.make_random(), self.tensors(rows, steps, steps, seed=2)
        lengths = np.arange(rows) % steps + 1
        mask = np.arange(steps) < lengths[:, None]
        together, _ = self.attend(layer, *tensors, value_mask=mask, query_mask=mask)
        for row in (0, 9, 16, 31):
            n = lengths[row]
            single, _ = self.attend(layer, *[x[row : row + 1, :n] for x in tensors])
            close(single[0], together[row, :n], 1e-5)

    def test_left_padding_and_causal(self) -> None:
        layer, tensors = self.make_random(), self.tensors(steps=S)
        mask = np.arange(S) >= np.array([0, 2, S])[:, None]
        context, weights = self.attend(
            layer, *tensors, value_mask=mask, query_mask=mask, use_causal_mask=True
        )
        allowed = mask[:, None] & mask[:, :, None] & np.tril(np.ones((S, S), "bool"))
        assert not weights[~allowed].any()
        assert not context[~mask].any()
        single, _ = self.attend(layer, *[x[1:2, 2:] for x in tensors], use_causal_mask=True)
        close(context[1:2, 2:], single, 1e-5)

    def test_causal_attention_ignores_later_positions(self) -> None:
        layer, (query, value, key) = self.make_random(), self.tensors(steps=S)
        before, _ = self.attend(layer, query, value, key, use_causal_mask=True)
        for j in (1, S - 1):
            later = [np.array(x) for x in (query, value, key)]
            for x in later:
                x[:, j:] += 3
            after, _ = self.attend(layer, *later, use_causal_mask=True)
            same(after[:, :j], before[:, :j])
            assert np.abs(after[:, j] - before[:, j]).max() > 1e-3
        past = differentiable(layer, lambda q, v, k: layer(q, v, k, use_causal_mask=True)[:, :3])
        _, grads, _ = past(query, value, key)
        assert all(not gradient[:, 3:].any() for gradient in grads)
        assert all(np.isfinite(gradient).all() for gradient in grads)
        assert grads[1][:, :3].any()


class NumericConformance(AttentionCase):
    """Values and gradients compared with NumPy and finite differences."""

    oracle_cases: ClassVar[int] = ORACLE_CASES

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_oracle(self) -> None:
        rng = np.random.default_rng(7)
        shapes = 4 if JAX else 20 if FULL else 2
        for shape in range(shapes):
            batch, steps, sources = (int(rng.integers(1, 7)) for _ in range(3))
            layer = self.make_random()
            randomise(layer, shape)
            run = quick(
                lambda q, v, k, mask, layer=layer: layer(
                    q, v, k, attention_mask=mask, return_attention_scores=True
                )
            )
            for case in range(self.oracle_cases // shapes):
                seed = self.oracle_cases // shapes * shape + case
                tensors = self.tensors(batch, steps, sources, seed)
                mask = rng.random((batch, steps, sources)) > 0.2
                context, weights = run(*tensors, mask)
                expected, attention_weights = self.oracle(numbers(layer), tensors, mask)
                close(context, expected, self.tolerance)
                close(weights, attention_weights, self.tolerance)

    @pytest.mark.numerics
    @pytest.mark.every_backend
    def test_gradients_are_finite_differences(self) -> None:
        layer = self.make(dtype=WIDE)
        tensors = [x.astype(WIDE) for x in self.tensors()]
        build_random(layer, *tensors)
        masks = {"value_mask": VALUE_MASK, "attention_mask": ATTENTION_MASK}
        if self.uses_scores:
            tensors.append(np.random.default_rng(6).normal(size=(1, T, S)).astype(WIDE))

        def call(q: Any, v: Any, k: Any, bias: Any = None) -> Any:
            return layer(q, v, k, attention_bias=bias, return_attention_scores=True, **masks)

        check_gradients(layer, differentiable(layer, call), tensors)

    def test_attention_bias_is_added_to_the_scores(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        bias = np.random.default_rng(6).normal(size=S).astype("float32")
        if not self.uses_scores:
            with pytest.raises(ValueError, match="attention_bias has no effect"):
                layer(*tensors, attention_bias=bias[None])
            return
        compute_scores = layer.compute_scores
        got = self.attend(layer, *tensors, attention_bias=np.broadcast_to(bias, (T, S)))
        layer.compute_scores = lambda *args: compute_scores(*args) + bias
        close(got, self.attend(layer, *tensors), 1e-6)

    @pytest.mark.parametrize(("policy", "tolerance"), [("float16", 1e-3), ("bfloat16", 6e-3)])
    @masking_rule(4)
    def test_half_precision_over_a_long_memory(self, policy: str, tolerance: float) -> None:
        keras.config.set_dtype_policy(policy)
        layer = self.make()
        tensors = self.tensors(1, 2, 8192, scale=0.5)
        rounded = [ops.cast(ops.convert_to_tensor(x), policy) for x in tensors]
        context, _ = self.attend(layer, *rounded)
        mask = np.ones((1, 2, 8192), "bool")
        exact, _ = self.oracle(numbers(layer), tuple(array(x) for x in rounded), mask)
        assert np.linalg.norm(context - exact) <= tolerance * np.linalg.norm(exact)

    @pytest.mark.every_backend
    @pytest.mark.numerics
    @pytest.mark.parametrize(
        ("batch", "steps", "sources"), [(0, T, S), (B, 0, S), (B, T, 0), (B, T, 1), (B, 1, 1)]
    )
    def test_small_sizes(self, batch: int, steps: int, sources: int) -> None:
        layer, tensors = self.make_random(), self.tensors(batch, steps, sources)
        for masks in ({}, {"value_mask": np.ones((batch, sources), "bool")}):
            context, weights = self.attend(layer, *tensors, use_causal_mask=not masks, **masks)
            assert context.shape == (batch, steps, self.output_width)
            assert weights.shape == (batch, steps, sources)
            assert np.isfinite(context).all()
            if sources == 0:
                assert not context.any()
            if sources == 1 and self.sums_to_one:
                mask = np.ones((batch, steps, 1), "bool")
                close(context, self.oracle(numbers(layer), tensors, mask)[0], 1e-6)


class StepConformance(AttentionCase):
    """Returned weights, dropout, and `prepare` / `attend`."""

    def test_returning_weights_does_not_change_outputs(self) -> None:
        for training in (False, True):
            contexts = []
            for scores in (True, False):
                layer = build_random(self.make(dropout=0.5, seed=3), *self.tensors())
                out = layer(*self.tensors(), return_attention_scores=scores, training=training)
                contexts.append(out[0] if scores else out)
            close(contexts[0], contexts[1], 1e-6)

    def test_dropout_acts_in_training_only(self) -> None:
        plain, layer = self.make_random(), self.make_random(dropout=0.5, seed=3)
        context, weights = self.attend(plain, *self.tensors())
        for training in (None, False):
            same(self.attend(layer, *self.tensors(), training=training)[0], context)
        first, before_dropout = self.attend(layer, *self.tensors(), training=True)
        second, _ = self.attend(layer, *self.tensors(), training=True)
        same(before_dropout, weights)
        assert np.abs(first - context).max() > 1e-3
        assert np.abs(first - second).max() > 1e-3

    @pytest.mark.every_backend
    def test_attend_equals_the_call_step_by_step(self) -> None:
        layer, (query, value, key) = self.make_random(), self.tensors()
        context, weights = self.attend(layer, query, value, key, value_mask=VALUE_MASK)
        memory = layer.prepare(value, key, VALUE_MASK)
        state = layer.initial_state(memory)
        for t in range(T):
            one, row, state = layer.attend(query[:, t], memory, state)
            one, row = self.one_head((one, row))
            close(one, context[:, t], 1e-6)
            close(row, weights[:, t], 1e-6)

    @pytest.mark.every_backend
    def test_steps_work_inside_a_layer_with_dynamic_shapes(self) -> None:
        def attend_once(layer: Any, query: Any, value: Any, key: Any) -> Any:
            memory = layer.prepare(value, key)
            return layer.attend(query[:, 0], memory, layer.initial_state(memory))

        layer, tensors = self.make_random(), self.tensors()
        inputs = [keras.Input((None, x.shape[-1])) for x in tensors]
        outer = WithTrainingArgument(attend_once, layer)
        model = keras.Model(inputs, keras.tree.flatten(outer(inputs)))
        expected = keras.tree.flatten(attend_once(layer, *tensors))
        close(model(list(tensors)), expected, 1e-6)

    def test_hypotheses_do_not_affect_each_other(self) -> None:
        layer, (query, value, key) = self.make_random(), self.tensors()
        memory = layer.prepare(value, key, VALUE_MASK)
        start = layer.initial_state(memory)
        hypotheses = keras.tree.map_structure(
            lambda x: ops.repeat(ops.expand_dims(x, 1), T, axis=1), start
        )
        contexts, weights, after = layer.attend(query, memory, hypotheses)
        for n in range(T):
            one, row, state = layer.attend(query[:, n], memory, start)
            close(array(contexts)[:, n], one, 1e-6)
            close(array(weights)[:, n], row, 1e-6)
            for a, b in zip(*map(keras.tree.flatten, (after, state)), strict=True):
                close(array(a)[:, n], b, 1e-6)

    def test_steps_reject_symbolic_tensors(self) -> None:
        layer, (query, value, key) = self.make_random(), self.tensors()
        symbolic = keras.KerasTensor(value.shape)
        with pytest.raises(ValueError, match="call the layer itself, or call prepare"):
            layer.prepare(symbolic, key)
        with pytest.raises(ValueError, match="call the layer itself, or call prepare"):
            layer.attend(keras.KerasTensor(query[:, 0].shape), layer.prepare(value, key))

    def test_key_defaults_to_value(self) -> None:
        query, value, _ = self.tensors()
        narrow = value[..., :1] + np.zeros(self.widths[1], "float32")
        layer = self.make_random()
        same(layer(query, narrow), layer(query, narrow, narrow))

    def test_lists_of_inputs_and_masks(self) -> None:
        """As with `keras.layers.Attention`."""
        layer, (query, value, key) = self.make_random(), self.tensors()
        same(layer([query, value, key]), layer(query, value, key))
        masks = {"query_mask": QUERY_MASK, "value_mask": VALUE_MASK}
        expected = layer(query, value, key, **masks)
        same(layer([query, value, key], mask=list(masks.values())), expected)
        shapes = [x.shape for x in (query, value, key)]
        assert layer.compute_output_shape(shapes) == tuple(expected.shape)

    def test_wrong_shapes_are_rejected(self) -> None:
        query, value, key = self.tensors()
        with pytest.raises(ValueError, match="query must be"):
            self.make()(query[:, 0], value, key)
        with pytest.raises(ValueError, match=r"value and key .* of steps, got 5 and 4"):
            self.make()(query, value, key[:, :4])

    def test_shapes_other_than_built_are_rejected(self) -> None:
        layer, (query, value, key) = self.make_random(), self.tensors()
        wide = [np.concatenate([x, x], axis=-1) for x in (query, key)]
        for match, tensors in {
            r"query must be \(batch, steps, \d+\), got shape": (query[:, 0], value, key),
            r"query must be \(batch, steps, \d+\), got": (query[:, None], value, key),
            r"key must be \(batch, steps, \d+\), got shape": (query, value, key[:, 0]),
            r"(query|key) must be \(batch, steps, \d+\), got": (wide[0], value, key),
            r"key must be \(batch, steps, \d+\), got": (query, value, wide[1]),
            "value and key .* of steps, got 5 and 4": (query, value, key[:, :4]),
            "value and key .* batch size, got 2 and 3": (query, value[:2], key),
            "query and key .* batch size, got 3 and 2": (query, value[:2], key[:2]),
        }.items():
            with pytest.raises(ValueError, match=match):
                layer(*tensors)


class AttentionConformance(
    MaskConformance,
    FullyMaskedRowConformance,
    PaddingConformance,
    NumericConformance,
    StepConformance,
    LayerConformance,
):
    """Conformance of an attention layer.

    A case defines `covers`, `options`, `changed`, `widths` if constrained, and `scores`, its
    oracle.
    """

    test_empty_batch = None  # a case of test_small_sizes
