"""The web pages: what leaves is what a person confirmed, counted first; and states follow from facts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.tiers import later

from reference.site_files import model_file

pytest.importorskip("starlette.testclient")
pytest.importorskip("matplotlib")

from starlette import testclient

from onefold.fabrication import counts, synthesizer
from onefold.federated.flower import Federation
from onefold.federated.flower.life import LifeSign, born
from onefold.federated.flower.nodes import Node
from onefold.privacy import Guarantee, Ledger
from onefold.privacy.mechanisms.mechanism import Mechanism
from onefold.serve import create_app
from onefold.serve.app import HEADER, SitePage

HOME = "http://127.0.0.1:8000"
GROUND = "the form of admission"
N = 60


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "account" / "pages.ledger"


@pytest.fixture
def user(ledger: Path) -> Iterator[Any]:
    app = create_app("t", ledger=ledger)
    with testclient.TestClient(app, base_url=HOME, headers={"origin": HOME, HEADER: "t"}) as client:
        yield client


# --- neighbouring tables ------------------------------------------------------------------------------------

HEAD = "who,cost,day,note,code,sick"
ROWS = [
    f"p{n},{1 + n % 9},{1 + n % 28:02d}.01.2024,same,{n % 4},{'yes' if n % 3 else 'no'}" for n in range(N)
]
# One record more. Each turns something over that is guessed: scale and its unit, the format of dates, whether
# a column is left out, its type, the texts for gaps, categories.
MORE = {
    "nobody": None,
    "a heavy tail": "p98,90000,03.01.2024,same,2,yes",
    "a fraction": "p98,2.5,03.01.2024,same,2,yes",
    "another date": "p98,3,2024-01-03,same,2,yes",
    "another note": "p98,3,03.01.2024,other,2,yes",
    "a gap": "p98,NA,?,n/a,NULL,yes",
    "a person again": "p1,3,03.01.2024,same,2,yes",
    "another code": "p98,3,03.01.2024,same,x,yes",
    "a new class": "p98,3,03.01.2024,same,2,perhaps",
    "a comma": 'p98,"3,5",03.01.2024,same,2,yes',
}
# What the person declares, whatever the page proposes.
DECLARED: dict[str, dict[str, Any]] = {
    "cost": {"type": "number", "constraints": {"minimum": 0, "maximum": 1000}, "decimalChar": "."},
    "day": {
        "type": "date",
        "format": "%d.%m.%Y",
        "constraints": {"minimum": "2024-01-01", "maximum": "2024-12-31"},
    },
    "sick": {"type": "string", "onefold:role": "label", "constraints": {"enum": ["no", "yes"]}},
}
SEEN = ("type", "format", "decimalChar", "groupChar", "bareNumber", "constraints", "onefold:role")


def filled_in(proposed: dict[str, Any]) -> dict[str, Any]:
    """The proposal after a person has replaced what the page shows of the columns that it knows."""
    fields = []
    for field in proposed["fields"]:
        told = DECLARED.get(field["name"])
        rest = {key: value for key, value in field.items() if told is None or key not in SEEN}
        fields.append(rest | deepcopy(told or {}))
    return proposed | {"fields": fields}


def asked(user: Any, more: str | None, unit: str) -> dict[str, Any]:
    rows = ROWS if unit == "record" or more is None else ROWS[:-1]  # where entries change, rows are replaced
    text = "\n".join([HEAD, *rows, *([] if more is None else [more])]) + "\n"
    found = user.post("/api/table", params={"name": "a.csv", "label": "sick"}, content=text).json()
    about = {"known": list(DECLARED), "unit": unit, "epsilon": 1.0, "rows_about": N, "ground": GROUND}
    return {"id": found["id"], "about": {**about, "schema": filled_in(found["schema"])}}


def what_leaves(user: Any, more: str | None, unit: str) -> dict[str, Any]:
    """Everything but the rows that were drawn and their number."""
    given = asked(user, more, unit)
    where = f"/api/table/{given['id']}"
    preview = user.post(f"{where}/preview", json=given["about"])
    made = user.post(f"{where}/make", json=given["about"])
    assert made.status_code == 200, made.text
    told = made.json()
    assert told["holds"] is True
    return {
        "schema": user.get(f"{where}/files/schema.json").content,
        "guarantee": user.get(f"{where}/files/guarantee.json").json() | {"charges": None},
        "heading": user.get(f"{where}/files/private-table.csv").text.split("\n")[0],
        "preview": preview.content,
        "page": {key: told[key] for key in ("verdict", "guarantee", "columns", "files")},
    }


@pytest.mark.parametrize("unit", later(["record", "entry"], ["entry"]))
def test_neighbouring_tables_give_the_same_schema_and_the_same_words(user: Any, unit: str) -> None:
    alone = what_leaves(user, None, unit)
    for name, more in MORE.items():
        assert what_leaves(user, more, unit) == alone, name
    # It is not the same because nothing is said: another declaration is another schema.
    given = asked(user, None, unit)
    given["about"]["schema"]["fields"][1]["constraints"]["maximum"] = 2000
    user.post(f"/api/table/{given['id']}/make", json=given["about"])
    assert user.get(f"/api/table/{given['id']}/files/schema.json").content != alone["schema"]


def test_the_proposal_itself_differs_for_these_neighbours(user: Any) -> None:
    """Otherwise the test above would show nothing."""
    alone = asked(user, None, "record")["about"]["schema"]
    others = [asked(user, more, "record")["about"]["schema"] for name, more in MORE.items() if more]
    assert sum(other != alone for other in others) >= 6


def test_whatever_is_sent_only_what_the_page_shows_is_kept(user: Any) -> None:
    given = asked(user, None, "record")
    secrets = {
        "onefold:scale": "log",
        "onefold:logUnit": 7,
        "onefold:fill": 41,
        "onefold:bins": [43],
        "missingValues": ["secret"],
        "title": "secret",
        "onefold:review": "secret",
        "onefold:unit": "secret",
    }
    given["about"]["schema"]["fields"][1] |= secrets
    given["about"]["schema"] |= {"name": "secret", "missingValues": ["secret"], "title": "secret"}
    where = f"/api/table/{given['id']}"
    assert user.post(f"{where}/make", json=given["about"]).status_code == 200
    saved = user.get(f"{where}/files/schema.json")
    assert "secret" not in saved.text
    cost = saved.json()["fields"][1]
    assert set(cost) == {"name", "type", "constraints", "onefold:missing", "onefold:confirmed"}
    assert saved.json()["fields"][3] == {"name": "note", "type": "string", "onefold:role": "ignored"}


# --- the ledger ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", later(["record", "entry"], ["entry"]))
def test_every_release_is_one_event_that_is_there_before_noise(
    user: Any, ledger: Path, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []

    def watched(real: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*given: Any, **more: Any) -> Any:
            counted.append(len(Ledger.load(ledger).events))
            return real(*given, **more)

        return draw

    before = user.get("/api/offer").json()["account"]
    assert before["file"] == str(ledger)
    given = asked(user, None, unit)
    user.post(f"/api/table/{given['id']}/preview", json=given["about"])
    user.post(f"/api/table/{given['id']}/curve", json=given["about"])
    assert Ledger.load(ledger).events == ()  # looking costs nothing
    monkeypatch.setattr(counts, "rounded_gaussian", watched(counts.rounded_gaussian))
    monkeypatch.setattr(Mechanism, "randomise", watched(Mechanism.randomise))
    for click in (1, 2, 3):
        counted.clear()
        told = user.post(f"/api/table/{given['id']}/make", json=given["about"]).json()
        assert set(counted) == {click}
        assert len(Ledger.load(ledger).events) == click
        assert told["account"] != before
        for name in told["files"]:
            user.get(f"/api/table/{given['id']}/files/{name}")
    assert len(Ledger.load(ledger).events) == 3
    assert user.get("/api/offer").json()["account"] == told["account"]


def test_a_limit_holds_and_what_is_refused_is_not_made(user: Any, ledger: Path) -> None:
    ledger.unlink()
    Ledger(limit_epsilon=2.0).save(ledger)
    given = asked(user, None, "record")
    where = f"/api/table/{given['id']}"
    assert user.post(f"{where}/make", json=given["about"]).status_code == 200
    refused = user.post(f"{where}/make", json=given["about"])
    assert refused.status_code == 400
    assert "the limit is 2" in refused.json()["error"]
    assert user.get(f"{where}/files/private-table.csv").status_code == 404


def test_an_account_that_vanishes_is_missed_and_not_begun_anew(user: Any, ledger: Path) -> None:
    given = asked(user, None, "record")
    where = f"/api/table/{given['id']}"
    assert user.post(f"{where}/make", json=given["about"]).status_code == 200
    ledger.rename(ledger.with_suffix(".elsewhere"))
    for answer in (user.get("/api/offer"), user.post(f"{where}/make", json=given["about"])):
        assert answer.status_code == 400
        assert "there is no ledger" in answer.json()["error"]
    assert not ledger.exists()
    assert user.get(f"{where}/files/private-table.csv").status_code == 404


def test_a_void_table_is_never_offered(user: Any, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        synthesizer,
        "under_contract",
        lambda guarantee, _: Guarantee.voided(guarantee, "a reason that nobody thought of"),
    )
    given = asked(user, None, "record")
    where = f"/api/table/{given['id']}"
    refused = user.post(f"{where}/make", json=given["about"])
    assert "a reason that nobody thought of" in refused.json()["error"]
    for name in ("private-table.csv", "guarantee.json", "report.html", "schema.json"):
        assert user.get(f"{where}/files/{name}").status_code == 404
    assert Ledger.load(ledger).events == ()


# --- the state of a site ------------------------------------------------------------------------------------


def test_the_state_of_a_site_follows_from_its_files_and_its_process(tmp_path: Path) -> None:
    pytest.importorskip("flwr")
    Federation.create(tmp_path / "f", ("north",), port=39_997)
    page = SitePage(tmp_path / "f" / "sites" / "north")
    folder = page.site.folder

    def state() -> str:
        return str(page.told()["state"])

    def signed(at: float, online: bool = True, pid: int = os.getpid(), begun: str | None = None) -> None:
        LifeSign(at, ("north",) * online, pid, begun or born(os.getpid())).leave(folder.alive)

    assert state() == "empty"
    y = np.arange(40) % 2
    page.site.fit(np.random.default_rng(0).random((40, 2)) + y[:, None], y)
    assert state() == "stopped"
    node = Node(folder)
    node._is_server_there = lambda: False  # type: ignore[method-assign]
    node.check()
    assert state() == "connecting"
    node.stop()
    assert state() == "stopped"
    signed(time.time())
    assert state() == "answers"
    page.site.pause()
    assert state() == "paused"
    page.site.pause(False)
    signed(time.time(), begun="1")  # a process of the same number that began at another time
    assert state() == "stopped"
    signed(time.time() - 60.0)
    os.utime(folder.alive, (0, 0))
    assert state() == "stopped"
    signed(time.time())
    model_file(folder).unlink()
    assert state() == "empty"
