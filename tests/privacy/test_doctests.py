"""The examples in the docstrings of the privacy room."""

import doctest
from importlib import import_module

import pytest

MODULES = (
    "calibration",
    "composition",
    "guarantee",
    "ledger",
    "mechanisms.bounded_fisher",
    "mechanisms.fisher",
    "mechanisms.gaussian",
    "mechanisms.labels",
    "mechanisms.laplace",
    "mechanisms.mechanism",
    "moments._estimator",
    "sensitivity",
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name: str) -> None:
    result = doctest.testmod(import_module(f"onefold.privacy.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
