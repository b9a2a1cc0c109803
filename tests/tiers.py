"""Which cases of a parametrised test run at every change, and which only before a merge."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest


def later(cases: Iterable[Any], fast: Container[Any] | Callable[[Any], bool]) -> list[Any]:
    """Mark all cases ``merge`` but those that are, or that a function says are, for the fast tier."""
    keep = fast if callable(fast) else fast.__contains__
    return [
        case
        if keep(case)
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.merge)
        for case in cases
    ]


def first_of(kind: Callable[[Any], Any]) -> Callable[[Any], bool]:
    """Say of cases, asked one after the other, whether they are the first of their kind."""
    seen: set[Any] = set()

    def is_first(case: Any) -> bool:
        new = kind(case) not in seen
        seen.add(kind(case))
        return new

    return is_first
