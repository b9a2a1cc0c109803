"""The three releases: what they add, what they keep, and what they say about it."""

import copy
import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from tests.tiers import examples

from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy import BoundedFisherNoise, Box, FisherGaussian
from onefold.release import (
    Release,
    RobustSVM,
    noise_bounds,
    release_bounded,
    release_iid,
    release_utility_preserving,
    weights_for,
)
from reference import release as literal

keeps = pytest.mark.filterwarnings("ignore::onefold.exceptions.PrivacyLeakWarning")


def toy(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """002 Sec. 3.1."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(50, 2)), rng.normal((0, 5), size=(50, 2))])
    return X, np.repeat([1, -1], 50)


# --- free noise -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["hardened", "float"])
@pytest.mark.parametrize("lam, bound", [(1e-4, 200.0), (1e-2, 20.0), (1.0, 2.0)])
def test_release_iid_adds_noise_of_the_documented_bound(lam: float, bound: float, sampler: str) -> None:
    X, _ = toy()
    released = release_iid(X, lam, random_state=0, sensitivity=1.0, sampler=sampler)
    assert released.bound == pytest.approx(bound)
    assert released.shape == X.shape
    noise = np.asarray(released) - X
    assert np.mean(np.sum(noise**2, axis=1)) == pytest.approx(bound, rel=0.4)
    same = FisherGaussian(lam, sensitivity=1.0, sampler=sampler)
    assert np.array_equal(released, same.randomise(X, random_state=0))


def test_release_is_used_like_its_rows() -> None:
    X, y = toy()
    released = release_iid(X, 1.0, random_state=0, sensitivity=1.0)
    assert isinstance(released, Release)
    assert (released - X).shape == X.shape
    assert np.mean(released, axis=0).shape == (2,)
    assert released.std() == np.asarray(released).std()
    assert len(released) == 100
    assert released[3].shape == (2,)
    assert RobustSVM().fit(released, y).score(X, y) > 0.9
    assert LogisticRegression().fit(released, y).score(X, y) > 0.9
    assert np.array_equal(copy.deepcopy(released), released)
    with pytest.raises(AttributeError):
        released.nonsense  # noqa: B018
    frame = release_iid(pd.DataFrame(X, columns=["age", "income"]), 1.0, random_state=0, sensitivity=1.0)
    assert list(frame.columns) == ["age", "income"]
    assert np.array_equal(frame, released)


def test_text_of_a_release_gives_errors_in_units() -> None:
    frame = pd.DataFrame(toy()[0], columns=["age", "income"])
    text = str(release_iid(frame, 1.0, [1.0, 1e-8], sensitivity=2.0))
    assert "at least ± 1 for age" in text
    assert "at least ± 100 for income" in text
    assert "without other knowledge" in text
    assert "per record" in text
    assert "NOT covered" in text
    assert "± 1 in every column" in str(release_iid(toy()[0], 1.0, sensitivity=1.0))


def test_two_releases_without_a_seed_differ() -> None:
    X, _ = toy()
    one, two = (release_iid(X, 1.0, sensitivity=1.0) for _ in range(2))
    assert not np.any(np.asarray(one) == two)
    one, two = (release_bounded(X, 1.0, (-1, 1), sensitivity=1.0) for _ in range(2))
    assert np.mean(np.asarray(one) == two) < 0.05


# --- noise within bounds ----------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**31),
    low=st.floats(-50, -1e-3),
    high=st.floats(1e-3, 50),
    lam=st.sampled_from([1e-6, 1e-3, 1.0, 1e3]),
)
@settings(max_examples=examples(5, 12), deadline=None)
def test_release_bounded_never_leaves_its_bounds(seed: int, low: float, high: float, lam: float) -> None:
    X = np.random.default_rng(seed).uniform(-low, 100, size=(200, 2))
    released = release_bounded(X, lam, (low, high), random_state=seed, sensitivity=Box(0, 100))
    assert np.min(released) >= 0  # the smallest value is -low: an age stays positive
    assert np.all(np.asarray(released) - X >= low - 1e-12)
    assert np.all(np.asarray(released) - X <= high + 1e-12)


def test_release_bounded_has_the_bound_of_its_noise() -> None:
    X, _ = toy()
    options = {"random_state": 0, "sensitivity": 1.0}
    released = release_bounded(X, 1e-2, (-1e6, 1e6), Pi=[4.0, 0.25], **options)
    assert released.bound == pytest.approx((2 + 0.5) / 0.1, rel=1e-6)
    narrow = release_bounded(X, 1e-2, (-0.5, 0.5), **options)
    assert narrow.guarantee.record[0] == math.inf
    assert np.all(narrow.standard_errors < 0.5)


# --- noise that keeps the classifier ----------------------------------------------------------------------


@keeps
@pytest.mark.parametrize("m", [1.0, 100.0, 1e4])
def test_utility_preserving_release_keeps_the_machine(m: float) -> None:
    X, y = toy()
    svm = RobustSVM().fit(X, y)
    released = release_utility_preserving(X, y, svm, m, random_state=1)
    assert np.abs(released - X).max() > math.sqrt(m)
    again = RobustSVM().fit(released, y)
    assert again.coef_ == pytest.approx(svm.coef_, abs=1e-6)
    assert again.intercept_ == pytest.approx(svm.intercept_, abs=1e-6)
    assert again.xi_ == pytest.approx(svm.xi_, abs=1e-6)
    free = release_iid(X, 1 / m**2, random_state=1, sensitivity=1.0)
    other = RobustSVM().fit(free, y)  # as much noise, not projected
    assert np.abs(other.coef_ - svm.coef_).max() > 1e-2


@keeps
def test_utility_preserving_release_keeps_the_machine_of_wisconsin() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    svm = RobustSVM(rho=1e-2, theta=1.0).fit(X, y)
    released = release_utility_preserving(X, y, svm, 100.0, random_state=0)
    assert released.bound == pytest.approx(2841.27, abs=0.01)
    again = RobustSVM(rho=1e-2, theta=1.0).fit(released, y)
    assert again.coef_ == pytest.approx(svm.coef_, abs=1e-6)
    assert again.intercept_ == pytest.approx(svm.intercept_, abs=1e-6)


@keeps
@given(
    seed=st.integers(0, 10**6), p=st.integers(2, 12), q=st.integers(4, 60), m=st.sampled_from([0.1, 100.0])
)
@settings(max_examples=30, deadline=None)
def test_utility_preserving_noise_is_orthogonal_to_the_hyperplane_and_balanced(
    seed: int, p: int, q: int, m: float
) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(q, p)), np.arange(q) % 2
    svm = RobustSVM().fit(X, y)
    noise = release_utility_preserving(X, y, svm, m, random_state=seed) - X
    weights = svm.omega_ * np.where(y == 1, 1, -1)
    assert np.abs(noise @ svm.coef_[0]).max() < 1e-10
    assert np.abs(weights @ noise).max() < 1e-10


@keeps
@pytest.mark.merge
def test_utility_preserving_noise_has_the_covariance_of_the_null_space() -> None:
    """m Psi Psi' of Thm 2.10, estimated from many draws; and the bound is its smallest block."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(5, 3)), np.array([-1, 1, 1, -1, 1])
    svm = RobustSVM(rho=0.5).fit(X, y)
    m = 2.0
    basis = literal.correlated_noise_basis(X, y, svm.coef_[0], svm.omega_)
    draws = np.array(
        [(release_utility_preserving(X, y, svm, m, random_state=k) - X).ravel() for k in range(4000)]
    )
    expected = m * basis @ basis.T
    assert np.cov(draws.T) == pytest.approx(expected, abs=0.25)
    assert draws @ (np.eye(15) - basis @ basis.T) == pytest.approx(np.zeros((4000, 15)), abs=1e-12)
    for wrong in (m**2, math.sqrt(m)):  # a lost or a doubled square root is seen
        assert np.abs(np.cov(draws.T) - wrong / m * expected).max() > 0.3
    bound = literal.correlated_bound(X, y, svm.coef_[0], svm.omega_, m)
    released = release_utility_preserving(X, y, svm, m)
    assert released.bound == pytest.approx(bound)
    blocks = np.diag(expected).reshape(5, 3)
    assert released.standard_errors**2 == pytest.approx(blocks[np.argmin(blocks.sum(axis=1))])


def test_utility_preserving_release_says_that_it_is_not_private() -> None:
    X, y = toy()
    svm = RobustSVM().fit(X, y)
    with pytest.warns(PrivacyLeakWarning, match="NOT differentially private"):
        released = release_utility_preserving(X, y, svm, 100.0)
    assert released.guarantee.record == (math.inf, 1.0)
    assert not released.guarantee.holds
    text = str(released)
    assert "NO differential privacy" in text
    assert "Revealed: the decision value" in text
    assert "no bound on epsilon per record" in text
    decision = svm.decision_function(X)
    assert svm.decision_function(released) == pytest.approx(decision, abs=1e-9)  # it is what it says


@keeps
def test_utility_preserving_release_of_float32_and_frames_keeps_the_machine() -> None:
    X, y = toy()
    frame = pd.DataFrame(X, columns=["a", "b"], index=range(100, 200))
    svm = RobustSVM().fit(frame, y)
    released = release_utility_preserving(frame, y, svm, 100.0, random_state=0)
    assert list(released.X.index) == list(range(100))
    assert RobustSVM().fit(released.X, y).coef_ == pytest.approx(svm.coef_, abs=1e-6)
    single = X.astype(np.float32)
    svm = RobustSVM().fit(single, y)
    released = release_utility_preserving(single, y, svm, 100.0, random_state=0)
    assert released.dtype == np.float64
    assert RobustSVM().fit(released, y).coef_ == pytest.approx(svm.coef_, abs=1e-6)


def test_utility_preserving_release_refuses_a_machine_of_other_rows() -> None:
    X, y = toy()
    svm = RobustSVM().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bad_X, bad_y, machine, m in [
            (X + 0.1, y, svm, 1.0),
            (X, -y, svm, 1.0),
            (X[:50], y[:50], svm, 1.0),
            (X, y[:50], svm, 1.0),
            (X, np.full(100, "a"), svm, 1.0),
            (X, y, LogisticRegression().fit(X, y), 1.0),
            (X, y, svm, 0.0),
            (X, y, svm, np.nan),
            (X[:, :1], y, RobustSVM().fit(X[:, :1], y), 1.0),
        ]:
            with pytest.raises(InvalidInputError) as caught:
                release_utility_preserving(bad_X, bad_y, machine, m)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sampler", ["hardened", "float"])
def test_releases_pass_every_option_to_the_noise(sampler: str) -> None:
    X, Pi = toy()[0], [1.0, 4.0]
    options = {"delta": 1e-3, "sensitivity": Box(-10, 10, 2), "sampler": sampler}
    free, bounded = FisherGaussian(1e-6, Pi, **options), BoundedFisherNoise(1e-6, (-900, 900), Pi, **options)
    for made, noise in (
        (release_iid(X, 1e-6, Pi, **options), free),
        (release_bounded(X, 1e-6, (-900, 900), Pi=Pi, **options), bounded),
    ):
        assert made.guarantee.record == noise.guarantee(2).record
        assert made.guarantee.entry == noise.guarantee(2).entry
        assert made.guarantee.record[0] < 10
        assert made.standard_errors.tolist() == noise.standard_errors(2).tolist()
        assert made.guarantee.holds == (sampler == "hardened")
        assert f"{sampler} sampler" in made.guarantee.mechanism
        assert len(made.guarantee.conditions) == 1
        assert "chosen without looking at the rows" in made.guarantee.conditions[0]
        on_a_grid = np.asarray(made) * 2.0**24
        assert np.array_equal(on_a_grid, np.rint(on_a_grid)) == (sampler == "hardened")


def test_guarantee_grows_with_the_sensitivity() -> None:
    X, _ = toy()
    small = release_iid(X, 1e-2, sensitivity=0.5).guarantee.record[0]
    large = release_iid(X, 1e-2, sensitivity=Box(-10, 10, 2)).guarantee.record[0]
    assert small < release_iid(X, 1e-2, sensitivity=1.0).guarantee.record[0] < large


# --- what a guarantee needs -------------------------------------------------------------------------------

RELEASES = {
    "free": lambda X, **options: release_iid(X, 1e-2, **options),
    "bounded": lambda X, **options: release_bounded(X, 1e-2, (-60, 60), **options),
}
releases = pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))


@releases
def test_release_without_a_domain_is_refused(release) -> None:
    """Before, a change of at most 1 was taken for granted, and the guarantee said that it holds."""
    with pytest.raises(InvalidInputError, match=r"^declare what may change: [^\n]*Box"):
        release(toy()[0])


@releases
def test_seed_voids_the_guarantee(release) -> None:
    """Before, a release that anybody could draw again said that its guarantee holds."""
    assert release(toy()[0], sensitivity=Box(0, 1)).guarantee.holds
    for seed in (0, np.random.default_rng(0)):
        seeded = release(toy()[0], sensitivity=Box(0, 1), random_state=seed).guarantee
        assert not seeded.holds
        assert "seed" in seeded.voided_by[0]


@releases
def test_hardened_is_the_default_sampler(release) -> None:
    """Before, the default sampler told 100/255 and 101/255 apart, whatever epsilon said."""
    X, options = toy()[0], {"sensitivity": Box(0, 1)}
    assert "hardened sampler" in release(X, **options).guarantee.mechanism
    assert not release(X, sampler="float", **options).guarantee.holds


@releases
def test_values_outside_the_domain_are_clipped_and_nothing_says_how_many(release) -> None:
    """Before, 1001 was released as 950 with an epsilon of 1 for a change of 1."""
    X = np.full((2000, 2), 0.5)
    far = X.copy()
    far[:, 0] = 1e9
    options = {"sensitivity": Box(0, 1)}
    inside, outside = release(X, **options), release(far, **options)
    assert np.mean(np.asarray(outside)[:, 0]) == pytest.approx(1.0, abs=0.5)
    assert str(inside) == str(outside)
    assert inside.guarantee == outside.guarantee


def test_weights_that_are_not_diagonal_need_the_float_sampler_and_promise_nothing() -> None:
    Pi = [[2.0, 1.0], [1.0, 2.0]]
    with pytest.raises(InvalidInputError, match=r"sampler='float', which promises nothing"):
        release_iid(toy()[0], 1.0, Pi, sensitivity=Box(0, 1, 2))
    assert not release_iid(toy()[0], 1.0, Pi, sensitivity=Box(0, 1, 2), sampler="float").guarantee.holds


@releases
def test_released_frame_has_a_new_index_and_one_type(release) -> None:
    """Before, names in the index were published, and one fraction turned float32 columns into float64."""
    whole = pd.DataFrame(
        {"a": np.array([0.5, 1.0], np.float32), "b": np.array([1, 2], np.int16)}, index=["Ann", "Bob"]
    )
    fraction = whole.assign(b=[1.0, 2.5])
    for frame in (whole, fraction):
        made = release(frame, sensitivity=Box(0, 5))
        assert list(made.X.index) == [0, 1]
        assert list(made.X.columns) == ["a", "b"]
        assert [str(dtype) for dtype in made.X.dtypes] == ["float64", "float64"]
    ages = np.array([[1], [2]], dtype=np.uint8)
    assert release(ages, sensitivity=Box(0, 5)).dtype == np.float64


@releases
def test_persons_keep_so_many_rows_and_the_guarantee_covers_them(release) -> None:
    X, person = np.full((100, 2), 0.5), np.arange(100) // 10
    options = {"sensitivity": Box(0, 1), "person": person}
    made = release(X, rows_per_person=3, **options)
    assert made.shape == (30, 2)
    assert made.guarantee.rows_per_person == 3
    assert made.guarantee.person[0] > made.guarantee.record[0]
    assert made.guarantee.holds
    assert release(X, rows_per_person=1, **options).guarantee.person == made.guarantee.record
    assert release(X, sensitivity=Box(0, 1)).guarantee.person is None
    for bad in (
        {"person": person},
        {"rows_per_person": 3},
        {"person": person[:50], "rows_per_person": 3},
        {"person": [*range(99), np.nan], "rows_per_person": 3},
        {"person": person, "rows_per_person": 0},
    ):
        with pytest.raises(InvalidInputError) as caught:
            release(X, sensitivity=Box(0, 1), **bad)
        assert "\n" not in str(caught.value)


@keeps
def test_noise_that_keeps_the_classifier_comes_from_the_generator_of_the_system(monkeypatch) -> None:
    """Before, numpy's generator drew it."""
    X, y = toy()
    svm = RobustSVM().fit(X, y)

    def refuse(*arguments: object) -> None:
        raise AssertionError("a generator of numpy was asked for noise")

    monkeypatch.setattr(np.random, "default_rng", refuse)
    one, two = (release_utility_preserving(X, y, svm, 1.0) for _ in range(2))
    assert not np.any(np.asarray(one) == two)
    for release in RELEASES.values():
        assert len(release(X, sensitivity=Box(0, 1))) == 100


# --- bounds and weights -----------------------------------------------------------------------------------


def test_noise_bounds_leave_room_beyond_the_declared_range() -> None:
    assert noise_bounds((18, 90), (0, 120)).tolist() == [-18, 30]
    assert noise_bounds([(0, 1), (5, 6)], [(-1, 3), (0, np.inf)]).tolist() == [[-1, 2], [-5, np.inf]]
    assert noise_bounds([(0, 1), (5, 6)], (-1, 10)).tolist() == [[-1, 9], [-6, 4]]
    for declared, allowed in [
        ((0, 1), (0, 1)),
        ((0, 1), (0.5, 2)),
        ((1, 0), (0, 3)),
        ((0, np.inf), (0, np.inf)),
        ((0, np.nan), (0, 1)),
        ([(0, 1)] * 2, [(0, 2)] * 3),
        ("a", (0, 1)),
        ((0, 1, 2), (0, 1, 2)),
    ]:
        with pytest.raises(InvalidInputError):
            noise_bounds(declared, allowed)  # type: ignore[arg-type]


def test_weights_for_give_noise_in_proportion_to_widths() -> None:
    widths = np.array([2.0, 50.0])
    noise = FisherGaussian(1.0, weights_for(widths), sensitivity=1.0)
    assert noise.standard_errors(2) == pytest.approx(widths)
    for bad in ([0.0], [-1.0], [np.nan], [np.inf], [[1.0]]):
        with pytest.raises(InvalidInputError):
            weights_for(bad)


def test_noise_within_narrow_bounds_promises_nothing_and_does_not_hold() -> None:
    """Whoever asks only whether a guarantee holds must not take no epsilon for a promise."""
    released = release_bounded(np.full((4, 2), 0.5), 1e-6, (-0.5, 0.5), sensitivity=Box(0, 1))
    assert released.guarantee.entry[0] == math.inf
    assert not released.guarantee.holds
    assert "this noise has no epsilon" in str(released.guarantee)
