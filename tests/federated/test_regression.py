"""Numbers at several sites: mixed answers, sums of moments, and what is refused."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from onefold.exceptions import InvalidInputError
from onefold.federated import combine_numbers, simulate_regression

RANGES = {"x_range": (0.0, 1.0), "y_range": (-5.0, 35.0)}


@pytest.fixture(scope="module")
def parts() -> tuple[np.ndarray, ...]:
    X, y = make_friedman1(900, noise=1.0, random_state=0)
    return X[:600], y[:600], X[600:], y[600:]


def test_answers_of_near_sites_count_more_and_stay_between_them() -> None:
    found = combine_numbers([[0.1, 0.9], [0.9, 0.1], [0.5, 0.5]], [[1.0, 3.0]] * 3)
    np.testing.assert_allclose(found, [1.0, 3.0, 2.0], atol=1e-6)


@pytest.mark.parametrize("spread", ["even", "sorted"])
def test_sites_together_are_better_than_alone(parts: tuple, spread: str) -> None:
    found = simulate_regression(*parts, 4, spread=spread)
    assert found.guarantee is None
    assert found.n_bytes == 16 * 4 * 300
    assert found.r2 > np.median(found.r2_alone)
    assert found.rmse == pytest.approx(np.sqrt((1.0 - found.r2) * np.var(parts[3])))


def test_sums_do_not_depend_on_the_spread_of_the_rows(parts: tuple) -> None:
    even, by_output, one = (
        simulate_regression(*parts, sites, method="moments", spread=spread, lift=64, **RANGES)
        for sites, spread in ((5, "even"), (5, "sorted"), (1, "even"))
    )
    assert even.r2 == by_output.r2 == one.r2
    assert even.r2 > 0.8 > 0.0 > np.median(by_output.r2_alone)
    assert even.guarantee is not None
    assert not even.guarantee.holds


def test_sums_with_noise_have_a_guarantee(parts: tuple) -> None:
    found = simulate_regression(*parts, 3, method="moments", epsilon=8.0, **RANGES)
    assert found.guarantee is not None
    assert found.guarantee.holds
    assert found.guarantee.record == (8.0, 1e-5)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"n_clients": 0}, "n_clients must be"),
        ({"n_clients": 200}, "every site needs"),
        ({"method": "votes"}, "method must be"),
        ({"epsilon": 1.0}, 'for method="moments"'),
        ({"method": "moments"}, "declared ranges"),
    ],
)
def test_mistakes_are_refused(parts: tuple, given: dict, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        simulate_regression(*parts, **given)


@pytest.mark.parametrize("distances", [[[0.5]], [[0.5, 1.5]], [[np.nan, 0.1]]])
def test_answers_that_no_site_can_give_are_refused(distances: list) -> None:
    with pytest.raises(InvalidInputError, match="distances"):
        combine_numbers(distances, [[1.0, 2.0]])
