"""`inspect` writes an interactive page of the attention of one input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attention_zoo as az
from attention_zoo.cli.inspect import METHODS
from attention_zoo.inspection import attribution
from attention_zoo.tasks.attention_report import make_attributions
from tests.cli.test_main import Capture, run
from tests.tasks import captioners
from tests.training.small import small_run

PAIR = "Ulla gave a bell to Tess.", "Tess got a bell from Ulla."


def test_methods_are_those_of_attribution() -> None:
    assert tuple(attribution.METHODS) == METHODS


def read_data(page: Path) -> dict[str, Any]:
    text = page.read_text("utf-8")
    found = re.search(r'<script[^>]*id="attention-data"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_page_of_a_pair(tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    code, out, err = run(capsys, "inspect", "esim_small.claims", *PAIR, "--html", page)
    assert (code, err) == (0, "")
    assert out == f"contradiction\n{page}\n"
    names = [layer["name"] for layer in read_data(page)["layers"]]
    assert [re.sub(r"_\d+:", ":", name) for name in names] == ["esim:0", "esim:1"]


@pytest.mark.full
@pytest.mark.parametrize("method", ["integrated_gradients", "gradient_x_input", "occlusion"])
def test_page_with_attributions(method: str, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "page.html"
    options = ["--html", page, "--attribution", method]
    code, _, err = run(capsys, "inspect", "esim_small.claims", *PAIR, *options)
    assert (code, err) == (0, "")
    text = page.read_text("utf-8")
    assert f"{method.replace('_', ' ')}, first" in text
    assert f"{method.replace('_', ' ')}, second" in text


def test_output_of_a_translator_can_be_given(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["at 5:04 PM I return.", "--output", "je rentre à 17:04."]
    code, _, err = run(capsys, "inspect", small_run(), *words)
    assert (code, err) == (0, "")
    data = read_data(Path("attention.html"))
    target = data["texts"][data["layers"][0]["targets"]]["labels"]
    assert target[0] == "je"
    assert target[-1] == "</s>"


def test_page_of_an_image(tmp_path: Path, capsys: Capture) -> None:
    task = captioners.make_untrained_task()
    task.save(tmp_path / "run")
    (tmp_path / "a.png").write_bytes(captioners.encoded(captioners.picture(0)))
    page = tmp_path / "page.html"
    code, _, err = run(capsys, "inspect", tmp_path / "run", tmp_path / "a.png", "--html", page)
    assert (code, err) == (0, "")
    assert "Image overlay" in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["esim_small.claims", "one text"], "task matching takes two texts, got 1; quote each"),
        (["bert_tiny.orders", "a", "b"], "task tagging takes one text, got 2; quote each"),
        (["esim_small.claims", *PAIR, "--layers", "x*"], "no attention layer matches 'x*'; known"),
        (["esim_small.claims", *PAIR, "--html", "no/a.html"], "folder no does not exist; create"),
        (["bert_tiny.dates_en", "on [MASK]"], "task masked_language_modeling cannot be inspected"),
        (
            ["bert_tiny.orders", "a", "--attribution", "occlusion"],
            "needs one prediction per input, got task tagging",
        ),
    ],
)
def test_errors(words: list[str], message: str, tmp_path: Path, capsys: Capture) -> None:
    html = [] if "--html" in words else ["--html", tmp_path / "page.html"]
    code, out, err = run(capsys, "inspect", *words, *html)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert not (tmp_path / "page.html").exists()


@pytest.mark.full
def test_attribution_of_a_translation_is_complete() -> None:
    """The scores sum to the change of the log probability of the whole text."""
    task = az.load("rnnsearch_small.dates_en_fr")
    call = task.make_model_call("dinner is at 1:46 PM.", "le dîner est à 13:46.")
    (attribution,) = make_attributions(task, call, "integrated_gradients")
    assert attribution.tokens == call.labels["source"]
    ids = [*call.inputs["target"][0, 1:], 3]

    def compute_log_probability(model: Any) -> float:
        logits = np.asarray(model(dict(call.inputs), training=False), "float64")[0]
        log_probabilities = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return float(log_probabilities[np.arange(len(ids)), ids].sum())

    output = compute_log_probability(task.model)
    task.model.source_embedding.embeddings.assign(
        np.zeros(task.model.source_embedding.embeddings.shape)
    )
    difference = output - compute_log_probability(task.model)
    assert abs(np.sum(attribution.scores) - difference) <= 0.02 * abs(difference)
