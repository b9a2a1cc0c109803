"""A browser, and what tests ask a page in it: whether it can be read, and fits a narrow window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Every text whose contrast with what is behind it is less than 4.5 to 1.
CONTRAST = """
const light = (rgb) => {
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const [r, g, b] = rgb.slice(0, 3).map((v) => linear(v / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const parts = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
const behind = (node) => {
  for (let each = node; each; each = each.parentElement) {
    const found = parts(getComputedStyle(each).backgroundColor);
    if (found.length === 3 || found[3] === 1) return found;
  }
  return [255, 255, 255];
};
const wrong = [];
for (const node of document.querySelectorAll("body *")) {
  if (!node.checkVisibility({visibilityProperty: true}) || node.disabled) continue;
  const own = [...node.childNodes].some((each) => each.nodeType === 3 && each.textContent.trim());
  if (!own && !["INPUT", "SELECT"].includes(node.tagName)) continue;
  const style = getComputedStyle(node);
  const colour = node instanceof SVGElement ? style.fill : style.color;
  const [one, other] = [light(parts(colour)), light(behind(node))].sort((a, b) => b - a);
  const ratio = (one + 0.05) / (other + 0.05);
  if (ratio < 4.5 || Number(style.opacity) < 1) wrong.push([node.outerHTML.slice(0, 90), ratio.toFixed(2)]);
}
return wrong;
"""


@contextmanager
def chromium(downloads: Path) -> Iterator[Any]:
    """Run Chromium without a window; the test is skipped where there is none."""
    if shutil.which("chromedriver") is None:
        pytest.skip("needs chromium and its driver")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1600"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


def narrow(browser: Any, width: int = 400) -> None:
    """Make the window as wide as that of a telephone."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def sideways(browser: Any) -> int:
    """By how many pixels the page is wider than its window."""
    wide: int = browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
    return wide
