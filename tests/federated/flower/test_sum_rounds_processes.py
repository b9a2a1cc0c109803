"""An encrypted sum among real processes: three sites that are key holders too, one of which drops out."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.federated import HolderKey, SchemaSum, SumHolder
from onefold.federated.access.signatures import SigningKey
from onefold.federated.flower import SumRound
from onefold.privacy import Ledger
from onefold.tables import Field, Schema, read_table

NAMES = ("north", "south", "west")
SCHEMA = Schema(
    (
        Field("age", low=0, high=100),
        Field("ward", "string", levels=("a", "b", "c")),
        Field("ill", "string", "label", levels=("no", "yes")),
    ),
    rows_about=900,
)


def write_rows(path: Path, seed: int, n: int = 300) -> None:
    rng = np.random.default_rng(seed)
    age, ward = rng.integers(0, 100, n), rng.choice(list("abc"), n)
    ill = np.where(age + rng.normal(0, 8, n) > 50, "yes", "no")
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["age", "ward", "ill"], *zip(age, ward, ill, strict=True)])


@pytest.mark.merge
def test_sum_is_opened_without_a_site_that_drops_out_half_way_and_is_that_of_the_library(
    tmp_path: Path, make_federation: Callable[..., Any], wait_for: Callable[..., None]
) -> None:
    made = make_federation(tmp_path / "f", whom=())
    root, share = tmp_path, tmp_path / "share"
    share.mkdir()
    SCHEMA.save(root / "schema.json")
    for number, name in enumerate(NAMES):
        write_rows(root / f"{name}.csv", number)
        assert made.run("keys", "new", name, "--folder", root, folder=False).returncode == 0
    public = [root / f"{name}.public" for name in NAMES]
    contract = share / "spring.contract"
    given = ("--schema", root / "schema.json", "--holders", *public, "--threshold", 2, "--epsilon", 2)
    new = ("sum", "new", "spring", "--sites", *public, "--missing", 1, "--out", contract, *given)
    written = made.run(*new, folder=False)
    assert written.returncode == 0, written.stderr
    ward = SigningKey.create("ward", root / "querier")
    querier = ("--querier", root / "querier" / "ward.signkey", "--purpose", "triage")
    run = ("sum", "run", "--contract", contract, *querier)
    run = (*run, "--out", root / "all.onefold")
    try:
        made.start("server")
        for name in NAMES:
            made.start(name, "--sum-table", root / f"{name}.csv", "--sum-key", root / f"{name}.key")
        wait_for(lambda: made.online() == set(NAMES), "all sites")
        first = made.run(*run)
        assert first.returncode == 1, first.stderr
        assert "only 0 of 3 sites have contributed, and 2 are needed" in first.stderr
        for name in NAMES:
            assert f"{name} waits for its data owner's approval" in first.stderr
            wait_for(lambda name=name: "ward for an encrypted sum spring" in made.output(name), "the remark")
            approve = ("approvals", "approve", "ward", "--sum", "spring", "--folder", made.site(name).root)
            assert made.run(*approve, folder=False).returncode == 0

        # All three contribute; then the querier's process and one site are gone.
        summed = SchemaSum.load(contract)
        asked = SumRound(made.server, summed, share, ward, purpose="triage")
        asked._collect(list(NAMES), 0.0)
        assert made.stop("west") == 0
        wait_for(lambda: "west" not in made.online(), "west to be gone")

        done = made.run(*run, "--json")
        assert done.returncode == 0, done.stderr
        assert "key holder west is not connected" in done.stderr
        told = json.loads(done.stdout)
        assert told["sites"] == list(NAMES)
        assert told["holds"]
        assert not told["checked"]

        # The same messages in this process: the same answers to the last bit.
        here = tmp_path / "here"
        here.mkdir()
        keys = [HolderKey.load(root / f"{name}.key") for name in NAMES[:2]]
        both = [SumHolder(summed.total, key, here) for key in keys]
        routed = summed.total.route([asked.message_of(name) for name in NAMES])
        signed = [holder.sign(routed[holder.name]) for holder in both]
        for holder in both:
            answer = holder.answer(routed[holder.name], signed)
            assert answer == asked.path(holder.name, "answer").read_bytes()
        opened = summed.total.open(asked.path(name, "answer").read_bytes() for name in NAMES[:2])
        plain = sum(summed.vector(read_table(root / f"{name}.csv", schema=SCHEMA)) for name in NAMES)
        sigma = np.concatenate([np.full(block.length, block.sigma) for block in summed.total.contract.blocks])
        assert np.all(np.abs(opened.vector - plain) < 6 * sigma * np.sqrt(3))  # noise, and nothing else

        # Asked again, the round gives the same, and nothing is charged.
        again = made.run(*run)
        assert again.returncode == 0, again.stderr
        for name in NAMES:
            events = Ledger.load(made.site(name).ledger).events
            assert [event.name for event in events] == ["encrypted sum spring"]
            export = ("log", "export", "--json", root / f"{name}.json", "--folder", made.site(name).root)
            assert made.run(*export, folder=False).returncode == 0
            log = json.loads((root / f"{name}.json").read_text())
            steps = [entry["facts"]["step"] for entry in log["entries"] if entry["event"] == "sum-step"]
            assert steps == (["contribute"] if name == "west" else ["contribute", "check", "sign", "answer"])
            assert [entry["event"] for entry in log["entries"]][:2] == ["waiting", "approved"]
    finally:
        made.close()
