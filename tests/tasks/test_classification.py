"""Classification: truncation, sentences, offsets, weights of classes and metrics."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import models, tasks
from attention_zoo.data import LabelledTexts, train_tokenizer
from attention_zoo.tasks import Classification, inference
from attention_zoo.tasks.classification.texts import Limits, TextEncoder
from tests.refusals import refuses

CORPUS = LabelledTexts(
    [
        "The food was good. Ann said it was bad!",
        "Bad.",
        "Ann liked the lamps\nand the food",
        "It was good and bad and good.",
    ],
    [("yes",), ("no",), ("yes",), ("so",)],
    "test texts",
)
LABELS = LabelledTexts(CORPUS.texts, [("a", "c"), (), ("b",), ("c",)], "test labels")
SIZES: dict[str, Any] = {"embedding_dim": 6, "units": 8}


@functools.cache
def classifier(
    kind: str = "word", documents: bool = False, multi_label: bool = False, **options: Any
) -> Classification:
    """Return a small classifier with random weights; tests must not change it."""
    tokenizer = train_tokenizer(kind, CORPUS.texts, 60)
    classes = (LABELS if multi_label else CORPUS).known_classes
    with keras.device("cpu"):
        keras.utils.set_random_seed(3)
        if documents:
            cls, own = models.HierarchicalAttentionNetwork, {}
        else:
            cls, own = models.RecurrentClassifier, {"pooling": "attention"}
        size = tokenizer.vocabulary_size
        model = cls(size, classes=classes, multi_label=multi_label, **own, **SIZES)
    return Classification(model, tokenizer, **options)


@pytest.mark.parametrize("kind", ["word", "subword"])
def test_results_have_tokens_offsets_and_weights(kind: str) -> None:
    task = classifier(kind)
    text = "  Ann was good,\tbad ⓧ!"
    (result,) = task.predict([text])
    assert result.source == text
    assert result.text in result.classes == ("no", "so", "yes")
    assert sum(result.probabilities) == pytest.approx(1, abs=1e-6)
    assert result.score == pytest.approx(np.log(max(result.probabilities)), abs=1e-5)
    assert len(result.tokens) == len(result.offsets) == len(result.attention)
    assert result.attention.sum() == pytest.approx(1, abs=1e-5)
    spans = [text[start:end] for start, end in result.offsets]
    assert "".join(spans) == "".join(text.split())
    if kind == "word":
        assert spans == ["Ann", "was", "good", ",", "bad", "ⓧ", "!"]
        assert result.unknown == (3, 5)


def test_alternatives_are_the_next_most_probable_classes() -> None:
    (result,) = classifier().predict([CORPUS.texts[0]], n_best=9)
    ranked = [result, *result.alternatives]
    assert {one.text for one in ranked} == {"no", "so", "yes"}
    scores = [one.score for one in ranked]
    assert scores == sorted(scores, reverse=True)
    assert np.exp(scores).sum() == pytest.approx(1, abs=1e-5)


def test_documents_have_sentences_and_their_weights() -> None:
    task = classifier(documents=True)
    text = CORPUS.texts[0]
    (result,) = task.predict([text])
    assert [text[start:end] for start, end in result.sentences] == [
        "The food was good.",
        "Ann said it was bad!",
    ]
    assert result.sentence_attention.sum() == pytest.approx(1, abs=1e-5)
    assert result.attention.sum() == pytest.approx(2, abs=1e-5)
    sentences = text.replace(". ", ".\n").split("\n")
    (listed,) = task.predict([sentences])
    assert listed.probabilities == pytest.approx(result.probabilities, abs=1e-6)
    assert listed.source == "\n".join(sentences)


@pytest.mark.parametrize("documents", [False, pytest.param(True, marks=pytest.mark.full)])
def test_a_prediction_does_not_depend_on_the_other_texts(documents: bool) -> None:
    task = classifier(documents=documents)
    texts = ["x", "Ann was good. " * 9]
    together = task.predict(texts)
    for text, result in zip(texts, together, strict=True):
        (alone,) = task.predict([text])
        assert alone.probabilities == pytest.approx(result.probabilities, abs=1e-5)


@pytest.mark.full
def test_compiled_predictions_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for task in (classifier(), classifier(documents=True)):
        expected = task.predict(CORPUS.texts)
        with monkeypatch.context() as patch:
            patch.setattr(inference, "MAX_EAGER_INPUTS", 1)
            compiled = task.predict(CORPUS.texts)
        for one, other in zip(compiled, expected, strict=True):
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)


def test_several_classes_or_none() -> None:
    task = classifier(multi_label=True)
    for result in task.predict(CORPUS.texts):
        pairs = zip(result.classes, result.probabilities, strict=True)
        assert result.labels == tuple(name for name, one in pairs if one >= 0.5)
        assert result.text == ", ".join(result.labels)
        likely = [max(one, 1 - one) for one in result.probabilities]
        assert result.score == pytest.approx(np.log(likely).sum(), abs=1e-5)
    batch, labels = task.make_batches(LABELS, 4, 1).make_batch(np.arange(4))
    assert labels.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert batch["tokens"].shape[0] == 4


def test_batches_of_texts_and_documents() -> None:
    inputs, labels = classifier().make_batches(CORPUS, 4, 1).make_batch(np.arange(4))
    task = classifier()
    assert [task.classes[label] for label in labels] == ["yes", "no", "yes", "so"]
    for row, text in enumerate(CORPUS.texts):
        ids = inputs["tokens"][row]
        assert ids[ids != 0].tolist() == task.tokenizer.encode([text])[0]
    task = classifier(documents=True)
    inputs, _ = task.make_batches(CORPUS, 4, 1).make_batch(np.arange(4))
    assert inputs["tokens"].ndim == 3
    sentences = [["The food was good.", "Ann said it was bad!"], ["Bad."]]
    for row, expected in enumerate(sentences):
        ids = [one[one != 0].tolist() for one in inputs["tokens"][row] if one.any()]
        assert ids == task.tokenizer.encode(expected)


def test_texts_over_a_limit_are_truncated() -> None:
    encoder = TextEncoder(train_tokenizer("word", ["a b c . d"], 20), "punctuation")
    text = "a b. A c d. A b c d a b."
    (encoded,) = encoder.encode([text], Limits(100, 9, 4))
    assert encoded.lengths == [3, 4, 4, 3]
    assert not encoded.is_truncated
    (encoded,) = encoder.encode([text], Limits(100, 3, 4))
    assert (encoded.lengths, encoded.num_sentences) == ([3, 4, 4], 4)
    assert encoded.is_truncated
    (encoded,) = encoder.encode([text], Limits(9, 9, 4))
    assert (encoded.lengths, encoded.num_tokens) == ([3, 4, 2], 14)
    spans = encoder.find_offsets(text, encoded)
    assert [text[a:b] for a, b in spans] == ["a", "b", ".", "A", "c", "d", ".", "A", "b"]
    (result,) = classifier(max_length=3).predict(["Ann was good and bad"])
    assert (result.truncated, len(result.tokens)) == (True, 3)


def test_without_truncation_long_texts_are_dropped_or_rejected() -> None:
    task = classifier(max_length=7, truncate=False)
    kept = task.filter_by_length(CORPUS)
    assert kept.texts == [CORPUS.texts[1], CORPUS.texts[2]]
    assert task.make_batches(CORPUS, 2, 1).num_examples == 2
    assert refuses(
        ["source 1: 9 tokens, the limit is 7", "data.max_length"], task.predict, ["x", "x " * 9]
    )
    task = classifier(documents=True, max_sentences=1, truncate=False)
    assert refuses(["source 0: 2 sentences, the limit is 1"], task.predict, ["A. B."])


def test_ten_thousand_sentences() -> None:
    task = classifier(documents=True, max_sentences=3)
    (result,) = task.predict(["Ann was good. " * 10_000])
    assert len(result.sentences) == 3
    assert result.truncated


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b"])
def test_empty_texts_are_rejected(text: str) -> None:
    for task in (classifier(), classifier(documents=True)):
        failed, fine = task.predict([text, "x"], on_error="skip")
        if failed.ok:  # the tokenizer has a token for it
            assert text == "\u200b"
            continue
        assert "is empty" in failed.error
        assert fine.ok


def test_invalid_inputs() -> None:
    task = classifier()
    assert refuses(["source 0: sentence 1: expected a str"], task.predict, [["a", 3]])
    assert refuses(["source 0: expected a str"], task.predict, [3])
    assert refuses(["predict takes a list of texts"], task.predict, "a text")


def test_evaluation() -> None:
    task = classifier()
    metrics = task.evaluate(CORPUS)
    predicted = [result.text for result in task.predict(CORPUS.texts)]
    correct = [one == labels[0] for one, labels in zip(predicted, CORPUS.labels, strict=True)]
    assert metrics["accuracy"] == pytest.approx(100 * np.mean(correct))
    assert (metrics["texts"], metrics["sources_truncated"]) == (4, 0)
    assert {*task.metric_names} <= {*metrics}
    assert [row["label"] for row in metrics["by_class"]] == list(task.classes)
    rows = [row["predicted"].values() for row in metrics["confusion"]]
    assert np.sum([[*row] for row in rows], axis=1).tolist() == [1, 1, 2]
    multi = classifier(multi_label=True)
    metrics = multi.evaluate(LABELS)
    assert {*multi.metric_names} <= {*metrics}


def test_a_class_that_training_lacks() -> None:
    other = replace(CORPUS, labels=[*CORPUS.labels[:3], ("yess",)])
    words = ["test texts:4: unknown class 'yess'", "Did you mean 'yes'?"]
    for call in (classifier().evaluate, lambda one: classifier().make_batches(one, 2, 1)):
        assert refuses(words, call, other)
    assert refuses(
        ["test labels:1: expected one class, got 2"],
        classifier().evaluate,
        replace(LABELS, labels=[("yes", "no"), *LABELS.labels[1:]]),
    )


def test_weights_of_classes() -> None:
    base = classifier()
    counts = {"no": 1, "so": 1, "yes": 2}

    def loss_of(weights: Any) -> Any:
        own = Classification(base.model, base.tokenizer, class_weights=weights, class_counts=counts)
        return own.make_loss().class_weights

    assert loss_of(None) is None
    assert loss_of("balanced") == pytest.approx([4 / 3, 4 / 3, 2 / 3])
    assert loss_of({"yes": 3}) == [1.0, 1.0, 3.0]
    assert refuses(["unknown class 'maybe'"], loss_of, {"maybe": 3})
    assert refuses(["must be a positive number, got 0"], loss_of, {"yes": 0})
    assert refuses(["must be null, balanced, or a mapping"], loss_of, "even")


def test_saved_tasks_predict_the_same(tmp_path: Path) -> None:
    base, counts = classifier(), {"no": 1, "so": 1, "yes": 2}
    task = Classification(base.model, base.tokenizer, max_sentences=3, class_counts=counts)
    task.save(tmp_path)
    loaded = tasks.load(tmp_path)
    assert isinstance(loaded, Classification)
    assert loaded.options == task.options
    assert loaded.class_counts == task.class_counts
    for one, other in zip(loaded.predict(CORPUS.texts), task.predict(CORPUS.texts), strict=True):
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)


def test_class_token_of_transformers() -> None:
    tokenizer = train_tokenizer("word", CORPUS.texts, 60)
    sizes = {"embedding_dim": 8, "units": 16, "num_heads": 2, "num_layers": 1}
    bert = models.BERT(tokenizer.vocabulary_size, max_length=8, use_pooler=False, **sizes)
    model = models.TransformerClassifier(bert, CORPUS.known_classes)
    task = Classification(model, tokenizer, max_length=8)
    (result,) = task.predict(["Ann was good and bad and good and bad"])
    assert result.truncated
    assert len(result.tokens) == len(result.attention) == 6
    inputs, _ = task.make_batches(CORPUS, 4, 1).make_batch(np.arange(4))
    assert inputs["tokens"].shape[1] <= 8
    assert (inputs["tokens"][:, 0] == tokenizer.start).all()
    assert inputs["tokens"][1].tolist()[:4] == [
        tokenizer.start,
        *tokenizer.encode(["Bad."])[0],
        tokenizer.end,
    ]
    model = models.TransformerClassifier(bert, CORPUS.known_classes)
    long = Classification(model, tokenizer, max_length=9)
    assert refuses(["max_length=9 exceeds the 8 positions"], long.predict, ["x"])


def test_monitored_texts_are_evenly_spaced() -> None:
    texts = LabelledTexts([str(n) for n in range(10)], [("no",)] * 5 + [("yes",)] * 5, "sorted")
    chosen = classifier().select_monitored(texts, 4)
    assert chosen.texts == ["0", "2", "5", "7"]


def test_initial_tasks_count_the_classes_of_the_new_data() -> None:
    class Recipe:
        init = "runs/one"
        data = type("Data", (), {"multi_label": False})

    base = classifier()
    task = Classification(base.model, base.tokenizer, class_counts={"no": 9, "so": 9, "yes": 9})
    task.set_options(class_weights="balanced")
    task.adapt_to_recipe(Recipe, CORPUS)
    assert task.make_loss().class_weights == pytest.approx([4 / 3, 4 / 3, 2 / 3])
    multi = classifier(multi_label=True)
    assert refuses(
        ["runs/one: its model has multi_label=True"], multi.adapt_to_recipe, Recipe, CORPUS
    )


def test_warm_up_stays_within_the_limits() -> None:
    for documents in (False, True):
        classifier(documents=documents, max_length=5, truncate=False).warm_up([1], [8])


def test_invalid_options() -> None:
    base = classifier()

    def make(**options: Any) -> Classification:
        return Classification(base.model, base.tokenizer, **options)

    assert refuses(["sentences must be one of"], lambda: make(sentences="words"))
    assert refuses(["Quote it"], lambda: make(class_weights={True: 2}))
