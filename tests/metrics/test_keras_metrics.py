"""The Keras metrics: values, masks, sample weights, files, and inside `compile`."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import attention_zoo as az
from attention_zoo.metrics import CRFAccuracy, MaskedAccuracy, Perplexity
from tests.layers.layer_conformance import check_docstring, run_example
from tests.layers.running import JAX, array
from tests.tiers import mark_full

RNG = np.random.default_rng(0)
LABELS = np.array([[3, 1, 2, 4], [2, 2, 0, 0], [0, 0, 0, 0]])
LOGITS = RNG.normal(size=(3, 4, 5)).astype("float32")
SECTIONS = ("Args", "Call arguments", "Returns", "Masking", "Example")


def log_probs(logits: np.ndarray) -> np.ndarray:
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def oracle(metric: Any, labels: np.ndarray, logits: np.ndarray, weights: np.ndarray) -> float:
    """Compute a metric by a loop over unmasked labels."""
    total = count = 0.0
    for index in zip(*np.nonzero(labels), strict=True):
        is_correct = logits[index].argmax() == labels[index]
        loss = -log_probs(logits)[index][labels[index]]
        total += weights[index] * (loss if metric is Perplexity else is_correct)
        count += weights[index]
    return float(np.exp(total / count) if metric is Perplexity else total / count)


def make_potentials(mask: np.ndarray | None = None, scale: float = 1.0) -> Any:
    """Return potentials `(2, 8, 4)` of three tags."""
    emissions = np.random.default_rng(1).normal(size=(2, 3, 3)).astype("float32")
    layer = az.layers.CRF()
    layer.build(emissions.shape)
    layer.transitions.assign(scale * np.random.default_rng(2).normal(size=(3, 3)))
    mask = np.array([[True, True, True], [True, True, False]]) if mask is None else mask
    return layer(emissions, mask=mask)


@pytest.mark.parametrize("metric", [MaskedAccuracy, Perplexity, CRFAccuracy])
def test_documentation(metric: type) -> None:
    check_docstring(metric, SECTIONS, formula=True)
    run_example(metric)


@pytest.mark.parametrize("metric", [MaskedAccuracy, Perplexity])
@pytest.mark.parametrize("shape", [None, (3,), (3, 1), (3, 4)], ids=str)
def test_values_and_sample_weights(metric: Any, shape: tuple[int, ...] | None) -> None:
    """Two batches of different lengths count as one: each label has its own weight."""
    weights = short = None
    if shape is not None:
        weights = short = np.random.default_rng(3).uniform(0.5, 2, shape).astype("float32")
    if shape == (3, 4):
        short = weights[:, :2]
    instance = metric()
    instance.update_state(LABELS, LOGITS, weights)
    instance.update_state(LABELS[:, :2], LOGITS[:, 2:], short)
    full = np.ones((3, 1)) if weights is None else weights.reshape(3, -1)
    full = np.broadcast_to(full, (3, 4))
    expected = oracle(
        metric,
        np.concatenate([LABELS, LABELS[:, :2]], 1),
        np.concatenate([LOGITS, LOGITS[:, 2:]], 1),
        np.concatenate([full, full[:, :2]], 1),
    )
    assert float(instance.result()) == pytest.approx(expected, rel=1e-5)
    instance.reset_state()
    assert float(instance.result()) == (1 if metric is Perplexity else 0)


@pytest.mark.parametrize("metric", [MaskedAccuracy, Perplexity])
def test_nan_at_masked_labels_only_has_no_effect(metric: Any) -> None:
    expected = float(metric()(LABELS, LOGITS))
    logits = np.where((LABELS == 0)[..., None], np.nan, LOGITS)
    assert float(metric()(LABELS, logits)) == expected
    masked = ops.convert_to_tensor(np.where(np.arange(4)[:, None] == 1, np.nan, LOGITS))
    masked._keras_mask = ops.convert_to_tensor(np.arange(4) != 1)[None] & np.ones((3, 1), bool)
    assert float(metric()(LABELS, masked)) == pytest.approx(
        oracle(metric, LABELS * (np.arange(4) != 1), LOGITS, np.ones((3, 4))), rel=1e-5
    )
    weights = np.array([1.0, 0.0, 1.0])
    logits = np.where(weights[:, None, None] == 0, np.nan, LOGITS)
    assert np.isfinite(float(metric()(LABELS, logits, weights)))
    assert np.isnan(float(metric()(LABELS, np.full_like(LOGITS, np.nan))))


def test_other_padding_labels_and_ranks() -> None:
    labels = np.array([[0, -1], [2, 1]])
    logits = np.eye(3)[[[0, 0], [2, 0]]].astype("float32")
    assert float(MaskedAccuracy(ignore_class=-1)(labels, logits)) == pytest.approx(2 / 3)
    assert float(MaskedAccuracy(ignore_class=None)(labels[:, :1], logits[:, 0])) == 1.0
    probabilities = np.full((2, 2, 4), 0.25, "float32")
    assert float(Perplexity(from_logits=False)(labels + 1, probabilities)) == pytest.approx(4)
    with pytest.raises(ValueError, match=r"y_true must be \(3, 4\), got shape \(3, 3\)"):
        MaskedAccuracy()(LABELS[:, :3], LOGITS)


@pytest.mark.parametrize("sets", [False, True])
def test_crf_accuracy_counts_decoded_tags(sets: bool) -> None:
    potentials = make_potentials(scale=2.0)
    tags = array(az.layers.CRF.decode(az.layers.CRF(3), potentials)[0])
    labels = np.stack([tags[0], [tags[1, 0], (tags[1, 1] + 1) % 3, tags[1, 2]]])
    labels[0, 2] = -1  # unknown
    given = labels
    if sets:
        given = (np.arange(3) == labels[..., None]) | (labels == -1)[..., None]
    assert float(CRFAccuracy()(given, potentials)) == pytest.approx(3 / 4)
    assert float(CRFAccuracy()(given, potentials, np.array([1, 3]))) == pytest.approx(5 / 8)
    nan = np.array(potentials)
    nan[0, 1, 0] = np.nan
    assert np.isnan(float(CRFAccuracy()(given, nan)))
    with pytest.raises(ValueError, match="y_true, for potentials in y_pred, must be"):
        CRFAccuracy()(labels[:, :2], potentials)


@pytest.mark.parametrize(
    "metric",
    [
        MaskedAccuracy(-1, name="hits", dtype="float64"),
        Perplexity(from_logits=False, ignore_class=None),
        CRFAccuracy(name="tags"),
    ],
    ids=lambda metric: metric.name,
)
def test_config_restores_the_metric(metric: Any) -> None:
    config = keras.metrics.serialize(metric)
    restored = keras.metrics.get(config)
    assert type(restored) is type(metric)
    assert restored.get_config() == metric.get_config()
    assert restored.dtype == metric.dtype


@pytest.mark.full
@pytest.mark.parametrize("jit_compile", [JAX, True], ids=["graph", "xla"])
def test_in_compile(jit_compile: bool) -> None:
    """The metrics of `fit` and `evaluate`, with batches of several sizes, equal those of a call."""
    tokens = RNG.integers(1, 9, (10, 6))
    tokens[::3, 3:] = 0
    labels = np.where(tokens == 0, 0, np.roll(tokens, -1, axis=1))
    gpt = az.models.GPT(9, 8, 16, 2, 1, max_length=8, dropout=0.0)
    metrics = [MaskedAccuracy(), Perplexity()]
    options = {"metrics": metrics, "weighted_metrics": [MaskedAccuracy(name="weighted")]}
    gpt.compile("adam", az.losses.SequenceCrossEntropy(), jit_compile=jit_compile, **options)
    weights = np.linspace(0.5, 2, 10)[:, None]
    options = {"batch_size": 4, "verbose": 0, "sample_weight": weights}
    gpt.fit({"tokens": tokens}, labels, **options)
    got = gpt.evaluate({"tokens": tokens}, labels, return_dict=True, **options)
    logits = gpt.predict({"tokens": tokens}, verbose=0)
    for metric in metrics:
        expected = float(type(metric)()(labels, logits))
        assert got[metric.name] == pytest.approx(expected, rel=1e-4)
    assert got["weighted"] == pytest.approx(
        float(MaskedAccuracy()(labels, logits, weights)), rel=1e-4
    )


@pytest.mark.full
@pytest.mark.parametrize("jit_compile", [JAX, True], ids=["graph", "xla"])
@pytest.mark.parametrize("kind", ["crf", mark_full("softmax")])
def test_accuracy_of_taggers_is_that_of_decoded_tags(kind: str, jit_compile: bool) -> None:
    tokens = RNG.integers(1, 9, (10, 6))
    tokens[::3, 3:] = 0
    labels = np.where(tokens == 0, -1, tokens % 3)
    tagger = az.models.RecurrentTagger(9, ["O", "B-A", "I-A"], 4, 8, head={"kind": kind})
    options = {"metrics": ["accuracy"], "weighted_metrics": ["acc"], "jit_compile": jit_compile}
    tagger.compile("adam", tagger.make_loss(), **options)
    tagger.fit({"tokens": tokens}, labels, batch_size=4, verbose=0)
    got = tagger.evaluate({"tokens": tokens}, labels, batch_size=4, verbose=0, return_dict=True)
    tags = array(tagger.decode(tagger.predict({"tokens": tokens}, verbose=0))[0])
    expected = (tags == labels)[labels >= 0].mean()
    assert (got["accuracy"], got["acc"]) == (pytest.approx(expected), pytest.approx(expected))


@pytest.mark.parametrize(
    "metric", ["sparse_categorical_accuracy", keras.metrics.SparseCategoricalAccuracy()]
)
def test_keras_accuracies_of_taggers_are_rejected(metric: Any) -> None:
    tagger = az.models.RecurrentTagger(9, ["O", "B-A"], 4, 8)
    with pytest.raises(ValueError, match=r"attention_zoo.metrics.CRFAccuracy\(\)"):
        tagger.compile("adam", tagger.make_loss(), metrics=[metric])


@pytest.mark.full
def test_compiled_metrics_of_taggers() -> None:
    tagger = az.models.RecurrentTagger(9, ["O", "B-A"], 4, 8)
    tagger.compile("adam", tagger.make_loss(), metrics=["acc"], weighted_metrics=[CRFAccuracy()])
    restored = az.models.RecurrentTagger.from_config(tagger.get_config())
    restored.compile_from_config(tagger.get_compile_config())
    tokens = np.array([[3, 4, 0]])
    for model in (tagger, restored):
        result = model.test_on_batch({"tokens": tokens}, tokens % 2, return_dict=True)
        assert sorted(result) == ["acc", "crf_accuracy", "loss"]
