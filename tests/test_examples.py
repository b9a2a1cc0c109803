"""Every example in a docstring runs and prints what it says, on any processor."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import warnings
from pathlib import Path

import pytest
from tests.tiers import later

import onefold
from onefold.exceptions import MissingDependencyError

EXTRAS = ("dp_accounting", "flwr", "jinja2", "matplotlib", "pandas", "seal")


def _rooms() -> dict[str, list[str]]:
    """Modules of every room; those beside the rooms are a room of their own."""
    found = pkgutil.walk_packages(onefold.__path__, "onefold.", onerror=lambda name: None)
    rooms: dict[str, list[str]] = {"onefold": ["onefold"]}
    for name in sorted(module.name for module in found if module.name != "onefold.__main__"):
        rooms.setdefault(name.split(".")[1], []).append(name)
    return rooms


ROOMS = _rooms()


@pytest.mark.parametrize("room", later(ROOMS, ("bounds", "datasets", "privacy", "tables")))
def test_examples_of_a_room_run(room: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # an example may write files
    wrong = [line for name in ROOMS[room] for line in _failures(name)]
    assert wrong == [], "\n".join(wrong)


def _failures(name: str) -> list[str]:
    """What examples of a module print that is not what they say; what needs an extra is left out."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        missing = isinstance(error, MissingDependencyError) or (error.name or "").partition(".")[0] in EXTRAS
        return [] if missing else [f"{name}: {error}"]
    runner, found = (
        doctest.DebugRunner(verbose=False, optionflags=doctest.ELLIPSIS),
        [],
    )  # raises what is wrong
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        try:
            with warnings.catch_warnings():
                runner.run(test)
        except doctest.UnexpectedException as error:
            if not isinstance(error.exc_info[1], MissingDependencyError):
                found.append(f"{test.name}: {error.example.source}raised {error.exc_info[1]!r}")
        except doctest.DocTestFailure as error:
            found.append(
                f"{test.name}: {error.example.source}expected: {error.example.want}found: {error.got}"
            )
    return found
