"""The page of attention weights in headless Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from attention_zoo.inspection.attention_data import AttentionMap, ImageOverlay, TokenAttribution
from attention_zoo.inspection.attention_page import show_attention, write_attention_page
from tests.browser import Browser, open_browser

WORDS = ["Ida", "saw", "the", "red", "fox", "."]
TARGETS = ["Ida", "sah", "den", "Fuchs"]
CHINESE = ["[CLS]", "我", "昨", "天", "借", "了", "书", "。", "[SEP]"]
ARABIC = ["ذهبت", "ليلى", "إلى", "البيت", "."]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from open_browser()


def make_weights(*shape: int, seed: int = 0) -> np.ndarray:
    """Return rows that sum to 1, each weight large enough for a line."""
    weights = np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), shape[:-1])
    return 0.5 * weights + 0.5 / shape[-1]


def make_cross_attention() -> AttentionMap:
    """Two heads with six weights above 0: a diagonal of four, and two from the last target."""
    weights = np.zeros((2, 4, 6))
    weights[0, range(4), range(4)] = 1.0
    weights[1, 3, 4:] = 0.75, 0.25
    return AttentionMap("decoder/cross_attention", weights, TARGETS, WORDS)


def make_self_attention(tokens: list[str], layers: int = 2, heads: int = 3) -> list[AttentionMap]:
    size = len(tokens)
    return [
        AttentionMap(f"encoder/layer_{n}", make_weights(heads, size, size, seed=n), tokens, tokens)
        for n in range(layers)
    ]


def write(folder: Path, maps: list[AttentionMap], **more: Any) -> Path:
    write_attention_page(maps, folder / "page.html", **more)
    return folder / "page.html"


def write_all_views(folder: Path, tokens: list[str]) -> Path:
    image = np.zeros((40, 60, 3), "uint8")
    image[10:20, 20:40, 0] = 255
    size = len(tokens)
    return write(
        folder,
        make_self_attention(tokens),
        text=" ".join(tokens),
        attributions=[TokenAttribution("occlusion", tokens, np.linspace(-1, 1, size))],
        images=[ImageOverlay(image, tokens, make_weights(size, 1, 6).reshape(size, 2, 3))],
        hypotheses=[(" ".join(tokens), -0.5)],
    )


def count_lines(browser: Browser) -> int:
    return int(browser.find("#lines").get_attribute("data-lines"))


def read_text(browser: Browser, selector: str) -> str:
    """Return the text of an element, without the line breaks of a layout."""
    return str(browser.run("return document.querySelector(arguments[0]).textContent", selector))


def read_status(browser: Browser) -> str:
    return str(browser.find("#status").text)


def read_shades(browser: Browser, selector: str) -> list[float]:
    """Return the relative weights that shade the tokens."""
    script = "return [...document.querySelectorAll(arguments[0])].map((token) =>"
    script += " Number(token.style.getPropertyValue('--a')))"
    return [float(share) for share in browser.run(script, f"{selector} .token")]


def read_background(browser: Browser, element: Any) -> str:
    return str(browser.run("return getComputedStyle(arguments[0]).backgroundColor", element))


def read_name(browser: Browser) -> str:
    """Return the accessible name of the focused element."""
    return str(browser.run("return document.activeElement").accessible_name)


def test_page_opens_without_errors_and_requests(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_all_views(tmp_path, WORDS))
    assert browser.read_console() == []
    assert browser.list_requests() == []
    assert count_lines(browser) == 6 * 6
    assert len(browser.find_all(".cell")) == 2 * 3
    assert read_text(browser, "#words") == "Ida saw the red fox."
    assert browser.find(".gallery").text.split() == WORDS
    assert not browser.find_all("[hidden]")


@pytest.mark.full
def test_hovering_over_a_token_shows_its_lines_and_weights(
    browser: Browser, tmp_path: Path
) -> None:
    browser.open(write(tmp_path, [make_cross_attention()]))
    assert count_lines(browser) == 6
    fox = browser.find_all("#sources .token")[4]
    before = read_background(browser, fox)
    browser.hover(browser.find_all("#targets .token")[3])
    assert count_lines(browser) == 3
    assert read_background(browser, fox) != before
    numbers = [one.get_attribute("textContent") for one in browser.find_all("#sources small")]
    # Means of the two heads.
    assert numbers == ["", "", "", "0.500", "0.375", "0.125"]
    expected = "“Fuchs” attends to “red” 0.500, “fox” 0.375, “.” 0.125."
    assert read_status(browser) == expected
    assert read_shades(browser, "#words p:nth-of-type(2)") == pytest.approx(
        [0, 0, 0, 1, 0.75, 0.25], abs=0.01
    )
    browser.hover(browser.find_all("#sources .token")[4])
    assert count_lines(browser) == 1
    assert read_status(browser).startswith("“fox” is attended to by “Fuchs” 0.375.")
    browser.hover(browser.find("h1"))
    assert count_lines(browser) == 6
    assert set(read_shades(browser, ".views")) == {0.0}


@pytest.mark.full
def test_lines_have_the_opacity_of_their_weights(browser: Browser, tmp_path: Path) -> None:
    weights = np.array([[[0.5, 0.0], [0.0, 0.125]]])
    browser.open(write(tmp_path, [AttentionMap("a", weights, ["b", "c"], ["d", "e"])]))
    script = """
    const canvas = document.getElementById("lines"), context = canvas.getContext("2d");
    const column = context.getImageData(canvas.width / 2, 0, 1, canvas.height).data;
    const sum = (first, last) => {
      let opacity = 0;
      for (let y = first; y < last; y++) opacity += column[4 * y + 3] / 255;
      return opacity;
    };
    const middle = Math.floor(canvas.height / 2);
    return [sum(0, middle), sum(middle, canvas.height)];
    """
    assert browser.run(script) == pytest.approx([1, 1 / 4], abs=0.05)
    browser.run("document.querySelector('#lines').parentElement.style.width = '100px'")
    browser.wait(lambda: browser.find("#lines").get_attribute("width") == "100")
    browser.find("#opaque").send_keys("absolute")
    assert browser.run(script) == pytest.approx([1 / 2, 1 / 8], abs=0.05)


@pytest.mark.full
def test_layers_and_heads_are_selected(browser: Browser, tmp_path: Path) -> None:
    browser.open(write(tmp_path, [*make_self_attention(WORDS), make_cross_attention()]))
    assert read_status(browser).startswith("encoder/layer_0, mean of all heads: largest weight 0.")
    browser.find_all("#heads input")[1].click()
    assert read_status(browser).startswith("encoder/layer_0, mean of heads 1, 3: ")
    browser.hover(browser.find("#targets .token"))
    assert count_lines(browser) == 2 * 6
    browser.find("#all-heads").click()
    assert read_status(browser).startswith("encoder/layer_0, mean of all heads: ")
    assert count_lines(browser) == 36
    browser.find("#layer").send_keys("decoder/cross_attention")
    assert count_lines(browser) == 6
    assert [one.text for one in browser.find_all("#targets .token")] == TARGETS
    assert len(browser.find_all("#words p")) == 2
    first, second = browser.find_all("#heads input")
    first.click()
    assert count_lines(browser) == 2  # the weights above 0 of the second head
    second.click()
    assert count_lines(browser) == 0
    assert read_status(browser) == "Select a head."
    assert browser.read_console() == []


@pytest.mark.full
def test_a_click_on_a_heat_map_opens_its_head(browser: Browser, tmp_path: Path) -> None:
    browser.open(write(tmp_path, make_self_attention(WORDS)))
    cell = browser.find_all(".cell")[4]
    assert cell.accessible_name.startswith("encoder/layer_1, head 2, largest weight 0.")
    cell.click()
    assert browser.run("return document.getElementById('layer').value") == "1"
    assert [one.is_selected() for one in browser.find_all("#heads input")] == [False, True, False]
    pressed = [one.get_attribute("aria-pressed") for one in browser.find_all(".cell")]
    assert pressed == ["false"] * 4 + ["true", "false"]
    assert read_status(browser).startswith("encoder/layer_1, head 2: ")
    script = "return [...arguments[0].getContext('2d').getImageData(0, 0, 6, 6).data]"
    pixels = np.reshape(browser.run(script, browser.find_all(".cell canvas")[4]), (6, 6, 4))
    weights = make_self_attention(WORDS)[1].weights[1]
    np.testing.assert_allclose(pixels[..., 3], 255 * weights / weights.max(), atol=0.51)


@pytest.mark.full
def test_every_view_is_usable_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    browser.open(write(tmp_path, make_self_attention(WORDS)))
    browser.press("TAB")
    assert read_name(browser) == "Layer"
    browser.press("TAB", "SPACE")
    assert read_name(browser) == "1"
    assert read_status(browser).startswith("encoder/layer_0, mean of heads 2, 3: ")
    browser.press("SPACE", "TAB", "TAB", "TAB")
    assert read_name(browser) == "Line opacity"
    browser.press("TAB")
    assert read_name(browser) == "Ida"
    assert read_status(browser).startswith("“Ida” attends to")
    browser.press("ARROW_DOWN", "ARROW_DOWN")
    assert read_status(browser).startswith("“the” attends to")
    assert count_lines(browser) == 3 * 6
    outline = browser.run(
        "return getComputedStyle(document.activeElement.parentElement).outlineStyle"
    )
    assert outline == "solid"
    browser.press("ARROW_RIGHT")
    assert read_status(browser).startswith("“the” is attended to by")
    browser.press("ESCAPE")
    assert count_lines(browser) == 36
    browser.run("document.querySelector('#words input').focus()")
    browser.press("ARROW_RIGHT")
    assert read_status(browser).startswith("“saw” attends to")
    assert max(read_shades(browser, "#words")) == 1
    browser.press("TAB", "ARROW_DOWN", "ARROW_RIGHT", "ENTER")
    assert read_status(browser).startswith("encoder/layer_1, head 2: ")


@pytest.mark.full
def test_image_overlays_follow_the_selected_word(browser: Browser, tmp_path: Path) -> None:
    image = np.full((40, 80, 3), 128, "uint8")
    weights = np.zeros((2, 2, 4))
    weights[0, 0, 0], weights[1, 1, 3] = 0.8, 0.4
    browser.open(write(tmp_path, [], images=[ImageOverlay(image, ["red", "fox"], weights)]))
    for photo in browser.find_all(".photo"):
        assert photo.rect["width"] / photo.rect["height"] == pytest.approx(2, abs=0.02)
    assert len(browser.find_all(".gallery .photo canvas")) == 2
    assert browser.find(".legend").text.split() == ["0", "0.800"]
    assert not browser.find_all(".image-view > .photo canvas")
    browser.hover(browser.find_all(".details .token")[1])
    script = "return [...arguments[0].getContext('2d').getImageData(3, 1, 1, 1).data]"
    selected = browser.run(script, browser.find(".image-view > .photo canvas"))
    scale = browser.run(
        "return [...arguments[0].getContext('2d').getImageData(128, 0, 1, 1).data]",
        browser.find(".scale"),
    )
    assert selected == scale  # half of the largest weight of all words
    assert selected[3] > 200
    browser.hover(browser.find("h1"))
    assert not browser.find_all(".image-view > .photo canvas")
    browser.press("TAB", "ARROW_RIGHT")
    assert browser.find_all(".image-view > .photo canvas")
    browser.press("ESCAPE")
    assert not browser.find_all(".image-view > .photo canvas")
    assert browser.read_console() == []


def read_right_edges(browser: Browser, selector: str) -> list[float]:
    script = "return [...document.querySelectorAll(arguments[0])].map((one) =>"
    script += " one.getBoundingClientRect().right)"
    return [float(edge) for edge in browser.run(script, selector)]


@pytest.mark.full
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [3, 120])
def test_page_fits_every_window(
    browser: Browser, tmp_path: Path, width: int, scheme: str, size: int
) -> None:
    tokens = [(WORDS * 20)[n] + "nn" * (n % 5) for n in range(size)]
    browser.open(write_all_views(tmp_path, tokens), width, 900, scheme)
    assert browser.run("return document.documentElement.scrollWidth") == width
    for section in browser.find_all(".card"):
        assert section.is_displayed()
        assert section.rect["x"] >= 0
        assert section.rect["x"] + section.rect["width"] <= width
    script = "return [...document.querySelectorAll('#targets .token')].map((one) =>"
    script += " [one.getBoundingClientRect().top, one.getBoundingClientRect().bottom])"
    boxes = browser.run(script)
    assert all(below[0] >= above[1] - 0.01 for above, below in pairwise(boxes))
    assert max(read_right_edges(browser, "#targets .token")) <= browser.find("#lines").rect["x"] + 1
    browser.screenshot(tmp_path / "page.png", whole=True)
    pixels = np.asarray(Image.open(tmp_path / "page.png").convert("L"), "float64")
    assert pixels.shape[1] == width
    assert (pixels[:, 0].mean() > 200) == (scheme == "light")
    assert pixels.std() > 10
    assert browser.read_console() == []


@pytest.mark.full
def test_scripts_follow_their_writing_direction(browser: Browser, tmp_path: Path) -> None:
    browser.open(write(tmp_path, make_self_attention(CHINESE)))
    assert read_text(browser, "#words") == "[CLS] 我昨天借了书。 [SEP]"
    browser.open(write(tmp_path, make_self_attention(ARABIC), text=" ".join(ARABIC)))
    edges = read_right_edges(browser, "#words .token")
    assert edges == sorted(edges, reverse=True)
    assert read_text(browser, "#words") == "ذهبت ليلى إلى البيت."
    direction = "return getComputedStyle(document.querySelector('body > p.text')).direction"
    assert browser.run(direction) == "rtl"


@pytest.mark.full
def test_hostile_tokens_are_text(browser: Browser, tmp_path: Path) -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    browser.open(write_all_views(tmp_path, [evil, "\u2028", "b"]))
    assert len(browser.find_all("img")) == 4  # of the image view and its three words
    assert browser.find_all("#targets .token")[0].text.startswith("</script>")
    assert browser.read_console() == []
    assert browser.list_requests() == []


@pytest.mark.full
def test_page_works_in_the_frame_of_a_notebook(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "notebook.html"
    frame = show_attention(make_self_attention(WORDS))._repr_html_()
    page.write_text(f"<!DOCTYPE html><body>{frame}", encoding="utf-8")
    browser.open(page)
    browser.driver.switch_to.frame(browser.find("iframe"))
    assert count_lines(browser) == 36
    browser.find_all(".cell")[4].click()
    assert read_status(browser).startswith("encoder/layer_1, head 2: ")
    browser.driver.switch_to.default_content()
    assert browser.read_console() == []


@pytest.mark.full
def test_144_heads_of_60_tokens_open_in_2_seconds(browser: Browser, tmp_path: Path) -> None:
    """The best of three, because other processes may use the machine."""
    page = write(tmp_path, make_self_attention([f"token{n}" for n in range(60)], 12, 12))
    assert page.stat().st_size < 3_000_000
    seconds = []
    for _ in range(3):
        browser.open(page)
        seconds.append(browser.measure_opening())
    assert min(seconds) < 2
