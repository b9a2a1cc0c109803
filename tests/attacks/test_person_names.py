"""One person is one person, however a table writes the name."""

import unicodedata
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.fabrication import TableSynthesizer
from onefold.privacy.moments import PrivateMoments
from onefold.privacy.persons import limit_rows, person_codes, person_texts
from onefold.tables import Field, Schema

SAME: dict[str, list[Any]] = {
    "letters": ["ann-7", "ANN-7", "Ann-7"],
    "blanks": ["Ann Lee", " Ann  Lee ", "Ann\u00a0Lee", "Ann\tLee"],
    "codes": ["Ren\u00e9", "Rene\u0301", "REN\u00c9"],
    "widths": ["A1", "\uff21\uff11", "a1"],
    "numbers": [1, 1.0, "1", "1.0", " 1. ", np.int8(1), np.float32(1)],
}


@pytest.mark.parametrize("names", SAME.values(), ids=SAME.keys())
@pytest.mark.parametrize("kind", ["list", "objects", "pandas", "polars"])
def test_a_person_keeps_no_more_rows_under_another_spelling(names: list[Any], kind: str) -> None:
    if kind == "polars":
        names = [str(name) for name in names]
    cells = np.array([*names, None], dtype=object)[:-1]
    column = {
        "list": names,
        "objects": cells,
        "pandas": pd.Series(cells),
        "polars": pl.Series(map(str, names)),
    }
    assert set(person_codes(column[kind], len(names)).tolist()) == {0}
    assert len(limit_rows(column[kind], 1)) == 1


@given(st.text(min_size=1))
def test_every_normal_form_and_both_cases_of_a_text_are_one_person(name: str) -> None:
    forms = [unicodedata.normalize(form, name) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    assert len(set(person_texts([*forms, name.lower(), f" {name} "]))) == 1


def test_other_names_stay_other_persons() -> None:
    assert len(set(person_texts(["1", "01", "1.5", "-1", "10", "a", "b", "a b", "ab"]))) == 9


def test_moments_and_tables_count_a_person_once_under_all_spellings() -> None:
    names = ["ann", "Ann", "ANN", "a\u0301nn", "\u00e1nn", "bob"]
    rows, labels = np.ones((6, 1)), np.zeros(6, dtype=int)
    moments = PrivateMoments(None, classes=[0], centre=None).fit(rows, labels, names)
    assert moments.counts_.sum() == pytest.approx(3.0, abs=1e-6)
    fields = [Field("age", low=0, high=1), Field("who", "string", role="person")]
    table = {"age": [0.5] * 6, "who": names}
    counts = TableSynthesizer(Schema(fields, rows_per_person=1), 1.0, noise=False).count_tables(table)
    assert counts.layout.singles(counts.vector)[0].sum() == 3
