"""Independent pieces of work, each on one BLAS thread: in threads, or wherever joblib has its workers.

The last digits of a matrix product or a factorisation depend on the number of threads BLAS uses. Everything
run here therefore uses one, whatever the process is allowed: results do not change with ``n_jobs``, with the
number of cores, or with how many pieces of work there are. Cores are kept busy by several pieces at a time,
which is also faster than one multi-threaded call after another. A piece of work that runs alone passes the
cores it was given to the pieces it calls :func:`run_parallel` with.

Everything here releases the interpreter lock inside numpy and LAPACK. Work that :func:`run_spread` is given
goes to processes or a cluster where the caller has chosen such a backend of joblib::

    with joblib.parallel_config(backend="dask"):
        classifier.fit(X, y)

For Ray call ``ray.util.joblib.register_ray()`` first. Without such a choice it stays in threads of this
process, where nothing has to be copied.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import TypeVar, cast

import numpy as np
import scipy.linalg  # noqa: F401  # loaded before the libraries are listed: numpy and scipy bring a BLAS each
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from onefold._base.arrays import Array
from onefold._base.validation import Whole, check_parameter

Item = TypeVar("Item")
Result = TypeVar("Result")

DELAY_SECONDS = 2.0  # of work before a bar is shown


@cache
def _blas() -> ThreadpoolController:
    """Handle on the BLAS libraries of this process; looking for them takes longer than a small query."""
    return ThreadpoolController().select(user_api="blas")


@cache
def _openmp() -> ThreadpoolController:
    """Handle on the OpenMP libraries of this process; call it once scikit-learn's are loaded."""
    return ThreadpoolController().select(user_api="openmp")


# Of each BLAS by its file: how many contexts hold it to one thread, and how many threads it had before.
_held: dict[str, tuple[int, int]] = {}
_holding = threading.Lock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let every BLAS of the process work on one thread within this context.

    The number of threads belongs to the process. Of contexts that overlap in several threads of the caller,
    the first to enter sets it and the last to leave restores it.
    """
    libraries = _blas().lib_controllers
    with _holding:
        for library in libraries:
            holders, before = _held.get(library.filepath) or (0, library.num_threads)
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


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Let OpenMP use one thread for what the calling thread starts within this context.

    Threads of scikit-learn's k-means add their sums in the order in which they finish: with three or more,
    the same call twice can give other last digits.
    """
    with _openmp().limit(limits=1):
        yield


class _Workers(threading.local):
    """How many workers the piece of work in this thread may use; None outside of any."""

    granted: int | None = None


_workers = _Workers()


def _grant(count: int | None) -> None:
    """Let whatever runs in this thread from now on use so many workers."""
    _workers.granted = count


def worker_count(n_jobs: int | None) -> int:
    """Number of worker threads: ``None`` or -1 uses as many as BLAS may use now.

    Following the BLAS limit means that a caller who already runs several processes (a grid search, say)
    and has limited BLAS is not given more threads than asked for. Within a piece of work it is at most the
    share of that piece.
    """
    granted = _workers.granted
    if n_jobs is None or n_jobs == -1:
        return _blas_threads() if granted is None else granted
    check_parameter("n_jobs", n_jobs, Whole(1))
    return n_jobs if granted is None else min(n_jobs, granted)


def _blas_threads() -> int:
    """Threads of the BLAS with the most, not counting the limit that :func:`one_blas_thread` sets."""
    with _holding:
        counts = [
            _held[library.filepath][1] if library.filepath in _held else library.num_threads
            for library in _blas().lib_controllers
        ]
    return max(counts, default=1)


def run_parallel(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    n_jobs: int | None = None,
    description: str = "",
    show_progress: bool | None = False,
) -> list[Result]:
    """Apply ``function`` to every item on one BLAS thread, results in order; the first error is raised."""
    available, before = worker_count(n_jobs), _workers.granted
    workers = max(min(available, len(items)), 1)
    bar = partial(track, total=len(items), description=description, show=show_progress)
    if workers > 1:
        threads = ThreadPoolExecutor(workers, initializer=_grant, initargs=(available // workers,))
        with one_blas_thread(), threads:
            return list(bar(threads.map(function, items)))
    results = bar(map(function, items))
    with one_blas_thread():
        _grant(available)
        try:
            return list(results)
        finally:
            _grant(before)


def run_spread(
    function: Callable[[Array], Result],
    load: Callable[[Item], Array],
    items: Sequence[Item],
    n_jobs: int | None = None,
    description: str = "",
    show_progress: bool | None = False,
) -> list[Result]:
    """Apply ``function`` to ``load(item)`` for every item, results in order.

    Loading happens in this process and shortly before the work is handed out, so that a distant worker gets
    its own share of the data only; ``function`` should therefore refer to no data itself.
    """
    backend, _ = get_active_backend(prefer="threads")
    if len(items) < 2 or getattr(backend, "supports_sharedmem", False):
        return run_parallel(lambda item: function(load(item)), items, n_jobs, description, show_progress)
    tasks = (delayed(_alone)(function, load(item)) for item in items)
    return cast(list[Result], Parallel(n_jobs=n_jobs)(tasks))


def _alone(function: Callable[[Array], Result], data: Array) -> Result:
    """Do the work of one task in a process of its own as it would be done here, to the last bit.

    Data may arrive as a view of a network buffer, at an odd address: numpy then takes other routines for the
    same product, with other last digits. So the work is done on a copy.
    """
    return run_parallel(function, [np.array(data)], n_jobs=1)[0]


# --- progress bars that stay out of the way ----------------------------------------------------------------


def track(
    iterable: Iterable[Item], total: int | None = None, description: str = "", show: bool | None = None
) -> Iterable[Item]:
    """Return the items of ``iterable`` behind a progress bar on standard error.

    ``show=None`` shows the bar when standard error is a terminal and two seconds have passed;
    ``True`` shows it at once, ``False`` never.
    """
    wanted = sys.stderr.isatty() if show is None else show
    if not wanted:
        return iterable
    from tqdm import tqdm  # imported late: a library call without a bar does not pay for it

    delay = 0.0 if show else DELAY_SECONDS
    bar: Iterable[Item] = tqdm(
        iterable, total=total, desc=description, delay=delay, file=sys.stderr, leave=False
    )
    return bar
