"""Encrypted queries without a network: what a site seals, and what the server's process makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("seal")

from onefold._base.files import write_whole
from onefold.exceptions import FederationError, MessageError
from onefold.federated import LocalModel
from onefold.federated.fhe import Querier
from onefold.federated.fhe import messages as encrypted
from onefold.federated.fhe.argmin import clear_argmin
from onefold.federated.fhe.quantiser import MeasureMap, in_every_look
from onefold.federated.flower import evaluation, site_app
from onefold.federated.flower.evaluation import JOB_FILE, Evaluations, Job, evaluate
from onefold.federated.flower.folders import (
    ServerFolder,
    SiteFolder,
    SiteSettings,
    private_folder,
)
from onefold.federated.flower.site_app import quantised
from onefold.federated.flower.spool import Reply, Request, Spool
from onefold.federated.messages import (
    Answers,
    Failure,
    FailureCode,
    Query,
    QueryKey,
    SealedAnswers,
    SealedResult,
)
from onefold.federated.rules import align
from reference.site_files import give_sign

CLASSES = ("high", "low", "middle")
X = np.random.default_rng(3).random((60, 2)) + np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 0.0]] * 20)
Y = np.array(["low", "high", "middle"] * 20)
SITES = {"north": ("high", "low"), "south": ("low", "middle"), "west": CLASSES}
QUERY = Query("q", X[:20] + 0.05)


def lock_of(querier: Querier, classes: tuple[str, ...] = CLASSES, bits: int = 8) -> QueryKey:
    key = querier.public_key()
    return QueryKey(key.key_id, classes, bits, 0.5, 1.0, 0.0, key.to_bytes())


@pytest.fixture(scope="module")
def querier() -> Querier:
    return Querier(3, 3, 8)


@pytest.fixture(scope="module")
def evaluation_keys(querier: Querier) -> bytes:
    return querier.evaluation_keys().to_bytes()


@pytest.fixture(scope="module")
def lock(querier: Querier) -> QueryKey:
    return lock_of(querier)


@pytest.fixture(scope="module")
def models() -> dict[str, LocalModel]:
    return {name: LocalModel().fit(X[np.isin(Y, own)], Y[np.isin(Y, own)]) for name, own in SITES.items()}


def make_site(root: Path, name: str, model: LocalModel, **settings: Any) -> SiteFolder:
    folder = SiteFolder(private_folder(root / name))
    SiteSettings(name, "127.0.0.1", 8443, **settings).save(folder.settings_file)
    folder.prepare()
    site_app.store_model(folder, model)
    return folder


def code_of(message: Any) -> FailureCode:
    assert isinstance(message, Failure), message
    return message.code


@pytest.fixture
def north(tmp_path: Path, models: dict[str, LocalModel]) -> SiteFolder:
    return make_site(tmp_path, "north", models["north"])


@pytest.fixture(scope="module")
def sealed(
    tmp_path_factory: pytest.TempPathFactory, models: dict[str, LocalModel], lock: QueryKey
) -> dict[str, SealedAnswers]:
    """What the three sites answer under the lock."""
    root = tmp_path_factory.mktemp("sites")
    found = {}
    for name, model in models.items():
        message = site_app.answer(make_site(root, name, model), QUERY, "me", lock)
        assert isinstance(message, SealedAnswers)
        found[name] = message
    return found


@pytest.fixture
def spool(tmp_path: Path, lock: QueryKey, evaluation_keys: bytes) -> Spool:
    folder = ServerFolder(private_folder(tmp_path / "server"))
    folder.prepare()
    made = Spool(folder.spool)
    write_whole(made.keys(lock.key_id), evaluation_keys)
    return made


def evaluated(
    spool: Spool, lock: QueryKey, answers: dict[str, SealedAnswers], job: Job | None = None
) -> tuple[SealedResult | None, dict[str, str]]:
    """The result of some answers, and who was refused."""
    folder = private_folder(spool.job("q"))
    (job or Job(lock.key_id, len(QUERY.features), Reply(tuple(SITES), ()))).save(folder / JOB_FILE)
    for name, message in answers.items():
        write_whole(folder / f"{name}.answers", message.to_bytes())
    reply = evaluate(spool, "q")
    assert reply.expected == tuple(SITES)
    result = next((m for m in reply.messages if isinstance(m, SealedResult)), None)
    return result, {m.site: m.code.value for m in reply.messages if isinstance(m, Failure)}


def in_clear(models: dict[str, LocalModel], lock: QueryKey, *names: str) -> np.ndarray:
    return clear_argmin(np.stack([quantised(models[name].answer(QUERY, name), lock) for name in names]))


@pytest.mark.parametrize("wrong", ["damaged", "of another"])
def test_unusable_evaluation_keys_are_deleted(
    spool: Spool, lock: QueryKey, evaluation_keys: bytes, sealed: dict[str, SealedAnswers], wrong: str
) -> None:
    of_another = Querier(3, 3, 8).evaluation_keys(check=False).to_bytes()
    write_whole(spool.keys(lock.key_id), evaluation_keys[:-1] if wrong == "damaged" else of_another)
    with pytest.raises(MessageError):
        evaluated(spool, lock, sealed)
    assert not spool.keys(lock.key_id).exists()  # so that the next query brings them


# --- a site -----------------------------------------------------------------------------------------------


def test_all_sites_map_measures_to_whole_numbers_alike(models: dict[str, LocalModel], lock: QueryKey) -> None:
    values = models["north"].answers(QUERY.features)
    whole = quantised(models["north"].answer(QUERY, "north"), lock)
    np.testing.assert_array_equal(whole[:, :2], np.rint(255 * np.minimum(values / 0.5, 1)))
    np.testing.assert_array_equal(whole[:, 2], -1)  # a class that the site lacks
    infinite = Answers("q", "north", ("low",), "euclidean", None, np.array([[np.inf]]))
    np.testing.assert_array_equal(quantised(infinite, lock), [[-1, 255, -1]])
    tiny = QueryKey(lock.key_id, CLASSES, 8, 5e-324, 1.0, 0.0, lock.content)
    assert quantised(models["north"].answer(QUERY, "north"), tiny).max() == 255


def test_several_looks_are_answered_in_one_message_and_counted_once(
    tmp_path: Path, spool: Spool, models: dict[str, LocalModel], lock: QueryKey, querier: Querier
) -> None:
    knots = (0.0, 0.05, 0.2, 0.5)
    looks = replace(lock, looks=3, knots=knots)
    folders = {name: make_site(tmp_path, name, models[name], total=20) for name in SITES}
    sent = {name: site_app.answer(folder, QUERY, "me", looks) for name, folder in folders.items()}
    assert all(isinstance(each, SealedAnswers) for each in sent.values())
    assert code_of(site_app.answer(folders["north"], QUERY, "me", looks)) is FailureCode.BUDGET_SPENT
    job = Job(lock.key_id, 3 * len(QUERY.features), Reply(tuple(SITES), ()))
    result, refused = evaluated(spool, lock, sent, job)  # type: ignore[arg-type]
    assert result is not None
    assert refused == {}
    wins = in_every_look(querier.decrypt(result.content), 3)
    map_ = MeasureMap(8, looks=3, knots=knots)
    aligned = [
        align(m.answers(QUERY.features), m.classes_, np.array(CLASSES), np.nan) for m in models.values()
    ]
    np.testing.assert_array_equal(wins, clear_argmin(map_.fine(aligned)))


def test_encrypted_answers_differ_every_time_and_show_no_number(
    north: SiteFolder, lock: QueryKey, sealed: dict[str, SealedAnswers]
) -> None:
    again = site_app.answer(north, QUERY, "me", lock)
    assert isinstance(again, SealedAnswers)
    assert len(again.content) == len(sealed["north"].content)
    assert again.content != sealed["north"].content


def test_encrypted_answers_count_against_the_budget(
    tmp_path: Path, models: dict[str, LocalModel], lock: QueryKey
) -> None:
    folder = make_site(tmp_path, "north", models["north"], per_minute=20)
    assert isinstance(site_app.answer(folder, QUERY, "me", lock), SealedAnswers)
    assert code_of(site_app.answer(folder, QUERY, "me", lock)) is FailureCode.RATE_LIMITED
    assert code_of(site_app.answer(folder, QUERY, "me")) is FailureCode.RATE_LIMITED


def test_unusable_query_key_is_refused_and_costs_no_budget(
    tmp_path: Path, models: dict[str, LocalModel], lock: QueryKey, querier: Querier
) -> None:
    folder = make_site(tmp_path, "north", models["north"], total=20)
    broken = bytearray(lock.content)
    broken[len(broken) // 2] ^= 1
    for bad in (
        QueryKey(lock.key_id, CLASSES, 8, 0.5, 1.0, 0.0, lock.content[:-1]),
        QueryKey(lock.key_id, CLASSES, 8, 0.5, 1.0, 0.0, bytes(broken)),
        QueryKey("0" * 64, CLASSES, 8, 0.5, 1.0, 0.0, lock.content),  # another name than the key has
        QueryKey(lock.key_id, CLASSES, 6, 0.5, 1.0, 0.0, lock.content),
        QueryKey(lock.key_id, (*CLASSES, "other"), 8, 0.5, 1.0, 0.0, lock.content),
    ):
        assert code_of(site_app.answer(folder, QUERY, "me", bad)) is FailureCode.MALFORMED
    few = QueryKey(lock.key_id, ("low", "middle", "x"), 8, 0.5, 1.0, 0.0, lock.content)
    assert code_of(site_app.answer(folder, QUERY, "me", few)) is FailureCode.OTHER_CLASSES
    assert isinstance(site_app.answer(folder, QUERY, "me", lock), SealedAnswers)


def test_site_refuses_keys_that_are_not_trusted(north: SiteFolder, lock: QueryKey) -> None:
    write_whole(north.trusted_keys, b"0" * 64 + b"\n")
    assert code_of(site_app.answer(north, QUERY, "me", lock)) is FailureCode.UNTRUSTED_KEY
    write_whole(north.trusted_keys, f"{'0' * 64}\n{lock.key_id}\n".encode())
    assert isinstance(site_app.answer(north, QUERY, "me", lock), SealedAnswers)
    write_whole(north.trusted_keys, b"")  # nobody's
    assert code_of(site_app.answer(north, QUERY, "me", lock)) is FailureCode.UNTRUSTED_KEY


def test_site_that_sends_encrypted_only_refuses_a_query_in_clear(
    tmp_path: Path, models: dict[str, LocalModel], lock: QueryKey
) -> None:
    folder = make_site(tmp_path, "north", models["north"], sends="sealed-answers")
    assert code_of(site_app.answer(folder, QUERY, "me")) is FailureCode.SEALED_ONLY
    assert code_of(site_app.model_parcel(folder)) is FailureCode.NOT_PRIVATE
    assert isinstance(site_app.answer(folder, QUERY, "me", lock), SealedAnswers)


def test_site_without_the_extra_answers_no_encryption(
    north: SiteFolder, lock: QueryKey, block_import: Any
) -> None:
    from onefold.federated.fhe.seal import contexts_for

    block_import("seal")
    contexts_for.cache_clear()
    assert code_of(site_app.answer(north, QUERY, "me", lock)) is FailureCode.NO_ENCRYPTION
    assert isinstance(site_app.answer(north, QUERY, "me"), Answers)


# --- the server's process ---------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("north", "south", "west"), ("north", "south"), ("north",)])
def test_result_is_of_the_sites_that_answered(
    spool: Spool,
    lock: QueryKey,
    querier: Querier,
    models: dict[str, LocalModel],
    sealed: dict[str, SealedAnswers],
    names: tuple[str, ...],
) -> None:
    result, refused = evaluated(spool, lock, {name: sealed[name] for name in names})
    assert result is not None
    assert (result.sites, refused) == (names, {})
    np.testing.assert_array_equal(querier.decrypt(result.content), in_clear(models, lock, *names))


def test_answers_that_do_not_fit_are_left_out_and_named(
    spool: Spool,
    lock: QueryKey,
    querier: Querier,
    models: dict[str, LocalModel],
    sealed: dict[str, SealedAnswers],
) -> None:
    other = site_app.answer(
        make_site(spool.root.parent, "south", models["south"]), QUERY, "me", lock_of(Querier(3, 3, 8))
    )
    assert isinstance(other, SealedAnswers)
    bad = {"north": sealed["north"], "south": other, "west": sealed["south"]}  # another key, another's name
    result, refused = evaluated(spool, lock, bad)
    assert result is not None
    assert (result.sites, refused) == (("north",), {"south": "malformed", "west": "malformed"})
    np.testing.assert_array_equal(querier.decrypt(result.content), in_clear(models, lock, "north"))


@pytest.mark.parametrize("damage", ["cut", "flipped", "shorter", "other rows"])
def test_damaged_answers_are_left_out_and_named(
    spool: Spool, lock: QueryKey, sealed: dict[str, SealedAnswers], damage: str
) -> None:
    content = sealed["north"].content
    if damage == "cut":
        content = content[:-100]
    elif damage == "flipped":
        content = content[:-5000] + bytes([content[-5000] ^ 1]) + content[-4999:]
    else:
        message = encrypted.EncryptedAnswers.from_bytes(content)
        changes: dict[str, Any] = {"content": message.content[:-16]}
        if damage == "other rows":
            changes = {"n_rows": 19}
        content = replace(message, **changes).to_bytes()
    result, refused = evaluated(spool, lock, {"north": SealedAnswers("q", "north", content)})
    assert result is None
    assert refused == {"north": "malformed"}


def test_evaluation_without_any_answer_has_no_result(spool: Spool, lock: QueryKey) -> None:
    assert evaluated(spool, lock, {}) == (None, {})


def test_evaluation_without_keys_exits_with_code_1(
    spool: Spool, lock: QueryKey, sealed: dict[str, SealedAnswers], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "log_to", lambda _: None)
    monkeypatch.setattr(evaluation, "NICENESS", 0)
    evaluated(spool, lock, {"north": sealed["north"]})
    assert evaluation.main(str(spool.root), "q") == 0
    assert spool.wait("q", 1).expected == tuple(SITES)
    spool.keys(lock.key_id).write_bytes(b"no keys")
    assert evaluation.main(str(spool.root), "q") == 1
    assert not spool.keys(lock.key_id).exists()
    assert evaluation.main(str(spool.root), "q") == 1


# --- on the way -------------------------------------------------------------------------------------------


def test_request_keeps_its_query_key(spool: Spool, lock: QueryKey) -> None:
    spool.submit(Request(QUERY, "me", 5.0, lock))
    spool.submit(Request(Query("q2", QUERY.features), "me", 5.0))
    first, second = sorted(spool.take(), key=lambda request: request.query.id)
    assert first.lock is not None
    assert first.lock.to_bytes() == lock.to_bytes()
    assert second.lock is None


def test_query_with_too_many_rows_for_one_message_is_too_large(north: SiteFolder, lock: QueryKey) -> None:
    many = Query("q", np.ones((10_000, 2)))
    assert code_of(site_app.answer(north, many, "me", lock)) is FailureCode.TOO_LARGE


@pytest.mark.merge
def test_new_run_finishes_the_evaluations_of_the_last_one(
    spool: Spool, lock: QueryKey, querier: Querier, sealed: dict[str, SealedAnswers], wait_for: Any
) -> None:
    evaluated(spool, lock, sealed)  # leaves the job as it was
    private_folder(spool.job("half"))
    run = Evaluations(spool)
    assert not spool.job("half").exists()
    reply: list[Reply] = []

    def is_there() -> bool:
        run.look()
        if not reply and not spool.job("q").exists():
            reply.append(spool.wait("q", 1))
        return bool(reply)

    wait_for(is_there, "the evaluation")
    (result,) = reply[0].messages
    assert isinstance(result, SealedResult)
    assert querier.decrypt(result.content).shape == (20, 3)


def test_wait_goes_on_while_an_evaluation_runs(spool: Spool) -> None:
    give_sign(spool, ["north"])
    looks = iter([True, True, False])
    with pytest.raises(FederationError, match="did not reply"):
        spool.wait("q", 0.0, lambda: next(looks))
    assert next(looks, None) is None
