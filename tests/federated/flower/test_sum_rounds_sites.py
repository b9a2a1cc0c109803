"""Encrypted sums at a site: what its data owner sees and decides, whose rows are left out, what is kept."""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from onefold.cli.app import main
from onefold.exceptions import MessageError, TamperedLogError
from onefold.federated import SchemaSum, SumParties
from onefold.federated.access.guard import Replays
from onefold.federated.access.log import SiteLog
from onefold.federated.flower import Federation, Site, nodes
from onefold.federated.flower.admission import exported_log
from onefold.federated.flower.registry import Status
from onefold.federated.flower.summing import decide_sum, known_sums
from onefold.federated.messages import Bundle, FailureCode, SumParcel
from onefold.report import site_log_page
from onefold.tables import Field, Schema, read_table
from reference.sum_network import NAMES, SCHEMA, Network, asked, write_rows

# --- the site and its data owner ----------------------------------------------------------------------------


def test_site_for_sums_only_is_there_and_no_member(net: Network) -> None:
    assert net.site("north").only_sums
    status = {site.name: site for site in net.federation.status().sites}
    assert all(status[name].online for name in NAMES)
    registry = net.coordinator.registry
    assert [registry.sites[name].status for name in NAMES] == [Status.INVITED] * 3
    assert not registry.members


def test_data_owner_sees_what_a_sum_would_spend_and_decides(
    net: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    summed = net.contract()
    net.wait_everywhere(summed)
    folder = ("--folder", str(net.site("north").folder.root))
    assert main(["federate", "approvals", "list", *folder]) == 0
    said = capsys.readouterr().out
    assert f"WAITS: encrypted sum spring, contract {summed.total.contract.digest}: triage" in said
    assert "moments of the columns age, ward, ill" in said
    assert "summed over north, south, west; at least 2 of them are in the sum" in said
    assert "the noise is enough if 2 of 3 add none" in said
    assert "epsilon 2 per record" in said
    assert main(["federate", "approvals", "approve", "ward", "--sum", "summer", *folder]) == 2
    assert main(["federate", "approvals", "approve", "ward", "--sum", "spring", "--rows", "3", *folder]) == 2
    capsys.readouterr()
    assert main(["federate", "approvals", "approve", "ward", "--sum", "spring", *folder]) == 0
    assert "approved: encrypted sum spring" in capsys.readouterr().out
    (known,) = known_sums(net.site("north").folder)
    assert known[0].decision == "approved"
    assert main(["federate", "approvals", "deny", "ward", "--sum", "spring", *folder]) == 0
    assert asked(net, "north", summed=summed) is FailureCode.DENIED
    assert net.events("north") == ["waiting", "approved", "denied"]
    assert main(["federate", "log", "export", "--json", "-", *folder]) == 0


def test_exported_log_holds_signatures_of_steps_and_finds_changed_ones(net: Network) -> None:
    summed = net.contract()
    net.approve(summed, "north")
    assert isinstance(asked(net, "north", summed=summed), SumParcel)
    folder = net.site("north").folder
    found = exported_log(folder)
    assert (found["signatures"], found["unsigned"]) == (1, 0)
    facts = found["entries"][-1]["facts"]
    assert (facts["round"], facts["step"]) == ("spring", "contribute")
    assert (facts["epsilon"], facts["unit"]) == (2.0, "record")
    assert "encrypted sum: contribute, round spring" in site_log_page(found)
    # Whoever writes a chain of its own cannot sign for the querier.
    SiteLog(folder.store).append("sum-step", "north", **facts | {"step": "answer"})
    with pytest.raises(TamperedLogError, match="entry 4 of the log has a signature that is not the querier"):
        exported_log(folder)


def test_site_without_a_model_says_that_it_is_there_for_sums(
    net: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ["federate", "site", "--folder", str(net.site("north").folder.root), "--fit-only"]
    assert main(folder) == 0
    said = capsys.readouterr().out
    assert "site north: no model, no query is answered" in said
    assert f"adds the rows of {net.tables['north']} and has the key {tmp_path / 'north.key'}" in said
    assert main([*folder, "--sum-table", str(tmp_path / "nothing.csv")]) == 2
    assert "nothing.csv: no such file" in capsys.readouterr().err
    assert net.site("north").settings.sum_table == str(net.tables["north"])


def run_twice(net: Network, tmp_path: Path, summed: SchemaSum, out: Path) -> tuple[list[str], str]:
    """Ask, have all data owners approve, ask again; the words of the command, and what it said first."""
    contract = net.share / "spring.contract"
    summed.save(contract)
    run = ["federate", "sum", "run", "--contract", str(contract), "--folder", str(net.federation.folder.root)]
    run += ["--querier", "lab", "--out", str(out)]
    said = io.StringIO()
    with redirect_stderr(said):
        assert main(run) == 1
    for name in NAMES:
        decide_sum(net.site(name).folder, "lab", "spring", approve=True)
    assert main(run) == 0
    return run, said.getvalue()


def test_command_goes_through_a_round_and_writes_a_model_that_predicts(
    net: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    summed, out = net.contract(epsilon=8.0), tmp_path / "all.onefold"
    run, first = run_twice(net, tmp_path, summed, out)
    assert "made a key to sign with" in first
    assert "north waits for its data owner's approval" in first
    said = capsys.readouterr()
    assert "epsilon 8 per record" in said.out
    assert "Provided that at most 0 of 3 key holders collude" in said.out
    assert "sum of north, south, west" in said.out
    assert "key holder west has answered" in said.err
    assert json.loads((tmp_path / "all.onefold.guarantee.json").read_text())["n_owners"] == 3
    predict = ["predict", str(out), str(net.tables["west"]), "--label", "ill", "--json"]
    assert main([*predict, "--out", str(tmp_path / "p.csv")]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.8
    written = out.read_bytes()
    assert main([*run, "--json"]) == 0  # from the files of the round
    told = json.loads(capsys.readouterr().out)
    assert (told["sites"], told["checked"], told["contract"]) == (
        list(NAMES),
        True,
        summed.total.contract.digest,
    )
    assert out.read_bytes() == written
    assert main([*run, "--rows", "3"]) == 2
    assert "this one makes a model" in capsys.readouterr().err


def test_command_makes_a_synthetic_table_of_opened_counts(
    net: Network, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    holders = tuple(key.public for key in net.keys.values())
    summed = SchemaSum("spring", SumParties(NAMES, holders, 2), SCHEMA, "tables", 8.0)
    run_twice(net, tmp_path, summed, tmp_path / "all.csv")
    assert "rows written to" in capsys.readouterr().out
    table = read_table(tmp_path / "all.csv", schema=SCHEMA)
    assert abs(table.n_rows - 300) < 60
    assert json.loads((tmp_path / "all.csv.guarantee.json").read_text())["n_owners"] == 3


def test_pause_holds_for_a_step_that_was_taken_and_has_not_left(
    net: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    summed = net.contract()
    net.approve(summed, "north")
    site, check = net.site("north"), Replays.check

    def paused_now(*what: Any) -> None:
        check(*what)
        site.pause()

    with monkeypatch.context() as patch:
        patch.setattr(Replays, "check", paused_now)
        assert asked(net, "north", summed=summed) is FailureCode.PAUSED
    assert net.events("north")[-1] == "paused"
    said = net.wait_everywhere(summed)
    assert "north is paused by its data owner" in said
    site.pause(False)
    assert isinstance(asked(net, "north", id="q2", summed=summed), SumParcel)


def test_parcels_for_sites_that_are_not_there_come_back_at_once(net: Network) -> None:
    for name in NAMES:
        net.leave(name)
    said = net.wait_everywhere(net.contract())
    assert "north is not connected; south is not connected; west is not connected" in said


def test_parcel_content_is_the_contract_and_what_belongs_to_the_step() -> None:
    parcel = SumParcel(
        "q",
        "north",
        "answer",
        Bundle(
            (
                b"contract",
                b"list",
            )
        ).to_bytes(),
    )
    assert Bundle.from_bytes(parcel.content).parts == (b"contract", b"list")
    with pytest.raises(MessageError, match="'contribute', 'check', 'sign' or 'answer'"):
        SumParcel("q", "north", "open", b"x")


class Started:
    """A process of Flower's that only counts how often it was started."""

    pid, is_running = 1, True
    count = 0

    def __init__(self, *_: object) -> None:
        type(self).count += 1

    def output(self) -> str:
        return ""

    def stop(self) -> None:
        pass


def test_site_for_sums_only_starts_and_connects_again_after_its_first_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Federation.create(tmp_path / "f", NAMES, insecure=True)
    write_rows(tmp_path / "rows.csv", 0)
    site = Site(tmp_path / "f" / "sites" / "north").configure(sum_table=tmp_path / "rows.csv")
    site.folder.prepare()
    monkeypatch.setattr(Started, "count", 0)
    monkeypatch.setattr(nodes, "Process", Started)
    monkeypatch.setattr(nodes.Node, "_is_server_there", lambda self: True)
    said: list[str] = []
    node = nodes.Node(site.folder, said.append)
    for _ in range(3):
        node.check()
    assert (Started.count, said) == (1, [])
    site.fit(read_table(tmp_path / "rows.csv", schema=SCHEMA), schema=SCHEMA)
    for _ in range(3):
        node.check()
    assert (Started.count, len(said)) == (2, 1)


# --- forgotten persons, encoders, addresses -----------------------------------------------------------------

OF_PERSONS = Schema((Field("who", "string", "person"), *SCHEMA.fields), rows_per_person=2, rows_about=300)


def seen_rows(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """How many rows are summed, and whether those of p3 are among them."""
    seen: list[tuple[int, bool]] = []
    vector = SchemaSum.vector

    def look(self: SchemaSum, table: Any) -> Any:
        seen.append((table.n_rows, "p3" in OF_PERSONS.persons(table)))
        return vector(self, table)

    monkeypatch.setattr(SchemaSum, "vector", look)
    return seen


def write_persons(path: Path) -> None:
    lines = [f"p{i},{i % 90},a,{'no' if i % 2 else 'yes'}" for i in range(60)]
    path.write_text("\n".join(["who,age,ward,ill", *lines]) + "\n")


def test_forgotten_persons_are_in_no_sum(
    net: Network, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_persons(net.tables["north"])
    folder = net.site("north").folder
    where = ("--folder", str(folder.root))
    assert main(["federate", "site", "forget", "--person", "p3", *where]) == 0
    said = capsys.readouterr().out
    assert "no model: nothing was fitted anew" in said
    assert "every message for an encrypted sum" in said
    assert main(["federate", "site", "status", *where]) == 0
    assert "forgotten: 1 person" in capsys.readouterr().out
    of_records = net.contract("records")
    net.approve(of_records, "north")
    assert asked(net, "north", summed=of_records) is FailureCode.NOT_READY
    assert not folder.ledger.exists()
    holders = tuple(key.public for key in net.keys.values())
    summed = SchemaSum("persons", SumParties(NAMES, holders, 2, 1, 1), OF_PERSONS, "moments", 2.0)
    net.approve(summed, "north")
    seen = seen_rows(monkeypatch)
    assert isinstance(asked(net, "north", summed=summed), SumParcel)
    assert seen == [(59, False)]


def test_address_of_a_table_for_sums_is_kept_whole_and_without_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Federation.create(tmp_path / "f", NAMES, insecure=True)
    site = Site(tmp_path / "f" / "sites" / "north")
    for address in ("postgresql://u:SECRET@h/db#t", "postgresql://u@h/db?password=SECRET#t"):
        words = ["federate", "site", "--folder", str(site.folder.root), "--sum-table", address]
        assert main([*words, "--fit-only", "--json"]) == 2
        said = capsys.readouterr()
        assert ".pgpass" in said.err
        assert "SECRET" not in said.out + said.err + site.folder.settings_file.read_text()
    site.configure(sum_table="postgresql://u@h/db?sslmode=require#t")
    assert site.settings.sum_table == "postgresql://u@h/db?sslmode=require#t"
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("a b.db") as base:
        base.execute("create table rows (age real)")
        base.execute("insert into rows values (4)")
    site.configure(sum_table="sqlite:///a b.db#rows")
    monkeypatch.chdir(tmp_path / "f")
    assert site.settings.sum_table is not None
    assert read_table(site.settings.sum_table).n_rows == 1


def test_encoders_of_the_table_for_sums_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Federation.create(tmp_path / "f", NAMES, insecure=True)
    site = Site(tmp_path / "f" / "sites" / "north")
    (tmp_path / "notes.onnx").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    site.configure(sum_encoders={"note": "notes.onnx"})
    assert site.settings.sum_encoders == {"note": str(tmp_path / "notes.onnx")}
    assert site.configure(total=5).settings.sum_encoders == {"note": str(tmp_path / "notes.onnx")}
