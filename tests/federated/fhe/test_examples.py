"""The examples in the docstrings of the room."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = ("argmin", "messages", "parameters", "quantiser", "roles", "server")


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_the_docstrings_run(name: str, seal) -> None:
    module = importlib.import_module(f"onefold.federated.fhe.{name}")
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0
