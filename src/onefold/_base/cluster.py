"""Independent pieces of work on whatever joblib backend the caller has chosen: threads, processes, Dask, Ray.

    with joblib.parallel_config(backend="dask"):
        classifier.fit(X, y)

For Ray call ``ray.util.joblib.register_ray()`` first. Without such a choice work stays in threads of this
process, where nothing has to be copied.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

from onefold._base.arrays import Array
from onefold._base.parallel import one_blas_thread, run_parallel, using_workers

__all__ = ["run_spread"]

Item = TypeVar("Item")
Result = TypeVar("Result")


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
    if len(items) < 2 or not _elsewhere():
        return run_parallel(lambda item: function(load(item)), items, n_jobs, description, show_progress)
    tasks = (delayed(_alone)(function, load(item)) for item in items)
    return cast(list[Result], Parallel(n_jobs=n_jobs)(tasks))


def _elsewhere() -> bool:
    """Whether a backend is active whose workers do not share this process's memory."""
    backend, _ = get_active_backend(prefer="threads")
    return not getattr(backend, "supports_sharedmem", False)


def _alone(function: Callable[[Array], Result], data: Array) -> Result:
    """Do the work of one task on one BLAS thread, as in this process, so that the last bits are the same.

    Data may arrive as a view of a network buffer, at an odd address: numpy then takes other routines for the
    same product, with other last digits. So the work is done on a copy.
    """
    with one_blas_thread(), using_workers(1):
        return function(np.array(data))
