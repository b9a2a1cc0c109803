"""Tables as people have them: each gets a right result or one clear line, and nothing stays on the disk."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("starlette")
pytest.importorskip("matplotlib")
pytest.importorskip("starlette.testclient")

from starlette import testclient

from onefold.serve import create_app, tables
from onefold.serve.app import HEADER
from onefold.serve.tables import PREFIX, OpenTables

HOME = "http://127.0.0.1:8000"
GERMAN = "Alter;Gewicht;Datum;krank\n" + "\n".join(
    f"{20 + n % 60};{60 + n % 31},5;{1 + n % 28:02d}.{1 + n % 12:02d}.2023;{'ja' if n % 3 else 'nein'}"
    for n in range(120)
)
SCRIPT = 'a "q" <script>alert(1)</script>'


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with testclient.TestClient(
        create_app("t"), base_url=HOME, headers={"origin": HOME, HEADER: "t"}
    ) as client:
        yield client
    assert list(tmp_path.glob(f"{PREFIX}*")) == []  # whatever was tried, nothing stays


def added(user: Any, content: str | bytes, label: str = "", name: str = "my table.csv") -> Any:
    return user.post("/api/table", params={"name": name, "label": label}, content=content)


def made(user: Any, found: Any, unit: str, **more: Any) -> Any:
    known = [field["name"] for field in found["schema"]["fields"]]
    about = {"schema": found["schema"], "unit": unit, "epsilon": 1.0, "rows_about": 100, "known": known}
    about["ground"] = "a form"
    reply = user.post(f"/api/table/{found['id']}/make", json={**about, **more})
    assert reply.status_code == 200, reply.text
    rows = user.get(f"/api/table/{found['id']}/files/private-table.csv").text
    return reply.json(), rows


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_semicolons_decimal_commas_and_german_dates_are_read_and_written(user: Any, encoding: str) -> None:
    text = GERMAN.replace("Gewicht", "Größe")
    found = added(user, text.encode(encoding), "krank").json()
    kinds = {field["name"]: field["type"] for field in found["schema"]["fields"]}
    assert kinds == {"Alter": "integer", "Größe": "number", "Datum": "date", "krank": "string"}
    assert bool(found["notes"]) == (encoding == "cp1252")
    told, rows = made(user, found, "record")
    assert told["holds"] is True
    assert rows.startswith("Alter,Größe,Datum,krank\n")
    assert len(told["first"]) == 5
    dates = [row[2] for row in csv.reader(rows.splitlines()[1:])]
    assert {date.count(".") for date in dates if date} == {2}  # as the table writes dates; noise makes gaps


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "the file is empty"),
        ("age,sick\n", "the table has no rows"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x01", "not a text file"),
        ("<html>\n<p>secret-word, a, b</p></html>", "line 2"),
        ("age,age\n1,2\n3,4\n", "one name"),
        ("age,,sick\n1,2,3\n3,4,5\n", "has no name"),
        ("a,b\n1\n", "line 2 has 1 cells"),
    ],
)
def test_what_is_no_table_gets_one_line_with_the_name_that_people_know(
    user: Any, content: str | bytes, said: str
) -> None:
    reply = added(user, content)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error.startswith("my table.csv: ")
    assert said in error
    assert "\n" not in error
    assert PREFIX not in error
    assert "secret-word" not in error


def test_tiny_tables_get_a_result_that_says_so(user: Any) -> None:
    for rows in ("30,70.5,ja\n40,80,nein\n", "30,70.5,ja\n"):
        found = added(user, f"age,w,sick\n{rows}", "sick").json()
        told, text = made(user, found, "record", epsilon=0.05)
        assert told["rows"] == len(text.splitlines()) - 1
        if told["rows"] == 0:
            assert told["quality"] == [tables.NO_ROWS]
    one = added(user, "age\n" + "\n".join(str(20 + n % 60) for n in range(200))).json()
    for unit in ("record", "entry"):
        assert made(user, one, unit)[0]["holds"] is True


def test_names_with_quotes_and_scripts_come_back_as_they_are(user: Any) -> None:
    lines = "\n".join(
        f"{n % 40},{'<img src=x onerror=alert(1)>' if n % 2 else chr(61) + '1'}" for n in range(90)
    )
    found = added(user, f'"{SCRIPT.replace(chr(34), chr(34) * 2)}",sick\n{lines}\n', "sick").json()
    assert found["schema"]["fields"][0]["name"] == SCRIPT
    assert made(user, found, "record")[0]["columns"][0] == SCRIPT
    report = user.get(f"/api/table/{found['id']}/files/report.html").text
    assert "<script>alert" not in report
    assert "<img src=x" not in report


def test_persons_are_protected_up_to_their_number_of_rows(user: Any) -> None:
    rows = "\n".join(f"P{n % 40},{20 + n % 60},{'ja' if n % 3 else 'nein'}" for n in range(200))
    found = added(user, f"pid,age,sick\n{rows}\n", "sick").json()
    found["schema"]["fields"][0]["onefold:role"] = "person"
    found["schema"]["onefold"]["rowsPerPerson"] = 5
    told, text = made(user, found, "person")
    assert told["holds"] is True
    assert "one person with at most 5 records" in told["verdict"][0]
    assert text.startswith("age,sick\n")  # who it was is not told


def test_promise_for_entries_begins_with_the_entry(user: Any) -> None:
    found = added(user, GERMAN, "krank").json()
    told, _ = made(user, found, "entry")
    assert "everything but one entry" in told["verdict"][0]
    assert "73.11 of 100" in told["verdict"][0]


def test_column_of_classes_can_be_chosen_afterwards(user: Any) -> None:
    found = added(user, GERMAN).json()
    where = f"/api/table/{found['id']}/label"
    fields = user.post(where, json={"label": "krank"}).json()["schema"]["fields"]
    assert [field.get("onefold:role") for field in fields] == [None, None, None, "label"]
    wrong = user.post(where, json={"label": "nowhere"})
    assert (wrong.status_code, "no column" in wrong.json()["error"]) == (400, True)
    assert user.post(where, json={"label": ""}).status_code == 200


def test_one_table_is_made_at_a_time_and_late_answers_are_asked_for_again(
    user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onefold.serve import app

    monkeypatch.setattr(app, "ANSWER_SECONDS", 0.05)
    go_on, real = threading.Event(), tables.make

    def slow(*given: Any, **more: Any) -> Any:
        go_on.wait(30)
        return real(*given, **more)

    monkeypatch.setattr(tables, "make", slow)
    found = added(user, GERMAN, "krank").json()
    where = f"/api/table/{found['id']}/make"
    about = {"schema": found["schema"], "unit": "record", "epsilon": 1.0, "known": ["Alter"]}
    about["ground"] = "a form"
    assert user.post(where, json=about).json() == {"working": True}
    assert "already" in user.post(where, json=about).json()["error"]
    go_on.set()
    while (told := user.get(where).json()).get("working"):
        pass
    assert told["columns"] == ["Alter"]  # nobody said to know another column
    assert "nothing is being made" in user.get(where).json()["error"]


def test_table_that_is_closed_while_it_is_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = OpenTables()
    trial = kept.add("a.csv", GERMAN.encode(), "krank")
    root = trial.root
    with trial.at_work():
        kept.drop(trial.id)
        root.mkdir(exist_ok=True)
        (root / "private-table.csv").write_text("late")
    assert not root.exists()


def test_folder_of_a_table_is_for_this_account_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = OpenTables()
    trial = kept.add("a.csv", GERMAN.encode())
    assert trial.root.stat().st_mode & 0o077 == 0
    assert trial.table.stat().st_mode & 0o077 == 0
    kept.close()
    assert not trial.root.exists()


def test_forecast_is_computed_once_and_not_for_what_was_changed_again(
    user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[str] = []
    real = tables.curve
    monkeypatch.setattr(tables, "curve", lambda *given: (counted.append(given[1]), real(*given))[1])
    found = added(user, GERMAN, "krank").json()
    about = {"schema": found["schema"], "unit": "entry", "epsilon": 1.0, "known": ["Alter"]}
    for epsilon in (1.0, 2.0):
        told = user.post(f"/api/table/{found['id']}/curve", json={**about, "epsilon": epsilon}).json()
        assert told["curve"]["unit"] == "entry"
    assert counted == ["entry"]


@pytest.mark.merge
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_program_that_is_ended_leaves_nothing_on_the_disk(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-m", "onefold", "serve"]
    own = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=own) as program:
        assert program.stdout is not None
        address = urlsplit(program.stdout.readline().removeprefix("open ").strip())
        home = f"http://{address.netloc}"
        headers = {"Origin": home, HEADER: address.query.removeprefix("token=")}
        sent = Request(f"{home}/api/table?name=a.csv", GERMAN.encode(), headers)
        with urlopen(sent, timeout=60) as reply:
            assert reply.status == 200
        (folder,) = tmp_path.glob(f"{PREFIX}*")
        assert (folder / "private.csv").exists()
        program.send_signal(number)
        program.wait(60)
    assert list(tmp_path.glob(f"{PREFIX}*")) == []
