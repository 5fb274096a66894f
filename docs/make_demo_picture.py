"""Write images/demo.png: the demo page with a translation and its attention weights.

It needs Chromium, its driver and the packages of the extra `test`.

python docs/make_demo_picture.py
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.browser import Browser, open_browser  # noqa: E402

PICTURE = ROOT / "docs" / "images" / "demo.png"
MODEL = "rnnsearch_small.dates_en_fr"
SENTENCE = "they arrive on Monday, March 3, 2031; dinner is at 5:04 PM."
WORD = "mars"
"""The token under the pointer."""
COLORS = 128
"""Number of colours of the picture, which makes the file small."""


@contextmanager
def serve() -> Iterator[str]:
    """Serve the model on the default port and yield the address of the page."""
    command = [sys.executable, "-m", "attention_zoo", "demo", MODEL]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        lines = iter(process.stdout or ())
        yield next(line for line in lines if line.startswith("serving ")).split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def translate(browser: Browser, url: str) -> None:
    """Translate the sentence, and move the pointer to a token."""
    browser.open(url, 1440, 900)
    browser.wait(lambda: browser.find("#model-name").text == MODEL)
    browser.find("#fields textarea").send_keys(SENTENCE)
    browser.find("#run").click()
    tokens = browser.wait(lambda: browser.find_all(".result-text .token"))
    browser.hover(next(token for token in tokens if token.text == WORD))


def main() -> None:
    PICTURE.parent.mkdir(exist_ok=True)
    with serve() as url, closing(open_browser()) as browsers:  # type: ignore[type-var]
        browser = next(browsers)
        translate(browser, url)
        browser.screenshot(PICTURE, whole=True)
    picture = Image.open(PICTURE).convert("RGB")
    picture.quantize(COLORS, dither=Image.Dither.NONE).save(PICTURE, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
