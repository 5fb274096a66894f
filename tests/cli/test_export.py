"""`export` writes a folder that TensorFlow serves; mistakes leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest
import tensorflow as tf

from attention_zoo import tasks
from attention_zoo.cli import main
from attention_zoo.data import generate_dates
from tests.tasks import captioners
from tests.training.small import small_run

LINES = generate_dates(3, split="test", max_phrases=1).sources


@pytest.mark.full
def test_what_is_exported_answers_like_predict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"beam_width": 3, "n_best": 2}
    words = [f"search.{name}={value}" for name, value in options.items()]
    folder = tmp_path / "served"
    code = main(["export", str(small_run()), str(folder), *words])
    out = capsys.readouterr().out
    assert code == 0
    assert out.splitlines()[-1] == str(folder)
    served = tf.saved_model.load(str(folder)).signatures["serving_default"]
    texts = served(text=tf.constant(LINES))["text"].numpy()
    answers = tasks.load(small_run()).predict(LINES, **options)
    for row, best in enumerate(answers):
        want = [best.text, *(other.text for other in best.alternatives)]
        assert [text.decode() for text in texts[row]] == want


MISTAKES = {
    "no folder": ((), "export writes one folder, 0 are named"),
    "two folders": (("a", "b"), "export writes one folder, 2 are named"),
    "there": (("there",), "there: exists already; name a folder that does not"),
    "section": (("new", "training.steps=2"), "training.steps=2: export takes search."),
    "option": (("new", "search.beam=2"), "search.beam=2: unknown key 'search.beam'"),
    "contradiction": (("new", "search.n_best=2"), "n_best is 2 but beam_width is 1"),
    "no such token": (
        ("deep/er/new", "search.banned_tokens=[99999]"),
        "error: banned_tokens names token 99999 but step gives logits of",
    ),
    "format": (("deep/new", "--format", "onnx"), "unknown export format 'onnx'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_line_and_leave_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(small_run().resolve())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    words, message = MISTAKES[name]
    capsys.readouterr()
    assert main(["export", run, *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.full
def test_a_captioner_is_exported_with_the_size_of_its_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    captioners.untrained(max_target_length=5).save(tmp_path / "run")
    words = [str(tmp_path / "run"), str(tmp_path / "served"), "data.image_size=16"]
    assert main(["export", *words]) == 0, capsys.readouterr().err
    served = tf.saved_model.load(str(tmp_path / "served")).signatures["serving_default"]
    image = captioners.encoded(captioners.picture(1), "JPEG")
    answers = served(image=tf.constant([image]))
    assert answers["attention"].shape[3:] == (4, 4)
    (want,) = captioners.untrained(image_size=16, max_target_length=5).predict([image])
    assert answers["text"].numpy()[0, 0].decode() == want.text
