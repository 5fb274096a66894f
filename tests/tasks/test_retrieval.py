"""Retrieval: predictions, recall, batches and training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attention_zoo as az
from attention_zoo import training
from attention_zoo.data import train_tokenizer
from attention_zoo.tasks import Captioning, Retrieval
from tests.layers.running import close
from tests.refusals import refuses
from tests.tasks.retrievers import SCENES, TEXTS, TOKENIZER, make_untrained_task

TASK = make_untrained_task()
INDEX = TASK.build_index(SCENES)


def test_index_has_images_names_and_regions(tmp_path: Path) -> None:
    import tensorflow as tf

    assert (len(INDEX), INDEX.names) == (4, tuple(SCENES.names))
    assert INDEX.regions.shape == (4, 16, 6)
    image = SCENES.images[1]
    path = tmp_path / "one.png"
    path.write_bytes(tf.io.encode_png(image).numpy())
    index = TASK.build_index([path, path.read_bytes(), image])
    assert index.names == (str(path), "image 1", "image 2")
    for regions in index.regions:
        close(regions, INDEX.regions[1], 1e-6)
    assert TASK.build_index([image], names=["mine"]).names == ("mine",)
    assert TASK.build_index([image], names=iter(["mine"])).names == ("mine",)
    renamed = TASK.build_index(SCENES, names=np.array(list("abcd")))
    assert renamed.names == ("a", "b", "c", "d")


@pytest.mark.parametrize("direction", ["text_to_image", "image_to_text"])
def test_predict_returns_the_most_similar_images(direction: str) -> None:
    task = make_untrained_task(direction=direction)
    index = task.build_index(SCENES)
    texts = [TEXTS[3], "a green"]
    similarities = task.similarities(index, iter(texts))
    assert similarities.shape == (4, 2)
    answers = task.predict(texts, index=index, n_best=2, batch_size=1)
    for column, answer in enumerate(answers):
        results = [answer, *answer.alternatives]
        best = np.argsort(-similarities[:, column])[:2]
        assert [one.number for one in results] == best.tolist()
        scores = [one.score for one in results]
        np.testing.assert_allclose(scores, similarities[best, column], atol=1e-6)
        for one in results:
            assert one.text == SCENES.names[one.number]
            assert (one.source, one.source_tokens) == (texts[column], tuple(texts[column].split()))
            np.testing.assert_array_equal(one.image, SCENES.images[one.number])
        ids = np.array(TOKENIZER.encode([texts[column]]), "int32")
        close(
            one.attention, np.asarray(task.model.attention_weights(one.image[None], ids))[0], 1e-5
        )


def test_number_of_results() -> None:
    (one,) = TASK.predict([TEXTS[0]], index=INDEX)
    assert one.alternatives == ()
    (many,) = TASK.predict([TEXTS[0]], index=INDEX, n_best=9)
    assert len(many.alternatives) == 3
    task = Retrieval(TASK.model, TOKENIZER, az.tasks.SearchOptions(beam_width=2, n_best=2), 16)
    assert len(task.predict([TEXTS[0]], index=INDEX)[0].alternatives) == 1
    assert TASK.predict([], index=INDEX) == []
    (result,) = TASK.predict(["a zebra"], index=INDEX)
    assert result.unknown == (1,)


def test_an_image_with_nan_features_is_not_retrieved() -> None:
    regions = INDEX.regions.copy()
    regions[1, 2, 3] = np.nan
    index = replace(INDEX, regions=regions)
    expected = TASK.predict(TEXTS[:3], index=INDEX, n_best=4)
    for result, other in zip(TASK.predict(TEXTS[:3], index=index, n_best=4), expected, strict=True):
        kept = [one.number for one in (other, *other.alternatives) if one.number != 1]
        assert [one.number for one in (result, *result.alternatives)] == kept


@pytest.mark.full
def test_evaluate_computes_recall_of_all_captions() -> None:
    image_of_text = np.repeat(np.arange(4), [len(texts) for texts in SCENES.captions])
    expected = az.metrics.recall_at_k(TASK.similarities(INDEX, TEXTS), image_of_text)
    report = TASK.evaluate(SCENES)
    assert (report["images"], report["texts"]) == (4, len(TEXTS))
    assert report["image_recall1"] == expected.image[1]
    assert report["text_recall5"] == expected.text[5]
    recalls = [*expected.image.values(), *expected.text.values()]
    assert report["recall_sum"] == pytest.approx(sum(recalls))
    assert report["text_median_rank"] == expected.text_median_rank
    assert set(Retrieval.metric_names) < set(report)
    assert 0 < report["mass_in_boxes"] < 1
    assert 0 < report["area_of_boxes"] < 1


def test_evaluation_uses_the_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    task, batches = make_untrained_task(), []
    encode = task.model.encode_images

    def count(images: Any) -> Any:
        batches.append(len(images))
        return encode(images)

    monkeypatch.setattr(task.model, "encode_images", count)
    assert task.evaluate(replace(SCENES, boxes=None), batch_size=3)["images"] == 4
    assert batches == [3, 1]


@pytest.mark.parametrize("direction", ["text_to_image", "image_to_text"])
def test_uniform_attention_gives_mass_in_boxes_equal_to_box_area(direction: str) -> None:
    """With zero projection weights, regions are equal: uniform attention, tied similarities."""
    task = make_untrained_task(direction=direction)
    task.model.input_projection.set_weights(
        [0 * weight for weight in task.model.input_projection.get_weights()]
    )
    report = task.evaluate(SCENES)
    assert report["mass_in_boxes"] == pytest.approx(report["area_of_boxes"], abs=1e-5)
    assert report["image_recall1"] == report["text_recall1"] == 0  # a tie counts as a miss


def test_batches_and_limits() -> None:
    lengths = [len(text.split()) for text in TEXTS]
    task = make_untrained_task()
    task.max_target_length = max(lengths) - 1
    batches = task.make_batches(SCENES, batch_size=5, seed=1)
    kept = sum(length < max(lengths) for length in lengths)
    assert len(batches) == kept
    assert kept < len(TEXTS)
    inputs, labels = batches.get_batch(0)
    np.testing.assert_array_equal(inputs["image"], SCENES.images[labels])
    texts = [task.tokenizer.decode(row[row > 0].tolist()) for row in inputs["text"]]
    assert all(text in SCENES.captions[owner] for text, owner in zip(texts, labels, strict=True))
    assert len(task.filter_by_length(SCENES)) == 4
    task.max_target_length = 1
    assert len(task.filter_by_length(SCENES)) == 0
    with pytest.raises(
        ValueError, match=r"every caption has more tokens than the limit max_target_length=1\. "
    ):
        task.make_batches(SCENES, 5, 1)


@pytest.mark.full
def test_training_from_a_recipe(tmp_path: Path) -> None:
    """Uses the corpora of captioning, selects checkpoints by `recall_sum`, and reports recall."""
    assert Retrieval.corpora is Captioning.corpora
    text = f"""
task: retrieval
run: {tmp_path / "run"}
data: {{corpus: scenes, size: 12, validation_size: 4, test_size: 3, image_size: 16, min_things: 2,
        max_things: 2}}
tokenizer: {{kind: whitespace, vocabulary_size: 60}}
model: {{preset: cross_attention_retriever_small, embedding_dim: 4, units: 4, dropout: 0.0,
         encoder: {{filters: [4, 4]}}}}
training: {{steps: 2, batch_size: 8, evaluate_every: 2, monitor: recall_sum, learning_rate: 0.001}}
"""
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(text)
    result = training.fit(recipe)
    assert result.step == 2
    assert isinstance(result.task, Retrieval)
    metrics = training.evaluate(tmp_path / "run")["metrics"]
    assert (metrics["images"], metrics["texts"]) == (3, 12)
    assert metrics["image_recall10"] > 0
    with pytest.raises(ValueError, match=r"label_smoothing=0.1: retrieval has no labels"):
        training.fit(recipe, [f"run={tmp_path / 'other'}", "training.label_smoothing=0.1"])
    other = training.read_recipe(recipe, ["model={preset: show_attend_tell_small}"])
    with pytest.raises(ValueError, match=r"^model.preset=show_attend_tell_small: model must be a"):
        Retrieval.from_recipe(other, SCENES)


@refuses(
    (
        lambda: TASK.predict(["a"]),
        r"^index must be the result of task.build_index\(images\), got None.*index=task.build_",
    ),
    (
        lambda: TASK.predict(["a"], index=[SCENES.images[0]]),
        r"^index must be the result of task.build_index\(images\), got l",
    ),
    (lambda: TASK.check_sources(["a", " "], ["in:1", "in:2"]), r"^in:2: has no words, got ' '"),
    (lambda: TASK.predict("a", index=INDEX), "predict takes a list of texts"),
    (lambda: TASK.predict(["a", " "], index=INDEX), "text 1: has no words, got ' '"),
    (lambda: TASK.predict(["a"], index=INDEX, n_best=0), "n_best must be at least 1, got 0"),
    (lambda: TASK.predict(["a"], index=INDEX, beams=2), "unknown search option 'beams'"),
    (lambda: TASK.build_index("a.png"), "build_index takes a list of images"),
    (lambda: TASK.build_index(SCENES.images[0]), "build_index takes a list of images"),
    (
        lambda: TASK.build_index(SCENES.images, names="abcd"),
        "^names must be a list of strings, got 'abcd'",
    ),
    (lambda: TASK.similarities(INDEX, "a dog"), "^similarities takes a list of texts, got str"),
    (lambda: TASK.build_index([]), "images is empty; give at least one image"),
    (lambda: TASK.build_index([SCENES.images[0]], names=[]), "1 images but 0 names"),
    (lambda: TASK.build_index(["missing.png"]), "missing.png"),
    (lambda: TASK.build_index([SCENES.images[0], b"x"]), "image 1: "),
    (lambda: Retrieval(az.models.GPT(9, 8, 8, 1, 1), TOKENIZER), "must be a .*Retriever, got GPT"),
    (
        lambda: Retrieval(TASK.model, train_tokenizer("whitespace", ["a"], 9)),
        "the tokenizer has 5 tokens, but the model's vocab",
    ),
)
def test_invalid_input_raises(call: Any) -> None:
    TASK.check_sources(["a"], ["stdin:1"])
    call()
