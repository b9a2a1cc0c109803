"""Encrypted queries with real processes: the same predictions, and the secret key is nowhere but at home."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("seal")

from onefold.federated.fhe.argmin import clear_argmin
from onefold.federated.fhe.quantiser import in_every_look
from onefold.federated.flower.rounding import fitted_knots
from onefold.federated.flower.site_app import quantised
from onefold.federated.messages import Query, QueryKey

# Each begins with processes of its own; tests/federated/flower/test_federation_query.py has the same in one.
pytestmark = pytest.mark.merge

NAMES = ("north", "south", "west")
DIGEST = "0" * 64


def plain_labels(
    federation: Any, names: tuple[str, ...], bits: int, bound: float, looks: int = 1, knots: Any = ()
) -> np.ndarray:
    """What the same numbers of the same sites say without encryption."""
    models = [federation.models[name] for name in names]
    classes = sorted({int(label) for model in models for label in model.classes_})
    lock = QueryKey(
        DIGEST, tuple(classes), bits, bound, 1.0, min(knots, default=0.0), b"no key", looks, tuple(knots)
    )
    query = Query("q", federation.X_test)
    values = np.stack([quantised(model.answer(query, "any"), lock) for model in models])
    return np.asarray(classes)[np.argmax(in_every_look(clear_argmin(values), looks), axis=1)]


def secret_of(path: Path) -> bytes:
    """Some bytes from the middle of a secret key."""
    with np.load(path) as arrays:
        secret = arrays["secret"].tobytes()
    return secret[len(secret) // 2 :][:64]


def holders(secret: bytes, *roots: Path) -> list[Path]:
    """Files in which these bytes are; the server may clear one away meanwhile."""
    found = []
    for path in [path for root in roots for path in root.rglob("*") if path.is_file()]:
        with suppress(FileNotFoundError):
            found += [path] if secret in path.read_bytes() else []
    return found


def test_encrypted_query_predicts_what_the_same_numbers_say_in_clear(
    federation: Any, wait_for: Callable[..., None], tmp_path: Path
) -> None:
    keys, out = tmp_path / "keys", tmp_path / "predictions.npz"
    server = federation.server.spool
    known = set((server / "keys").glob("*"))  # of other tests, which may come first
    told = federation.query("--encrypted", "--keys", keys, "--out", out)
    assert told["code"] == 0, told
    assert (told["answered"], told["partial"], told["bits"]) == (list(NAMES), False, 8)

    assert (told["looks"], len(told["knots"])) == (4, 65)
    assert told["bytes_per_site"] > 3 * told["bytes_in_one_look"] > 0
    assert tuple(told["knots"]) == fitted_knots(federation.X_test, "euclidean", None)
    expected = plain_labels(federation, NAMES, 8, told["bound"], told["looks"], told["knots"])
    with np.load(out) as found:
        np.testing.assert_array_equal(found["prediction"], expected)
        assert set(found) == {"prediction"}
    assert told["accuracy"] == np.mean(expected == federation.y_test)
    np.testing.assert_array_equal(expected, federation.query()["labels"])  # nothing is lost

    # Nothing of the query is left at the server once its run has looked.
    wait_for(lambda: not any((server / "sealed").iterdir()), "the run to clear away sealed answers")
    # The secret key is in its own folder, for its owner, and nowhere else.
    (key,) = keys.glob("*.key")
    assert key.stat().st_mode & 0o077 == keys.stat().st_mode & 0o077 == 0
    secret = secret_of(key)
    assert holders(secret, tmp_path) == [key]
    assert holders(secret, federation.root) == []
    # What the server keeps is what it computes with.
    assert [path.stem for path in (server / "keys").iterdir() if path not in known] == [told["key"]]


@pytest.mark.nightly
def test_second_encrypted_query_reuses_keys_and_misses_a_killed_site(
    federation: Any, tmp_path: Path, wait_for: Any
) -> None:
    options = (
        "--encrypted",
        "--keys",
        tmp_path / "keys",
        "--bits",
        6,
        "--bound",
        0.5,
        "--batch",
        100,
        "--looks",
        2,
    )
    first = federation.query(*options)
    assert first["code"] == 0, first
    assert first["labels"] == plain_labels(federation, NAMES, 6, 0.5, 2).tolist()
    federation.stop("west")
    try:
        wait_for(lambda: "west" not in federation.online(), "west to be gone")
        told = federation.query(*options)
    finally:
        federation.start("west")
        federation.wait_for_members(*NAMES)
    assert told["code"] == 3, told
    assert (told["answered"], told["missing"], told["partial"]) == (["north", "south"], ["west"], True)
    assert told["key"] == first["key"]
    assert told["labels"] == plain_labels(federation, NAMES[:2], 6, 0.5, 2).tolist()


def test_querier_elsewhere_hands_over_a_query_key_and_decrypts_the_file(
    federation: Any, tmp_path: Path
) -> None:
    keys, lock, sealed = (tmp_path / name for name in ("keys", "q.querykey", "answers.encrypted"))
    fit = ("--fit-on", federation.test_file, "--ignore", "y", "--looks", 2)
    options = ("--sites", 3, "--classes", 0, 1, 2, *fit, "--keys", keys)
    made = federation.run("querykey", lock, *options, "--json", folder=False)
    assert made.returncode == 0, made.stderr
    (key,) = keys.glob("*.key")

    # The server's owner asks without any secret.
    asked = federation.run(
        "query", federation.test_file, "--ignore", "y", "--encrypted", "--query-key", lock, "--out", sealed
    )
    assert asked.returncode == 0, asked.stderr
    assert holders(secret_of(key), lock.parent, federation.root) == [key]

    options = ("--keys", keys, "--data", federation.test_file, "--label", "y", "--json")
    told = json.loads(federation.run("decrypt", sealed, *options, folder=False).stdout)
    knots = fitted_knots(federation.X_test, "euclidean", None)
    expected = plain_labels(federation, NAMES, 8, knots[-1], 2, knots)
    assert told["labels"] == expected.tolist()
    assert told["accuracy"] == np.mean(expected == federation.y_test)

    # Nobody else opens it, and no other key does.
    other = tmp_path / "other"
    refused = federation.run("decrypt", sealed, "--keys", other, folder=False)
    assert refused.returncode == 1
    assert "the secret key of this query is not here" in refused.stderr


@pytest.mark.nightly
def test_running_site_without_the_extra_answers_no_encryption(make_federation: Any, tmp_path: Path) -> None:
    made = make_federation(tmp_path / "f")
    (tmp_path / "stub").mkdir()
    (tmp_path / "stub" / "seal.py").write_text("raise ImportError('not installed')\n")
    try:
        made.start("server")
        for name in NAMES:
            more = ("--send-encrypted-only",) if name == "south" else ()
            fit = ("--data", made.root / f"{name}.npz", "--label", "y", *more)
            made.start(name, *fit, modules=tmp_path / "stub" if name == "west" else None)
        made.wait_for_members(*NAMES)
        told = made.query("--encrypted", "--keys", tmp_path / "keys", "--bound", 0.5, "--looks", 1)
        in_clear = made.query()
    finally:
        made.close()
    assert told["code"] == in_clear["code"] == 3
    assert told["refused"] == {"west": "no-encryption"}
    assert told["labels"] == plain_labels(made, NAMES[:2], 8, 0.5).tolist()
    # The other way round: one who gives encrypted answers only does not answer in clear.
    assert in_clear["refused"] == {"south": "sealed-only"}
