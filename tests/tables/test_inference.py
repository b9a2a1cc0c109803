"""Proposals for a schema: types, ranges, categories and roles guessed from sample rows."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from onefold.exceptions import InvalidInputError
from onefold.tables import Schema, check_table
from onefold.tables.cells import NumberFormat

N = 60
PARIS = timezone(timedelta(hours=1))


def _field(cells, name="x", **options):
    cells = [cells[place % len(cells)] for place in range(N)] if isinstance(cells, list) else cells
    table = {name: cells, "y": ["a", "b"] * (len(cells) // 2)}
    return Schema.infer(table, "y", **options).field(name)


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["1", "2", "3"], {"type": "integer", "low": 1, "high": 3}),
        (["1.5", "2", "-3"], {"type": "number"}),
        (["1,5", "2", "3,25"], {"type": "number", "high": 3.4}),
        (["1.234,5", "2,25", "3"], {"type": "number"}),
        (["$1,200", "$3", "$40.5"], {"type": "number"}),
        (["36 months", "60 months"], {"type": "integer", "low": 35, "high": 60}),
        (["12%", "7.5%", "99%"], {"type": "number"}),
        (["1'234.5", "2.25", "3"], {"type": "number", "written": NumberFormat(".", "'")}),
        (["1\u2019234", "12\u2019000", "3"], {"type": "integer", "written": NumberFormat(".", "'")}),
        (["1\u202f234,5", "2,25", "3"], {"type": "number", "written": NumberFormat(",", " ")}),
        (["1\u00a0234,5\u00a0€", "2,25 €", "3 €"], {"written": NumberFormat(",", " ", False)}),
        (["1 234.5", "2.25", "3"], {"type": "number", "written": NumberFormat(".", " ")}),
        (["(1,234.50)", "2,000.25", "3"], {"type": "number", "low": -1500, "high": 2500}),
        (["($1,234.50)", "$2,000.25", "$3"], {"type": "number", "low": -1500, "high": 2500}),
        (["(a)", "(b)"], {"type": "string"}),
        (["\u22121.5", "2", "3"], {"type": "number", "low": -1.5}),
        (["True", "False"], {"type": "boolean"}),
        (["TRUE", "false"], {"type": "boolean"}),
        ([True, False], {"type": "boolean"}),
        (["yes", "no"], {"type": "string", "levels": ("no", "yes"), "other": None}),
        (["007", "012"], {"type": "string"}),
        (["12a", "12b", "13a"], {"type": "string"}),
        (["2020-01-31", "2021-02-01"], {"type": "date", "format": "default"}),
        (["31.01.2020", "01.02.2021"], {"type": "date", "format": "%d.%m.%Y"}),
        (["01/31/2020", "02/01/2021"], {"type": "date", "format": "%m/%d/%Y"}),
        (["31/01/2020", "01/02/2021"], {"type": "date", "format": "%d/%m/%Y"}),
        (["Mar-2018", "Feb-2019"], {"type": "date", "format": "%b-%Y"}),
        (["Mar-18", "Feb-19"], {"type": "date", "format": "%b-%y"}),
        (["March 2018", "February 2019"], {"type": "date", "format": "%B %Y"}),
        (["1/31/2020 1:05 PM", "2/1/2021 12:00 AM"], {"type": "datetime", "format": "%m/%d/%Y %I:%M %p"}),
        (["2020-01-31 10:00", "2021-02-01 11:30:05"], {"type": "datetime"}),
        (["31.01.2020 10:00", "01.02.2021 11:30"], {"type": "datetime", "format": "%d.%m.%Y %H:%M"}),
        # Of times with a zone only what the clock shows counts: in London it was still 2018.
        ([datetime(2019, month, 1, 0, 30, tzinfo=PARIS) for month in (1, 2)], {"low": 17_897 * 86_400.0}),
        (["x"], {"role": "ignored"}),
        ([""], {"role": "ignored"}),
        ([None, 5.0, 7.0], {"type": "integer", "missing": "indicator"}),
        (["1", "NA", "3"], {"type": "integer", "missing": "indicator"}),
        (["1", "?", "3.5"], {"type": "number", "missing": "indicator"}),
        ([*map(str, range(28)), "unknown"], {"type": "integer", "missing": "indicator"}),
        (["1", "two", "three"], {"type": "string"}),
        (["red", "green", "blue"], {"type": "string", "other": "other"}),
        (["red", "Other", "blue"], {"type": "string", "levels": ("Other", "blue", "red"), "other": "Other"}),
        (["1", 2, "x"], {"type": "string", "levels": ("1", "2", "x", "other")}),
    ],
)
def test_the_type_of_a_column_is_guessed_from_its_cells(cells, wanted) -> None:
    field = _field(cells)
    assert {key: getattr(field, key) for key in wanted} == wanted
    assert field.review


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([f"{place / 10}" for place in range(20)], "number"),
        ([f"{place},5" for place in range(20)], "number"),
        ([f"${place},500" for place in range(1, 20)], "integer"),
        ([f"{place:02}.03.2020" for place in range(1, 25)], "date"),
        ([f"2020-03-{place:02}" for place in range(1, 25)], "date"),
    ],
)
@pytest.mark.parametrize("gap", ["k.A.", "NOT KNOWN"])
def test_a_text_for_gaps_between_numbers_and_dates_may_be_frequent(cells, kind, gap) -> None:
    field = _field([gap, *cells[:10], gap, gap, *cells[10:]])
    assert (field.type, field.missing) == (kind, "indicator")
    assert gap in field.missing_values
    assert "read as missing" in field.review
    assert np.isnan(field.read([gap, cells[0]])[0][0])


def test_dates_are_read_in_the_format_that_reads_most() -> None:
    dates = [f"{place % 28 + 1:02}/{place % 12 + 1:02}/2020" for place in range(N - 1)]
    assert _field([*dates, "k.A."]).format == "%d/%m/%Y"


def test_texts_with_digits_beside_a_unit_stay_categories() -> None:
    assert _field(["10+ years", *(f"{place} years" for place in range(2, 10))]).type == "string"


def test_numbers_too_far_apart_for_one_range_are_left_out_and_refused_as_a_label() -> None:
    table = {"huge": [1e308, -1e308, 0.0, 5.0], "age": [31, 64, 17, 40]}
    assert Schema.infer(table).field("huge").role == "ignored"
    with pytest.raises(InvalidInputError, match="'huge': its numbers lie too far apart for one range"):
        Schema.infer(table, label="huge", task="regression")


def test_one_number_written_in_two_ways_is_left_out_as_constant() -> None:
    assert _field(["0.0", "-0.0"]).role == "ignored"


@pytest.mark.parametrize(
    ("name", "cells", "role"),
    [
        ("Unnamed: 0", [str(place) for place in range(N)], "identifier"),
        ("loan_id", [str(place * 7 + 1000) for place in range(N)], "identifier"),
        ("row", [str(place + 1) for place in range(N)], "identifier"),
        ("rownames", [str(place * 2) for place in range(N)], "identifier"),
        ("ID", [str(max(place, 5) * 31) for place in range(N)], "identifier"),
        ("patient_id", [f"p{place // 3}" for place in range(N)], "identifier"),
        ("comment", [f"text number {place}" for place in range(N)], "identifier"),
        ("amount", [str(place * 7 + 1000) for place in range(N)], "feature"),
        ("weight", [str(place / 7) for place in range(N)], "feature"),
    ],
)
def test_columns_that_only_number_or_name_rows_are_left_out(name, cells, role) -> None:
    assert _field(cells, name).role == role


def test_the_range_holds_every_value_and_is_rounded_outward() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        values = rng.normal(rng.normal() * 10.0 ** rng.integers(-3, 6), 10.0 ** rng.integers(-6, 6), N)
        field = _field(list(values))
        assert field.low <= values.min() < values.max() <= field.high
        assert field.high - field.low <= 1.5 * (values.max() - values.min())


def test_the_range_holds_values_beyond_those_that_are_remembered(monkeypatch) -> None:
    monkeypatch.setattr("onefold.tables.inference.MOST_DISTINCT", 20)
    field = _field([f"{place + 0.5}" for place in range(N)])
    assert field.low <= 0.5
    assert field.high >= N - 0.5


def test_heavy_tails_are_read_by_logarithm_and_others_are_not() -> None:
    rng = np.random.default_rng(0)
    heavy, light = rng.lognormal(3, 1.5, 1000), rng.normal(3, 1.5, 1000)
    table = {"heavy": heavy, "light": light, "y": ["a", "b"] * 500}
    schema = Schema.infer(table, "y")
    assert [schema.field(name).scale for name in ("heavy", "light")] == ["log", "linear"]


def test_rare_and_many_texts_become_other() -> None:
    rng = np.random.default_rng(0)
    texts = [f"t{int(code)}" for code in rng.zipf(1.5, 3000)]
    field = _field(texts)
    assert len(field.levels) <= 41
    assert field.other in field.levels
    closed = _field(["red", "green", "blue"], source="private")
    assert closed.other is None


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        (["1", "0"], [0, 1]),
        (["1.0", "2.0"], [1, 2]),
        ([1.0, 2.0], [1, 2]),
        (["yes", "no"], ["no", "yes"]),
        ([True, False], [False, True]),
        (["01", "02"], ["01", "02"]),
        (["b", None], ["b"]),
    ],
)
def test_classes_keep_their_type(cells, classes) -> None:
    table = {"x": list(range(N)), "y": [cells[place % len(cells)] for place in range(N)]}
    assert Schema.infer(table, "y").classes.tolist() == classes


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ([place / 7 for place in range(N)], "holds fractions"),
        ([""] * N, "is empty"),
        (list(range(N)), "most rows have a value of their own"),
        ([f"${place}.50" for place in range(N)], "most rows have a value of their own"),
    ],
)
def test_a_column_that_holds_no_classes_is_refused_as_label(label, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Schema.infer({"x": list(range(N)), "y": label}, "y")


def test_a_label_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no column 'z'"):
        Schema.infer({"x": [1, 2]}, "z")


def test_blocks_and_the_whole_table_give_one_proposal() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "n": rng.normal(size=300),
            "c": rng.choice(["a", "b", "c"], 300),
            "d": pd.date_range("2020-01-01", periods=300).astype(str),
            "g": np.where(rng.random(300) < 0.2, "", rng.integers(0, 9, 300).astype(str)),
            "y": rng.choice(["u", "v"], 300),
        }
    )
    whole = Schema.infer(table, "y")
    blocks = Schema.infer((table.iloc[start : start + 70] for start in range(0, 300, 70)), "y")
    assert whole.digest == blocks.digest


def test_no_cell_of_an_identifier_or_free_text_stands_in_the_proposal() -> None:
    table = {
        "name": [f"secret {place}" for place in range(N)],
        "x": list(range(N)),
        "y": ["a", "b"] * (N // 2),
    }
    assert "secret" not in str(Schema.infer(table, "y").to_dict())


def test_cells_that_are_lists_count_by_their_text() -> None:
    few = _field([[1, 2], [3], None])
    assert (few.type, few.levels[:2], few.missing) == ("string", ("[1, 2]", "[3]"), "indicator")
    assert few.read([[3], [1, 2]])[0].tolist() == [1, 0]
    assert _field([[place] for place in range(N)]).role == "identifier"


def test_a_column_without_a_heading_is_left_out() -> None:
    assert [field.name for field in Schema.infer({"": [0, 1], "x": [1, 2]}).fields] == ["x"]


def test_the_name_of_a_file_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="read_table"):
        Schema.infer("sample.csv", "y")


def test_an_empty_table_is_refused() -> None:
    for table in ({}, {"x": [], "y": []}):
        with pytest.raises(InvalidInputError, match=r"no columns|no rows|empty"):
            Schema.infer(table, None if not table else "y")


def test_one_column_with_a_decimal_comma_decides_how_ambiguous_columns_are_read() -> None:
    ambiguous = {"price": ["1,234", "12,345", "2,500"], "salary": ["1.234", "950", "45.000"]}
    alone = Schema.infer(ambiguous)
    assert alone.field("price").high >= 12_345
    assert alone.field("salary").high == pytest.approx(1000, abs=60)
    together = Schema.infer(ambiguous | {"weight": ["70,5", "81,25", "64"]})
    assert together.field("price").written.decimal == ","
    assert together.field("price").high < 20
    assert together.field("salary").high >= 45_000
    assert together.parse(ambiguous | {"weight": ["70,5"] * 3})["salary"].tolist() == [
        1234.0,
        950.0,
        45_000.0,
    ]


def test_classes_of_more_digits_than_numbers_have_stay_apart() -> None:
    codes = ["123456789012345678", "123456789012345679"]
    table = {"x": np.arange(N) / 7.0, "y": [codes[row % 2] for row in range(N)]}
    schema = Schema.infer(table, "y")
    assert schema.classes.tolist() == codes
    assert schema.labels(table)[0].tolist() == table["y"]


def test_columns_that_pandas_calls_by_numbers_are_read_by_how_these_read() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 2))).assign(y=["a", "b"] * (N // 2))
    schema = Schema.infer(frame, "y", source="public")
    assert [known.name for known in schema.features] == ["0", "1"]
    texts = frame.rename(columns=str)
    np.testing.assert_array_equal(schema.fit_transform(frame), schema.fit_transform(texts))
    assert check_table(schema, frame) == []


def test_lengths_of_time_are_numbers_of_seconds() -> None:
    lengths = pd.Series(pd.to_timedelta([1, 2, 90] * (N // 3), unit="min"))
    lengths[0] = pd.NaT
    field = _field(lengths)
    assert (field.type, field.missing) == ("integer", "indicator")
    assert field.read(lengths)[0][1:3].tolist() == [120.0, 5400.0]


def test_a_column_that_holds_no_cells_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidInputError, match="column 'x': the cells are neither numbers"):
        _field(np.full(N, 1j))


def test_a_run_of_whole_numbers_numbers_the_rows_and_one_with_gaps_does_not() -> None:
    assert _field(np.arange(100, 160)).role == "identifier"
    assert _field(np.arange(100, 220, 2)).role == "feature"


def test_two_numbers_are_a_range() -> None:
    found = _field(["1", "2"])
    assert (found.role, found.type) == ("feature", "integer")


def test_few_different_values_have_no_tail() -> None:
    assert _field([*range(1, 20), 10**6]).scale == "linear"
    assert _field([*range(1, 21), 10**6]).scale == "log"


def test_objects_are_read_as_what_they_are() -> None:
    cells = {
        "boolean": [True, np.False_],
        "date": [date(2020, 1, 31), date(2021, 2, 1)],
        "number": [Decimal("1.5"), Decimal("2")],
        "string": ["red", "blue"],
    }
    for kind, values in cells.items():
        assert _field(np.array(values * 30, dtype=object)).type == kind, kind


def test_a_range_that_cannot_be_rounded_outward_stays() -> None:
    found = _field([-8.9e307, 8.9e307, 1.0])
    assert (found.low, found.high) == (-8.9e307, 8.9e307)


def test_ends_of_a_range_of_dates_can_be_written_in_their_format() -> None:
    found = _field(["Mar-2018", "Feb-2019"])
    ends = [np.datetime64(int(end), "D") for end in (found.low, found.high)]
    assert [str(end)[-2:] for end in ends] == ["01", "01"]


def _label(cells, task):
    return Schema.infer({"x": ["a", "b"] * (len(cells) // 2), "y": cells}, "y", task=task).label


@pytest.mark.parametrize("ends", [(-(2.0**60), 10.0), (-10.0, 2.0**53)])
def test_a_label_of_whole_numbers_that_may_be_rounded_is_a_number(ends: tuple[float, float]) -> None:
    assert _label([*ends, 1.0] * 20, "regression").type == "number"
    assert _label([-10.0, 2.0**52, 1.0] * 20, "regression").type == "integer"


def test_texts_beside_the_numbers_of_a_label_are_told() -> None:
    cells = ["unknown" if place % 20 == 0 else str(place / 4) for place in range(60)]
    assert _label(cells, "regression").review.endswith("other texts of the column are read as missing")


def test_many_whole_numbers_are_a_number_to_predict_and_the_reason_is_told() -> None:
    cells = [place % 25 for place in range(100)]
    assert "25 different whole numbers" in _label(cells, "auto").review
    assert _label([place % 20 for place in range(100)], "auto").is_category
    assert _label(
        [place % 25 * 10**15 for place in range(100)], "auto"
    ).is_category  # so large are only codes
