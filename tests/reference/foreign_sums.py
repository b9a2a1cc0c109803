"""Valid files and messages of encrypted sums and of the keys around a federation; see ``foreign.py``.

Every role reads what others sent: a holder the messages of sites and the lists of other holders, the querier
the answers of holders, everybody the contract.
"""

from __future__ import annotations

import importlib.util
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onefold.federated import EncryptedSum, HolderKey, SchemaSum, SumBlock, SumContract, SumHolder, SumParties
from onefold.federated.access.approvals import Approvals
from onefold.federated.access.guard import QueryGuard, Replays
from onefold.federated.access.log import SiteLog
from onefold.federated.access.signatures import QuerierKey, SigningKey
from onefold.federated.messages import from_bytes
from onefold.federated.secret.keys import PublicHolder
from onefold.tables import Schema

__all__ = ["keys_and_sums", "small_store"]

HOME = tempfile.TemporaryDirectory(prefix="onefold-foreign-")  # what holders and sites remember
Sample = tuple[str, bytes, Callable[[Path], Any], str]
SITES = ("north", "south")


def keys_and_sums(schema: Schema, query: Any) -> list[Sample]:
    """Name, sample, reader and suffix of each; nothing where ``cryptography`` is missing."""
    if importlib.util.find_spec("cryptography") is None:
        return []
    folder = Path(tempfile.mkdtemp(dir=HOME.name))
    return [*_sums(folder, schema), *_keys(folder, query)]


def _sums(folder: Path, schema: Schema) -> list[Sample]:
    keys = [HolderKey.new(name) for name in ("ann", "bob", "cy")]
    public = tuple(key.public for key in keys)
    blocks = (SumBlock("counts", 3, largest=1000),)
    contract = SumContract("spring", public, 2, SITES, blocks, noise=False)
    total = EncryptedSum(contract)
    messages = [total.contribute(site, np.array([1, 2, 3]), folder) for site in SITES]
    routed = total.route(messages)
    holders = [SumHolder(total, key, folder) for key in keys]
    signed = [holder.sign(routed[holder.name]) for holder in holders]
    answers = [holder.answer(routed[holder.name], signed) for holder in holders]
    tables = SchemaSum("autumn", SumParties(SITES, public, 2), schema, "moments", 2.0)

    def answer(lists: list[bytes]) -> None:
        holders[2].answer(routed["cy"], lists)

    def open_contract(path: Path) -> None:
        str(SumContract.from_bytes(path.read_bytes()).guarantee)

    keys[0].save(folder / "ann.key")
    public[0].save(folder / "ann.public")
    memory = (folder / "spring.ann.round").read_bytes()
    return [
        ("sum contract", contract.to_bytes(), open_contract, ""),
        ("sum contract of tables", tables.to_bytes(), lambda path: SchemaSum.load(path).total, ".contract"),
        ("sum message", messages[0], lambda path: total.route([path.read_bytes(), messages[1]]), ""),
        ("sum envelope", routed["cy"][0], lambda path: holders[2].problems([path.read_bytes()]), ""),
        (
            "sum envelope of a seed",
            routed["ann"][0],
            lambda path: holders[0].problems([path.read_bytes()]),
            "",
        ),
        ("sum list", signed[0], lambda path: answer([path.read_bytes(), signed[1]]), ""),
        ("sum answer", answers[0], lambda path: total.open([path.read_bytes(), *answers[1:]]), ""),
        ("sum memory of a holder", memory, lambda path: _sign_again(path, total, keys[0], routed["ann"]), ""),
        ("key of a holder", (folder / "ann.key").read_bytes(), HolderKey.load, ".key"),
        ("key of a holder, public", (folder / "ann.public").read_bytes(), PublicHolder.load, ".public"),
    ]


def _sign_again(path: Path, total: EncryptedSum, key: HolderKey, routed: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "spring.ann.round").write_bytes(path.read_bytes())
        SumHolder(total, key, folder).sign(routed)


def small_store(path: Path) -> bytes:
    """A store in small pages: what is changed in it is seldom empty space."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in ("PRAGMA journal_mode=DELETE", "PRAGMA page_size=512", "VACUUM"):
            db.execute(statement)
    return path.read_bytes()


def _keys(folder: Path, query: Any) -> list[Sample]:
    key = SigningKey.create("ward", folder)
    secret = next(path for path in folder.iterdir() if path.suffix == ".signkey")
    signature = key.sign(query, "ab" * 32)
    Approvals(SiteLog(folder / "site.db"), "north").approve(str(folder / "ward.pub"), "queriers")
    Replays(folder / "site.db").enter(signature)
    later = key.sign(replace(query, id="q2"), "ab" * 32)

    def use_store(path: Path) -> None:
        log = SiteLog(path)
        log.verify()
        list(Approvals(log, "north").entries())
        QueryGuard(100, 100, path).spent("me")
        Replays(path).enter(later)

    def load_secret(path: Path) -> None:
        path.chmod(0o600)
        SigningKey.load(path)

    return [
        ("key of a querier", secret.read_bytes(), load_secret, ".signkey"),
        ("key of a querier, public", (folder / "ward.pub").read_bytes(), QuerierKey.load, ".pub"),
        (
            "key signature",
            signature.to_bytes(),
            lambda path: from_bytes(path.read_bytes()),
            ".message",
        ),
        ("store of a site", small_store(folder / "site.db"), use_store, ".db"),
    ]
