"""Headless Chromium for tests of pages, driven by selenium.

A test module imports `open_browser` and defines a fixture of module scope:

    @pytest.fixture(scope="module")
    def browser() -> Iterator[Browser]:
        yield from open_browser()
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 10.0  # seconds to wait for a condition
SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)


class Browser:
    """A page in Chromium with a viewport, a color scheme, and a log of errors and requests.

    Args:
        driver: the selenium driver.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(
        self, page: Path | str, width: int = 1440, height: int = 900, scheme: str = "light"
    ) -> None:
        """Open a file or a URL in a viewport of this size, in light or dark mode."""
        command = self.driver.execute_cdp_cmd
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        command("Emulation.setDeviceMetricsOverride", metrics)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        command("Emulation.setEmulatedMedia", {"features": [feature]})
        self.driver.get_log("browser")  # drop the messages of the page before
        self.driver.get(page.resolve().as_uri() if isinstance(page, Path) else page)

    def run(self, script: str, *arguments: Any) -> Any:
        """Return the value of a script's `return` statement."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        """Return the first element that a CSS selector matches."""
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector: str) -> list[Any]:
        """Return all elements that a CSS selector matches."""
        return self.driver.find_elements("css selector", selector)

    def hover(self, element: Any) -> None:
        """Move the pointer to an element."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).move_to_element(element).perform()

    def press(self, *names: str) -> None:
        """Press keys one after the other, by name as in selenium's `Keys`: TAB, ARROW_DOWN."""
        from selenium.webdriver import ActionChains
        from selenium.webdriver.common.keys import Keys

        for name in names:
            ActionChains(self.driver).send_keys(getattr(Keys, name)).perform()

    def wait(self, condition: Callable[[], Any]) -> Any:
        """Return the first true value of a condition; fail after `PATIENCE` seconds."""
        end = time.monotonic() + PATIENCE
        while not (value := condition()):
            assert time.monotonic() < end, "the condition did not become true"
            time.sleep(0.02)
        return value

    def read_console(self) -> list[str]:
        """Return the messages of the console since the last call or the page's opening."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def list_requests(self) -> list[str]:
        """Return the addresses of all resources that the page requested."""
        entries = "return performance.getEntriesByType('resource').map((entry) => entry.name)"
        return [name for name in self.run(entries) if not name.startswith("data:")]

    def measure_opening(self) -> float:
        """Return the seconds from navigation to the end of the load event."""
        script = "return performance.getEntriesByType('navigation')[0].loadEventEnd"
        return self.wait(lambda: self.run(script)) / 1000

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """Save the viewport, or the whole page, as PNG."""
        import base64

        options = {"captureBeyondViewport": True}
        if whole:
            size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "scale": 1} | {
                key: size[key] for key in ("width", "height")
            }
        data = self.driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"]
        path.write_bytes(base64.b64decode(data))


def open_browser() -> Iterator[Browser]:
    """Yield a browser and close it afterwards; skip without Chromium, its driver or selenium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    from selenium.common.exceptions import WebDriverException

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("chromium or chromedriver is not installed (Debian: chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in SWITCHES:
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    try:
        driver = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
    except WebDriverException as error:  # such as a sandbox without shared memory
        pytest.skip(f"chromium does not start: {str(error).splitlines()[0]}")
    try:
        yield Browser(driver)
    finally:
        driver.quit()
