"""Threads over independent pieces of work, with one BLAS thread each.

Many medium-sized factorisations run faster side by side on single-threaded BLAS than one after the
other on a multi-threaded one. Everything here releases the interpreter lock inside numpy and LAPACK.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np  # noqa: F401  # loaded before the libraries are listed: numpy and scipy bring a BLAS each
import scipy.linalg  # noqa: F401
from threadpoolctl import ThreadpoolController

from onefold._base.progress import track
from onefold._base.validation import check_whole_number

__all__ = ["one_blas_thread", "one_numpy_thread", "run_parallel", "worker_count"]

Item = TypeVar("Item")
Result = TypeVar("Result")


@cache
def _blas() -> ThreadpoolController:
    """Handle on the BLAS libraries of this process; looking for them takes longer than a small query."""
    return ThreadpoolController().select(user_api="blas")


def one_blas_thread() -> AbstractContextManager[None]:
    """Within this context every BLAS of the process works on one thread."""
    return _one_thread(_blas().lib_controllers)


def one_numpy_thread() -> AbstractContextManager[None]:
    """Within this context numpy's own BLAS works on one thread, scipy's on as many as before.

    Each of the two keeps its threads waiting for more work for a while, so calls to them in turn have more
    threads than there are cores: large factorisations by scipy with small products between them took half
    as long again.
    """
    return _one_thread(
        [library for library in _blas().lib_controllers if "numpy" in Path(library.filepath).parent.name]
    )


# Of each library by its file: how many contexts hold it to one thread, and how many threads it had before.
_held: dict[str, tuple[int, int]] = {}
_holding = Lock()


@contextmanager
def _one_thread(libraries: Sequence[Any]) -> Iterator[None]:
    """The number of threads belongs to the process: of contexts that overlap in several threads of the

    caller, the first to come sets it and the last to go puts back what was.
    """
    with _holding:
        for library in libraries:
            holders, before = _held.get(library.filepath, (0, library.num_threads))
            _held[library.filepath] = (holders + 1, before)
            if not holders:
                library.set_num_threads(1)
    try:
        yield
    finally:
        with _holding:
            for library in libraries:
                holders, before = _held.pop(library.filepath)
                if holders > 1:
                    _held[library.filepath] = (holders - 1, before)
                else:
                    library.set_num_threads(before)


def worker_count(n_jobs: int | None) -> int:
    """Number of worker threads: ``None`` uses as many as BLAS may use now, -1 all cores.

    Following the BLAS limit means that a caller who already runs several processes (a grid search, say)
    and has limited BLAS is not given more threads than asked for.
    """
    if n_jobs is None or n_jobs == -1:
        return max((library.num_threads for library in _blas().lib_controllers), default=1)
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
    with one_blas_thread(), ThreadPoolExecutor(workers) as executor:
        return bar(executor.map(function, items))
