"""Mixed tables: released columns have the declared form, and the sensitivity is that of the encoding."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy import Box, FisherGaussian, domain_of
from onefold.privacy.calibration import epsilon_of
from onefold.privacy.contract import DECLARED
from onefold.release import TableCodec, release_table
from onefold.tables import Field, Schema

COLUMNS = {
    "age": np.array([18, 90, 40, 33], dtype=np.int16),
    "town": np.array(["b", "a", "c", "a"]),
    "income": np.array([0.0, 9e4, 3e4, 1e4], dtype=np.float32),
    "member": np.array([True, False, False, True]),
    "children": np.array([0, 3, 1, 2], dtype=np.uint8),
}
RANGES = {"age": (18, 90), "income": (0, 1e5), "children": (0, 12)}
CATEGORIES = {"town": ["c", "a", "b", "d"], "member": [False, True]}
TYPES = {"age": "int16", "income": np.float32, "children": "uint8"}


def codec(**options: object) -> TableCodec:
    return TableCodec(COLUMNS, RANGES, CATEGORIES, types=TYPES, **options)  # type: ignore[arg-type]


def test_codec_decodes_what_it_encoded() -> None:
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


@pytest.mark.parametrize(
    "dtype, declared, encoded, decoded",
    [
        ("int16", (17.2, 90.6), [-9.0, 0.0, 0.318, 1.0, 9.0], [18, 18, 41, 90, 90]),
        ("int8", (-9.6, -3.4), [-9.0, 0.0, 0.5, 1.0, 9.0], [-9, -9, -6, -4, -4]),
        ("uint8", (-5.0, 300.0), [-9.0, 0.0, 0.5, 1.0, 9.0], [0, 0, 148, 255, 255]),
        ("int64", (-1e19, 1e19), [-9.0, 0.5, 9.0], [-(2**63), 0, 2**63 - 1024]),  # the last one a float has
        ("uint64", (-1e20, 1e20), [-9.0, 0.5, 9.0], [0, 0, 2**64 - 2048]),
    ],
)
def test_decoded_whole_numbers_stay_within_range_and_type(dtype, declared, encoded, decoded) -> None:
    known = TableCodec({"a": np.array([1])}, {"a": declared}, types={"a": dtype})
    made = known.decode(np.array(encoded)[:, np.newaxis])["a"]
    assert made.dtype == dtype
    assert made.tolist() == decoded


def test_codec_clips_values_beyond_the_declared_range() -> None:
    columns = {"age": np.array([1.0, 20.0, 500.0, -math.inf, math.inf])}
    encoded = TableCodec(columns, {"age": (18.0, 98.0)}).encode(columns).ravel()
    assert encoded.tolist() == [0.0, 0.025, 1.0, 0.0, 1.0]


def test_codec_reads_cells_one_by_one_whatever_the_type_of_the_column() -> None:
    categories = {"word": ["7", "x"], "code": [7, 9]}
    known = TableCodec(dict.fromkeys(("n", "word", "code")), {"n": (0, 10)}, categories)
    same = [
        {"n": [5, 2], "word": ["7", "x"], "code": [7, 9]},
        {"n": [5.0, 2.0], "word": np.array([7.0, "x"], dtype=object), "code": [7.0, 9.0]},
        {"n": ["5", " 2.0"], "word": ["7", "x"], "code": ["7", "9.0"]},
        {"n": np.array([5, "2"], dtype=object), "word": ["7", "x"], "code": np.array(["7", 9], dtype=object)},
    ]
    rows = [known.encode({name: np.asarray(cells) for name, cells in table.items()}) for table in same]
    for encoded in rows:
        assert encoded.tolist() == rows[0].tolist()
    half = math.sqrt(0.5)
    assert rows[0] == pytest.approx(np.array([[0.5, half, 0, half, 0], [0.2, 0, half, 0, half]]))


@pytest.mark.parametrize("declared", [(0.2, 0.8), (300, 400)])
def test_range_without_a_number_of_its_type_is_refused(declared: tuple[float, float]) -> None:
    with pytest.raises(InvalidInputError, match="holds no number of this type"):
        TableCodec({"a": np.array([1])}, {"a": declared}, types={"a": "uint8"})


def test_types_of_released_categories_are_those_of_the_declared_list() -> None:
    """Before, they were those of the column, and longer words were cut to the longest one seen."""
    columns = {"word": np.array(["a"]), "flag": np.array(["True"]), "code": np.array(["3"]), "share": [0.5]}
    levels = {"word": ["a", "far longer"], "flag": [True, False], "code": [3, 1], "share": [0.5, 1]}
    made = TableCodec(columns, categories=levels)
    noisy = made.decode(1.0 - made.encode({name: np.asarray(cells) for name, cells in columns.items()}))
    assert {name: values.tolist() for name, values in noisy.items()} == {
        "word": ["far longer"],
        "flag": [False],
        "code": [1],
        "share": [1.0],
    }
    assert [str(values.dtype) for values in noisy.values()] == ["<U10", "bool", "int64", "float64"]


@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1e-6, 1e-2, 1.0, 1e6]))
@settings(max_examples=25, deadline=None)
def test_release_table_keeps_types_and_ranges_under_any_noise(seed: int, lam: float) -> None:
    made = release_table(COLUMNS, codec(), lam, random_state=seed)
    assert list(made.columns) == list(COLUMNS)
    for name, values in COLUMNS.items():
        assert made.columns[name].dtype == values.dtype
        if name in RANGES:
            assert made.columns[name].min() >= RANGES[name][0]
            assert made.columns[name].max() <= RANGES[name][1]
        else:
            assert set(made.columns[name].tolist()) <= set(CATEGORIES[name])


NUMBER = st.one_of(st.integers(-(10**15), 10**15), st.floats(allow_nan=False))
CELLS = st.tuples(NUMBER, st.sampled_from(["a", "much longer"]), st.sampled_from([0.5, 1]), st.booleans())


@given(one=CELLS, two=CELLS, containers=st.tuples(*[st.sampled_from([None, object])] * 2))
@settings(max_examples=15, deadline=None)
def test_released_form_and_words_do_not_depend_on_a_record(one, two, containers) -> None:
    """Before, one cell decided the type of its column and the width of all words."""
    ranges = {"number": (0, 10)}
    categories = {"word": ["a", "much longer", "c"], "share": [0.5, 1], "flag": [False, True]}
    forms = []
    for record, container in zip((one, two), containers, strict=True):
        rows = [(1, "a", 1, True), record, (3, "a", 1, False)]
        cells = zip(*rows, strict=True)
        columns = {
            name: np.array(values, dtype=container)
            for name, values in zip((*ranges, *categories), cells, strict=True)
        }
        known = TableCodec(columns, ranges, categories, types={"number": "int64"})
        made = release_table(columns, known, 1.0)
        types = {name: (values.dtype.str, values.shape) for name, values in made.columns.items()}
        forms.append((types, json.dumps(made.to_dict()), made.in_words()))
    assert forms[0] == forms[1]
    assert forms[0][0] == {
        "number": ("<i8", (3,)),
        "word": ("<U11", (3,)),
        "share": ("<f8", (3,)),
        "flag": ("|b1", (3,)),
    }


def test_domain_of_the_codec_has_the_sensitivity_of_the_encoding() -> None:
    domain = codec().domain
    first = {name: values[:1] for name, values in COLUMNS.items()}
    farthest = {"age": [90], "town": ["d"], "income": [1e5], "member": [False], "children": [12]}
    apart = codec().encode(first) - codec().encode({k: np.array(v) for k, v in farthest.items()})
    assert np.linalg.norm(apart) == pytest.approx(domain.l2)  # children and income from 0 to the top
    assert np.abs(apart).sum() == pytest.approx(domain.l1)
    assert domain.l2**2 == pytest.approx(3 + 2)
    assert domain.entry == 1.0
    made = release_table(COLUMNS, codec(), 0.1)
    noise = FisherGaussian(0.1, sensitivity=domain)
    assert made.guarantee.record == noise.guarantee(9).record
    single = FisherGaussian(0.1, sensitivity=1.0).guarantee(1).entry
    assert made.guarantee.entry == pytest.approx(single, rel=1e-4)
    assert made.guarantee.n_features == 5
    assert made.guarantee.holds


def test_standard_errors_are_in_the_units_of_the_columns() -> None:
    made = release_table(COLUMNS, codec(), lam=1 / 16)
    assert made.standard_errors == {
        "age": pytest.approx(144),
        "income": pytest.approx(2e5),
        "children": pytest.approx(24),
    }
    words = "\n".join(made.in_words())
    # Not "a person's age": the mean of sixteen records of a person is four times as close.
    assert "From one released record alone" in words
    assert "nobody can estimate its age better than ± 144" in words
    assert made.to_dict()["record"]["epsilon"] == made.guarantee.record[0]


@pytest.mark.parametrize("lam, least, most", [(4e-2, 0.4, 0.45), (4.0, 0.6, 0.7), (324.0, 0.95, 1.0)])
def test_kept_is_the_share_of_unchanged_categories(lam: float, least: float, most: float) -> None:
    columns = {"town": np.repeat(["a", "b", "c"], 20000)}
    made = release_table(
        columns, TableCodec(columns, categories={"town": ["a", "b", "c"]}), lam=lam, random_state=0
    )
    assert np.mean(made.columns["town"] == columns["town"]) == pytest.approx(made.kept["town"], abs=0.01)
    assert least < made.kept["town"] < most


def test_bounded_release_table_keeps_allowed_ranges_without_clipping() -> None:
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
    assert "hardened" in made.guarantee.mechanism
    loose = release_table(columns, kept, 1.0, bounded=True, sampler="float", random_state=0)
    assert np.all(np.abs(loose.columns["age"] - columns["age"] - 6) <= 24 + 1e-9)
    assert not loose.guarantee.holds


def test_bounded_release_table_promises_more_per_cell_than_per_record() -> None:
    columns = {"age": np.linspace(18, 90, 50), "town": np.repeat(["a", "b"], 25)}
    known = TableCodec(columns, {"age": (18, 90)}, {"town": ["a", "b"]}, allowed={"age": (-1500, 1500)})
    made = release_table(columns, known, 0.1, bounded=True, delta=1e-4)
    # One Gaussian variable along a change of one; a tenth of delta is for the tables of the sampler.
    assert made.guarantee.entry == (pytest.approx(epsilon_of(0.1**0.25, 0.9e-4), rel=0.01), 1e-4)
    assert made.guarantee.record == (pytest.approx(4.1, abs=0.1), 1e-4)


def test_in_words_says_when_the_range_tells_more_than_the_release() -> None:
    columns = {"age": np.linspace(18, 90, 50)}
    codec = TableCodec(columns, {"age": (18, 90)})
    strong, weak = (release_table(columns, codec, lam).in_words()[1] for lam in (1e-2, 10.0))
    assert "the declared range alone says more" in strong
    assert "range" not in weak


def test_undeclared_columns_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"^column 'town' is not declared: [^\n]*$"):
        TableCodec(COLUMNS, {"age": (18, 90)})


def test_inferred_columns_void_the_guarantee() -> None:
    with pytest.warns(PrivacyLeakWarning, match="4 column"):
        inferred = TableCodec(COLUMNS, {"age": (18, 90)}, infer=True)
    assert inferred.inferred == ("town", "income", "member", "children")
    made = release_table(COLUMNS, inferred, 1.0)
    assert not made.guarantee.holds
    assert "do NOT hold" in str(made.guarantee)


def test_release_table_is_hardened_unless_the_float_sampler_is_named() -> None:
    made = release_table(COLUMNS, codec(), 1.0)
    assert "hardened" in str(made.guarantee)
    loose = release_table(COLUMNS, codec(), 1.0, sampler="float")
    assert made.guarantee.record[0] > loose.guarantee.record[0]
    assert made.guarantee.holds
    assert not loose.guarantee.holds


def test_seed_voids_the_guarantee_of_a_table() -> None:
    assert not release_table(COLUMNS, codec(), 1.0, random_state=0).guarantee.holds


def test_persons_keep_rows_with_their_labels() -> None:
    n = 400
    columns = {"x": np.arange(n) % 2 * 1000.0}
    labels, person = np.arange(n) % 2, np.arange(n) // 40
    options = {"person": person, "rows_per_person": 5, "labels": labels}
    made = release_table(columns, TableCodec(columns, {"x": (0, 1000)}), 1e8, **options)
    assert len(made.columns["x"]) == len(made.labels) == 50
    assert np.array_equal(made.columns["x"] > 500, made.labels == 1)
    assert made.guarantee.rows_per_person == 5
    mu = FisherGaussian(1e8, sensitivity=Box(0, 1, 1)).mu(1)
    assert made.guarantee.mu == pytest.approx(mu * math.sqrt(5))
    with pytest.raises(InvalidInputError, match="one entry per row"):
        release_table(columns, TableCodec(columns, {"x": (0, 1000)}), 1.0, labels=labels[:3])


SECRET = "Zebulon"


@pytest.mark.parametrize(
    "columns, ranges, categories, allowed",
    [
        ({}, {}, {}, {}),
        ({"a": np.array([1.0])}, {"b": (0, 1)}, {}, {}),
        ({"a": np.array([1.0])}, {"a": (1, 0)}, {}, {}),
        ({"a": np.array([1.0])}, {"a": "xy"}, {}, {}),
        ({"a": np.array([1.0])}, {"a": (0, 5)}, {}, {"a": (1, 9)}),
        ({"a": np.array([1.0])}, {"a": (0, 5)}, {}, {"a": (-1, 4)}),
        ({"a": np.array([1.0])}, {}, {"a": []}, {}),
        ({"a": np.array([1.0])}, {"a": (0, 1)}, {"a": [1]}, {}),
        ({"a": np.array([[1.0]])}, {}, {}, {}),
        ({"a": np.array([[1.0]])}, {"a": (0, 1)}, {}, {}),
        ({"a": np.array([1.0]), "b": np.array([1.0, 2.0])}, {"a": (0, 1), "b": (0, 1)}, {}, {}),
        ({"a": np.array(["2020-01-01"], dtype="datetime64[D]")}, {}, {}, {}),
        ({"a": np.array([SECRET + str(k) for k in range(500)])}, {}, {}, {}),
    ],
)
@pytest.mark.parametrize("infer", [False, True])
@pytest.mark.filterwarnings("ignore::onefold.exceptions.PrivacyLeakWarning")
def test_codec_refuses_bad_tables_without_naming_values(
    columns: dict, ranges: dict, categories: dict, allowed: dict, infer: bool
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        TableCodec(columns, ranges, categories, allowed, infer=infer).encode(columns)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("types", [{"a": "str"}, {"a": "nonsense"}, {"b": "int64"}, {"town": "int64"}])
def test_codec_refuses_types_that_are_none_of_numbers(types: dict) -> None:
    columns = {"a": np.array([1]), "town": np.array(["a"])}
    with pytest.raises(InvalidInputError):
        TableCodec(columns, {"a": (0, 1)}, {"town": ["a"]}, types=types)


def test_cells_outside_the_declaration_are_encoded_by_a_rule_and_never_refused() -> None:
    """Before, they were refused by row and column: an answer about the data."""
    columns = {
        "a": np.array(["x", SECRET, None, b"\xc3\x28"], dtype=object),
        "b": np.array(["0.25", SECRET, "", "nan"], dtype=object),
        "c": np.array(["x", "", None, SECRET], dtype=object),
        "d": np.array(["2020-01-01"] * 4, dtype="datetime64[D]"),
    }
    known = TableCodec(columns, {"b": (0, 1), "d": (0, 1)}, {"a": ["x", "y"], "c": ["x", ""]})
    half = math.sqrt(0.5)
    expected = [
        [half, 0, 0.25, half, 0, 0.5],
        [0, 0, 0.5, 0, half, 0.5],
        [0, 0, 0.5, 0, half, 0.5],
        [0, 0, 0.5, 0, half, 0.5],
    ]
    encoded = known.encode(columns)
    assert encoded == pytest.approx(np.array(expected))
    assert np.array_equal(known.domain.clip(encoded), encoded)
    assert known.decode(encoded)["c"].tolist() == ["x", "", "", ""]
    with pytest.raises(InvalidInputError, match="no error in units"):
        known.position("a")


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
    made = release_table(TABLE_ROWS, lam=0.1, schema=TABLE_SCHEMA)
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
    alone = release_table(TABLE_ROWS, lam=0.1, schema=TABLE_SCHEMA, person=False)
    assert alone.guarantee.person is None
    assert alone.labels.tolist() == ["no", "yes", "no", "no"]  # what is not declared is the first class
    assert made.guarantee.record == alone.guarantee.record
    noise = FisherGaussian(0.1, sensitivity=domain_of(TABLE_SCHEMA))
    assert alone.guarantee.record == noise.guarantee(TABLE_SCHEMA.width).record


def test_a_scale_of_logarithms_states_no_error_in_units() -> None:
    schema = Schema([Field("x", low=0, high=1000, scale="log"), Field("y", low=0, high=1)])
    # The noise has a deviation of lam^(-1/4), which a tenth at x = 1 is far beyond.
    made = release_table({"x": [1, 1000], "y": [0, 1]}, lam=1e14, schema=schema)
    assert list(made.standard_errors) == ["y"]
    assert made.columns["x"] == pytest.approx([1, 1000], rel=0.1)
    with pytest.raises(InvalidInputError, match="scale of logarithms"):
        TableCodec.from_schema(schema).position("x")


def test_a_label_that_is_a_number_is_released_like_a_feature() -> None:
    schema = Schema([Field("x", low=0, high=1), Field("price", "number", "label", low=0, high=9)])
    made = release_table({"x": [0.5, 0.1], "price": [3, "?"]}, lam=1e8, schema=schema)
    assert list(made.columns) == ["x", "price"]
    assert made.labels is None
    assert made.columns["price"] == pytest.approx([3, 4.5], abs=0.5)


def test_a_schema_from_private_rows_is_refused() -> None:
    private = Schema(TABLE_SCHEMA.fields, source="private")
    with pytest.raises(InvalidInputError, match="inferred from private rows"):
        release_table(TABLE_ROWS, lam=0.1, schema=private)
    with pytest.raises(InvalidInputError, match="needs lam, and a codec or a schema"):
        release_table(TABLE_ROWS, lam=0.1)


@pytest.mark.parametrize("limits", [(0, np.inf), (-np.inf, 0), (-1e308, 1e308)])
def test_a_declared_range_is_finite(limits) -> None:
    with pytest.raises(InvalidInputError, match="must be finite"):
        TableCodec({"x": np.arange(3)}, {"x": limits})


def test_a_codec_cannot_be_changed() -> None:
    """Its domain, and with it the noise, would be that of other columns."""
    codec = TableCodec({"x": np.arange(3)}, {"x": (0, 1)})
    for name, value in (("columns", ()), ("inferred", ())):
        with pytest.raises(AttributeError, match="cannot be changed"):
            setattr(codec, name, value)
    assert isinstance(codec.columns, tuple)
