"""Masking rules: meaning, combination and propagation of masks."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.ops import attach_mask, implicit_mask
from tests.layers.attention_case import (
    ATTENTION_MASK,
    OTHER_MASK,
    QUERY_MASK,
    VALUE_MASK,
    AttentionCase,
    B,
    S,
    T,
)
from tests.layers.running import array, close, randomise, same

MASKS: dict[str, Any] = {
    "query_mask": QUERY_MASK,
    "value_mask": VALUE_MASK,
    "key_mask": OTHER_MASK,
    "attention_mask": ATTENTION_MASK,
    "use_causal_mask": True,
}
PER_TENSOR = {"query_mask": 0, "value_mask": 1, "key_mask": 2}


def masked(x: np.ndarray, mask: np.ndarray) -> Any:
    """Return a tensor with an implicit Keras mask, as set by an Embedding."""
    return attach_mask(ops.convert_to_tensor(x), ops.convert_to_tensor(mask))


class MaskConformance(AttentionCase):
    """Rules 1 and 2: meaning, combination, propagation and validation of masks."""

    @pytest.mark.parametrize("name", PER_TENSOR)
    def test_explicit_mask_is_implicit_mask(self, name: str) -> None:
        layer, tensors = self.make_random(), self.tensors()
        explicit = self.attend(layer, *tensors, **{name: MASKS[name]})
        carrying = [
            masked(x, MASKS[name]) if i == PER_TENSOR[name] else x for i, x in enumerate(tensors)
        ]
        implicit = self.attend(layer, *carrying)
        same(implicit[0], explicit[0])
        same(implicit[1], explicit[1])

    @pytest.mark.parametrize("name", PER_TENSOR)
    def test_explicit_and_implicit_masks_combine_by_and(self, name: str) -> None:
        layer, tensors = self.make_random(), self.tensors()
        first = MASKS[name]
        second = np.roll(first, 1, axis=1)
        position = PER_TENSOR[name]
        carrying = [masked(x, first) if i == position else x for i, x in enumerate(tensors)]
        got = self.attend(layer, *carrying, **{name: second})
        expected = self.attend(layer, *tensors, **{name: first & second})
        same(got[0], expected[0])
        same(got[1], expected[1])

    def test_all_masks_combine_by_and(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        causal = np.tril(np.ones((T, S), "bool"))
        every = (
            QUERY_MASK[:, :, None]
            & VALUE_MASK[:, None]
            & OTHER_MASK[:, None]
            & ATTENTION_MASK
            & causal
        )
        got = self.attend(layer, *tensors, **MASKS)
        expected = self.attend(layer, *tensors, attention_mask=every)
        close(got[0], expected[0], 1e-6)
        close(got[1], expected[1], 1e-6)
        assert not got[1][~every].any()

    @pytest.mark.parametrize("name", MASKS)
    def test_every_mask_has_an_effect(self, name: str) -> None:
        layer, tensors = self.make_random(), self.tensors()
        without, with_mask = (
            self.attend(layer, *tensors),
            self.attend(layer, *tensors, **{name: MASKS[name]}),
        )
        assert np.abs(without[0] - with_mask[0]).max() > 1e-3
        assert np.abs(without[1] - with_mask[1]).max() > 1e-3

    @pytest.mark.parametrize("name", [*PER_TENSOR, "attention_mask"])
    def test_integers_are_booleans(self, name: str) -> None:
        layer, tensors = self.make_random(), self.tensors()
        got = self.attend(layer, *tensors, **{name: MASKS[name].astype("int32")})
        expected = self.attend(layer, *tensors, **{name: MASKS[name]})
        same(got[0], expected[0])
        same(got[1], expected[1])

    @pytest.mark.parametrize("name", [*PER_TENSOR, "attention_mask"])
    def test_float_mask_is_rejected(self, name: str) -> None:
        with pytest.raises(ValueError, match=rf"{name} has dtype float32.*`{name} > 0`"):
            self.make()(*self.tensors(), **{name: MASKS[name].astype("float32")})

    @pytest.mark.parametrize("name", PER_TENSOR)
    def test_mask_of_wrong_shape_is_rejected(self, name: str) -> None:
        layer, tensors = self.make(), self.tensors()
        with pytest.raises(ValueError, match=rf"{name} has shape.*is expected"):
            layer(*tensors, **{name: np.ones((B, 1, S), "bool")})
        with pytest.raises(ValueError, match=rf"{name} has shape.*is expected"):
            layer(*tensors, **{name: np.ones((B, S + T), "bool")})

    def test_attention_mask_of_wrong_shape_is_rejected(self) -> None:
        layer = self.make()
        for shape in ((S,), (S, T), (B + 1, T, S), (B, T, S + 1), (B, 7, T, S), (1, 1, 1, T, S)):
            with pytest.raises(ValueError, match=r"attention_mask has shape .* is expected"):
                layer(*self.tensors(), attention_mask=np.ones(shape, "bool"))

    @pytest.mark.parametrize(
        "index", [(0,), (slice(0, 1),), (slice(0, 1), None), (slice(None), None)]
    )
    def test_attention_mask_broadcasts(self, index: tuple[Any, ...]) -> None:
        """`(T, S)`, `(1, T, S)`, `(1, 1, T, S)` and `(B, 1, T, S)`."""
        layer, tensors = self.make_random(), self.tensors()
        mask = ATTENTION_MASK[index]
        full = np.broadcast_to(mask[:, 0] if mask.ndim == 4 else mask, (B, T, S))
        got = self.attend(layer, *tensors, attention_mask=mask)
        expected = self.attend(layer, *tensors, attention_mask=full)
        same(got[0], expected[0])

    def test_attention_bias_of_minus_infinity_masks(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        for mask in (ATTENTION_MASK, np.zeros((1, 1, T, S), "bool")):
            bias = np.where(mask, 0, -np.inf).astype("float32")
            got = self.attend(layer, *tensors, attention_bias=bias)
            same(got, self.attend(layer, *tensors, attention_mask=mask))

    @pytest.mark.parametrize("name", ["attention_mask", "attention_bias"])
    def test_nan_that_is_masked_for_all_queries_has_no_effect(self, name: str) -> None:
        """Source 3 is masked for all queries; source 1 is NaN, but query 2 is fully masked."""
        if name == "attention_bias" and not self.uses_scores:
            return
        layer, (query, value, key) = self.make_random(), self.tensors()
        mask = ATTENTION_MASK.copy()
        mask[:, :, 3] = False
        mask[:, 2] = False
        option = {name: mask if name == "attention_mask" else np.where(mask, 0.0, -np.inf)}
        expected = self.attend(layer, query, value, key, **option)
        value[:, 3], key[:, 3] = np.nan, np.inf
        same(self.attend(layer, query, value, key, **option), expected)
        value[:, 1] = np.nan
        context, weights = self.attend(layer, query, value, key, **option)
        assert not context[:, 2].any()
        assert not weights[:, 2].any()

    def test_attention_bias_at_masked_positions_has_no_effect(self) -> None:
        layer, tensors = self.make_random(), self.tensors()
        bias = np.where(ATTENTION_MASK, 0, np.nan).astype("float32")
        got = self.attend(layer, *tensors, attention_bias=bias, attention_mask=ATTENTION_MASK)
        same(got, self.attend(layer, *tensors, attention_mask=ATTENTION_MASK))

    def test_invalid_attention_bias_is_rejected(self) -> None:
        layer, tensors = self.make(), self.tensors()
        with pytest.raises(ValueError, match=r"attention_bias has dtype bool, .* attention_mask"):
            layer(*tensors, attention_bias=ATTENTION_MASK)
        with pytest.raises(ValueError, match=r"attention_bias has shape .* is expected"):
            layer(*tensors, attention_bias=np.zeros((B, S, T), "float32"))

    @pytest.mark.parametrize("one", [(0,), (1, 2), (1,), (2,)])
    def test_batch_of_one_broadcasts(self, one: tuple[int, ...]) -> None:
        """A batch of 1 broadcasts to the batch size of the other tensors and masks."""
        layer, tensors = self.make_random(), list(self.tensors())
        repeated = list(tensors)
        for n in one:
            tensors[n] = tensors[n][:1]
            repeated[n] = np.repeat(tensors[n], B, axis=0)
        masks = {"attention_mask": ATTENTION_MASK}
        if 0 not in one:
            masks["query_mask"] = MASKS["query_mask"]
        if 1 not in one:
            masks["value_mask"] = MASKS["value_mask"]
        got = self.attend(layer, *tensors, **masks)
        expected = self.attend(layer, *repeated, **masks)
        close(got, expected, 1e-6)
        symbolic = [keras.KerasTensor(x.shape, str(x.dtype)) for x in tensors]
        assert layer(*symbolic).shape[0] == B

    @pytest.mark.parametrize("name", [*PER_TENSOR, "attention_mask", "attention_bias"])
    def test_batch_of_one_broadcasts_to_a_mask(self, name: str) -> None:
        """One example with B masks gives B outputs."""
        if name == "attention_bias" and not self.uses_scores:
            return
        layer, tensors = self.make_random(), self.tensors(1)
        repeated = [np.repeat(x, B, axis=0) for x in tensors]
        bias = np.random.default_rng(6).normal(size=(B, T, S)).astype("float32")
        mask = {name: {**MASKS, "attention_bias": bias}[name]}
        close(self.attend(layer, *tensors, **mask), self.attend(layer, *repeated, **mask), 1e-6)
        symbolic = [keras.KerasTensor(x.shape, str(x.dtype)) for x in tensors]
        mask = {name: keras.KerasTensor(x.shape, str(x.dtype)) for name, x in mask.items()}
        assert layer(*symbolic, **mask).shape[0] == B

    def test_mask_of_an_absent_tensor_is_rejected(self) -> None:
        query, value, _ = self.tensors()
        narrow = value[..., :1] + np.zeros(self.widths[1], "float32")
        with pytest.raises(ValueError, match="key_mask was given, but the tensor"):
            self.make()(query, narrow, key_mask=VALUE_MASK)

    def test_query_mask_is_passed_on(self) -> None:
        layer, (query, value, key) = self.make_random(), self.tensors()
        other = np.roll(QUERY_MASK, 1, axis=1)
        assert implicit_mask(layer(query, value, key)) is None
        same(implicit_mask(layer(query, value, key, query_mask=QUERY_MASK)), QUERY_MASK)
        same(implicit_mask(layer(masked(query, QUERY_MASK), value, key)), QUERY_MASK)
        both = layer(masked(query, QUERY_MASK), value, key, query_mask=other)
        same(implicit_mask(both), QUERY_MASK & other)
        context, _ = layer(masked(query, QUERY_MASK), value, key, return_attention_scores=True)
        same(implicit_mask(context), QUERY_MASK)

    def test_query_mask_is_passed_on_in_a_functional_model(self) -> None:
        """In a stack of two layers, the second one also receives the query mask."""
        width = self.widths[1]
        tokens = keras.Input((S,), dtype="int32")
        embedded = keras.layers.Embedding(9, width, mask_zero=True)(tokens)
        query = keras.layers.Dense(self.widths[0])(embedded)
        once = keras.layers.Dense(self.widths[0])(self.make()(query, embedded))
        model = keras.Model(tokens, self.make()(once, embedded))
        randomise(model)
        ids = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])
        out = model(ids)
        same(implicit_mask(out), ids != 0)
        assert not array(out)[0, 3:].any()
        close(array(out)[:1, :3], array(_shorter(model, ids[:1, :3])), 1e-5)

    def test_inputs_keep_their_masks(self) -> None:
        layer, (query, value, key) = self.make_random(), self.tensors()
        inputs = (masked(query, QUERY_MASK), masked(value, VALUE_MASK), masked(key, OTHER_MASK))
        before = [implicit_mask(x) for x in inputs]
        layer(*inputs, query_mask=np.roll(QUERY_MASK, 1, 1), value_mask=OTHER_MASK)
        for x, mask, expected in zip(
            inputs, before, (QUERY_MASK, VALUE_MASK, OTHER_MASK), strict=True
        ):
            assert implicit_mask(x) is mask
            same(mask, expected)
        bare = [ops.convert_to_tensor(x) for x in self.tensors()]
        layer(*bare, query_mask=QUERY_MASK, value_mask=VALUE_MASK, key_mask=OTHER_MASK)
        assert [implicit_mask(x) for x in bare] == [None] * 3

    def test_implicit_mask_is_kept_for_a_second_layer(self) -> None:
        """Call the same layer twice, then another layer, on one masked memory."""
        first, second = self.make_random(), self.make_random()
        query, value, key = self.tensors()
        shared, keys = masked(value, VALUE_MASK), masked(key, OTHER_MASK)
        expected = self.attend(
            first, query, value, key, attention_mask=_rows(VALUE_MASK & OTHER_MASK)
        )
        for layer in (first, first, second):
            got = self.attend(layer, query, shared, keys)
            close(got[0], expected[0], 1e-6)
            assert not got[1][~_rows(VALUE_MASK & OTHER_MASK)].any()

    def test_mask_survives_another_dtype(self) -> None:
        layer, (query, value, key) = self.make_random(dtype="float16"), self.tensors()
        out = layer(masked(query, QUERY_MASK), masked(value, VALUE_MASK), key)
        same(implicit_mask(out), QUERY_MASK)
        same(out, layer(query, value, key, query_mask=QUERY_MASK, value_mask=VALUE_MASK))


def _rows(mask: np.ndarray) -> np.ndarray:
    """Return a `(B, S)` mask as `(B, T, S)`."""
    return np.repeat(mask[:, None], T, axis=1)


def _shorter(model: keras.Model, ids: np.ndarray) -> Any:
    """Apply the model's layers to ids of another length."""
    inputs = keras.Input((ids.shape[1],), dtype="int32")
    rebuilt = keras.models.clone_model(model, input_tensors=inputs)
    rebuilt.set_weights(model.get_weights())
    return rebuilt(ids)
