"""The documented strategy against the literal version of 001 Sec. 4.2."""

import numpy as np
import pytest

from onefold import WideMembershipAutoencoder
from onefold.privacy import OptimalNoise
from onefold.transfer import PrivateSource, TransferClassifier
from reference import transfer as literal
from reference.domains import blobs, hide

LAYERS = 2
STEPS = (2, 3)


def noisy_source(rng, n_features=6, epsilon=8.0):
    """A source, and the same noisy rows that its artefact was made of."""
    X, y = blobs(rng, 36, p=n_features)
    mechanism = OptimalNoise(epsilon, sensitivity=1.0)
    source = PrivateSource.fit(
        X, y, mechanism, estimator=WideMembershipAutoencoder(n_layers=LAYERS), random_state=7
    )
    return source, mechanism.randomise(X, np.random.default_rng(7)), y


def compare(source, rows_of_source, labels_of_source, X, y, queries, space):
    seen = hide(y, 4)
    model = TransferClassifier(
        source,
        "documented",
        estimator=WideMembershipAutoencoder(n_layers=LAYERS),
        components=STEPS,
    ).fit(X, seen)
    slow = literal.transfer(rows_of_source, labels_of_source, space(X), seen, STEPS, LAYERS)
    fast = model._strategy.expert_distances(queries, model._ways)
    expected = np.array([[slow.experts(x)[c] for c in sorted(slow.source)] for x in space(queries, X)])
    np.testing.assert_allclose(np.moveaxis(fast, 0, 2), expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(model.predict(queries), [slow.decide(x) for x in space(queries, X)])
    who = expected.min(axis=1).argmin(axis=1)
    np.testing.assert_array_equal(model.deciders(queries), np.array(["target", "mapping", "source"])[who])


def test_documented_strategy_matches_the_reference(rng) -> None:
    source, noisy, labels = noisy_source(rng)
    X, y = blobs(rng, 30)
    queries, _ = blobs(rng, 8)
    compare(source, noisy, labels, X, y, queries, lambda rows, _=None: rows)


@pytest.mark.parametrize("p_tg", [4, 9])
def test_documented_strategy_with_subspace_alignment_matches_the_reference(p_tg, rng) -> None:
    source, noisy, labels = noisy_source(rng)
    X, y = blobs(rng, 30, p=p_tg)
    queries, _ = blobs(rng, 5, p=p_tg)

    def space(rows, fitted=None):
        """The target's own directions are those of the rows that were fitted."""
        fitted = rows if fitted is None else fitted
        n_st = min(3, p_tg)
        V_sr = literal.transformation_matrix(noisy, n_st)
        V_tg = literal.transformation_matrix(fitted, n_st)
        return np.array([V_sr.T @ (V_tg @ row) for row in rows])

    np.testing.assert_allclose(space(X), literal.to_source(X, noisy), atol=1e-12)
    compare(source, noisy, labels, X, y, queries, space)


def test_subspace_of_a_source_comes_from_the_noisy_rows(rng) -> None:
    X, y = blobs(rng, 36)
    source = PrivateSource.fit(X, y, OptimalNoise(2.0, sensitivity=1.0), random_state=7)
    noisy = OptimalNoise(2.0, sensitivity=1.0).randomise(X, np.random.default_rng(7))
    np.testing.assert_allclose(source.subspace_, literal.transformation_matrix(noisy, 3), atol=1e-10)
    assert np.abs(source.subspace_ - literal.transformation_matrix(X, 3)).max() > 0.1
