"""Recorded weights of KerasHub's `CachedMultiHeadAttention`: alone, in decoders, in generation."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from attention_zoo.inspection import attention_model, record
from tests.layers.running import JAX

CAUSAL = np.tril(np.ones((2, 5, 5), "bool"))
VOCABULARY_SIZE, PROMPT_LENGTH, CACHE_LENGTH = 20, 3, 8


@pytest.fixture
def hub() -> Any:
    return pytest.importorskip("keras_hub", reason="KerasHub is not installed")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


class CachedAttention(keras.layers.MultiHeadAttention):
    """Stand-in for KerasHub's layer, with the same keyword arguments and KV cache."""

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        attention_mask: Any = None,
        cache: Any = None,
        cache_update_index: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        key = self._key_dense(value if key is None else key)
        value = self._value_dense(value)
        if cache is not None and cache_update_index is None:
            key, value = cache[:, 0], cache[:, 1]
        elif cache is not None:
            start = [0, cache_update_index, 0, 0]
            key = ops.slice_update(cache[:, 0], start, key)
            value = ops.slice_update(cache[:, 1], start, value)
            cache = ops.stack((key, value), axis=1)
        output, weights = self._compute_attention(
            query=self._query_dense(query),
            key=key,
            value=value,
            attention_mask=attention_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        output = self._output_dense(output)
        returned = (output, *[weights] * return_attention_scores, *[cache] * (cache is not None))
        return returned if len(returned) > 1 else output


def check_cached_layer(layer: Any) -> None:
    """Compare the records of calls without a cache, step by step, and with a static cache."""
    x = numbers(2, 5, 8)
    expected, returned = layer(x, x, attention_mask=CAUSAL, return_attention_scores=True)
    returned = ops.convert_to_numpy(returned)
    fused = layer(x, x, attention_mask=CAUSAL)

    def decode() -> list[Any]:
        outputs, cache = [], np.zeros((2, 2, 5, 2, 4), "float32")
        for step in range(5):
            one, mask = x[:, step : step + 1], CAUSAL[:, step : step + 1]
            output, cache = layer(
                one, one, attention_mask=mask, cache=cache, cache_update_index=step
            )
            outputs.append(output)
        last, _ = layer(one, one, attention_mask=mask, cache=cache)
        return [*outputs, last, cache]

    outputs = decode()
    with record(layer) as weights:
        np.testing.assert_array_equal(layer(x, x, attention_mask=CAUSAL), fused)
        for recorded, plain in zip(decode(), outputs, strict=True):
            np.testing.assert_array_equal(recorded, plain)
        layer(x, x, attention_mask=CAUSAL, training=True)
    np.testing.assert_allclose(np.concatenate(outputs[:5], axis=1), expected, atol=1e-6)
    first, *steps, static, training = weights[layer.name]
    np.testing.assert_allclose(first.weights, returned, atol=1e-6)
    assert [step.weights.shape for step in steps] == [(2, 2, 1, 5)] * 5  # S is the cache length
    joined = np.concatenate([step.weights for step in steps], axis=2)
    np.testing.assert_allclose(joined, returned, atol=1e-6)
    assert not np.triu(joined, 1).any()
    masks = np.concatenate([step.mask for step in steps], axis=2)
    np.testing.assert_array_equal(masks[:, 0], CAUSAL)
    np.testing.assert_allclose(static.weights, returned[:, :, 4:], atol=1e-6)
    np.testing.assert_allclose(training.weights, returned, atol=1e-6)  # before dropout


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_layer_that_computes_as_in_keras_hub(dropout: float) -> None:
    check_cached_layer(CachedAttention(2, 4, dropout=dropout))


@pytest.mark.full
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_cached_multi_head_attention(hub: Any, dropout: float) -> None:
    check_cached_layer(hub.layers.CachedMultiHeadAttention(2, 4, dropout=dropout))


@pytest.mark.full
def test_decoder_with_cross_attention(hub: Any) -> None:
    """Self-attention and cross-attention with padding, in calls, `predict`, `attention_model`."""
    target, source = keras.Input((5, 8)), keras.Input((3, 8))
    padding = keras.Input((3,), dtype="bool")
    decoder = hub.layers.TransformerDecoder(16, 2)
    outputs = decoder(target, source, encoder_padding_mask=padding)
    model = keras.Model([target, source, padding], outputs)
    model.compile(jit_compile=False)
    is_token = np.array([[1, 1, 1], [1, 1, 0]], "bool")
    inputs = [numbers(2, 5, 8), numbers(2, 3, 8, seed=1), is_token]
    called, predicted = model(inputs), model.predict(inputs, verbose=0)
    with record(model) as weights:
        np.testing.assert_array_equal(model(inputs), called)
        np.testing.assert_array_equal(model.predict(inputs, verbose=0), predicted)
    cross, self_attention = sorted(
        (records[0] for records in weights.values()), key=lambda entry: entry.weights.shape
    )
    assert [len(records) for records in weights.values()] == [2, 2]
    assert (cross.weights.shape, self_attention.weights.shape) == ((2, 2, 5, 3), (2, 2, 5, 5))
    assert not np.triu(self_attention.weights, 1).any()
    assert not cross.weights[1, :, :, 2].any()
    np.testing.assert_allclose(cross.weights.sum(-1), 1, atol=1e-6)
    created = attention_model(model).predict(inputs, verbose=0)
    for path, records in weights.items():
        np.testing.assert_allclose(created[path], records[0].weights, atol=1e-6)


def make_language_model(hub: Any) -> Any:
    """Return a GPT-2 of two layers with random weights."""
    backbone = hub.models.GPT2Backbone(
        vocabulary_size=VOCABULARY_SIZE,
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=CACHE_LENGTH,
    )
    model = hub.models.GPT2CausalLM(backbone=backbone, preprocessor=None)
    model.compile(sampler="greedy", jit_compile=False)
    return model


@pytest.mark.full
def test_backbone(hub: Any) -> None:
    backbone = make_language_model(hub).backbone
    mask = np.array([[1, 1, 1, 1], [1, 1, 1, 0]])
    inputs = {"token_ids": np.array([[3, 4, 5, 6], [7, 8, 9, 0]]), "padding_mask": mask}
    expected = backbone.predict(inputs, verbose=0)
    with record(backbone) as weights:
        np.testing.assert_array_equal(backbone.predict(inputs, verbose=0), expected)
    assert len(weights) == 2
    visible = np.tril(np.ones((4, 4), "bool")) & mask.astype("bool")[:, None]
    for (entry,) in weights.values():
        np.testing.assert_array_equal(np.broadcast_to(entry.mask, (2, 1, 4, 4))[:, 0], visible)
        assert not entry.weights[~np.broadcast_to(visible[:, None], entry.weights.shape)].any()
        np.testing.assert_allclose(entry.weights.sum(-1), 1, atol=1e-6)


@pytest.mark.full
@pytest.mark.skipif(JAX, reason="TensorFlow's functions")
def test_generation_with_a_cache(hub: Any) -> None:
    """One record of the prompt and one for each new token; S is the cache length."""
    model, plain = make_language_model(hub), make_language_model(hub)
    plain.set_weights(model.get_weights())
    tokens = np.zeros((2, CACHE_LENGTH), "int32")
    tokens[:, :PROMPT_LENGTH] = [[3, 4, 5], [6, 7, 8]]
    inputs = {"token_ids": tokens, "padding_mask": (tokens != 0).astype("int32")}
    expected = ops.convert_to_numpy(plain.generate(inputs, stop_token_ids=None)["token_ids"])
    model.generate(inputs, stop_token_ids=None)
    traced = model.generate_function
    with record(model) as weights:
        generated = model.generate(inputs, stop_token_ids=None)["token_ids"]
    assert model.generate_function is traced
    np.testing.assert_array_equal(generated, expected)
    names = [path.rsplit("/", 1)[1] for path in weights]
    assert names == ["_self_attention_layer"] * 2
    with record(plain.backbone) as full:
        padding = np.ones_like(expected)
        plain.backbone({"token_ids": expected, "padding_mask": padding})
    for (prompt, *steps), (entry,) in zip(weights.values(), full.values(), strict=True):
        assert prompt.weights.shape == (2, 2, CACHE_LENGTH, CACHE_LENGTH)
        assert [step.weights.shape for step in steps] == [(2, 2, 1, CACHE_LENGTH)] * 5
        joined = np.concatenate([step.weights for step in steps], axis=2)
        queries = slice(PROMPT_LENGTH - 1, CACHE_LENGTH - 1)
        np.testing.assert_allclose(joined, entry.weights[:, :, queries], atol=1e-5)
