"""The pages in a real browser: a table goes in, is described, made private and downloaded."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("matplotlib")
pytest.importorskip("selenium.webdriver")

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

PATIENCE = 90.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("chromedriver") is None, reason="needs chromium and its driver"),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, "-m", "onefold", "serve", "--json"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    told = ""
    while not told.endswith("}\n"):
        told += running.stdout.readline()
    try:
        yield json.loads(told)["address"]
    finally:
        running.terminate()
        running.wait(30)


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def browser(downloads: Path) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1600"):
        options.add_argument(argument)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = [f"{30 + 30 * s + rng.normal(0, 8):.0f},{'yes' if s else 'no'}" for s in rng.integers(0, 2, 400)]
    path = tmp_path / "ward <b>.csv"
    path.write_text("age <i>,sick\n" + "\n".join(lines) + "\n")
    return path


def seen(browser: Any, identifier: str) -> Any:
    """A part of the page, as soon as it is shown."""
    found = browser.find_element(By.ID, identifier)
    WebDriverWait(browser, PATIENCE).until(lambda _: found.is_displayed())
    return found


def said(browser: Any, text: str) -> None:
    WebDriverWait(browser, PATIENCE).until(lambda _: text in browser.find_element(By.ID, "message").text)


def test_private_table_from_file_to_download(
    browser: Any, address: str, table: Path, downloads: Path
) -> None:
    browser.get(address)
    assert (
        "token" not in browser.current_url
    )  # nobody reads it over a shoulder, and no page gets it as referrer
    browser.find_element(By.ID, "file").send_keys(str(table))
    browser.find_element(By.ID, "label").send_keys("sick")
    browser.find_element(By.ID, "read").click()
    assert "400 rows, 2 columns" in seen(browser, "found").text
    age, sick = browser.find_elements(By.CSS_SELECTOR, "#fields tr")
    assert "age <i>" in age.text  # as text, not as HTML
    said(browser, "The promise would be void")
    low, high = age.find_elements(By.CSS_SELECTOR, "input[type=text]:not([disabled])")
    for box, value in ((low, "0"), (high, "120")):
        box.clear()
        box.send_keys(value)
    for row in (age, sick):
        row.find_element(By.CSS_SELECTOR, "input[type=checkbox]").click()
    WebDriverWait(browser, PATIENCE).until(lambda b: b.find_element(By.ID, "message").text == "")
    assert "guesses right in at most 73.2 of 100" in seen(browser, "odds").text
    assert seen(browser, "curve-image").get_attribute("alt").startswith("Rows in the right cell")
    browser.find_element(By.ID, "make").click()
    assert "one record" in seen(browser, "verdict").text
    assert "void" not in browser.find_element(By.ID, "verdict").get_attribute("class")
    for link in browser.find_elements(By.CSS_SELECTOR, "#files button"):
        link.click()
    wanted = ("private-table.csv", "guarantee.json", "report.html", "report.json", "schema.json")
    end = time.monotonic() + PATIENCE
    while not all((downloads / name).exists() for name in wanted) and time.monotonic() < end:
        time.sleep(0.2)
    made = (downloads / "private-table.csv").read_text().splitlines()
    assert made[0] == "age <i>,sick"
    assert 200 < len(made) < 600
    assert json.loads((downloads / "guarantee.json").read_text())["holds"] is True


def test_entries_and_unknown_ranges_are_told_before_and_after(
    browser: Any, address: str, table: Path
) -> None:
    browser.get(address)
    browser.find_element(By.ID, "file").send_keys(str(table))
    browser.find_element(By.ID, "label").send_keys("sick")
    browser.find_element(By.ID, "read").click()
    said(browser, "The promise would be void")
    browser.find_element(By.CSS_SELECTOR, "input[value=entry]").click()
    WebDriverWait(browser, PATIENCE).until(
        lambda b: "noise moves half of the cells by" in b.find_element(By.ID, "blur").text
    )
    browser.find_element(By.ID, "make").click()
    assert "No privacy is promised" in seen(browser, "verdict").text
    assert "void" in browser.find_element(By.ID, "verdict").get_attribute("class")
    browser.find_element(By.ID, "close").click()
    WebDriverWait(browser, PATIENCE).until(lambda b: not b.find_element(By.ID, "columns").is_displayed())


def test_a_mistake_is_told_in_one_line(browser: Any, address: str, tmp_path: Path) -> None:
    browser.get(address)
    browser.find_element(By.ID, "read").click()
    said(browser, "Choose a file first")
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1\n")
    browser.find_element(By.ID, "file").send_keys(str(bad))
    browser.find_element(By.ID, "read").click()
    said(browser, "line 2")


def test_whole_page_can_be_used_with_the_keyboard_at_400_pixels(browser: Any, address: str) -> None:
    browser.set_window_size(400, 900)
    browser.get(address)
    wide = browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('input, select, button')].filter((each) =>"
        " !each.labels?.length && !each.ariaLabel && !each.textContent.trim()"
        " && each.id !== 'pause').map((each) => each.outerHTML)"
    )
    assert unnamed == []
    browser.set_window_size(1280, 1600)
