"""FisherGaussian: the covariance, information and bounds of 002 Thm 2.4, and a guarantee that is true."""

import math

import numpy as np
import pandas as pd
import pytest
from tests.tiers import thinned

from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy import Ball, Box, Event, FisherGaussian, domains
from reference import mechanisms as exact
from reference import release as literal

FULL = np.array([[4.0, 1.0], [1.0, 2.0]])
WEIGHTS = [None, [4.0, 0.25], FULL]


def fisher(lam: object, Pi: object = None, **options) -> FisherGaussian:
    """The noise in exact arithmetic, for changes of one unless told otherwise."""
    return FisherGaussian(lam, Pi, **{"sensitivity": 1.0, "sampler": "float", **options})


def covariance_of(Pi: object, lam: float) -> np.ndarray:
    """Pi^(-1/2) / sqrt(lam), by way of eigenvalues."""
    matrix = np.eye(2) if Pi is None else np.diag(Pi) if np.ndim(Pi) == 1 else np.asarray(Pi)
    values, vectors = np.linalg.eigh(matrix)
    return (vectors / np.sqrt(values)) @ vectors.T / math.sqrt(lam)


def far_from(sample: np.ndarray, expected: np.ndarray) -> float:
    """Largest deviation of the sample covariance, in standard errors."""
    n = len(sample)
    errors = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / n)
    return float(np.max(np.abs(sample.T @ sample / n - expected) / errors))


@pytest.mark.parametrize(("sampler", "Pi", "lam"), thinned(["float", "hardened"], WEIGHTS, [1e-4, 1.0, 50.0]))
def test_the_covariance_is_that_of_the_theorem_and_no_other(Pi: object, lam: float, sampler: str) -> None:
    if sampler == "hardened" and Pi is FULL:
        pytest.skip("hardened noise has independent columns")
    sample = fisher(lam, Pi, sampler=sampler).sample((40000, 2), random_state=1)
    expected = covariance_of(Pi, lam)
    assert far_from(sample, expected) < 4.5
    # planted errors: a root of lam lost, another power of Pi, 2/3 and 3/2 of the scale
    for factor in (4 / 9, 9 / 4):
        assert far_from(sample, factor * expected) > 10
    if lam != 1.0:
        assert far_from(sample, expected / math.sqrt(lam)) > 10
    if Pi is not None:
        for power in (-1.0, -0.25, 0.5):
            values, vectors = np.linalg.eigh(np.diag(Pi) if np.ndim(Pi) == 1 else Pi)
            assert far_from(sample, (vectors * values**power) @ vectors.T / math.sqrt(lam)) > 10


@pytest.mark.parametrize("Pi", WEIGHTS)
def test_the_information_by_quadrature(Pi: object) -> None:
    """002 eq. 5 integrated from the literal density of eq. 9."""
    lam = 0.3
    matrix = np.eye(2) if Pi is None else np.diag(Pi) if np.ndim(Pi) == 1 else Pi
    noise = fisher(lam, Pi)
    reach = tuple(6.5 * noise.standard_errors(2))
    found = literal.fisher_information_2d(lambda n: literal.gaussian_density(n, lam, matrix), reach, 41)
    assert found == pytest.approx(noise.fisher_information(2), rel=1e-4, abs=1e-6)
    assert noise.fisher_information(2) @ noise.covariance(2) == pytest.approx(np.eye(2), abs=1e-12)
    bound = np.trace(matrix @ np.linalg.inv(found))  # the first bound of 002 eq. 4
    assert noise.estimation_bound(2) == pytest.approx(bound, rel=1e-4)
    assert noise.standard_errors(2) ** 2 == pytest.approx(np.diag(np.linalg.inv(found)), rel=1e-4)


@pytest.mark.parametrize("lam, bound", [(1e-4, 200.0), (1e-2, 20.0), (1.0, 2.0)])
def test_the_bounds_of_the_toy_example(lam: float, bound: float) -> None:
    assert fisher(lam).estimation_bound(2) == pytest.approx(bound)


@pytest.mark.parametrize(("Pi", "lam", "width"), thinned(WEIGHTS, [1e-3, 1.0], [1.0, 0.2]))
def test_epsilon_is_exact_for_the_worst_pair_of_records(Pi: object, lam: float, width: float) -> None:
    """The largest distance over the corners of the box, in the metric of the covariance."""
    noise = fisher(lam, Pi, sensitivity=width)
    precision = np.linalg.inv(covariance_of(Pi, lam))
    corners = width * np.array([[a, b] for a in (-1, 1) for b in (-1, 1)])
    mu = max(math.sqrt(d @ precision @ d) for d in corners)
    assert noise.mu(2) == pytest.approx(mu)
    epsilon, delta = noise.guarantee(2).record
    assert exact.gaussian_delta(epsilon, 1.0, mu) == pytest.approx(delta, rel=1e-6)
    entry = max(width * math.sqrt(precision[j, j]) for j in range(2))
    assert exact.gaussian_delta(noise.guarantee(2).entry[0], 1.0, entry) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("Pi", [[4.0, 0.25], FULL], ids=["diagonal", "full"])
def test_the_cell_that_can_move_farthest_bounds_an_entry(Pi: object) -> None:
    """Columns of unlike width: in the metric of the noise neither the first nor the last decides."""
    for widths in ([0.5, 3.0], [3.0, 0.5]):
        noise = fisher(1.0, Pi, sensitivity=Box([0.0, 0.0], widths))
        precision = np.linalg.inv(covariance_of(Pi, 1.0))
        farthest = max(width * math.sqrt(precision[j, j]) for j, width in enumerate(widths))
        epsilon, delta = noise.guarantee(2).entry
        assert exact.gaussian_delta(epsilon, 1.0, farthest) == pytest.approx(delta, rel=1e-6)


def test_an_entry_never_loses_more_than_its_record() -> None:
    """With one column the two are the same, whichever way they are rounded."""
    rng = np.random.default_rng(0)
    for lam, weight, width in rng.lognormal(size=(50, 3)):
        found = fisher(lam, [weight], sensitivity=width)
        assert (
            found.accounting("entry", 1)["noise_multiplier"]
            >= found.accounting("record", 1)["noise_multiplier"]
        )


def test_the_documents_epsilon_is_shown_and_not_counted() -> None:
    """002 Thm 2.5: loose for strong noise, false for weak noise."""
    noise = fisher(1.0)
    assert noise.documented_epsilon(1) == pytest.approx(5.80, abs=0.01)
    assert noise.guarantee(1).record[0] == pytest.approx(4.38, abs=0.01)
    assert noise.mu(30) == pytest.approx(5.48, abs=0.01)
    assert noise.documented_epsilon(30) == pytest.approx(31.8, abs=0.05)
    assert noise.guarantee(30).record[0] == pytest.approx(37.6, abs=0.05)
    assert exact.gaussian_delta(noise.documented_epsilon(30), 1.0, noise.mu(30)) > 10 * noise.delta


def test_many_dependent_columns_are_bounded_from_above() -> None:
    rng = np.random.default_rng(2)
    root = rng.normal(size=(20, 20))
    Pi = root @ root.T + 0.1 * np.eye(20)
    noise = fisher(1.0, Pi)
    fourth = noise.weights.matrix(0.25, 20)
    corners = rng.choice([-1.0, 1.0], size=(20000, 20))
    found = np.linalg.norm(corners @ fourth, axis=1).max()
    assert found <= noise.mu(20) <= 1.2 * found  # by the largest eigenvalue; the sum of entries is 1.34
    one_heavy = np.diag([400.0] + [1.0] * 19) + 1e-3
    assert fisher(1.0, one_heavy).mu(20) == pytest.approx(math.sqrt(20 + 19), rel=0.01)  # by the sum


@pytest.mark.parametrize("sampler", ["float", "hardened"])
def test_from_epsilon_and_from_error(sampler: str) -> None:
    for epsilon in (0.1, 1.0, 20.0):
        noise = FisherGaussian.from_epsilon(epsilon, 5, delta=1e-6, sensitivity=3.0, sampler=sampler)
        assert epsilon * (1 - 1e-4) < noise.guarantee(5).record[0] <= epsilon * (1 + 1e-9)
    noise = FisherGaussian.from_error(12.5, 1, 2, [1.0, 5.0], sensitivity=1.0, sampler=sampler)
    assert noise.standard_errors(2)[1] == pytest.approx(12.5)
    with pytest.raises(InvalidInputError, match="column must be a whole number from 0 to 1"):
        FisherGaussian.from_error(1.0, 2, 2, sensitivity=1.0)


def test_clipping_and_reach_follow_the_declared_domain() -> None:
    box = Box([0, 0], [1, 10])
    noise = fisher(1.0, sensitivity=box)
    assert noise.mu(2) == pytest.approx(math.sqrt(101))
    weighted = fisher(1.0, [1.0, 1e-4], sensitivity=box)
    assert weighted.mu(2) == pytest.approx(math.sqrt(2))
    clipped = fisher(1e12, sensitivity=box).randomise([[-5.0, 50.0]], random_state=0)
    assert clipped == pytest.approx(np.array([[0, 10]]), abs=0.1)
    assert fisher(1.0, sensitivity=Ball(1.0)).mu(7) == pytest.approx(2.0)
    with pytest.raises(InvalidInputError, match="Box"):
        fisher(1.0, [1.0, 2.0], sensitivity=Ball(1.0))
    with pytest.raises(InvalidInputError, match="features"):
        fisher(1.0, [1.0, 2.0, 3.0], sensitivity=box)
    with pytest.warns(PrivacyLeakWarning):
        inferred = domains.from_data([[0.0, 1.0], [1.0, 3.0]])
    assert not fisher(1.0, sensitivity=inferred).guarantee(2).holds


def test_the_text_names_the_unit_and_the_gaps() -> None:
    text = str(fisher(1e-2).guarantee(2))
    assert "per record" in text
    assert text.count("under the conditions below: epsilon") == 2  # on the line of an entry and of a record
    assert "Provided that no entry of a record changes by more than 1, which nothing checks." in text
    assert "Labels and class sizes: NOT covered." in text


@pytest.mark.parametrize("sampler", ["float", "hardened"])
def test_randomise_keeps_containers_and_precision(sampler: str) -> None:
    noise = fisher(1.0, [1.0, 16.0], sampler=sampler)
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 0.25, 0.125]}, index=[7, 8, 9])
    noisy = noise.randomise(frame, random_state=0)
    assert list(noisy.columns) == ["a", "b"]
    assert list(noisy.index) == [0, 1, 2]
    assert not np.any(noisy.to_numpy() == frame.to_numpy())
    assert noise.randomise(frame.to_numpy(np.float32), random_state=0).dtype == np.float32
    assert noise.sample(5, random_state=0).shape == (5, 2)
    assert not np.array_equal(noise.sample((4, 2)), noise.sample((4, 2)))  # no seed: fresh entropy
    again = noise.randomise(frame.to_numpy(), random_state=3)
    assert np.array_equal(again, noise.randomise(frame.to_numpy(), random_state=3))


def test_hardened_noise_lies_on_its_grid_and_pays_for_it() -> None:
    noise, plain = fisher(1.0, sampler="hardened"), fisher(1.0)
    sample = noise.sample((2000, 3), random_state=0)
    assert np.array_equal(sample, np.round(sample * 2.0**21) / 2.0**21)
    assert plain.mu(3) < noise.mu(3) < plain.mu(3) * (1 + 1e-5)


@pytest.mark.parametrize("lam", [0, -1, np.nan, np.inf, "1", None, True])
def test_invalid_lam_is_refused(lam: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^lam must[^\n]*$"):
        fisher(lam)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "Pi",
    [
        [1.0, 0.0],
        [1.0, np.nan],
        [[1.0, 2.0], [3.0, 1.0]],
        np.zeros((2, 2)),
        np.ones((2, 2)),
        "x",
        3.0,
        [],
        np.ones((2, 3)),
    ],
)
def test_invalid_weights_are_refused(Pi: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^Pi must[^\n]*$"):
        fisher(1.0, Pi)  # type: ignore[arg-type]


def test_other_invalid_input_is_refused() -> None:
    noise = fisher(1.0, [1.0, 2.0])
    for bad in ([1.0, 2.0], [[1.0, 2.0, 3.0]], [[np.nan, 1.0]], [["a", "b"]], np.zeros((3, 0))):
        with pytest.raises(InvalidInputError) as caught:
            noise.randomise(bad)
        assert "\n" not in str(caught.value)
    with pytest.raises(InvalidInputError, match="rescale"):
        noise.randomise([[1e20, 0.0]])
    with pytest.raises(InvalidInputError, match="2 columns"):
        noise.guarantee(3)
    with pytest.raises(InvalidInputError, match="diagonal"):
        fisher(1.0, FULL, sampler="hardened")


def test_ledger_counts_fisher_gaussian_noise() -> None:
    noise = fisher(1.0, sampler="hardened")
    event = Event.of(noise, n_features=30)
    assert event.epsilon == pytest.approx(noise.guarantee(30).record[0])
    assert event.noise_multiplier == pytest.approx(1 / math.sqrt(30), rel=1e-5)
    assert Event.of(noise, 30, unit="entry").noise_multiplier == pytest.approx(1.0, rel=1e-5)
