"""What a site does with a query, in this process: numbers or fixed words, and nothing else."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Message, Metadata, RecordDict
from flwr.app.message import make_message

from onefold._base import files
from onefold.exceptions import FederationError, FileFormatError, PrivacyLeakWarning
from onefold.fabrication import PrivateClassifier
from onefold.federated import LocalModel
from onefold.federated.access.guard import QueryGuard
from onefold.federated.flower import site_app
from onefold.federated.flower.admission import site_log
from onefold.federated.flower.folders import SiteFolder, SiteSettings, private_folder
from onefold.federated.flower.nodes import Node
from onefold.federated.flower.processes import SITE_VARIABLE, Process, make_environment
from onefold.federated.flower.site_app import (
    ANSWERS,
    EDGE_FAILED,
    KEPT_OUT,
    MODEL,
    PROFILE,
    answer_message,
    from_records,
    to_records,
)
from onefold.federated.messages import Answers, Failure, FailureCode, ModelParcel, Profile, Query, Refusal
from onefold.privacy import Box, OptimalNoise
from reference.site_files import model_file

X = np.random.default_rng(3).random((40, 2)) + np.array([[0.0, 0.0], [2.0, 0.0]] * 20)
Y = np.array(["low", "high"] * 20)
MARK = "0.123456789123"
NOISE = OptimalNoise(2.0, sensitivity=Box(0, 3))


def make_site(root: Path, model: LocalModel | None = None, **settings: Any) -> SiteFolder:
    folder = SiteFolder(private_folder(root / "north"))
    SiteSettings("north", "127.0.0.1", 8443, **settings).save(folder.settings_file)
    folder.prepare()
    if model is not None:
        site_app.store_model(folder, model)
    return folder


@pytest.fixture(scope="module")
def raw() -> LocalModel:
    return LocalModel().fit(X, Y)


@pytest.fixture(scope="module")
def private() -> LocalModel:
    return LocalModel(mechanism=NOISE).fit(X, Y)


def envelope(kind: str, content: RecordDict) -> Message:
    """A message as Flower delivers it."""
    now = 1.7e9
    metadata = Metadata(
        run_id=1,
        message_id="m" * 8,
        src_node_id=1,
        dst_node_id=2,
        reply_to_message_id="",
        group_id="",
        created_at=now,
        ttl=1e10,
        message_type=kind,
    )
    return make_message(metadata=metadata, content=content)


def code_of(message: Any) -> FailureCode:
    assert isinstance(message, Failure), message
    return message.code


def test_answers_are_those_of_the_model(tmp_path: Path, raw: LocalModel) -> None:
    folder = make_site(tmp_path, raw)
    answers = site_app.answer(folder, Query("q", X[:5]), "me")
    assert isinstance(answers, Answers)
    np.testing.assert_array_equal(answers.values, raw.answers(X[:5]))
    assert (answers.site, answers.classes, answers.query_id) == ("north", ("high", "low"), "q")


def test_site_that_is_fitted_anew_while_it_answers_gives_the_new_answer(
    tmp_path: Path, raw: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_site(tmp_path, raw, total=5)
    new, recognised = LocalModel().fit(X + 0.5, Y), site_app.recognised

    def meanwhile(*given: Any) -> str:
        if site_app.read_profile(folder).model_digest == raw.digest():
            site_app.store_model(folder, new)
        return recognised(*given)

    monkeypatch.setattr(site_app, "recognised", meanwhile)
    answers = site_app.answer(folder, Query("q", X[:5]), "me")  # the five rows count once
    assert isinstance(answers, Answers)
    np.testing.assert_array_equal(answers.values, new.answers(X[:5]))
    assert not np.array_equal(new.answers(X[:5]), raw.answers(X[:5]))


def test_files_of_a_site_are_readable_by_its_owner_only(tmp_path: Path, raw: LocalModel) -> None:
    folder = make_site(tmp_path, raw)
    site_app.answer(folder, Query("q", X[:1]), "me")
    for path in (model_file(folder), folder.store.path):
        assert path.stat().st_mode & 0o077 == 0, path.name


def test_other_querier_names_do_not_enlarge_the_total_budget(tmp_path: Path, raw: LocalModel) -> None:
    folder = make_site(tmp_path, raw, total=10, caller_total=6)
    assert isinstance(site_app.answer(folder, Query("q", X[:6]), "a"), Answers)
    assert code_of(site_app.answer(folder, Query("q", X[:1]), "a")) is FailureCode.BUDGET_SPENT
    # A spent caller does not eat what is left for others.
    assert isinstance(site_app.answer(folder, Query("q", X[:4]), "b"), Answers)
    assert code_of(site_app.answer(folder, Query("q", X[:1]), "c")) is FailureCode.BUDGET_SPENT


def ask_together(folder: SiteFolder, queries: list[Query], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setenv(SITE_VARIABLE, str(folder.root))
    reply = answer_message(envelope(ANSWERS, to_records(queries, "me")), None)
    return from_records(reply.content)


def test_queries_of_one_message_are_counted_in_one_step(
    tmp_path: Path, raw: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_site(tmp_path, raw, total=30, caller_total=20)
    counted: list[tuple[str, int]] = []
    original = QueryGuard.admit

    def admit(self: QueryGuard, caller: str, n_rows: int) -> None:
        counted.append((caller, n_rows))
        original(self, caller, n_rows)

    monkeypatch.setattr(QueryGuard, "admit", admit)
    replies = ask_together(folder, [Query(f"q{n}", X[n : n + n + 1]) for n in range(3)], monkeypatch)
    assert [reply.query_id for reply in replies] == ["q0", "q1", "q2"]
    for n, reply in enumerate(replies):
        np.testing.assert_array_equal(reply.values, raw.answers(X[n : n + n + 1]))
    assert counted == [("me", 6), (site_app.EVERYBODY, 6)]
    assert QueryGuard(None, 30, folder.store).spent(site_app.EVERYBODY) == 6
    assert [entry.facts["query"] for entry in site_log(folder)] == ["q0", "q1", "q2"]


def test_queries_of_one_message_that_do_not_all_fit_the_budget_are_counted_one_by_one(
    tmp_path: Path, raw: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_site(tmp_path, raw, total=30, caller_total=7)
    queries = [Query("a", X[:4]), Query("b", X[:4]), Query("c", X[:3])]
    first, second, third = ask_together(folder, queries, monkeypatch)
    assert isinstance(first, Answers)
    assert code_of(second) is FailureCode.BUDGET_SPENT
    assert isinstance(third, Answers)
    assert QueryGuard(None, 30, folder.store).spent(site_app.EVERYBODY) == 7


def test_query_that_cannot_be_answered_is_not_counted_with_the_others_of_its_message(
    tmp_path: Path, raw: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_site(tmp_path, raw, total=30)
    good, bad = ask_together(folder, [Query("a", X[:4]), Query("b", np.ones((5, 3)))], monkeypatch)
    assert isinstance(good, Answers)
    assert code_of(bad) is FailureCode.WRONG_FEATURES
    assert QueryGuard(None, 30, folder.store).spent(site_app.EVERYBODY) == 4


def test_more_rows_than_allowed_per_minute_are_refused(tmp_path: Path, raw: LocalModel) -> None:
    folder = make_site(tmp_path, raw, per_minute=5)
    assert isinstance(site_app.answer(folder, Query("q", X[:5]), "a"), Answers)
    assert code_of(site_app.answer(folder, Query("q", X[:1]), "b")) is FailureCode.RATE_LIMITED


def test_site_says_in_a_fixed_word_why_it_does_not_answer(tmp_path: Path, raw: LocalModel) -> None:
    empty = make_site(tmp_path / "empty")
    assert code_of(site_app.answer(empty, Query("q", X[:1]), "me")) is FailureCode.NOT_READY
    folder = make_site(tmp_path, raw)
    assert code_of(site_app.answer(folder, Query("q", np.ones((1, 3))), "me")) is FailureCode.WRONG_FEATURES
    model_file(folder).write_bytes(model_file(folder).read_bytes() + b" ")
    assert code_of(site_app.answer(folder, Query("q", X[:1] + 0.5), "me")) is FailureCode.INTERNAL
    folder.store.path.write_text("{damaged")
    assert code_of(site_app.answer(folder, Query("q", X[:1]), "me")) is FailureCode.NOT_READY


@pytest.mark.parametrize(
    "sends, may_raw, may_private",
    [("answers", False, False), ("private-model", False, True), ("raw-model", True, True)],
)
def test_model_leaves_only_if_the_site_allows_it(
    tmp_path: Path, raw: LocalModel, private: LocalModel, sends: str, may_raw: bool, may_private: bool
) -> None:
    for name, model, may in (("raw", raw, may_raw), ("private", private, may_private)):
        folder = make_site(tmp_path / name, model, sends=sends)
        parcel = site_app.model_parcel(folder)
        assert isinstance(parcel, ModelParcel) == may
        if not may:
            assert code_of(parcel) is FailureCode.NOT_PRIVATE


def test_model_with_a_void_guarantee_does_not_leave(tmp_path: Path) -> None:
    with pytest.warns(PrivacyLeakWarning):
        model = LocalModel(PrivateClassifier(mechanism=NOISE, stopping="documented")).fit(X, Y)
    assert not model.guarantee_.holds
    folder = make_site(tmp_path, model, sends="private-model")
    assert code_of(site_app.model_parcel(folder)) is FailureCode.NOT_PRIVATE


def test_answer_message_replies_to_every_kind_of_message(
    tmp_path: Path, raw: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_site(tmp_path, raw)
    monkeypatch.setenv(SITE_VARIABLE, str(folder.root))
    queries = [Query("a", X[:2]), Query("b", X[2:5])]
    reply = answer_message(envelope(ANSWERS, to_records(queries, "me")), None)
    first, second = from_records(reply.content)
    np.testing.assert_array_equal(first.values, raw.answers(X[:2]))
    np.testing.assert_array_equal(second.values, raw.answers(X[2:5]))
    (profile,) = from_records(answer_message(envelope(PROFILE, to_records([], "me")), None).content)
    assert isinstance(profile, Profile)
    (refusal,) = from_records(answer_message(envelope(MODEL, to_records([], "me")), None).content)
    assert code_of(refusal) is FailureCode.NOT_PRIVATE


def test_site_that_is_kept_out_ends_with_one_line(
    tmp_path: Path, raw: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_site(tmp_path, raw, insecure=True)
    monkeypatch.setenv(SITE_VARIABLE, str(folder.root))
    node = Node(folder)
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    node._process = Process(sleep, make_environment(folder), folder.process_log)
    try:
        node.check()
        answer_message(envelope(KEPT_OUT, to_records([], "server")), None)
        with pytest.raises(FederationError, match="keeps this site out"):
            node.check()
        told = to_records([Refusal("north", "other-schema: field 'age'")], "server")
        answer_message(envelope(KEPT_OUT, told), None)
        with pytest.raises(FederationError, match=r"keeps this site out: other-schema: field 'age'$"):
            node.check()
    finally:
        node.stop()
    Node(folder, give_up=1.0).check()  # a new start is a new chance


def failing(error: BaseException) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("error", [ValueError(MARK), KeyError(MARK), MemoryError(MARK), RecursionError(MARK)])
def test_text_of_an_error_does_not_leave_the_site(
    tmp_path: Path, raw: LocalModel, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    folder = make_site(tmp_path, raw)
    monkeypatch.setenv(SITE_VARIABLE, str(folder.root))
    monkeypatch.setattr(LocalModel, "answer", failing(error))
    reply = answer_message(envelope(ANSWERS, to_records([Query("a", X[:2])], "me")), None)
    (failure,) = from_records(reply.content)
    assert code_of(failure) is FailureCode.INTERNAL
    assert MARK not in json.dumps({name: str(record) for name, record in reply.content.items()})
    assert MARK not in folder.log.read_text() if folder.log.exists() else True


@pytest.mark.parametrize("error", [SystemExit(MARK), KeyboardInterrupt(MARK), RuntimeError(MARK)])
def test_answer_message_replies_a_fixed_error_whatever_is_raised(
    tmp_path: Path, raw: LocalModel, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    folder = make_site(tmp_path, raw)
    monkeypatch.setenv(SITE_VARIABLE, str(folder.root))
    monkeypatch.setattr("onefold.federated.flower.site_app._replies", failing(error))
    reply = answer_message(envelope(ANSWERS, to_records([Query("a", X[:2])], "me")), None)
    assert reply.has_error()
    assert (reply.error.code, reply.error.reason) == (EDGE_FAILED, "the site failed")


@pytest.mark.parametrize("kind", ["query.nothing", "train", "evaluate", "query"])
def test_unknown_kind_of_message_is_malformed(
    tmp_path: Path, raw: LocalModel, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv(SITE_VARIABLE, str(make_site(tmp_path, raw).root))
    (failure,) = from_records(
        answer_message(envelope(kind, to_records([Query("a", X[:2])], "me")), None).content
    )
    assert code_of(failure) is FailureCode.MALFORMED


def test_messages_other_than_queries_and_bad_querier_names_are_malformed(
    tmp_path: Path, raw: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SITE_VARIABLE, str(make_site(tmp_path, raw).root))
    for content in (
        to_records([Failure("q", "x", FailureCode.INTERNAL)], "me"),
        to_records([Query("a", X[:2])], "../../etc"),
        to_records([Query("a", X[:2])]),
    ):
        (failure,) = from_records(answer_message(envelope(ANSWERS, content), None).content)
        assert code_of(failure) is FailureCode.MALFORMED


# --- a fit that is killed ---------------------------------------------------------------------------------


def answers_of(folder: SiteFolder) -> Any:
    reply = site_app.answer(folder, Query("q", X[:5]), "me")
    assert isinstance(reply, Answers), reply
    return reply.values


@pytest.mark.merge
def test_fit_killed_at_any_step_leaves_the_old_model_or_the_new(
    tmp_path: Path, raw: LocalModel, private: LocalModel
) -> None:
    old, new = (model.answers(X[:5]) for model in (raw, private))
    found = []
    for at in range(100):
        folder = make_site(tmp_path / str(at), raw)
        child = os.fork()
        if child == 0:
            left = iter(range(at))
            files.fault = lambda *_, left=left: next(left, None) is None and os.kill(os.getpid(), 9)
            site_app.store_model(folder, private)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        values = answers_of(folder)
        found.append(np.array_equal(values, new))
        assert found[-1] or np.array_equal(values, old)
        site_app.store_model(folder, raw)
        np.testing.assert_array_equal(answers_of(folder), old)
        assert len(list(folder.state.glob("*.onefold"))) == 1
        if os.WIFEXITED(status):
            break
    assert found == sorted(found)  # first the old one, from some step on the new one
    assert {False, True} <= set(found)


DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000


def test_deep_json_in_a_site_folder_is_refused_in_one_line(tmp_path: Path, raw: LocalModel) -> None:
    folder = make_site(tmp_path, raw)
    with folder.store.transaction() as db:
        db.execute("UPDATE singles SET value = ? WHERE name = 'profile'", (DEEP,))
    with pytest.raises(FederationError, match="no model yet"):
        site_app.read_profile(folder)
    assert code_of(site_app.answer(folder, Query("q", X[:1]), "me")) is FailureCode.NOT_READY
    folder.settings_file.write_bytes(DEEP)
    with pytest.raises(FileFormatError, match="the settings cannot be read"):
        _ = folder.settings
