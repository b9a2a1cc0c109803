"""What every family of autoencoders promises; a further family is one line in ``FAMILIES``."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone

from onefold import (
    KAHM,
    AutoencoderClassifier,
    DeepFuzzyAutoencoder,
    DeepKAHM,
    DeepMembershipAutoencoder,
    WideFuzzyAutoencoder,
    WideKAHM,
    WideMembershipAutoencoder,
    io,
)
from onefold.models import MEASURES, Autoencoder
from tiers import thinned

pytestmark = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")

FAMILIES: dict[str, Autoencoder] = {
    "machine": KAHM(n_components=5),
    "deep machine": DeepKAHM(n_components=5, n_layers=3),
    "wide machine": WideKAHM(n_components=5, n_layers=2, branch_size=20, partition="contiguous"),
    "deep membership": DeepMembershipAutoencoder(n_components=5, n_layers=3),
    "wide membership": WideMembershipAutoencoder(
        n_components=5, n_layers=2, branch_size=20, partition="contiguous"
    ),
    "deep fuzzy": DeepFuzzyAutoencoder(n_components=3, n_layers=3),
    "wide fuzzy": WideFuzzyAutoencoder(
        n_components=5, n_layers=2, branch_size=20, partition="contiguous", width=0.3
    ),
}
# Batches of consecutive rows: there the order is a setting.
ORDERED = {"wide machine", "wide membership", "wide fuzzy"}


@pytest.fixture(params=FAMILIES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def family(name: str) -> Autoencoder:
    return clone(FAMILIES[name])


def assert_answers(model: Autoencoder, X: np.ndarray) -> None:
    images, distances = model.transform(X), model.distance(X)
    assert images.shape == X.shape
    assert np.isfinite(images).all()
    assert np.isfinite(distances).all()
    assert (distances >= 0).all()
    for measure in MEASURES[1:]:
        values = model.folding(X, measure)
        assert ((values >= 0) & (values <= 1)).all()


@pytest.mark.parametrize(
    ("name", "shape"), thinned(FAMILIES, [(60, 8), (40, 90), (150, 200), (5, 3), (2, 4), (60, 1)])
)
def test_answers_are_finite_and_agree(family: Autoencoder, shape, rng: np.random.Generator) -> None:
    Y = rng.normal(size=shape) + 0.5
    model = family.fit(Y)
    X = np.vstack([Y[:5], rng.normal(size=(5, shape[1])), np.zeros((1, shape[1]))])
    assert_answers(model, X)
    gaps = np.linalg.norm(X - model.transform(X), axis=1)
    np.testing.assert_allclose(model.distance(X), gaps, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(model.score_samples(X), -model.distance(X))


def test_order_of_samples_does_not_matter(name: str, family: Autoencoder, rng: np.random.Generator) -> None:
    if name in ORDERED:
        pytest.skip("its branches are consecutive rows")
    Y = rng.normal(size=(60, 8))
    X = rng.normal(size=(10, 8))
    expected = clone(family).fit(Y).distance(X)
    np.testing.assert_allclose(clone(family).fit(Y[::-1]).distance(X), expected, rtol=1e-7, atol=1e-9)
    shuffled = clone(family).fit(Y[rng.permutation(60)]).distance(X)
    np.testing.assert_allclose(shuffled, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("name", "shift"), thinned(FAMILIES, [0.0, 30.0]))
def test_far_points_have_large_distances(family: Autoencoder, shift: float, rng: np.random.Generator) -> None:
    """The origin is such a point where the samples are far from it."""
    Y = rng.normal(size=(60, 8)) + shift
    model = family.fit(Y)
    directions = rng.normal(size=(20, 8))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for radius in (100.0, 1e4, 1e10, 1e100, 1e150):
        X = shift + radius * directions
        assert np.all(model.distance(X) >= 0.5 * cdist(X, Y).min(axis=1))
    if shift:
        origin = np.zeros((1, 8))
        assert model.distance(origin)[0] >= 0.5 * cdist(origin, Y).min()
    assert_answers(model, np.vstack([1e300 * directions, -1e-300 * directions]))


def test_samples_are_nearer_than_others(family: Autoencoder, rng: np.random.Generator) -> None:
    Y = rng.normal(size=(100, 3)) @ rng.normal(size=(3, 10))
    model = family.set_params(scale="auto").fit(Y[:80])
    own, others = model.distance(Y[80:]), model.distance(2.0 * rng.normal(size=(20, 10)))
    assert np.median(own) < 0.5 * np.median(others)


def test_refit_is_identical(family: Autoencoder, rng: np.random.Generator) -> None:
    Y, X = rng.normal(size=(60, 8)), rng.normal(size=(10, 8))
    first = family.fit(Y).transform(X)
    family.fit(rng.normal(size=(30, 8)))  # what was learned before leaves no trace
    np.testing.assert_array_equal(family.fit(Y).transform(X), first)
    np.testing.assert_array_equal(clone(family).fit(Y).transform(X), first)


@pytest.mark.exact
@pytest.mark.parametrize(
    ("name", "shape", "dtype"), thinned(FAMILIES, [(60, 8), (40, 90)], [np.float64, np.float32])
)
def test_saved_and_loaded_is_the_same(family: Autoencoder, shape, dtype, rng: np.random.Generator) -> None:
    Y, X = rng.normal(size=shape).astype(dtype), rng.normal(size=(10, shape[1])).astype(dtype)
    model = family.fit(Y)
    loaded = io.from_bytes(io.to_bytes(model))
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    np.testing.assert_array_equal(loaded.distance(X), model.distance(X))
    np.testing.assert_array_equal(loaded.folding(X), model.folding(X))


@pytest.mark.parametrize(
    ("name", "n_samples", "value"), thinned(FAMILIES, [1, 2, 3, 25], [0.0, -3.5, 1e-12, 1e12])
)
def test_one_sample_and_constant_data_are_reproduced(
    family: Autoencoder, n_samples: int, value: float
) -> None:
    Y = np.full((n_samples, 4), value)
    model = family.fit(Y)
    X = np.vstack([Y[:1], Y[:1] + 1.0, np.zeros((1, 4))])
    np.testing.assert_allclose(model.transform(X), np.tile(Y[:1], (3, 1)), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.distance(X), np.linalg.norm(X - Y[0], axis=1), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("name", "distinct"), thinned(FAMILIES, [1, 2, 3, 7]))
def test_duplicate_samples_give_finite_answers(
    family: Autoencoder, distinct: int, rng: np.random.Generator
) -> None:
    Y = np.repeat(rng.normal(size=(distinct, 5)), 10, axis=0)
    model = family.fit(Y)
    assert_answers(model, np.vstack([Y[::10], rng.normal(size=(3, 5)), 1e6 * rng.normal(size=(3, 5))]))


def test_constant_columns_and_a_huge_one_give_finite_answers(
    family: Autoencoder, rng: np.random.Generator
) -> None:
    Y = rng.normal(size=(40, 6))
    Y[:, 1], Y[:, 4] = 2.5, 0.0
    assert_answers(family.fit(Y), rng.normal(size=(5, 6)))
    Y[:, 0] *= 1e12
    assert_answers(family.fit(Y), rng.normal(size=(5, 6)))


@pytest.mark.parametrize(("name", "size"), thinned(FAMILIES, [1e-300, 1e-30, 1e30, 1e200]))
def test_numbers_of_any_size_give_finite_answers(
    family: Autoencoder, size: float, rng: np.random.Generator
) -> None:
    Y = rng.normal(size=(40, 6))
    model = family.fit(size * Y)
    assert_answers(model, size * rng.normal(size=(5, 6)))
    assert_answers(model, rng.normal(size=(5, 6)))


def test_single_precision_is_close_to_double(family: Autoencoder, rng: np.random.Generator) -> None:
    Y, X = rng.normal(size=(60, 8)), rng.normal(size=(10, 8))
    double = clone(family).fit(Y)
    single = clone(family).fit(Y.astype(np.float32))
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    assert single.distance(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.distance(X.astype(np.float32)), double.distance(X), rtol=0, atol=5e-3)


@pytest.mark.exact
@pytest.mark.parametrize(("name", "measure"), thinned(FAMILIES, MEASURES))
def test_classifier_of_any_family_learns_and_survives_saving(
    family: Autoencoder, measure: str, rng: np.random.Generator
) -> None:
    y = np.repeat([0, 1, 2], 40)
    X = rng.normal(size=(120, 8)) + 4.0 * np.eye(8)[y]
    model = AutoencoderClassifier(family, measure).fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) >= 0.9
    loaded = io.from_bytes(io.to_bytes(model))
    np.testing.assert_array_equal(loaded.distances(X), model.distances(X))
    assert type(model.machines_[0]) is type(family)
