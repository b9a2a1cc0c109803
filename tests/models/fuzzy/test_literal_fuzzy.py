"""The fast fuzzy models against the literal ones of 003 Sec. 2.2."""

from functools import cache
from math import ceil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onefold import DeepFuzzyAutoencoder, DeepFuzzyModel, WideFuzzyAutoencoder
from onefold.models.fuzzy.core import WIDTHS, Posterior, make_sets
from reference import fuzzy as literal
from reference.samples import QUICK, SAMPLES, queries, size
from tiers import later

pytestmark = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")

SMALL = QUICK
LARGE = tuple(sorted(set(SAMPLES) - set(SMALL)))


@cache
def prepared(name: str, width: float = 1.0):
    rng = np.random.default_rng(51)
    Y, n = SAMPLES[name](rng)
    deep = literal.fit_autoencoder(Y, n, ceil(0.5 * len(Y)), 3, width)
    return Y, np.array([x for x in queries(Y, rng, count=4) if literal_can(deep, x)]), n, deep


def literal_can(deep: literal.Model, x: np.ndarray) -> bool:
    """Far from all rules of narrow sets, the document's ratio is 0 / 0."""
    return any(literal.fulfilment(deep.V.T @ x, a, deep.w) > 1e-250 for a in deep.a)


# One input: K'K has a condition of 1e16, and an explicit inverse at the floor of 1e-12 keeps five digits.
DIGITS = {"one_feature": 1e-5}


def compare(name: str, width: float = 1.0) -> None:
    Y, X, n, deep = prepared(name, width)
    model = DeepFuzzyAutoencoder(n, 3, width=width).fit(Y)
    assert model.n_rules_ == len(deep.a)
    assert model.n_components_ == deep.V.shape[1]
    assert model.n_layers_ == len(deep.layers)
    np.testing.assert_allclose(model.precisions_, [layer.beta for layer in deep.layers], rtol=2e-3)
    expected = np.array([literal.outputs(deep, deep.V.T @ x) for x in X])
    for layer, output in enumerate(model.layers(X)):
        np.testing.assert_allclose(output, expected[:, layer], rtol=0, atol=DIGITS.get(name, 1e-6) * size(Y))
    images = np.array([literal.image(deep, x) for x in X])
    np.testing.assert_allclose(model.transform(X), images, rtol=0, atol=DIGITS.get(name, 1e-6) * size(Y))
    np.testing.assert_allclose(
        model.membership(X), [literal.membership(deep, x) for x in X], rtol=1e-5, atol=1e-9
    )


@pytest.mark.parametrize("name", later(SMALL, set(SMALL) - {"rank_deficient"}))
def test_deep_autoencoder_equals_the_document(name: str) -> None:
    compare(name)


@pytest.mark.nightly
@pytest.mark.parametrize("name", LARGE)
def test_deep_autoencoder_equals_the_document_on_larger_samples(name: str) -> None:
    compare(name)


@pytest.mark.parametrize("name", ["more_features_than_samples", "shifted"])
def test_narrow_sets_equal_the_document(name: str) -> None:
    compare(name, 0.3)


def test_some_samples_get_more_than_one_layer() -> None:
    """Otherwise nothing here would compare a second layer."""
    assert "shifted" in SMALL
    assert len(prepared("shifted")[3].layers) > 1


@pytest.mark.parametrize("name", ["more_features_than_samples", "shifted"])
def test_single_precision_is_close_to_the_document(name: str) -> None:
    Y, X, n, deep = prepared(name)
    model = DeepFuzzyAutoencoder(n, 3).fit(Y.astype(np.float32))
    distances = model.distance(X.astype(np.float32))
    assert distances.dtype == np.float32
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    expected = [np.linalg.norm(x - literal.image(deep, x)) for x in X]
    np.testing.assert_allclose(distances, expected, rtol=0, atol=2e-3 * size(Y))


def test_wide_takes_the_largest_membership(rng: np.random.Generator) -> None:
    Y = np.vstack([rng.normal(size=(20, 5)) + 4.0 * shift for shift in range(3)])
    model = WideFuzzyAutoencoder(3, 2, branch_size=20, partition="contiguous").fit(Y)
    branches = [literal.fit_autoencoder(part, 3, 10, 2) for part in np.split(Y, 3)]
    X = queries(Y, rng, count=4)
    expected = [max(literal.membership(branch, x) for branch in branches) for x in X]
    np.testing.assert_allclose(model.membership(X), expected, rtol=1e-6)
    np.testing.assert_allclose(1.0 - model.folding(X, "fuzzy"), expected, rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("factor", [0.05, 4.0])
def test_scale_equals_a_fit_on_scaled_data(factor: float) -> None:
    Y, X, n, _ = prepared("shifted")
    deep = literal.fit_autoencoder(factor * Y, n, ceil(0.5 * len(Y)), 2)
    model = DeepFuzzyAutoencoder(n, 2, scale=factor).fit(Y)
    expected = np.array([literal.image(deep, factor * x) / factor for x in X])
    np.testing.assert_allclose(model.transform(X), expected, rtol=0, atol=1e-6 * size(Y))
    memberships = [literal.membership(deep, factor * x) for x in X]
    np.testing.assert_allclose(model.membership(X), memberships, rtol=1e-5)


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    N=st.integers(1, 10),
    n=st.integers(1, 4),
    outputs=st.integers(1, 3),
    log_scale=st.floats(-2.0, 2.0),
    offset=st.floats(-5.0, 5.0),
    width=st.sampled_from([1.0, 0.3]),
    copies=st.integers(1, 2),
    seed=st.integers(0, 2**31),
)
def test_regression_equals_the_document_for_any_shape(
    N: int, n: int, outputs: int, log_scale: float, offset: float, width: float, copies: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.normal(size=(N, n)) + offset, copies, axis=0)
    y = 10.0**log_scale * (
        np.sin(x @ rng.normal(size=(n, outputs))) + 0.1 * rng.normal(size=(len(x), outputs))
    )
    expected = literal.learn(x, y, ceil(0.5 * len(x)), np.zeros((outputs, 0)), 1, width)
    model = DeepFuzzyModel(n_layers=1, width=width, scale=None).fit(x, y)
    assert model.n_rules_ == len(expected.a)
    found = model.predict(x)
    wanted = np.array([literal.outputs(expected, row)[-1] for row in x])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(y).max())


def test_the_document_and_a_prior_at_the_mean_differ_by_a_constant_only(rng: np.random.Generator) -> None:
    """Shares add up to one, so a shift of outputs and prior shifts consequents; here it is nothing."""
    Y = rng.random((40, 6))
    V = literal.directions(Y, 4)
    ours, printed = (literal.learn(Y @ V, Y, 20, V, 1, prior=prior) for prior in (None, np.zeros(6)))
    assert ours.layers[0].beta == pytest.approx(printed.layers[0].beta, rel=1e-4)
    for row in Y[:5] @ V:
        np.testing.assert_allclose(literal.outputs(ours, row), literal.outputs(printed, row), atol=1e-4)


def test_model_of_encodings_equals_the_autoencoder(rng: np.random.Generator) -> None:
    """003 Alg. 2 is Alg. 1 for x = V'y, further layers included."""
    Y = 0.2 * rng.normal(size=(40, 8))
    autoencoder = DeepFuzzyAutoencoder(5, 3).fit(Y)
    V = literal.directions(Y, 5)
    model = DeepFuzzyModel(n_layers=3, width=1.0, scale=None).fit(Y @ V, Y)
    assert model.n_layers_ == autoencoder.n_layers_ == 3
    np.testing.assert_allclose(model.precisions_, autoencoder.precisions_, rtol=1e-9)
    X = queries(Y, rng, count=4)
    np.testing.assert_allclose(model.predict(X @ V), autoencoder.transform(X), rtol=0, atol=1e-8)
    turned = DeepFuzzyModel(n_layers=3, width=1.0, scale=None).fit(7.0 - Y @ V, Y)
    assert turned.n_layers_ == 3
    np.testing.assert_allclose(turned.predict(7.0 - X @ V), autoencoder.transform(X), rtol=0, atol=1e-8)
    assert DeepFuzzyModel(n_layers=3, width=1.0, scale=None).fit((Y @ V)[:, ::-1], Y).n_layers_ == 1


@pytest.mark.parametrize("factor", [1.0, 0.01, 30.0])
def test_free_energy_equals_the_document(factor: float, rng: np.random.Generator) -> None:
    x = rng.normal(size=(30, 2))
    y = np.column_stack([np.sin(x[:, 0]), x[:, 1]]) + 0.1 * rng.normal(size=(30, 2))
    targets = y - y.mean(axis=0)
    K = make_sets(x, 8, 0.5).shares(x)
    posterior = Posterior.of(K, targets, factor)
    found = posterior.free_energy(posterior.precision())
    assert found == pytest.approx(literal.free_energy(K, factor * targets, np.zeros(2)), rel=1e-6)


def test_width_with_the_largest_evidence_is_chosen(rng: np.random.Generator) -> None:
    x = rng.random((60, 1))
    y = np.sin(15.0 * x) + 0.05 * rng.normal(size=(60, 1))
    model = DeepFuzzyModel(max_rules=12, scale=None).fit(x, y)
    sets = [make_sets(x, 12, width) for width in WIDTHS]
    values = [literal.free_energy(each.shares(x), y, y.mean(axis=0)) for each in sets]
    assert model.width_ == WIDTHS[int(np.argmax(values))]
    np.testing.assert_allclose(model.rules_[0].widths, model.width_ * np.ptp(x, axis=0))
