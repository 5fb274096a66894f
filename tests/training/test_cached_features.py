"""`training.cache_features`: the features of a frozen image encoder are computed once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from attention_zoo import models, training
from attention_zoo.data.storage.image_column import FeatureFile
from attention_zoo.tasks import image_features
from attention_zoo.tasks.image_features import load_or_compute_features
from tests.layers.running import array, close
from tests.refusals import refuses
from tests.tasks import captioners
from tests.tasks.test_cached_images import make_corpus, write_corpus
from tests.training.small import assert_same_run, write_recipe
from tests.training.test_fine_tuning import SCENES

CACHED = ("training.frozen=[encoder]", "training.cache_features=true")
TARGET = np.array([[2, 5, 6], [2, 7, 0]], "int32")
TRANSFORMER = "caption_transformer_small"


def record_computations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives the number of images of each computation of features."""
    compute, counts = image_features._compute_features, []

    def count(encoder: Any, images: Any) -> Any:
        counts.append(len(images))
        return compute(encoder, images)

    monkeypatch.setattr(image_features, "_compute_features", count)
    return counts


def test_features_are_computed_once_for_a_corpus_and_an_encoder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = record_computations(monkeypatch)
    task = captioners.make_untrained_task()
    options, cache = write_corpus("captions", tmp_path), str(tmp_path / "cache")
    examples = make_corpus("captions", options, cache).read("train")
    want = array(task.model.encoder(examples.images[:]))
    for _ in range(2):
        features = load_or_compute_features(task.model, examples)
        assert isinstance(features, FeatureFile)
        assert features.shape == (3, 3, 3, 6)
        np.testing.assert_array_equal(features[[2, 0]], want[[2, 0]].astype("float16"))
    in_memory = make_corpus("captions", options, False).read("train")
    np.testing.assert_array_equal(load_or_compute_features(task.model, in_memory), features[:])
    assert counts == [3, 3]
    task.model.encoder.norms[0].beta.assign_add(np.ones(4))
    other = load_or_compute_features(task.model, examples)
    assert counts == [3, 3, 3]
    assert np.abs(other[:] - features[:]).max() > 0.1


def test_batches_have_features_of_a_fixed_shape() -> None:
    task, examples = captioners.make_untrained_task(), captioners.captioned(4)
    task.model.encoder.trainable = False
    images = task.make_batches(examples, 4, 1)
    features = task.make_feature_batches(examples, 4, 1)
    assert features.steps_per_epoch == images.steps_per_epoch
    for step in range(3):
        (inputs, labels), (others, same_labels) = (x.get_batch(step) for x in (images, features))
        np.testing.assert_array_equal(labels, same_labels)
        want = array(task.model.encoder(inputs["image"])).astype("float16")
        close(others["image"], want, 1e-3)
    assert features.dataset().element_spec[0]["image"].shape == (None, 3, 3, 6)


@pytest.mark.full
def test_cached_features_give_the_same_loss(tmp_path: Path) -> None:
    page = write_recipe(tmp_path, SCENES)
    losses = []
    for name, words in (("images", CACHED[:1]), ("features", CACHED)):
        state = training.fit(page, [f"run={tmp_path / name}", *words])
        losses.append(state.best)
        image = np.zeros((1, 16, 16, 3), "uint8")
        inputs = {"image": image, "target": TARGET[:1]}
        model = state.task.model
        close(model(inputs), model({**inputs, "image": model.encoder(image)}), 1e-6)
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert losses[0] != losses[1], "features are float16"


def test_features_out_of_the_range_of_float16_are_rejected(tmp_path: Path) -> None:
    task, examples = captioners.make_untrained_task(), captioners.captioned(2)
    task.model.encoder.norms[-1].gamma.assign(np.full(6, 1e6))
    with pytest.raises(ValueError, match="exceeds the range of float16"):
        load_or_compute_features(task.model, examples)


def test_encoders_with_as_many_features_as_channels_are_rejected() -> None:
    encoder = {"kind": "cnn", "filters": [3]}
    model = models.ShowAttendTell(60, embedding_dim=4, units=4, attention_units=3, encoder=encoder)
    task, examples = captioners.make_untrained_task(), captioners.captioned(2)
    task.model = model
    model.encoder.trainable = False
    with pytest.raises(ValueError, match="grids would be mistaken for images"):
        task.make_feature_batches(examples, 2, 1)


@pytest.mark.full
@pytest.mark.parametrize("is_cached", [True, False])
def test_runs_resume_exactly(
    is_cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = write_corpus("captions", tmp_path)
    cache = str(tmp_path / "cache") if is_cached else False
    data = {**options, "corpus": "captions", "image_size": 16, "skip_bad": 1, "cache": cache}
    data["validation"] = data["train"]
    lines = "".join(f"  {name}: {value}\n" for name, value in data.items())
    page = write_recipe(
        tmp_path,
        f"task: captioning\ndata:\n{lines}tokenizer: {{kind: whitespace}}\n"
        "model: {preset: show_attend_tell_small, units: 6, encoder: {filters: [4]}}\n"
        "training: {steps: 6, evaluate_every: 3, batch_size: 2}\n",
    )
    counts = record_computations(monkeypatch)
    whole = training.fit(page, [f"run={tmp_path / 'whole'}", *CACHED])
    stopper = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: stop(stopper.model))
    parts = [f"run={tmp_path / 'parts'}", *CACHED]
    assert training.fit(page, parts, callbacks=[stopper]).step == 3
    assert_same_run(training.fit(page, parts).folder, whole.folder)
    assert len(counts) == (1 if is_cached else 6), "both splits are the same file"


def stop(model: Any) -> None:
    model.stop_training = True


@refuses(
    (
        ("training.cache_features=true",),
        r"training\.cache_features requires a frozen image encoder; set training\.frozen=\[enc",
    ),
    (("training.cache_features=often",), r"training\.cache_features.*often.* bool"),
)
def test_conflicting_options_are_rejected(words: tuple[str, ...], tmp_path: Path) -> None:
    training.fit(write_recipe(tmp_path, SCENES), [f"run={tmp_path / 'run'}", *words])


def test_tasks_without_images_are_rejected(tmp_path: Path) -> None:
    page = write_recipe(tmp_path)
    with pytest.raises(ValueError, match="task translation has no image encoder"):
        training.fit(page, [f"run={tmp_path / 'run'}", "training.cache_features=true"])


def test_decoders_that_attend_to_the_class_token_are_rejected() -> None:
    task, examples = captioners.make_untrained_task(TRANSFORMER), captioners.captioned(2)
    vit = {"kind": "vit", "image_size": 12, "patch_size": 4, "num_heads": 2, "num_layers": 1}
    options = {**task.model.settings, "num_layers": [0, 1]}
    options["encoder"] = {**vit, "embedding_dim": 8, "units": 8}
    task.model = models.CaptionTransformer(**options)
    task.model.encoder.trainable = False
    with pytest.raises(ValueError, match="got a feature grid, which lacks the class token"):
        task.model({"image": np.zeros((2, 3, 3, 8), "float16"), "target": TARGET})
    with pytest.raises(ValueError, match="the decoder attends to the class token"):
        task.make_feature_batches(examples, 2, 1)
