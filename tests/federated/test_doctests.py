"""The examples in the docstrings run, and every exported name has one."""

from __future__ import annotations

import doctest
import importlib

import pytest

from onefold import federated

MODULES = [
    "guard",
    "local_model",
    "log",
    "messages",
    "moments",
    "rules",
    "server",
    "simulate",
    "trust",
    "uncertainty",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"onefold.federated.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", federated.__all__)
def test_exported_name_has_an_example(name: str) -> None:
    assert ">>> " in getattr(federated, name).__doc__


def test_simulate_is_the_function_and_not_its_module() -> None:
    assert callable(federated.simulate)
    assert federated.simulate is importlib.import_module("onefold.federated.simulate").simulate
    assert federated.__all__ == sorted(federated.__all__)
