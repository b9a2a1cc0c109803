"""What every test shares: few BLAS threads, a way to take an optional dependency away, and a browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from tests.browsing import chromium
from threadpoolctl import threadpool_limits

# Test matrices are small: more threads only cost time. Nothing may depend
# on it: tests/kernels.py runs the exact tests with two threads too, and the nightly run all of them.
for _variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
# A plugin of pytest may have loaded numpy already: what is loaded is told directly.
threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), user_api="blas")

# The same examples in every run, so that a failure belongs to the change that caused it; new ones are sought
# with `make test ARGS=--hypothesis-profile=search`. A busy machine fails no example by the clock.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("search", derandomize=False, print_blob=True, deadline=None)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    """Watch what tests cost."""
    from tests.tiers import Prices  # loads numpy: not before the number of threads is set

    config.pluginmanager.register(Prices(config), "prices")


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key that a test makes goes to the user's own folder."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "data-of-the-user"))


@pytest.fixture
def block_import(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that makes the named packages un-importable until the test ends.

    It holds for imports that happen afterwards; a module that has imported the package already keeps it.
    """

    def block(*packages: str) -> None:
        for package in packages:
            loaded = [name for name in sys.modules if name.startswith(f"{package}.")]
            for name in (package, *loaded):
                monkeypatch.setitem(sys.modules, name, None)

    return block


@pytest.fixture(scope="session")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture
def browser(downloads: Path) -> Iterator[Any]:
    """Chromium without a window; each test has one of its own."""
    with chromium(downloads) as driver:
        yield driver
