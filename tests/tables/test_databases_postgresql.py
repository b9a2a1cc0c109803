"""Tables in a real PostgreSQL, which the test starts as an unprivileged user in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from onefold.cli.app import main
from onefold.exceptions import InvalidInputError
from onefold.tables import Field, Schema, read_table
from reference.blocks import scan

pytest.importorskip("sqlalchemy")
psycopg = pytest.importorskip("psycopg")

SECRET = "correct-horse"
TABLES = """
CREATE TABLE visits (id bigint PRIMARY KEY, dose numeric(8, 2), weight real, ward char(4), adult boolean,
  day date, seen timestamptz, note text, risk text NOT NULL);
INSERT INTO visits SELECT i, i / 4.0, i, CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END, i > 30,
  date '2024-01-01' + i, timestamptz '2024-01-01 01:00+01' + i * interval '1 day', NULL,
  CASE WHEN i > 60 THEN 'high' ELSE 'low' END
  FROM generate_series(1, 120) AS i;
UPDATE visits SET dose = NULL, ward = NULL, day = NULL, seen = NULL WHERE id = 2;
CREATE SCHEMA "Lab";
CREATE TABLE "Lab"."Results" (value integer); INSERT INTO "Lab"."Results" VALUES (1);
CREATE TABLE odd (day date, doc jsonb); INSERT INTO odd VALUES ('infinity', '{"a": 1}'), ('2024-01-02', '{}');
CREATE TABLE secret (x integer); CREATE SEQUENCE counter;
CREATE ROLE reader LOGIN PASSWORD 'correct-horse';
GRANT SELECT ON visits, odd TO reader; GRANT USAGE ON SEQUENCE counter TO reader;
GRANT USAGE ON SCHEMA "Lab" TO reader; GRANT SELECT ON "Lab"."Results" TO reader;
"""


def _binaries() -> Path:
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        pytest.skip("PostgreSQL is not installed: no initdb on the path or below /usr/lib/postgresql")
    return folders[-1]


def _unprivileged() -> tuple[list[str], str]:
    """How to run a command as somebody who is not root, and who that is."""
    if os.geteuid() != 0:
        return [], pwd.getpwuid(os.geteuid()).pw_name
    names = [entry.pw_name for entry in pwd.getpwall()]
    user = next((name for name in ("postgres", "nobody") if name in names), None)
    if user is None or shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL refuses root, and there is no setpriv or no user postgres or nobody")
    entry = pwd.getpwnam(user)
    return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"], user


@dataclass(frozen=True)
class Server:
    port: int
    folder: Path

    def at(self, asked: str) -> str:
        return f"postgresql://reader@127.0.0.1:{self.port}/postgres#{asked}"

    def asked(self, query: str) -> str:
        file = self.folder / "asked.sql"
        file.write_text(query)
        return self.at(str(file))


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", SECRET)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    binaries, (prefix, user) = _binaries(), _unprivileged()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="onefold-postgresql-"))
    shutil.chown(folder, user)
    data, sockets = folder / "data", {"unix_socket_directories": folder, "listen_addresses": "127.0.0.1"}
    settings = sockets | {"port": port, "fsync": "off", "log_statement": "all"}

    def run(program: str, *words: str) -> None:
        command = [*prefix, str(binaries / program), *words]
        subprocess.run(command, check=True, cwd=folder, capture_output=True, timeout=120)

    try:
        password = folder / "password"
        password.write_text(SECRET)
        shutil.chown(password, user)
        known = ["-U", "owner", "-A", "scram-sha-256", f"--pwfile={password}", "--no-sync"]
        run("initdb", "-D", str(data), "-E", "UTF8", "--locale=C", *known)
        with (data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
        run("pg_ctl", "-D", str(data), "-l", str(folder / "log"), "-w", "start")
        try:
            place = {"host": "127.0.0.1", "port": port, "user": "owner", "dbname": "postgres"}
            with psycopg.connect(**place, password=SECRET) as connection:
                connection.execute(TABLES)
            yield Server(port, folder)
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_values_have_the_types_of_the_database(server: Server) -> None:
    table = read_table(server.asked("SELECT * FROM visits ORDER BY id"))
    kinds = {name: table[name].dtype.kind for name in table}
    assert kinds == dict(zip(table, "iffObOOOO", strict=True))
    assert table["id"][:3].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(table["dose"][:3], [0.25, np.nan, 0.75])
    assert table["ward"][:3].tolist() == ["b", None, "b"]  # char(4) without the blanks that fill it up
    assert str(table["day"][0]) == "2024-01-02"
    assert table["day"][1] is None
    assert str(table["seen"][0]).startswith("2024-01-02 00:00:00")  # UTC
    assert set(table["note"]) == {None}


def test_dates_are_read_by_the_schema_and_no_moment_is_an_error(server: Server) -> None:
    schema = Schema(
        [
            Field("day", "date", low=19723, high=20088, missing="indicator"),
            Field("seen", "datetime", low=0, high=2**32, missing="indicator"),
        ]
    )
    rows = schema.parse(read_table(server.asked("SELECT day, seen FROM visits ORDER BY id"), schema=schema))
    assert rows["day"][0] == 19724.0
    assert rows["seen"][0] == 19724.0 * 86_400
    assert np.isnan([rows["day"][1], rows["seen"][1]]).all()
    odd = read_table(server.asked("SELECT day, NULL AS seen FROM odd"), schema=schema, private=True)
    assert np.isnan(odd["day"].values).tolist() == [True, False]


def test_tables_of_other_namespaces_and_blocks_are_read(server: Server) -> None:
    assert read_table(server.at("Lab.Results"))["value"].tolist() == [1]
    assert [len(block["id"]) for block in scan(server.at("visits"), 50)] == [50, 50, 20]


@pytest.mark.parametrize(
    "query, told",
    [
        ("SELECT nextval('counter')", "changes the database"),
        ("SELECT 1; COMMIT; DROP TABLE visits", "does not accept the statement"),
        ("SELECT x FROM secret", "this user may not read the table"),
        ("SELECT agee FROM visits", "does not accept the statement (UndefinedColumn, code 42703)"),
        ("SELECT CAST(risk AS integer) FROM visits", "a value cannot be converted as the statement asks"),
        ("SELECT doc FROM odd", "column 'doc' holds neither numbers, nor dates, nor texts"),
        ("WITH gone AS (DELETE FROM visits RETURNING id) SELECT * FROM gone", "code"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line_without_a_cell(
    server: Server, query: str, told: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_table(server.asked(query))
    assert told in str(caught.value)
    assert "low" not in str(caught.value).replace("allow", "")
    assert caught.value.__context__ is None  # it would show the cell
    assert "\n" not in str(caught.value)
    assert read_table(server.asked("SELECT count(*) AS n FROM visits"))["n"].tolist() == [120]


def test_who_may_not_come_in_is_told_what_to_check(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInputError, match="there is no table 'visit', did you mean 'visits'"):
        read_table(server.at("visit"))
    base = f"postgresql://reader@127.0.0.1:{server.port}"
    for address in (f"{base}/none#t", f"{base}/postgres?sslmode=require#t"):
        with pytest.raises(InvalidInputError, match="cannot connect"):
            read_table(address)
    monkeypatch.setenv("PGPASSWORD", "wrong-secret")
    with pytest.raises(InvalidInputError, match="PGPASSWORD") as caught:
        read_table(server.at("visits"))
    assert "wrong-secret" not in str(caught.value)


def test_commands_read_with_a_password_from_the_environment(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.sql").write_text("SELECT weight, ward, risk\nFROM visits -- all of them; really\n;")
    assert main(["fit", server.at("visits.sql"), "--label", "risk", "--out", "m.onefold"]) == 0
    assert main(["predict", "m.onefold", server.at("visits"), "--label", "risk", "--json"]) == 0
    told = capsys.readouterr()
    assert SECRET not in told.out + told.err
    assert SECRET.encode() not in (tmp_path / "m.onefold").read_bytes()
