"""A federation of real processes on this machine: Flower's SuperLink, three SuperNodes, TLS and node keys.

What is measured is what a user of ``onefold federate query`` waits for: the run at the server takes queries
in, the sites' processes answer, the numbers come back. Queries that wait at the same time travel together.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.federation_latency import IN_FLIGHT, latencies
from benchmarks.federation_world import Heads, embeddings
from benchmarks.timing import Row
from onefold.exceptions import OnefoldError
from onefold.federated.messages import Query

SITES = ("north", "south", "west")
ROWS = 600  # of each site: about as many as the largest of the hundred sites in the world has
PATIENCE = 300.0
# Single rows asked about, with so many under way at once: a query takes about two seconds.
QUESTIONS = {1: 6, 10: 30, 100: 200}


def rows(quick: bool, trained: Heads) -> list[Row]:
    """Seconds to join and latency of single queries; nothing where Flower is not installed."""
    try:
        import flwr  # noqa: F401
    except ImportError:
        print(
            "federation: no Flower here (extra federated): latency over the network left out", file=sys.stderr
        )
        return []
    with TemporaryDirectory() as folder:
        root = Path(folder) / "federation"
        _write_tables(Path(folder))
        with _running(root, Path(folder)) as (joined, ask):
            X, _ = embeddings(QUESTIONS[100])
            ask(X[:1])  # the sites have answered once
            measured = {n: latencies(ask, X[: max(n, 2) if quick else QUESTIONS[n]], n) for n in IN_FLIGHT}
    alone = measured[1]["queries_per_second"]
    found = [
        Row(
            f"latency over Flower, 3 sites, TLS, {n} queries in flight: throughput / one at a time",
            measured[n]["queries_per_second"] / alone,
            None,  # the number asked for is the latency, in the details: nobody has set a limit
            measured[n],
        )
        for n in IN_FLIGHT
    ]
    for name, (head, _) in trained.items():
        found.append(
            Row(
                f"seconds for a site to join: FedAvg, {name}, trained again / a new site over Flower",
                head.seconds / joined,
                None,  # starting processes and shaking hands is what takes time, whatever the model
                {"head_seconds": head.seconds, "seconds": joined, "rows": ROWS},
            )
        )
    return found


def _write_tables(folder: Path) -> None:
    X, y = embeddings(len(SITES) * ROWS)
    for number, name in enumerate(SITES):
        mine = slice(number * ROWS, (number + 1) * ROWS)
        np.savez(folder / f"{name}.npz", X=X[mine], y=y[mine])


@contextmanager
def _running(root: Path, data: Path) -> Iterator[tuple[float, Callable[[np.ndarray], object]]]:
    """Seconds that a site took to join, and how to ask."""
    from onefold.federated.flower.asking import ask_members, new_query_id
    from onefold.federated.flower.folders import ServerFolder, ServerSettings
    from onefold.federated.flower.processes import free_port
    from onefold.federated.flower.registry import Registry
    from onefold.federated.flower.setup import create_federation
    from onefold.federated.flower.spool import Spool

    folder: ServerFolder = create_federation(root, SITES, ServerSettings("127.0.0.1", free_port()))
    processes: list[subprocess.Popen[bytes]] = []

    def members() -> set[str]:
        return set(Registry(folder).members) & set(Spool(folder.spool).status() or ())

    def ask(queries: np.ndarray) -> object:
        (gathered,) = ask_members(folder, [Query(new_query_id(), queries)], "benchmark", PATIENCE)
        if len(gathered.messages) != len(SITES):
            raise OnefoldError("a site did not answer")
        return gathered

    try:
        processes.append(_start("server", "--folder", str(folder.root)))
        _wait(lambda: Spool(folder.spool).status() is not None)
        for name in SITES[:-1]:
            processes.append(_start_site(root, data, name))
        _wait(lambda: members() >= set(SITES[:-1]))
        start = time.perf_counter()
        processes.append(_start_site(root, data, SITES[-1]))
        _wait(lambda: members() == set(SITES))
        yield time.perf_counter() - start, ask
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(PATIENCE)


def _start_site(root: Path, data: Path, name: str) -> "subprocess.Popen[bytes]":
    table = ("--data", str(data / f"{name}.npz"), "--label", "y", "--per-minute", "1000000")
    model = ("--model", "folding", "--scale", "1")
    return _start("site", "--folder", str(root / "sites" / name), *table, *model)


def _start(*arguments: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "onefold", "federate", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise OnefoldError("the federation did not start in time")
        time.sleep(0.1)
