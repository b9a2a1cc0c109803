"""``DeepKAHM`` against the literal composition of 000 Def. 3."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold import KAHM, DeepKAHM
from reference import folding
from reference import kahm as literal
from reference.samples import SAMPLES, SLOW, queries
from tiers import later

pytestmark = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")


def size(Y: np.ndarray) -> float:
    return float(np.linalg.norm(Y, axis=1).max())


@cache
def prepared(name: str):
    rng = np.random.default_rng(51)
    Y, n = SAMPLES[name](rng)
    return Y, queries(Y, rng, count=6), n, literal.fit_deep(Y, n, 4)


@cache
def documented(name: str) -> DeepKAHM:
    Y, _, n, _ = prepared(name)
    return DeepKAHM(n_components=n, n_layers=4, regularisation="documented").fit(Y)


@pytest.fixture(params=later(sorted(SAMPLES), set(SAMPLES) - set(SLOW)))
def case(request: pytest.FixtureRequest):
    return *prepared(request.param), documented(request.param)


def test_every_layer_equals_the_document(case) -> None:
    Y, X, _, machines, model = case
    outputs = model.layers(X)
    assert len(outputs) == len(machines)
    expected = np.array([literal.layers(machines, x) for x in X])
    for layer, output in enumerate(outputs):
        np.testing.assert_allclose(output, expected[:, layer], rtol=0, atol=1e-6 * size(Y))


def test_images_and_distances_equal_the_document(case) -> None:
    Y, X, _, machines, model = case
    distances = np.array([literal.deep_distance(machines, x) for x in X])
    np.testing.assert_allclose(model.distance(X), distances, rtol=0, atol=1e-6 * size(Y))
    np.testing.assert_allclose(
        np.linalg.norm(X - model.transform(X), axis=1), distances, rtol=0, atol=1e-6 * size(Y)
    )
    np.testing.assert_array_equal(model.score_samples(X), -model.distance(X))


def test_lambdas_equal_the_document(case) -> None:
    _, _, _, machines, model = case
    np.testing.assert_allclose(model.lambdas_, [machine.lambda_star for machine in machines], rtol=1e-8)


def test_folding_measures_equal_the_document(case) -> None:
    Y, X, _, machines, model = case
    X = X + 0.05 * size(Y)  # away from the samples and from the origin, where the angle is well defined
    images = [literal.deep_image(machines, x) for x in X]
    for measure in folding.MEASURES:
        expected = [folding.measure(x, image, measure) for x, image in zip(X, images, strict=True)]
        found = model.folding(X, measure)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * max(1.0, size(Y)), err_msg=measure)


def test_single_precision_is_close_to_the_document(case) -> None:
    Y, X, n, machines, _ = case
    model = DeepKAHM(n_components=n, n_layers=4, regularisation="documented").fit(Y.astype(np.float32))
    distances = model.distance(X.astype(np.float32))
    assert distances.dtype == np.float32
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    expected = np.array([literal.deep_distance(machines, x) for x in X])
    np.testing.assert_allclose(distances, expected, rtol=0, atol=4e-3 * size(Y))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    N=st.integers(2, 20),
    p=st.integers(1, 12),
    n=st.integers(1, 8),
    n_layers=st.integers(1, 6),
    log_scale=st.floats(-0.7, 1.0),
    seed=st.integers(0, 2**31),
)
def test_machines_of_any_shape_equal_the_document(
    N: int, p: int, n: int, n_layers: int, log_scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    Y = 10.0**log_scale * (rng.normal(size=(N, p)) + 0.5)
    X = queries(Y, rng, count=2)
    machines = literal.fit_deep(Y, n, n_layers)
    model = DeepKAHM(n_components=n, n_layers=n_layers, regularisation="documented").fit(Y)
    expected = [literal.deep_distance(machines, x) for x in X]
    np.testing.assert_allclose(model.distance(X), expected, rtol=0, atol=1e-6 * size(Y))
    assert len(model.lambdas_) == len(machines)


def test_one_layer_is_the_single_machine(rng: np.random.Generator) -> None:
    Y, n = SAMPLES["digits"](rng)
    X = queries(Y, rng)
    deep, single = (
        DeepKAHM(n_components=n, n_layers=1, regularisation="documented").fit(Y),
        KAHM(n_components=n, regularisation="documented").fit(Y),
    )
    np.testing.assert_allclose(deep.transform(X), single.transform(X), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(deep.distance(X), single.distance(X), rtol=1e-9, atol=1e-10)


def test_more_layers_never_raise_the_distance(rng: np.random.Generator) -> None:
    """000 eq. 54: the first layer is one of those the minimum is taken over."""
    Y, n = SAMPLES["twenty_components"](rng)
    X = rng.normal(size=(50, Y.shape[1])) * 1.5
    distances = [
        DeepKAHM(n_components=n, n_layers=L, regularisation="documented").fit(Y).distance(X)
        for L in (1, 2, 3, 6)
    ]
    for fewer, more in pairwise(distances):
        assert np.all(more <= fewer + 1e-9)


@pytest.mark.parametrize("factor", [0.2, 3.0])
def test_scale_equals_a_fit_on_scaled_data(factor: float, rng: np.random.Generator) -> None:
    Y, n = SAMPLES["digits"](rng)
    X = queries(Y, rng, count=4)
    machines = literal.fit_deep(factor * Y, n, 3)
    model = DeepKAHM(n_components=n, n_layers=3, scale=factor, regularisation="documented").fit(Y)
    expected = [literal.deep_distance(machines, factor * x) / factor for x in X]
    np.testing.assert_allclose(model.distance(X), expected, rtol=0, atol=1e-6 * size(Y))


def test_folding_sees_the_scaled_data(rng: np.random.Generator) -> None:
    """With a scale f the bounded measures are those of f x; the raw distance is in the units of x."""
    Y, n = SAMPLES["digits"](rng)
    X = queries(Y, rng, count=4) + 0.1
    machines = literal.fit_deep(3.0 * Y, n, 3)
    model = DeepKAHM(n_components=n, n_layers=3, scale=3.0, regularisation="documented").fit(Y)
    images = [literal.deep_image(machines, 3 * x) for x in X]
    for measure in folding.MEASURES:
        expected = np.array(
            [folding.measure(3 * x, image, measure) for x, image in zip(X, images, strict=True)]
        )
        if measure == "euclidean":
            expected /= 3.0
        found = model.folding(X, measure)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * size(Y), err_msg=measure)


def test_workers_do_not_change_the_result(rng: np.random.Generator) -> None:
    Y, n = SAMPLES["digits"](rng)
    X = queries(Y, rng)
    one = DeepKAHM(n_components=n, n_jobs=1, regularisation="documented").fit(Y)
    two = DeepKAHM(n_components=n, n_jobs=2, regularisation="documented").fit(Y)
    np.testing.assert_allclose(two.distance(X), one.distance(X), rtol=1e-10)
