"""The files of the demo page and their headers, and the examples of exports."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from fastapi import FastAPI
from PIL import Image

from attention_zoo import tasks, zoo
from attention_zoo.cli.export import read_examples as read_run_examples
from attention_zoo.data import LabelledPairs, LabelledTexts, TaggedSentences, TextLines
from attention_zoo.export import export
from attention_zoo.export_description import Description, read_description
from attention_zoo.serving.demo import DEMO_PATHS, add_demo
from attention_zoo.serving.exports import load_export
from attention_zoo.tasks.inputs import Input
from attention_zoo.tasks.served_examples import format_examples
from tests import pages
from tests.tasks import captioners
from tests.tasks.translators import make_untrained_task
from tests.tiers import mark_others_full

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "attention_zoo" / "serving" / "demo_page"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def get(app: Any, path: str) -> Answer:
    """Return the response of an application to GET."""
    sent: list[dict[str, Any]] = []
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    headers = {key.decode(): value.decode() for key, value in sent[0]["headers"]}
    return Answer(sent[0]["status"], headers, b"".join(one.get("body", b"") for one in sent[1:]))


def test_files_and_headers_of_the_page() -> None:
    app = FastAPI(openapi_url=None)
    add_demo(app)
    names = [file.name for file in PAGE.iterdir() if not file.name.startswith(".")]
    assert {"index.html", "main.js", "base.css", "icon.svg"} <= set(names)
    for path in ("/", *(f"/demo/{name}" for name in names if name != "index.html")):
        answer = get(app, path)
        assert answer.status == 200
        assert any(path == public or path.startswith("/demo/") for public in DEMO_PATHS)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert get(app, "/").body == (PAGE / "index.html").read_bytes()
    assert get(app, "/demo/main.js").headers["content-type"].startswith("text/javascript")
    for path in ("/demo/", "/demo/x.js", "/demo/index.html", "/demo/%2e%2e", "/index.html"):
        assert get(app, path).status == 404


@pytest.mark.full
def test_page_has_no_inline_code_and_no_address_of_another_server() -> None:
    for file in PAGE.iterdir():
        text = file.read_text("utf-8")
        # Names of XML namespaces are no addresses.
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text
        )
        assert file.suffix != ".js" or len(text.splitlines()) < 400
    html = (PAGE / "index.html").read_text("utf-8")
    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", html) == []


VALID = {
    "format_version": 1,
    "task": "translation",
    "examples": [{"text": "a"}],
    "joint_signatures": ["rank"],
}
HOSTILE = {
    "list": [],
    "keys": {**VALID, "more": 1},
    "missing": {"format_version": 1, "examples": []},
    "version": {**VALID, "format_version": 2},
    "task": {**VALID, "task": 1},
    "long task": {**VALID, "task": "a" * 101},
    "object": {**VALID, "examples": {"text": "a"}},
    "many": {**VALID, "examples": [{"text": "a"}] * 101},
    "empty": {**VALID, "examples": [{}]},
    "number": {**VALID, "examples": [{"text": 1}]},
    "binary": {**VALID, "examples": [{"image": {"b64": 1}}]},
    "key": {**VALID, "examples": [{"": "a"}]},
    "joint": {**VALID, "joint_signatures": "rank"},
    "joint name": {**VALID, "joint_signatures": [1]},
}


@pytest.mark.parametrize("name", mark_others_full(HOSTILE))
def test_hostile_examples_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "serving.json").write_text(json.dumps(VALID))
    assert read_description(tmp_path) == ("translation", ({"text": "a"},), ("rank",))
    (tmp_path / "serving.json").write_text(json.dumps(HOSTILE[name]))
    with pytest.raises(ValueError, match=r"serving\.json: .*export the model again") as error:
        read_description(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.full
@pytest.mark.parametrize("content", [b"\xff", b"{", b"[" * 100_000, b'{"task": ' + b"9" * 5000])
def test_examples_that_are_not_json_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "serving.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"serving\.json: is not JSON"):
        read_description(tmp_path)


@pytest.mark.full
def test_large_examples_are_refused(tmp_path: Path) -> None:
    (tmp_path / "serving.json").write_bytes(b" " * (1 << 20) + b"{}")
    with pytest.raises(ValueError, match="has 1,048,578 bytes, the maximum is 1,048,576"):
        read_description(tmp_path)
    (tmp_path / "serving.json").unlink()
    assert read_description(tmp_path) == Description()


@pytest.mark.full
def test_exports_have_their_examples(tmp_path: Path) -> None:
    task = make_untrained_task("rnnsearch_small", ["a cat"], ["eine Katze"])
    examples = [{"text": "a cat"}, {"text": "ذهبت 😀"}]
    folder = export(task, tmp_path / "served", examples=examples)
    assert read_description(folder) == ("translation", tuple(examples), ())
    load_export(folder)
    (folder / "serving.json").write_text("{}")
    with pytest.raises(ValueError, match=r"serving\.json has another size"):
        load_export(folder)
    with pytest.raises(ValueError, match=r"examples: examples\[0\] must be an object"):
        export(task, tmp_path / "invalid", examples=[{"text": 5}])
    with pytest.raises(ValueError, match="at most 1,048,576 bytes as JSON"):
        export(task, tmp_path / "large", examples=[{"text": "a" * (1 << 20)}])
    assert not (tmp_path / "large").exists()
    assert read_description(export(task, tmp_path / "none")) == ("translation", (), ())


PAIRS = LabelledPairs(["a", "b"], ["c", "d"], [("x",), ("y",)], None, None, "test")


@pytest.mark.full
@pytest.mark.parametrize(
    ("inputs", "examples", "expected"),
    [
        ([Input("texts")], TextLines(["a", "b"], "test"), [{"text": "a"}, {"text": "b"}]),
        (
            [Input("texts")],
            TaggedSentences([("Ida", "sees")], [("A", "B")], "test"),
            [{"text": "Ida sees"}],
        ),
        ([Input("texts", "document")], LabelledTexts(["a"], [("x",)], "test"), [{"text": "a"}]),
        (
            [Input("pairs", "text_pair")],
            PAIRS,
            [{"first": "a", "second": "c"}, {"first": "b", "second": "d"}],
        ),
        ([Input("images", "image")], TextLines(["a"], "test"), []),
        ([Input("texts")], ["a"], []),
    ],
)
def test_formats_of_examples(inputs: Any, examples: Any, expected: Any) -> None:
    assert format_examples(inputs, examples) == expected


@pytest.mark.full
def test_examples_of_images() -> None:
    images = captioners.captioned(2)
    (first, _) = format_examples([Input("texts"), Input("index", "image_index")], images)
    assert first["text"] == captioners.KNOWN[0]
    decoded = Image.open(io.BytesIO(base64.b64decode(first["image"]["b64"])))
    np.testing.assert_array_equal(np.asarray(decoded), images.images[0])


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["rnnsearch_small.dates_en_fr", "ram_mnist.digits", "bert_tiny.dates_en"]
)
def test_examples_of_generated_corpora(name: str) -> None:
    task = tasks.load(name)
    examples = read_run_examples(task, name)
    assert len(examples) == 3
    for example in examples:
        (key,) = example
        value = example[key]
        task.predict([value if key == "text" else base64.b64decode(value["b64"])])


@pytest.mark.full
def test_runs_on_files_have_no_examples(tmp_path: Path) -> None:
    task = make_untrained_task("rnnsearch_small", ["a cat"], ["eine Katze"])
    task.save(tmp_path)
    assert read_run_examples(task, str(tmp_path)) == []
    recipe = zoo.find_recipe("rnnsearch_small.multi30k_de_en").read_text("utf-8")
    (tmp_path / "recipe.yaml").write_text(recipe)
    assert read_run_examples(task, str(tmp_path)) == []
    (tmp_path / "recipe.yaml").write_text("task: [")
    assert read_run_examples(task, str(tmp_path)) == []


@pytest.mark.full
def test_page_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command, code = pages.read_blocks(ROOT / "docs" / "demo.md")
    assert command.text == "attention-zoo demo rnnsearch_small.dates_en_fr\n"
    pages.run_python(code.text, "demo.md", {}, "")
    assert read_description("served").examples == ({"text": "dinner is at 5:04 PM."},)
