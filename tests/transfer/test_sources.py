"""Several sources: each counts by how near it is, a hostile one hardly at all, and each keeps its promise."""

import numpy as np
import pytest

from onefold import io
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy import OptimalNoise, PrivateMoments
from onefold.transfer import PrivateSource, TransferClassifier
from onefold.transfer._files import CLASSIFIER
from onefold._base.archive import archive_bytes, read_archive
from onefold.transfer._shrinkage import Prior, combined
from reference.domains import blobs, hide

CLASSES = range(6)


def domain(rng, n_rows, move=0.0):
    X, y = blobs(rng, n_rows, 6, 12, 0.55)
    return X + move, y


def source_of(X, y, epsilon=8.0, radius=4.0):
    return PrivateSource.fit(
        X, y, PrivateMoments(epsilon, classes=CLASSES, radius=radius), random_state=0
    )


def test_combined_sources_are_the_literal_weighted_mean() -> None:
    """One direction, one labelled row of each of two classes at 0 and 10, sources off by 1 and by 3."""
    near = Prior(np.array([[1.0], [11.0]]), np.eye(1), np.zeros(1))
    far = Prior(np.array([[3.0], [13.0]]), 4.0 * np.eye(1), np.zeros(1))
    coordinates, codes = np.array([[0.0], [10.0], [5.0]]), np.array([0, 1, -1])
    found = combined([near, far], coordinates, codes)
    # Distances in units of the mean covariance, 2.5, minus the variance of a mean of one row.
    t = np.maximum([1.0 / 2.5 - 1.0, 9.0 / 2.5 - 1.0], 0.02)
    weights = (1.0 / t) / (1.0 / t).sum()
    np.testing.assert_allclose(found.means, weights[0] * near.means + weights[1] * far.means, rtol=1e-12)
    np.testing.assert_allclose(found.within, [[weights[0] + 4.0 * weights[1]]], rtol=1e-12)
    assert combined([near], coordinates, codes) is near


def test_two_sources_help_more_than_either(rng) -> None:
    """Each of two small, noisy sources knows half of what both know."""
    both, single = [], []
    for seed in range(3):
        sources = [source_of(*domain(rng, 500), epsilon=1.5) for _ in range(3)]
        X, y = domain(rng, 240)
        queries, truth = domain(rng, 1500)
        seen = hide(y, 1)
        model = TransferClassifier(sources=sources, random_state=seed).fit(X, seen)
        both.append(model.score(queries, truth))
        single += [TransferClassifier(each, random_state=seed).fit(X, seen).score(queries, truth) for each in sources]
    print(np.mean(both), np.mean(single))
    assert np.mean(both) > np.mean(single) + 0.01


@pytest.mark.parametrize("kind", ["random labels", "noise", "turned labels"])
@pytest.mark.parametrize("per_class", [3, 10])
def test_hostile_second_source_hardly_lowers_accuracy(kind, per_class, rng) -> None:
    good = source_of(*domain(rng, 3000))
    X, y = domain(rng, 3000)
    labels = {"random labels": rng.permutation(y), "noise": y, "turned labels": (y + 1) % 6}[kind]
    bad = source_of(rng.normal(size=X.shape) if kind == "noise" else X, labels)
    X, y = domain(rng, 240)
    queries, truth = domain(rng, 1500)
    seen = hide(y, per_class)
    with_both = TransferClassifier(sources=[good, bad]).fit(X, seen)
    with_good = TransferClassifier(good).fit(X, seen)
    print(kind, per_class, with_both.score(queries, truth), with_good.score(queries, truth), with_both.weights_)
    assert with_both.score(queries, truth) > with_good.score(queries, truth) - 0.03
    assert with_both.weights_["source 2"] < 0.1
