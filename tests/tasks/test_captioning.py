"""Captioning: attention over the image, limits, batches and evaluation."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attention_zoo import models
from attention_zoo.data import read_image, train_tokenizer
from attention_zoo.tasks import Caption, Captioning, SearchOptions
from tests.refusals import refuses
from tests.tasks.captioners import KNOWN, SIDE, captioned, encoded, make_untrained_task, picture

IMAGES = [picture(seed) for seed in range(5)]


@functools.cache
def captioner(attention: str = "soft") -> Captioning:
    return make_untrained_task(attention=attention, search=SearchOptions(beam_width=2, n_best=2))


def assert_same(one: Caption, other: Caption) -> None:
    assert (one.text, one.truncated) == (other.text, other.truncated)
    assert one.score == pytest.approx(other.score, abs=1e-4)
    np.testing.assert_allclose(one.attention, other.attention, atol=1e-5)
    np.testing.assert_array_equal(one.image, other.image)


def test_paths_bytes_and_arrays_give_equal_captions(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(encoded(IMAGES[0]))
    images = [IMAGES[0], path, str(path), path.read_bytes()]
    first, *others = captioner().predict(images, batch_size=4)
    np.testing.assert_array_equal(first.image, read_image(IMAGES[0], SIDE))
    for other in others:
        assert_same(first, other)
    (stacked, _) = captioner().predict(np.stack(IMAGES[:2]), batch_size=4)
    assert_same(first, stacked)


@pytest.mark.full
def test_attention_and_scores_of_words() -> None:
    for answer in captioner().predict(IMAGES, min_length=3):
        assert len(answer.alternatives) == 1
        assert answer.score >= answer.alternatives[0].score
        assert answer.text != answer.alternatives[0].text
        for one in (answer, *answer.alternatives):
            size = len(one.tokens)
            assert size >= 2
            assert one.attention.shape == (size, 3, 3)
            np.testing.assert_allclose(one.attention.sum((1, 2)), 1, atol=1e-5)
            assert len(one.token_scores) == size + (not one.truncated)
            assert " ".join(one.tokens) == one.text


@pytest.mark.full
def test_attention_has_the_shape_of_the_feature_grid() -> None:
    """The first attention step equals that of the layers, for a grid wider than high."""
    task = captioner()
    image = read_image(IMAGES[0], (8, 24))
    result = task.model.compiled_search(image[None], SearchOptions(max_length=3))
    answer = next(task._make_results(image, result, 0))
    model = task.model
    encoded = model.encode(image[None], training=False)
    trace = model.start_decoding(image[None], 1, 4)
    expected = trace.step(np.array([[2]]), trace.state).attention
    assert answer.attention.shape[1:] == encoded.memory.shape[1:3] == (2, 6)
    np.testing.assert_allclose(answer.attention[0].ravel(), np.ravel(expected), atol=1e-5)


@pytest.mark.full
def test_pooled_baseline_has_no_attention() -> None:
    answer = captioner("pooled").predict(IMAGES[:1])[0]
    assert answer.attention is None
    assert answer.alternatives[0].attention is None
    assert answer.tokens


def test_default_max_length() -> None:
    task = captioner()
    assert task.search_options().max_length == 8
    assert task.search_options(max_length=4).max_length == 4
    for answer in task.predict(IMAGES, max_length=1):
        assert answer.truncated is (len(answer.tokens) == 1)


IMAGE = IMAGES[0]


@refuses(
    ("a.png", {}, r"write predict\(\[image\]\)"),
    (IMAGE, {}, r"write predict\(\[image\]\)"),
    (["no.png"], {}, "^no.png: No such file"),
    ([IMAGE, encoded(IMAGE)[:60]], {}, "^image 1: the PNG data is damaged or truncated"),
    ([IMAGE / 2], {}, "^image 0: the array must be uint8, .* got float64"),
    ([IMAGE], {"beam_with": 3}, "option 'beam_with'; did you mean 'beam_width'"),
    ([IMAGE], {"max_length_ratio": 1.0}, "an image has no length; give max_length"),
)
def test_invalid_input_raises(images: Any, options: Any) -> None:
    captioner().predict(images, **options)


def test_invalid_sources_are_located(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(encoded(IMAGE))
    captioner().check_sources([str(path)], ["in.txt:1"])
    for bad, message in (
        ("no.png", "in.txt:2: no.png: No such file"),
        ("", "in.txt:2: is empty; give the path of an image"),
        ("a\0b", "in.txt:2: a\0b: the path contains a null character; remove it"),
    ):
        with pytest.raises(ValueError, match=message):
            captioner().check_sources([str(path), bad], ["in.txt:1", "in.txt:2"])
    with pytest.raises(ValueError, match=r"^image 0: no\.png: No such file"):
        captioner().check_sources(["no.png"])


def test_unsuitable_models_and_tokenizers_raise() -> None:
    tokenizer = train_tokenizer("whitespace", KNOWN)
    model = models.from_preset("gpt_tiny", vocabulary_size=20, units=8, num_heads=2, num_layers=1)
    with pytest.raises(ValueError, match=r"model must be a models.Captioner, such as .*, got GPT"):
        Captioning(model, tokenizer)
    with pytest.raises(ValueError, match="the tokenizer has 5 tokens, but the model's vocab"):
        Captioning(captioner().model, train_tokenizer("whitespace", ["a a"]))
    sizes = {"vocabulary_size": 5, "embedding_dim": 4, "units": 4, "attention_units": 4}
    grids = models.ShowAttendTell(**sizes, encoder={"kind": "features", "width": 8})
    with pytest.raises(ValueError, match="the model's encoder takes grids of 8 features, but im"):
        Captioning(grids, train_tokenizer("whitespace", ["a a"]))


def test_batches_pair_captions_with_images_and_drop_long_captions() -> None:
    long = " ".join(["dogs"] * 8)  # with its end token one over the limit
    examples = captioned(3, captions=[("a ball", "two dogs run"), (long,), (long, "a dog")])
    batches = captioner().make_batches(examples, 2, seed=1)
    assert len(batches) == 3
    image_of_caption = {}
    for row in range(3):
        batch, labels = batches.make_batch(np.array([row]))
        (image,) = (n for n, one in enumerate(examples.images) if (batch["image"][0] == one).all())
        image_of_caption[captioner().tokenizer.decode(labels[0])] = image
        assert batch["target"][0, 0] == 2
    assert image_of_caption == {"a ball": 0, "two dogs run": 0, "a dog": 2}
    assert sorted(batches.get_example_numbers(0) + batches.get_example_numbers(1)) == [1, 1, 3]
    kept = captioner().filter_by_length(examples)
    assert kept.names == ["0.png", "2.png"]
    with pytest.raises(
        ValueError, match=r"^test images: every caption has more tokens than .*=8\. Raise"
    ):
        captioner().make_batches(examples.take([1]), 2, seed=1)
    loss = captioner().make_loss(0.1)
    assert np.isfinite(float(loss(labels, captioner().model(batch))))


def test_evaluate_agrees_with_predict() -> None:
    examples = captioned()
    answers = captioner().predict(list(examples.images))
    references = [("x", answers[0].text.upper()), ("x",), ("x  y",), (f" {answers[3].text} ",)]
    box = {answers[0].tokens[0]: (0.0, 0.0, 1 / 3, 2 / 3)}
    boxes = [box, {}, {}, {"nothing": (0.0, 0.0, 1.0, 1.0)}]
    report = captioner().evaluate(replace(examples, captions=references, boxes=boxes))
    assert report["exact_match"] == 50
    assert report["images"] == 4
    assert report["truncated"] == sum(answer.truncated for answer in answers)
    named = [word == answers[0].tokens[0] for word in answers[0].tokens]
    inside = answers[0].attention[named][:, 0, :2].sum(1)
    assert report["mass_in_boxes"] == pytest.approx(inside.mean(), abs=1e-5)
    assert report["area_of_boxes"] == pytest.approx(2 / 9)
    assert set(captioner().metric_names) < report.keys()
    for boxes in (None, [{}] * 4):  # unknown, or none that is named
        report = captioner().evaluate(replace(examples, boxes=boxes))
        assert "mass_in_boxes" not in report
    assert report["exact_match"] == 0


@pytest.mark.full
def test_no_attention_metrics_without_attention() -> None:
    report = captioner("pooled").evaluate(captioned(2, boxes=[{}, {}]))
    assert "mass_in_boxes" not in report
    assert report["bleu1"] > 0
