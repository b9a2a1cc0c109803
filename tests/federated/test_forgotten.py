"""Persons who asked to be erased: the list tells their rows from others, and nobody's name from the list."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.federated.forgotten import ForgottenPersons, without_forgotten
from onefold.privacy.persons import person_texts
from onefold.tables import Field, Schema, read_table

SCHEMA = Schema(
    [
        Field("who", "string", "person"),
        Field("x", low=0, high=9),
        Field("y", "string", "label", levels=("a", "b")),
    ]
)


@pytest.fixture
def forgotten(tmp_path: Path) -> ForgottenPersons:
    return ForgottenPersons(tmp_path / "site.db")


def test_person_is_the_same_in_every_way_of_writing(forgotten: ForgottenPersons) -> None:
    assert forgotten.add(" 17.0") is True
    assert forgotten.add(17) is False
    assert len(forgotten) == 1
    assert forgotten.kept(np.array([17, 18])).tolist() == [False, True]
    assert forgotten.kept([17.0, np.nan, 1.7]).tolist() == [False, True, True]
    assert forgotten.kept(["17", "17.00", "017", "", None]).tolist() == [False, False, True, True, True]
    assert forgotten.has_met("17")
    assert not forgotten.has_met("18")
    assert forgotten.kept(pd.Series([1, 2])).all()
    assert not forgotten.has_met("17")
    forgotten.discard("17.0")
    assert forgotten.kept([17]).all()


def test_file_holds_marks_that_say_nothing_without_its_secret(tmp_path: Path) -> None:
    one, other = ForgottenPersons(tmp_path / "one"), ForgottenPersons(tmp_path / "other")
    for person in ("Rosa Meyer", "b"):
        one.add(person)
        other.add(person)
    assert one.marks.isdisjoint(other.marks)
    content = one.store.path.read_bytes()
    assert b"Rosa" not in content
    assert one.store.path.stat().st_mode & 0o077 == 0


def test_file_does_not_tell_who_came_when(forgotten: ForgottenPersons) -> None:
    for number in range(20):
        forgotten.add(number)
    content = forgotten.store.path.read_bytes()
    places = [content.rindex(mark.encode()) for mark in sorted(forgotten.marks)]
    assert places in (sorted(places), sorted(places, reverse=True))


@pytest.mark.parametrize("key", [None, b"short", "00" * 32])
def test_damaged_list_lets_nobody_back_in(forgotten: ForgottenPersons, key: object) -> None:
    forgotten.add("a")
    with forgotten.store.transaction() as db:
        db.execute("DELETE FROM singles")
        if key is not None:
            db.execute("INSERT INTO singles VALUES ('forgotten.key', ?)", (key,))
    for look in (lambda: len(forgotten), lambda: forgotten.kept(["a"]), lambda: forgotten.add("b")):
        with pytest.raises(FileFormatError, match="the list of forgotten persons is damaged"):
            look()


def test_empty_id_is_refused(forgotten: ForgottenPersons) -> None:
    for nobody in ("", "  ", None, float("nan"), "nan"):
        with pytest.raises(InvalidInputError, match="the person's id is empty"):
            forgotten.add(nobody)
    assert not forgotten.store.exists()


def test_rows_leave_tables_of_every_kind(forgotten: ForgottenPersons, tmp_path: Path) -> None:
    columns = {"who": ["p", "q", "p", ""], "x": [1, 2, 3, 4], "y": ["a", "b", "b", "a"]}
    (tmp_path / "t.csv").write_text("who,x,y\np,1,a\nq,2,b\np,3,b\n,4,a\n")
    read = read_table(tmp_path / "t.csv", schema=SCHEMA)
    assert without_forgotten(forgotten, columns, None, None, SCHEMA)[0] is columns
    forgotten.add("p")
    for table in (columns, pd.DataFrame(columns), read):
        for person in (None, False):
            found, y, whom = without_forgotten(forgotten, table, None, person, SCHEMA)
            assert SCHEMA.persons(found).tolist() == ["q", ""]
            np.testing.assert_array_equal(SCHEMA.transform(found).ravel(), np.array([2, 4]) / 9)
            assert (y, whom) == (None, person)
    assert read.n_rows == 4
    assert without_forgotten(forgotten, read, None, None, SCHEMA)[0].n_rows == 2
    X, y, whom = without_forgotten(forgotten, np.eye(3), [0, 1, 2], ["q", "p", "r"], Schema.of(None))
    assert X.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert list(y) == [0, 2]
    assert list(whom) == ["q", "r"]


def test_rows_that_name_nobody_are_refused_once_somebody_was_forgotten(forgotten: ForgottenPersons) -> None:
    X = np.eye(3)
    assert without_forgotten(forgotten, X, [0, 1, 2], None, Schema.of(None))[0] is X
    forgotten.add("p")
    with pytest.raises(InvalidInputError, match="these rows do not say whom they are about"):
        without_forgotten(forgotten, X, [0, 1, 2], None, Schema.of(None))


def test_texts_of_persons_are_those_by_which_rows_are_counted() -> None:
    assert person_texts([1, 2.0, "3.0", " x ", None, np.nan]) == ["1", "2", "3", "x", "", ""]
    assert person_texts(np.array([1.0, np.nan])) == ["1", ""]
