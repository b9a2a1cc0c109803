"""The examples in the documentation of transfer say what happens."""

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["source", "classifier"])
def test_examples(name: str) -> None:
    result = doctest.testmod(import_module(f"onefold.transfer.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
