"""The worked examples in the docstrings of every bound."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from onefold import bounds
from onefold.bounds import geometry, learning


@pytest.mark.parametrize("module", [geometry, learning], ids=lambda module: module.__name__)
def test_docstring_examples_run(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", bounds.__all__)
def test_every_bound_has_a_worked_example_and_names_its_source(name: str) -> None:
    text = getattr(bounds, name).__doc__
    assert ">>>" in text
    if name.endswith("_bound"):
        assert "Derivation" in text


def test_exported_names_are_sorted() -> None:
    assert bounds.__all__ == sorted(bounds.__all__)
