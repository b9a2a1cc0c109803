"""Class means between source and target, against the slow literal version."""

import numpy as np
import pytest

from onefold.transfer.alignment import Prior, fit_shrunk, measure
from reference.shrinkage import distance_of_domains, shrunk, squared_length


def domains(seed, far=1.0, move=0.0, n_rows=40, n_classes=3, size=4, n_labelled=9):
    """A source's prior, rows of a target, their classes, and few labels."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(size, size)) / 2 + np.eye(size)
    means = 2.0 * rng.normal(size=(n_classes, size))
    own = means + np.sqrt(far) * rng.normal(size=means.shape) @ factor.T + move
    truth = np.arange(n_rows) % n_classes
    rows = own[truth] + rng.normal(size=(n_rows, size)) @ factor.T
    codes = np.where(np.arange(n_rows) < n_labelled, truth, -1)
    return Prior(means, factor @ factor.T, rows.mean(axis=0) - means.mean(axis=0)), rows, truth, codes


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize(("far", "move", "n_labelled"), [(0.0, 0.0, 3), (1.0, 5.0, 9), (4.0, 0.0, 2)])
def test_shrunk_means_are_those_of_the_literal_version(refine, far, move, n_labelled) -> None:
    prior, rows, _, codes = domains(1, far, move, n_labelled=n_labelled)
    found = fit_shrunk(rows, codes, prior, refine=refine)
    means, covariance = shrunk(prior.means, prior.within, prior.shift, rows, codes, refine)
    np.testing.assert_allclose(found.means, means, rtol=1e-7, atol=1e-7)
    wanted = [[-0.5 * squared_length(row - mean, covariance) for mean in means] for row in rows[:5]]
    np.testing.assert_allclose(found.scores(rows[:5]), wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("move", [0.0, 5.0])
def test_shift_is_kept_where_labelled_rows_ask_for_it(move) -> None:
    prior, rows, _, codes = domains(2, 0.1, move)
    literal = distance_of_domains(prior.means, prior.shift, rows, codes, prior.within)
    known = codes >= 0
    counts = np.bincount(codes[known], minlength=3).astype(float)
    means = np.stack([rows[codes == code].mean(axis=0) for code in range(3)])
    whitening = np.linalg.inv(np.linalg.cholesky(prior.within)).T
    found = measure(prior, means, counts, whitening)
    assert found.squared == pytest.approx(literal[0], rel=1e-9)
    np.testing.assert_array_equal(found.means, literal[1])
    assert np.array_equal(found.means, prior.means) == (move == 0.0)


def test_distance_of_domains_is_estimated_without_bias() -> None:
    for far in (0.5, 2.0):
        found = []
        for seed in range(60):
            prior, rows, _, codes = domains(seed, far, n_classes=6, size=6, n_rows=60, n_labelled=18)
            still = Prior(prior.means, prior.within, np.zeros(6))
            means = np.stack([rows[codes == code].mean(axis=0) for code in range(6)])
            whitening = np.linalg.inv(np.linalg.cholesky(prior.within)).T
            found.append(measure(still, means, np.full(6, 3.0), whitening).squared)
        error = np.std(found) / np.sqrt(len(found))
        assert abs(np.mean(found) - far) < 4.0 * error
        assert error < 0.1 * far


def test_near_source_is_trusted_and_a_far_one_is_not() -> None:
    near, far = (domains(3, distance, n_labelled=9) for distance in (0.0, 400.0))
    for (prior, rows, _, codes), trusted in ((near, True), (far, False)):
        means = fit_shrunk(rows, codes, prior, refine=False).means
        own = np.stack([rows[codes == code].mean(axis=0) for code in range(3)])
        to_source, to_own = (np.linalg.norm(means - other) for other in (prior.means, own))
        assert (to_source < to_own) == trusted


def test_class_without_labels_stays_where_the_source_has_it() -> None:
    prior, rows, truth, codes = domains(4, 0.0, 0.0, n_rows=90, n_labelled=30)
    codes = np.where(truth == 2, -1, codes)
    found = fit_shrunk(rows, codes, prior, refine=False)
    assert (
        min(np.linalg.norm(found.means[2] - m) for m in (prior.means[2], prior.means[2] + prior.shift)) < 1e-9
    )
    refined = fit_shrunk(rows, codes, prior, refine=True).scores(rows)
    assert np.mean(refined[truth == 2].argmax(axis=1) == 2) > 0.7
