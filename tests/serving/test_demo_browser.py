"""The demo page in headless Chromium, with a server of tiny exports."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

from attention_zoo.serving.app import make_app
from attention_zoo.serving.config import ModelConfig
from attention_zoo.serving.demo import add_demo
from attention_zoo.serving.metrics import Metrics
from attention_zoo.serving.model_manager import ModelManager
from attention_zoo.serving.served_model import ServedModel, load_model
from attention_zoo.serving.server import bind, make_server
from tests.browser import Browser, open_browser
from tests.serving.demo_exports import (
    ARABIC,
    ARTICLE,
    CHINESE,
    IMAGE,
    SCRIPT,
    SENTENCE,
    write_exports,
    write_picture,
)

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]  # the first test exports the models

COMMAND = """
import argparse
from attention_zoo.cli import demo
parser = argparse.ArgumentParser()
demo.add_arguments(parser)
demo.run(parser.parse_args())
"""
TOKEN = "0123456789abcdef-token"


class Served(NamedTuple):
    process: subprocess.Popen[str]
    url: str


@contextlib.contextmanager
def serve(folders: list[Path], token: str | None = None) -> Iterator[Served]:
    """Serve exports and the page in a process of its own."""
    environment = {key: value for key, value in os.environ.items() if key != "ATTENTION_ZOO_TOKEN"}
    if token is not None:
        environment["ATTENTION_ZOO_TOKEN"] = token
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, folders), "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        lines = []
        for line in process.stdout or ():
            lines.append(line)
            if line.startswith("serving "):
                break
        assert "".join(lines[-1:]).startswith("serving "), lines
        yield Served(process, lines[-1].split()[-1])
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_exports(tmp_path_factory.mktemp("exports"))


@pytest.fixture(scope="module")
def url(exports: list[Path]) -> Iterator[str]:
    with serve(exports) as served:
        yield served.url


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    yield from open_browser()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    chromium.open("about:blank")
    yield chromium
    chromium.driver.execute_cdp_cmd("Network.disable", {})


def show(browser: Browser, url: str, name: str, width: int = 1440, scheme: str = "light") -> None:
    """Open the page with a model."""
    browser.open(f"{url}/#{name}", width, 900, scheme)
    browser.wait(lambda: browser.find("#model-name").text == name)


def finish(browser: Browser) -> None:
    """Wait for the result or the error."""
    idle = "#output:not([aria-busy=true])"
    browser.wait(lambda: browser.find_all(f"{idle} .command, {idle} .message"))


def run(browser: Browser, *texts: str) -> None:
    """Type texts into the fields and run the model."""
    for field, text in zip(browser.find_all("#fields textarea"), texts, strict=True):
        field.clear()
        field.send_keys(text)
    browser.find("#run").click()
    finish(browser)


def run_example(browser: Browser, url: str, name: str, **window: Any) -> None:
    show(browser, url, name, **window)
    browser.find(".example").click()
    finish(browser)


def read_texts(browser: Browser, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
    return [str(text) for text in browser.run(script, selector)]


def read_shades(browser: Browser, selector: str) -> list[float]:
    script = "return [...document.querySelectorAll(arguments[0])].map((one) =>"
    script += " Number(one.style.getPropertyValue('--a')))"
    return [float(share) for share in browser.run(script, selector)]


def read_titles(browser: Browser) -> list[str]:
    return read_texts(browser, "#result h2")


def choose_model(browser: Browser, name: str) -> None:
    from selenium.webdriver.support.select import Select

    Select(browser.find("#model")).select_by_value(name)


def delay_requests(browser: Browser, milliseconds: int, is_offline: bool = False) -> None:
    command = browser.driver.execute_cdp_cmd
    command("Network.enable", {})
    conditions = {"downloadThroughput": -1, "uploadThroughput": -1, "latency": milliseconds}
    command("Network.emulateNetworkConditions", {**conditions, "offline": is_offline})


def count_predictions(browser: Browser) -> int:
    return sum(name.endswith(":predict") for name in browser.list_requests())


def check_clean(browser: Browser, url: str) -> None:
    """No errors, such as those of the security policy, and no request to another server."""
    assert browser.read_console() == []
    assert all(name.startswith(f"{url}/") for name in browser.list_requests())


def test_translation(browser: Browser, url: str) -> None:
    show(browser, url, "translator")
    assert browser.find(".empty").is_displayed()
    run(browser, SENTENCE)
    assert read_titles(browser) == ["Translation", "3 best", "Attention", "Command line"]
    (best, *others) = read_texts(browser, ".choice .grow")
    assert len(others) == 2
    assert read_texts(browser, ".result-text") == [best]
    assert re.fullmatch(r"Result in \d+ ms", browser.find("#time").text)
    assert read_texts(browser, ".matrix .columns span") == SENTENCE.split()
    tokens = read_texts(browser, ".result-text .token")
    assert read_texts(browser, ".matrix .rows span") == tokens
    browser.find_all(".choice")[1].click()
    assert read_texts(browser, ".result-text") == [others[0]]
    check_clean(browser, url)


def test_hovering_shades_the_source(browser: Browser, url: str) -> None:
    run_example(browser, url, "translator")
    sources = "p[aria-label='Source tokens'] .token"
    assert set(read_shades(browser, sources)) == {0.0}
    browser.hover(browser.find(".result-text .token"))
    shades = read_shades(browser, sources)
    assert max(shades) == 1
    assert len(shades) == len(SENTENCE.split())
    assert " has probability " in browser.find("#result .status").text
    # The pixels of the first row have the same shares of their largest weight.
    script = "return [...arguments[0].getContext('2d').getImageData(0, 0, 5, 1).data]"
    pixels = np.reshape(browser.run(script, browser.find(".cells canvas")), (5, 4))[:, 3]
    np.testing.assert_allclose(pixels / pixels.max(), shades, atol=0.02)
    (status,) = read_texts(browser, ".matrix + .status")
    largest = SENTENCE.split()[int(np.argmax(shades))]
    assert f" → “{largest}” " in status
    browser.hover(browser.find(".cells canvas"))  # its centre
    assert [one.is_displayed() for one in browser.find_all(".band")] == [True, True]
    assert "saw" in read_texts(browser, ".matrix + .status")[0]
    browser.hover(browser.find("h1"))
    assert set(read_shades(browser, sources)) == {0.0}
    browser.hover(browser.find(sources))
    assert max(read_shades(browser, ".result-text .token")) == 1
    check_clean(browser, url)


def test_options(browser: Browser, url: str) -> None:
    show(browser, url, "translator")
    browser.find("#options summary").click()
    assert read_texts(browser, ".option span") == ["Maximum length", "Begin the output with"]
    length, prefix = browser.find_all(".option input:not([type=range])")
    length.send_keys("2")
    prefix.send_keys("Katze")
    run(browser, SENTENCE)
    tokens = read_texts(browser, ".result-text .token")
    assert (len(tokens), tokens[0]) == (2, "Katze")
    assert "serve_with_options" in browser.find(".command pre").text
    slider = browser.find(".option input[type=range]")
    script = "arguments[0].value = 3; arguments[0].dispatchEvent(new Event('input'))"
    browser.run(script, slider)
    assert length.get_attribute("value") == "3"
    length.clear()
    length.send_keys("1.5")
    browser.find("#run").click()
    browser.wait(lambda: browser.find_all("#result .message"))
    assert browser.find("#result .message").text == "Maximum length: must be a whole number."


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("name", ["translator", "captioner"])
def test_the_command_line_sends_the_same_request(
    name: str, browser: Browser, url: str, tmp_path: Path
) -> None:
    show(browser, url, name)
    if name == "translator":
        run(browser, 'it\'s 100 % \\n "a" $HOME `b`')
    else:
        picture = write_picture(tmp_path / "it's 1 %.png")
        browser.find("input[type=file]").send_keys(str(picture))
        browser.wait(lambda: browser.find_all(".thumbnails img"))
        browser.find("#run").click()
        finish(browser)
    command = read_texts(browser, ".command pre")[0]
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=True)
    text = json.loads(done.stdout)["outputs"]["text"][0]
    assert read_texts(browser, ".result-text") == text[:1]


BODIES: dict[str, dict[str, Any]] = {
    "image": {"image": [{"b64": "QUJD"}], "text": ["\u0001 %s \\u0001 it's"]},
    "equal images": {"image": [{"b64": "QUJD"}, {"b64": "QUJD"}], "text": ['"b64":"QUJD"']},
    "long text": {"text": ["it's 100 % \\n é" * 30_000]},
}


@pytest.mark.parametrize("name", BODIES)
def test_command_lines_of_any_text(name: str, browser: Browser, url: str, tmp_path: Path) -> None:
    browser.open(url)
    (tmp_path / "it's a.png").write_bytes(b"ABC")
    body = {"inputs": BODIES[name]}
    files = [{"name": "it's a.png", **image} for image in BODIES[name].get("image", [])]
    script = "const [url, body, files] = arguments; return import('/demo/curl.js').then("
    script += "({ makeCommand }) => makeCommand(url, body, files, false))"
    command = browser.run(script, url, body, files)
    printing, sending = command.rsplit(" |\n", 1)
    assert sending == f"  curl '{url}' -d @-"
    script_file = tmp_path / "command.sh"
    script_file.write_text(printing)
    done = subprocess.run(["bash", script_file], cwd=tmp_path, capture_output=True, check=True)
    assert json.loads(done.stdout) == body


def test_tags(browser: Browser, url: str) -> None:
    run_example(browser, url, "tagger")
    (span,) = read_texts(browser, ".tagged .span")
    assert span == f"{SENTENCE}{SCRIPT}"
    assert "😀" not in span
    browser.find("#result summary").click()
    assert read_texts(browser, "tbody td:first-child") == SENTENCE.split()
    run(browser, f"😀 {SENTENCE}")  # offsets count characters, not code units
    assert "".join(read_texts(browser, ".tagged")).replace(SCRIPT, "") == f"😀 {SENTENCE}"
    check_clean(browser, url)


def test_classes(browser: Browser, url: str) -> None:
    run_example(browser, url, "classifier")
    (best,) = read_texts(browser, ".result-text")
    assert set(read_texts(browser, ".bars span")) == {SCRIPT, IMAGE}
    assert read_texts(browser, ".bars .chosen span") == [best]
    assert max(read_shades(browser, ".words .token")) == 1
    assert read_texts(browser, ".words") == [SENTENCE]
    run_example(browser, url, "documents")
    assert "".join(read_texts(browser, ".sentences .words")).split() == ARTICLE.split()
    assert max(read_shades(browser, ".sentences li")) == 1
    check_clean(browser, url)


def test_copied_words_are_marked(browser: Browser, url: str) -> None:
    run_example(browser, url, "summarizer")
    copied = browser.find_all(".result-text .copied")
    assert 0 < len(copied) < len(browser.find_all(".result-text .token"))
    assert "Underlined words are copied" in browser.find("#result").text
    word = copied[0].text
    browser.hover(copied[0])
    status = browser.find("#result .status").text
    assert f" from “{word}”, token " in status
    assert word in ARTICLE
    check_clean(browser, url)


def test_captions_of_files_and_drawings(browser: Browser, url: str, tmp_path: Path) -> None:
    show(browser, url, "captioner")
    browser.find("input[type=file]").send_keys(str(write_picture(tmp_path / "a.png")))
    browser.wait(lambda: browser.find_all(".thumbnails img"))
    browser.find("#run").click()
    finish(browser)
    words = browser.find_all(".result-text .token")
    assert len(browser.find_all(".gallery figure canvas")) == len(words) > 0
    photo = browser.find(".photo-line .photo")
    assert photo.rect["width"] / photo.rect["height"] == pytest.approx(5 / 3, abs=0.02)
    assert not browser.find_all(".photo-line .photo canvas")
    browser.hover(words[0])
    assert browser.find_all(".photo-line .photo canvas")
    first = read_texts(browser, ".command pre")[0]
    assert "'a.png'" in first
    browser.find(".drawing summary").click()
    browser.run("document.querySelector('.pad').scrollIntoView()")
    browser.hover(browser.find(".pad"))
    draw_line(browser)
    browser.find("#run").click()
    browser.wait(lambda: "drawing-" in "".join(read_texts(browser, ".command pre")))
    (name,) = read_texts(browser, ".thumbnails figcaption")
    assert name.startswith("drawing-")
    check_clean(browser, url)


def delay_decoding(browser: Browser) -> None:
    """Let the browser decode images half a second later."""
    browser.run("""
        const decode = window.createImageBitmap;
        window.createImageBitmap = async (blob) => {
          await new Promise((resolve) => setTimeout(resolve, 500));
          return decode(blob);
        };
    """)


def choose_files(browser: Browser, *paths: Path) -> None:
    browser.find("input[type=file]").send_keys("\n".join(map(str, paths)))


def read_names(browser: Browser) -> list[str]:
    return read_texts(browser, ".thumbnails figcaption")


def test_run_waits_for_the_chosen_image(browser: Browser, url: str, tmp_path: Path) -> None:
    show(browser, url, "captioner")
    delay_decoding(browser)
    for name in ("a.png", "b.png"):
        choose_files(browser, write_picture(tmp_path / name))
    browser.find("#run").click()
    finish(browser)
    assert "'b.png'" in read_texts(browser, ".command pre")[0]
    assert read_names(browser) == ["b.png"]


def test_an_example_is_filled_in_once(browser: Browser, url: str) -> None:
    from selenium.webdriver import ActionChains

    show(browser, url, "retriever")
    delay_decoding(browser)
    ActionChains(browser.driver).double_click(browser.find(".example")).perform()
    browser.find("#run").click()  # without effect while the fields are filled in
    finish(browser)
    assert read_names(browser) == ["example-1.png", "example-2.png"]
    assert count_predictions(browser) == 1


def test_an_example_does_not_run_another_model(browser: Browser, url: str) -> None:
    show(browser, url, "captioner")
    delay_decoding(browser)
    browser.find(".example").click()
    choose_model(browser, "doubler")
    browser.wait(lambda: browser.find("#model-name").text == "doubler")
    time.sleep(0.7)
    assert count_predictions(browser) == 0
    assert browser.find(".empty").is_displayed()
    run(browser, "[1, 2.5]")
    assert browser.find_all(".command")


def test_unused_drawings_do_not_replace_images(browser: Browser, url: str, tmp_path: Path) -> None:
    show(browser, url, "captioner")
    browser.find(".drawing summary").click()
    browser.run("document.querySelector('.pad').scrollIntoView()")
    draw_line(browser)
    use = browser.find(".drawing button")
    for _ in range(2):  # a drawing can be used again
        choose_files(browser, write_picture(tmp_path / "a.png"))
        browser.wait(lambda: read_names(browser) == ["a.png"])
        use.click()
        browser.wait(lambda: read_names(browser)[0].startswith("drawing-"))
    draw_line(browser)
    choose_files(browser, tmp_path / "a.png")
    browser.find("#run").click()
    finish(browser)
    assert read_names(browser) == ["a.png"]
    draw_line(browser)
    browser.find(".example").click()
    browser.wait(lambda: "'example-1.png'" in "".join(read_texts(browser, ".command pre")))
    assert read_names(browser) == ["example-1.png"]


def test_errors_of_several_images(browser: Browser, url: str, tmp_path: Path) -> None:
    show(browser, url, "retriever")
    for name in ("bad.png", "worse.png"):
        (tmp_path / name).write_bytes(b"no image")
    choose_files(browser, tmp_path / "bad.png", write_picture(tmp_path / "a.png"))
    browser.wait(lambda: read_names(browser) == ["a.png"])
    paths = [write_picture(tmp_path / f"{number}.png") for number in range(13)]
    choose_files(browser, tmp_path / "bad.png", tmp_path / "worse.png", *paths)
    browser.wait(lambda: len(browser.find_all("#fields .message")) == 3)
    bad, worse, excess = read_texts(browser, "#fields .message")
    assert bad.startswith("bad.png: the browser cannot read this file")
    assert worse.startswith("worse.png: the browser cannot read this file")
    assert excess == "The maximum is 12 images. Not added: 11.png, 12.png."
    assert read_names(browser) == ["a.png", *(f"{number}.png" for number in range(11))]


def draw_line(browser: Browser) -> None:
    from selenium.webdriver import ActionChains

    chain = ActionChains(browser.driver).move_to_element(browser.find(".pad"))
    chain.click_and_hold().move_by_offset(40, 30).release().perform()


def test_large_and_corrupt_images(browser: Browser, url: str, tmp_path: Path) -> None:
    show(browser, url, "captioner")
    (tmp_path / "bad.png").write_bytes(b"no image")
    browser.find("input[type=file]").send_keys(str(tmp_path / "bad.png"))
    message = browser.wait(lambda: browser.find_all("#fields .message"))[0]
    assert message.text.startswith("bad.png: the browser cannot read this file as an image. Use")
    assert message.aria_role == "alert"
    noise = np.random.default_rng(0).integers(0, 256, (1500, 2000, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "large.png")
    browser.find("input[type=file]").send_keys(str(tmp_path / "large.png"))
    browser.wait(lambda: browser.find_all(".thumbnails img"))
    assert read_texts(browser, ".thumbnails figcaption") == ["large-1024x768.jpg"]
    assert not browser.find_all("#fields .message")
    browser.find("#run").click()
    browser.wait(lambda: browser.find_all(".command"))
    assert browser.find_all(".result-text .token")
    # A file of few bytes whose pixels exceed the limit of the server.
    Image.new("L", (4200, 4000)).save(tmp_path / "wide.png")
    choose_files(browser, tmp_path / "wide.png")
    browser.wait(lambda: read_names(browser) == ["wide-1024x975.jpg"])
    show(browser, url, "retriever")
    Image.new("L", (1100, 1000)).save(tmp_path / "wide.png")
    choose_files(browser, tmp_path / "wide.png")
    browser.wait(lambda: read_names(browser) == ["wide-512x465.jpg"])


def test_an_empty_caption(browser: Browser, url: str) -> None:
    browser.open(url)
    script = "return import('/demo/image_views.js').then(({ showCaption }) => showCaption("
    script += "{ text: [''], tokens: [['']], lengths: [0], scores: [-1] },"
    script += " { title: 'Caption', inputs: {} })"
    script += ".map((element) => element.textContent).join(''))"
    assert browser.run(script).startswith("Caption(empty)Score −1.00")


def test_matches(browser: Browser, url: str) -> None:
    run_example(browser, url, "matcher")
    assert set(read_texts(browser, ".bars span")) == {SCRIPT, IMAGE}
    assert len(read_texts(browser, ".matrix .rows span")) == len(SENTENCE.split())
    second = "p[aria-label='Second text tokens'] .token"
    browser.hover(browser.find("p[aria-label='Tokens of the first text'] .token"))
    assert max(read_shades(browser, second)) == 1
    browser.hover(browser.find(second))
    assert max(read_shades(browser, "p[aria-label='Tokens of the first text'] .token")) == 1
    check_clean(browser, url)


def test_glimpses(browser: Browser, url: str) -> None:
    run_example(browser, url, "glimpses")
    assert read_texts(browser, ".glimpse") == ["1", "2", "3"]
    box, first = (browser.find(name).rect for name in (".photo-line .photo", ".glimpse"))
    assert box["x"] - 20 <= first["x"] <= box["x"] + box["width"]
    browser.hover(browser.find(".glimpses li"))
    assert "active" in browser.find(".glimpse").get_attribute("class")
    check_clean(browser, url)


def test_retrieved_images(browser: Browser, url: str) -> None:
    run_example(browser, url, "retriever")
    assert len(browser.find_all(".thumbnails img")) == 2
    assert len(browser.find_all(".gallery figure")) == 2
    browser.hover(browser.find(".words .token"))
    assert browser.find_all(".gallery .photo canvas")
    check_clean(browser, url)


def test_a_model_without_a_task(browser: Browser, url: str) -> None:
    show(browser, url, "doubler")
    assert browser.find("#run").text == "Run"
    run(browser, "[1, 2.5]")
    outputs = json.loads(read_texts(browser, "#result pre")[0])
    assert outputs == {"doubled": [[2, 5]], "note": [IMAGE]}
    run(browser, "[1, ")
    browser.wait(lambda: browser.find_all("#result .message"))
    message = browser.find("#result .message")
    assert message.text.endswith(" as JSON: the value must be valid JSON.")
    assert message.aria_role == "alert"
    assert not browser.find("#result").get_attribute("aria-live")


def test_json_inputs_and_outputs_that_fit_no_view(browser: Browser, url: str) -> None:
    show(browser, url, "mixed")
    labels = [label.text for label in browser.find_all("#fields label")]
    assert labels == ["text", "numbers: float (2) as JSON", "scale: float () as JSON"]
    run(browser, "a", "[1, 2]", "3")
    outputs = json.loads(read_texts(browser, "#result pre")[0])
    assert outputs == {"predictions": [[3, 6]], "probabilities": [[1, 2]], "text": ["a"]}
    assert '"scale":3' in read_texts(browser, ".command pre")[0]


def test_an_image_as_numbers_is_json(browser: Browser, url: str) -> None:
    browser.open(url)
    script = "return import('/demo/fields.js').then(({ makeField }) => {"
    script += " const field = makeField('image', { dtype: 'float', shape: [-1, 2] }, null);"
    script += " field.set([1, 2]); return field.read(); })"
    assert browser.run(script) == {"json": [[1, 2]], "shown": {}, "images": []}


MODELS = ["translator", "tagger", "classifier", "summarizer", "captioner", "matcher", "glimpses"]


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_every_window(
    width: int, scheme: str, browser: Browser, url: str, tmp_path: Path
) -> None:
    for name in MODELS:
        run_example(browser, url, name, width=width, scheme=scheme)
        for summary in browser.find_all("details:not([hidden]) > summary"):
            summary.click()
        assert browser.run("return document.documentElement.scrollWidth") <= width
        for card in browser.find_all(".card"):
            assert not card.is_displayed() or card.rect["x"] + card.rect["width"] <= width
        browser.screenshot(tmp_path / f"{name}.png", whole=True)
        pixels = np.asarray(Image.open(tmp_path / f"{name}.png").convert("L"), "float64")
        assert (pixels[:, 0].mean() > 200) == (scheme == "light")
        assert pixels.std() > 5
    check_clean(browser, url)


def test_long_texts_scroll_in_their_boxes(browser: Browser, url: str) -> None:
    show(browser, url, "translator", width=390)
    run(browser, "cat saw the dog " * 9)
    assert browser.run("return document.documentElement.scrollWidth") == 390
    box = browser.run(
        "const m = document.querySelector('.matrix'); return [m.scrollWidth, m.clientWidth]"
    )
    assert box[0] > box[1]


def test_scripts_stay_text(browser: Browser, url: str) -> None:
    for name in ("translator", "tagger", "classifier", "matcher", "summarizer"):
        show(browser, url, name)
        run(browser, *[f"{SCRIPT} {IMAGE} a"] * len(browser.find_all("#fields textarea")))
        assert browser.find_all(".command")
        assert len(browser.find_all("script")) == 1
        assert len(browser.find_all("img")) == 1  # the icon
        assert SCRIPT in browser.find("#result").text
    browser.find_all("#fields textarea")[0].clear()
    assert "alert" not in browser.run("return document.title")
    check_clean(browser, url)


def test_errors(browser: Browser, url: str) -> None:
    show(browser, url, "translator")
    for text in ("", "  \n "):
        run(browser, text)
        assert browser.find("#result .message").text == "Text to translate: enter a text."
        assert count_predictions(browser) == 0
    field = browser.find("#fields textarea")
    assert field.get_attribute("aria-invalid") == "true"
    browser.run("arguments[0].value = 'cat '.repeat(2500)", field)
    browser.find("#run").click()
    browser.wait(lambda: "2500" in browser.find("#result").text.replace(",", ""))
    assert "limit is 40" in browser.find("#result .message").text
    assert browser.find("#run").is_enabled()
    run(browser, SENTENCE)
    browser.wait(lambda: browser.find_all(".result-text"))


def test_one_request_runs_at_a_time(browser: Browser, url: str) -> None:
    show(browser, url, "translator")
    browser.find("#fields textarea").send_keys(SENTENCE)
    delay_requests(browser, 600)
    from selenium.webdriver import ActionChains

    ActionChains(browser.driver).double_click(browser.find("#run")).perform()
    assert not browser.find("#run").is_enabled()
    assert browser.find("#output").get_attribute("aria-busy") == "true"
    finish(browser)
    assert count_predictions(browser) == 1
    assert browser.find("#run").is_enabled()


def test_an_older_response_does_not_replace_a_newer_one(browser: Browser, url: str) -> None:
    show(browser, url, "translator")
    browser.find("#fields textarea").send_keys(SENTENCE)
    delay_requests(browser, 800)
    browser.find("#run").click()
    choose_model(browser, "tagger")
    browser.wait(lambda: browser.find("#model-name").text == "tagger")
    run(browser, SENTENCE)
    assert read_titles(browser) == ["Tags", "Command line"]
    delay_requests(browser, 0)
    assert browser.run("return location.hash") == "#tagger"


def test_form_of_the_previous_model_is_inactive(browser: Browser, url: str) -> None:
    show(browser, url, "translator")
    delay_requests(browser, 800)
    choose_model(browser, "summarizer")
    is_inert = "return document.querySelector('#main').inert"
    assert browser.run(is_inert)
    browser.wait(lambda: browser.find("#model-name").text == "summarizer")
    assert not browser.run(is_inert)
    delay_requests(browser, 0, is_offline=True)
    choose_model(browser, "tagger")
    browser.wait(lambda: browser.find_all("#message .message"))
    assert "does not respond" in browser.find("#message .message").text
    assert not browser.find("#main").is_displayed()
    delay_requests(browser, 0)
    choose_model(browser, "translator")
    browser.wait(lambda: browser.find("#main").is_displayed())
    assert not browser.find_all("#message .message")


@contextlib.contextmanager
def serve_gated(folders: list[Path], gate: threading.Event) -> Iterator[str]:
    """Serve exports; all but the first one are loaded when the gate is open."""

    def load(folder: Path) -> ServedModel:
        assert folder == folders[0] or gate.wait(60)
        return load_model(folder)

    configs = [ModelConfig(name=folder.name, path=str(folder)) for folder in folders]
    metrics = Metrics()
    manager = ModelManager(lambda: configs, load, metrics.observe_batch)
    app = make_app(manager, metrics)
    add_demo(app)
    server = make_server(app, manager, lambda: None)
    with bind("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            gate.set()
            server.should_exit = True
            thread.join(60)


def test_page_waits_for_all_models(browser: Browser, exports: list[Path]) -> None:
    folders = [one for one in exports if one.name in ("doubler", "mixed")]
    gate = threading.Event()
    with serve_gated(folders, gate) as url:
        browser.open(f"{url}/")
        message = browser.wait(lambda: browser.find_all("#message .message"))[0]
        time.sleep(1.5)  # the page has tried again, and the message is the same element
        assert message.text == "The models are loading."
        assert not browser.find("#main").is_displayed()
        gate.set()
        browser.wait(lambda: browser.find("#model-name").text == "doubler")
        assert read_texts(browser, "#model option") == ["doubler", "mixed"]
        assert not browser.find_all("#message .message")


def test_keyboard(browser: Browser, url: str) -> None:
    show(browser, url, "translator")
    names = []
    for _ in range(3):
        browser.press("TAB")
        active = browser.run("return document.activeElement")
        names.append(active.accessible_name)
        style = "return getComputedStyle(document.activeElement).outlineStyle"
        assert browser.run(style) == "solid"
    assert names == ["Model", "Text to translate", "Translate"]
    field = browser.find("#fields textarea")
    field.send_keys(SENTENCE)
    from selenium.webdriver.common.keys import Keys

    field.send_keys(Keys.CONTROL, Keys.ENTER)
    finish(browser)
    browser.run("document.querySelector('.result-text input').focus()")
    shades = []
    for key in ("ARROW_RIGHT", "ARROW_RIGHT"):
        browser.press(key)
        shades.append(read_shades(browser, "p[aria-label='Source tokens'] .token"))
    assert max(shades[0]) == max(shades[1]) == 1
    assert len(browser.find_all(".result-text .token.active")) == 1
    browser.press("ESCAPE")
    assert browser.find_all(".result-text .token.active") == []
    for element in browser.find_all("input, textarea, select, button"):
        assert not element.is_displayed() or element.accessible_name


def test_focus(browser: Browser, url: str) -> None:
    show(browser, url, "retriever")
    delay_requests(browser, 300)  # the browser moves the focus from a disabled button
    active = "return document.activeElement"
    browser.run("document.querySelector('.example').focus()")
    browser.press("ENTER")
    finish(browser)
    assert "example" in browser.run(active).get_attribute("class")
    browser.run("document.querySelector('#run').focus()")
    browser.press("ENTER")
    browser.wait(lambda: count_predictions(browser) == 2 and browser.find("#run").is_enabled())
    assert browser.run(active).get_attribute("id") == "run"
    browser.run("document.querySelector('.thumbnails button').focus()")
    browser.press("ENTER")
    assert browser.run(active).accessible_name == "Remove example-2.png"
    browser.press("ENTER")
    assert browser.run(active).get_attribute("type") == "file"


def test_writing_directions(browser: Browser, url: str) -> None:
    show(browser, url, "translator")
    run(browser, ARABIC)
    direction = "return getComputedStyle(document.querySelector(arguments[0])).direction"
    source = "p[aria-label='Source tokens']"
    assert browser.run(direction, source) == "rtl"
    assert browser.run(direction, "#fields textarea") == "rtl"
    edges = [one.rect["x"] for one in browser.find_all(f"{source} .token")]
    assert edges == sorted(edges, reverse=True)
    run(browser, CHINESE)
    browser.wait(lambda: read_texts(browser, source) == [CHINESE])
    assert browser.run(direction, source) == "ltr"
    assert len(browser.find_all(".columns .upright")) == 4  # and an unknown token
    show(browser, url, "tagger")
    run(browser, ARABIC)
    assert browser.find_all(".tagged .span")
    assert browser.run(direction, ".tagged") == "rtl"
    assert browser.run(direction, ".tagged .span small") == "ltr"


def test_token_and_a_stopped_server(browser: Browser, exports: list[Path]) -> None:
    (folder,) = (one for one in exports if one.name == "doubler")
    with serve([folder], TOKEN) as served:
        browser.open(f"{served.url}/")
        browser.wait(lambda: browser.find("#token-form").is_displayed())
        assert not browser.find("#main").is_displayed()
        browser.find("#token").send_keys("wrong")
        browser.find("#token-form button").click()
        browser.wait(lambda: browser.find_all("#message .message"))
        browser.find("#token").send_keys("clé de l'accès")
        browser.press("ENTER")
        browser.wait(lambda: "ASCII characters" in browser.find("#message").text)
        browser.find("#token").send_keys(TOKEN)
        browser.press("ENTER")
        browser.wait(lambda: browser.find("#model-name").text == "doubler")
        assert not browser.find("#token-form").is_displayed()
        run(browser, "[1, 2]")
        assert 'Authorization: Bearer $TOKEN"' in browser.find(".command pre").text
        assert browser.run("return localStorage.length + sessionStorage.length") == 0
        assert TOKEN not in browser.run("return document.documentElement.outerHTML")
        served.process.send_signal(signal.SIGTERM)
        served.process.wait(60)
        browser.find("#run").click()
        browser.wait(lambda: browser.find_all("#result .message"))
        assert "does not respond" in browser.find("#result .message").text
        assert browser.find("#run").is_enabled()
