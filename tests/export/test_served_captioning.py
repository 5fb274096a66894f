"""Exported captioners predict as the task does, in a process with TensorFlow only."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import attention_zoo as az
from attention_zoo.decoding import SearchOptions
from attention_zoo.export import export
from attention_zoo.tasks import Caption, Captioning
from tests.export.alone import STATUS, ExportedOutputs, predict_in_tensorflow_process
from tests.export.test_served_glimpses import BATCHES, IMAGES
from tests.models.public.checkpoints import GOLDEN
from tests.tasks.captioners import make_untrained_task
from tests.tiers import mark_others_full

KINDS = ("soft", "hard", "pooled", "Transformer")


@functools.cache
def task(kind: str) -> Captioning:
    """Captioners with random weights; two give the best two of a beam."""
    two = SearchOptions(beam_width=3, n_best=2, min_length=4, length_penalty="average")
    if kind == "Transformer":
        return make_untrained_task("caption_transformer_small", search=two)
    return make_untrained_task(
        attention=kind, search=two if kind == "soft" else SearchOptions(max_length=5, min_length=4)
    )


def assert_same(answers: dict[str, Any], wants: Sequence[Caption]) -> None:
    assert len(answers["text"]) == len(wants)
    for row, best in enumerate(wants):
        found = (best, *best.alternatives)
        assert len(answers["text"][row]) == len(found)
        for n, expected in enumerate(found):
            output = {name: answers[name][row][n] for name in answers if name not in STATUS}
            size = len(expected.tokens)
            assert (output["text"], output["lengths"]) == (expected.text, size)
            assert output["finished"] is not expected.truncated
            assert output["tokens"] == [*expected.tokens, *[""] * (len(output["tokens"]) - size)]
            np.testing.assert_allclose(output["scores"], expected.score, rtol=1e-4, atol=1e-5)
            scores = np.array(output["token_scores"])
            of = len(expected.token_scores)
            np.testing.assert_allclose(scores[:of], expected.token_scores, rtol=1e-3, atol=1e-4)
            assert not scores[of:].any()
            if expected.attention is None:
                assert "attention" not in output
                continue
            weights = np.array(output["attention"])
            np.testing.assert_allclose(weights[:size], expected.attention, rtol=1e-3, atol=1e-5)
            assert not weights[size:].any()


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_exported_outputs_equal_predictions(kind: str, exported_outputs: ExportedOutputs) -> None:
    (several, shapes), (one, _), *_ = exported_outputs[kind]
    wants = task(kind).predict(IMAGES)
    assert_same(several, wants)
    assert_same(one, wants[1:2])
    assert len({expected.score for expected in wants}) == len(IMAGES)
    assert max(len(expected.tokens) for expected in wants) > 2
    if kind != "pooled":
        assert shapes["attention"] == [*shapes["tokens"], 3, 3]


@pytest.mark.parametrize("kind", mark_others_full(KINDS))
def test_no_images(kind: str, exported_outputs: ExportedOutputs) -> None:
    _, shapes = exported_outputs[kind][BATCHES.index([])]
    count = task(kind).search.n_best
    assert shapes["text"] == shapes["scores"] == shapes["lengths"] == [0, count]
    assert shapes["tokens"] == shapes["token_scores"] == [0, count, 0]
    assert shapes.get("attention", [0, count, 0, 3, 3]) == [0, count, 0, 3, 3]


def test_an_invalid_image_does_not_affect_the_others(exported_outputs: ExportedOutputs) -> None:
    expected = task("soft").predict(IMAGES[:1])
    for answers, shapes in exported_outputs["soft"][3:]:
        assert answers["ok"] == [True, False]
        assert answers["error"][0] == ""
        assert re.search("image", answers["error"][1])
        assert answers["text"][1] == ["", ""]
        assert answers["scores"][1] == [-np.inf, -np.inf]
        assert shapes["attention"] == [*shapes["tokens"], 3, 3]
        assert_same({name: rows[:1] for name, rows in answers.items()}, expected)


@pytest.mark.full
def test_exported_checkpoint_equals_predict(tmp_path: Path) -> None:
    """A ViT and a GPT-2 with the generation config of the checkpoint, and scores of targets."""
    folder = GOLDEN / "vit_gpt2"
    captioner = az.load(folder)
    images = [(folder / f"expected{number}.png").read_bytes() for number in range(3)]
    exported = export(captioner, tmp_path / "served")
    ((answers, _),) = predict_in_tensorflow_process([exported], [[*images, b"no image"]])[0]
    assert answers["ok"] == [True, True, True, False]
    for row, want in enumerate(captioner.predict(images)):
        assert answers["text"][row] == [want.text]
        np.testing.assert_allclose(answers["scores"][row], [want.score], rtol=1e-5)
        weights = np.array(answers["attention"][row][0])[: len(want.tokens)]
        np.testing.assert_allclose(weights, want.attention, atol=1e-5)
    (best,) = captioner.predict(images[:1], beam_width=1, length_penalty="none", max_length=20)
    score = captioner.export_module().make_signatures()["score"]
    scores = score(tf.constant(images[:1]), tf.constant([best.text]))
    np.testing.assert_allclose(scores["scores"].numpy(), [best.score], rtol=1e-4)
    long = score(tf.constant([b"no", *images[:2]]), tf.constant(["red", "red " * 40, best.text]))
    assert long["ok"].numpy().tolist() == [False, False, True]
    assert b"tokens, the limit is 24. Shorten the text." in long["error"].numpy()[1]
    again = score(tf.constant(images[1:2]), tf.constant([best.text]))
    np.testing.assert_allclose(long["scores"].numpy()[2:], again["scores"].numpy(), rtol=1e-4)
