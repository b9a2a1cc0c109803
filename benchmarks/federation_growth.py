"""What growth costs a federation: more rows here and on a Dask cluster, a thousand sites in one process."""

import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import joblib
import numpy as np

from benchmarks.data import Sizes
from benchmarks.federation_world import BATCH, CLIENTS, FEATURES, embeddings, member
from benchmarks.timing import Row, best, peak_above
from onefold import FoldingClassifier
from onefold.datasets import partition
from onefold.federated import simulate

GROWTH = (1, 2, 4, 8)
CLUSTER_GROWTH = (1, 2, 4)
WORKERS = 2


def growth(sizes: Sizes) -> list[Row]:
    """Fitting time with more rows of the same kind, in units of so many times the smallest."""
    X, y = embeddings(GROWTH[-1] * sizes.small_rows)
    times = {f: best(lambda f=f: _fit(X, y, f * sizes.small_rows), 2) for f in GROWTH}
    return _rows("fitting time", times, sizes.small_rows)


def cluster_growth(sizes: Sizes) -> list[Row]:
    """The same on a Dask cluster of two processes on this machine, where the model must come out equal."""
    try:
        import distributed
    except ImportError:  # an extra of nobody: the benchmark goes on without it
        return []
    X, y = embeddings(CLUSTER_GROWTH[-1] * sizes.small_rows)
    here = {f: best(lambda f=f: _fit(X, y, f * sizes.small_rows), 1) for f in CLUSTER_GROWTH}
    digest = _fit(X, y, sizes.small_rows).digest()
    options: dict[str, Any] = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        equal = _fit(X, y, sizes.small_rows).digest() == digest  # and the workers have loaded everything
        times = {f: best(lambda f=f: _fit(X, y, f * sizes.small_rows), 2) for f in CLUSTER_GROWTH}
    rows = _rows(f"fitting time on a Dask cluster of {WORKERS} processes", times, sizes.small_rows)
    largest = CLUSTER_GROWTH[-1]
    return [
        *rows,
        Row("models fitted on the Dask cluster that equal those fitted here, bit for bit", equal, ">= 1"),
        Row(
            f"fitting time on the cluster / in threads of this process, {largest * sizes.small_rows} rows",
            times[largest] / here[largest],
            None,  # two workers on the two cores that the threads use: what is left is the cost of sending
            {"seconds": times[largest], "here_seconds": here[largest]},
        ),
    ]


def _fit(X: np.ndarray, y: np.ndarray, n_rows: int) -> Any:
    return member(X[:n_rows], y[:n_rows])


def _rows(what: str, times: dict[int, float], n_rows: int) -> list[Row]:
    return [
        Row(
            f"{what}, {factor} x {n_rows} rows / ({factor} x that of {n_rows})",
            seconds / (factor * times[1]),
            "<= 1.2",
            {"seconds": seconds, "rows": factor * n_rows, "seconds_of_one": times[1]},
        )
        for factor, seconds in times.items()
        if factor > 1
    ]


def memory(sizes: Sizes) -> list[Row]:
    """Peak memory of a thousand simulated sites, against one of them and one site with all rows."""
    n_clients, n_rows = 10 * CLIENTS, 4 * sizes.small_rows
    seconds, many = _in_new_process(simulation_peak, n_rows, n_clients, n_clients)
    _, one = _in_new_process(simulation_peak, n_rows, n_clients, 1)
    _, whole = _in_new_process(simulation_peak, n_rows, 1, 1)
    rows = 4 * n_rows * FEATURES
    what = f"peak memory of simulate(), the rows included, {n_clients} sites, {n_rows} rows"
    details = {"beyond_rows_mib": many / 2**20, "rows_mib": rows / 2**20, "seconds": seconds}

    def ratio(name: str, other: int, goal: str) -> Row:
        beyond = {"other_beyond_rows_mib": other / 2**20}
        return Row(f"{what} / {name}", (rows + many) / (rows + other), goal, {**details, **beyond})

    return [ratio("one of these sites", one, "<= 1.5"), ratio("one site with all rows", whole, "<= 1")]


def simulation_peak(n_rows: int, n_clients: int, n_used: int) -> tuple[float, int]:
    """Seconds and peak of resident memory beyond the rows; for a process that did nothing else before.

    The rows are divided among all sites in any case, and the first ``n_used`` of them are simulated.
    """
    warnings.filterwarnings("ignore", "The number of unique classes")  # many classes, few rows: meant so
    X, y = embeddings(n_rows)
    options: dict[str, Any] = {
        "method": "folding",
        "estimator": FoldingClassifier(batch_size=BATCH),
        "X_test": X[:200],
        "y_test": y[:200],
        "pooled": False,
        "random_state": 0,
    }
    simulate(X[:400], y[:400], 2, **options)  # what is loaded at first use

    def work() -> None:
        owners = partition(y, n_clients, "iid", random_state=0)[:n_used]
        simulate(X, y, len(owners), owners, **options)

    _, seconds, peak = peak_above(work)
    return seconds, peak


def _in_new_process(function: Callable[..., tuple[float, int]], *arguments: int) -> tuple[float, int]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()
