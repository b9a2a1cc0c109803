"""``KAHM`` against the literal machine of 000 Def. 1 and 004 Alg. 1."""

from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onefold import KAHM
from reference import kahm as literal
from reference.samples import SAMPLES, SLOW, queries, size
from tiers import later

pytestmark = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")


def literal_images(machine: literal.Machine, X: np.ndarray) -> np.ndarray:
    return np.array([literal.image(machine, x) for x in X])


@cache
def prepared(name: str):
    rng = np.random.default_rng(51)
    Y, n = SAMPLES[name](rng)
    return Y, queries(Y, rng), n, literal.fit_shrunk(Y, n)


@cache
def documented(name: str) -> KAHM:
    Y, _, n, _ = prepared(name)
    return KAHM(n_components=n, regularisation="documented").fit(Y)


@pytest.fixture(params=later(sorted(SAMPLES), set(SAMPLES) - set(SLOW)))
def case(request: pytest.FixtureRequest):
    return *prepared(request.param), documented(request.param)


def test_images_and_distances_equal_the_document(case) -> None:
    Y, X, _, machine, model = case
    expected = literal_images(machine, X)
    np.testing.assert_allclose(model.transform(X), expected, rtol=0, atol=1e-6 * size(Y))
    distances = np.linalg.norm(X - expected, axis=1)
    np.testing.assert_allclose(model.distance(X), distances, rtol=0, atol=1e-6 * size(Y))
    np.testing.assert_allclose(model.score_samples(X), -distances, rtol=0, atol=1e-6 * size(Y))


def test_lambda_equals_the_document(case) -> None:
    _, _, _, machine, model = case
    assert model.lambda_ == pytest.approx(machine.lambda_star, rel=1e-8)


def test_membership_equals_the_document(case) -> None:
    Y, X, _, machine, model = case
    h = model.membership(X)
    assert h.shape == (len(X), len(Y))
    expected = np.array([literal.memberships(machine, x) for x in X])
    np.testing.assert_allclose(h, expected, rtol=1e-6, atol=1e-8)


def test_modelling_error_equals_the_document(case) -> None:
    Y, _, _, machine, model = case
    expected = literal.modelling_error(machine)
    assert model.modelling_error_ == pytest.approx(expected, rel=1e-6, abs=1e-7 * size(Y))


def test_single_precision_is_close_to_the_document(case) -> None:
    Y, X, n, machine, _ = case
    model = KAHM(n_components=n, regularisation="documented").fit(Y.astype(np.float32))
    images = model.transform(X.astype(np.float32))
    distances = model.distance(X.astype(np.float32))
    assert images.dtype == np.float32
    assert distances.dtype == np.float32
    expected = literal_images(machine, X)
    np.testing.assert_allclose(images, expected, rtol=0, atol=2e-3 * size(Y))
    np.testing.assert_allclose(distances, np.linalg.norm(X - expected, axis=1), rtol=0, atol=2e-3 * size(Y))
    assert model.lambda_ == pytest.approx(machine.lambda_star, rel=1e-4)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    N=st.integers(2, 24),
    p=st.integers(1, 14),
    n=st.integers(1, 9),
    log_scale=st.floats(-1.0, 1.5),
    offset=st.floats(-3.0, 3.0),
    copies=st.integers(1, 3),
    seed=st.integers(0, 2**31),
)
def test_machines_of_any_shape_equal_the_document(
    N: int, p: int, n: int, log_scale: float, offset: float, copies: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    Y = 10.0**log_scale * (rng.normal(size=(N, p)) + offset)
    Y = np.repeat(Y, copies, axis=0)
    X = queries(Y, rng, count=3)
    machine = literal.fit_shrunk(Y, n)
    model = KAHM(n_components=n, regularisation="documented").fit(Y)
    expected = literal_images(machine, X)
    np.testing.assert_allclose(model.transform(X), expected, rtol=0, atol=1e-6 * size(Y))
    np.testing.assert_allclose(
        model.distance(X), np.linalg.norm(X - expected, axis=1), rtol=0, atol=1e-6 * size(Y)
    )
    if machine.n > 0:
        assert model.lambda_ == pytest.approx(machine.lambda_star, rel=1e-8)


@pytest.mark.parametrize("factor", [0.03, 0.7, 5.0])
def test_scale_equals_a_fit_on_scaled_data(factor: float, rng: np.random.Generator) -> None:
    Y, n = SAMPLES["tall"](rng)
    X = queries(Y, rng)
    machine = literal.fit_shrunk(factor * Y, n)
    model = KAHM(n_components=n, scale=factor, regularisation="documented").fit(Y)
    expected = literal_images(machine, factor * X) / factor
    np.testing.assert_allclose(model.transform(X), expected, rtol=0, atol=1e-6 * size(Y))
    np.testing.assert_allclose(
        model.distance(X), np.linalg.norm(X - expected, axis=1), rtol=0, atol=1e-6 * size(Y)
    )
    assert model.lambda_ == pytest.approx(machine.lambda_star, rel=1e-8)


def test_automatic_scale_has_mean_square_one_tenth(rng: np.random.Generator) -> None:
    Y = 37.0 * rng.normal(size=(40, 8)) + 11.0
    X = queries(Y, rng)
    factor = np.sqrt(0.1 / np.mean(Y**2))
    automatic, explicit = (
        KAHM(n_components=5, scale="auto", regularisation="documented").fit(Y),
        KAHM(n_components=5, scale=factor, regularisation="documented").fit(Y),
    )
    np.testing.assert_allclose(automatic.transform(X), explicit.transform(X), rtol=1e-9, atol=1e-9 * size(Y))
    assert automatic.lambda_ == pytest.approx(literal.fit_shrunk(factor * Y, 5).lambda_star, rel=1e-8)


def test_many_features_give_the_same_through_the_gram_matrix(rng: np.random.Generator) -> None:
    """p far above N is where a fast version avoids the p x p covariance."""
    Y = rng.normal(size=(30, 800)) * np.linspace(2.0, 0.1, 800)
    X = queries(Y, rng, count=5)
    machine = literal.fit_shrunk(Y, 20)
    expected = literal_images(machine, X)
    np.testing.assert_allclose(
        KAHM(n_components=20, regularisation="documented").fit(Y).transform(X),
        expected,
        rtol=0,
        atol=1e-6 * size(Y),
    )
