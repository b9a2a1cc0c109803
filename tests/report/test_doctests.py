"""The examples in the docstrings of the report room."""

import doctest
from importlib import import_module

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


@pytest.mark.parametrize("name", ["comparison", "figures", "html", "tables"])
def test_examples_in_docstrings(name: str) -> None:
    result = doctest.testmod(import_module(f"onefold.report.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
