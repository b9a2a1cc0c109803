"""The worked examples in the docstrings."""

import doctest
from types import ModuleType

import pytest

from onefold.privacy.mechanisms import bounded_fisher, fisher
from onefold.release import choosing, curves, ranges, releases, svm, tables


@pytest.mark.parametrize(
    "module",
    [bounded_fisher, choosing, curves, fisher, ranges, releases, svm, tables],
    ids=lambda module: module.__name__,
)
def test_worked_examples(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
