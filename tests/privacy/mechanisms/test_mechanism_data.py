"""Containers and precisions in, the same out; anything unusable is one line without values of the data."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer
from tests.tiers import thinned

from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy import AnalyticGaussian, Ball, Box, Gaussian, Laplace, OptimalNoise, domains

KINDS = [Laplace, OptimalNoise, Gaussian, AnalyticGaussian]
every_sampler = pytest.mark.parametrize("sampler", ["float", "hardened"])


def make(kind, sampler: str = "hardened", **options):
    return kind(0.5, sensitivity=options.pop("sensitivity", 1.0), sampler=sampler, **options)


@pytest.mark.parametrize(("sampler", "kind"), thinned(["float", "hardened"], KINDS))
def test_randomise_accepts_arrays_of_every_shape(kind, sampler: str) -> None:
    noise = make(kind, sampler)
    for shape in [(), (0,), (5,), (3, 4), (0, 4), (4, 0), (2, 3, 4)]:
        X = np.full(shape, 0.25)
        noisy = noise.randomise(X, random_state=0)
        assert noisy.shape == shape
        assert noisy.dtype == np.float64
        assert np.array_equal(X, np.full(shape, 0.25))  # the input is left alone
        assert noise.sample(shape, random_state=0).shape == shape
    assert noise.sample(3, random_state=0).shape == (3,)


@every_sampler
def test_the_noise_is_added_to_the_data(sampler: str) -> None:
    X = np.random.default_rng(1).normal(size=(50, 4))
    noise = Laplace(2.0, sensitivity=1.0, sampler=sampler)
    difference = noise.randomise(X, random_state=3) - X
    assert difference == pytest.approx(noise.sample((50, 4), random_state=3), abs=1e-6)


@every_sampler
def test_randomise_keeps_float32_and_rounds_after_the_noise(sampler: str) -> None:
    noise = Laplace(1.0, sensitivity=1.0, sampler=sampler)
    X = np.random.default_rng(2).random((20, 3))
    wide = noise.randomise(X.astype(np.float32).astype(np.float64), random_state=4)
    narrow = noise.randomise(X.astype(np.float32), random_state=4)
    assert narrow.dtype == np.float32
    assert np.array_equal(narrow, wide.astype(np.float32))  # rounded last, after the noise
    for whole in (np.int8, np.uint8, np.int64, bool):
        result = noise.randomise((X > 0.5).astype(whole), random_state=4)
        assert result.dtype == np.float64
        assert np.unique(result).size > 50
    assert noise.randomise([[1, 2], [3, 4]], random_state=4).shape == (2, 2)


@every_sampler
def test_data_frames_keep_columns_but_no_index(sampler: str) -> None:
    frame = pd.DataFrame({"age": [30, 40, 50], "height": [1.7, 1.8, 1.9]}, index=["a", "b", "c"])
    noisy = Laplace(1.0, sensitivity=1.0, sampler=sampler).randomise(frame, random_state=5)
    assert isinstance(noisy, pd.DataFrame)
    assert list(noisy.columns) == ["age", "height"]
    assert list(noisy.index) == [0, 1, 2]  # names of rows may be names of people
    assert (noisy.dtypes == np.float64).all()
    assert not np.any(noisy.to_numpy() == frame.to_numpy())
    assert (Laplace(1.0, sensitivity=1.0).randomise(frame.astype(np.float32)).dtypes == np.float32).all()
    series = Laplace(1.0, sensitivity=1.0, sampler=sampler).randomise(frame["height"], random_state=5)
    assert isinstance(series, pd.Series)
    assert series.name == "height"
    nullable = frame.astype({"age": "Int64"})
    assert Laplace(1.0, sensitivity=1.0).randomise(nullable, random_state=5).shape == (3, 2)


@pytest.mark.parametrize(("sampler", "kind"), thinned(["float", "hardened"], KINDS))
def test_pairs_get_independent_noise_on_both_members(kind, sampler: str) -> None:
    noise = make(kind, sampler)
    X, Y = np.zeros((300, 4)), np.zeros((300, 2))
    noisy_X, noisy_Y = noise.randomise_pair(X, Y, random_state=6)
    assert (noisy_X.shape, noisy_Y.shape) == ((300, 4), (300, 2))
    for column in noisy_X.T:
        assert abs(np.corrcoef(column, noisy_Y[:, 0])[0, 1]) < 0.25
    assert np.mean(np.abs(noisy_Y)) == pytest.approx(noise.expected_magnitude, rel=0.25)
    frame = pd.DataFrame(X, columns=list("abcd"))
    kept, targets = noise.randomise_pair(frame, pd.Series(np.arange(300), name="target"), random_state=6)
    assert list(kept.columns) == list("abcd")
    assert targets.name == "target"
    assert np.abs(targets - np.arange(300)).min() > 0
    empty_X, empty_Y = noise.randomise_pair(np.zeros((0, 4)), np.zeros(0))
    assert (empty_X.shape, empty_Y.shape) == ((0, 4), (0,))


def test_a_record_of_a_pair_is_a_row_of_both() -> None:
    noise = Laplace(1.0, sensitivity=Box([0, 0, 10], [1, 1, 20]), unit="record")
    assert noise.scale == pytest.approx(12.0, rel=1e-3)
    _, Y = noise.randomise_pair(np.zeros((4000, 2)), np.zeros(4000), random_state=7)
    assert np.mean(Y) == pytest.approx(10, abs=1)  # clipped to its own bounds
    with pytest.raises(InvalidInputError, match="calibrated for 3 features, the data have 4"):
        noise.randomise_pair(np.zeros((3, 2)), np.zeros((3, 2)))
    with pytest.raises(InvalidInputError, match="as many rows"):
        noise.randomise_pair(np.zeros((3, 2)), np.zeros(4))


@every_sampler
def test_values_are_clipped_before_the_noise(sampler: str) -> None:
    noise = Laplace(1000.0, sensitivity=Box(0, 1), sampler=sampler)
    noisy = noise.randomise([[-50.0, 0.5, 70.0]], random_state=8)
    assert noisy == pytest.approx(np.array([[0, 0.5, 1]]), abs=0.1)
    rows = AnalyticGaussian(1e5, sensitivity=Ball(1.0, n_features=2), unit="record", sampler=sampler)
    assert np.linalg.norm(rows.randomise([[300.0, 400.0]], random_state=8)) == pytest.approx(1, abs=0.1)


SECRET = 123456.789
BAD_DATA = [
    ([[np.nan]], "NaN or infinite"),
    ([[np.inf]], "NaN or infinite"),
    ([[-np.inf, SECRET]], "NaN or infinite"),
    ([["a", str(SECRET)]], "numbers only"),
    ([[1j * SECRET]], "real numbers only"),
    ([[1.0], [2.0, SECRET]], "numbers only"),
    ([[None, SECRET]], "NaN or infinite"),
    (np.array([[2**60]]), "beyond 2\\*\\*53"),
    (np.array([[-(2**63)]]), "beyond 2\\*\\*53"),
    (scipy.sparse.csr_array(np.array([[SECRET]])), "sparse"),
    (np.ma.masked_array([[SECRET]], mask=[[True]]), "masked"),
    (pd.DataFrame({"a": ["x"], "b": [SECRET]}), "numbers only"),
    (pd.DataFrame({"a": pd.array([None, 1], dtype="Int64")}), "numbers only|NaN"),
    (np.array([np.datetime64("2020-01-01")]), "real numbers only"),
]


@every_sampler
@pytest.mark.parametrize("X, message", BAD_DATA)
def test_data_that_cannot_be_randomised_are_refused(X: object, message: str, sampler: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        Laplace(1.0, sensitivity=1.0, sampler=sampler).randomise(X)
    text = str(caught.value)
    assert "\n" not in text
    assert str(SECRET) not in text
    assert "123456" not in text


@pytest.mark.parametrize(
    ("kind", "epsilon"),
    thinned(KINDS, [0, -1, np.nan, np.inf, -np.inf, "1", None, True, 1e-300, 1e300, 10**400, [1.0]]),
)
def test_invalid_epsilon_is_refused(kind, epsilon: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^epsilon must[^\n]*$"):
        kind(epsilon, sensitivity=1.0)


@pytest.mark.parametrize(
    ("kind", "delta"), thinned(KINDS[1:], [1, -0.1, 1.5, np.nan, np.inf, "x", None, True])
)
def test_invalid_delta_is_refused(kind, delta: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^delta must[^\n]*$"):
        kind(0.5, delta, 1.0)


@pytest.mark.parametrize("kind", [Gaussian, AnalyticGaussian])
def test_gaussian_noise_without_delta_is_refused(kind) -> None:
    with pytest.raises(InvalidInputError, match=r"^delta must[^\n]*$"):
        kind(0.5, 0, 1.0)


@pytest.mark.parametrize(("kind", "value"), thinned(KINDS, [0, -1, np.nan, np.inf, "x", True]))
def test_invalid_sensitivity_is_refused(kind, value: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^sensitivity must[^\n]*$"):
        kind(0.5, sensitivity=value)


@pytest.mark.parametrize(("kind", "d"), thinned(KINDS, [5e-324, 1e-320, 1e-300, 1.7e308]))
def test_noise_scales_outside_float64_are_refused(kind, d: float) -> None:
    for sampler in ("float", "hardened"):
        with pytest.raises(InvalidInputError, match="rescale the data"):
            kind(0.5, sensitivity=d, sampler=sampler)


@pytest.mark.parametrize(
    ("kind", "d", "epsilon"),
    thinned([Laplace, OptimalNoise, AnalyticGaussian], [1e-200, 1e-9, 1e9, 1e200], [1e-5, 1.0, 1e4]),
)
def test_extreme_noise_scales_within_float64_work(kind, d: float, epsilon: float) -> None:
    for sampler in ("float", "hardened"):
        noise = kind(epsilon, sensitivity=d, sampler=sampler)
        sample = noise.sample(4000, random_state=0)
        assert np.mean(np.abs(sample)) == pytest.approx(noise.expected_magnitude, rel=0.1)
        noisy = noise.randomise(np.full((10, 2), d), random_state=0)
        assert np.isfinite(noisy).all()
        assert np.unique(noisy).size == 20


def test_other_invalid_parameters_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="delta 0"):
        Laplace(1.0, 1e-5)
    with pytest.raises(InvalidInputError, match="delta 0"):
        Laplace(1.0, np.nan)
    assert Laplace(1.0, 0.0, 2.0, sampler="float").scale == 2.0
    assert Laplace(1.0, delta=0.0, sensitivity=2.0).delta == 0.0
    for epsilon in (1.0, 1.5, 30.0):
        with pytest.raises(InvalidInputError, match="below 1 only: use AnalyticGaussian"):
            Gaussian(epsilon, sensitivity=1.0)
    with pytest.raises(InvalidInputError, match="unit must be"):
        Laplace(1.0, sensitivity=1.0, unit="row")
    with pytest.raises(InvalidInputError, match="rows_per_person"):
        Laplace(1.0, sensitivity=1.0, unit="person")
    with pytest.raises(InvalidInputError, match="sampler must be"):
        Laplace(1.0, sensitivity=1.0, sampler="fast")
    with pytest.raises(InvalidInputError, match="whole rows"):
        Laplace(1.0, sensitivity=Ball(1.0))
    with pytest.raises(InvalidInputError, match="epsilon is too small"):
        Laplace(1e-8, sensitivity=1.0)
    with pytest.raises(InvalidInputError, match="the domain has 3 features"):
        Laplace(1.0, sensitivity=Box([0] * 3, [1] * 3), n_features=4)


def test_invalid_calls_are_refused() -> None:
    noise = Laplace(1.0, sensitivity=1.0)
    for shape in (-1, (2, -1), 1.5, "3", (2, None), True):
        with pytest.raises(InvalidInputError, match="shape"):
            noise.sample(shape)  # type: ignore[arg-type]
    for state in (-1, 1.5, "0", np.random.RandomState(0), True):
        for sampler in ("float", "hardened"):
            with pytest.raises(InvalidInputError, match="random_state"):
                Laplace(1.0, sensitivity=1.0, sampler=sampler).sample(3, random_state=state)  # type: ignore[arg-type]
    for n_features in (0, -1, 1.5, None):
        with pytest.raises(InvalidInputError, match="n_features"):
            noise.guarantee(n_features)  # type: ignore[arg-type]
    record = Laplace(1.0, sensitivity=1.0, unit="record", n_features=3)
    with pytest.raises(InvalidInputError, match="2D table"):
        record.randomise([1.0, 2.0, 3.0])
    with pytest.raises(InvalidInputError, match="calibrated for 3 features, the data have 2"):
        record.randomise([[1.0, 2.0]])
    with pytest.raises(InvalidInputError, match="calibrated for 3 features"):
        record.guarantee(4)


def test_bounds_taken_from_the_data_void_the_guarantee() -> None:
    X = np.random.default_rng(0).random((20, 3))
    with pytest.warns(PrivacyLeakWarning, match="declare them"):
        box = domains.from_data(X)
    for kind in KINDS:
        guarantee = make(kind, sensitivity=box).guarantee(3)
        assert not guarantee.holds
        assert "inferred from the data" in guarantee.voided_by[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Laplace(1.0, sensitivity=Box(X.min(axis=0), X.max(axis=0) + 1)).guarantee(3).holds


@pytest.mark.parametrize(("sampler", "kind"), thinned(["float", "hardened"], KINDS))
def test_copied_and_pickled_mechanisms_draw_the_same_noise(kind, sampler: str) -> None:
    noise = make(kind, sampler)
    expected = noise.sample(20, random_state=1)
    for twin in (copy.deepcopy(noise), pickle.loads(pickle.dumps(noise))):  # noqa: S301
        assert np.array_equal(twin.sample(20, random_state=1), expected)
    # As a parameter of an estimator it is cloned with it.
    kept = clone(FunctionTransformer(kw_args={"noise": noise})).kw_args["noise"]
    assert np.array_equal(kept.sample(20, random_state=1), expected)


def test_printed_mechanism_names_the_unit_of_epsilon() -> None:
    for kind in KINDS:
        assert "epsilon=0.5 per entry" in repr(make(kind))
    assert "per record" in repr(Laplace(1.0, sensitivity=Box(0, 1, 5), unit="record"))


@settings(max_examples=25, deadline=None)
@given(
    st.floats(1e-4, 50),
    st.floats(1e-9, 0.5),
    st.floats(1e-30, 1e30),
    st.lists(st.floats(-1, 1), min_size=1, max_size=8),
    st.sampled_from([Laplace, OptimalNoise, AnalyticGaussian]),
    st.sampled_from(["hardened", "float"]),
)
def test_any_reasonable_numbers_give_finite_noisy_ones(epsilon, delta, d, values, kind, sampler) -> None:
    noise = kind(epsilon, 0.0 if kind is Laplace else delta, d, sampler=sampler)
    X = np.array([values]) * d
    noisy = noise.randomise(X, random_state=0)
    assert np.isfinite(noisy).all()
    entry, record = noise.guarantee(len(values)).entry, noise.guarantee(len(values)).record
    assert entry == (noise.epsilon, noise.delta)
    assert record[0] >= entry[0] * (1 - 1e-9)
    assert record[1] >= entry[1] * (1 - 1e-9)
