"""Far queries and vanishing denominators: far stays far, and Theorem 2 holds with the guard."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone

from onefold import KAHM, AutoencoderClassifier, DeepKAHM, FoldingClassifier, WideKAHM
from reference import folding
from reference import kahm as literal

pytestmark = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")

MODELS = {
    "single": KAHM(n_components=6, regularisation="documented"),
    "deep": DeepKAHM(n_components=6, n_layers=4, regularisation="documented"),
    "wide": WideKAHM(n_components=6, n_layers=3, branch_size=20, random_state=0, regularisation="documented"),
    "wide contiguous": WideKAHM(
        n_components=6, n_layers=3, branch_size=20, partition="contiguous", regularisation="documented"
    ),
    "scaled": DeepKAHM(n_components=6, n_layers=4, scale="auto", regularisation="documented"),
}


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_far_queries_come_out_far(name: str, shift: float, rng: np.random.Generator) -> None:
    Y = rng.normal(size=(60, 10)) + shift
    model = clone(MODELS[name]).fit(Y)
    directions = rng.normal(size=(40, 10))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    previous = np.zeros(40)
    for k in (2, 3, 5, 8, 15, 40, 90, 149):
        X = directions * 10.0**k
        distances = model.distance(X)
        assert np.isfinite(distances).all()
        assert np.all(distances >= 0.5 * cdist(X, Y).min(axis=1))
        assert np.all(distances > 5.0 * previous)
        previous = distances


@pytest.mark.parametrize("name", sorted(MODELS))
def test_images_are_finite_even_near_the_largest_number(name: str, rng: np.random.Generator) -> None:
    model = clone(MODELS[name]).fit(rng.normal(size=(60, 10)))
    X = np.vstack([rng.uniform(-1, 1, size=(20, 10)) * 10.0**k for k in (152, 200, 300, 308)])
    assert np.isfinite(model.transform(X)).all()
    assert not np.isnan(model.distance(X)).any()
    assert (model.distance(X) > 1e140).all()


@pytest.mark.parametrize("name", sorted(MODELS))
def test_moderately_far_queries_agree_with_the_shifted_kernel(name: str, rng: np.random.Generator) -> None:
    """Where exp underflows the ratio of eq. 33 is still defined: the distance is about that to the data."""
    Y = rng.normal(size=(60, 10))
    X = 60.0 * rng.normal(size=(30, 10))
    distances = clone(MODELS[name]).fit(Y).distance(X)
    nearest, farthest = cdist(X, Y).min(axis=1), cdist(X, Y).max(axis=1)
    assert np.all(distances >= 0.8 * nearest)
    assert np.all(distances <= 1.2 * farthest)


def test_underflowing_query_has_the_exact_image(rng: np.random.Generator) -> None:
    """Compared with eq. 33 evaluated in extended exponents (logarithms), where float64 gives 0/0."""
    Y = rng.normal(size=(15, 3))
    machine = literal.fit_shrunk(Y, 3)
    model = KAHM(n_components=3, regularisation="documented").fit(Y)
    directions = rng.normal(size=(20, 3))
    compared = 0
    for x in 300.0 * directions / np.linalg.norm(directions, axis=1, keepdims=True):
        with np.errstate(invalid="ignore"):
            assert np.isnan(literal.image(machine, x)).all()
        code = machine.P @ x
        exponents = np.array([-(code - z) @ machine.theta_inverse @ (code - z) / 6 for z in machine.encoded])
        values = np.exp(exponents - exponents.max())
        h = np.linalg.solve(machine.K + machine.lambda_star * np.eye(15), values)
        if h.sum() > 0.05 * np.abs(h).sum():
            np.testing.assert_allclose(model.transform(x[None])[0], h @ Y / h.sum(), rtol=0, atol=1e-6)
            compared += 1
    assert compared >= 10


@pytest.mark.parametrize("name", ["single", "deep", "wide", "scaled"])
@pytest.mark.parametrize("k", [-8, 0, 3, 6, 9, 12, 15, 18, 60, 140])
def test_angle_of_far_queries_is_right(name: str, k: int, rng: np.random.Generator) -> None:
    """The measures of a query are those of the image ``transform`` returns, however far the query is."""
    Y = rng.normal(size=(60, 10)) + 0.5
    model = clone(MODELS[name]).fit(Y)
    X = rng.normal(size=(25, 10)) * 10.0**k
    if name == "wide":
        model = model.branches_[0]  # the minima over branches need not come from one branch
    images = model.transform(X)
    factor = model.scale_
    for measure in ("rms", "product", "min", "max"):
        expected = [
            folding.measure(factor * x, factor * image, measure) for x, image in zip(X, images, strict=True)
        ]
        np.testing.assert_allclose(model.folding(X, measure), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("k", [0, 2, 4, 6, 10, 17])
def test_angle_of_far_queries_is_right_in_single_precision(k: int, rng: np.random.Generator) -> None:
    model = DeepKAHM(n_components=6, n_layers=4, regularisation="documented").fit(
        (rng.normal(size=(60, 10)) + 0.5).astype(np.float32)
    )
    X = (rng.normal(size=(25, 10)) * 10.0**k).astype(np.float32)
    pairs = list(zip(X.astype(float), model.transform(X).astype(float), strict=True))
    expected = [folding.measure(x, image, "rms") for x, image in pairs]
    np.testing.assert_allclose(model.folding(X, "rms"), expected, rtol=0, atol=2e-3)


def literal_sums(machine: literal.Machine, X: np.ndarray) -> np.ndarray:
    """sum_i h_i for many queries at once (eq. 38), kernel values of a query divided by the largest."""
    whiten = np.linalg.cholesky(machine.theta_inverse)
    exponents = -cdist(X @ machine.P.T @ whiten, machine.encoded @ whiten, "sqeuclidean") / (2 * machine.n)
    values = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    inverse = np.linalg.inv(machine.K + machine.lambda_star * np.eye(len(machine.Y)))
    return (values @ inverse).sum(axis=1)


@pytest.fixture(scope="module")
def nearly_unregularised():
    """A tiny scale: Gaussian data, N = 100, p = 30, n = 20, scale 0.01, and 30000 random queries."""
    rng = np.random.default_rng(7)
    Y = 0.01 * rng.normal(size=(100, 30))
    spread = rng.choice([0.5, 1.0, 1.5, 2.0, 4.0, 10.0], size=(30000, 1))
    X = 0.01 * spread * rng.normal(size=(30000, 30))
    machine = literal.fit_shrunk(Y, 20)
    assert machine.n == 20
    return Y, X, machine, literal_sums(machine, X)


def test_denominator_vanishes_for_some_queries(nearly_unregularised) -> None:
    """000 eq. 148 says the sum is positive; without such queries the next tests would prove nothing."""
    _, _, _, sums = nearly_unregularised
    assert np.count_nonzero(sums <= 0) >= 5


def test_vanishing_denominators_come_out_far(nearly_unregularised) -> None:
    Y, X, _, sums = nearly_unregularised
    hopeless = X[sums <= 0]
    single = KAHM(n_components=20, regularisation="documented").fit(Y)
    distances = single.distance(hopeless)
    assert np.isfinite(single.transform(hopeless)).all()
    assert np.all(distances >= cdist(hopeless, Y).max(axis=1) * (1 - 1e-9))
    assert np.all(
        DeepKAHM(n_components=20, n_layers=3, regularisation="documented").fit(Y).distance(hopeless) > 0
    )


def test_bound_of_theorem_2_holds_for_every_query(nearly_unregularised) -> None:
    Y, X, machine, _ = nearly_unregularised
    images = KAHM(n_components=20, regularisation="documented").fit(Y).transform(X)
    bound = literal.image_bound(machine)
    assert np.isfinite(images).all()
    assert np.linalg.norm(images, axis=1).max() <= bound * (1 + 1e-9)


def test_bound_of_theorem_3_holds_for_every_query(nearly_unregularised) -> None:
    """000 eq. 49, with the norm of all differences."""
    Y, X, machine, _ = nearly_unregularised
    distances = KAHM(n_components=20, regularisation="documented").fit(Y).distance(X)
    ratio = literal.image_bound(machine) / np.linalg.norm(Y, 2)
    worst = np.argsort(distances)[-50:]
    for x, distance in zip(X[worst], distances[worst], strict=True):
        assert distance <= ratio * np.linalg.norm(x - Y, 2) * (1 + 1e-9)


def test_ordinary_queries_are_not_changed_by_the_guard(nearly_unregularised) -> None:
    """The guard may act only where the denominator is small against its terms."""
    Y, X, machine, _ = nearly_unregularised
    model = KAHM(n_components=20, regularisation="documented").fit(Y)
    compared = 0
    for x in X[:60]:
        h = literal.memberships(machine, x)
        if np.isfinite(h).all() and h.sum() > 0.1 * np.abs(h).sum():
            np.testing.assert_allclose(model.transform(x[None])[0], h @ Y / h.sum(), rtol=0, atol=1e-6)
            compared += 1
    assert compared >= 20


@pytest.mark.parametrize("measure", ["euclidean", "rms", "product", "min", "max"])
def test_classifiers_answer_every_query(measure: str, rng: np.random.Generator) -> None:
    Y = np.vstack([0.01 * rng.normal(size=(60, 12)), 0.01 * rng.normal(size=(60, 12)) + 0.05])
    y = np.repeat([0, 1], 60)
    X = np.vstack([10.0**k * rng.normal(size=(20, 12)) for k in (-300, -5, -2, 0, 3, 150)])
    for model in (
        AutoencoderClassifier(measure=measure),
        FoldingClassifier(measure=measure, batch_size=20, regularisation="documented"),
    ):
        model.fit(Y, y)
        assert np.isfinite(model.distances(X)).all()
        assert np.isfinite(model.decision_function(X)).all()
        scores = model.matching_score(X)
        assert ((scores > 0) & (scores <= 1)).all()
        assert set(model.predict(X)) <= {0, 1}
