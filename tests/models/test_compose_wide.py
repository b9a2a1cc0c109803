"""``WideKAHM`` against the literal composition of 000 Def. 5, for the partition the fast version chose."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from onefold import DeepKAHM, WideKAHM
from reference import folding
from reference import kahm as literal
from reference.samples import SAMPLES, queries

pytestmark = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")

PARTITIONS = ("kmeans", "contiguous")


def size(Y: np.ndarray) -> float:
    return float(np.linalg.norm(Y, axis=1).max())


def blobs(rng: np.random.Generator) -> np.ndarray:
    centres = 3.0 * rng.normal(size=(4, 12))
    return np.vstack([centre + rng.normal(size=(22, 12)) for centre in centres])[rng.permutation(88)]


def chosen_partition(model: WideKAHM, Y: np.ndarray) -> list[np.ndarray]:
    """The rows of Y in each branch, found by what the branches hold; checked to be a partition."""
    rows = []
    for stack in model.pool_.machines(0):
        held = (stack.hull.centred + stack.hull.mean[:, None, :])[0]
        gaps = cdist(held, Y)
        assert gaps.min(axis=1).max() < 1e-6 * size(Y)
        rows.append(gaps.argmin(axis=1))
    assert len(rows) == len(model.branches_)
    np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(len(Y)))
    return rows


@pytest.fixture(params=PARTITIONS)
def case(request: pytest.FixtureRequest, rng: np.random.Generator):
    Y = blobs(rng)
    model = WideKAHM(
        n_components=5,
        n_layers=3,
        branch_size=20,
        partition=request.param,
        random_state=0,
        regularisation="documented",
    ).fit(Y)
    branches = literal.fit_wide(Y, chosen_partition(model, Y), 5, 3)
    X = np.vstack([queries(Y, rng, count=8), 3.0 * rng.normal(size=(8, 12))])
    return Y, X, model, branches


def test_images_and_distances_equal_the_document(case) -> None:
    Y, X, model, branches = case
    assert len(branches) == 4
    expected = np.array([literal.wide_image(branches, x) for x in X])
    np.testing.assert_allclose(model.transform(X), expected, rtol=0, atol=1e-6 * size(Y))
    distances = np.array([literal.wide_distance(branches, x) for x in X])
    np.testing.assert_allclose(model.distance(X), distances, rtol=0, atol=1e-6 * size(Y))
    np.testing.assert_array_equal(model.score_samples(X), -model.distance(X))


def test_folding_is_the_minimum_over_branches(case) -> None:
    Y, X, model, branches = case
    for measure in folding.MEASURES:
        expected = [folding.wide_minimum(branches, x, measure) for x in X[::2]]
        found = model.folding(X, measure)[::2]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * size(Y), err_msg=measure)


def test_single_precision_is_close_to_the_document(case) -> None:
    Y, X, model, branches = case
    model32 = WideKAHM(**model.get_params()).fit(Y.astype(np.float32))
    distances = model32.distance(X.astype(np.float32))
    assert distances.dtype == np.float32
    assert model32.transform(X.astype(np.float32)).dtype == np.float32
    if model.partition == "contiguous":
        expected = [literal.wide_distance(branches, x) for x in X]
        np.testing.assert_allclose(distances, expected, rtol=0, atol=4e-3 * size(Y))


@pytest.mark.parametrize(
    ("N", "branch_size", "count"), [(30, 1000, 1), (29, 20, 1), (31, 20, 2), (100, 20, 5), (69, 20, 3)]
)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_number_of_branches_is_rounded_to_nearest(
    partition: str, N: int, branch_size: int, count: int, rng: np.random.Generator
) -> None:
    Y = rng.normal(size=(N, 6))
    model = WideKAHM(
        branch_size=branch_size, partition=partition, random_state=0, regularisation="documented"
    ).fit(Y)
    if partition == "contiguous":
        assert len(model.branches_) == count
    else:
        assert len(model.branches_) >= count  # clusters far above the branch size may be split again
        assert max(len(rows) for rows in chosen_partition(model, Y)) <= 2 * branch_size


def test_contiguous_batches_keep_the_order(rng: np.random.Generator) -> None:
    Y = rng.normal(size=(69, 6))
    model = WideKAHM(branch_size=20, partition="contiguous", regularisation="documented").fit(Y)
    rows = chosen_partition(model, Y)
    np.testing.assert_array_equal(np.concatenate(rows), np.arange(69))
    assert [len(batch) for batch in rows] == [len(batch) for batch in folding.contiguous_batches(69, 20)]


def test_branches_are_deep_machines(case) -> None:
    _, X, model, branches = case
    for branch, machines in zip(model.branches_, branches, strict=True):
        assert isinstance(branch, DeepKAHM)
        expected = [literal.deep_distance(machines, x) for x in X]
        np.testing.assert_allclose(branch.distance(X), expected, rtol=1e-6, atol=1e-6)
    smallest = np.min([branch.distance(X) for branch in model.branches_], axis=0)
    np.testing.assert_allclose(model.distance(X), smallest, rtol=1e-9, atol=1e-12)


def test_one_branch_is_the_deep_machine(rng: np.random.Generator) -> None:
    Y, n = SAMPLES["digits"](rng)
    X = queries(Y, rng)
    wide = WideKAHM(n_components=n, n_layers=3, regularisation="documented").fit(Y)
    deep = DeepKAHM(n_components=n, n_layers=3, regularisation="documented").fit(Y)
    np.testing.assert_allclose(wide.distance(X), deep.distance(X), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(wide.transform(X), deep.transform(X), rtol=1e-9, atol=1e-10)


def test_same_seed_gives_the_same_machine_with_any_number_of_workers(rng: np.random.Generator) -> None:
    Y = blobs(rng)
    X = queries(Y, rng)
    settings = {"n_components": 5, "n_layers": 2, "branch_size": 20, "random_state": 3}
    one = WideKAHM(n_jobs=1, **settings, regularisation="documented").fit(Y).distance(X)
    again = WideKAHM(n_jobs=1, **settings, regularisation="documented").fit(Y).distance(X)
    two = WideKAHM(n_jobs=2, **settings, regularisation="documented").fit(Y).distance(X)
    np.testing.assert_array_equal(one, again)
    np.testing.assert_allclose(two, one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("partition", PARTITIONS)
def test_probing_all_branches_is_exact_and_fewer_is_never_nearer(partition: str) -> None:
    X = load_digits().data / 16.0
    train, test = X[:600], X[600:760]
    settings = {
        "n_components": 8,
        "n_layers": 2,
        "branch_size": 60,
        "partition": partition,
        "random_state": 0,
    }
    exact = WideKAHM(**settings, regularisation="documented").fit(train)
    count = len(exact.branches_)
    assert count == 10
    for n_probe in (count, count + 5):
        probed = WideKAHM(n_probe=n_probe, **settings, regularisation="documented").fit(train)
        np.testing.assert_allclose(probed.distance(test), exact.distance(test), rtol=1e-10)
        np.testing.assert_allclose(probed.transform(test), exact.transform(test), rtol=1e-8, atol=1e-10)
    previous = exact.distance(test)
    for n_probe in (5, 2, 1):
        distances = (
            WideKAHM(n_probe=n_probe, **settings, regularisation="documented").fit(train).distance(test)
        )
        assert np.all(distances >= previous - 1e-10)
        previous = distances
    assert np.any(previous > exact.distance(test) + 1e-6)


def test_probed_branches_are_those_with_the_nearest_means(case) -> None:
    Y, X, model, branches = case
    means = np.array([Y[rows].mean(axis=0) for rows in chosen_partition(model, Y)])
    nearness = np.argsort(cdist(X, means), axis=1)
    for n_probe in (1, 2, 3):
        probed = WideKAHM(**{**model.get_params(), "n_probe": n_probe}).fit(Y)
        expected = [
            min(literal.deep_distance(branches[b], x) for b in order[:n_probe])
            for x, order in zip(X, nearness, strict=True)
        ]
        np.testing.assert_allclose(probed.distance(X), expected, rtol=0, atol=1e-6 * size(Y))
        shown = np.linalg.norm(X - probed.transform(X), axis=1)
        np.testing.assert_allclose(shown, expected, rtol=0, atol=1e-6 * size(Y))


def test_probed_folding_is_never_smaller_than_the_exact_one() -> None:
    X = load_digits().data / 16.0
    train, test = X[:300], X[300:360]
    settings = {"n_components": 6, "n_layers": 2, "branch_size": 50, "random_state": 0}
    exact = WideKAHM(**settings, regularisation="documented").fit(train).folding(test, "rms")
    probed = WideKAHM(n_probe=2, **settings, regularisation="documented").fit(train).folding(test, "rms")
    assert np.all(probed >= exact - 1e-10)


def test_branches_with_fewer_components_have_fewer_layers(rng: np.random.Generator) -> None:
    """Branches of one size are fitted together; each still has the layers its own components allow."""
    line = np.outer(np.linspace(-1.0, 1.0, 20), rng.normal(size=6))
    Y = np.vstack([rng.normal(size=(20, 6)), np.full((20, 6), 0.7), line])
    model = WideKAHM(
        n_components=4, n_layers=3, branch_size=20, partition="contiguous", regularisation="documented"
    ).fit(Y)
    branches = literal.fit_wide(Y, folding.contiguous_batches(60, 20), 4, 3)
    assert [len(machines) for machines in branches] == [3, 1, 1]
    X = 0.5 * rng.normal(size=(10, 6)) + 0.4
    expected = [literal.wide_distance(branches, x) for x in X]
    np.testing.assert_allclose(model.distance(X), expected, rtol=1e-6)
    for branch, machines in zip(model.branches_, branches, strict=True):
        assert branch.n_components_ == machines[0].n
        assert len(branch.layers(X)) == len(machines)
        assert len(branch.lambdas_) == len(machines)
