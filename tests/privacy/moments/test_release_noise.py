"""The noise on released moments: scale, independence, the hardened grid."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2
from tests.tiers import later

from onefold.exceptions import InvalidInputError
from onefold.privacy import calibration
from onefold.privacy.moments import PrivateMoments
from onefold.privacy.moments._release import DIGITS, SENSITIVITIES, Noise, class_sums
from onefold.privacy.samplers import SAMPLERS
from reference.clouds import cloud

RELATIONS = ("add-remove", "replace")


def accepts(values, sigma):
    """Does a chi-square test at level 1e-6 believe in this standard deviation and a mean of zero?"""
    values = np.ravel(values)
    quantile = chi2.cdf(np.sum(values**2) / sigma**2, len(values))
    mean = abs(values.mean()) * math.sqrt(len(values)) / sigma
    return 5e-7 < quantile < 1 - 5e-7 and mean < 5


def noise_of(epsilon, sampler, relation, n_releases=200, p=5):
    """What a release adds to each block, from releases of one dataset."""
    X, y = cloud(60, p, 3, seed=4)
    given = {"classes": range(3), "centre": "private", "neighbours": relation}
    parts = {name: [] for name in ("centre", "counts", "sums", "diagonal", "above")}
    upper = np.triu_indices(p, 1)
    for seed in range(n_releases):
        model = PrivateMoments(epsilon, 1e-5, sampler=sampler, random_state=seed, **given).fit(X, y)
        # The same records about the centre that this release found.
        rows = Noise.of(0, sampler).firsts(model.embed(X))
        totals, seconds = class_sums(rows, rows, y.astype(np.intp), 3)
        plain = np.bincount(y)
        parts["counts"].append(model.counts_ - plain)
        parts["sums"].append(model.sums_ - totals)
        extra = model.second_moments_ - seconds
        np.testing.assert_array_equal(extra, extra.transpose(0, 2, 1))
        parts["diagonal"].append(np.diagonal(extra, axis1=1, axis2=2))
        parts["above"].append(extra[:, *upper])
    return {name: np.array(part) for name, part in parts.items() if name != "centre"}


@pytest.mark.parametrize(
    ("epsilon", "sampler", "relation"),
    later(
        product((0.5, 4.0), SAMPLERS, RELATIONS),
        [(0.5, "hardened", "add-remove"), (4.0, "hardened", "replace"), (0.5, "float", "replace")],
    ),
)
def test_the_noise_has_the_right_scale(epsilon: float, sampler: str, relation: str) -> None:
    mu = calibration.mu_of(epsilon, 1e-5)
    size, _, total, second = SENSITIVITIES[relation][1], None, *SENSITIVITIES[relation][2:4]
    right = {
        "counts": size / (mu * math.sqrt(0.02 / 1.05)),
        "sums": total / (mu * math.sqrt(0.28 / 1.05)),
        "diagonal": second / (mu * math.sqrt(0.70 / 1.05)),
        "above": second / (mu * math.sqrt(0.70 / 1.05) * math.sqrt(2.0)),
    }
    for name, values in noise_of(epsilon, sampler, relation).items():
        assert accepts(values, right[name]), name
        assert not accepts(values, right[name] * 2 / 3), name
        assert not accepts(values, right[name] * 3 / 2), name


def test_the_noise_of_the_centre_has_the_right_scale() -> None:
    # Records of zeros: the centre is noise over the noisy number of records, and that number is released.
    sigma = 1.0 / (calibration.mu_of(1.0, 1e-5) * math.sqrt(0.05 / 1.05))
    values = []
    for seed in range(100):
        model = PrivateMoments(1.0, 1e-5, classes=[0], random_state=seed).fit(
            np.zeros((5000, 6)), np.zeros(5000)
        )
        values.append(model.centre_ * model.counts_[0])
    assert accepts(values, sigma)
    assert not accepts(values, sigma * 2 / 3)
    assert not accepts(values, sigma * 3 / 2)


def test_entries_of_the_noise_are_independent() -> None:
    noise = Noise.of(5, False).to_matrices(np.zeros((20_000, 3, 3)), 1.0)
    vectors = noise[:, *np.triu_indices(3)]
    expected = np.diag([1.0, 0.5, 0.5, 1.0, 0.5, 1.0])
    np.testing.assert_allclose(np.cov(vectors.T), expected, atol=0.04)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_two_numbers_share_their_noise(sampler: str) -> None:
    # Records of zeros: all that is released is noise. Shared noise would cancel in a difference.
    y = np.repeat(np.arange(4), 50)
    model = PrivateMoments(1.0, classes=range(4), centre=None, sampler=sampler, random_state=0)
    model.fit(np.zeros((200, 6)), y)
    upper = model.second_moments_[:, *np.triu_indices(6)]
    released = np.concatenate([model.sums_.ravel(), upper.ravel()])
    assert len(np.unique(released)) == len(released)
    assert len(np.unique(model.counts_)) == 4


def test_without_a_seed_no_two_releases_are_alike() -> None:
    X, y = cloud()
    for sampler in SAMPLERS:
        releases = [PrivateMoments(1.0, classes=range(3), sampler=sampler).fit(X, y) for _ in range(2)]
        assert not np.any(releases[0].sums_ == releases[1].sums_)


@pytest.mark.exact
def test_a_hardened_release_lies_on_its_grid_and_is_exact() -> None:
    X, y = cloud(2000, 4)
    model = PrivateMoments(1.0, classes=range(3), random_state=0).fit(X, y)
    for values, digits in ((model.counts_, 0), (model.sums_, DIGITS), (model.second_moments_, 2 * DIGITS)):
        steps = np.ldexp(values, digits)
        np.testing.assert_array_equal(steps, np.round(steps))
    # Sums of records on the grid do not depend on their order: no rounding happened.
    rows = Noise.of(0, "hardened").firsts(model.embed(X))
    assert np.all(np.linalg.norm(rows, axis=1) <= np.linalg.norm(model.embed(X), axis=1))
    assert np.abs(rows - model.embed(X)).max() < 2.0**-DIGITS
    forwards, backwards = class_sums(rows, rows, y, 3), class_sums(rows[::-1], rows[::-1], y[::-1], 3)
    for one, other in zip(forwards, backwards, strict=True):
        np.testing.assert_array_equal(one, other)


def test_noise_that_float64_would_round_is_refused() -> None:
    X, y = np.eye(2), [0, 1]
    PrivateMoments(1e-6, 1e-5, classes=[0, 1]).fit(X, y)
    with pytest.raises(InvalidInputError, match="too small for the hardened sampler"):
        PrivateMoments(1e-6, 1e-12, classes=[0, 1]).fit(X, y)
