"""Tiny exports with random weights, one for each view of the demo page."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from attention_zoo import models
from attention_zoo.data import train_tokenizer
from attention_zoo.decoding import SearchOptions
from attention_zoo.export import export
from attention_zoo.files import write_manifest
from attention_zoo.tasks import Classification, Matching, Tagging
from tests.layers.running import randomise
from tests.tasks import captioners, retrievers, summarizers
from tests.tasks.test_glimpses import task_of
from tests.tasks.translators import make_untrained_task

SCRIPT = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"
SENTENCE = "a cat saw the dog"
ARTICLE = "a Fire in Hokuk hurt 42 people . the Police saw it ."
ARABIC, CHINESE = "ذهبت ليلى إلى البيت", "我 昨天 借 了 书"


class Doubler(tf.Module):
    """A model without a task."""

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "numbers")])
    def serve(self, numbers: tf.Tensor) -> dict[str, tf.Tensor]:
        note = tf.fill([tf.shape(numbers)[0]], IMAGE)
        return {"doubled": 2 * numbers, "note": note}


class Mixed(tf.Module):
    """A model with a scalar input, whose outputs have the names of a task's outputs."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.float32, "numbers"),
            tf.TensorSpec([], tf.float32, "scale"),
            tf.TensorSpec([None], tf.string, "text"),
        ]
    )
    def serve(self, numbers: tf.Tensor, scale: tf.Tensor, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"predictions": scale * numbers, "probabilities": numbers, "text": text}


def make_tasks() -> dict[str, tuple[Any, list[dict[str, Any]]]]:
    """Return tasks by the name of their export, with their examples."""
    sources = [SENTENCE, f"{SCRIPT} {ARABIC} {CHINESE}"]
    targets = ["eine Katze sah den Hund", f"{SCRIPT} {IMAGE}"]
    search = SearchOptions(beam_width=3, n_best=3, max_length=6)
    translator = make_untrained_task(
        "rnnsearch_small", sources, targets, kind="whitespace", search=search, max_source_length=40
    )
    tokenizer = train_tokenizer("word", [SENTENCE, ARTICLE], 60)
    count, sizes = tokenizer.vocabulary_size, {"embedding_dim": 6, "units": 8}
    tags = ["O", f"B-{SCRIPT}", f"I-{SCRIPT}"]
    tagger = models.RecurrentTagger(count, tags=tags, head={"kind": "softmax"}, **sizes)
    classes = [SCRIPT, IMAGE]
    classifier = models.RecurrentClassifier(count, classes, pooling="attention", **sizes)
    documents = models.HierarchicalAttentionNetwork(count, classes, **sizes)
    matcher = models.ESIM(count, classes, **sizes)
    for model in (tagger, classifier, documents, matcher):
        randomise(model)
    picture = base64.b64encode(captioners.encoded(captioners.picture(1))).decode()
    summarizer = summarizers.make_untrained_task([SENTENCE, ARTICLE], max_target_length=8)
    text = [{"text": SENTENCE}]
    return {
        "translator": (translator, [{"text": SENTENCE}, {"text": SCRIPT}]),
        "tagger": (Tagging(tagger, tokenizer, scheme="BIO", max_length=40), text),
        "classifier": (Classification(classifier, tokenizer, max_length=40), text),
        "documents": (Classification(documents, tokenizer), [{"text": ARTICLE}]),
        "matcher": (Matching(matcher, tokenizer), [{"first": SENTENCE, "second": ARTICLE}]),
        "summarizer": (summarizer, [{"text": ARTICLE}]),
        "captioner": (captioners.make_untrained_task(), [{"image": {"b64": picture}}]),
        "glimpses": (task_of(), [{"image": {"b64": picture}}]),
        "retriever": (
            retrievers.make_untrained_task(),
            [{"image": {"b64": picture}, "text": text} for text in retrievers.TEXTS[:2]],
        ),
    }


def write_exports(folder: Path) -> list[Path]:
    """Export all tasks and the models without a task; return their folders."""
    for name, (task, examples) in make_tasks().items():
        export(task, folder / name, examples=examples)
    modules: dict[str, Any] = {"doubler": Doubler(), "mixed": Mixed()}
    for name, module in modules.items():
        tf.saved_model.save(module, str(folder / name), signatures=module.serve)
        write_manifest(folder / name)
    return sorted(folder.iterdir())


def write_picture(path: Path, seed: int = 2, height: int = 30, width: int = 50) -> Path:
    """Write a PNG file of coarse patches."""
    path.write_bytes(captioners.encoded(np.asarray(captioners.picture(seed, height, width))))
    return path
