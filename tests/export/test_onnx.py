"""Models converted to ONNX return what they return in TensorFlow, masked positions included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from attention_zoo import models
from attention_zoo.ops import masked_softmax
from tests.tasks.captioners import with_normal_weights

pytestmark = pytest.mark.full

SIZES: dict[str, Any] = {"embedding_dim": 8, "units": 8, "num_heads": 2, "num_layers": 1}
SOURCE = np.array([[4, 5, 6, 7, 8], [9, 4, 0, 0, 0], [0, 0, 0, 0, 0]], "int32")
"""Token ids with padding; the last row is padding only."""
TARGET = np.array([[2, 5, 6], [2, 4, 0], [2, 0, 0]], "int32")
STARTS = np.array([[1, 2, 4], [1, 2, 0], [0, 0, 0]], "int32")
CHARACTERS = np.repeat(SOURCE[..., None], 3, axis=-1) * np.array([1, 1, 0], "int32")
IMAGES = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3)).astype("float32")

FAMILIES: dict[str, tuple[Callable[[], Any], dict[str, np.ndarray]]] = {
    "translation": (
        lambda: models.Transformer(12, 12, **SIZES),
        {"source": SOURCE, "target": TARGET},
    ),
    "understanding": (lambda: models.BERT(12, **SIZES), {"tokens": SOURCE}),
    "language": (lambda: models.GPT(12, **SIZES), {"tokens": SOURCE}),
    "tagging": (
        lambda: models.RecurrentTagger(
            12,
            tags=["O", "B-A"],
            embedding_dim=4,
            units=8,
            head={"kind": "softmax"},
            attention={"num_heads": 2, "key_dim": 3},
            characters={"kind": "cnn", "vocabulary_size": 12, "embedding_dim": 4, "units": 4},
        ),
        {"tokens": SOURCE, "starts": STARTS, "characters": CHARACTERS},
    ),
    "captioning": (
        lambda: models.CaptionTransformer(12, **SIZES),
        {"image": IMAGES, "target": TARGET},
    ),
    "retrieval": (
        lambda: models.CrossAttentionRetriever(
            12, embedding_dim=5, units=6, encoder={"filters": [4, 5]}
        ),
        {"image": IMAGES, "text": SOURCE},
    ),
}


def assert_same_in_onnx(call: Callable[..., Any], inputs: dict[str, np.ndarray]) -> None:
    """Assert that a function of tensors returns the same after its conversion to ONNX."""
    reason = "install 'attention-zoo[onnx]'"
    tf2onnx = pytest.importorskip("tf2onnx", reason=reason)
    runtime = pytest.importorskip("onnxruntime", reason=reason)
    specs = [
        tf.TensorSpec(
            [None, None, None][: x.ndim] if x.ndim < 4 else [None, *x.shape[1:]], x.dtype, name
        )
        for name, x in inputs.items()
    ]
    function = tf.function(
        lambda *arrays: call(dict(zip(inputs, arrays, strict=True))), input_signature=specs
    )
    expected = [x.numpy() for x in tf.nest.flatten(function(*inputs.values()))]
    converted, _ = tf2onnx.convert.from_function(function, specs, opset=18)
    outputs = runtime.InferenceSession(converted.SerializeToString()).run(None, inputs)
    for output, want in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(output, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_models_in_onnx(family: str) -> None:
    build, inputs = FAMILIES[family]
    model = with_normal_weights(build())
    assert_same_in_onnx(lambda x: model(x, training=False), inputs)


def test_a_recurrent_encoder_in_onnx() -> None:
    sizes = {"embedding_dim": 8, "units": 8, "attention_units": 8, "readout_units": 8}
    model = with_normal_weights(models.RNNSearch(12, 12, **sizes))
    assert_same_in_onnx(lambda x: model.encode(x["source"], False)[:2], {"source": SOURCE})


def test_a_summarizer_encoder_in_onnx() -> None:
    model = with_normal_weights(models.CopyTransformer(12, 8, 8, num_heads=2, num_layers=1))
    assert_same_in_onnx(lambda x: model.transformer.encode(x["source"]), {"source": SOURCE})


def test_masked_softmax_in_onnx() -> None:
    scores = np.random.default_rng(0).normal(size=(3, 5)).astype("float32")
    inputs = {"scores": scores, "mask": SOURCE > 0}
    assert_same_in_onnx(lambda x: masked_softmax(x["scores"], x["mask"]), inputs)
