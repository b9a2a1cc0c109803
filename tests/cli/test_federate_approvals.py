"""Keys of queriers, decisions of data owners and the exported log, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.cli.app import main
from onefold.exceptions import FederationError
from onefold.federated.access.signatures import SigningKey, find_signing_key
from onefold.federated.flower import Federation, QueryKeyFile, Site, site_app
from onefold.federated.flower.admission import site_log
from onefold.federated.messages import Answers, Failure, Query

X = np.random.default_rng(3).random((40, 2)) + np.array([[0.0, 0.0], [2.0, 0.0]] * 20)
Y = np.array(["low", "high"] * 20)
SITE = ["--folder", "federation/sites/north"]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Site:
    """A fitted site of a new federation in the working folder, and a querier's key in the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert main(["federate", "init", "--sites", "north"]) == 0
    assert main(["federate", "querier", "new", "ward"]) == 0
    capsys.readouterr()
    return Site("north").fit(X, Y)


def ask(site: Site, number: int, purpose: str = "", rows: int = 5) -> Any:
    query = Query(f"q{number}", X[:rows])
    key = find_signing_key("ward")
    assert key is not None
    signature = key.sign(query, site.folder.federation_id, purpose=purpose)
    return site_app.answer(site.folder, query, "server-says", signature=signature)


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    assert main(["federate", *words]) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out + captured.err


def test_querier_makes_a_key_once_and_shows_it(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(run(capsys, "querier", "show", "ward", "--json"))
    key = find_signing_key("ward")
    assert key is not None
    assert (told["id"], told["public"]) == (key.key.id, key.key.public)
    assert Path(told["key"]).stat().st_mode & 0o777 == 0o600
    assert "there is a key already" in run(capsys, "querier", "new", "ward", code=2)
    assert "querier new lab" in run(capsys, "querier", "show", "lab", code=2)
    assert "a querier's name must be" in run(capsys, "querier", "new", "../ward", code=2)


def test_owner_sees_who_waits_and_decides(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert isinstance(ask(site, 1, "triage"), Failure)
    shown = run(capsys, "approvals", "list", *SITE)
    assert "1 request waiting" in shown
    assert "asks about 5 rows now for 'triage'; 0 rows answered so far" in shown
    assert "Compare the id" in shown
    run(capsys, "approvals", "approve", "ward", "--rows", "7", "--until", "2099-01-31", *SITE)
    assert isinstance(ask(site, 2), Answers)
    shown = run(capsys, "approvals", "list", *SITE)
    assert "ward (id" in shown
    assert "5 rows answered so far; 2 rows left; until 2099-01-31" in shown
    assert isinstance(ask(site, 3), Failure)
    run(capsys, "approvals", "deny", "ward", *SITE)
    assert ask(site, 4).code == "denied"
    (entry,) = json.loads(run(capsys, "approvals", "list", "--json", *SITE))["approvals"]
    assert (entry["decision"], entry["answered"]) == ("denied", 5)


def test_site_can_ask_for_every_purpose_or_for_none(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(run(capsys, "site", "--approve", "--fit-only", "--json", *SITE))
    assert told["approval"] == "purposes"
    ask(site, 1, "triage")
    run(capsys, "approvals", "approve", "ward", *SITE)
    assert isinstance(ask(site, 2, "triage"), Answers)
    assert ask(site, 3, "triage").code == "waiting-for-approval"  # as many rows as were asked for, once
    assert ask(site, 4, "marketing").code == "waiting-for-approval"
    assert "whoever the server lets ask" in run(capsys, "site", "--answer-anyone", "--fit-only", *SITE)
    assert isinstance(ask(site, 5, "marketing"), Answers)
    assert isinstance(site_app.answer(site.folder, Query("q6", X[:1]), "somebody"), Answers)


def test_refusal_at_a_site_that_answers_anyone_says_what_it_is_worth(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(site, 1)
    assert "answers anyone" not in run(capsys, "approvals", "deny", "ward", *SITE)
    run(capsys, "site", "--answer-anyone", "--fit-only", *SITE)
    assert "also the same rows without a signature" in run(capsys, "approvals", "deny", "ward", *SITE)
    assert ask(site, 2).code == "denied"
    assert isinstance(site_app.answer(site.folder, Query("q3", X[:5]), "ward"), Answers)


BAD = {
    "nobody of that name": (["approve", "nobody"], "no querier nobody has asked"),
    "no day": (["approve", "ward", "--until", "tomorrow"], "is no day"),
    "no rows": (["approve", "ward", "--rows", "0"], "--rows"),
    "no key file": (["deny", "missing.pub"], "no such file"),
    "no site": (["list", "--folder", "elsewhere"], "no site's folder"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_decisions_are_refused_with_one_line(
    case: str, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    words, message = BAD[case]
    error = run(capsys, "approvals", *words[:1], *SITE, *words[1:], code=2)
    assert message in error
    assert error.count("\n") == 1


# --- the exported log -------------------------------------------------------------------------------------


@pytest.fixture
def noted(site: Site) -> Site:
    ask(site, 1, "<b>triage</b>")
    site.approvals().approve("ward", "queriers")
    ask(site, 2, "<b>triage</b>")
    ask(site, 3)
    return site


def test_log_is_exported_as_json_and_as_a_page(noted: Site, capsys: pytest.CaptureFixture[str]) -> None:
    told = run(capsys, "log", "export", "--json", "log.json", "--html", "log.html", *SITE)
    found = json.loads(Path("log.json").read_text())
    assert [entry["event"] for entry in found["entries"]] == ["waiting", "approved", "answered", "answered"]
    assert (found["count"], found["signatures"], found["unsigned"]) == (4, 2, 0)
    assert f"4:{found['head']}" in told
    page = Path("log.html").read_text()
    assert "&lt;b&gt;triage&lt;/b&gt;" in page
    assert "<b>" not in page
    for outside in ("<script", "http:", "https:", "url("):
        assert outside not in page
    assert all(entry["sum"] in page for entry in found["entries"])
    assert "@media print" in page
    ask(noted, 4)
    since = ["--since", f"4:{found['head']}"]
    run(capsys, "log", "export", "--json", "later.json", *since, *SITE)
    assert "it lacks entries" in run(
        capsys, "log", "export", "--json", "later.json", "--since", f"4:{'0' * 64}", *SITE, code=2
    )
    assert "say what to write" in run(capsys, "log", "export", *SITE, code=2)


def test_log_that_was_changed_is_not_exported(noted: Site, capsys: pytest.CaptureFixture[str]) -> None:
    path = noted.folder.store.path
    whole = path.read_bytes()
    for change in (
        """UPDATE log SET entry = replace(entry, '"rows": 5', '"rows": 4')""",
        "DELETE FROM log WHERE number = 2",
        "DELETE FROM log WHERE number = 3",  # the end cut off
        "UPDATE log SET number = 9 WHERE number = 0",  # another order
        "INSERT INTO log SELECT 4, entry, sum FROM log WHERE number = 3",
    ):
        with noted.folder.store.transaction() as db:
            assert db.execute(change).rowcount
        assert "log" in run(capsys, "log", "export", "--json", "log.json", *SITE, code=2)
        assert not Path("log.json").exists()
        path.write_bytes(whole)
    run(capsys, "log", "export", "--json", "log.json", *SITE)


def test_log_written_anew_cannot_hold_queries_that_nobody_signed(
    noted: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    log = site_log(noted.folder)
    entries = list(log)
    noted.folder.store.path.unlink()
    for entry in entries:
        facts = entry.facts | ({"purpose": "marketing"} if entry.event == "answered" else {})
        log.append(entry.event, entry.site, **facts)
    assert log.verify() == 4  # the chain alone does not show it
    error = run(capsys, "log", "export", "--json", "log.json", *SITE, code=2)
    assert "entry 3 of the log has a signature that is not the querier's" in error


# --- asking -----------------------------------------------------------------------------------------------


def test_query_signs_with_a_key_made_at_the_first_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    Federation.create("federation", ["north"])
    np.savez("new.npz", X=X)
    seen: list[Any] = []

    def query(self: Federation, rows: Any, **options: Any) -> Any:
        seen.append(options["querier"])
        raise FederationError("nobody is asked here")

    monkeypatch.setattr(Federation, "query", query)
    monkeypatch.setattr(Federation, "is_running", True)
    for _ in range(2):
        assert main(["federate", "query", "new.npz", "--querier", "lab", "--purpose", "triage"]) == 1
    assert all(isinstance(each, SigningKey) for each in seen)
    assert seen[0].key == seen[1].key
    assert capsys.readouterr().err.count("made a key") == 1


KEY = ["querykey", "me.querykey", "--sites", "3", "--classes", "a", "b", "--bound", "1"]
SIGNED = {
    "no querier": (["--rows", "5"], "--rows is for a signed query key"),
    "no amount": (["--querier", "ward", "--federation", "ab" * 32], "needs --rows, --until"),
    "no key": (
        ["--querier", "lab", "--federation", "ab" * 32, "--rows", "5", "--until", "2099-01-31"],
        "querier new lab",
    ),
    "no id": (["--querier", "ward", "--federation", "home"], "--federation"),
}


@pytest.mark.parametrize("case", SIGNED)
def test_query_key_that_cannot_be_signed_is_refused(
    case: str, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    words, message = SIGNED[case]
    assert message in run(capsys, *KEY, *words, code=2)
    assert not Path("me.querykey").exists()


def test_query_key_is_signed(site: Site, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("seal")
    federation = json.loads(run(capsys, "status", "--json"))["federation"]
    words = ["--querier", "ward", "--federation", federation, "--rows", "5", "--until", "2099-01-31"]
    run(capsys, *KEY, *words, "--keys", str(tmp_path / "keys"), "--json")
    made = QueryKeyFile.load("me.querykey")
    assert made.signature is not None
    made.signature.check(made.query_key, site.folder.federation_id)
    assert made.signature.amount == 5
