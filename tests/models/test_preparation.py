"""Which units columns get, and that raw units are classified no worse than standardised columns."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM, io
from onefold.exceptions import InvalidInputError
from onefold.federated import LocalModel
from onefold.models import Preparation, find_preparation
from onefold.models.preparation import ColumnSpread, batches_of_about

CLASSIFIERS = (AutoencoderClassifier(), FoldingClassifier())


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_wine_in_raw_units_is_told_apart_as_well_as_standardised(model) -> None:
    X, y = load_wine(return_X_y=True)
    raw = cross_val_score(model, X, y).mean()
    standardised = cross_val_score(make_pipeline(StandardScaler(), model), X, y).mean()
    assert raw > 0.92
    assert raw >= standardised - 0.01
    assert cross_val_score(clone(model).set_params(preparation=None), X, y).mean() < 0.87


def test_rows_are_standardised_where_units_differ_and_left_where_they_are_one() -> None:
    X, y = load_digits(return_X_y=True)
    assert find_preparation(X[:500], y[:500]) is None  # margins of images hardly vary, and should stay so
    X, y = load_iris(return_X_y=True)
    assert find_preparation(X, y) is None
    X, y = load_wine(return_X_y=True)
    found = find_preparation(X, y)
    assert found is not None
    prepared = found.apply(X)
    np.testing.assert_allclose(prepared.mean(axis=0), 0.0, atol=0.01)
    np.testing.assert_allclose(prepared.std(axis=0), 1.0, atol=0.02)


@pytest.mark.parametrize("unit", [1e-200, 1e-12, 1e12, 1e200])
def test_same_preparation_is_found_in_any_unit(unit) -> None:
    X, y = load_wine(return_X_y=True)
    one, other = find_preparation(X, y), find_preparation(unit * X, y)
    assert one is not None
    assert other is not None
    np.testing.assert_allclose(other.apply(unit * X), one.apply(X), rtol=0, atol=0.1)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.ones((50, 3)), np.arange(50) % 2),
        (np.arange(100.0).reshape(50, 2), np.zeros(50, dtype=int)),
        (np.arange(30.0).reshape(15, 2), np.arange(15) % 2),
        (np.arange(50.0)[:, None], np.arange(50) % 2),
    ],
    ids=["equal rows", "one class", "few rows", "one column"],
)
def test_rows_without_evidence_are_left_as_they_are(X, y) -> None:
    assert find_preparation(X, y) is None


def test_chance_alone_standardises_about_one_table_in_forty_or_fewer() -> None:
    """Columns of one unit with classes by chance: two standard errors are hardly ever passed."""
    rng = np.random.default_rng(4)
    found = [find_preparation(rng.normal(size=(60, 4)), rng.integers(0, 2, 60)) for _ in range(100)]
    assert sum(preparation is not None for preparation in found) <= 8


def test_largest_entries_of_a_query_stay_finite() -> None:
    preparation = Preparation(np.zeros(2), np.array([1e-10, 1.0]))
    for dtype in (np.float32, np.float64):
        prepared = preparation.apply(np.array([[np.finfo(dtype).max, 1.0]], dtype=dtype))
        assert prepared.dtype == dtype
        assert np.isfinite(prepared).all()


@pytest.mark.parametrize(("location", "scale"), [([0.0], [0.0]), ([0.0], [1.0, 1.0]), ([np.nan], [1.0])])
def test_impossible_preparations_are_refused(location, scale) -> None:
    with pytest.raises(InvalidInputError):
        Preparation(np.array(location), np.array(scale))


@pytest.mark.parametrize("given", ["auto", "own"])
@pytest.mark.parametrize("compact", [False, True])
def test_file_holds_the_preparation(given, compact, tmp_path) -> None:
    X, y = load_wine(return_X_y=True)
    preparation = Preparation.of(X) if given == "own" else "auto"
    model = FoldingClassifier(preparation=preparation).fit(X, y)
    io.save(model, tmp_path / "model", compact=compact)
    loaded = io.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.distances(X[:9]), model.distances(X[:9]), rtol=1e-9)
    np.testing.assert_allclose(loaded.predict_proba(X[:9]), model.predict_proba(X[:9]), atol=1e-9)
    assert loaded.settings_.batch_size == model.settings_.batch_size == 48
    np.testing.assert_allclose(clone(loaded).fit(X, y).distances(X[:9]), model.distances(X[:9]), rtol=1e-9)


def test_site_of_a_federation_prepares_nothing_unless_told() -> None:
    """Each site would find other units, and answers could not be compared."""
    X, y = load_wine(return_X_y=True)
    own = LocalModel(FoldingClassifier(measure="euclidean")).fit(X, y).estimator_
    assert own.settings_.preparation is None
    assert own.settings_.batch_size == 50
    public = Preparation.of(X)
    told = LocalModel(FoldingClassifier(measure="euclidean", preparation=public)).fit(X, y)
    expected = LocalModel(FoldingClassifier(measure="euclidean")).fit(public.apply(X), y)
    np.testing.assert_allclose(
        told.answers(X[:9], classes=told.classes_),
        expected.answers(public.apply(X[:9]), classes=told.classes_),
        rtol=1e-9,
    )


def test_named_machines_see_rows_as_they_are() -> None:
    X, y = load_wine(return_X_y=True)
    assert AutoencoderClassifier(WideKAHM()).fit(X, y).settings_.preparation is None


def test_head_learns_from_prepared_rows() -> None:
    X, y = load_wine(return_X_y=True)
    public = Preparation.of(X)
    one = AutoencoderClassifier(head="ridge", preparation=public).fit(X, y)
    other = AutoencoderClassifier(head="ridge", preparation=None).fit(public.apply(X), y)
    expected = other.predict_proba(public.apply(X))
    np.testing.assert_allclose(one.predict_proba(X), expected, atol=1e-9)


@pytest.mark.parametrize(("sizes", "expected"), [((60, 90), 50), ((60, 30), 30), ((60, 3), 20)])
def test_batches_are_of_fifty_rows_or_of_the_smallest_class(sizes, expected) -> None:
    codes = np.repeat([0, 1], sizes)
    assert batches_of_about(codes) == expected
    rng = np.random.default_rng(0)
    for model in CLASSIFIERS:
        fitted = clone(model).fit(rng.normal(size=(len(codes), 3)), codes)
        assert fitted.family.branch_size == expected
        assert fitted.family.n_layers == 1
        assert fitted.family.partition == "contiguous"


@pytest.mark.parametrize("entry", [0.3, 1e16 + 2.0, -1e100])
def test_columns_of_equal_entries_become_nothing_however_they_are_added_up(entry: float) -> None:
    rows = np.full((30, 1), entry)
    for parts in ([rows], np.array_split(rows, 7)):
        found = Preparation.standardising(ColumnSpread.total(map(ColumnSpread.of, parts)))
        np.testing.assert_allclose(found.apply(rows), 0.0, atol=1e-14)
