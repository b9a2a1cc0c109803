"""What a release of moments depends on: sensitivities of its blocks."""

import math

import numpy as np
import pytest
from tests.tiers import later, thinned

from onefold._base.fixed_point import MOST_ROWS
from onefold.exceptions import InvalidInputError
from onefold.privacy.moments import PrivateMoments
from onefold.privacy.moments._release import DIGITS, SENSITIVITIES, Blocks, deviations
from onefold.privacy.samplers import SAMPLERS
from reference.clouds import cloud

RELATIONS = ("add-remove", "replace")


def changes(rows, labels, new_rows, new_labels, kind="class"):
    """Euclidean change of each block between two datasets, computed from what the release adds up."""

    def blocks(X, y):
        options = {"classes": [0, 1], "centre": None, "sampler": "float", "second_moments": kind}
        model = PrivateMoments(None, **options).fit(X, y)
        seen = model.embed(X)
        return seen.sum(axis=0), model.counts_, model.sums_, model.second_moments_, seen.T @ seen

    pairs = zip(blocks(rows, labels), blocks(new_rows, new_labels), strict=True)
    return Blocks(*(float(np.linalg.norm((a - b).ravel())) for a, b in pairs))


BACKGROUND = np.random.default_rng(1).normal(size=(30, 3)), np.arange(30) % 2
UNIT, OTHER = np.array([[0.6, 0.0, 0.8]]), np.array([[0.8, 0.0, -0.6]])


def with_record(record, label):
    return np.vstack([BACKGROUND[0], record]), np.append(BACKGROUND[1], label)


ATTAINED = {
    "add-remove": [(*BACKGROUND, *with_record(UNIT, 1))],
    "replace": [
        (*with_record(UNIT, 0), *with_record(-UNIT, 0)),  # opposite: the sums
        (*with_record(UNIT, 0), *with_record(OTHER, 0)),  # orthogonal: the matrices
        (*with_record(UNIT, 0), *with_record(UNIT, 1)),  # the label alone: the counts
    ],
}


@pytest.mark.parametrize(("kind", "relation"), thinned(["class", "pooled"], RELATIONS))
def test_the_claimed_sensitivity_is_attained(relation: str, kind: str) -> None:
    found = np.max([changes(*pair, kind) for pair in ATTAINED[relation]], axis=0)
    np.testing.assert_allclose(found, SENSITIVITIES[relation], rtol=1e-8)


@pytest.mark.parametrize(
    ("centre", "entry"),
    thinned([None, "private", [5e-324, 5e-324, 0.0]], [0.0, 1e-323, 1e-300, 1.0, 1e300, np.finfo(float).max]),
)
def test_rows_of_any_size_are_no_longer_than_one(entry: float, centre: object) -> None:
    rows = np.full((20, 3), entry) * np.random.default_rng(0).choice([-1.0, 0.5, 1.0], size=(20, 3))
    model = PrivateMoments(1.0, classes=[0, 1], centre=centre).fit(rows, np.arange(20) % 2)
    steps = np.trunc(np.ldexp(model.embed(rows), DIGITS)).astype(np.int64)  # as the release adds them up
    assert (np.sum(steps**2, axis=1) <= 4**DIGITS).all()


LENGTHS = [(1.0, "class"), (1e6, "class"), (1e300, "class"), ("random", "class"), (1e6, "pooled")]


@pytest.mark.parametrize(
    ("relation", "length", "kind"),
    later(
        [(relation, *length) for relation in RELATIONS for length in LENGTHS],
        [
            ("replace", 1.0, "class"),
            ("add-remove", 1e300, "class"),
            ("replace", "random", "class"),
            ("replace", 1e6, "pooled"),
        ],
    ),
)
def test_no_neighbour_exceeds_the_claimed_sensitivity(relation: str, length: float | str, kind: str) -> None:
    rng = np.random.default_rng(2)
    largest = np.zeros(5)
    for _ in range(300):
        pair = rng.normal(size=(2, 3))
        pair /= np.linalg.norm(pair, axis=1, keepdims=True)
        pair *= rng.exponential(size=(2, 1)) if length == "random" else length
        labels = rng.integers(0, 2, 2)
        before = BACKGROUND if relation == "add-remove" else with_record(pair[:1], labels[0])
        largest = np.maximum(largest, changes(*before, *with_record(pair[1:], labels[1]), kind))
    assert np.all(largest <= np.array(SENSITIVITIES[relation]) * (1 + 1e-12))
    if length != "random":
        assert np.all(largest > 0.9 * np.array(SENSITIVITIES[relation]))  # the search is not idle


@pytest.mark.parametrize("relation", RELATIONS)
def test_all_blocks_together_cost_what_was_allowed(relation: str) -> None:
    sigma = deviations(0.7, Blocks(0.1, 0.2, 0.3, 0.25, 0.15), relation)
    spent = sum((s / level) ** 2 for s, level in zip(SENSITIVITIES[relation], sigma, strict=True))
    assert math.isclose(spent, 0.7**2)


def test_rows_outside_the_declared_ball_are_shortened_and_others_kept() -> None:
    model = PrivateMoments(None, classes=[0], centre=None, radius=2.0)
    rows = np.array([[3.0, 4.0], [0.6, 0.8], [0.0, 0.0], [1e300, 1e300]])
    embedded = model.fit(rows, np.zeros(4, int)).embed(rows)
    np.testing.assert_allclose(embedded, [[0.6, 0.8], [0.3, 0.4], [0, 0], [0.5**0.5, 0.5**0.5]], rtol=1e-8)
    assert np.all(np.linalg.norm(embedded, axis=1) <= 1.0)


def test_rows_relative_to_a_centre_have_norm_one() -> None:
    X, y = cloud()
    model = PrivateMoments(1.0, classes=range(3), random_state=0).fit(X, y)
    norms = np.linalg.norm(model.embed(np.vstack([X, model.centre_])), axis=1)
    assert np.all(norms <= 1.0)
    np.testing.assert_allclose(norms[:-1], 1.0, rtol=1e-8)
    assert norms[-1] == 0.0


@pytest.mark.parametrize(("radius", "sampler"), thinned([1e-150, 1e-10, 1.0, 1e150], SAMPLERS))
def test_one_record_beyond_all_bounds_spoils_nothing(radius: float, sampler: str) -> None:
    # Divided by the radius first it would overflow to NaN, in every number that is released.
    X, y = cloud()
    X[0] = [1.7e308, -1.7e308, 1.0]
    model = PrivateMoments(1.0, classes=range(3), radius=radius, sampler=sampler, random_state=0).fit(X, y)
    for name in ("counts_", "sums_", "second_moments_", "centre_"):
        assert np.isfinite(getattr(model, name)).all()
    assert np.linalg.norm(model.embed(X), axis=1).max() <= 1.0


def test_rows_of_another_length_are_refused_in_one_line() -> None:
    X, y = cloud()
    model = PrivateMoments(1.0, classes=range(3)).fit(X, y)
    for rows in (X[:, :2], X[0]):
        with pytest.raises(InvalidInputError, match="expected rows of 3 numbers"):
            model.embed(rows)


def test_more_records_than_can_be_added_exactly_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = cloud()
    monkeypatch.setattr("onefold.privacy.moments._estimator.MOST_ROWS", len(X) - 1)
    PrivateMoments(1.0, classes=range(3), sampler="float").fit(X, y)
    with pytest.raises(InvalidInputError, match="at most"):
        PrivateMoments(1.0, classes=range(3)).fit(X, y)


def test_the_largest_hardened_sums_are_exact() -> None:
    # 2^25 products of 28 binary digits, each the largest there is: the sum must be a whole number of steps.
    largest = (2.0**DIGITS - 1) * 2.0**-DIGITS
    assert math.ldexp(largest * largest * MOST_ROWS, 2 * DIGITS) <= 2.0**53
