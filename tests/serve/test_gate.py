"""Who gets in: the token, this machine, this origin; and requests that are too large."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette")
pytest.importorskip("matplotlib")
pytest.importorskip("starlette.testclient")

from starlette import testclient

from onefold.exceptions import InvalidInputError
from onefold.serve import app as gates
from onefold.serve import create_app, serve, tables

TOKEN = "a-token-for-tests"
HOME = "http://127.0.0.1:8000"
CSV = "age,sick\n" + "\n".join(f"{20 + n * 7 % 30}.5,{'yes' if n % 2 else 'no'}" for n in range(60))


@pytest.fixture
def stranger() -> Iterator[Any]:
    with testclient.TestClient(create_app(TOKEN), base_url=HOME, follow_redirects=False) as client:
        yield client


@pytest.fixture
def user(stranger: Any) -> Any:
    stranger.headers |= {"origin": HOME, gates.HEADER: TOKEN}
    return stranger


def test_nobody_gets_in_without_the_token(stranger: Any) -> None:
    for path in ("/api/offer", "/api/site", "/api/table/x/files/private-table.csv"):
        assert stranger.get(path).status_code == 403
        assert stranger.get(path, headers={gates.HEADER: "wrong"}).status_code == 403
        assert stranger.get(path, params={"token": TOKEN}).status_code == 403


def test_an_empty_token_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="everybody would be let in"):
        create_app("")


def test_no_cookie_is_set_that_other_programs_of_this_machine_would_get(user: Any) -> None:
    for path in ("/", f"/?token={TOKEN}", "/api/offer"):
        reply = user.get(path)
        assert "set-cookie" not in reply.headers
        assert TOKEN not in reply.text


def test_another_name_for_this_machine_is_refused(user: Any) -> None:
    assert user.get("/").status_code == 200
    for host in (
        "evil.example:8000",
        "127.0.0.1",  # without our port, and with another one
        "127.0.0.1:9999",
        "127.0.0.1.evil.example:8000",
        "127.0.0.2:8000",
        "localhost.evil.example:8000",
        "127.0.0.1:8000/api?",
        "",
    ):
        assert user.get("/", headers={"host": host}).status_code == 421, host
    assert user.get("/", headers={"host": "localhost:8000"}).status_code == 200


def test_everything_but_the_page_and_its_parts_needs_the_token(stranger: Any) -> None:
    assert [stranger.get(path).status_code for path in ("/", "/static/app.js", "/static/app.css")] == [
        200
    ] * 3
    for path in ("/nowhere", "/%61pi/offer", "//api/offer", "/static", "/docs", "/openapi.json"):
        assert stranger.get(path).status_code == 403, path
    for path in ("/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static/index.html"):
        assert stranger.get(path).status_code in (403, 404), path


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:9999", "null", ""])
def test_a_page_of_another_origin_changes_nothing(user: Any, origin: str) -> None:
    reply = user.post("/api/table", params={"name": "a.csv"}, content=CSV, headers={"origin": origin})
    assert reply.status_code == 403


def test_every_reply_forbids_scripts_of_others_and_caches(user: Any) -> None:
    for path in ("/", "/static/app.css", "/api/offer", "/nowhere"):
        headers = user.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"


def test_a_body_that_is_too_large_is_refused_whatever_its_header_says(
    user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "LARGEST_BODY", 100)
    assert user.post("/api/table", params={"name": "a.csv"}, content=CSV).status_code == 413

    def unsaid() -> Iterator[bytes]:
        yield from (CSV[start : start + 50].encode() for start in range(0, len(CSV), 50))

    reply = user.post("/api/table", params={"name": "a.csv"}, content=unsaid())
    assert reply.status_code == 400
    assert "at most" in reply.json()["error"]


def test_a_body_that_stops_on_its_way_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "PATIENCE_SECONDS", 0.05)
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(30 if sent_first.is_set() else 0)
        sent_first.set()
        return {"type": "http.request", "body": b"age", "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [
        (b"host", b"127.0.0.1:8000"),
        (b"origin", HOME.encode()),
        (gates.HEADER.encode(), TOKEN.encode()),
    ]
    scope = {"type": "http", "method": "POST", "path": "/api/table", "query_string": b"name=a.csv"}
    scope |= {"headers": headers, "server": ("127.0.0.1", 8000), "scheme": "http", "root_path": ""}

    async def run() -> None:
        nonlocal sent_first
        sent_first = asyncio.Event()
        await asyncio.wait_for(create_app(TOKEN)(scope, receive, send), 10)

    sent_first: Any = None
    asyncio.run(run())
    assert sent[0]["status"] == 400
    assert b"did not arrive" in sent[1]["body"]


def test_table_is_described_made_downloaded_and_deleted(user: Any) -> None:
    found = user.post("/api/table", params={"name": "a.csv", "label": "sick"}, content=CSV).json()
    where = f"/api/table/{found['id']}"
    about = {"schema": found["schema"], "unit": "record", "epsilon": 1.0, "rows_about": 60}
    told = user.post(f"{where}/preview", json={**about, "known": ["age"]}).json()
    assert [each["column"] for each in told["columns"]] == ["age"]
    assert "73.2 of 100" in told["odds"]
    assert "± " in told["columns"][0]["after"]
    curve = user.post(f"{where}/curve", json={**about, "known": ["age"]}).json()["curve"]
    assert curve["scores"]["forecast"][0] < curve["scores"]["forecast"][-1]
    made = user.post(f"{where}/make", json={**about, "known": ["age", "sick"], "ground": "a form"}).json()
    assert made["holds"] is True
    assert any("a form" in line for line in made["guarantee"])
    rows = user.get(f"{where}/files/private-table.csv")
    assert rows.text.startswith("age,sick\n")
    assert user.get(f"{where}/files/private.csv").status_code == 404  # the raw table is never served
    assert user.get(f"{where}/files/..%2Fprivate.csv").status_code == 404
    assert user.delete(where).status_code == 200
    assert user.get(f"{where}/files/private-table.csv").status_code == 404


def test_a_column_that_nobody_knows_is_left_out(user: Any) -> None:
    found = user.post("/api/table", params={"name": "a.csv", "label": "sick"}, content=CSV).json()
    about = {"schema": found["schema"], "unit": "entry", "epsilon": 1.0, "ground": "a form"}
    where = f"/api/table/{found['id']}"
    told = user.post(f"{where}/make", json={**about, "known": ["age"]}).json()
    assert told["holds"] is True
    assert told["columns"] == ["age"]
    for known in ([], None):
        refused = user.post(f"{where}/make", json={**about, "known": known})
        assert "tick" in refused.json()["error"]
    silent = user.post(f"{where}/make", json={**about, "known": ["age"], "ground": " "})
    assert "from where you know" in silent.json()["error"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": 0}, "epsilon must be"),
        ({"epsilon": "1"}, "epsilon must be"),
        ({"unit": "planet"}, "choose what to protect"),
        ({"unit": "person"}, "to protect persons"),
        ({"schema": {}}, "a schema is an object"),
        ({"schema": []}, "a schema is an object"),
        ({"schema": "x"}, "a schema is an object"),
        ({"known": 5}, "a schema is an object"),
    ],
)
def test_bad_requests_are_told_in_one_line(user: Any, change: dict[str, Any], said: str) -> None:
    found = user.post("/api/table", params={"name": "a.csv", "label": "sick"}, content=CSV).json()
    about = {"schema": found["schema"], "unit": "record", "epsilon": 1.0, "rows_about": 60, **change}
    reply = user.post(f"/api/table/{found['id']}/preview", json=about)
    assert reply.status_code == 400
    assert said in reply.json()["error"]
    assert "\n" not in reply.json()["error"]


def test_folders_are_gone_when_the_program_ends_and_when_many_tables_come(tmp_path: Path) -> None:
    app = create_app(TOKEN)
    with testclient.TestClient(app, base_url=HOME, headers={"origin": HOME, gates.HEADER: TOKEN}) as client:
        names = [
            client.post("/api/table", params={"name": "a.csv"}, content=CSV).json()["id"] for _ in range(6)
        ]
        about = {"schema": {}, "unit": "record", "epsilon": 1.0}
        first = client.post(f"/api/table/{names[0]}/preview", json=about)
        assert "closed" in first.json()["error"]


def test_pages_are_never_open_to_other_machines() -> None:
    for host in ("0.0.0.0", "192.168.1.7", "example.org", "::", "127.0.0.2"):
        with pytest.raises(InvalidInputError, match="this machine only"):
            serve(host=host)


def test_address_can_be_opened_as_soon_as_it_is_told() -> None:
    def open_it(address: str) -> None:
        with socket.create_connection(("127.0.0.1", urlsplit(address).port or 0), 5):
            raise InterruptedError

    with pytest.raises(InterruptedError):
        serve(ready=open_it)


def test_schema_that_leaves_has_nothing_that_only_the_rows_told(user: Any) -> None:
    rows = "\n".join(
        f"p{n % 9},{20 + n * 7 % 30}.5,{'hiv' if n % 5 else 'flu'},{'yes' if n % 2 else ''}"
        for n in range(90)
    )
    text = f"who,age,diag,sick\n{rows}\n"
    found = user.post("/api/table", params={"name": "a.csv", "label": "sick"}, content=text).json()
    for field, role in zip(found["schema"]["fields"], ("person", "feature", "ignored", "label"), strict=True):
        field["onefold:role"] = role
    where = f"/api/table/{found['id']}"
    about = {
        "schema": found["schema"],
        "unit": "record",
        "epsilon": 1.0,
        "known": ["age", "sick"],
        "rows_about": 90,
        "ground": "a form",
    }
    assert user.post(f"{where}/make", json=about).json()["holds"] is True
    saved = user.get(f"{where}/files/schema.json")
    for secret in ("p1", "hiv", "flu", "fill", "review"):
        assert secret not in saved.text
    assert [field["name"] for field in saved.json()["fields"]] == ["who", "age", "diag", "sick"]


def test_classes_are_covered_where_entries_are_protected(user: Any) -> None:
    found = user.post("/api/table", params={"name": "a.csv", "label": "sick"}, content=CSV).json()
    about = {"schema": found["schema"], "unit": "entry", "epsilon": 0.5, "known": ["age", "sick"]}
    about["ground"] = "a form"
    where = f"/api/table/{found['id']}"
    told = user.post(f"{where}/make", json=about).json()
    assert told["holds"] is True
    assert not any("Labels and class sizes: NOT covered" in line for line in told["guarantee"])
    made = [line.split(",")[-1] for line in user.get(f"{where}/files/private-table.csv").text.split()[1:]]
    assert made != [line.split(",")[-1] for line in CSV.split("\n")[1:]]


def test_forecast_for_persons_is_worse_the_more_rows_they_have(user: Any) -> None:
    rows = "\n".join(f"p{n % 30},{20 + n * 7 % 30}.5,{'yes' if n % 2 else 'no'}" for n in range(300))
    text = f"who,age,sick\n{rows}\n"
    found = user.post("/api/table", params={"name": "a.csv", "label": "sick"}, content=text).json()
    found["schema"]["fields"][0]["onefold:role"] = "person"
    about = {
        "schema": found["schema"],
        "unit": "person",
        "epsilon": 1.0,
        "known": ["age", "sick"],
        "rows_about": 300,
    }
    shares = []
    for most in (1, 10):
        found["schema"]["onefold"]["rowsPerPerson"] = most
        told = user.post(f"/api/table/{found['id']}/curve", json=about).json()
        shares.append(told["curve"]["scores"]["forecast"][0])
    assert shares[1] < shares[0]


def test_folders_of_programs_that_were_killed_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables.tempfile, "gettempdir", lambda: str(tmp_path))
    dead, alive = tmp_path / "onefold-try-999999999-x", tmp_path / f"onefold-try-{os.getpid()}-x"
    for folder in (dead, alive):
        folder.mkdir()
    tables.sweep_dead()
    assert [folder.exists() for folder in (dead, alive)] == [False, True]
