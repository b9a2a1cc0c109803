"""Degenerate and badly scaled training data: every image finite, every distance a number."""

import warnings

import numpy as np
import pytest
import scipy.linalg
from sklearn.base import clone

from onefold import KAHM, AutoencoderClassifier, DeepKAHM, FoldingClassifier, WideKAHM
from onefold.exceptions import DataScaleWarning
from tiers import thinned

MODELS = {
    "single": KAHM(),
    "deep": DeepKAHM(),
    "wide": WideKAHM(branch_size=8, random_state=0),
    "wide contiguous": WideKAHM(branch_size=8, partition="contiguous"),
    "single, scaled": KAHM(scale="auto"),
    "deep, scaled": DeepKAHM(scale="auto"),
    "wide, scaled": WideKAHM(branch_size=8, random_state=0, scale="auto"),
}
SCALES = [1e-150, 1e-30, 1e-8, 1e-3, 1.0, 1e3, 1e8, 1e30, 1e150]

all_models = pytest.mark.parametrize("name", sorted(MODELS))
silent = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")


def degenerate(rng: np.random.Generator) -> dict[str, np.ndarray]:
    line = np.outer(rng.normal(size=20), rng.normal(size=6))
    spiked = np.zeros((20, 6))
    spiked[7, 2] = 1.0
    outlier = rng.normal(size=(20, 6))
    outlier[0] = 1e6
    return {
        "one sample": rng.normal(size=(1, 6)),
        "two samples": rng.normal(size=(2, 6)),
        "two equal samples": np.tile(rng.normal(size=6), (2, 1)),
        "constant": np.full((20, 6), 0.1),
        "constant large": np.full((20, 6), 1e10 / 3),
        "zeros": np.zeros((20, 6)),
        "one zero sample": np.zeros((1, 6)),
        "duplicates": np.repeat(rng.normal(size=(2, 6)), 10, axis=0),
        "one differs": spiked,
        "line": line,
        "line far from the origin": line + 1e6,
        "one feature": rng.normal(size=(20, 1)),
        "one constant feature": np.ones((20, 1)),
        "fewer samples than components": rng.normal(size=(4, 30)),
        "outlier": outlier,
        "nearly equal": 1.0 + 1e-9 * rng.normal(size=(20, 6)),
        "mixed scales": rng.normal(size=(20, 6)) * [1e8, 1e4, 1.0, 1e-4, 1e-8, 0.0],
    }


def probes(Y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    p = Y.shape[1]
    directions = np.vstack([rng.normal(size=(3, p)), np.ones((1, p))])
    grown = [directions * 10.0**k for k in (-300, -100, -10, 0, 5, 20, 80, 150)]
    return np.vstack([Y, Y.mean(axis=0, keepdims=True), np.zeros((1, p)), *grown])


def assert_sound(model, X: np.ndarray) -> None:
    images, distances = model.transform(X), model.distance(X)
    assert np.isfinite(images).all()
    assert np.isfinite(distances).all()
    assert (distances >= 0).all()
    for measure in ("rms", "product", "min", "max"):
        values = model.folding(X, measure)
        assert ((values >= 0) & (values <= 1)).all()  # NaN fails too


@silent
@pytest.mark.parametrize(
    ("name", "kind"), thinned(sorted(MODELS), sorted(degenerate(np.random.default_rng(0))))
)
def test_degenerate_data_gives_finite_answers(name: str, kind: str, rng: np.random.Generator) -> None:
    Y = degenerate(rng)[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert_sound(clone(MODELS[name]).fit(Y), probes(Y, rng))


@silent
@pytest.mark.parametrize(("name", "scale"), thinned(sorted(MODELS), SCALES))
def test_data_of_any_scale_gives_finite_answers(name: str, scale: float, rng: np.random.Generator) -> None:
    Y = scale * (rng.normal(size=(25, 6)) + 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert_sound(clone(MODELS[name]).fit(Y), probes(Y, rng))


@silent
@pytest.mark.parametrize(
    ("name", "scale"), thinned(sorted(MODELS), [1e-18, 1e-10, 1e-3, 1.0, 1e3, 1e10, 1e18])
)
def test_data_of_any_scale_gives_finite_answers_in_single_precision(
    name: str, scale: float, rng: np.random.Generator
) -> None:
    Y = (scale * (rng.normal(size=(25, 6)) + 0.3)).astype(np.float32)
    directions = rng.normal(size=(5, 6))
    X = np.vstack([Y, *[directions * 10.0**k for k in (-40, -20, 0, 10, 18)]]).astype(np.float32)
    model = clone(MODELS[name]).fit(Y)
    images, distances = model.transform(X), model.distance(X)
    assert images.dtype == np.float32
    assert np.isfinite(images).all()
    assert np.isfinite(distances).all()


@pytest.mark.parametrize(
    ("name", "kind"),
    thinned(sorted(MODELS), ["one sample", "two equal samples", "constant", "zeros", "one zero sample"]),
)
@silent
def test_data_without_spread_maps_onto_the_mean(name: str, kind: str, rng: np.random.Generator) -> None:
    Y = degenerate(rng)[kind]
    X = rng.normal(size=(5, Y.shape[1]))
    model = clone(MODELS[name]).fit(Y)
    mean = Y.mean(axis=0)
    np.testing.assert_allclose(model.transform(X), np.tile(mean, (5, 1)), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(model.distance(X), np.linalg.norm(X - mean, axis=1), rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "scale", "dtype"),
    thinned(
        [(3, 2), (20, 6), (20, 60), (150, 5), (140, 200)],
        [1e-4, 1e-6, 1e-10, 1e-30],
        [np.float64, np.float32],
    ),
)
@silent
def test_data_without_a_component_is_its_mean(
    shape: tuple[int, int], scale: float, dtype: type, rng: np.random.Generator
) -> None:
    """Every encoded range is below 1e-3, so 004 Alg. 1 leaves no component though the samples differ."""
    Y = (scale * rng.uniform(0.2, 1.0, size=shape) / np.sqrt(shape[1])).astype(dtype)
    X = (scale * rng.normal(size=(6, shape[1]))).astype(dtype)
    mean = Y.mean(axis=0, dtype=float)
    tolerance = (1e-9 if dtype is np.float64 else 1e-4) * scale
    for model in (KAHM(), DeepKAHM(), WideKAHM()):
        model.set_params(regularisation="documented").fit(Y)
        np.testing.assert_allclose(model.transform(X), np.tile(mean, (6, 1)), rtol=0, atol=tolerance)
        distances = np.linalg.norm(X.astype(float) - mean, axis=1)
        np.testing.assert_allclose(model.distance(X), distances, rtol=0, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@silent
def test_branches_without_a_component_work_beside_others(dtype: type, rng: np.random.Generator) -> None:
    Y = np.vstack([rng.normal(size=(10, 4)), 5.0 + 1e-5 * rng.normal(size=(10, 4))]).astype(dtype)
    X = (5.0 + rng.normal(size=(6, 4))).astype(dtype)
    model = WideKAHM(n_components=3, n_layers=2, branch_size=10, partition="contiguous").fit(Y)
    mean = Y[10:].mean(axis=0, dtype=float)
    np.testing.assert_allclose(model.transform(X), np.tile(mean, (6, 1)), rtol=1e-5)
    np.testing.assert_allclose(model.distance(X), np.linalg.norm(X - mean, axis=1), rtol=1e-4)


@silent
def test_membership_of_the_constant_map_is_uniform(rng: np.random.Generator) -> None:
    h = KAHM().fit(np.tile(rng.normal(size=4), (5, 1))).membership(rng.normal(size=(3, 4)))
    assert h.shape == (3, 5)
    np.testing.assert_allclose(h / h.sum(axis=1, keepdims=True), 0.2, rtol=1e-12)


@pytest.mark.parametrize("measure", ["euclidean", "rms", "product", "min", "max"])
@silent
def test_classes_of_one_sample_are_classified(measure: str, rng: np.random.Generator) -> None:
    X = np.vstack([rng.normal(size=(1, 5)) + 6.0, rng.normal(size=(30, 5)), np.zeros((3, 5))])
    y = ["alone"] + ["many"] * 30 + ["zero"] * 3
    for model in (AutoencoderClassifier(measure=measure), FoldingClassifier(measure=measure, batch_size=7)):
        distances = model.fit(X, y).distances(probes(X, rng))
        assert np.isfinite(distances).all()
        assert (distances >= 0).all()
        assert model.predict(X)[0] == "alone"
        assert np.isfinite(model.matching_score(probes(X, rng))).all()


@silent
def test_matching_score_is_finite_when_every_distance_is_zero() -> None:
    """Two classes made of the same single sample: 0/0 in 000 eq. 63."""
    model = AutoencoderClassifier().fit([[1.0, 2.0], [1.0, 2.0]], [0, 1])
    scores = model.matching_score([[1.0, 2.0]])
    assert np.isfinite(scores).all()
    assert scores[0, 0] == scores[0, 1]


DOCUMENTED = {"regularisation": "documented"}


@pytest.mark.parametrize(
    ("model", "scale"),
    thinned([KAHM(), DeepKAHM(), WideKAHM(), AutoencoderClassifier(KAHM())], [1e-12, 1e-4, 1e4, 1e12]),
)
def test_images_and_distances_have_the_unit_of_the_data(scale: float, model, rng) -> None:
    """Nothing about the default machine depends on the unit, and nobody needs a warning."""
    X, y, queries = rng.normal(size=(60, 6)), np.arange(60) % 2, rng.normal(size=(9, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataScaleWarning)
        one, other = clone(model).fit(X, y), clone(model).fit(scale * X, y)
    ask = "distances" if hasattr(model, "measure") else "distance"
    expected = scale * getattr(one, ask)(queries)
    np.testing.assert_allclose(getattr(other, ask)(scale * queries), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "scale"),
    thinned(
        [
            KAHM(**DOCUMENTED),
            DeepKAHM(**DOCUMENTED),
            WideKAHM(**DOCUMENTED),
            AutoencoderClassifier(WideKAHM(**DOCUMENTED)),
            FoldingClassifier(**DOCUMENTED),
        ],
        [1e-4, 1e-3, 1e4, 1e6],
    ),
)
def test_warning_names_the_remedy(scale: float, model, rng: np.random.Generator) -> None:
    X = scale * rng.normal(size=(40, 6))
    with pytest.warns(DataScaleWarning, match='scale="auto"') as caught:
        clone(model).fit(X, np.arange(40) % 2)
    assert all("\n" not in str(warning.message) for warning in caught)
    remedied = clone(model)
    if "estimator" in model.get_params():
        remedied.set_params(estimator=WideKAHM(scale="auto"))
    else:
        remedied.set_params(scale="auto")
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataScaleWarning)
        remedied.fit(X, np.arange(40) % 2)


@pytest.mark.parametrize(
    "model", [KAHM(), DeepKAHM(), WideKAHM(), AutoencoderClassifier(), FoldingClassifier()]
)
def test_no_warning_on_ordinary_data(model, rng: np.random.Generator) -> None:
    y = np.arange(40) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataScaleWarning)
        clone(model).fit(rng.normal(size=(40, 6)), y)  # standardised
        clone(model).fit(rng.random((40, 6)), y)  # in [0, 1]
        clone(model).fit(rng.random((40, 300)) * (rng.random((40, 300)) < 0.2), y)  # like pixels


@pytest.mark.parametrize(
    ("name", "factor"),
    thinned(
        ["single, scaled", "deep, scaled", "wide, scaled"],
        [2.0**-500, 2.0**-20, 2.0**13, 2.0**500, 1e-6, 7.0, 1e6, 1e-150, 1e150],
    ),
)
def test_automatic_scale_makes_units_irrelevant(name: str, factor: float, rng: np.random.Generator) -> None:
    Y, X = rng.normal(size=(40, 6)), 1.5 * rng.normal(size=(30, 6))
    plain = clone(MODELS[name]).fit(Y)
    scaled = clone(MODELS[name]).fit(factor * Y)
    np.testing.assert_allclose(
        scaled.transform(factor * X) / factor, plain.transform(X), rtol=1e-7, atol=1e-7
    )
    np.testing.assert_allclose(scaled.distance(factor * X) / factor, plain.distance(X), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", ["single", "deep", "single, scaled", "deep, scaled"])
def test_order_of_the_samples_is_irrelevant(name: str, rng: np.random.Generator) -> None:
    Y, X = rng.normal(size=(60, 9)), 1.5 * rng.normal(size=(40, 9))
    first = clone(MODELS[name]).fit(Y).distance(X)
    second = clone(MODELS[name]).fit(Y[rng.permutation(60)]).distance(X)
    np.testing.assert_allclose(second, first, rtol=1e-8)


@all_models
def test_queries_do_not_influence_each_other(name: str, rng: np.random.Generator) -> None:
    Y = rng.normal(size=(40, 6))
    model = clone(MODELS[name]).fit(Y)
    X = np.vstack([rng.normal(size=(5, 6)), 1e150 * rng.normal(size=(2, 6)), np.zeros((1, 6))])
    alone = np.concatenate([model.distance(x[None]) for x in X])
    np.testing.assert_allclose(model.distance(X), alone, rtol=1e-9)
    np.testing.assert_allclose(
        model.transform(X), np.vstack([model.transform(x[None]) for x in X]), atol=1e-8
    )


def test_more_queries_than_a_block_give_the_same_answers(rng: np.random.Generator) -> None:
    """Blocks of queries must join without a seam."""
    Y, X = rng.normal(size=(30, 4)), rng.normal(size=(9001, 4))
    model = DeepKAHM(n_components=3, n_layers=2).fit(Y)
    distances = model.distance(X)
    images = model.transform(X)
    assert distances.shape == (9001,)
    for rows in (slice(0, 10), slice(4091, 4101), slice(8991, 9001)):
        np.testing.assert_allclose(model.distance(X[rows]), distances[rows], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(X - images, axis=1), distances, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("shape", [(60, 30), (150, 200)])
def test_an_eigenproblem_that_lapack_gives_up_is_solved_in_the_slower_way(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # LAPACK's quick way stops at times where eigenvalues are equal, as of categories with equally many rows.
    Y = np.random.default_rng(0).normal(size=shape)
    expected = KAHM(n_components=5).fit(Y).transform(Y)
    quick, calls = scipy.linalg.eigh, []

    def stops(matrix: np.ndarray, **options: object) -> object:
        if "subset_by_index" in options:
            calls.append(matrix.shape)
            raise np.linalg.LinAlgError("Internal Error.")
        return quick(matrix, **options)

    monkeypatch.setattr(scipy.linalg, "eigh", stops)
    np.testing.assert_allclose(KAHM(n_components=5).fit(Y).transform(Y), expected, atol=1e-8)
    assert calls
