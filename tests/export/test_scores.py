"""The signature `score` returns the log probabilities of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from attention_zoo.data import encode_for_copying
from attention_zoo.data.tokenizers.vocabulary import END, START
from attention_zoo.models.generation import mask_special_tokens
from tests.export import test_served_captioning, test_served_summarization
from tests.export.test_saved_model import replace_search, translator
from tests.export.test_served_glimpses import IMAGES
from tests.tasks.test_language_modeling import make_task


def score(task: Any, *inputs: Any) -> dict[str, list[Any]]:
    function = task.export_module().make_signatures()["score"]
    for targets in ([*inputs[1], "a"], inputs[1][1:]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected one target for each"):
            function(tf.constant(inputs[0]), tf.constant(targets))
    return {name: x.numpy().tolist() for name, x in function(*map(tf.constant, inputs)).items()}


def assert_scores(answers: dict[str, list[Any]], row: int, logits: Any, labels: list[int]) -> None:
    """Assert that the scores of a row are the log probabilities of labels, from logits `(T, V)`."""
    log_probs = ops.log_softmax(mask_special_tokens(ops.cast(logits, "float32")))
    expected = np.array(log_probs)[range(len(labels)), labels]
    assert answers["ok"][row]
    assert answers["lengths"][row] == len(labels) - 1
    token_scores = np.array(answers["token_scores"][row])
    np.testing.assert_allclose(token_scores[: len(labels)], expected, rtol=1e-4, atol=1e-5)
    assert not token_scores[len(labels) :].any()
    np.testing.assert_allclose(answers["scores"][row], expected.sum(), rtol=1e-4)


@pytest.mark.parametrize(
    "preset", ["rnnsearch_small", pytest.param("transformer_tiny", marks=pytest.mark.full)]
)
def test_scores_of_translations(preset: str) -> None:
    options = {
        "beam_width": 2,
        "repetition_penalty": 2.0,
        "max_length": 1,
        "length_penalty": "gnmt",
    }
    task = translator(preset, **options)
    texts = ["a cat", "", "A dog saw the cat!"]
    targets = ["eine Katze", "ein Hund", "ein Hund sah xyz"]
    answers = score(task, texts, targets)
    assert answers["ok"] == [True, False, True]
    assert answers["scores"][1] == -np.inf
    for row in (0, 2):
        (source,), (ids,) = (
            task.source_tokenizer.encode(texts[row : row + 1]),
            task.target_tokenizer.encode(targets[row : row + 1]),
        )
        inputs = {"source": np.array([source]), "target": np.array([[START, *ids]])}
        assert_scores(answers, row, task.model(inputs)[0], [*ids, END])
        labels = [label.decode() for label in answers["tokens"][row][: len(ids)]]
        assert labels == task.target_tokenizer.tokens(ids)


def test_scores_of_continuations() -> None:
    task = replace_search(make_task(), max_length=2)
    prompts, targets = ["a dog", "", "the"], [" saw the cat", "the dog", " cat" * 30]
    answers = score(task, prompts, targets)
    assert answers["ok"] == [True, True, False]
    for row, count in ((0, 2), (1, 0)):
        (ids,) = task.tokenizer.encode([prompts[row] + targets[row]])
        logits = task.model({"tokens": np.array([[START, *ids]])})[0]
        assert_scores(answers, row, logits[count:], [*ids[count:], END])


@pytest.mark.parametrize(
    "kind", ["pointer generator", pytest.param("attention alone", marks=pytest.mark.full)]
)
def test_scores_of_summaries(kind: str) -> None:
    task = test_served_summarization.task(kind)
    texts = test_served_summarization.TEXTS[:2]
    targets = ["fire in Tromak , Ilse Zor", "the fire is out"]
    answers = score(task, texts, targets)
    encoded = encode_for_copying(task.tokenizer, texts, targets, task.model.copies)
    for row, (source, ids) in enumerate(zip(encoded.sources, encoded.targets, strict=True)):
        inputs = {"source": np.array([source]), "target": np.array([[START, *ids]])}
        assert_scores(answers, row, task.model(inputs)[0], [*ids, END])
    assert [label.decode() for label in answers["tokens"][0]] == targets[0].split()


@pytest.mark.full
def test_scores_of_captions() -> None:
    task = test_served_captioning.task("soft")
    captions = ["a dog runs", "zebra", ""]
    answers = score(task, [IMAGES[0], b"GIF89a", IMAGES[1]], captions)
    assert answers["ok"] == [True, False, True]
    for row in (0, 2):
        (ids,) = task.tokenizer.encode([captions[row]])
        image = task._read_images(IMAGES[row // 2 : row // 2 + 1], [""])
        inputs = {"image": image, "target": np.array([[START, *ids]])}
        assert_scores(answers, row, task.model(inputs)[0], [*ids, END])
