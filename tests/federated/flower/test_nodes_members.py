"""Sites and servers that die, leave, come back and are sent away, with real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.federated.flower.asking import new_query_id
from onefold.federated.flower.folders import QUEUE
from onefold.federated.flower.spool import Request
from onefold.federated.messages import Query

pytestmark = pytest.mark.nightly

NAMES = ("north", "south", "west")


def same(federation: Any, told: dict[str, Any], *names: str) -> bool:
    """Whether the predictions are those of a federation of these sites in one process."""
    return told["labels"] == federation.expected(*names).predict(federation.X_test).tolist()


@pytest.fixture(autouse=True)
def _whole(federation: Any) -> None:
    """Bring everybody back whom an earlier test stopped, killed or removed."""
    for name in ("server", *NAMES):
        if name in federation.running and federation.running[name].poll() is not None:
            del federation.running[name]
        if name != "server" and federation.registry.sites[name].status == "removed":
            assert federation.run("add", name, federation.site(name).public_key).returncode == 0
        if name not in federation.running:
            federation.start(name)
    federation.wait_for_members(*NAMES)


def supernodes(federation: Any, name: str, below: Any) -> list[int]:
    return [pid for pid, line in below(federation.site(name).root).items() if " flower-supernode " in line]


def wait_for_a_query(federation: Any, wait_for: Any) -> None:
    """Until the run has taken a query and has had time to send it."""
    requests = federation.server.spool / "requests"
    wait_for(lambda: any(requests.glob("*.taken")), "a query on its way")
    time.sleep(8)


def test_a_thousand_single_queries_are_all_answered(federation: Any, wait_for: Any) -> None:
    rows = np.resize(federation.X_test, (1000, 3))
    queries = [Query(new_query_id(), row[None, :]) for row in rows]
    spool = federation.spool
    for query in queries:
        wait_for(lambda: spool.waiting()[0] < QUEUE, "room in the queue")  # more at once are refused
        spool.submit(Request(query, "thousand", 300.0))
    replies = [spool.wait(query.id, 600) for query in queries]
    assert all(len(reply.messages) == 3 for reply in replies)
    for name in NAMES:
        found = [next(m.values for m in reply.messages if m.site == name) for reply in replies]
        # One row at a time here as well: the shape of a product may change its last bit.
        here = np.concatenate([federation.models[name].answers(row[None, :]) for row in rows])
        np.testing.assert_array_equal(np.concatenate(found), here)


def test_a_thousand_rows_in_one_query_are_all_answered(federation: Any, tmp_path: Path) -> None:
    rows = np.resize(federation.X_test, (1000, 3))
    np.savez(tmp_path / "rows.npz", X=rows)
    done = federation.run("query", tmp_path / "rows.npz", "--out", tmp_path / "out.npz", "--measures")
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["measures"], federation.expected(*NAMES).measures(rows))


def test_query_in_several_batches_gives_the_same_result(federation: Any) -> None:
    assert same(federation, federation.query("--batch", 40), *NAMES)


def test_query_with_other_features_exits_with_code_2(federation: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=np.ones((2, 4)))
    done = federation.run("query", tmp_path / "rows.npz")
    assert done.returncode == 2
    assert "4 feature(s), those of the sites have 3" in done.stderr


def test_site_with_a_spent_budget_refuses_every_later_query(federation: Any) -> None:
    limit = ("site", "--folder", federation.site("north").root, "--fit-only", "--json", "--querier-total")
    assert federation.run(*limit, 200, folder=False).returncode == 0
    first = federation.query("--querier", "greedy")
    second = federation.query("--querier", "greedy")
    other = federation.query("--querier", "modest")
    assert federation.run(*limit, 1_000_000, folder=False).returncode == 0  # for the tests that follow
    assert not first["partial"]
    assert (second["partial"], second["code"]) == (True, 3)
    assert second["refused"] == {"north": "budget-spent"}
    assert same(federation, second, "south", "west")
    assert not other["partial"]
    log = federation.site("north").log.read_text()
    # Queriers that sign are counted by their keys, not by the names that the server hands on.
    (refused,) = set(re.findall(r"refused caller=(\S+) rows=150 code=budget-spent", log))
    assert len(set(re.findall(r"admitted caller=(\S+) rows=150", log)) - {refused, "all-callers"}) >= 1


def test_site_killed_during_a_query_is_named_and_returns_with_the_model_it_had(
    federation: Any, processes_below: Any, wait_for: Any
) -> None:
    n_times = federation.output("west").count("connected; waiting")
    (pid,) = supernodes(federation, "west", processes_below)
    os.kill(pid, signal.SIGSTOP)  # it has not fetched the query yet when it dies
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(federation.query, "--timeout", 90)
        wait_for_a_query(federation, wait_for)
        federation.running.pop("west").kill()
        for number in processes_below(federation.site("west").root):
            os.kill(number, signal.SIGKILL)
        told = asked.result()
    assert (told["partial"], told["code"], told["missing"]) == (True, 3, ["west"])
    assert "PARTIAL: without west (no answer)" in told["stderr"]
    assert same(federation, told, "north", "south")

    federation.start("west")
    wait_for(
        lambda: federation.output("west").count("connected; waiting") == n_times + 1,
        "west to be let in again",
    )
    wait_for(lambda: "west" in federation.online(), "west online")
    assert same(federation, federation.query("--timeout", 300), *NAMES)


def test_site_that_loses_its_connection_is_asked_again(
    federation: Any, processes_below: Any, wait_for: Any
) -> None:
    (pid,) = supernodes(federation, "south", processes_below)
    os.kill(pid, signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(federation.query, "--timeout", 400)
        wait_for_a_query(federation, wait_for)
        os.kill(pid, signal.SIGKILL)  # the command of the site starts it again
        told = asked.result()
    assert told["answered"] == list(NAMES)
    assert same(federation, told, *NAMES)


def test_stopped_site_is_missing_without_waiting(
    federation: Any, wait_for: Any, processes_below: Any
) -> None:
    assert federation.stop("west") == 0
    assert not processes_below(federation.site("west").root)
    wait_for(lambda: "west" not in federation.online(), "west offline")
    told = federation.query("--timeout", 300)
    assert (told["missing"], told["partial"]) == (["west"], True)
    assert same(federation, told, "north", "south")


def test_removed_site_changes_no_answer_until_it_is_added_again(federation: Any) -> None:
    assert federation.run("remove", "west").returncode == 0
    told = federation.query()
    assert (told["partial"], told["code"], told["answered"]) == (False, 0, ["north", "south"])
    assert same(federation, told, "north", "south")
    assert federation.running["west"].wait(300) == 1  # it was told while it was connected
    federation.start("west", "--give-up", 10)
    assert federation.running["west"].wait(300) == 1
    assert federation.output("west").count("keeps this site out: removed") == 2
    del federation.running["west"]
    assert set(federation.registry.members) == {"north", "south"}
    assert federation.run("remove", "west").returncode == 2

    key = federation.site("west").public_key
    assert federation.run("add", "west", key).returncode == 0
    federation.start("west")
    federation.wait_for_members(*NAMES)
    assert same(federation, federation.query("--timeout", 300), *NAMES)
    events = [(entry.event.value, entry.site) for entry in federation.registry.log]
    assert events[-2:] == [("leave", "west"), ("re-join", "west")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_restarted_server_knows_its_sites(
    federation: Any, number: int, wait_for: Any, processes_below: Any
) -> None:
    before = federation.registry.members
    code = federation.stop("server", number)
    assert code == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    wait_for(lambda: not processes_below(federation.server.root), "the server's processes to end")
    done = federation.run("query", federation.test_file, "--label", "y", "--out", "-")
    assert done.returncode == 1
    assert "the server is not running" in done.stderr
    assert set(federation.registry.members) == set(NAMES)
    entries = federation.registry.log.verify()
    federation.start("server")
    federation.wait_for_members(*NAMES)
    assert federation.registry.log.verify() == entries  # nobody left or joined
    after = federation.registry.members
    digests = [{name: site.profile.model_digest for name, site in then.items()} for then in (before, after)]
    assert digests[0] == digests[1]
    assert same(federation, federation.query("--timeout", 300), *NAMES)


def test_run_that_died_is_started_again(federation: Any, wait_for: Any, processes_below: Any) -> None:
    def runs() -> list[int]:
        lines = processes_below(federation.server.root).items()
        return [pid for pid, line in lines if "flwr-serverapp" in line]

    (old,) = runs()
    os.kill(old, signal.SIGKILL)
    wait_for(lambda: runs() and old not in runs(), "another run")
    federation.wait_for_members(*NAMES)
    assert same(federation, federation.query("--timeout", 300), *NAMES)


def test_second_server_on_the_same_port_exits_with_code_1(federation: Any) -> None:
    done = federation.run("server")
    assert done.returncode == 1
    assert "in use already" in done.stderr


def test_state_on_disk_is_readable_by_its_owner_only(federation: Any) -> None:
    for root in (federation.server.root, *(federation.site(name).root for name in NAMES)):
        assert root.stat().st_mode & 0o077 == 0
        for path in root.rglob("*"):
            if path.is_file() and path.suffix in (".key", ".json", ".onefold"):
                assert path.stat().st_mode & 0o077 == 0 or path.parent.stat().st_mode & 0o077 == 0, path


def test_logs_of_flower_hold_no_row(federation: Any) -> None:
    """What Flower prints is about messages, not about what is in them."""
    text = federation.server.process_log.read_text(errors="replace")
    text += "".join(federation.site(name).process_log.read_text(errors="replace") for name in NAMES)
    assert "[Fleet.PushMessages]" in text
    with np.load(federation.root / "north.npz") as rows:
        numbers = {f"{value:.6f}" for value in rows["X"].ravel()}
    assert not any(number in text for number in numbers)


def test_telemetry_downloads_and_updates_are_off(federation: Any, processes_below: Any) -> None:
    found = processes_below(federation.root)
    assert len(found) >= 9
    for pid in found:
        try:
            variables = dict(
                line.partition(b"=")[::2] for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            )
        except OSError:
            continue
        assert variables[b"FLWR_TELEMETRY_ENABLED"] == b"0"
        assert variables[b"FLWR_DISABLE_UPDATE_CHECK"] == b"1"
        assert variables[b"FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == b"1"
    assert not any("uv sync" in line or "--allow-runtime" in line for line in found.values())


def test_no_superlink_is_left_running(processes_below: Any) -> None:
    """Flower's command leaves a detached SuperLink behind when it is given a local address: ours is not."""
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in lines.splitlines() if "flower-superlink" in line and "launch.py" not in line]
