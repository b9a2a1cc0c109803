"""A real server under load, on a disk that fills up, and with a run that is stopped or killed."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr")

from onefold.exceptions import FederationError, ServerBusyError
from onefold.federated.flower import Federation
from onefold.federated.flower.processes import free_port

pytestmark = pytest.mark.nightly

QUEUE = 4
RESTARTS = "onefold_run_restarts_total"
ROOM = 64 * 2**20


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, make_federation: Any, port: int) -> Iterator[Any]:
    """A server whose state is on a disk of its own, if we may mount one, and one site."""
    made = make_federation(tmp_path_factory.mktemp("small") / "f")
    state = made.server.state
    shutil.move(state, state.with_name("before"))
    state.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOM},mode=700", "tmpfs", str(state)]
    made.is_mounted = False
    with suppress(OSError, subprocess.CalledProcessError):
        subprocess.run(mount, check=True, capture_output=True)
        made.is_mounted = True
    shutil.copytree(state.with_name("before"), state, dirs_exist_ok=True)
    try:
        made.start("server", "--queue", QUEUE, "--metrics", port)
        made.start("north", "--data", made.root / "north.npz", "--label", "y", "--per-minute", 10**6)
        made.wait_for_members("north")
        yield made
    finally:
        made.close()
        if made.is_mounted:
            subprocess.run(["umount", str(state)], check=True)


def number(port: int, name: str) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float("nan") if found is None else float(found[1])


def run_of(small: Any) -> int:
    sign = small.spool.life()
    assert sign is not None
    assert sign.pid is not None
    return int(sign.pid)


def test_more_queries_than_may_wait_are_answered_or_told_to_come_again(small: Any, port: int) -> None:
    federation, rows = Federation(small.server.root), small.X_test[:5]
    federation.query(rows, timeout=300)
    run = run_of(small)

    def ask(_: int) -> str:
        try:
            return "partial" if federation.query(rows, timeout=300).partial else "answered"
        except ServerBusyError as error:
            return "busy" if 0 < error.seconds <= 300 else str(error.seconds)

    with ThreadPoolExecutor(40) as pool:
        found = list(pool.map(ask, range(40)))
    assert set(found) == {"answered", "busy"}
    assert number(port, "onefold_busy_refusals_total") == found.count("busy")
    assert number(port, 'onefold_queries_total{outcome="answered"}') >= 1
    assert run_of(small) == run
    assert small.spool.waiting() == (0, 0)


def test_full_disk_is_waited_out(small: Any, port: int, wait_for: Any) -> None:
    if not small.is_mounted:
        pytest.skip("a small disk can be mounted by root only")
    run, fill = run_of(small), small.server.state / "fill"
    restarts = number(port, RESTARTS)
    with suppress(OSError), fill.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(2**16))
    with suppress(OSError), fill.open("ab", buffering=0) as file:
        while True:
            file.write(b"x")
    try:
        wait_for(lambda: number(port, "onefold_disk_full") == 1, "the server to notice")
        wait_for(lambda: "the disk is full" in small.output("server"), "the server to say so")
        refused = small.run("query", small.test_file, "--label", "y")
        assert refused.returncode == 1
        assert "the disk of the server is full: nothing is asked until there is room" in refused.stderr
        small.run("remove", "west")  # the list cannot be written: it stays as it is
        assert small.registry.sites["west"].status.value == "invited"
    finally:
        fill.unlink()
    wait_for(lambda: number(port, "onefold_disk_full") == 0, "the server to go on")
    told = small.query()
    assert told["code"] == 0, told
    assert told["answered"] == ["north"]
    assert run_of(small) == run  # neither the run nor the server was started again
    assert number(port, RESTARTS) == restarts
    assert small.running["server"].poll() is None
    assert small.output("server").count("the disk is full") == 1


def test_run_that_is_held_up_is_not_replaced_and_the_query_is_answered(
    small: Any, port: int, wait_for: Any
) -> None:
    run, restarts = run_of(small), number(port, RESTARTS)
    os.kill(run, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(Federation(small.server.root).query, small.X_test, timeout=300)
            wait_for(small.spool.question.exists, "the watchdog to ask")
            assert not small.spool.life().is_fresh
            assert Federation(small.server.root).is_running
            os.kill(run, signal.SIGCONT)
            assert asked.result().answered == ("north",)
    finally:
        with suppress(ProcessLookupError):
            os.kill(run, signal.SIGCONT)
    assert run_of(small) == run
    assert number(port, RESTARTS) == restarts


def test_run_that_was_killed_is_replaced_with_the_reason_and_the_query_is_told(
    small: Any, port: int, wait_for: Any
) -> None:
    run, restarts = run_of(small), number(port, RESTARTS)
    with ThreadPoolExecutor(1) as pool:
        os.kill(run, signal.SIGSTOP)
        asked = pool.submit(Federation(small.server.root).query, small.X_test, timeout=300)
        wait_for(lambda: small.spool.waiting()[0] == 1, "a query to wait")
        (request,) = (small.spool.root / "requests").iterdir()
        request.rename(request.with_suffix(".taken"))  # as if the run had just taken it
        os.kill(run, signal.SIGKILL)
        with pytest.raises(FederationError, match="started again while it carried this query"):
            asked.result()
    wait_for(lambda: number(port, RESTARTS) == restarts + 1, "the run to be counted")
    log = Path(small.server.run_log).read_text()
    assert "the run at the server is started again: its process has ended" in log
    wait_for(lambda: "north" in small.online(), "north to be back")
    assert small.query("--timeout", 300)["code"] == 0
