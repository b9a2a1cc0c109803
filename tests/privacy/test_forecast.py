"""What private moments will be worth: monotone in every declared number, and near what is measured."""

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentClassifier
from onefold.federated.declared import declared_moments
from onefold.privacy import PrivateMoments
from onefold.privacy.forecast import LEAST_LEFT, forecast_moments

USUAL = {"n_records": 300, "n_features": 30, "n_classes": 2, "epsilon": 1.0, "delta": 1e-5, "n_sites": 3}


def left(**changes: float) -> float:
    return forecast_moments(**(USUAL | changes)).left


def test_more_records_sites_and_epsilon_leave_more_and_more_columns_and_classes_less() -> None:
    usual = left()
    assert 0.5 < usual < 1.0
    for better in ({"n_records": 600}, {"n_sites": 6}, {"epsilon": 2.0}, {"delta": 1e-3}):
        assert left(**better) > usual
    for worse in ({"n_features": 300}, {"n_classes": 20}):
        assert left(**worse) < usual


def test_sites_with_their_own_noise_are_worth_less_than_one_with_all_records() -> None:
    assert left(n_records=900, n_sites=1) > left(n_records=300, n_sites=3)


def test_noise_that_leaves_less_than_a_quarter_swamps_the_data() -> None:
    few, many = (forecast_moments(number, 30, 2, 1.0) for number in (20, 2000))
    assert few.swamped
    assert few.left < LEAST_LEFT
    assert not many.swamped


def test_accuracy_lies_between_guessing_and_the_declared_one() -> None:
    found = forecast_moments(300, 30, 4, 1.0)
    assert 0.25 < found.accuracy(0.9) < 0.9
    assert found.accuracy(0.9, guessing=0.6) > 0.6
    assert found.accuracy(0.25) == pytest.approx(0.25)
    with pytest.raises(InvalidInputError, match="at least the accuracy of guessing"):
        found.accuracy(0.2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_records": 0},
        {"n_records": float("nan")},
        {"n_features": 0},
        {"epsilon": 0.0},
        {"delta": 0.0},
        {"n_sites": 0},
    ],
)
def test_impossible_numbers_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        left(**wrong)


def test_forecast_is_within_ten_points_on_generated_rows() -> None:
    """Rows of ten columns, each of which tells two classes apart a little; noise of twelve releases."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    rows = [(0.5 + 0.08 * (2 * y[:, None] - 1) + 0.15 * rng.standard_normal((400, 10))) for _ in range(2)]
    agreed = declared_moments(0.5, classes=[0, 1], n_features=10, limits=(0.0, 1.0))

    def accuracy(epsilon: float | None, seed: int) -> float:
        moments: PrivateMoments = agreed.__class__(**agreed.get_params())
        moments.set_params(epsilon=epsilon, random_state=seed)
        return MomentClassifier.from_moments(moments.fit(rows[0], y)).score(rows[1], y)

    expected = forecast_moments(400, 10, 2, 0.5).accuracy(accuracy(None, 0), guessing=0.5)
    measured = np.mean([accuracy(0.5, seed) for seed in range(12)])
    assert measured == pytest.approx(expected, abs=0.1)
