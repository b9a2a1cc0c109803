"""Sums over sites for numbers to predict: exact joining and leaving, guarantees, and what is refused."""

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentClassifier, MomentRegressor
from onefold.federated import MomentFederation
from onefold.privacy import PrivateMoments
from onefold.tables import Field, Schema

RANGES = {"x_range": (0.0, 1.0), "y_range": (-3.0, 3.0)}
SCHEMA = Schema([Field("a", low=0.0, high=1.0), Field("b", "number", "label", low=-3.0, high=3.0)])


@pytest.fixture(scope="module")
def pairs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(600, 4))
    return X, np.sin(4.0 * X[:, 0]) + X[:, 1] - X[:, 2] + rng.normal(size=600) / 10


def joined(federation: MomentFederation, pairs: tuple, parts: list) -> MomentFederation:
    X, y = pairs
    for number, rows in enumerate(parts):
        federation.add(number, federation.release(X[rows], y[rows]))
    return federation


@pytest.mark.exact
@pytest.mark.parametrize("lift", [None, 32])
def test_joining_and_leaving_leave_no_trace(pairs: tuple, lift: int | None) -> None:
    X, y = pairs
    parts = np.array_split(np.random.default_rng(1).permutation(600), 9)
    federation = joined(MomentFederation(lift=lift, **RANGES), pairs, parts).remove(4)
    order = [*parts[5:], *parts[:4]]
    other = joined(MomentFederation(lift=lift, **RANGES), pairs, order)
    rest = np.concatenate(order)
    whole = joined(MomentFederation(lift=lift, **RANGES), pairs, [rest])
    alone = MomentRegressor(None, lift=lift, **RANGES).fit(X[rest], y[rest])
    expected = whole.fitted(MomentRegressor).predict(X)
    assert np.array_equal(federation.moments().vector, whole.moments().vector)
    for each in (federation, other):
        assert np.array_equal(each.fitted(MomentRegressor).predict(X), expected)
    assert np.array_equal(alone.predict(X), expected)


def test_a_lift_bends_what_the_sites_learn_together(pairs: tuple) -> None:
    X, y = pairs
    parts = np.array_split(np.arange(600), 10)
    straight, bent = (
        joined(MomentFederation(lift=lift, **RANGES), pairs, parts).fitted(MomentRegressor)
        for lift in (None, 128)
    )
    assert bent.score(X, y) > straight.score(X, y) + 0.05
    assert bent.residuals_ is None  # nobody has the rows
    low, high = bent.predict_interval(X).T
    assert 0.8 < np.mean((low <= y) & (y <= high)) < 0.99


def test_each_site_keeps_its_own_guarantee_for_pairs(pairs: tuple) -> None:
    X, y = pairs
    federation = joined(MomentFederation(epsilon=4.0, **RANGES), pairs, np.array_split(np.arange(600), 3))
    assert federation.guarantee.record == (4.0, 1e-5)
    assert federation.guarantee.n_owners == 3
    model = federation.fitted(MomentRegressor)
    single = MomentRegressor(4.0, **RANGES).fit(X, y).moments_
    np.testing.assert_allclose(model.moments_.second_noise_, np.sqrt(3.0) * single.second_noise_)
    assert model.guarantee_.holds
    assert model.score(X, y) > 0.3


def test_tables_are_added_by_their_schema(pairs: tuple) -> None:
    X, y = pairs
    table = {"a": X[:, 0], "b": y}
    for epsilon in (None, 8.0):
        federation = MomentFederation(SCHEMA, epsilon=epsilon)
        for site in range(3):
            part = {name: values[site::3] for name, values in table.items()}
            federation.add(site, federation.release(part))
        model = federation.fitted(MomentRegressor)
        assert abs(model.score(table, y) - np.corrcoef(X[:, 0], y)[0, 1] ** 2) < 0.1
        wider = Schema([Field("a", low=0.0, high=2.0), SCHEMA.fields[1]])
        with pytest.raises(InvalidInputError, match="'a'"):
            federation.add("other", MomentFederation(wider, epsilon=epsilon).release(table))


def test_encrypted_or_plain_sums_of_vectors_make_the_same_model(pairs: tuple) -> None:
    """What an EncryptedSum opens is the sum of the sites' whole numbers, which is all that is needed."""
    X, y = pairs
    agreed = MomentRegressor(None, lift=None, **RANGES)
    sites = [agreed.site_moments(X[rows], y[rows]) for rows in np.array_split(np.arange(600), 4)]
    opened = sites[0].with_vector(
        np.sum([site.vector for site in sites], axis=0), (0.0, 0.0, 0.0), sites[0].guarantee_
    )
    model = MomentRegressor.from_moments(opened, **RANGES)
    expected = MomentRegressor.from_moments(PrivateMoments.total(sites), **RANGES)
    assert np.array_equal(model.predict(X), expected.predict(X))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"y_range": (0, 1)}, "ranges of X and y must be declared"),
        ({"lift": "auto", **RANGES}, "lift must be a number"),
        ({"head": "lda", **RANGES}, "are for classes"),
        ({"groups": "a", "schema": SCHEMA}, "are for classes"),
    ],
)
def test_settings_that_make_no_sense_for_numbers_are_refused(given: dict, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        MomentFederation(**given)


def test_sums_of_the_other_kind_make_no_model(pairs: tuple) -> None:
    X, y = pairs
    numbers = joined(MomentFederation(**RANGES), pairs, [np.arange(600)])
    with pytest.raises(InvalidInputError, match="make a MomentRegressor"):
        numbers.fitted(MomentClassifier)
    with pytest.raises(InvalidInputError, match="make a MomentRegressor"):
        numbers.answers(X)
    classes = MomentFederation()
    classes.add("one", classes.release(X, (y > 0).astype(int)))
    with pytest.raises(InvalidInputError, match="make a MomentRegressor"):
        classes.fitted(MomentRegressor)
    with pytest.raises(InvalidInputError, match="cannot be added"):
        numbers.add("classes", classes.release(X, (y > 0).astype(int)))


def test_liars_with_impossible_sums_are_refused(pairs: tuple) -> None:
    X, y = pairs
    federation = MomentFederation(most_rows=700, **RANGES)
    moments = PrivateMoments.from_bytes(federation.release(X, y))
    moments.second_moments_ = 30.0 * moments.second_moments_
    with pytest.raises(InvalidInputError, match="larger than its rows can have"):
        federation.add("liar", moments.to_bytes())
