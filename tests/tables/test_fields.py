"""Fields: what follows from a declaration for the cells of a column."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.exceptions import InvalidInputError
from onefold.tables import Field, Schema
from onefold.tables.cells import NumberFormat
from onefold.tables.declarations import field_arguments
from reference.table_encoding import encode_category, encode_number

finite = st.floats(-1e6, 1e6)
cell = st.one_of(finite.map(str), st.sampled_from(["", "inf", "-inf", "nan", "text", "1e400", " 5 "]))


@given(
    cells=st.lists(cell, min_size=1, max_size=20),
    low=st.floats(-1e6, 1e5),
    width=st.floats(1e-3, 1e6),
    log_unit=st.one_of(st.none(), st.floats(1e-2, 1e3)),
    nullable=st.booleans(),
)
def test_numbers_are_encoded_as_the_literal_version_does(cells, low, width, log_unit, nullable) -> None:
    scale = "linear" if log_unit is None else "log"
    missing = "indicator" if nullable else "refuse"
    field = Field("x", low=low, high=low + width, scale=scale, log_unit=log_unit, missing=missing)
    parsed, _ = field.read(cells)
    found = field.encode(parsed)
    wanted = [encode_number(c, low, low + width, log_unit=log_unit, nullable=nullable) for c in cells]
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert found.min() >= 0.0
    assert found.max() <= 1.0


@given(
    cells=st.lists(st.sampled_from(["a", "b", "c", "", "zz", "A"]), min_size=1, max_size=20),
    nullable=st.booleans(),
    other=st.sampled_from([None, "c"]),
)
def test_categories_are_encoded_as_the_literal_version_does(cells, nullable, other) -> None:
    field = Field(
        "x", "string", levels=("a", "b", "c"), missing="indicator" if nullable else "refuse", other=other
    )
    found = field.encode(field.read(cells)[0])
    np.testing.assert_allclose(
        found,
        [encode_category(c, ["a", "b", "c"], nullable=nullable, other=other) for c in cells],
        atol=1e-15,
    )


FIELDS = [
    Field("n", "number", low=-3.0, high=17.5),
    Field("n", "number", low=0.0, high=1e6, scale="log", log_unit=20.0),
    Field("n", "number", low=0.0, high=9.0, missing="indicator", fill=2.0),
    Field("n", "integer", low=-5, high=120),
    Field("n", "integer", low=0, high=12, missing="indicator"),
    Field("n", "integer", levels=(1, 2, 5)),
    Field("n", "date", low=0, high=20000),
    Field("n", "datetime", low=0, high=2e9, missing="indicator"),
    Field("n", "boolean"),
    Field("n", "boolean", missing="indicator"),
    Field("n", "string", levels=("x", "long text", "y")),
    Field("n", "string", levels=("x", "y"), missing="indicator"),
]


def _random_cells(field: Field, n_rows: int, rng: np.random.Generator):
    if field.is_category:
        return rng.integers(-1 if field.nullable else 0, len(field.levels), n_rows)
    cells = field.whole(rng.uniform(field.low, field.high, n_rows))
    if field.nullable:
        cells[rng.random(n_rows) < 0.3] = np.nan
    return cells


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.type}-{field.missing}-{field.scale}")
def test_decoding_undoes_encoding(field) -> None:
    cells = _random_cells(field, 200, np.random.default_rng(0))
    np.testing.assert_allclose(field.decode(field.encode(cells)), cells, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.type}-{field.missing}-{field.scale}")
def test_reading_undoes_showing(field) -> None:
    cells = _random_cells(field, 50, np.random.default_rng(1))
    shown = field.show(cells)
    np.testing.assert_array_equal(field.read(shown)[0], cells)
    assert shown.dtype == field.dtype
    texts = [
        "" if shown_cell is np.ma.masked or str(shown_cell) in ("NaT", "nan") else str(shown_cell)
        for shown_cell in shown
    ]
    np.testing.assert_array_equal(field.read(texts)[0], cells)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.type}-{field.missing}-{field.scale}")
def test_no_two_cells_are_further_apart_than_declared_and_some_are(field) -> None:
    if field.is_category:
        cells = np.arange(-1 if field.nullable else 0, len(field.levels))
    else:
        cells = np.array([field.low, field.high, math.nan][: 3 if field.nullable else 2])
    encoded = field.encode(cells)
    apart = max(float(np.sum((a - b) ** 2)) for a in encoded for b in encoded)
    longest = float((encoded**2).sum(axis=1).max())
    assert apart <= field.change_squared
    assert longest <= field.norm_squared
    assert apart == pytest.approx(field.change_squared)
    assert longest == pytest.approx(field.norm_squared)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.type}-{field.missing}-{field.scale}")
def test_output_type_does_not_depend_on_cells(field) -> None:
    rng = np.random.default_rng(2)
    types = {field.show(_random_cells(field, size, rng)).dtype for size in (0, 1, 7)}
    assert types == {field.dtype}


def test_a_noisy_row_decodes_into_the_declared_range_and_whole_numbers() -> None:
    field = Field("n", "integer", low=3, high=9, missing="indicator")
    noisy = np.random.default_rng(0).normal(0.5, 5.0, (500, 2))
    cells = field.decode(noisy)
    known = cells[~np.isnan(cells)]
    assert set(known) <= set(range(3, 10))
    assert 0 < np.isnan(cells).mean() < 1


@pytest.mark.parametrize(
    ("written", "texts", "wanted"),
    [
        (NumberFormat(","), ["3,14", "-2,5", "7"], [3.14, -2.5, 7]),
        (NumberFormat(",", "."), ["1.234,5", "12", "1.000.000"], [1234.5, 12, 1e6]),
        (NumberFormat(".", ","), ["1,234.5", "12", "0.5"], [1234.5, 12, 0.5]),
        (NumberFormat(".", ",", False), ["$1,234.50", "$ 2", "-$3"], [1234.5, 2, -3]),
        (NumberFormat(".", "", False), ["12 %", "36 months", "a 3"], [12, 36, math.nan]),
        (NumberFormat(","), ["3.14", "x", "1,2,3"], [math.nan] * 3),
        (NumberFormat(".", ","), ["1,23", "0,123", "1234,567"], [math.nan] * 3),
    ],
)
def test_numbers_in_texts_are_read_in_their_format(written, texts, wanted) -> None:
    found = Field("x", low=-1e9, high=1e9, written=written).read(texts)[0]
    np.testing.assert_array_equal(found, wanted)


def test_dates_are_read_from_texts_objects_and_arrays_alike() -> None:
    field = Field("d", "date", low=0, high=30000)
    days = (date(2020, 2, 29) - date(1970, 1, 1)).days
    forms = [
        ["2020-02-29"],
        [date(2020, 2, 29)],
        [datetime(2020, 2, 29, 13, 5)],
        np.array(["2020-02-29"], dtype="datetime64[D]"),
        np.array(["2020-02-29T10:00"], dtype="datetime64[ns]"),
    ]
    assert [field.read(form)[0].tolist() for form in forms] == [[days]] * len(forms)
    assert np.isnan(field.read(["29.02.2020", "20200229", "2020-02-30", "5"])[0]).all()
    german = Field("d", "date", low=0, high=30000, format="%d.%m.%Y")
    assert german.read(["29.02.2020"])[0].tolist() == [days]


@pytest.mark.parametrize(
    ("declared", "cells", "message"),
    [
        ({"low": 0, "high": 1}, ["1", "secret"], "row 2, column 'x': cannot be read as a number"),
        ({"low": 0, "high": 1}, ["1", ""], "row 2, column 'x': is missing"),
        ({"type": "string", "levels": ("a",)}, ["secret"], "row 1, column 'x': is not one of the 1 declared"),
        ({"type": "integer", "low": 0, "high": 1}, ["1", None], "row 2, column 'x': is missing"),
    ],
)
def test_a_cell_outside_the_contract_is_named_and_not_repeated(declared, cells, message) -> None:
    with pytest.raises(InvalidInputError, match=message) as caught:
        Schema([Field("x", **declared)]).parse({"x": cells})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"name": ""}, "name must be a text"),
        ({"type": "float"}, "type must be one of"),
        ({"role": "target"}, "role must be one of"),
        ({"low": None, "high": 3}, "minimum and maximum must be finite"),
        ({"low": 3, "high": 3}, "minimum must be below maximum"),
        ({"low": math.nan, "high": 3}, "must be finite"),
        ({"low": -1e308, "high": 1e308}, "minimum must be below maximum"),
        ({"type": "integer", "low": 0.2, "high": 0.8}, "no whole number"),
        ({"type": "string"}, "text without categories"),
        ({"type": "string", "levels": ("a", "a")}, "twice"),
        ({"type": "string", "levels": ("a", 1)}, "must be a string"),
        ({"type": "string", "levels": ("a", " b")}, "begin nor end with a blank"),
        ({"type": "string", "levels": ("a",), "other": "b"}, "other must be one of"),
        ({"low": 0, "high": 1, "scale": "sqrt"}, "scale must be one of"),
        ({"low": 0, "high": 1, "log_unit": 0.0}, "logUnit must be a positive"),
        ({"low": 0, "high": 1, "fill": 2.0}, "fill must be inside"),
        ({"low": 0, "high": 1, "missing": "drop"}, "missing must be"),
        ({"low": 0, "high": 1, "bins": (0.5, 0.4)}, "bins must be ascending"),
        ({"low": 0, "high": 1, "bins": (0.5, 1.0)}, "bins must be ascending"),
    ],
)
def test_a_declaration_that_says_nothing_is_refused(declared, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Field(**{"name": "x", **declared})


def test_either_end_of_the_range_may_stand_for_a_missing_number() -> None:
    for fill in (3.0, 9.0):
        field = Field("x", low=3, high=9, missing="indicator", fill=fill)
        assert field.encode(np.array([math.nan]))[0, 0] == (fill - 3) / 6


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"type": "date", "low": 1.2, "high": 9}, "whole day"),
        ({"type": "datetime", "low": 0, "high": 9.5}, "whole second"),
        ({"type": "date", "low": 0, "high": 1e300}, "years 1 to 9999"),
        ({"type": "date", "low": 0, "high": 1e300, "role": "ignored"}, "years 1 to 9999"),
        ({"type": "date", "low": 0, "high": 9, "format": "%Y %Y"}, "format must be"),
        ({"type": "date", "low": 0, "high": 9, "format": "%"}, "format must be"),
        ({"type": "date", "low": 0, "high": 9, "format": "any"}, "format must be"),
        ({"low": 0, "high": 10**400}, "maximum must be finite"),
        ({"low": [1], "high": 2, "role": "ignored"}, "minimum must be finite"),
        ({"levels": (1, math.nan)}, "finite numbers"),
        ({"type": "integer", "levels": (1, 2.5)}, "whole numbers"),
        ({"type": "integer", "levels": (2**53, 2**53 + 1)}, "at most 15 digits"),
        ({"type": "boolean", "true_values": ([1],)}, "list of texts"),
        ({"type": "boolean", "missing_values": (1,)}, "list of texts"),
        ({"type": "boolean", "required": "yes"}, "True or False"),
        ({"type": "string", "levels": ("\ud800",)}, "cannot be written"),
    ],
)
def test_what_a_file_could_not_say_again_is_refused(declared, message) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Field("x", **declared)


@pytest.mark.parametrize("pattern", ["%d/%m/%y", "%m/%Y", "%Y-%d-%m", "%d.%m.%Y"])
def test_no_two_ranges_of_dates_stand_in_a_file_alike(pattern) -> None:
    # A pattern may lose the century or the day, or read like another one.
    fields = [
        Field("x", "date", low=float(low), high=float(low + 9999), format=pattern)
        for low in (-14610, -14600, 0, 1, 36, 21915)
    ]
    assert len({str(field.contract()) for field in fields}) == len(fields)
    assert [Field(**field_arguments(field.entry(), None)) for field in fields] == fields


def test_one_and_one_point_zero_are_one_declaration() -> None:
    whole = [Field("x", levels=(1, 2)), Field("x", low=0, high=9, bins=(1, 2), scale="log", log_unit=1)]
    point = [
        Field("x", levels=(1.0, 2.0)),
        Field("x", low=0.0, high=9.0, bins=(1.0, 2.0), scale="log", log_unit=1.0),
    ]
    for one, other in zip(whole, point, strict=True):
        assert json.dumps(one.contract()) == json.dumps(other.contract())
        assert one.names_out == other.names_out


def test_no_cell_of_any_kind_stops_reading() -> None:
    cells = [10**400, -(10**400), 10**5000, Decimal("sNaN"), [1], {}, b"\xff", object(), np.array([1, 2]), 1j]
    fields = [
        Field("x", low=0, high=9, missing="indicator"),
        Field("x", "date", low=0, high=9),
        Field("x", "datetime", low=0, high=9, format="%d"),
        Field("x", "string", levels=("a", "b")),
        Field("x", "integer", levels=(1, 2)),
        Field("x", "boolean"),
    ]
    for field in fields:
        for cell in cells:
            encoded = field.encode(field.read([cell, "5"])[0])
            assert encoded.shape == (2, field.width)
            assert 0.0 <= encoded.min() <= encoded.max() <= 1.0
    numbers = fields[0]
    assert numbers.encode(numbers.read([10**400, -(10**400)])[0])[:, 0].tolist() == [1.0, 0.0]


def test_a_field_stands_in_the_file_as_it_was_declared() -> None:
    for field in FIELDS:
        assert Field(**field_arguments(field.entry(), None)) == field


KINDS = {
    "number": Field("a", low=0, high=10),
    "category": Field("a", "string", levels=("1", "True", "1152921504606846977")),
    "number of categories": Field("a", "integer", levels=(0, 1, 2)),
    "date": Field("a", "date", low=0, high=30_000, format="%d.%m.%Y"),
}
DAY = date(2020, 1, 2)
MIXTURES = [
    [True, 2],
    [2**60 + 1, 0.5],
    [True, [1]],
    [DAY, {"a": 1}],
    [DAY, Decimal("sNaN")],
    [np.datetime64("2020-01-02"), "x"],
    [np.datetime64("2020-01-02"), [1]],
    [np.float32(0.1), 1.0],
]


def _array(cells: list[Any]) -> Any:
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def _series(cells: list[Any]) -> Any:
    return pd.Series(cells, dtype=object)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cells", MIXTURES, ids=str)
@pytest.mark.parametrize("make", [list, _array, _series], ids=["list", "array", "pandas"])
def test_no_cell_decides_how_another_is_read(kind: str, cells: list[Any], make: Any) -> None:
    together = KINDS[kind].read(make(cells))
    for row, cell in enumerate(cells):
        alone = KINDS[kind].read(make([cell]))
        for mine, ours in zip(alone, together, strict=True):
            assert np.array_equal(mine[0], ours[row], equal_nan=mine.dtype.kind == "f")
