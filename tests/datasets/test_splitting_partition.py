"""Spreading rows over owners: what must hold for any labels, and what each way is for."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.datasets import long_tail, partition
from onefold.exceptions import InvalidInputError

labels = st.lists(st.integers(0, 6), min_size=1, max_size=120)
seeds = st.integers(0, 2**32 - 1)


def _check_complete(owners: list[np.ndarray], n_rows: int) -> None:
    assert min(map(len, owners)) >= 1
    assert sorted(np.concatenate(owners)) == list(range(n_rows))
    for rows in owners:
        assert np.all(np.diff(rows) > 0)


@given(y=labels, n_clients=st.integers(1, 12), seed=seeds)
def test_iid_spreads_every_row_evenly(y, n_clients, seed) -> None:
    if len(y) < n_clients:
        with pytest.raises(InvalidInputError, match="fewer rows"):
            partition(y, n_clients, "iid", random_state=seed)
        return
    owners = partition(y, n_clients, "iid", random_state=seed)
    _check_complete(owners, len(y))
    sizes = [len(rows) for rows in owners]
    assert max(sizes) - min(sizes) <= 1


@given(y=labels, n_clients=st.integers(1, 12), alpha=st.floats(1e-3, 1e3), seed=seeds)
def test_dirichlet_leaves_no_site_empty_and_no_row_out(y, n_clients, alpha, seed) -> None:
    if len(y) >= n_clients:
        _check_complete(partition(y, n_clients, "dirichlet", alpha=alpha, random_state=seed), len(y))


@given(y=labels, n_clients=st.integers(1, 12), per_client=st.integers(1, 8), seed=seeds)
def test_classes_gives_each_site_at_most_that_many(y, n_clients, per_client, seed) -> None:
    try:
        owners = partition(y, n_clients, "classes", classes_per_client=per_client, random_state=seed)
    except InvalidInputError:
        smallest = min(np.unique(y, return_counts=True)[1])
        assert n_clients * per_client < len(set(y)) or smallest < n_clients
        return
    _check_complete(owners, len(y))
    for rows in owners:
        assert len({y[i] for i in rows}) <= per_client


@given(y=labels, imbalance=st.floats(1.0, 1e4), seed=seeds)
def test_long_tail_keeps_every_class_and_never_invents_rows(y, imbalance, seed) -> None:
    kept = long_tail(y, imbalance, seed)
    assert np.all(np.diff(kept) > 0)
    assert set(np.asarray(y)[kept]) == set(y)


def test_long_tailed_class_sizes_fall_geometrically() -> None:
    y = np.repeat(np.arange(5), 1000)
    owners = partition(y, 4, "long_tailed", imbalance=16.0, random_state=0)
    kept = np.concatenate(owners)
    assert len(np.unique(kept)) == len(kept)
    assert np.bincount(y[kept]).tolist() == [1000, 500, 250, 125, 62]


def test_long_tailed_with_alpha_is_skewed_as_well() -> None:
    y = np.repeat(np.arange(5), 1000)
    skewed = partition(y, 4, "long_tailed", imbalance=4.0, alpha=0.1, random_state=0)
    even = partition(y, 4, "long_tailed", imbalance=4.0, random_state=0)
    assert sum(map(len, skewed)) == sum(map(len, even))
    assert np.ptp([len(rows) for rows in skewed]) > 100
    assert np.ptp([len(rows) for rows in even]) <= 1


def test_small_alpha_concentrates_classes_and_large_alpha_does_not() -> None:
    y = np.repeat(np.arange(10), 300)

    def largest_share(alpha: float) -> float:
        owners = partition(y, 10, "dirichlet", alpha=alpha, random_state=0)
        counts = np.array([np.bincount(y[rows], minlength=10) for rows in owners])
        return float(np.mean(counts.max(axis=0) / 300))

    assert largest_share(1000.0) < 0.15
    assert largest_share(0.01) > 0.9
    assert largest_share(1000.0) < largest_share(1.0) < largest_share(0.01)


def test_dirichlet_shares_have_the_right_spread() -> None:
    """Var of a share is (1/Q)(1 - 1/Q)/(Q alpha + 1); 2/3 and 3/2 of it would be noticed."""
    n_clients, alpha = 5, 0.7
    y = np.repeat(np.arange(400), 200)
    owners = partition(y, n_clients, "dirichlet", alpha=alpha, random_state=0)
    shares = np.array([np.bincount(y[rows], minlength=400) for rows in owners]) / 200
    expected = (1 / n_clients) * (1 - 1 / n_clients) / (n_clients * alpha + 1)
    assert 0.85 * expected < np.var(shares) < 1.15 * expected


def test_a_vanishing_alpha_gives_each_class_to_one_site_without_a_warning() -> None:
    y = np.repeat(np.arange(6), 50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        owners = partition(y, 3, "dirichlet", alpha=1e-300, random_state=0)
    _check_complete(owners, 300)
    holders = np.array([[np.any(y[rows] == c) for c in range(6)] for rows in owners])
    assert holders.sum() <= 6 + 3  # one holder each, plus at most one row for each empty client


@pytest.mark.parametrize("how", ["classes", "dirichlet", "iid", "long_tailed"])
def test_the_same_seed_gives_the_same_sites(how: str) -> None:
    y = np.random.default_rng(0).integers(0, 4, size=200)
    runs = [partition(y, 5, how, random_state=seed) for seed in (3, 3, 4)]
    for first, second in zip(runs[0], runs[1], strict=True):
        np.testing.assert_array_equal(first, second)
    assert any(not np.array_equal(a, b) for a, b in zip(runs[0], runs[2], strict=True))


def test_labels_may_be_strings() -> None:
    owners = partition(["a", "b", "a", "c"] * 10, 3, "classes", classes_per_client=1, random_state=0)
    _check_complete(owners, 40)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_clients": 0}, "n_clients"),
        ({"n_clients": 1.5}, "n_clients"),
        ({"n_clients": 2, "how": "magic"}, "how must be one of"),
        ({"n_clients": 2, "how": "dirichlet", "alpha": 0.0}, "alpha"),
        ({"n_clients": 2, "how": "dirichlet", "alpha": float("nan")}, "alpha"),
        ({"n_clients": 2, "how": "long_tailed", "imbalance": float("nan")}, "imbalance"),
        ({"n_clients": 2, "how": "long_tailed", "imbalance": 0.5}, "imbalance"),
        ({"n_clients": 2, "how": "classes", "classes_per_client": 0}, "classes_per_client"),
        ({"n_clients": 2, "how": "classes", "classes_per_client": 1}, "number of classes"),
        ({"n_clients": 7}, "fewer rows"),
    ],
)
def test_invalid_arguments_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        partition([0, 0, 1, 1, 2, 2], **arguments)


def test_labels_must_be_a_list() -> None:
    with pytest.raises(InvalidInputError, match="one-dimensional"):
        partition([[0, 1]], 1)
    with pytest.raises(InvalidInputError, match="one-dimensional"):
        partition([], 1)


@given(groups=labels, n_clients=st.integers(1, 12), seed=seeds)
def test_groups_stay_together_and_no_site_is_empty(groups, n_clients, seed) -> None:
    y = np.zeros(len(groups), dtype=int)
    if len(groups) < n_clients or len(set(groups)) < n_clients:
        with pytest.raises(InvalidInputError, match="fewer"):
            partition(y, n_clients, "groups", groups=groups, random_state=seed)
        return
    owners = partition(y, n_clients, "groups", groups=groups, random_state=seed)
    _check_complete(owners, len(groups))
    sites = [{groups[i] for i in rows} for rows in owners]
    assert sum(map(len, sites)) == len(set(groups))  # no group is at two sites
    if len(set(groups)) == n_clients:
        assert all(len(site) == 1 for site in sites)


def test_groups_of_equal_size_are_spread_evenly_and_at_random() -> None:
    devices = np.repeat([f"device {number}" for number in range(12)], 5)
    found = [partition(np.zeros(60), 4, "groups", groups=devices, random_state=seed) for seed in range(5)]
    assert all(len(rows) == 15 for owners in found for rows in owners)
    assert len({tuple(owners[0]) for owners in found}) > 1


@pytest.mark.parametrize("groups", [None, [1, 2], [[1], [2], [3]], [1.0, np.nan, 2.0], ["a", None, "b"]])
def test_groups_must_name_one_for_every_row(groups) -> None:
    with pytest.raises(InvalidInputError, match="groups"):
        partition([0, 1, 0], 2, "groups", groups=groups)
