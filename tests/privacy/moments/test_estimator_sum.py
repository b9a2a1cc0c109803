"""Moments of several owners, added up."""

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.privacy.moments import PrivateMoments
from reference.clouds import cloud


def test_moments_and_variances_add_up() -> None:
    X, y = cloud(900)
    centre = np.array([0.2, 0.2, 0.1])
    parts = [slice(0, 300), slice(300, 900)]
    given = {"classes": range(3), "centre": centre}
    a, b = (
        PrivateMoments(1.0 + k, random_state=k, **given).fit(X[part], y[part]) for k, part in enumerate(parts)
    )
    before = a.sums_.copy()
    both = a.add(b)
    np.testing.assert_array_equal(a.sums_, before)
    np.testing.assert_allclose(both.counts_, a.counts_ + b.counts_)
    np.testing.assert_allclose(both.sums_, a.sums_ + b.sums_)
    np.testing.assert_allclose(both.second_moments_, a.second_moments_ + b.second_moments_)
    np.testing.assert_allclose(both.second_noise_**2, a.second_noise_**2 + b.second_noise_**2)
    assert both.guarantee_.record == (2.0, 1e-5)  # the weaker promise
    assert both.guarantee_.n_owners == 2
    assert "each of 2 sites" in str(both.guarantee_)
    exact = [PrivateMoments(None, **given).fit(X[part], y[part]) for part in (*parts, slice(None))]
    np.testing.assert_allclose(exact[0].add(exact[1]).second_moments_, exact[2].second_moments_)


def test_sites_may_have_different_classes() -> None:
    X, y = cloud(900)
    exact = PrivateMoments(None, centre=None).fit(X, y)
    parts = [PrivateMoments(None, centre=None).fit(X[keep], y[keep]) for keep in (y < 2, y == 2)]
    both = parts[0].add(parts[1])
    np.testing.assert_array_equal(both.classes_, [0, 1, 2])
    np.testing.assert_allclose(both.sums_, exact.sums_)


def test_records_leave_whole_steps_only() -> None:
    X, y = cloud()
    whole, part, rest = (
        PrivateMoments(None, centre=None).fit(X[rows], y[rows])
        for rows in (slice(None), slice(100), slice(100, None))
    )
    np.testing.assert_array_equal(whole.without(part).vector, rest.vector)
    floats = PrivateMoments(None, centre=None, sampler="float").fit(X[:100], y[:100])
    with pytest.raises(InvalidInputError, match="no whole steps"):
        whole.without(floats)
    with pytest.raises(InvalidInputError, match="no whole steps"):
        _ = floats.vector


def test_releases_about_different_things_are_not_added() -> None:
    X, y = cloud()
    plain = PrivateMoments(None, centre=None).fit(X, y)
    others = {
        "different centres": PrivateMoments(None).fit(X, y),
        "different features": PrivateMoments(None, centre=None).fit(X[:, :2], y),
        "radii": PrivateMoments(None, centre=None, radius=2.0).fit(X, y),
        "neighbouring relations": PrivateMoments(
            1.0, centre=None, classes=range(3), neighbours="replace"
        ).fit(X, y),
    }
    for message, other in others.items():
        with pytest.raises(InvalidInputError, match=message):
            plain.add(other)
