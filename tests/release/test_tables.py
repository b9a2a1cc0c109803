"""Mixed tables: columns, order, types and ranges survive, and the sensitivity is that of the encoding."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy import FisherGaussian
from onefold.release import TableCodec, release_table

COLUMNS = {
    "age": np.array([18, 90, 40, 33], dtype=np.int16),
    "town": np.array(["b", "a", "c", "a"]),
    "income": np.array([0.0, 9e4, 3e4, 1e4], dtype=np.float32),
    "member": np.array([True, False, False, True]),
    "children": np.array([0, 3, 1, 2], dtype=np.uint8),
}
RANGES = {"age": (18, 90), "income": (0, 1e5), "children": (0, 12)}
CATEGORIES = {"town": ["c", "a", "b", "d"], "member": [False, True]}


def codec(**options: object) -> TableCodec:
    return TableCodec(COLUMNS, RANGES, CATEGORIES, **options)  # type: ignore[arg-type]


def test_there_and_back_without_noise() -> None:
    made = codec().decode(codec().encode(COLUMNS))
    assert list(made) == list(COLUMNS)
    for name, values in COLUMNS.items():
        assert made[name].dtype == values.dtype
        if name == "income":
            assert made[name] == pytest.approx(values)
        else:
            assert made[name].tolist() == values.tolist()
    assert codec().n_encoded == 3 + 4 + 2
    assert codec().inferred == ()


@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1e-6, 1e-2, 1.0, 1e6]))
@settings(max_examples=25, deadline=None)
def test_types_and_ranges_survive_any_noise(seed: int, lam: float) -> None:
    made = release_table(COLUMNS, codec(), lam, random_state=seed)
    assert list(made.columns) == list(COLUMNS)
    for name, values in COLUMNS.items():
        assert made.columns[name].dtype == values.dtype
        if name in RANGES:
            assert made.columns[name].min() >= RANGES[name][0]
            assert made.columns[name].max() <= RANGES[name][1]
        else:
            assert set(made.columns[name].tolist()) <= set(CATEGORIES[name])


def test_the_sensitivity_of_a_record_is_that_of_the_encoding() -> None:
    domain = codec().domain
    first = {name: values[:1] for name, values in COLUMNS.items()}
    farthest = {"age": [90], "town": ["d"], "income": [1e5], "member": [False], "children": [12]}
    apart = codec().encode(first) - codec().encode({k: np.array(v) for k, v in farthest.items()})
    assert np.linalg.norm(apart) == pytest.approx(domain.l2)  # children and income from 0 to the top
    assert np.abs(apart).sum() == pytest.approx(domain.l1)
    assert domain.l2**2 == pytest.approx(3 + 2 * 2)
    assert domain.entry == pytest.approx(math.sqrt(2))
    made = release_table(COLUMNS, codec(), 0.1)
    noise = FisherGaussian(0.1, sensitivity=domain)
    assert made.guarantee.record == noise.guarantee(9).record
    single = FisherGaussian(0.1, sensitivity=math.sqrt(2)).guarantee(1).entry
    assert made.guarantee.entry == pytest.approx(single)
    assert made.guarantee.n_features == 5
    assert made.guarantee.holds


def test_errors_in_the_units_of_the_columns() -> None:
    made = release_table(COLUMNS, codec(), lam=1 / 16)
    assert made.standard_errors == {
        "age": pytest.approx(144),
        "income": pytest.approx(2e5),
        "children": pytest.approx(24),
    }
    words = "\n".join(made.in_words())
    assert "nobody can estimate a person's age better than ± 144" in words
    assert made.to_dict()["record"]["epsilon"] == made.guarantee.record[0]


def test_how_often_a_category_is_kept() -> None:
    columns = {"town": np.repeat(["a", "b", "c"], 20000)}
    made = release_table(
        columns, TableCodec(columns, categories={"town": ["a", "b", "c"]}), lam=1.0, random_state=0
    )
    assert np.mean(made.columns["town"] == columns["town"]) == pytest.approx(made.kept["town"], abs=0.01)
    assert 0.4 < made.kept["town"] < 0.8


def test_bounded_noise_keeps_what_is_allowed_without_clipping() -> None:
    columns = {"age": np.linspace(18, 90, 5000), "town": np.repeat(["a", "b"], 2500)}
    kept = TableCodec(columns, {"age": (18, 90)}, {"town": ["a", "b"]}, allowed={"age": (0, 120)})
    made = release_table(columns, kept, 1.0, bounded=True, random_state=0)
    age = made.columns["age"]
    assert age.min() >= 0
    assert age.max() <= 120
    assert np.sum(age == 0) == np.sum(age == 120) == 0  # nothing was pushed onto an edge
    assert np.all(np.abs(age - columns["age"] - 6) <= 24 + 1e-9)
    assert made.guarantee.record[0] == math.inf
    with pytest.raises(InvalidInputError, match="wider than the declared"):
        release_table(
            columns,
            TableCodec(columns, {"age": (18, 90)}, {"town": ["a", "b"]}, allowed={"age": (18, 90)}),
            1.0,
            bounded=True,
        )
    hardened = release_table(columns, kept, 1.0, bounded=True, hardened=True, random_state=0)
    assert np.all(np.abs(hardened.columns["age"] - columns["age"] - 6) <= 24)
    assert "hardened" in hardened.guarantee.mechanism


def test_words_say_when_the_range_tells_more_than_the_release() -> None:
    columns = {"age": np.linspace(18, 90, 50)}
    codec = TableCodec(columns, {"age": (18, 90)})
    strong, weak = (release_table(columns, codec, lam).in_words()[1] for lam in (1e-2, 10.0))
    assert "the declared range alone says more" in strong
    assert "range" not in weak


def test_what_is_not_declared_voids_the_guarantee() -> None:
    with pytest.warns(PrivacyLeakWarning, match="4 column"):
        inferred = TableCodec(COLUMNS, {"age": (18, 90)})
    assert inferred.inferred == ("town", "income", "member", "children")
    made = release_table(COLUMNS, inferred, 1.0)
    assert not made.guarantee.holds
    assert "do NOT hold" in str(made.guarantee)


def test_hardened() -> None:
    made = release_table(COLUMNS, codec(), 1.0, hardened=True)
    assert "hardened" in str(made.guarantee)
    assert made.guarantee.record[0] > release_table(COLUMNS, codec(), 1.0).guarantee.record[0]


SECRET = "Zebulon"


@pytest.mark.parametrize(
    "columns, ranges, categories, allowed",
    [
        ({}, {}, {}, {}),
        ({"a": np.array([1.0, np.nan])}, {"a": (0, 1)}, {}, {}),
        ({"a": np.array([1.0])}, {"b": (0, 1)}, {}, {}),
        ({"a": np.array([1.0])}, {"a": (1, 0)}, {}, {}),
        ({"a": np.array([1.0])}, {"a": "xy"}, {}, {}),
        ({"a": np.array([1.0])}, {"a": (0, 5)}, {}, {"a": (1, 9)}),
        ({"a": np.array([SECRET])}, {"a": (0, 1)}, {}, {}),
        ({"a": np.array([[1.0]])}, {}, {}, {}),
        ({"a": np.array(["2020-01-01"], dtype="datetime64[D]")}, {}, {}, {}),
        ({"a": np.array([SECRET + str(k) for k in range(500)])}, {}, {}, {}),
    ],
)
@pytest.mark.filterwarnings("ignore::onefold.exceptions.PrivacyLeakWarning")
def test_bad_tables(columns: dict, ranges: dict, categories: dict, allowed: dict) -> None:
    with pytest.raises(InvalidInputError) as caught:
        TableCodec(columns, ranges, categories, allowed)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


def test_an_undeclared_category_is_refused_without_naming_it() -> None:
    columns = {"a": np.array(["x", SECRET])}
    with pytest.raises(InvalidInputError, match="not declared") as caught:
        TableCodec(columns, categories={"a": ["x", "y"]}).encode(columns)
    assert SECRET not in str(caught.value)
    with pytest.raises(InvalidInputError, match="no error in units"):
        TableCodec(columns, categories={"a": ["x", SECRET]}).position("a")
