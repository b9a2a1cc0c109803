"""My site and My federation in a real browser, with a real federation behind them: a server and two sites."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("selenium.webdriver")

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from tests.federated.flower.conftest import Federation, environment, make_federation

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]
PATIENCE = 120.0
PURPOSE = "triage <img src=x onerror=alert(1)>"
ASKED = ("--querier", "ward", "--purpose", PURPOSE)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Federation]:
    """Two sites that add noise and ask their owners before they answer; north has a limit."""
    made = make_federation(tmp_path / "f", whom=())
    ledger = made.site("north").root / "ledger.db"
    limit = [sys.executable, "-m", "onefold", "ledger", "new", str(ledger), "--epsilon", "10"]
    subprocess.run(limit, check=True, capture_output=True, env=environment())
    noise = ("--epsilon", 1, "--unit", "entry", "--range", -1, 2, "--label-epsilon", 2, "--classes", 0, 1, 2)
    try:
        made.start("server")
        made.start("north", "--data", made.root / "north.npz", "--label", "y", *noise, "--ledger", ledger)
        made.start("south", "--data", made.root / "south.npz", "--label", "y", *noise)
        made.wait_for_members("north", "south")
        yield made
    finally:
        made.close()


def ask(made: Federation) -> tuple[list[str], str]:
    """Query as somebody with a key of his own; the sites that answered, and what was said besides."""
    done = made.run("query", made.test_file, "--label", "y", "--json", *ASKED)
    return json.loads(done.stdout)["answered"] if done.stdout else [], done.stderr


def text_of(browser: Any, identifier: str) -> str:
    return str(browser.find_element(By.ID, identifier).text)


def shows(browser: Any, identifier: str, text: str) -> None:
    """Wait until a part of the page has this text: the pages look again by themselves."""
    patient(browser).until(lambda _: text in text_of(browser, identifier), f"{text!r} in {identifier}")


def patient(browser: Any) -> Any:
    """Parts of a page may be replaced while one looks at them."""
    return WebDriverWait(browser, PATIENCE, ignored_exceptions=[StaleElementReferenceException])


def press(browser: Any, within: str, words: str) -> None:
    """Click a button by what is written on it, as a person would."""

    def pressed(_: Any) -> bool:
        buttons = browser.find_elements(By.CSS_SELECTOR, f"{within} button")
        found = [each for each in buttons if each.text.startswith(words) and each.is_enabled()]
        if len(found) == 1:
            found[0].click()
        return len(found) == 1

    patient(browser).until(pressed, f"one button {words!r} in {within}")


def test_owner_approves_pauses_and_resumes_and_operator_removes(
    running: Federation, browser: Any, serving: Callable[..., str]
) -> None:
    site, server = running.site("north").root, running.server.root
    browser.get(serving("--site", site, "--server", server, env=environment()))
    shows(browser, "site-title", "Site north")
    shows(browser, "waiting", "Nobody waits")
    shows(browser, "site-state", "answers")

    # Somebody asks, and is seen without anybody loading the page again.
    assert ask(running)[0] == []
    shows(browser, "waiting", "ward asks about 150 rows")
    shows(browser, "waiting", PURPOSE)
    assert browser.find_elements(By.CSS_SELECTOR, "#site img") == []  # it is text, and nothing else
    shows(browser, "site-badge", "1 waiting")

    # The owner approves up to 400 rows. South's owner does so on the command line.
    press(browser, "#waiting", "Approve")
    assert "Approve ward?" in text_of(browser, "dialog")
    browser.find_element(By.ID, "approve-rows").send_keys("400")
    press(browser, "#dialog", "Approve")
    shows(browser, "message", "ward was approved.")
    shows(browser, "waiting", "Nobody waits")
    south = running.site("south").root
    assert running.run("approvals", "approve", "ward", "--folder", south, folder=False).returncode == 0
    assert ask(running)[0] == ["north", "south"]
    shows(browser, "decided", "150")
    shows(browser, "decided", "250")
    shows(browser, "log", "answered")
    assert PURPOSE in text_of(browser, "log")
    assert [each.text for each in browser.find_elements(By.CSS_SELECTOR, "#log .pill")] == [
        "answered",
        "approved",
        "asked, waits",
    ]
    assert "none was changed" in text_of(browser, "log-state")

    # Three cells and a class per record: 3 x 1 + 2 of 10 are spent, whatever is asked.
    shows(browser, "budget", "left of 10 per record")
    left = browser.execute_script("return document.querySelector('meter').value")
    assert 0.0 < left < 10.0
    assert f"epsilon {left:g} left" in text_of(browser, "budget")

    # Paused, the site refuses; afterwards it answers again, within the rows that are left.
    press(browser, "#site", "Pause")
    shows(browser, "site-state", "paused")
    assert ask(running)[0] in ([], ["south"])
    press(browser, "#site", "End the pause")
    shows(browser, "site-state", "answers")
    assert ask(running)[0] == ["north", "south"]
    shows(browser, "decided", "100")
    assert ask(running)[0] in ([], ["south"])  # 150 rows are more than are left
    shows(browser, "waiting", "approved before, and asks for more")

    # The operator sees who is there, and removes south.
    browser.find_element(By.ID, "to-federation").click()
    shows(browser, "federation-state", "server runs")
    rows = text_of(browser, "sites").splitlines()
    told = {name: next(line for line in rows if line.startswith(name)) for name in ("north", "west")}
    assert "takes part yes" in told["north"]
    assert datetime.now(UTC).strftime("%Y-%m-%d") in told["north"]  # when it was last seen
    assert "private" in told["north"]
    assert "invited no never" in told["west"]
    remove_south = "#sites tr:nth-child(2)"
    assert browser.find_element(By.CSS_SELECTOR, f"{remove_south} th").text == "south"
    press(browser, remove_south, "Remove")
    press(browser, "#dialog", "Cancel")
    assert set(running.registry.members) == {"north", "south"}  # nothing happened yet
    press(browser, remove_south, "Remove")
    press(browser, "#dialog", "Remove south")
    shows(browser, "message", "south was removed.")
    shows(browser, "sites", "south removed")
    assert set(running.registry.members) == {"north"}

    # And it really is out: the answer is that of north alone.
    browser.find_element(By.ID, "to-site").click()
    shows(browser, "waiting", "asks")
    press(browser, "#waiting", "Approve")
    press(browser, "#dialog", "Approve")
    shows(browser, "message", "was approved")
    answered, said = ask(running)
    assert answered == ["north"], said
    assert browser.get_log("browser") == []  # no script has failed, and nothing was blocked
