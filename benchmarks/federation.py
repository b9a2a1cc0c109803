"""A federation in one round against gradient heads on the same features: bytes, seconds, growth, memory.

Bytes are those of real messages; the heads' are their parameters, without any wrapping. Once trained, a head
answers at no cost in bytes and in microseconds: what it pays for is training, and training again whenever a
client comes or must be forgotten.
"""

import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.data import Sizes
from benchmarks.timing import Row, best, peak_above
from experiments.operator.gradient_heads import Head, Training, train
from onefold import FoldingClassifier
from onefold.datasets import partition
from onefold.federated import GlobalClassifier, LocalModel, simulate
from onefold.federated.messages import Query, to_bytes

FEATURES, CLASSES, BATCH, CLIENTS = 512, 20, 100, 100
GROWTH = (1, 2, 4, 8)
IN_FLIGHT = (1, 10, 100)
HEADS = {
    "linear head": Training(rate=0.1, local_epochs=1, rounds=100),
    "hidden layer": Training(hidden=128, rate=0.1, local_epochs=5, rounds=100),
}


@dataclass(frozen=True)
class World:
    """Rows like embeddings, their owners, the members' models, and a server."""

    X: np.ndarray
    y: np.ndarray
    owners: list[np.ndarray]
    members: list[LocalModel]
    server: GlobalClassifier


def embeddings(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes with overlap, float32, entries of the size of scaled sentence embeddings."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, n_rows)
    centres = np.float32(0.25) * rng.standard_normal((CLASSES, FEATURES), dtype=np.float32)
    X = rng.standard_normal((n_rows, FEATURES), dtype=np.float32)
    X *= np.float32(0.45)
    for label, centre in enumerate(centres):
        X[y == label] += centre
    return X, y


def member(X: np.ndarray, y: np.ndarray) -> LocalModel:
    return LocalModel(FoldingClassifier(batch_size=BATCH), keep_rows=False).fit(X, y)


def world(sizes: Sizes) -> World:
    X, y = embeddings(sizes.small_rows)
    owners = partition(y, CLIENTS, "dirichlet", alpha=1.0, random_state=0)
    members = [member(X[rows], y[rows]) for rows in owners]
    server = GlobalClassifier(classes=np.arange(CLASSES))
    for number, model in enumerate(members):
        server.add(number, model)
    return World(X, y, owners, members, server)


def heads(found: World) -> dict[str, tuple[Head, Training]]:
    parts = [(found.X[rows], found.y[rows]) for rows in found.owners]
    return {name: (train(parts, CLASSES, training, 0), training) for name, training in HEADS.items()}


def bytes_sent(found: World, trained: dict[str, tuple[Head, Training]]) -> list[Row]:
    """What travels to join and to ask, once."""
    query = Query("q", found.X[:1])
    asked = len(to_bytes(query)) * CLIENTS
    answered = sum(len(to_bytes(model.answer(query, "site"))) for model in found.members)
    joining = sum(len(to_bytes(model.profile("site"))) for model in found.members)
    models = sum(map(_file_size, found.members))
    rows = []
    for name, (head, training) in trained.items():
        training_bytes = 2 * head.n_bytes * training.rounds * min(training.clients_per_round, CLIENTS)
        details = {"head_bytes": training_bytes, "rounds": training.rounds, "clients": CLIENTS}
        rows += [
            Row(
                f"bytes to join, {CLIENTS} clients: FedAvg, {name} / profiles (queries travel)",
                training_bytes / joining,
                ">= 100",
                {**details, "our_bytes": joining},
            ),
            Row(
                f"bytes to join, {CLIENTS} clients: FedAvg, {name} / models (models travel)",
                training_bytes / models,
                ">= 1",
                {**details, "our_bytes": models},
            ),
            Row(
                f"single queries to {CLIENTS} clients that send as much as FedAvg, {name}, in training",
                training_bytes / (asked + answered),
                ">= 100",
                {**details, "bytes_down": asked, "bytes_up": answered},
            ),
        ]
    return rows


def _file_size(model: LocalModel) -> int:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return sum(file.stat().st_size for file in Path(folder).iterdir())


def seconds_spent(sizes: Sizes, found: World, trained: dict[str, tuple[Head, Training]]) -> list[Row]:
    """Time for one more client to join, and for one query."""
    largest = max(found.owners, key=len)
    join = best(lambda: member(found.X[largest], found.y[largest]))
    queries = found.X[: sizes.queries]
    ask = best(lambda: found.server.predict(queries), 2) / len(queries)
    rows = []
    for name, (head, _) in trained.items():
        predict = best(lambda h=head: h.predict(queries)) / len(queries)
        rows += [
            Row(
                f"seconds for a client to join: FedAvg, {name}, trained again / the largest client fits",
                head.seconds / join,
                ">= 10",
                {"head_seconds": head.seconds, "seconds": join, "rows": len(largest)},
            ),
            Row(
                f"seconds per query, {len(queries)} at once, {CLIENTS} clients in one process: ours / {name}",
                ask / predict,
                "<= 1000",
                {"head_seconds": predict, "seconds": ask},
            ),
        ]
    return rows


def growth(sizes: Sizes) -> list[Row]:
    """Fitting time with more rows of the same kind, in units of so many times the smallest."""
    X, y = embeddings(GROWTH[-1] * sizes.small_rows)
    times = []
    for factor in GROWTH:
        part = slice(0, factor * sizes.small_rows)
        times.append(best(lambda p=part: member(X[p], y[p]), 2))
    return [
        Row(
            f"fitting time, {factor} x {sizes.small_rows} rows / ({factor} x that of {sizes.small_rows})",
            seconds / (factor * times[0]),
            "<= 1.2",
            {"seconds": seconds, "rows": factor * sizes.small_rows},
        )
        for factor, seconds in zip(GROWTH[1:], times[1:], strict=True)
    ]


def memory(sizes: Sizes) -> list[Row]:
    """A thousand owners simulated in one process, against one of them and against one owner of all rows."""
    n_clients, n_rows = 10 * CLIENTS, 4 * sizes.small_rows
    seconds, many = _in_new_process(simulation_peak, n_rows, n_rows, n_clients)
    _, one = _in_new_process(simulation_peak, n_rows, n_rows // n_clients, 1)
    _, whole = _in_new_process(simulation_peak, n_rows, n_rows, 1)
    details = {"peak_mib": many / 2**20, "rows_mib": 4 * n_rows * FEATURES / 2**20, "seconds": seconds}
    what = f"peak memory of simulate() beyond the rows, {n_clients} clients, {n_rows} rows"
    return [
        Row(f"{what} / one of these clients", many / one, "<= 1.5", {**details, "one_mib": one / 2**20}),
        Row(f"{what} / one client of all rows", many / whole, "<= 1", {**details, "one_mib": whole / 2**20}),
    ]


def simulation_peak(n_rows: int, n_used: int, n_clients: int) -> tuple[float, int]:
    """Seconds and peak of resident memory beyond the rows; for a process that did nothing else before."""
    warnings.filterwarnings("ignore", "The number of unique classes")  # many classes, few rows: meant so
    X, y = embeddings(n_rows)
    options: dict[str, Any] = {
        "estimator": FoldingClassifier(batch_size=BATCH),
        "X_test": X[:200],
        "y_test": y[:200],
        "pooled": False,
        "random_state": 0,
    }
    simulate(X[:400], y[:400], 2, **options)  # what is loaded at first use
    used, labels = X[:n_used], y[:n_used]
    _, seconds, peak = peak_above(lambda: simulate(used, labels, n_clients, **options))
    return seconds, max(peak, 2**20)  # nothing smaller can be told apart


def _in_new_process(function: Callable[..., tuple[float, int]], *arguments: int) -> tuple[float, int]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def latencies(ask: Callable[[np.ndarray], object], queries: np.ndarray, in_flight: int) -> dict[str, float]:
    """Milliseconds from asking to answer with so many queries under way at once, of any runtime's ``ask``."""

    def timed(row: np.ndarray) -> float:
        start = time.perf_counter()
        ask(row[None, :])
        return 1000.0 * (time.perf_counter() - start)

    with ThreadPoolExecutor(in_flight) as pool:
        start = time.perf_counter()
        taken = sorted(pool.map(timed, queries))
        whole = time.perf_counter() - start
    return {
        "median_ms": float(np.median(taken)),
        "p95_ms": float(np.quantile(taken, 0.95)),
        "queries_per_second": len(queries) / whole,
    }


def in_process_latency(sizes: Sizes, found: World) -> list[Row]:
    """Single queries to all clients in this process, 1, 10 and 100 at once."""
    queries = found.X[: max(sizes.queries // 10, IN_FLIGHT[-1])]
    found.server.predict(queries[:1])
    measured = {n: latencies(found.server.predict, queries, n) for n in IN_FLIGHT}
    alone = measured[1]["queries_per_second"]
    return [
        Row(
            f"latency in process, {CLIENTS} clients, {n} queries in flight: throughput / one at a time",
            measured[n]["queries_per_second"] / alone,
            ">= 0.8",
            {**measured[n], "alone_median_ms": measured[1]["median_ms"]},
        )
        for n in IN_FLIGHT[1:]
    ]


def rows(sizes: Sizes) -> list[Row]:
    """All of them."""
    found = world(sizes)
    trained = heads(found)
    return [
        *bytes_sent(found, trained),
        *seconds_spent(sizes, found, trained),
        *growth(sizes),
        *memory(sizes),
        *in_process_latency(sizes, found),
    ]
