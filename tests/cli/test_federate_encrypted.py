"""The parts of the command for encrypted queries, without a network."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("seal")

from onefold._base.records import pack, plain_of
from onefold.cli.app import main
from onefold.cli.federate.querier import labels_from
from onefold.exceptions import FederationError, FileFormatError, InvalidInputError
from onefold.federated.fhe import Client, Querier, Server
from onefold.federated.fhe.argmin import clear_argmin
from onefold.federated.fhe.parameters import choose
from onefold.federated.fhe.quantiser import MeasureMap
from onefold.federated.flower import encrypted, rounding
from onefold.federated.flower.encrypted import (
    AnswersFile,
    EncryptedPart,
    Keyring,
    QueryKeyFile,
    decrypted,
    room_for,
)
from onefold.federated.flower.folders import ServerFolder, SiteFolder
from onefold.federated.flower.rounding import rehearsed
from onefold.federated.messages import Limits, QueryKey

KEY = "0123456789abcdef" * 4


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """New federations in query and in model mode, some data, and a query key: made once, and copied."""
    made = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        assert main(["federate", "init", "--sites", "north", "south", "--json"]) == 0
        assert main(["federate", "init", "models", "--sites", "north", "--mode", "model", "--json"]) == 0
        assert main(["federate", "init", "trimmed", "--sites", "north", "--rule", "trimmed", "--json"]) == 0
        (made / "with-key").mkdir()
        patch.chdir(made / "with-key")
        with redirect_stdout(io.StringIO()) as said:
            assert main([*LOCK, "--looks", "1", "--keys", "keys", "--json"]) == 0
    (made / "with-key" / "said.json").write_text(said.getvalue())
    np.savez(made / "rows.npz", X=np.random.default_rng(0).random((60, 3)), y=np.arange(60) % 2)
    np.savez(made / "one.npz", X=np.ones((1, 3)))
    np.savez(made / "equal.npz", X=np.ones((9, 3)))
    (made / "junk.querykey").write_bytes(b"junk")
    (made / "junk.encrypted").write_bytes(b"junk")
    return made


@pytest.fixture
def here(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of all but the query key, in the working folder."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("with-key"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize("setting", [(4, 10, 8), (200, 100, 8), (200, 100, 10), (200, 100, 12), (4, 10, 12)])
def test_largest_encrypted_query_is_within_the_limits_of_sites(setting: tuple[int, int, int]) -> None:
    parameters = choose(*setting)
    size = parameters.message_size(encrypted.most_rows(parameters, setting[0]))
    assert 0 < size < Limits().max_bytes
    if setting[0] == 4:
        assert size <= encrypted.MOST_BYTES


QUERY = ["federate", "query", "rows.npz"]
SEALED = [*QUERY, "--encrypted"]
ELSEWHERE = [*SEALED, "--query-key", "q.querykey", "--out", "x.encrypted"]
LOCK = ["federate", "querykey", "q.querykey", "--sites", "3", "--classes", "a", "b", "--bound", "1"]
BAD = {
    "bits without encryption": [*QUERY, "--bits", "8"],
    "a bound without encryption": [*QUERY, "--bound", "2"],
    "keys without encryption": [*QUERY, "--keys", "keys"],
    "measures": [*SEALED, "--measures"],
    "another rule": [*SEALED, "--rule", "trimmed"],
    "the server's other rule": [*SEALED, "--folder", "trimmed/server"],
    "held-out rows": [*SEALED, "--held-out", "rows.npz"],
    "model mode": [*SEALED, "--folder", "models/server"],
    "a bound of nothing": [*SEALED, "--bound", "nan"],
    "a negative floor": [*SEALED, "--floor", "-1"],
    "looks without encryption": [*QUERY, "--looks", "2"],
    "public rows without encryption": [*QUERY, "--fit-on", "rows.npz"],
    "no look": [*SEALED, "--looks", "0"],
    "a lock with looks": [*ELSEWHERE, "--looks", "2"],
    "a lock with public rows": [
        *SEALED,
        "--query-key",
        "q.querykey",
        "--out",
        "x.encrypted",
        "--fit-on",
        "rows.npz",
    ],
    "a lock of too many looks": [*LOCK, "--looks", "65"],
    "a lock without a map": LOCK[:-2],
    "a lock of two maps": [*LOCK, "--fit-on", "rows.npz", "--ignore", "y"],
    "a fitted lock with a power": [*LOCK[:-2], "--fit-on", "rows.npz", "--ignore", "y", "--power", "2"],
    "a lock fitted to nothing": [*LOCK[:-2], "--fit-on", "nowhere.npz"],
    "a lock fitted to one row": [*LOCK[:-2], "--fit-on", "one.npz"],
    "a lock fitted to equal rows": [*LOCK[:-2], "--fit-on", "equal.npz"],
    "a lock of an unknown measure": [*LOCK[:-2], "--fit-on", "equal.npz", "--measure", "x", "--scale", "1"],
    "a lock of a measure without its scale": [*LOCK[:-2], "--fit-on", "rows.npz", "--measure", "rms"],
    "a measure without public rows": [*LOCK, "--measure", "rms"],
    "a lock without a sealed file": [*SEALED, "--query-key", "q.querykey"],
    "a sealed file without a lock": [*SEALED, "--out", "x.encrypted"],
    "a lock with bits": [*ELSEWHERE, "--bits", "8"],
    "a lock with labels": [*ELSEWHERE, "--label", "y"],
    "a lock of another name": ["federate", "querykey", "q.txt", *LOCK[3:]],
    "a lock for nobody": [*LOCK[:4], "0", *LOCK[5:]],
    "a lock for too many": [*LOCK[:4], "201", *LOCK[5:]],
    "a lock of strange bits": [*LOCK, "--bits", "7"],
    "a lock whose floor is its bound": [*LOCK, "--floor", "1"],
    "classes twice": [
        "federate",
        "querykey",
        "q.querykey",
        "--sites",
        "3",
        "--classes",
        "a",
        "a",
        "--bound",
        "1",
    ],
    "a lock in no folder": ["federate", "querykey", "nowhere/q.querykey", *LOCK[3:]],
    "nothing to open": ["federate", "decrypt", "nowhere.encrypted"],
    "junk to open": ["federate", "decrypt", "junk.encrypted"],
    "labels without data": ["federate", "decrypt", "junk.encrypted", "--label", "y"],
    "a key of another form": ["federate", "site", "--folder", "federation/sites/north", "--trust-key", "x"],
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_exits_with_code_2_and_one_line(
    case: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(BAD[case]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("onefold: error: ")
    assert said.err.count("\n") == 1


def test_encrypted_query_without_sites_exits_with_code_1(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SEALED, "--ignore", "y"]) == 1
    assert "no site has joined the federation yet" in capsys.readouterr().err


def test_site_keeps_trusted_keys_and_encrypted_only(here: Path) -> None:
    site = SiteFolder(here / "federation/sites/north")
    start = ["federate", "site", "--folder", str(site.root), "--fit-only"]
    assert main([*start, "--data", "rows.npz", "--label", "y", "--send-encrypted-only"]) == 0
    assert site.settings.sends == "sealed-answers"
    assert site.trusted_key_ids is None
    other = KEY[::-1]
    assert main([*start, "--trust-key", KEY]) == 0
    assert main([*start, "--trust-key", other]) == 0
    assert site.trusted_key_ids == {KEY, other}
    assert site.trusted_keys.stat().st_mode & 0o077 == 0
    assert site.settings.sends == "sealed-answers"


def test_secret_keys_are_made_once_and_readable_by_their_owner_only(here: Path) -> None:
    keyring = Keyring(here / "keys")
    made = keyring.querier(3, 2, 8)
    assert keyring.querier(4, 2, 8).key_id == made.key_id  # room for one more was left
    assert keyring.find(made.key_id).key_id == made.key_id
    with pytest.raises(FederationError, match="not here"):
        keyring.find(KEY)
    (path,) = (here / "keys").glob("*.key")
    assert path.stat().st_mode & 0o077 == path.parent.stat().st_mode & 0o077 == 0
    path.chmod(0o640)
    with pytest.raises(InvalidInputError, match="others can read this key"):
        keyring.querier(3, 2, 8)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(FileFormatError, match=path.name):
        keyring.querier(3, 2, 8)
    chosen = here / "chosen"  # a folder that was there before is not changed
    chosen.mkdir()
    chosen.chmod(0o755)
    Keyring(chosen).querier(3, 2, 8)
    (path,) = chosen.glob("*.key")
    assert (chosen.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o755, 0o600)
    chosen.chmod(0o775)
    with pytest.raises(InvalidInputError, match="others can write"):
        Keyring(chosen).querier(3, 2, 8)
    server = ServerFolder(here / "federation/server")
    for inside in (server.root / "keys", here / "federation/server/state/../keys"):
        with pytest.raises(InvalidInputError, match="must not be in the server's folder"):
            Keyring(inside, away_from=server.root)


def test_classes_of_a_query_key_are_read_as_tables_have_them() -> None:
    assert labels_from(["10", "9", "-1"]) == [-1, 9, 10]
    assert labels_from(["007", "8"]) == ["007", "8"]
    assert labels_from(["b", "1"]) == ["1", "b"]


def test_keys_have_room_for_more_sites() -> None:
    assert [room_for(n) for n in (1, 2, 3, 4, 5, 100, 129, 200)] == [2, 2, 4, 4, 8, 128, 200, 200]
    with pytest.raises(InvalidInputError):
        room_for(201)


def test_default_bound_is_the_spread_of_the_rows() -> None:
    rows = np.array([[0.0, 0.0], [2.0, 0.0]])
    assert rounding.default_bound("rms", rows) == 1.0
    assert rounding.default_bound("euclidean", rows) == 1.0
    with pytest.raises(InvalidInputError, match="--bound"):
        rounding.default_bound("euclidean", rows[:1])


def test_map_is_fitted_to_the_rows_of_the_query_unless_told_otherwise() -> None:
    rows = np.random.default_rng(1).random((200, 3))
    nothing = (None, None, None)
    own = rounding.chosen_map("euclidean", None, 8, nothing, None, None, rows)
    assert (own["looks"], own["knots"][0], own["knots"][-1]) == (4, own["floor"], own["bound"])
    assert own["knots"] == rounding.fitted_knots(rows, "euclidean", None)
    joined = rounding.chosen_map("joined", None, 8, nothing, None, None, rows)["knots"]
    middle = np.median(rehearsed(rows, "euclidean", None)[0])
    np.testing.assert_allclose(joined[-1], middle**2 * 2**8, rtol=1e-4)
    folding = rounding.chosen_map("rms", 2.0, 8, nothing, 3, None, rows)
    assert (folding["looks"], folding["bound"]) == (3, 1.0)
    # Public rows take their place, and nothing of the query is in the map then.
    public = rounding.chosen_map("euclidean", None, 8, nothing, None, 2 * rows, rows[:5])
    np.testing.assert_allclose(public["knots"], 2 * np.array(own["knots"]), rtol=1e-4)
    assert public["looks"] == 4
    # The plain map: as soon as one of its numbers is given, and where rows show nothing.
    assert rounding.chosen_map("rms", 1.0, 8, (None, 2.0, None), 1, None, rows)["knots"] == ()
    assert rounding.chosen_map("rms", 1.0, 8, nothing, None, None, rows[:1])["looks"] == 16
    assert rounding.chosen_map("rms", 1.0, 8, nothing, None, None, np.ones((9, 2)))["bound"] == 1.0
    with pytest.raises(InvalidInputError, match="not both"):
        rounding.chosen_map("rms", 1.0, 8, (1.0, None, None), None, rows)
    with pytest.raises(InvalidInputError, match="2 feature"):
        rounding.chosen_map("rms", 1.0, 8, nothing, None, rows[:, :2], rows)


@pytest.mark.parametrize(
    ("n_rows", "bits", "fitted", "looks"),
    [
        (1000, 8, True, 4),
        (128, 8, True, 4),
        (64, 8, True, 8),
        (2, 8, True, 16),
        (None, 6, False, 16),
        (1000, 8, False, 16),
        (5, 10, True, 1),
    ],
)
def test_few_rows_and_the_plain_map_get_more_looks(
    n_rows: int | None, bits: int, fitted: bool, looks: int
) -> None:
    assert rounding.default_looks(n_rows, bits, fitted) == looks


@pytest.fixture
def locked(prepared: Path, here: Path) -> tuple[Path, QueryKey, bytes]:
    """A query key that the command made, with its secret key in ``keys``."""
    shutil.copytree(prepared / "with-key", here, dirs_exist_ok=True)
    told = json.loads((here / "said.json").read_text())
    key = QueryKeyFile.load(here / "q.querykey")
    made = {"query_key": "q.querykey", "key": key.key_id}
    shown = {"bits": 8, "bound": 1.0, "looks": 1, "fitted": False}
    assert told == {**made, "classes": ["a", "b"], **shown}
    return here, key.query_key, key.evaluation_keys


def test_query_key_with_keys_of_another_querier_is_refused(locked: tuple[Path, QueryKey, bytes]) -> None:
    here, lock, keys = locked
    map_ = {"bound": 1.0, "power": 1.0, "floor": 0.0}
    stranger = encrypted.query_key_of(Querier(4, 2), ["a", "b"], 8, map_)
    with pytest.raises(InvalidInputError, match="evaluation keys"):
        QueryKeyFile(stranger, keys)
    arrays: dict[str, Any] = {}
    mixed = plain_of(QueryKeyFile(lock, keys), arrays)
    arrays["query_key"] = np.frombuffer(stranger.to_bytes(), dtype=np.uint8)
    (here / "mixed.querykey").write_bytes(pack(QueryKeyFile.kind, 1, mixed, arrays))
    with pytest.raises(FileFormatError, match="evaluation keys"):
        QueryKeyFile.load(here / "mixed.querykey")
    for wrong in ({"content": stranger.content}, {"classes": ("a", "b", "c")}, {"bits": 10}):
        with pytest.raises(InvalidInputError, match="belong together"):
            QueryKeyFile(replace(lock, **wrong), keys)
    server = ServerFolder(here / "federation/server")
    with pytest.raises(InvalidInputError, match="fewer sites"):
        encrypted.ask_encrypted(server, np.zeros((1, 2)), lock, lambda: keys, 5, "somebody", 1.0, 1)


def save_answers(path: Path, lock: QueryKey, *parts: EncryptedPart) -> None:
    AnswersFile(lock.key_id, lock.classes, parts).save(path, public=True)


def sealed_part(lock: QueryKey, keys: bytes, **changes: Any) -> EncryptedPart:
    """What a server makes of two sites' answers to three rows."""
    numbers = np.array([[[5, 9], [7, 7], [-1, 3]], [[6, 8], [9, 8], [-1, 200]]])
    names = ("north", "south")
    messages = [
        Client(lock.content, name).encrypt(each, "q") for name, each in zip(names, numbers, strict=True)
    ]
    content = Server(keys).aggregate(messages).to_bytes()
    given: dict[str, Any] = {
        "query_id": "q",
        "n_rows": 3,
        "expected": ("north", "south", "west"),
        "refused": {"west": "rate-limited"},
        "sites": names,
        "content": content,
    }
    return EncryptedPart(**{**given, **changes})


def test_encrypted_answers_are_decrypted_by_their_key_only(
    locked: tuple[Path, QueryKey, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    here, lock, keys = locked
    save_answers(here / "x.encrypted", lock, sealed_part(lock, keys), sealed_part(lock, keys))
    assert main(["federate", "decrypt", "x.encrypted", "--keys", "keys", "--json"]) == 3
    told = json.loads(capsys.readouterr().out)
    assert told["labels"] == ["a", "a", "b"] * 2
    assert told["ties"] == 2
    assert (told["answered"], told["missing"], told["refused"]) == (
        ["north", "south"],
        ["west"],
        {"west": "rate-limited"},
    )
    assert main(["federate", "decrypt", "x.encrypted", "--json"]) == 1  # no key at the usual place
    assert main(["federate", "decrypt", "q.querykey", "--keys", "keys"]) == 2


@pytest.mark.parametrize("wrong", ["query", "rows", "sites", "damaged", "key"])
def test_result_of_another_query_or_key_is_refused(locked: tuple[Path, QueryKey, bytes], wrong: str) -> None:
    here, lock, keys = locked
    querier = Keyring(here / "keys").find(lock.key_id)
    part = sealed_part(lock, keys)
    assert decrypted(querier, ["a", "b"], [part], {}).predictions.tolist() == ["a", "a", "b"]
    damaged = part.content[:-4000] + bytes([part.content[-4000] ^ 255]) + part.content[-3999:]
    changes = {"query": {"query_id": "p"}, "rows": {"n_rows": 2}, "sites": {"sites": ("north",)}}
    changes["damaged"] = {"content": damaged}
    if wrong == "key":
        querier = Querier(4, 2, 8)
    with pytest.raises(FederationError, match="the result cannot be used"):
        decrypted(querier, ["a", "b"], [replace(part, **changes.get(wrong, {}))], {})


def test_query_key_and_answers_files_hold_no_secret(locked: tuple[Path, QueryKey, bytes]) -> None:
    here, lock, keys = locked
    (path,) = (here / "keys").glob("*.key")
    secret = Keyring(here / "keys").find(lock.key_id)._secret
    part = secret[len(secret) // 2 :][:64]
    assert part in path.read_bytes()
    assert part not in (here / "q.querykey").read_bytes()
    save_answers(here / "x.encrypted", lock, sealed_part(lock, keys))
    assert part not in (here / "x.encrypted").read_bytes()
    loaded = AnswersFile.load(here / "x.encrypted")
    stored = (loaded.key_id, loaded.classes, loaded.parts[0].sites)
    assert stored == (lock.key_id, ("a", "b"), ("north", "south"))


def test_evaluation_keys_are_not_read_as_a_public_key(locked: tuple[Path, QueryKey, bytes]) -> None:
    from onefold.exceptions import MessageError
    from onefold.federated.fhe.messages import EvaluationKeys, PublicKey

    _, lock, keys = locked
    assert PublicKey.from_bytes(lock.content).key_id == EvaluationKeys.from_bytes(keys).key_id
    with pytest.raises(MessageError):
        PublicKey.from_bytes(keys)


# --- looks ------------------------------------------------------------------------------------------------


def test_query_key_fitted_to_public_rows_holds_its_map_and_looks(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    fit = ["--fit-on", "rows.npz", "--ignore", "y", "--keys", "keys"]
    assert main([*LOCK[:-2], *fit]) == 0
    said = capsys.readouterr().out
    assert "The map is fitted to public rows; for 64 rows, 8 looks at each row: every site sends" in said
    key = QueryKeyFile.load(here / "q.querykey").query_key
    with np.load("rows.npz") as found:
        assert key.knots == rounding.fitted_knots(found["X"], "euclidean", None)
    assert (key.looks, key.floor, key.bound) == (8, key.knots[0], key.knots[-1])  # 60 rows
    assert main([*LOCK[:-2], *fit, "--measure", "rms", "--scale", "2", "--looks", "2", "--json"]) == 0
    key = QueryKeyFile.load(here / "q.querykey").query_key
    assert (key.looks, key.bound) == (2, 1.0)


def test_answers_of_several_looks_are_decrypted_to_classes_closest_in_all(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*LOCK, "--looks", "3", "--keys", "keys", "--json"]) == 0
    file = QueryKeyFile.load(here / "q.querykey")
    key, map_ = file.query_key, MeasureMap(8, 1.0, looks=3)
    measures = np.array([[[0.5, 0.5005], [0.3, 0.3], [0.9, 0.1]], [[0.6, 0.5016], [0.4, 0.3], [0.8, 0.2]]])
    once = clear_argmin(MeasureMap(8).numbers(measures.reshape(-1, 2)).reshape(2, 3, 2))
    assert once.sum(axis=1).tolist() == [2, 2, 1]  # one look cannot tell the first row
    names = ("north", "south")
    messages = [
        Client(key.content, name).encrypt(map_.numbers(own), "q")
        for name, own in zip(names, measures, strict=True)
    ]
    content = Server(file.evaluation_keys).aggregate(messages).to_bytes()
    part = EncryptedPart("q", 3, names, {}, names, content, 3)
    save_answers(here / "x.encrypted", key, part)
    capsys.readouterr()
    assert main(["federate", "decrypt", "x.encrypted", "--keys", "keys", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["labels"], told["ties"], told["looks"]) == (["a", "a", "b"], 1, 3)
    querier = Keyring(here / "keys").find(key.key_id)
    with pytest.raises(FederationError, match="the result cannot be used"):
        decrypted(querier, ["a", "b"], [replace(part, looks=1)], {})


@pytest.mark.parametrize("looks", [0, 65, "2", True, None])
def test_file_of_answers_with_impossible_looks_is_refused(here: Path, looks: Any) -> None:
    names, content = ("north",), {"content": np.zeros(3, dtype=np.uint8)}
    part = plain_of(EncryptedPart("q", 3, names, {}, names, b"abc"), {})
    fields = {"key_id": KEY, "classes": ["a"], "parts": [{**part, "looks": looks}]}
    (here / "x.encrypted").write_bytes(pack(AnswersFile.kind, 1, fields, content))
    with pytest.raises(FileFormatError, match=r"x\.encrypted"):
        AnswersFile.load(here / "x.encrypted")
