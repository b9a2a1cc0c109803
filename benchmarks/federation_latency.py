"""Milliseconds from asking to answer, with some queries under way at once."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.federation_world import CLIENTS, World
from benchmarks.timing import Row

IN_FLIGHT = (1, 10, 100)
# Single rows asked about, with so many under way at once: each asks all sites, about two thousand machines.
QUESTIONS = {1: 20, 10: 40, 100: 100}


def latencies(ask: Callable[[np.ndarray], object], queries: np.ndarray, in_flight: int) -> dict[str, float]:
    """Of single queries to anything that can be asked, so many under way at once."""

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
        "queries": len(queries),
    }


def in_process(found: World) -> list[Row]:
    """Single queries to all sites in this process; one BLAS thread each, or threads would fight."""
    with threadpool_limits(1, user_api="blas"):
        found.server.predict(found.X[:1])
        measured = {n: latencies(found.server.predict, found.X[: QUESTIONS[n]], n) for n in IN_FLIGHT}
    alone = measured[1]["queries_per_second"]
    return [
        Row(
            f"latency in process, {CLIENTS} sites, {n} queries in flight: throughput / one at a time",
            measured[n]["queries_per_second"] / alone,
            None,  # products of single rows are short: what threads wait for is each other
            measured[n],
        )
        for n in IN_FLIGHT
    ]
