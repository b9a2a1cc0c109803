"""Forbid fitting: whatever solves for machines, mappings or rules raises."""

import pytest

SOLVERS = (
    "onefold.models.hull.build_hull",
    "onefold.models.kahm.core.build_hull",
    "onefold.models.kahm.core.solve",
    "onefold.models.kahm.core.solve_equidistant",
    "onefold.models.membership._core.build_hull",
    "onefold.models.membership._core.fit_mapping",
    "onefold.models.membership._core.solve_mapping",
    "onefold.models.fuzzy._core.fit_layers",
    "onefold.transfer._learners.fit_mixture",
)


def forbid_fitting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every solver raise until the test is over."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was fitted")

    for name in SOLVERS:
        monkeypatch.setattr(name, refuse)
