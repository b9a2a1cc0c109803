"""Pages about predicted numbers: the error beside the mean, intervals, pictures, and what is promised."""

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentRegressor
from onefold.federated import simulate_regression
from onefold.privacy import Guarantee
from onefold.report import ObservedDisplay
from onefold.report.builders import of_model
from onefold.report.displays import display_of
from onefold.report.evaluation import evaluate_numbers, numbers_of
from onefold.report.federations import SIMULATED, of_simulation


@pytest.fixture(scope="module")
def pair() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    observed = rng.normal(size=500)
    return observed + 0.5 * rng.normal(size=500), observed


def test_measures_are_those_of_their_definitions(pair: tuple[np.ndarray, np.ndarray]) -> None:
    predicted, observed = pair
    found = evaluate_numbers(predicted, observed, mean=0.5, ends=(predicted - 1, predicted + 1), level=0.9)
    errors = predicted - observed
    assert found.rmse == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert found.rmse_of_the_mean == pytest.approx(np.sqrt(np.mean((0.5 - observed) ** 2)))
    assert found.mean_absolute_error == pytest.approx(np.mean(np.abs(errors)))
    assert found.r2 == pytest.approx(1 - np.mean(errors**2) / np.var(observed))
    assert found.covered == pytest.approx(np.mean(np.abs(errors) <= 1))
    assert [each.outcome for each in found.measures] == ["better", "better"]


def test_interval_of_r2_holds_the_truth_about_as_often_as_it_says() -> None:
    rng, inside = np.random.default_rng(1), 0
    for _ in range(300):
        observed = rng.normal(size=200)
        found = evaluate_numbers(observed + rng.normal(size=200), observed * 1.0)
        # Errors of variance one around numbers of variance one explain nothing: R2 is 0.
        assert found.r2_interval is not None
        inside += found.r2_interval[0] <= 0.0 <= found.r2_interval[1]
    assert 0.90 <= inside / 300 <= 0.99


def test_rows_that_depend_on_each_other_have_no_interval(pair: tuple[np.ndarray, np.ndarray]) -> None:
    found = evaluate_numbers(*pair, bounded=False)
    assert found.r2_interval is None
    assert "r2_interval" not in numbers_of(found)
    assert np.isnan(evaluate_numbers([1.0, 2.0], [3.0, 3.0]).r2)


def test_page_says_the_error_beside_the_mean_and_when_the_mean_is_better(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    page = of_model("Costs", {"rows": 500}, evaluation=evaluate_numbers(*pair))
    assert "always predicting the mean would be off by" in page.verdict[0]
    useless = of_model("Costs", {}, evaluation=evaluate_numbers(np.full(500, 9.0), pair[1]))
    assert "worse than always predicting the mean" in useless.verdict[1]
    estimated = of_model("Costs", {}, estimated={"rmse": 2.0, "rmse_of_the_mean": 4.0})
    assert "By its own estimate predictions are off by 2" in estimated.verdict[0]


def test_page_of_a_private_model_has_its_promise_first_and_warns_of_raw_rows(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    promise = Guarantee("record", (1.0, 1e-5), (1.0, 1e-5), 3, labels=(1.0, 1e-5))
    page = of_model("Costs", {}, evaluation=evaluate_numbers(*pair), guarantee=promise)
    assert "odds" in page.verdict[0]
    assert page.verdict[-1].startswith("The measures on this page come from raw rows")
    assert "do not publish this page" in page.verdict[-1]
    assert "What is promised" in [section.title for section in page.sections]


def test_page_of_a_model_that_promises_nothing_says_why(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """A file of rows is worse than one of sums, and noise from a seed is neither."""
    sums = MomentRegressor(None, x_range=(0, 1), y_range=(0, 1)).fit(np.eye(9), np.linspace(0, 1, 9))
    seeded = MomentRegressor(1.0, x_range=(0, 1), y_range=(0, 1), random_state=0).fit(np.eye(9), np.ones(9))
    told = {"evaluation": evaluate_numbers(*pair)}
    said = {
        name: " ".join(of_model("Costs", {}, guarantee=promise, **told).verdict)
        for name, promise in (("rows", None), ("sums", sums.guarantee_), ("seed", seeded.guarantee_))
    }
    assert "the file contains the rows that it was fitted to" in said["rows"]
    assert "the file holds exact sums over the rows" in said["sums"]
    assert "No privacy is promised: the noise was drawn from a seed" in said["seed"]
    assert "exact sums" not in said["rows"] + said["seed"]


def test_displays_count_all_rows_and_come_back_from_plain_values(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    predicted, observed = pair
    display = ObservedDisplay.from_predictions(observed, predicted, "cost (EUR)")
    assert np.sum(display.counts) == display.too_low + display.too_high == 500
    assert display.too_low == np.sum(predicted < observed)
    assert display_of(display.numbers) == display
    assert "cost (EUR)" in display.describe()
    assert "<svg" in display.to_svg()
    constant = ObservedDisplay.from_predictions([1.0, 1.0], [1.0, 1.0])
    assert np.sum(constant.counts) == 2
    for wrong in (([1.0], [1.0, 2.0]), ([], []), ([np.nan], [1.0])):
        with pytest.raises(InvalidInputError):
            ObservedDisplay.from_predictions(*wrong)


def test_page_of_a_simulation_has_every_site_and_the_mean() -> None:
    X = np.random.default_rng(0).uniform(size=(200, 2))
    ranges = {"x_range": (0.0, 1.0), "y_range": (0.0, 1.0)}
    for epsilon, words in ((None, "No noise was added"), (8.0, "odds")):
        found = simulate_regression(X, X[:, 0], n_clients=3, epsilon=epsilon, **ranges)
        page = of_simulation("Sites", found, {"seed": 0}, ["told"])
        assert len(page.sections[0].rows) == 3 + 3
        assert any(words in line for line in page.verdict)
        # Beside a promise stand errors of raw rows, one of them of a model without noise.
        assert (SIMULATED in page.verdict) == (epsilon is not None)
