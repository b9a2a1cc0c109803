"""Whole federations over a simulated clock, network and disk, one per seed; see ``tests/simulation``."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("flwr")

from simulation.stage import ready
from simulation.world import run
from tiers import later

BLOCK = 5


@pytest.mark.parametrize("start", later(range(0, 100, BLOCK), range(5)))
def test_federation_is_the_fold_of_what_was_acknowledged(start: int) -> None:
    with ready():
        for seed in range(start, start + BLOCK):
            run(seed)


@pytest.mark.merge
def test_seed_replays_to_the_same_trace() -> None:
    with ready():
        first = [run(seed) for seed in (3, 4, 5)]
        assert [run(seed) for seed in (3, 4, 5)] == first


def test_simulation_leaves_the_modules_as_they_were() -> None:
    """Tests with real processes run in the same interpreter, and need ids and clocks of their own."""
    with ready():  # whatever is loaded late is loaded now
        run(0)
    before = {
        name: dict(vars(sys.modules[name])) for name in sorted(sys.modules) if name.startswith("onefold")
    }
    with ready():
        for seed in range(2):
            run(seed)
    changed = [
        f"{name}.{key}"
        for name, attributes in before.items()
        for key, value in attributes.items()
        if vars(sys.modules[name]).get(key) is not value and not key.startswith("__")
    ]
    assert changed == []
