"""The examples in the docstrings of the transfer room."""

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["classifier", "source"])
def test_examples_in_docstrings(name: str) -> None:
    result = doctest.testmod(import_module(f"onefold.transfer.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
