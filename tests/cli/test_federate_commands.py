"""The command's parts without a network: one clear line and the right exit code for whatever is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from onefold.cli.app import main
from onefold.federated.access.log import MembershipLog
from onefold.federated.flower.folders import ServerFolder, SiteFolder
from onefold.federated.flower.registry import Registry
from onefold.federated.flower.site_app import read_profile
from reference.site_files import model_file

pytest.importorskip("flwr")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new federation with two sites and some data, in the working folder."""
    monkeypatch.chdir(tmp_path)
    assert main(["federate", "init", "--sites", "north", "south", "--json"]) == 0
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    np.savez("rows.npz", X=rng.random((60, 3)) * 0.3 + 0.5 * y[:, None], y=y, one=np.zeros(60, int))
    return tmp_path


FIT = [
    "federate",
    "site",
    "--folder",
    "federation/sites/north",
    "--data",
    "rows.npz",
    "--label",
    "y",
    "--fit-only",
]

NOISE = ["--epsilon", "1", "--range", "0", "1"]
BAD = {
    "no part": ["federate"],
    "an unknown part": ["federate", "nothing"],
    "a federation twice": ["federate", "init", "--sites", "a"],
    "no sites": ["federate", "init", "other"],
    "a bad name": ["federate", "init", "other", "--sites", "a/b"],
    "a bad port": ["federate", "init", "other", "--sites", "a", "--port", "70000"],
    "plaintext on the network": ["federate", "init", "x", "--sites", "a", "--insecure", "--host", "10.0.0.1"],
    "no such server": ["federate", "server", "--folder", "nowhere"],
    "no such site": ["federate", "site", "--folder", "nowhere"],
    "data without a label": ["federate", "site", "--folder", "federation/sites/north", "--data", "rows.npz"],
    "an unknown label": [*FIT[:-2], "nothing", "--fit-only"],
    "epsilon without a range": [*FIT, "--epsilon", "1"],
    "epsilon of nothing": [*FIT, "--epsilon", "nan", "--range", "0", "1"],
    "a record without a range": [*FIT, "--epsilon", "1", "--unit", "record", "--sensitivity", "1"],
    "label noise alone": [*FIT, "--label-epsilon", "1"],
    "label noise on one class": [*FIT, *NOISE, "--label-epsilon", "1", "--classes", "0"],
    "label noise without classes": [*FIT, *NOISE, "--label-epsilon", "1"],
    "label noise on undeclared classes": [*FIT, *NOISE, "--label-epsilon", "1", "--classes", "98", "99"],
    "a folding measure without a scale": [*FIT, "--measure", "rms"],
    "both ways of sending": [*FIT, "--send-model", "--send-raw-model"],
    "no budget": [*FIT, "--total", "0"],
    "a query of nothing": ["federate", "query", "nowhere.npz"],
    "JSON and predictions on one stream": ["federate", "query", "rows.npz", "--json", "--out", "-"],
    "an unknown member": ["federate", "remove", "west"],
    "a site twice": ["federate", "add", "north", "federation/sites/south/node.pub"],
    "another's key": ["federate", "add", "west", "federation/sites/south/node.pub"],
    "no key": ["federate", "add", "west"],
    "a private key": ["federate", "add", "west", "federation/sites/south/node.key"],
    "a folder that is taken": ["federate", "add", "west", "--make", "federation/sites/south"],
    "a key that is not there": ["federate", "add", "west", "west.pub"],
    "one owner": ["federate", "simulate", "rows.npz", "--label", "y", "--sites", "1"],
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


def test_query_without_sites_and_site_without_model_exit_with_code_1(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["federate", "query", "rows.npz", "--label", "y", "--ignore", "one"]) == 1
    assert "no site has joined the federation yet" in capsys.readouterr().err
    assert main(["federate", "site", "--folder", "federation/sites/south"]) == 1
    assert "no model yet" in capsys.readouterr().err


def test_site_without_noise_prints_not_private(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--ignore", "one", "--send-model"]) == 0
    text = capsys.readouterr().out
    assert "NOT PRIVATE" in text
    assert "The model stays here: it has no guarantee that holds" in text
    assert "epsilon" not in text.replace("--epsilon", "")


@pytest.mark.parametrize("unit", ["entry", "record"])
def test_site_prints_its_guarantee_with_the_unit_and_what_is_not_covered(
    unit: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--ignore", "one", "--epsilon", "2", "--unit", unit, "--range", "-1", "2", "--send-model"]
    options += ["--method", "rows"]
    assert main([*FIT, *options]) == 0
    text = capsys.readouterr().out
    assert f"epsilon 2 per {unit}" in text
    assert "Labels and class sizes: NOT covered." in text
    assert "The model itself may go to the server." in text
    again = ["--ledger", "federation/sites/north/ledger.db", "--json"]
    assert main([*FIT, *options, *again]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["profile"]["guarantee"]["unit"] == unit
    assert told["model_may_leave"] is True


def test_second_fit_with_noise_must_name_a_ledger_and_keep_its_limit(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*FIT, "--ignore", "one", "--epsilon", "2", "--unit", "record", "--range", "-1", "2"]
    command += ["--method", "rows"]
    own = "federation/sites/north/ledger.db"
    assert main(["ledger", "new", own, "--epsilon", "5"]) == 0
    assert main(command) == 0
    site = SiteFolder(here / "federation/sites/north")
    model = model_file(site).read_bytes()
    capsys.readouterr()
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "this site has spent epsilon 2 per record replaced, delta 1e-05" in said
    assert "--ledger" in said
    assert model_file(site).read_bytes() == model
    assert main([*command, "--ledger", own]) == 0
    model = model_file(site).read_bytes()
    assert main([*command, "--ledger", own]) == 2
    assert "epsilon would be 6 per record, the limit is 5" in capsys.readouterr().err
    assert model_file(site).read_bytes() == model
    assert main([*FIT, "--ignore", "one"]) == 0  # raw rows spend nothing
    assert main([*FIT, "--ignore", "one", "--ledger", own]) == 2
    assert "--ledger needs --epsilon" in capsys.readouterr().err


def test_site_limits_are_kept_for_the_next_start(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = SiteFolder(here / "federation/sites/north")
    assert main([*FIT, "--ignore", "one", "--total", "7", "--per-minute", "3", "--send-raw-model"]) == 0
    assert (site.settings.total, site.settings.per_minute, site.settings.sends) == (7, 3, "raw-model")
    again = ["federate", "site", "--folder", str(site.root), "--fit-only", "--querier-total", "5"]
    assert main([*again, "--send-answers-only"]) == 0
    assert (site.settings.total, site.settings.caller_total, site.settings.sends) == (7, 5, "answers")


def test_private_key_that_others_can_read_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--ignore", "one"]) == 0
    (here / "federation/sites/north/node.key").chmod(0o644)
    (here / "federation/server/server.key").chmod(0o640)
    for part in (["site", "--folder", "federation/sites/north"], ["server"]):
        capsys.readouterr()
        assert main(["federate", *part]) == 2
        assert "others can read this key" in capsys.readouterr().err


def test_sites_are_added_and_removed_while_no_server_runs(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = Registry(ServerFolder(here / "federation/server"))
    assert main(["federate", "remove", "south", "--json"]) == 0
    assert registry.sites["south"].status == "removed"
    assert main(["federate", "add", "south", "federation/sites/south/node.pub"]) == 0
    assert registry.sites["south"].status == "invited"
    capsys.readouterr()
    assert main(["federate", "status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["running"] is False
    assert [site["status"] for site in told["sites"]] == ["invited", "invited"]


def test_add_make_writes_a_folder_for_a_new_site(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    registry = Registry(ServerFolder(here / "federation/server"))
    assert main(["federate", "add", "west", "--make", "west"]) == 0
    assert {path.name for path in (here / "west").iterdir()} == {
        "ca.crt",
        "node.key",
        "node.pub",
        "site.json",
    }
    assert SiteFolder(here / "west").settings.name == "west"
    assert main(["federate", "add", "east", "west/node.pub", "--make", "east"]) == 2  # another's key
    assert not (here / "east").exists()
    assert main(["federate", "remove", "west"]) == 0
    assert main(["federate", "add", "east", "west/node.pub", "--make", "east"]) == 0
    assert {path.name for path in (here / "east").iterdir()} == {"ca.crt", "site.json"}  # it has its key
    assert registry.sites["east"].status == "invited"


@pytest.mark.parametrize("columns", ["b,a", "a,c"])
def test_query_with_other_columns_is_refused(
    columns: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{i % 7},{i % 5},{'xy'[i % 2]}\n" for i in range(40))
    Path("rows.csv").write_text("a,b,y\n" + rows)
    Path("new.csv").write_text(columns + ",y\n" + rows)
    folder = ["--folder", "federation/sites/north"]
    assert main(["federate", "site", *folder, "--data", "rows.csv", "--label", "y", "--fit-only"]) == 0
    registry = Registry(ServerFolder(here / "federation/server"))
    registry.admit("north", read_profile(SiteFolder(here / "federation/sites/north")))
    capsys.readouterr()
    assert main(["federate", "query", "rows.csv", "--label", "y"]) == 1
    assert "the server is not running" in capsys.readouterr().err
    assert main(["federate", "query", "new.csv", "--label", "y"]) == 2
    assert "columns are not those of the sites, or in another order" in capsys.readouterr().err


def test_status_finds_an_edited_log(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    registry = Registry(ServerFolder(here / "federation/server"))
    for name in ("a", "b"):
        registry.log.append("join", name)
    with registry.store.transaction() as db:
        db.execute("""UPDATE log SET entry = replace(entry, '"a"', '"c"')""")
    assert main(["federate", "status"]) == 2
    assert "was edited" in capsys.readouterr().err


def test_simulate_compares_alone_federated_and_pooled(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--label", "y", "--ignore", "one", "--sites", "3", "--partition", "iid", "--json"]
    capsys.readouterr()
    assert main(["federate", "simulate", "rows.npz", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (len(told["alone"]), told["guarantee"]) == (3, None)
    assert told["federated"] > 0.9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.merge
def test_site_waiting_for_its_server_stops_on_a_signal(here: Path, number: int) -> None:
    assert main([*FIT, "--ignore", "one"]) == 0
    arguments = [sys.executable, "-m", "onefold", "federate", "site", "--folder", "federation/sites/north"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stdout is not None
    for line in process.stdout:
        if "waiting" in line:
            break
    time.sleep(1)
    process.send_signal(number)
    assert process.wait(60) == 0


def test_site_without_flower_names_the_extra_to_install(
    here: Path, block_import: object, capsys: pytest.CaptureFixture[str]
) -> None:
    block_import("flwr")  # type: ignore[operator]
    assert main([*FIT, "--ignore", "one"]) == 0  # fitting needs no network
    capsys.readouterr()
    assert main(["federate", "site", "--folder", "federation/sites/north"]) == 2
    assert "onefold[federated]" in capsys.readouterr().err


def test_status_tells_what_is_known_and_when_certificates_end(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["federate", "status"]) == 0
    said = capsys.readouterr().out
    assert said.count("never seen; 0 queries about 0 rows answered") == 2
    assert "the server's certificate ends on" in said
    assert "WARNING" not in said
    before = json.loads(_output(capsys, ["federate", "status", "--json"]))
    renewed = json.loads(_output(capsys, ["federate", "renew", "--authority", "--json"]))
    after = json.loads(_output(capsys, ["federate", "status", "--json"]))
    assert renewed["authority"] == after["authority"] >= before["authority"]
    assert renewed["certificate"] == after["certificate"]
    assert "to be handed to every site" in _output(capsys, ["federate", "renew", "--authority"])


def _output(capsys: pytest.CaptureFixture[str], words: list[str]) -> str:
    capsys.readouterr()
    assert main(words) == 0
    return capsys.readouterr().out


def test_backup_holds_what_was_noted_while_the_original_goes_on(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = Registry(ServerFolder(here / "federation/server"))
    with registry.store.transaction():
        registry.log.append("join", "a")
        assert main(["federate", "backup", "federation/server", "early.db"]) == 0
    assert main(["federate", "backup", "federation", "server.db"]) == 0
    assert "the store of" in capsys.readouterr().err
    assert [len(list(MembershipLog(here / name))) for name in ("early.db", "server.db")] == [0, 1]
    assert set(registry.sites) == {"north", "south"}
    assert main(["federate", "backup", "federation/sites/north", "site.db"]) == 0
    assert (here / "site.db").stat().st_mode & 0o077 == 0
    assert main(["federate", "backup", "federation/server", "server.db"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["federate", "backup", "nowhere", "x.db"]) == 2
    assert "no federation in nowhere" in capsys.readouterr().err
