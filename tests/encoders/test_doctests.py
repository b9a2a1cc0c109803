"""The examples in the docstrings of the encoders."""

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize("name", ["_encoder", "cosine", "gradients", "projections"])
def test_docstring_examples_run(name: str) -> None:
    result = doctest.testmod(import_module(f"onefold.encoders.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
