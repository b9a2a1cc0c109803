"""A browser and the running pages, for tests that click."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Start the command with more arguments; the address that it prints. All end with the session."""
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: object, **more: Any) -> str:
        command = [sys.executable, "-m", "onefold", "serve", "--json", *map(str, arguments)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more))
        output = running[-1].stdout
        assert output is not None
        told = ""
        while not told.endswith("}\n"):
            line = output.readline()
            assert line, "onefold serve has ended"
            told += line
        address: str = json.loads(told)["address"]
        return address

    yield start
    for process in running:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="session")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture
def browser(downloads: Path) -> Iterator[Any]:
    """Chromium without a window; each test has one of its own."""
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
