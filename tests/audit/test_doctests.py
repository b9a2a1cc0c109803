"""The examples in the docstrings of the audit room."""

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["density", "epsilon", "intervals", "membership", "shadow"])
def test_examples_in_docstrings(name: str) -> None:
    result = doctest.testmod(import_module(f"onefold.audit.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
