"""The examples in the docstrings of the release room."""

import doctest
from importlib import import_module

import pytest

MODULES = (
    "privacy.mechanisms.bounded_fisher",
    "privacy.mechanisms.fisher",
    "release.choosing",
    "release.curves",
    "release.releases",
    "release.svm",
    "release.tables",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    result = doctest.testmod(import_module(f"onefold.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
