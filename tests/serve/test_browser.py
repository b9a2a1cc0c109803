"""The pages in a real browser: a table goes in, is described, made private and downloaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("matplotlib")
pytest.importorskip("selenium.webdriver")

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from tests.browsing import CONTRAST, narrow, sideways

PATIENCE = 90.0

pytestmark = pytest.mark.merge


@pytest.fixture(scope="module")
def address(serving: Callable[..., str]) -> str:
    return serving()


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


def opened(browser: Any, address: str, table: Path, label: str = "sick") -> list[Any]:
    """Give a file to the page and say which column has the classes; the rows about the columns."""
    browser.get(address)
    seen(browser, "try")  # a file given before the page is shown is not noticed
    browser.find_element(By.ID, "file").send_keys(str(table))
    seen(browser, "found")
    if label:
        before = browser.find_element(By.CSS_SELECTOR, "#fields tr")
        Select(browser.find_element(By.ID, "label")).select_by_visible_text(label)
        WebDriverWait(browser, PATIENCE).until(lambda _: gone(before))
    return list(browser.find_elements(By.CSS_SELECTOR, "#fields tr"))


def gone(part: Any) -> bool:
    try:
        part.is_enabled()
    except StaleElementReferenceException:
        return True
    return False


def tells(browser: Any, identifier: str, text: str) -> None:
    WebDriverWait(browser, PATIENCE).until(lambda _: text in browser.find_element(By.ID, identifier).text)


def test_private_table_from_file_to_download(
    browser: Any, address: str, table: Path, downloads: Path
) -> None:
    browser.get(address)
    assert "token" not in browser.current_url  # nobody reads it over a shoulder
    age, sick = opened(browser, address, table)
    assert "400 rows, 2 columns" in seen(browser, "found").text
    assert "age <i>" in age.text  # as text, not as HTML
    tells(browser, "left-note", "nobody says to know it: age <i>, sick")
    assert not browser.find_element(By.ID, "make").is_enabled()
    low, high = age.find_elements(By.CSS_SELECTOR, "input[type=text]:not([disabled])")
    for box, value in ((low, "0"), (high, "120")):
        box.clear()
        box.send_keys(value)
    for row in (age, sick):
        row.find_element(By.CSS_SELECTOR, "input[type=checkbox]").click()
    WebDriverWait(browser, PATIENCE).until(lambda b: b.find_element(By.ID, "left-note").text == "")
    browser.find_element(By.ID, "ground").send_keys("the form of admission")
    tells(browser, "odds", "guesses right in at most 73.2 of 100")
    tells(browser, "learnable", "± 10.6 or wider")
    WebDriverWait(browser, PATIENCE).until(lambda b: b.find_elements(By.CSS_SELECTOR, "#curve-image svg"))
    drawn = browser.find_element(By.CSS_SELECTOR, "#curve-image svg")
    assert drawn.get_attribute("aria-label").startswith("Rows in the right cell")
    browser.find_element(By.ID, "epsilon").send_keys(Keys.ARROW_LEFT)
    tells(browser, "epsilon-value", "0.7")
    tells(browser, "odds", "at most 66.9 of 100")
    browser.find_element(By.ID, "make").click()
    assert "one record" in seen(browser, "verdict").text
    assert "epsilon" in browser.find_element(By.ID, "spent").text
    assert browser.switch_to.active_element.get_attribute("id") == "made-title"
    assert len(browser.find_elements(By.CSS_SELECTOR, "#first tbody tr")) == 5
    for name in ("private-table.csv", "guarantee.json", "report.html", "report.json", "schema.json"):
        browser.find_element(By.CSS_SELECTOR, f"#files button[data-file='{name}']").click()
        WebDriverWait(browser, PATIENCE).until(lambda _, path=downloads / name: path.exists())
    made = (downloads / "private-table.csv").read_text().splitlines()
    assert made[0] == "age <i>,sick"
    assert 200 < len(made) < 600
    promise = json.loads((downloads / "guarantee.json").read_text())
    assert promise["holds"] is True
    assert any("the form of admission" in condition for condition in promise["conditions"])
    # A range was incomplete while it was typed, which the program has told; no script has failed.
    assert [each for each in browser.get_log("browser") if each["source"] != "network"] == []


def test_columns_that_nobody_knows_are_left_out(browser: Any, address: str, table: Path) -> None:
    age, _ = opened(browser, address, table)
    browser.find_element(By.CSS_SELECTOR, "input[value=entry]").click()
    age.find_element(By.CSS_SELECTOR, "input[type=checkbox]").click()
    tells(browser, "left-note", "nobody says to know it: sick")
    tells(browser, "learnable-table", "noise moves half by")
    browser.find_element(By.ID, "make").click()
    said(browser, "Say from where you know the columns")
    browser.find_element(By.ID, "ground").send_keys("a form")
    browser.find_element(By.ID, "make").click()
    seen(browser, "verdict")
    assert [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#first th")] == ["age <i>"]
    browser.find_element(By.ID, "close").click()
    WebDriverWait(browser, PATIENCE).until(lambda b: not b.find_element(By.ID, "columns").is_displayed())


def test_a_mistake_is_told_in_one_line(browser: Any, address: str, tmp_path: Path, table: Path) -> None:
    browser.get(address)
    seen(browser, "try")
    bad = tmp_path / "bad.csv"
    bad.write_text("a,b\n1\n")
    browser.find_element(By.ID, "file").send_keys(str(bad))
    said(browser, "Bad.csv: line 2 has 1 cells, the header line has 2.")
    age, _ = opened(browser, address, table)
    low = age.find_element(By.CSS_SELECTOR, "input[type=text]")
    low.clear()
    low.send_keys("many", Keys.TAB)
    said(browser, "A limit of age <i> is not a number.")
    browser.execute_script("sessionStorage.clear()")
    browser.refresh()
    said(browser, "Open the address that onefold serve printed.")


def test_categories_with_commas_and_quotes_are_kept(browser: Any, address: str, tmp_path: Path) -> None:
    path = tmp_path / "wards.csv"
    kinds = ('"a, b"', '"say ""x"""', "c")
    path.write_text("ward,age\n" + "\n".join(f"{kinds[n % 3]},{20 + n % 50}" for n in range(90)) + "\n")
    ward, _ = opened(browser, address, path, label="")
    box = ward.find_element(By.CSS_SELECTOR, "input.wide")
    assert box.get_attribute("value") == '"a, b", c, "say ""x"""'
    box.send_keys(', d, "e, f"', Keys.TAB)
    ward.find_element(By.CSS_SELECTOR, "input[type=checkbox]").click()
    tells(browser, "learnable", "20 of 100 right")  # one of five


def test_ticks_stay_inside_their_card_beside_dates_and_long_names(
    browser: Any, address: str, tmp_path: Path
) -> None:
    path = tmp_path / "admissions.csv"
    lines = [f"{1 + n % 28:02d}.03.2024,{n % 70},{'a longer name' if n % 2 else 'b'}" for n in range(90)]
    path.write_text("day of admission,number_of_days_since_discharge,ward\n" + "\n".join(lines) + "\n")
    opened(browser, address, path, label="")
    outside = browser.execute_script(
        "const edge = document.getElementById('columns').getBoundingClientRect().right;"
        "return [...document.querySelectorAll('#fields input, #fields select')].filter((each) =>"
        " each.getBoundingClientRect().right > edge).map((each) => each.outerHTML)"
    )
    assert outside == []


def test_every_control_is_reached_by_tab_in_order_with_a_visible_focus(
    browser: Any, address: str, table: Path
) -> None:
    rows = opened(browser, address, table)
    assert len(rows) == 2
    for row in rows:  # "make" is no control before a column is known
        row.find_element(By.CSS_SELECTOR, "input[type=checkbox]").click()
    WebDriverWait(browser, PATIENCE).until(lambda b: b.find_element(By.ID, "make").is_enabled())
    browser.execute_script("scrollTo(0, 0); document.querySelector('.skip').focus()")
    tall, seen_controls = [], []
    for _ in range(60):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        told = browser.execute_script(
            "const each = document.activeElement, box = each.getBoundingClientRect();"
            "return [each.tagName, each.id || each.ariaLabel || each.textContent.trim(),"
            " box.top + scrollY, getComputedStyle(each).outlineStyle,"
            " box.bottom > 0 && box.top < innerHeight]"
        )
        if told[0] == "BODY":
            break
        assert told[3] != "none", told  # where the focus is can be seen
        assert told[4], told  # and is on the screen
        seen_controls.append(told[1])
        tall.append(told[2])
    page = seen_controls[seen_controls.index("close") :]
    assert page[:2] == ["close", "label"]
    assert "use of age <i>" in page
    assert page.index("epsilon") < page.index("make")
    assert min(np.diff(tall)) > -12  # downwards; one line is one place
    wanted = browser.execute_script(
        "return [...document.querySelectorAll('main input, main select, main button')].filter((each) =>"
        " each.checkVisibility({visibilityProperty: true}) && !each.disabled"
        " && (each.type !== 'radio' || each.checked)).length"
    )
    assert wanted == len(page)


def test_all_controls_have_names_and_headings_have_an_order(browser: Any, address: str, table: Path) -> None:
    opened(browser, address, table)
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('input, select, button')].filter((each) =>"
        " each.checkVisibility() && !each.labels?.length && !each.ariaLabel && !each.textContent.trim())"
        ".map((each) => each.outerHTML)"
    )
    assert unnamed == []
    levels = browser.execute_script(
        "return [...document.querySelectorAll('h1, h2, h3')].filter((each) => each.checkVisibility())"
        ".map((each) => Number(each.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for identifier, kind in (("message", "status"), ("left-note", "status"), ("odds", None)):
        part = browser.find_element(By.ID, identifier)
        assert part.get_attribute("role") == kind or part.get_attribute("aria-live") == "polite"


# Controls that reach out of the card of their column.
OUTSIDE = """
return [...document.querySelectorAll("#fields input, #fields select")].filter((each) =>
  each.checkVisibility({visibilityProperty: true})
  && each.getBoundingClientRect().right > each.closest("tr").getBoundingClientRect().right
).map((each) => each.outerHTML);
"""


@pytest.mark.parametrize("dress", ["light", "dark"])
def test_contrast_is_enough_and_nothing_scrolls_sideways_at_400_pixels(
    browser: Any, address: str, table: Path, dress: str
) -> None:
    dressed = {"features": [{"name": "prefers-color-scheme", "value": dress}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", dressed)
    narrow(browser)
    browser.get(address)
    assert sideways(browser) <= 0
    age, sick = opened(browser, address, table)
    assert age.size["width"] <= 400
    assert browser.execute_script(OUTSIDE) == []
    for row in (age, sick):
        row.find_element(By.CSS_SELECTOR, "input[type=checkbox]").click()
    WebDriverWait(browser, PATIENCE).until(lambda b: b.find_elements(By.CSS_SELECTOR, "#curve-image svg"))
    assert sideways(browser) <= 0
    browser.find_element(By.ID, "ground").send_keys("a form")
    browser.find_element(By.ID, "make").click()
    seen(browser, "verdict")
    assert sideways(browser) <= 0
    back = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (back == "rgb(245, 247, 249)") == (dress == "light")
    assert browser.execute_script(CONTRAST) == []
