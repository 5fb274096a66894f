"""The demo page in headless Chromium, with a server of tiny exports."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from PIL import Image

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
    browser.wait(lambda: browser.find_all(".command, #result .message"))


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


def delay_requests(browser: Browser, milliseconds: int) -> None:
    command = browser.driver.execute_cdp_cmd
    command("Network.enable", {})
    speed = {"downloadThroughput": -1, "uploadThroughput": -1}
    command(
        "Network.emulateNetworkConditions", {"offline": False, "latency": milliseconds, **speed}
    )


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
    assert browser.find("#time").text.endswith(" ms")
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


def draw_line(browser: Browser) -> None:
    from selenium.webdriver import ActionChains

    chain = ActionChains(browser.driver).move_to_element(browser.find(".pad"))
    chain.click_and_hold().move_by_offset(40, 30).release().perform()


def test_large_and_corrupt_images(browser: Browser, url: str, tmp_path: Path) -> None:
    show(browser, url, "captioner")
    (tmp_path / "bad.png").write_bytes(b"no image")
    browser.find("input[type=file]").send_keys(str(tmp_path / "bad.png"))
    browser.wait(lambda: browser.find_all("#result .message"))
    assert browser.find("#result .message").text.startswith("bad.png: the browser cannot read")
    noise = np.random.default_rng(0).integers(0, 256, (1500, 2000, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "large.png")
    browser.find("input[type=file]").send_keys(str(tmp_path / "large.png"))
    browser.wait(lambda: browser.find_all(".thumbnails img"))
    assert read_texts(browser, ".thumbnails figcaption") == ["large-1024x768.jpg"]
    browser.find("#run").click()
    browser.wait(lambda: browser.find_all(".command"))
    assert browser.find_all(".result-text .token")


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
    assert browser.find("#result .message").text.endswith("this is not JSON.")


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
    browser.find("#model").send_keys("tagger")
    browser.wait(lambda: browser.find("#model-name").text == "tagger")
    run(browser, SENTENCE)
    assert read_titles(browser) == ["Tags", "Command line"]
    delay_requests(browser, 0)
    assert browser.run("return location.hash") == "#tagger"


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


def test_token_and_a_stopped_server(browser: Browser, exports: list[Path]) -> None:
    (folder,) = (one for one in exports if one.name == "doubler")
    with serve([folder], TOKEN) as served:
        browser.open(f"{served.url}/")
        browser.wait(lambda: browser.find("#token-form").is_displayed())
        assert not browser.find("#main").is_displayed()
        browser.find("#token").send_keys("wrong")
        browser.find("#token-form button").click()
        browser.wait(lambda: browser.find_all("#message .message"))
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
