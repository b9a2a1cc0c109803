"""Mixed tables: released columns have the declared form, and the sensitivity is that of the encoding."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.exceptions import InvalidInputError
from onefold.privacy import Box, FisherGaussian, domain_of
from onefold.privacy.calibration import epsilon_of
from onefold.privacy.contract import DECLARED
from onefold.release import release_table
from onefold.release.tables import measured_columns
from onefold.tables import Field, Schema

COLUMNS = {
    "age": np.array([18, 90, 40, 33]),
    "town": np.array(["b", "a", "c", "a"]),
    "income": np.array([0.0, 9e4, 3e4, 1e4]),
    "member": np.array([True, False, False, True]),
    "children": np.array([0, 3, 1, 2]),
}
SCHEMA = Schema(
    [
        Field("age", "integer", low=18, high=90),
        Field("town", "string", levels=("a", "b", "c", "d")),
        Field("income", low=0, high=1e5),
        Field("member", "boolean"),
        Field("children", "integer", low=0, high=12),
    ]
)
AGE_TOWN = Schema([Field("age", low=18, high=90), Field("town", "string", levels=("a", "b"))])


def test_weak_noise_leaves_every_column_as_it_is() -> None:
    made = release_table(COLUMNS, SCHEMA, 1e20).columns
    assert list(made) == list(COLUMNS)
    for name, values in COLUMNS.items():
        assert made[name].dtype == values.dtype
        if name == "income":
            assert made[name] == pytest.approx(values, abs=10)
        else:
            assert made[name].tolist() == values.tolist()


@pytest.mark.parametrize("seed, lam", [(0, 1e-6), (1, 1e-2), (2, 1.0), (3, 1e6)])
def test_release_table_keeps_types_and_ranges_under_any_noise(seed: int, lam: float) -> None:
    made = release_table(COLUMNS, SCHEMA, lam, random_state=seed)
    for known in SCHEMA.fields:
        values = made.columns[known.name]
        assert values.dtype == COLUMNS[known.name].dtype or known.name == "town"
        if known.is_category:
            assert set(values.tolist()) <= set(known.levels)
        else:
            assert values.min() >= known.low
            assert values.max() <= known.high


def test_allowed_whole_numbers_stay_whole_and_inside() -> None:
    schema = Schema([Field("n", "integer", low=0, high=10)])
    columns = {"n": [0, 10] * 500}
    kept = release_table(columns, schema, 1.0, allowed={"n": (-3.5, math.inf)}, random_state=0).columns["n"]
    assert kept.dtype == np.int64
    assert kept.min() == -3
    assert kept.max() > 20
    wide = {"n": (-1e300, 1e300)}
    far = release_table(columns, schema, 1e-90, allowed=wide, sampler="float").columns["n"]
    assert far.min() == -(2**62)


NUMBER = st.one_of(st.integers(-(10**15), 10**15), st.floats(allow_nan=False))
CELLS = st.tuples(NUMBER, st.sampled_from(["a", "much longer"]), st.sampled_from([0.5, 1]), st.booleans())


@given(one=CELLS, two=CELLS, containers=st.tuples(*[st.sampled_from([None, object])] * 2))
@settings(max_examples=15, deadline=None)
def test_released_form_and_words_do_not_depend_on_a_record(one, two, containers) -> None:
    """Before, one cell decided the type of its column and the width of all words."""
    schema = Schema(
        [
            Field("number", "integer", low=0, high=10),
            Field("word", "string", levels=("a", "much longer", "c")),
            Field("share", levels=(0.5, 1.0)),
            Field("flag", "boolean"),
        ]
    )
    forms = []
    for record, container in zip((one, two), containers, strict=True):
        rows = [(1, "a", 1, True), record, (3, "a", 1, False)]
        cells = zip(*rows, strict=True)
        columns = {
            name: np.array(values, dtype=container)
            for name, values in zip((known.name for known in schema.fields), cells, strict=True)
        }
        made = release_table(columns, schema, 1.0)
        types = {name: (values.dtype.str, values.shape) for name, values in made.columns.items()}
        forms.append((types, str(made.guarantee), made.in_words()))
    assert forms[0] == forms[1]
    assert forms[0][0] == {
        "number": ("<i8", (3,)),
        "word": ("<U11", (3,)),
        "share": ("<f8", (3,)),
        "flag": ("|b1", (3,)),
    }


def test_domain_of_the_schema_has_the_sensitivity_of_the_encoding() -> None:
    domain = domain_of(SCHEMA)
    first = {name: values[:1] for name, values in COLUMNS.items()}
    farthest = {"age": [90], "town": ["d"], "income": [1e5], "member": [False], "children": [12]}
    apart = SCHEMA.transform(first) - SCHEMA.transform(farthest)
    assert np.linalg.norm(apart) == pytest.approx(domain.l2)  # children and income from 0 to the top
    assert np.abs(apart).sum() == pytest.approx(domain.l1)
    assert domain.l2**2 == pytest.approx(3 + 2)
    assert domain.entry == 1.0
    made = release_table(COLUMNS, SCHEMA, 0.1)
    noise = FisherGaussian(0.1, sensitivity=domain)
    assert made.guarantee.record == noise.guarantee(9).record
    single = FisherGaussian(0.1, sensitivity=1.0).guarantee(1).entry
    assert made.guarantee.entry == pytest.approx(single, rel=1e-4)
    assert made.guarantee.n_features == 5
    assert made.guarantee.holds


def test_standard_errors_are_in_the_units_of_the_columns() -> None:
    made = release_table(COLUMNS, SCHEMA, lam=1 / 16)
    assert made.standard_errors == {
        "age": pytest.approx(144),
        "income": pytest.approx(2e5),
        "children": pytest.approx(24),
    }
    words = "\n".join(made.in_words())
    # Not "a person's age": the mean of sixteen records of a person is four times as close.
    assert "From one released record alone" in words
    assert "nobody can estimate its age better than ± 144" in words


@pytest.mark.parametrize("lam, least, most", [(4e-2, 0.4, 0.45), (4.0, 0.6, 0.7), (324.0, 0.95, 1.0)])
def test_kept_is_the_share_of_unchanged_categories(lam: float, least: float, most: float) -> None:
    columns = {"town": np.repeat(["a", "b", "c"], 7000)}
    schema = Schema([Field("town", "string", levels=("a", "b", "c"))])
    made = release_table(columns, schema, lam, random_state=0)
    assert np.mean(made.columns["town"] == columns["town"]) == pytest.approx(made.kept["town"], abs=0.015)
    assert least < made.kept["town"] < most


def test_bounded_release_table_keeps_allowed_ranges_without_clipping() -> None:
    columns = {"age": np.linspace(18, 90, 5000), "town": np.repeat(["a", "b"], 2500)}
    options = {"allowed": {"age": (0, 120)}, "bounded": True, "random_state": 0}
    made = release_table(columns, AGE_TOWN, 1.0, **options)
    age = made.columns["age"]
    assert age.min() >= 0
    assert age.max() <= 120
    assert np.sum(age == 0) == np.sum(age == 120) == 0  # nothing was pushed onto an edge
    assert np.all(np.abs(age - columns["age"] - 6) <= 24 + 1e-9)
    assert made.guarantee.record[0] == math.inf
    with pytest.raises(InvalidInputError, match="wider than the declared"):
        release_table(columns, AGE_TOWN, 1.0, allowed={"age": (18, 90)}, bounded=True)
    assert "hardened" in made.guarantee.mechanism
    loose = release_table(columns, AGE_TOWN, 1.0, sampler="float", **options)
    assert np.all(np.abs(loose.columns["age"] - columns["age"] - 6) <= 24 + 1e-9)
    assert not loose.guarantee.holds


def test_bounded_release_table_promises_more_per_cell_than_per_record() -> None:
    columns = {"age": np.linspace(18, 90, 50), "town": np.repeat(["a", "b"], 25)}
    options = {"allowed": {"age": (-1500, 1500)}, "bounded": True, "delta": 1e-4}
    made = release_table(columns, AGE_TOWN, 0.1, **options)
    # One Gaussian variable along a change of one; a tenth of delta is for the tables of the sampler.
    assert made.guarantee.entry == (pytest.approx(epsilon_of(0.1**0.25, 0.9e-4), rel=0.01), 1e-4)
    assert made.guarantee.record == (pytest.approx(4.1, abs=0.1), 1e-4)


def test_in_words_says_when_the_range_tells_more_than_the_release() -> None:
    columns, schema = {"age": np.linspace(18, 90, 50)}, Schema([Field("age", low=18, high=90)])
    strong, weak = (release_table(columns, schema, lam).in_words()[1] for lam in (1e-2, 10.0))
    assert "the declared range alone says more" in strong
    assert "range" not in weak


def test_release_table_is_hardened_unless_the_float_sampler_is_named() -> None:
    made = release_table(COLUMNS, SCHEMA, 1.0)
    assert "hardened" in str(made.guarantee)
    loose = release_table(COLUMNS, SCHEMA, 1.0, sampler="float")
    assert made.guarantee.record[0] > loose.guarantee.record[0]
    assert made.guarantee.holds
    assert not loose.guarantee.holds


def test_seed_voids_the_guarantee_of_a_table() -> None:
    assert not release_table(COLUMNS, SCHEMA, 1.0, random_state=0).guarantee.holds


def test_persons_keep_rows_with_their_labels() -> None:
    n, schema = 400, Schema([Field("x", low=0, high=1000)])
    columns = {"x": np.arange(n) % 2 * 1000.0}
    labels, person = np.arange(n) % 2, np.arange(n) // 40
    made = release_table(columns, schema, 1e8, person=person, rows_per_person=5, labels=labels)
    assert len(made.columns["x"]) == len(made.labels) == 50
    assert np.array_equal(made.columns["x"] > 500, made.labels == 1)
    assert made.guarantee.rows_per_person == 5
    mu = FisherGaussian(1e8, sensitivity=Box(0, 1, 1)).mu(1)
    assert made.guarantee.mu == pytest.approx(mu * math.sqrt(5))
    with pytest.raises(InvalidInputError, match="one entry for each row"):
        release_table(columns, schema, 1.0, labels=labels[:3])
    for alone in ({"person": person}, {"rows_per_person": 5}):
        with pytest.raises(InvalidInputError, match="go together"):
            release_table(columns, schema, 1.0, **alone)


SECRET = "Zebulon"


@pytest.mark.parametrize(
    "columns, allowed",
    [
        ({}, {}),
        ({"age": [1.0]}, {}),
        ({"age": np.ones((1, 1)), "town": ["a"]}, {}),
        ({"age": [1.0, 2.0], "town": [SECRET]}, {}),
        ({"age": [1.0], "town": [SECRET]}, {"nothing": (0, 200)}),
        ({"age": [1.0], "town": [SECRET]}, {"town": (0, 200)}),
        ({"age": [1.0], "town": [SECRET]}, {"age": (200, 0)}),
        ({"age": [1.0], "town": [SECRET]}, {"age": (20, 100)}),
        ({"age": [1.0], "town": [SECRET]}, {"age": (0, 80)}),
        ({"age": [1.0], "town": [SECRET]}, {"age": "xy"}),
        ({"age": [1.0], "town": [SECRET]}, {"age": 9}),
    ],
)
def test_bad_tables_are_refused_without_naming_values(columns: dict, allowed: dict) -> None:
    with pytest.raises(InvalidInputError) as caught:
        release_table(columns, AGE_TOWN, 1.0, allowed=allowed)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "field",
    [
        Field("x", low=0, high=9, missing="indicator"),
        Field("x", low=0, high=9, scale="log"),
        Field("x", "date", low=0, high=9),
        Field("x", "integer", levels=(1, 2)),
    ],
)
def test_only_plain_numbers_can_be_held_inside_a_range(field: Field) -> None:
    with pytest.raises(InvalidInputError, match="only plain numbers"):
        release_table({"x": [1]}, Schema([field]), 1.0, allowed={"x": (-9, 99)})


TABLE_SCHEMA = Schema(
    [
        Field("age", "integer", low=0, high=120),
        Field("glucose", low=2, high=30, missing="indicator", unit="mmol/L"),
        Field("ward", "string", levels=("cardio", "surgery", "other"), other="other"),
        Field("seen", "date", low=18262, high=20000),
        Field("sick", "string", "label", levels=("no", "yes")),
        Field("who", "string", "person"),
    ],
    rows_per_person=2,
)
TABLE_ROWS = {
    "age": [30, 50, 1e9, 41],
    "glucose": [5.5, None, 7, 3],
    "ward": ["cardio", "elsewhere", "", "surgery"],
    "seen": ["2020-01-01", "2021-05-06", "?", "2022-02-02"],
    "sick": ["no", "yes", "unknown", "no"],
    "who": ["u", "u", "u", "v"],
}


def test_a_schema_says_everything_about_a_released_table() -> None:
    made = release_table(TABLE_ROWS, TABLE_SCHEMA, 0.1)
    assert list(made.columns) == ["age", "glucose", "ward", "seen"]
    assert {name: values.dtype.str for name, values in made.columns.items()} == {
        "age": "<i8",
        "glucose": "<f8",
        "ward": "<U7",
        "seen": "<M8[D]",
    }
    assert set(made.labels.tolist()) <= {"no", "yes"}
    assert len(made.labels) == len(made.columns["age"]) == 3  # two rows of u, one of v
    promise = made.guarantee
    assert (promise.schema, promise.rows_per_person) == (TABLE_SCHEMA.digest, 2)
    assert DECLARED in promise.conditions
    assert promise.holds
    assert promise.n_features == 4
    alone = release_table(TABLE_ROWS, TABLE_SCHEMA, 0.1, person=False)
    assert alone.guarantee.person is None
    assert alone.labels.tolist() == ["no", "yes", "no", "no"]  # what is not declared is the first class
    assert made.guarantee.record == alone.guarantee.record
    noise = FisherGaussian(0.1, sensitivity=domain_of(TABLE_SCHEMA))
    assert alone.guarantee.record == noise.guarantee(TABLE_SCHEMA.width).record


def test_a_scale_of_logarithms_states_no_error_in_units() -> None:
    schema = Schema([Field("x", low=0, high=1000, scale="log"), Field("y", low=0, high=1)])
    # The noise has a deviation of lam^(-1/4), which a tenth at x = 1 is far beyond.
    made = release_table({"x": [1, 1000], "y": [0, 1]}, schema, 1e14)
    assert list(made.standard_errors) == ["y"]
    assert made.columns["x"] == pytest.approx([1, 1000], rel=0.1)
    assert measured_columns(schema.features) == {"y": (1, 1.0)}


def test_a_label_that_is_a_number_is_released_like_a_feature() -> None:
    schema = Schema([Field("x", low=0, high=1), Field("price", "number", "label", low=0, high=9)])
    made = release_table({"x": [0.5, 0.1], "price": [3, "?"]}, schema, 1e8)
    assert list(made.columns) == ["x", "price"]
    assert made.labels is None
    assert made.columns["price"] == pytest.approx([3, 4.5], abs=0.5)


def test_a_schema_from_private_rows_is_refused() -> None:
    private = Schema(TABLE_SCHEMA.fields, source="private")
    with pytest.raises(InvalidInputError, match="inferred from private rows"):
        release_table(TABLE_ROWS, private, 0.1)
