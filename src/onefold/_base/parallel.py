"""Threads over independent pieces of work, with one BLAS thread each.

Many medium-sized factorisations run faster side by side on single-threaded BLAS than one after the
other on a multi-threaded one. Everything here releases the interpreter lock inside numpy and LAPACK.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_info, threadpool_limits

from onefold._base.progress import track
from onefold._base.validation import check_whole_number

__all__ = ["run_parallel", "worker_count"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def worker_count(n_jobs: int | None) -> int:
    """Number of worker threads: ``None`` uses as many as BLAS may use now, -1 all cores.

    Following the BLAS limit means that a caller who already runs several processes (a grid search, say)
    and has limited BLAS is not given more threads than asked for.
    """
    if n_jobs is None or n_jobs == -1:
        limits = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        return max(limits, default=1)
    check_whole_number("n_jobs", n_jobs)
    return n_jobs


def run_parallel(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    n_jobs: int | None = None,
    description: str = "",
    show_progress: bool | None = False,
) -> list[Result]:
    """Apply ``function`` to every item, results in order; the first error is raised."""

    def bar(results: Iterable[Result]) -> list[Result]:
        return list(track(results, len(items), description, show_progress))

    workers = min(worker_count(n_jobs), len(items))
    if workers <= 1:
        return bar(map(function, items))
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(workers) as executor:
        return bar(executor.map(function, items))
