"""Every example in a docstring runs and prints what it says, on any processor."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import warnings
from pathlib import Path

import pytest

import onefold
from onefold.exceptions import MissingDependencyError

EXTRAS = ("dp_accounting", "flwr", "jinja2", "matplotlib", "pandas", "pyarrow", "seal")


def _module_names() -> list[str]:
    found = pkgutil.walk_packages(onefold.__path__, "onefold.", onerror=lambda name: None)
    return ["onefold", *sorted(module.name for module in found if module.name != "onefold.__main__")]


@pytest.mark.parametrize("name", _module_names())
def test_examples_of_a_module_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        missing = isinstance(error, MissingDependencyError) or (error.name or "").partition(".")[0] in EXTRAS
        if not missing:
            raise
        pytest.skip(f"needs an extra: {error}")
    monkeypatch.chdir(tmp_path)  # an example may write files
    tests = [test for test in doctest.DocTestFinder(exclude_empty=True).find(module) if test.examples]
    runner = doctest.DebugRunner(verbose=False, optionflags=doctest.ELLIPSIS)  # raises what goes wrong
    for test in tests:
        try:
            with warnings.catch_warnings():
                runner.run(test)
        except doctest.UnexpectedException as error:
            if isinstance(error.exc_info[1], MissingDependencyError):
                pytest.skip(f"an example needs an extra: {error.exc_info[1]}")
            raise
        except doctest.DocTestFailure as error:
            example = error.example
            pytest.fail(f"{test.name}: {example.source}expected: {example.want}found: {error.got}")
