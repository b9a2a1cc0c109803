"""Private moments as an estimator: what comes out, which classes, what is promised, bad input."""

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.tiers import thinned

from onefold.exceptions import InvalidInputError
from onefold.privacy import calibration
from onefold.privacy.moments import PrivateMoments
from onefold.privacy.moments._release import CLASSES_SHARE, common_classes
from onefold.privacy.samplers import SAMPLERS
from reference.clouds import cloud


# Checks use a few dozen rows: hardly any noise, and a ball that holds them all. None is expected to fail.
@parametrize_with_checks([PrivateMoments(1e6, radius=30.0, random_state=0)])
def test_passes_the_checks_of_scikit_learn(estimator, check) -> None:
    check(estimator)


# --- what comes out ---------------------------------------------------------------------------------------


def test_without_noise_and_grid_the_moments_are_those_of_the_records() -> None:
    X, y = cloud()
    model = PrivateMoments(None, centre=None, sampler="float").fit(X, y)
    unit = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    for code in range(3):
        own = unit[y == code]
        assert model.counts_[code] == len(own)
        np.testing.assert_allclose(model.sums_[code], own.sum(axis=0))
        np.testing.assert_allclose(model.second_moments_[code], own.T @ own)
        np.testing.assert_allclose(model.means_[code], own.mean(axis=0))
        found = model.covariances(shrinkage=0.0, floor=0.0, least=0.0)[code]
        np.testing.assert_allclose(found, np.cov(own.T, bias=True), rtol=1e-6, atol=1e-9)
    assert "nothing is promised" in str(model.guarantee_)
    assert model.guarantee_.record[0] == math.inf
    assert not model.guarantee_.holds
    assert not PrivateMoments.from_bytes(model.to_bytes()).guarantee_.holds


def test_the_private_centre_is_near_the_mean() -> None:
    X, y = cloud(20_000)
    unit = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    model = PrivateMoments(1.0, classes=range(3), random_state=0).fit(X, y)
    np.testing.assert_allclose(model.centre_, unit.mean(axis=0), atol=0.01)
    assert not np.array_equal(model.centre_, unit.mean(axis=0))


def test_release_depends_on_rows_only_through_the_ball() -> None:
    X, y = cloud()
    far = X / np.linalg.norm(X, axis=1, keepdims=True)
    given = {"classes": range(3), "random_state": 0}
    one, other = (PrivateMoments(1.0, **given).fit(rows, y) for rows in (5.0 * far, 7.0 * far))
    np.testing.assert_allclose(one.second_moments_, other.second_moments_, rtol=1e-9)


# --- classes ----------------------------------------------------------------------------------------------


def test_classes_found_privately_are_those_of_many_records() -> None:
    X, y = cloud(3000)
    y[:5] = 9
    model = PrivateMoments(1.0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.guarantee_.record == (1.0, 1e-5)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_class_of_one_record_shows_as_rarely_as_promised(sampler: str) -> None:
    # Nothing but classes of one record, and a delta large enough to see some of them.
    delta, n_classes = 0.1, 30_000
    model = PrivateMoments(1.0, delta, centre=None, sampler=sampler, random_state=0)
    shown = len(model.fit(np.zeros((n_classes, 1)), np.arange(n_classes)).classes_)
    expected = -math.expm1(-CLASSES_SHARE * delta) * n_classes
    allowance = 5 * math.sqrt(expected)
    # Counts may be rounded, which a threshold higher by half a record pays for.
    assert expected / 2 - allowance < shown < expected + allowance


def test_release_without_any_large_class_is_refused_in_one_line() -> None:
    X, y = cloud(30)
    with pytest.raises(InvalidInputError, match="not one class has enough records"):
        PrivateMoments(1.0, random_state=0).fit(X, y)


def test_public_classes_without_records_are_kept() -> None:
    X, y = cloud()
    model = PrivateMoments(1.0, classes=[7, 0, 1, 2], random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 7])
    assert np.isfinite(model.covariances_).all()
    assert np.linalg.eigvalsh(model.covariances_).min() > 0.0


# --- guarantee --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "sigma"), thinned([1, 7], [0.3, 1.0, 2.2, 17.0]))
def test_one_record_makes_no_class_except_with_its_share_of_delta(sigma: float, most: int) -> None:
    delta, counts = 1e-3, np.arange(200.0)
    least = counts[common_classes(counts, sigma, delta, most)].min()
    share = -math.expm1(-CLASSES_SHARE * delta / most)  # a person may be alone in several classes
    # Counts are rounded, so that noise of half a step less is enough for them.
    assert norm.sf((least - 1.5) / sigma) <= share
    assert norm.sf((least - 3.5) / sigma) > share


def test_the_guarantee_speaks_of_records_with_labels() -> None:
    X, y = cloud()
    promise = PrivateMoments(1.0, classes=range(3)).fit(X, y).guarantee_
    assert promise.entry == promise.labels == promise.replaced  # a changed entry or label is another record
    assert promise.replaced[0] > promise.record[0] == 1.0
    assert promise.unit == "record"
    assert promise.holds
    assert promise.record == promise.record_with_label == (1.0, 1e-5)
    assert (
        "one record and its label more or less, clipped to the declared domain: epsilon 1 per record"
        in str(promise)
    )
    assert "labels" not in str(promise).split("Not covered:")[1]
    # A replaced record is at most one less and one more.
    assert 1.0 < promise.labels[0] < calibration.epsilon_of(2 * calibration.mu_of(1.0, 1e-5), 1e-5) + 1e-9
    replaced = (
        PrivateMoments(1.0, classes=range(3), neighbours="replace", random_state=0).fit(X, y).guarantee_
    )
    assert replaced.labels == replaced.entry == replaced.record == (1.0, 1e-5)
    assert "the number of rows" in str(replaced).split("Not covered:")[1]


@pytest.mark.parametrize("classes", [None, range(3)])
def test_the_blocks_compose_to_the_stated_epsilon(classes: object) -> None:
    X, y = cloud(5000)
    model = PrivateMoments(1.0, classes=classes, random_state=0).fit(X, y)
    centre = 1.0 / (calibration.mu_of(1.0, 1e-5 * (0.9 if classes is None else 1.0)) * math.sqrt(0.05 / 1.05))
    levels = [centre, model.count_noise_[0], model.sum_noise_[0], model.second_noise_[0]]
    mu = math.sqrt(sum(level**-2 for level in levels))
    delta = ndtr(mu / 2 - 1 / mu) - math.e * ndtr(-mu / 2 - 1 / mu)
    assert math.isclose(delta, 1e-5 * (0.9 if classes is None else 1.0), rel_tol=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"radius": -1.0}, "radius"),
        ({"shares": (0.1, 0.2, 0.3)}, "shares"),
        ({"shares": (0.1, 0.2, 0.3, float("nan"))}, "shares"),
        ({"shares": (0.1, 0.0, 0.3, 0.3)}, "shares"),
        ({"shares": "abcd"}, "shares"),
        ({"shares": (1e-320, 0.1, 0.3, 0.3)}, "millionth"),
        ({"radius": 1e-310}, "radius"),
        ({"radius": 1e300}, "radius"),
        ({"neighbours": ["replace"]}, "neighbours"),
        ({"classes": [0, 1, 2, float("nan")]}, "classes must be"),
        ({"classes": [0, 1, 2, None]}, "classes must be"),
        ({"classes": []}, "classes must be"),
        ({"classes": [[0, 1, 2]]}, "classes must be"),
        ({"centre": ["a", "b", "c"]}, "centre"),
        ({"centre": [1e300, 0.0, 0.0]}, "unit ball"),
        ({"centre": [0.9, 0.9, 0.0]}, "unit ball"),
        ({"neighbours": "friends"}, "neighbours"),
        ({"neighbours": "replace", "classes": None}, "needs classes"),
        ({"centre": "mean"}, "centre"),
        ({"centre": [1.0, 2.0]}, "centre"),
        ({"centre": [1.0, 2.0, float("nan")]}, "centre"),
        ({"classes": [0, 1]}, "labels that are not among"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_invalid_parameters_are_refused_in_one_line(given: dict, message: str) -> None:
    X, y = cloud()
    with pytest.raises(InvalidInputError, match=message) as caught:
        PrivateMoments(**{"classes": range(3), **given}).fit(X, y)
    assert "\n" not in str(caught.value)
