"""The distributed fuzzy classifier (003 eq. 2.164-2.166) is a federation with the measure "fuzzy"."""

import numpy as np
import pytest

from onefold import AutoencoderClassifier, DeepFuzzyAutoencoder
from onefold.exceptions import InvalidInputError
from onefold.fabrication import Fabricator
from onefold.federated import GlobalClassifier, LocalModel, simulate
from onefold.privacy import OptimalNoise
from onefold.privacy.guarantee import SEEDED
from reference import fuzzy as literal

N_OWNERS, CLASSES = 3, (0, 1, 2)


@pytest.fixture(scope="module")
def owned() -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows of three classes, and for every owner they lie elsewhere."""
    rng = np.random.default_rng(7)
    found = []
    for owner in range(N_OWNERS):
        y = np.repeat(CLASSES, 12)
        places = rng.normal(size=(3, 6)) + owner
        found.append((places[y] + 0.5 * rng.normal(size=(36, 6)), y))
    return found


def prototype() -> AutoencoderClassifier:
    return AutoencoderClassifier(DeepFuzzyAutoencoder(3, 2), measure="fuzzy")


def queries(owned: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    rng = np.random.default_rng(8)
    rows = np.vstack([X[::4] for X, _ in owned])
    return rows + 0.4 * rng.normal(size=rows.shape)


def literal_sets(owned: list[tuple[np.ndarray, np.ndarray]]) -> list[list[literal.Model]]:
    return [[literal.fit_autoencoder(X[y == c], 3, 6, 2) for c in CLASSES] for X, y in owned]


def test_federation_equals_the_literal_formula(owned) -> None:
    """The smallest 1 - membership of all owners is the largest membership (2.166)."""
    server = GlobalClassifier()
    for owner, (X, y) in enumerate(owned):
        server.add(owner, LocalModel(prototype()).fit(X, y))
    sets, Q = literal_sets(owned), queries(owned)
    np.testing.assert_array_equal(server.predict(Q), [literal.decide(sets, q) for q in Q])
    memberships = [[max(literal.membership(owner[c], q) for owner in sets) for c in CLASSES] for q in Q]
    np.testing.assert_allclose(1.0 - server.measures(Q), memberships, rtol=0, atol=1e-7)


def test_noise_is_added_before_rules_are_fitted(owned) -> None:
    """003 Alg. 3: the private federation is the literal one of the noisy rows."""
    mechanism = OptimalNoise(8.0, delta=1e-5, sensitivity=1.0)
    server, noisy = GlobalClassifier(), []
    for owner, (X, y) in enumerate(owned):
        model = LocalModel(prototype(), mechanism, fabricate=False, random_state=owner).fit(X, y)
        server.add(owner, model)
        assert model.guarantee_.entry == (8.0, 1e-5)
        assert model.guarantee_.voided_by == (SEEDED,)
        noise = LocalModel(prototype(), mechanism, fabricate=False, random_state=owner)
        noisy.append((noisy_rows(noise, X, y), y))
    sets, Q = literal_sets(noisy), queries(owned)
    np.testing.assert_array_equal(server.predict(Q), [literal.decide(sets, q) for q in Q])


def noisy_rows(model: LocalModel, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(model.random_state)
    return Fabricator(model.mechanism).randomise(X, y, rng)


def test_sites_with_different_classes_equal_the_literal_formula(owned) -> None:
    """A class that an owner lacks has membership zero there."""
    parts = [(X[y != owner], y[y != owner]) for owner, (X, y) in enumerate(owned)]
    server = GlobalClassifier()
    for owner, (X, y) in enumerate(parts):
        server.add(owner, LocalModel(prototype()).fit(X, y))
    Q = queries(owned)
    sets = [(c, literal.fit_autoencoder(X[y == c], 3, 6, 2)) for X, y in parts for c in np.unique(y)]
    expected = []
    for q in Q:
        values = np.zeros(3)
        for c, found in sets:
            values[c] = max(values[c], literal.membership(found, q))
        expected.append(int(values.argmax()))
    np.testing.assert_array_equal(server.predict(Q), expected)


def test_simulate_takes_the_fuzzy_measure(owned) -> None:
    X = np.vstack([X for X, _ in owned])
    y = np.concatenate([y for _, y in owned])
    options = {"estimator": prototype(), "X_test": X, "y_test": y, "random_state": 0}
    found = simulate(X, y, N_OWNERS, method="folding", **options)
    assert found.federated > 0.8
    with pytest.raises(InvalidInputError, match="use method='folding'"):
        simulate(X, y, N_OWNERS, **options)
