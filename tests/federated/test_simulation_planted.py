"""The simulator finds faults that are planted, and none in seeds 100 to 199."""

from __future__ import annotations

import pytest

pytest.importorskip("flwr")

from simulation.planted import planted
from simulation.stage import ready
from simulation.world import Failed, run

BLOCK = 25


@pytest.mark.merge
@pytest.mark.parametrize("start", range(100, 150, BLOCK))
def test_federation_is_the_fold_of_what_was_acknowledged(start: int) -> None:
    with ready():
        for seed in range(start, start + BLOCK):
            run(seed)


@pytest.mark.parametrize(
    ("fault", "seed", "said"),  # the first seed that finds it when this was written
    [
        ("folders are not synced", 0, "has lost its model"),
        ("answers leave before rows are counted", 1, "counted"),
        ("removed sites are members", 1, "members were"),
    ],
)
def test_simulator_catches_a_planted_fault(fault: str, seed: int, said: str) -> None:
    def run_all() -> None:
        for number in range(seed, 40):
            run(number)

    with ready(), planted(fault), pytest.raises(Failed, match=said) as caught:
        run_all()
    assert f"python -m tests.simulation {caught.value.seed}" in str(caught.value)
