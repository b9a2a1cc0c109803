"""The fast membership-mappings against the literal ones of 001 Sec. 3."""

from functools import cache
from itertools import pairwise
from math import ceil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onefold import DeepMembershipAutoencoder, MembershipMapping, WideMembershipAutoencoder, io
from onefold.models.membership import counts_from, largest_count
from reference import membership as literal
from reference.samples import QUICK, SAMPLES, queries, size
from tiers import thinned

SMALL = (*QUICK, "as_many_components_as_samples", "sparse_pixels")
LARGE = tuple(sorted(set(SAMPLES) - set(SMALL)))


@cache
def prepared(name: str, centred: bool = True):
    rng = np.random.default_rng(51)
    Y, n = SAMPLES[name](rng)
    return Y, queries(Y, rng, count=4), n, literal.fit_deep(Y, n, 3, ceil(0.5 * len(Y)), centred)


def compare(name: str, centred: bool = True) -> None:
    Y, X, n, deep = prepared(name, centred)
    model = DeepMembershipAutoencoder(n, 3, centred=centred).fit(Y)
    assert model.n_inducing_ == [len(mapping.a) for mapping in deep.mappings]
    np.testing.assert_allclose(model.taus_, [mapping.tau for mapping in deep.mappings], rtol=1e-5, atol=1e-7)
    expected = np.array([literal.layers(deep, x) for x in X])
    for layer, output in enumerate(model.layers(X)):
        np.testing.assert_allclose(output, expected[:, layer], rtol=0, atol=1e-7 * size(Y))
    images = np.array([literal.deep_image(deep, x) for x in X])
    np.testing.assert_allclose(model.transform(X), images, rtol=0, atol=1e-7 * size(Y))
    distances = np.linalg.norm(X - images, axis=1)
    np.testing.assert_allclose(model.distance(X), distances, rtol=0, atol=1e-6 * size(Y))
    loaded = io.from_bytes(io.to_bytes(model))
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))


@pytest.mark.parametrize(("name", "centred"), thinned(SMALL, [True, False]))
def test_deep_autoencoder_equals_the_document(name: str, centred: bool) -> None:
    compare(name, centred)


@pytest.mark.nightly
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("centred", [True, False])
def test_deep_autoencoder_equals_the_document_on_larger_samples(name: str, centred: bool) -> None:
    compare(name, centred)


@pytest.mark.parametrize("name", ["more_features_than_samples", "shifted"])
def test_single_precision_is_close_to_the_document(name: str) -> None:
    Y, X, n, deep = prepared(name)
    model = DeepMembershipAutoencoder(n, 3).fit(Y.astype(np.float32))
    distances = model.distance(X.astype(np.float32))
    assert distances.dtype == np.float32
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    expected = [np.linalg.norm(x - literal.deep_image(deep, x)) for x in X]
    np.testing.assert_allclose(distances, expected, rtol=0, atol=2e-3 * size(Y))


def test_wide_takes_the_nearest_branch(rng: np.random.Generator) -> None:
    Y = np.vstack([rng.normal(size=(20, 5)) + 4.0 * shift for shift in range(3)])
    model = WideMembershipAutoencoder(3, 2, branch_size=20, partition="contiguous").fit(Y)
    branches = [literal.fit_deep(part, 3, 2, 10) for part in np.split(Y, 3)]
    X = queries(Y, rng, count=4)
    expected = np.array([literal.wide_image(branches, x) for x in X])
    assert [branch.n_inducing_ for branch in model.branches_] == [
        [len(mapping.a) for mapping in branch.mappings] for branch in branches
    ]
    np.testing.assert_allclose(model.transform(X), expected, rtol=0, atol=1e-7 * size(Y))


@pytest.mark.parametrize("factor", [0.05, 4.0])
def test_scale_equals_a_fit_on_scaled_data(factor: float) -> None:
    Y, X, n, _ = prepared("shifted")
    deep = literal.fit_deep(factor * Y, n, 2, ceil(0.5 * len(Y)))
    model = DeepMembershipAutoencoder(n, 2, scale=factor).fit(Y)
    expected = np.array([literal.deep_image(deep, factor * x) / factor for x in X])
    np.testing.assert_allclose(model.transform(X), expected, rtol=0, atol=1e-7 * size(Y))


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    N=st.integers(1, 16),
    n=st.integers(1, 4),
    outputs=st.integers(1, 3),
    log_scale=st.floats(-3.0, 3.0),
    offset=st.floats(-5.0, 5.0),
    copies=st.integers(1, 3),
    centred=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_regression_equals_the_document_for_any_shape(
    N: int, n: int, outputs: int, log_scale: float, offset: float, copies: int, centred: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.normal(size=(N, n)) + offset, copies, axis=0)
    y = 10.0**log_scale * (
        np.sin(x @ rng.normal(size=(n, outputs))) + 0.1 * rng.normal(size=(len(x), outputs))
    )
    mean = y.mean(axis=0) if centred else 0.0
    mapping = literal.learn(x, y - mean, ceil(0.5 * len(x)))
    model = MembershipMapping(centred=centred).fit(x, y)
    X = queries(x, rng, count=2)
    expected = np.array([literal.predict(mapping, row) for row in X]) + mean
    assert len(model.inducing_points_) == len(mapping.a)
    np.testing.assert_allclose(model.predict(X), expected, rtol=0, atol=1e-6 * np.abs(y).max())
    np.testing.assert_allclose(model.inducing_points_, mapping.a, rtol=1e-9, atol=1e-9)
    if mapping.tau > 1e-6:
        assert model.sigma2_ == pytest.approx(mapping.sigma2, rel=1e-6)


def power_law(wanted: int, decay: float):
    return lambda count: (wanted / count) ** decay


@pytest.mark.parametrize("largest", [1, 2, 5, 9, 10, 57, 500])
def test_search_for_inducing_points_equals_going_one_by_one(largest: int) -> None:
    counts = counts_from(largest)
    assert counts[-1] == 1
    assert all(after < before for before, after in pairwise(counts))
    for wanted in counts:
        for guess in (1, largest // 4, largest):
            for decay in (0.1, 2.0, 30.0):
                assert largest_count(largest, power_law(wanted, decay), 1.0, guess) == wanted
    assert largest_count(largest, lambda count: 0.0, 1.0, largest) == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(30, 6), (30, 50), (140, 200)])
def test_zero_mean_mappings_fade_to_zero(shape, dtype, rng: np.random.Generator) -> None:
    """The document's form: far points have no image but the origin, which is therefore its own."""
    Y = (rng.normal(size=shape) + 100.0).astype(dtype)
    model = DeepMembershipAutoencoder(4, 2, centred=False).fit(Y)
    far = np.stack([np.full(shape[1], 1e4), np.zeros(shape[1])]).astype(dtype)
    scale = 100.0 * shape[1] ** 0.5
    exact = dtype == np.float64
    np.testing.assert_allclose(model.layers(far)[0], 0.0 * far, atol=scale * (1e-9 if exact else 1e-3))
    assert model.distance(far)[1] <= scale * (1e-4 if exact else 1e-2)
    loaded = io.from_bytes(io.to_bytes(model))
    np.testing.assert_array_equal(loaded.distance(Y), model.distance(Y))


def test_regression_learns_and_goes_back_to_the_mean(rng: np.random.Generator) -> None:
    x = rng.normal(size=(300, 6))
    y = np.column_stack([x[:, 0] + x[:, 1] + 5.0, np.sin(x[:, 2]) - x[:, 3]])
    model = MembershipMapping().fit(x[:200], y[:200])
    assert model.score(x[200:], y[200:]) > 0.85
    far = model.predict([[1e6] * 6, [-1e200] * 6])
    np.testing.assert_allclose(far, np.tile(y[:200].mean(axis=0), (2, 1)), rtol=1e-12)
    assert MembershipMapping().fit(x, y[:, 0]).predict(x[:3]).shape == (3,)


@pytest.mark.parametrize("size_", [1e-300, 1e-100, 1e100, 1e300])
def test_regression_does_not_depend_on_units(size_: float, rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    usual = MembershipMapping().fit(x, y).predict(x)
    np.testing.assert_allclose(MembershipMapping().fit(x * size_, y).predict(x * size_), usual, atol=1e-7)
    scaled = MembershipMapping().fit(x, y * size_).predict(x)
    assert np.isfinite(scaled).all()


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"inducing_ratio": 0.0}, "inducing_ratio"),
        ({"inducing_ratio": float("nan")}, "inducing_ratio"),
        ({"inducing_ratio": "half"}, "inducing_ratio"),
        ({"max_inducing": 0}, "max_inducing"),
        ({"centred": "yes"}, "centred"),
        ({"centred": None}, "centred"),
    ],
)
@pytest.mark.parametrize("kind", [MembershipMapping, DeepMembershipAutoencoder, WideMembershipAutoencoder])
def test_invalid_parameters_are_refused(kind, parameters, name) -> None:
    X = np.zeros((3, 2))
    with pytest.raises(ValueError, match=name):
        kind(**parameters).fit(X, X)
