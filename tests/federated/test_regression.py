"""Numbers at several sites: sums of moments, and what is refused."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from onefold.exceptions import InvalidInputError
from onefold.federated import simulate_regression

RANGES = {"x_range": (0.0, 1.0), "y_range": (-5.0, 35.0)}


@pytest.fixture(scope="module")
def parts() -> tuple[np.ndarray, ...]:
    X, y = make_friedman1(900, noise=1.0, random_state=0)
    return X[:600], y[:600], X[600:], y[600:]


def test_sums_do_not_depend_on_the_spread_of_the_rows(parts: tuple) -> None:
    even, by_output, one = (
        simulate_regression(*parts, sites, spread=spread, lift=64, **RANGES)
        for sites, spread in ((5, "even"), (5, "sorted"), (1, "even"))
    )
    assert even.r2 == by_output.r2 == one.r2
    assert even.r2 > 0.8 > 0.0 > np.median(by_output.r2_alone)
    assert even.guarantee is not None
    assert not even.guarantee.holds


def test_sums_with_noise_have_a_guarantee(parts: tuple) -> None:
    found = simulate_regression(*parts, 3, epsilon=8.0, **RANGES)
    assert found.guarantee is not None
    assert found.guarantee.holds
    assert found.guarantee.record == (8.0, 1e-5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"n_clients": 0, **RANGES}, "n_clients must be"),
        ({"n_clients": 200, **RANGES}, "every site needs"),
        ({"spread": "odd", **RANGES}, "spread must be"),
        ({}, "declared ranges"),
    ],
)
def test_mistakes_are_refused(parts: tuple, given: dict, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        simulate_regression(*parts, **given)
