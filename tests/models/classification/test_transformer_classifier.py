from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo.layers.attention.expected_lengths import expect_long_sequences
from attention_zoo.models import BERT, TransformerClassifier
from attention_zoo.models.classification.classifier import left_align
from attention_zoo.models.classification.transformer_classifier import split_into_windows
from tests.layers.running import array
from tests.models.classifier_conformance import (
    CLASSES,
    TEXTS,
    ClassifierConformance,
    fit_and_evaluate,
    run,
)
from tests.models.encoder_conformance import fill
from tests.models.language.test_bert import TINY as BERT_TINY
from tests.refusals import refuses

TINY = {**BERT_TINY, "use_pooler": False, "max_length": 60}
OPTIONS = {"bert": TINY, "classes": CLASSES}


class TestTransformerClassifier(ClassifierConformance):
    covers = TransformerClassifier
    options = {**OPTIONS, "window": 4}  # two windows for the longest of TEXTS
    weighted = {"pooling": "mean"}
    deep = {"bert": {**TINY, "num_layers": 12}}
    changed = {
        "bert": {**TINY, "num_layers": 1},
        "classes": [*CLASSES, "art"],
        "multi_label": True,
        "pooling": "mean",
        "dropout": 0.3,
        "window": 5,
        "hidden_activation": "tanh",
    }

    def behaviour(self, model: Any, training: bool) -> list[np.ndarray]:
        """Return outputs, a loss, which depends on `multi_label`, and the number of weights."""
        outputs = super().behaviour(model, training)
        labels = np.eye(3)[np.arange(3)] if model.multi_label else np.arange(3)
        loss = model.make_loss()(labels, outputs[0].astype("float32"))
        return [*outputs, array(loss), np.array(len(model.trainable_variables))]


def make(**options: Any) -> TransformerClassifier:
    model = TransformerClassifier(**{**OPTIONS, **options})
    fill(model)
    return model


@pytest.mark.parametrize("pooling", ["first", "mean", "pooler"])
def test_logits_equal_those_of_bert(pooling: str) -> None:
    """The first token is the first that is not padding."""
    bert = BERT(**{**TINY, "use_pooler": pooling == "pooler"})
    model = make(bert=bert, pooling="mean" if pooling == "mean" else "first")
    assert model.bert is bert
    outputs = {name: array(x) for name, x in bert({"tokens": TEXTS}).items()}
    hidden, is_token = outputs["hidden"], TEXTS > 0
    expected = {
        "first": hidden[range(3), is_token.argmax(-1)],
        "mean": hidden.sum(1) / is_token.sum(1, keepdims=True),
        "pooler": outputs.get("pooled"),
    }[pooling]
    kernel, bias = (array(w) for w in model.head.weights)
    np.testing.assert_allclose(run(model, TEXTS)[0], expected @ kernel + bias, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layer", [{}, {"positions": "t5"}], ids=["learned", "t5"])
def test_weights_are_those_of_the_last_layer(layer: dict[str, str]) -> None:
    """Their mean over the heads, from the first token, or from each token of the text."""
    first = make(bert={**TINY, "layer": layer})
    mean = TransformerClassifier(first.bert, CLASSES, pooling="mean")
    tokens = TEXTS[1:2, TEXTS[1] > 0]
    mask = np.ones((1, 3), "bool")
    x = first.bert.norm(first.bert.embed(tokens, mask))
    for encoder_layer in first.bert.encoder:
        x, weights = encoder_layer(x, mask=mask, return_attention_scores=True)
    weights = array(weights)[0].mean(0)
    for model, expected in ((first, weights[0]), (mean, weights.mean(0))):
        got = run(model, TEXTS)[1]["tokens"][1, TEXTS[1] > 0]
        np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("pooling", ["first", "mean", "pooler"])
def test_long_texts_are_read_in_windows(pooling: str) -> None:
    """Texts of seven tokens, five and two, in windows of four: [2 3 4 5], [2 6 7 8] and so on."""
    bert = {**TINY, "use_pooler": pooling == "pooler"}
    pooling = "mean" if pooling == "mean" else "first"
    plain = make(bert=bert, pooling=pooling)
    windows = TransformerClassifier(plain.bert, CLASSES, pooling=pooling, window=4)
    windows.head.set_weights(plain.head.get_weights())
    texts = np.array([[2, 3, 4, 5, 6, 7, 8], [2, 3, 4, 5, 6, 0, 0], [2, 3, 0, 0, 0, 0, 0]])
    parts = np.array(
        [[2, 3, 4, 5], [2, 6, 7, 8], [2, 3, 4, 5], [2, 6, 0, 0], [2, 3, 0, 0], [0, 0, 0, 0]]
    )
    logits, scores = run(plain, parts)
    lengths = (parts > 0).sum(1).reshape(3, 2)
    shares = lengths / lengths.sum(1, keepdims=True)
    expected = (logits.reshape(3, 2, 3) * shares[..., None]).sum(1)
    got, weights = run(windows, texts)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    scores = scores["tokens"].reshape(3, 2, 4) * shares[..., None]
    joined = [scores[:, :, 0].sum(1, keepdims=True), scores[:, 0, 1:], scores[:, 1, 1:]]
    np.testing.assert_allclose(weights["tokens"], np.concatenate(joined, 1), atol=1e-5)
    np.testing.assert_allclose(weights["tokens"].sum(1), 1, rtol=1e-4)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a graph of TensorFlow")
def test_short_windows_of_long_texts_are_not_read_blockwise() -> None:
    import tensorflow as tf

    model = make(window=4)
    sizes = []
    for is_expected in (False, True):
        with expect_long_sequences(is_expected):
            spec = tf.TensorSpec((None, None), "int32")
            graph = tf.function(lambda x: model({"tokens": x})).get_concrete_function(spec).graph
        sizes.append(len(graph.as_graph_def().node))
    assert sizes[0] == sizes[1]


def test_weights_in_float16_sum_to_one() -> None:
    model = make(window=4, dtype="mixed_float16")
    tokens = np.full((1, 3001), 5, "int32")
    np.testing.assert_allclose(run(model, tokens)[1]["tokens"].sum(), 1, rtol=2e-4)


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="shape polymorphism of JAX")
def test_windows_of_symbolic_lengths() -> None:
    import jax

    batch, length = jax.export.symbolic_shape("b, p")
    tokens = jax.ShapeDtypeStruct((batch, length), "int32")
    shape = jax.eval_shape(lambda x: split_into_windows(left_align(x)[0], 16), tokens).shape
    assert str(shape[2]) == "16"
    for size in (1, 2, 15, 16, 17, 40):
        tokens = np.full((2, size), 5, "int32")
        count = jax.eval_shape(lambda x: split_into_windows(left_align(x)[0], 16), tokens).shape[1]
        assert count == max(1, -(-(size - 1) // 15))


def test_a_text_within_the_window_is_not_split() -> None:
    plain = make()
    windows = TransformerClassifier(plain.bert, CLASSES, window=TEXTS.shape[1])
    assert windows.max_length is None
    windows.head.set_weights(plain.head.get_weights())
    assert split_into_windows(TEXTS, TEXTS.shape[1]).shape == (len(TEXTS), 1, TEXTS.shape[1])
    (logits, weights), (expected_logits, expected) = run(windows, TEXTS), run(plain, TEXTS)
    np.testing.assert_allclose(logits, expected_logits, atol=1e-5)
    np.testing.assert_allclose(weights["tokens"], expected["tokens"], atol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_learns_with_fit(pooling: str) -> None:
    """The class is in one token, at any position; token 2 begins each text."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(6, 13, size=(192, 7)).astype("int32")
    labels = rng.integers(0, 3, size=192)
    tokens[range(192), rng.integers(1, 7, size=192)] = 3 + labels
    tokens[:, 0] = 2
    bert = {**TINY, "embedding_dim": 16, "num_layers": 1, "dropout": 0.0}
    model = TransformerClassifier(bert, CLASSES, pooling=pooling, dropout=0.0)
    assert fit_and_evaluate(model, tokens, labels, 20) > 0.97


def test_inputs_are_those_of_bert() -> None:
    model = TransformerClassifier(**OPTIONS)
    assert (model.vocabulary_size, model.max_length) == (13, 60)
    assert model.token_embedding is model.bert.token_embedding
    with pytest.raises(ValueError, match="sequence length 61 of tokens exceeds max_length=60"):
        model({"tokens": np.ones((1, 61), "int32")})


def test_presets_equal_those_of_bert(tmp_path: Path) -> None:
    sizes = {"vocabulary_size": 7, "embedding_dim": 4, "units": 4, "num_heads": 2}
    model = TransformerClassifier.from_preset(
        "bert_tiny", **sizes, classes=CLASSES, pooling="mean", name="classifier"
    )
    assert model.bert.settings["num_layers"] == 2
    assert (model.name, model.settings["pooling"]) == ("classifier", "mean")
    model.save_to_preset(tmp_path / "saved")
    repeated = TransformerClassifier.from_preset(tmp_path / "saved", dropout=0.5)
    assert repeated.settings == {**model.settings, "dropout": 0.5}
    with pytest.raises(ValueError, match="Transformer has no argument"):
        TransformerClassifier.from_preset("transformer_tiny", vocabulary_size=7, classes=CLASSES)


@refuses(
    ({"pooling": "last"}, "pooling must be one of first, mean, got 'last'"),
    ({"window": 61}, "window must be at most 60, got 61"),
    ({"window": 1}, "window must be at least 2, got 1"),
    ({"bert": "bert_tiny"}, "bert must be a BERT or its arguments, got 'bert_tiny'"),
)
def test_invalid_options_are_rejected(options: dict) -> None:
    TransformerClassifier(**{**OPTIONS, **options})
