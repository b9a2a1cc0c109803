"""Forbid fitting: whatever solves for machines, mappings or rules raises."""

import pytest

SOLVERS = (
    "onefold.models.hull.build_hull",
    "onefold.models.kahm.core.build_hull",
    "onefold.models.kahm.core.solve",
    "onefold.models.kahm.core.solve_equidistant",
    "onefold.models.membership.build_hull",
    "onefold.models.membership.fit_mapping",
    "onefold.models.membership.solve_mapping",
    "onefold.models.fuzzy.core.fit_layers",
    "onefold.transfer.learners.fit_mixture",
)


def forbid_fitting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every solver raise until the test is over."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was fitted")

    for name in SOLVERS:
        monkeypatch.setattr(name, refuse)
