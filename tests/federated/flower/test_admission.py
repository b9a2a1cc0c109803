"""A hostile server before a site that approves its queriers, in this process."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Message, Metadata
from flwr.app.message import make_message

from onefold.exceptions import QueryRefused, TamperedLogError
from onefold.federated import LocalModel
from onefold.federated.access.guard import QueryGuard
from onefold.federated.access.signatures import Signature, SigningKey
from onefold.federated.flower import Federation, Site, admission, site_app
from onefold.federated.flower.folders import (
    SITE_VARIABLE,
    ServerFolder,
    SiteFolder,
    SiteSettings,
    private_folder,
)
from onefold.federated.flower.nodes import Node
from onefold.federated.flower.setup import issue_server_certificate, make_authority
from onefold.federated.flower.site_app import ANSWERS, answer_message, from_records, to_records
from onefold.federated.messages import Answers, Failure, FailureCode, PrivateSums, Query, QueryKey

X = np.random.default_rng(3).random((40, 2)) + np.array([[0.0, 0.0], [2.0, 0.0]] * 20)
Y = np.array(["low", "high"] * 20)
WARD, LAB = SigningKey("ward", bytes(32)), SigningKey("lab", bytes([1] * 32))


@pytest.fixture(scope="module")
def model() -> LocalModel:
    return LocalModel().fit(X, Y)


@pytest.fixture
def folder(tmp_path: Path, model: LocalModel) -> SiteFolder:
    """A site that approves queriers; nobody has asked it yet."""
    made = SiteFolder(private_folder(tmp_path / "north"))
    SiteSettings("north", "127.0.0.1", 8443, True, approval="queriers").save(made.settings_file)
    made.prepare()
    site_app.store_model(made, model)
    return made


def signed(folder: SiteFolder, query: Query, key: SigningKey = WARD, **stated: Any) -> Signature:
    return key.sign(query, folder.federation_id, **stated)


def asked(folder: SiteFolder, query: Query, signature: Signature | None, caller: str = "server-says") -> Any:
    return site_app.answer(folder, query, caller, signature=signature)


def code_of(message: Any) -> FailureCode:
    assert isinstance(message, Failure), message
    return message.code


def test_first_query_waits_and_is_answered_after_approval(folder: SiteFolder, model: LocalModel) -> None:
    query = Query("q1", X[:5])
    assert code_of(asked(folder, query, signed(folder, query))) is FailureCode.WAITING
    assert counted(folder) == 0  # nothing is counted for those who are not approved
    Site(folder.root).approvals().approve("ward", "queriers")
    answers = asked(folder, query, signed(folder, query, purpose="triage"))
    assert isinstance(answers, Answers)
    np.testing.assert_array_equal(answers.values, model.answer(query, "north").values)
    events = [(entry.event.value, entry.facts.get("purpose")) for entry in admission.site_log(folder)]
    assert events == [("waiting", None), ("approved", None), ("answered", "triage")]


def test_server_cannot_ask_without_a_signature_or_under_a_key_of_its_own(folder: SiteFolder) -> None:
    Site(folder.root).approvals()
    query = Query("q1", X[:5])
    assert code_of(asked(folder, query, None, "ward")) is FailureCode.UNSIGNED
    asked(folder, query, signed(folder, query))
    Site(folder.root).approvals().approve("ward", "queriers")
    assert code_of(asked(folder, query, None, "ward")) is FailureCode.UNSIGNED
    forged = SigningKey("ward", bytes([9] * 32))
    assert code_of(asked(folder, query, signed(folder, query, forged))) is FailureCode.WAITING


def test_altered_and_replayed_queries_are_refused(folder: SiteFolder) -> None:
    query = Query("q1", X[:5])
    Site(folder.root).approvals().approve(_public(WARD, folder), "queriers")
    signature = signed(folder, query, purpose="triage")
    for other, statement in (
        (Query("q1", X[5:10]), signature),  # other rows
        (Query("q2", X[:5]), signature),  # asked again under another id
        (query, replace(signature, purpose="marketing")),
        (query, replace(signature, amount=10**6)),
        (query, signed(folder, query, LAB) and replace(signature, public=LAB.key.public)),
        (query, WARD.sign(query, "cd" * 32)),  # signed for another federation
    ):
        assert code_of(asked(folder, other, statement)) is FailureCode.BAD_SIGNATURE
    assert isinstance(asked(folder, query, signature), Answers)
    assert code_of(asked(folder, query, signature)) is FailureCode.REPLAYED
    old = signed(folder, Query("q3", X[:5]), clock=lambda: 1e9)
    assert code_of(asked(folder, Query("q3", X[:5]), old)) is FailureCode.STALE
    assert [entry.event.value for entry in admission.site_log(folder)] == ["approved", "answered"]


def _public(key: SigningKey, folder: SiteFolder) -> str:
    """A file of a public key, as a querier hands it over."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.key.public))
    form = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    path = folder.root.parent / f"{key.key.name}.pub"
    path.write_bytes(public.public_bytes(*form) + b" " + key.key.name.encode() + b"\n")
    return str(path)


def test_limits_count_by_key_whatever_the_server_calls_the_querier(folder: SiteFolder) -> None:
    replace(folder.settings, caller_total=8).save(folder.settings_file)
    for key in (WARD, LAB):
        Site(folder.root).approvals().approve(_public(key, folder), "queriers")

    def ask(number: int, key: SigningKey, caller: str) -> Any:
        query = Query(f"q{number}", X[:5])
        return asked(folder, query, signed(folder, query, key), caller)

    assert isinstance(ask(1, WARD, "a"), Answers)
    assert code_of(ask(2, WARD, "b")) is FailureCode.BUDGET_SPENT  # another name gains nothing
    assert isinstance(ask(3, LAB, "a"), Answers)  # and costs nobody else anything
    answered = {entry.querier.name: entry.answered for entry in Site(folder.root).approvals().entries()}
    assert answered == {"ward": 5, "lab": 5}  # what was refused is not counted under the approval


def test_site_that_answers_anyone_still_checks_signatures(folder: SiteFolder) -> None:
    replace(folder.settings, approval="anyone").save(folder.settings_file)
    query = Query("q1", X[:5])
    assert isinstance(asked(folder, query, None), Answers)
    signature = signed(folder, query)
    assert code_of(asked(folder, query, replace(signature, purpose="x"))) is FailureCode.BAD_SIGNATURE
    assert isinstance(asked(folder, query, signature), Answers)
    assert code_of(asked(folder, query, signature)) is FailureCode.REPLAYED
    # The server cannot spend the budget of a key under its name.
    assert code_of(asked(folder, query, None, f"key.{WARD.key.id}")) is FailureCode.UNKNOWN_CALLER


@pytest.mark.parametrize("at", ["admit", "enter", "append"])
def test_answer_that_cannot_be_noted_does_not_leave_and_may_be_asked_for_again(
    at: str, folder: SiteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Site(folder.root).approvals().approve(_public(WARD, folder), "queriers")
    query = Query("q1", X[:5])
    signature = signed(folder, query)
    where = {"admit": admission.Approvals, "enter": admission.Replays, "append": admission.SiteLog}[at]
    real = getattr(where, at)

    def fail(self: Any, *arguments: Any, **options: Any) -> Any:
        if options.get("count") is False:
            return real(self, *arguments, **options)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(where, at, fail)
        assert code_of(asked(folder, query, signature)) is FailureCode.INTERNAL
    again = asked(folder, query, signature)
    assert isinstance(again, Answers)
    assert admission.site_log(folder).verify() == 2
    assert [entry.answered for entry in Site(folder.root).approvals().entries()] == [5]


LOCK = QueryKey("12" * 32, ("high", "low"), 8, 1.0, 1.0, 0.0, b"key")


def test_rows_under_a_signed_query_key_are_counted_by_the_site(folder: SiteFolder) -> None:
    settings, later = folder.settings, int(time.time()) + 1000
    stated = WARD.sign_key(LOCK, folder.federation_id, amount=8, until=later, purpose="triage")

    def taken(query: Query, lock: QueryKey | None = LOCK) -> str:
        """What the operator gets who sends rows of its own choice under the querier's key."""
        try:
            account = admission.recognised(folder, settings, query, "operator", stated, lock)
            admission.leaving(folder, settings, query, "operator", stated, True)
        except QueryRefused as error:
            return error.code
        return account

    assert taken(Query("q1", X[:5])) == FailureCode.WAITING
    Site(folder.root).approvals().approve("ward", "queriers")
    assert taken(Query("q1", X[:5])) == f"key.{WARD.key.id}"
    assert taken(Query("q2", X[:5])) == FailureCode.BUDGET_SPENT  # 5 of 8 rows are answered
    assert taken(Query("q2", X[:3])) == f"key.{WARD.key.id}"
    assert taken(Query("q3", X[:1]), None) == FailureCode.BAD_SIGNATURE  # never in clear
    assert taken(Query("q3", X[:1]), replace(LOCK, content=b"other")) == FailureCode.BAD_SIGNATURE
    exported = admission.exported_log(folder)
    assert (exported["signatures"], exported["count"]) == (2, 4)


def test_log_in_which_a_signed_query_is_answered_twice_is_refused(folder: SiteFolder) -> None:
    Site(folder.root).approvals().approve(_public(WARD, folder), "queriers")
    for name in ("q1", "q2"):
        query = Query(name, X[:2])
        admission.leaving(folder, folder.settings, query, "me", signed(folder, query), False)
    assert admission.exported_log(folder)["signatures"] == 2
    log = admission.site_log(folder)
    again = next(entry for entry in log if entry.facts.get("query") == "q1")
    log.append(again.event, folder.settings.name, **again.facts)  # the chain of sums is in order
    with pytest.raises(TamperedLogError, match=rf"the signed query of entry {again.number + 1} again"):
        admission.exported_log(folder)


def test_query_key_is_signed_as_it_arrives(folder: SiteFolder) -> None:
    query = Query("q1", X[:2].astype(np.float32))
    stated = WARD.sign_key(LOCK, folder.federation_id, amount=8, until=2**40)
    both = signed(folder, query, query_key=LOCK)
    arrived = from_records(to_records([LOCK, query], "me", [both]))
    assert isinstance(arrived[0], QueryKey)
    assert isinstance(arrived[1], Query)
    both.check(arrived[1], folder.federation_id, arrived[0])
    stated.check(arrived[0], folder.federation_id)
    found = site_app.signatures_of(to_records([LOCK, query], "me", [stated]))
    assert {name: own.plain for name, own in found.items()} == {site_app.EVERY: stated.plain}


def envelope(content: Any) -> Message:
    about = {
        "run_id": 1,
        "message_id": "m" * 8,
        "src_node_id": 1,
        "dst_node_id": 2,
        "reply_to_message_id": "",
    }
    metadata = Metadata(**about, group_id="", created_at=1.7e9, ttl=1e10, message_type=ANSWERS)
    return make_message(metadata=metadata, content=content)


def test_signatures_travel_beside_the_queries(folder: SiteFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SITE_VARIABLE, str(folder.root))
    Site(folder.root).approvals().approve(_public(WARD, folder), "queriers")
    queries = [Query("q1", X[:2]), Query("q2", X[2:4]), Query("q3", X[4:6])]
    signatures = [signed(folder, queries[0]), None, signed(folder, queries[2])]
    replies = from_records(answer_message(envelope(to_records(queries, "me", signatures)), None).content)
    assert [type(reply) for reply in replies] == [Answers, Failure, Answers]
    assert code_of(replies[1]) is FailureCode.UNSIGNED
    assert set(to_records(queries, "me")["caller"]) == {"name"}  # unsigned ones travel as before


def replies_to(folder: SiteFolder, queries: list[Query], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What comes back for signed queries in one message: in short, "answered" or why not."""
    monkeypatch.setenv(SITE_VARIABLE, str(folder.root))
    different = {query.id: query for query in queries}.values()
    content = to_records(queries, "me", [signed(folder, query) for query in different])
    replies = from_records(answer_message(envelope(content), None).content)
    return [reply.code.value if isinstance(reply, Failure) else "answered" for reply in replies]


def counted(folder: SiteFolder) -> int:
    """Rows counted for everybody together."""
    return QueryGuard(None, None, folder.store).spent(site_app.EVERYBODY)


def test_query_repeated_in_one_message_is_counted_once(
    folder: SiteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Site(folder.root).approvals().approve(_public(WARD, folder), "queriers")
    said = replies_to(folder, [Query("q1", X[:5])] * 20, monkeypatch)
    assert said == ["answered"] + ["replayed"] * 19
    assert counted(folder) == 5


@pytest.mark.parametrize("mode", ["queriers", "purposes"])
def test_rows_beyond_the_approval_are_not_counted_for_everybody(
    folder: SiteFolder, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    replace(folder.settings, approval=mode).save(folder.settings_file)
    assert replies_to(folder, [Query("q0", X[:5])], monkeypatch) == ["waiting-for-approval"]
    Site(folder.root).approvals().approve("ward", mode, rows=20)
    queries = [Query(f"q{number}", X[:10]) for number in range(1, 7)]
    assert replies_to(folder, queries, monkeypatch) == ["answered"] * 2 + ["waiting-for-approval"] * 4
    assert counted(folder) == 20


def test_rows_that_the_approval_covers_are_counted_in_one_step(
    folder: SiteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Site(folder.root).approvals().approve(_public(WARD, folder), "queriers", rows=12)
    steps: list[int] = []
    admit = site_app._admit
    monkeypatch.setattr(site_app, "_admit", lambda *what: (steps.append(what[-1]), admit(*what)))
    assert replies_to(folder, [Query(f"q{n}", X[:4]) for n in range(3)], monkeypatch) == ["answered"] * 3
    assert steps == [12]


def test_site_fitted_anew_counts_no_row_twice(folder: SiteFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    Site(folder.root).approvals().approve(_public(WARD, folder), "queriers")
    other, served, looks = LocalModel().fit(X + 0.5, Y), site_app._served, 0

    def fitted_anew(*what: Any) -> LocalModel:
        nonlocal looks
        looks += 1
        if looks == 2:  # the rows of all queries are counted, and the first one has read the old profile
            site_app.store_model(folder, other)
            site_app._model.cache_clear()
        return served(*what)

    monkeypatch.setattr(site_app, "_served", fitted_anew)
    queries = [Query(f"q{number}", X[:5]) for number in range(3)]
    assert replies_to(folder, queries, monkeypatch) == ["answered"] * 3
    assert counted(folder) == 15


def test_pause_holds_for_answers_that_have_not_left(
    folder: SiteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Site(folder.root).approvals().approve(_public(WARD, folder), "queriers")
    before = site_app._check_query

    def paused_at_the_last(settings: Any, profile: Any, query: Query, *lock: Any) -> None:
        if query.id == "q2" and not folder.paused.exists() and counted(folder):
            Site(folder.root).pause()
        before(settings, profile, query, *lock)

    monkeypatch.setattr(site_app, "_check_query", paused_at_the_last)
    queries = [Query(f"q{number}", X[:5]) for number in range(1, 4)]
    assert replies_to(folder, queries, monkeypatch) == ["answered", "paused", "paused"]
    events = [entry.event.value for entry in admission.site_log(folder)]
    assert events == ["approved", "answered", "paused"]


@pytest.mark.parametrize("kind", [site_app.MODEL, site_app.SUMS])
def test_pause_holds_for_a_model_and_sums_that_have_not_left(
    folder: SiteFolder, model: LocalModel, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    replace(folder.settings, sends="raw-model").save(folder.settings_file)
    monkeypatch.setenv(SITE_VARIABLE, str(folder.root))
    read = site_app.read_profile

    def paused_now(*what: Any) -> Any:
        Site(folder.root).pause()
        return read(*what)

    monkeypatch.setattr(site_app, "read_profile", paused_now)
    monkeypatch.setattr(site_app, "kept_sums", lambda *_: PrivateSums("north", b"sums"))
    message = envelope(to_records([Query("q1", X[:1])], "me"))
    message.metadata.message_type = kind
    (reply,) = from_records(answer_message(message, None).content)
    assert code_of(reply) is FailureCode.PAUSED
    assert [entry.event.value for entry in admission.site_log(folder)] == ["paused"]


@pytest.mark.parametrize("sent", ["{", [1], [b""], 3, ["x"], [b"x"] * 300, "twice", "a query"], ids=str)
def test_malformed_signatures_are_refused(
    sent: Any, folder: SiteFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SITE_VARIABLE, str(folder.root))
    query = Query("q1", X[:2])
    if sent == "twice":
        sent = [signed(folder, query).to_bytes(), signed(folder, query, LAB).to_bytes()]
    if sent == "a query":
        sent = [query.to_bytes()]
    content = to_records([query], "me")
    content["caller"]["signatures"] = sent
    (failure,) = from_records(answer_message(envelope(content), None).content)
    assert code_of(failure) is FailureCode.MALFORMED


def test_running_site_tells_its_owner_who_waits(folder: SiteFolder) -> None:
    said: list[str] = []
    node = Node(folder, said.append)
    query = Query("q1", X[:5])
    node._tell_who_waits()
    for _ in range(2):
        asked(folder, query, signed(folder, query))
        node._tell_who_waits()
    assert len(said) == 1
    assert said[0].startswith("waiting for your approval: ward (onefold federate approvals list --folder ")
    Site(folder.root).approvals().approve("ward", "queriers")
    node._tell_who_waits()
    asked(folder, query, signed(folder, query, LAB))
    node._tell_who_waits()
    assert [line.split()[4] for line in said] == ["ward", "lab"]


# --- folders ----------------------------------------------------------------------------------------------


def test_folders_approve_queriers_unless_told_otherwise(tmp_path: Path) -> None:
    Federation.create(tmp_path / "tls", ["north"])
    site = SiteFolder(tmp_path / "tls" / "sites" / "north")
    assert site.settings.approval == "queriers"
    assert "approvals approve" in (tmp_path / "tls" / "GUIDE.md").read_text()
    Federation.create(tmp_path / "open", ["north"], approval="anyone")
    Federation.create(tmp_path / "plain", ["north"], insecure=True)
    for name in ("open", "plain"):
        made = SiteFolder(tmp_path / name / "sites" / "north")
        assert made.settings.approval == "anyone"
    assert Site(site.root).configure(approval="purposes").settings.approval == "purposes"


def test_federation_is_the_key_of_its_authority(tmp_path: Path) -> None:
    Federation.create(tmp_path / "a", ["north"])
    Federation.create(tmp_path / "b", ["north"])
    server, site = ServerFolder(tmp_path / "a" / "server"), SiteFolder(tmp_path / "a" / "sites" / "north")
    before = server.federation_id
    assert before == site.federation_id != ServerFolder(tmp_path / "b" / "server").federation_id
    hosts = [server.settings.host]
    issue_server_certificate(server.certificate, server.key, server.ca, server.ca_key, hosts)
    assert server.federation_id == before
    make_authority(server.ca, server.ca_key, "another")
    assert server.federation_id != before
