"""Exported retrievers predict as the task does, in a process with TensorFlow only."""

from __future__ import annotations

import functools
import re
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from attention_zoo.data import train_tokenizer
from attention_zoo.decoding import SearchOptions
from attention_zoo.models import CrossAttentionRetriever
from attention_zoo.tasks import Retrieval
from attention_zoo.tasks.retrieval.export import RetrievalModule
from tests.export.alone import ExportedOutputs, export_by_command
from tests.export.test_served_glimpses import IMAGES
from tests.layers.running import randomise
from tests.tasks.captioners import KNOWN, SIDE
from tests.tiers import mark_others_full

TEXTS = ["a dog runs", "two  DOGS", "x ", "a red ball in the 東京 park , no zebra runs in it"]
EXPORT = export_by_command
BATCHES = [
    {"image": IMAGES, "text": TEXTS},
    {"image": IMAGES[1:2], "text": TEXTS[3:]},
    {"image": [], "text": TEXTS},
    {"image": IMAGES, "text": []},
    {"image": [], "text": []},
    {"image": IMAGES, "text": [TEXTS[0], " "]},
    {"image": [IMAGES[0], b"GIF89a"], "text": TEXTS},
    {"image": [IMAGES[0], IMAGES[0][:60]], "text": TEXTS},
]
KINDS: dict[str, dict[str, Any]] = {
    "words attend": {},
    "regions attend": {"direction": "image_to_text", "pooling": "log_sum_exp"},
}
FOUND = {"words attend": 2, "regions attend": 1}


@functools.cache
def task(kind: str, dtype: str = "float32") -> Retrieval:
    """Return a retriever with random weights, of words or subwords, with two results or one."""
    words = train_tokenizer("whitespace" if FOUND[kind] == 2 else "subword", KNOWN, 60, True)
    sizes: dict[str, Any] = {"embedding_dim": 5, "units": 6, "encoder": {"filters": [4, 5]}}
    model = CrossAttentionRetriever(
        words.vocabulary_size, **sizes, **KINDS[kind], dtype=keras.dtype_policies.get(dtype)
    )
    randomise(model, scale=1.0)
    search = SearchOptions(beam_width=FOUND[kind], n_best=FOUND[kind])
    return Retrieval(model, words, search, image_size=SIDE)


def assert_same(
    answers: dict[str, Any], own: Retrieval, images: list[bytes], texts: list[str], bound: float
) -> None:
    index = own.build_index(images)
    alike = own.similarities(index, texts)
    np.testing.assert_allclose(answers["similarities"], alike, rtol=bound, atol=bound)
    for row, best in enumerate(own.predict(texts, index=index)):
        results = (best, *best.alternatives)
        size = len(best.tokens)
        assert answers["image_indices"][row] == [one.number for one in results]
        scores = [one.score for one in results]
        np.testing.assert_allclose(answers["scores"][row], scores, rtol=bound, atol=bound)
        assert answers["lengths"][row] == size
        tokens = answers["tokens"][row]
        assert tokens == [*best.tokens, *[""] * (len(tokens) - size)]
        for one, weights in zip(results, np.array(answers["attention"][row]), strict=True):
            np.testing.assert_allclose(weights[:size], one.attention, rtol=bound, atol=bound)
            assert not weights[size:].any()


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_exported_outputs_equal_predictions(kind: str, exported_outputs: ExportedOutputs) -> None:
    (several, shapes), (one, _), *_ = exported_outputs[kind]
    assert_same(several, task(kind), IMAGES, TEXTS, 1e-4)
    assert_same(one, task(kind), IMAGES[1:2], TEXTS[3:], 1e-4)
    assert np.ptp(several["similarities"], axis=0).min() > 1e-2
    assert shapes["attention"] == [4, FOUND[kind], max(several["lengths"]), 3, 3]


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_no_images_or_no_texts(kind: str, exported_outputs: ExportedOutputs) -> None:
    for batch, answers in zip(BATCHES[2:5], exported_outputs[kind][2:5], strict=True):
        _, shapes = answers
        rows, columns = len(batch["image"]), len(batch["text"])
        count = min(rows, FOUND[kind])
        assert shapes["similarities"] == [rows, columns]
        assert shapes["image_indices"] == shapes["scores"] == [columns, count]
        assert shapes["lengths"] == [columns]
        longest = shapes["tokens"][1]
        assert (longest > 0) is (columns > 0)
        assert shapes["tokens"] == [columns, longest]
        assert shapes["attention"] == [columns, count, longest, 3, 3]


def test_an_empty_text_does_not_affect_the_others(exported_outputs: ExportedOutputs) -> None:
    answers, _ = exported_outputs["words attend"][5]
    assert answers["ok"] == [True, False]
    assert re.search("is empty", answers["error"][1])
    assert answers["image_ok"] == [True] * len(IMAGES)
    assert answers["image_indices"][1] == [-1, -1]
    assert (np.array(answers["similarities"])[:, 1] == -np.inf).all()
    similarities = np.array(answers["similarities"])[:, :1]
    valid = {name: rows[:1] for name, rows in answers.items()} | {"similarities": similarities}
    assert_same(valid, task("words attend"), IMAGES, TEXTS[:1], 1e-4)


def test_an_invalid_image_is_not_retrieved(exported_outputs: ExportedOutputs) -> None:
    for answers, _ in exported_outputs["words attend"][6:8]:
        assert answers["ok"] == [True] * len(TEXTS)
        assert answers["image_ok"] == [True, False]
        assert re.search("image", answers["image_error"][1])
        assert answers["image_indices"] == [[0]] * len(TEXTS)
        assert (np.array(answers["similarities"])[1] == -np.inf).all()
        valid = {**answers, "similarities": answers["similarities"][:1]}
        assert_same(valid, task("words attend"), IMAGES[:1], TEXTS, 1e-4)


@pytest.mark.full
def test_encoded_images_are_ranked_as_the_task_ranks_them() -> None:
    own = task("words attend")
    module = own.export_module()
    images = module.encode_images(tf.constant([*IMAGES, b"GIF89a"]))
    texts = module.encode_texts(tf.constant([*TEXTS, " "]))
    assert images["ok"].numpy().tolist() == [True] * len(IMAGES) + [False]
    assert texts["ok"].numpy().tolist() == [True] * len(TEXTS) + [False]
    regions, words, mask = images["regions"][:-1], texts["words"][:-1], texts["mask"][:-1]
    answers = {name: x.numpy().tolist() for name, x in module.rank(regions, words, mask).items()}
    answers["lengths"] = texts["lengths"].numpy().tolist()
    answers["tokens"] = [[one.decode() for one in row] for row in texts["tokens"].numpy().tolist()]
    assert_same(answers, own, IMAGES, TEXTS, 1e-4)


@pytest.mark.parametrize("policy", ["mixed_float16", "float64"])
def test_dtype_policies(policy: str) -> None:
    own = task("words attend", policy)
    module = RetrievalModule(own)
    served = module.serve(tf.constant(IMAGES), tf.constant(TEXTS))
    assert {x.dtype.name for x in served.values()} == {"string", "float32", "int32", "bool"}
    plain = {name: x.numpy().tolist() for name, x in served.items()}
    plain["tokens"] = [[one.decode() for one in row] for row in plain["tokens"]]
    assert_same(plain, own, IMAGES, TEXTS, 1e-2 if policy == "mixed_float16" else 1e-5)


@pytest.mark.full
@pytest.mark.parametrize("side", ["image", "text"])
def test_nan_features_are_an_error_of_their_rows(
    side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = RetrievalModule(task("words attend"))
    encode = getattr(module, f"_{side}_encoder")

    def spoil(batch: tf.Tensor) -> Any:
        """Return the features with NaN in the second row."""
        is_second = (tf.range(tf.shape(batch)[0]) == 1)[:, None, None]
        features = encode(batch)
        if side == "image":
            return tf.where(is_second, np.nan, features)
        return features._replace(words=tf.where(is_second, np.nan, features.words))

    monkeypatch.setattr(module, f"_{side}_encoder", spoil)
    images, texts = tf.constant(IMAGES[:2]), tf.constant(TEXTS[:2])
    served = module.serve(images, texts)
    encoded = module.encode_images(images) if side == "image" else module.encode_texts(texts)
    prefix = "image_" if side == "image" else ""
    for outputs, start in ((served, prefix), (encoded, "")):
        assert outputs[f"{start}ok"].numpy().tolist() == [True, False]
        assert b"NaN features" in outputs[f"{start}error"].numpy()[1]
    similarities = served["similarities"].numpy()
    similarities = similarities if side == "image" else similarities.T
    assert np.isfinite(similarities[0]).all()
    assert (similarities[1] == -np.inf).all()
    if side == "image":
        assert served["ok"].numpy().all()
        assert not served["image_indices"].numpy().any()
