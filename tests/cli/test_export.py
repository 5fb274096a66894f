"""`export` writes a folder that TensorFlow serves."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from attention_zoo import tasks
from attention_zoo.cli import main
from attention_zoo.data import generate_dates
from tests.tasks import captioners
from tests.training.small import small_run

LINES = generate_dates(3, split="test", max_phrases=1).sources


@pytest.mark.full
def test_exported_model_predicts_like_the_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"beam_width": 3, "n_best": 2}
    words = [f"search.{name}={value}" for name, value in options.items()]
    folder = tmp_path / "served"
    code = main(["export", str(small_run()), str(folder), *words, "--dtype", "float32"])
    out = capsys.readouterr().out
    assert code == 0
    lines = out[out.index(f"{folder}; call it") :].splitlines()[1:]
    called: dict[str, Any] = {}
    exec(textwrap.dedent("\n".join(lines)), called)
    assert len(called["outputs"]["text"]) == 1
    texts = called["served"](text=tf.constant(LINES))["text"].numpy()
    answers = tasks.load(small_run()).predict(LINES, **options)
    for row, best in enumerate(answers):
        expected = [best.text, *(other.text for other in best.alternatives)]
        assert [text.decode() for text in texts[row]] == expected


@pytest.mark.full
def test_captioner_is_exported_with_its_image_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captioners.make_untrained_task(max_target_length=5).save(tmp_path / "run")
    words = [str(tmp_path / "run"), str(tmp_path / "served"), "data.image_size=16"]
    assert main(["export", *words]) == 0, capsys.readouterr().err
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    image = captioners.encoded(captioners.picture(1), "JPEG")
    answers = served(image=tf.constant([image]))
    assert answers["attention"].shape[3:] == (4, 4)
    (expected,) = captioners.make_untrained_task(image_size=16, max_target_length=5).predict(
        [image]
    )
    assert answers["text"].numpy()[0, 0].decode() == expected.text
