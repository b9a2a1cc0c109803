"""Work on several ciphertexts at once, in processes: the binding of SEAL keeps the interpreter lock."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import TypeVar

__all__ = ["in_processes"]

R = TypeVar("R")

_work: Callable[[int], object] | None = None


def in_processes(work: Callable[[int], R], count: int, n_jobs: int) -> list[R]:
    """``work(0) ... work(count - 1)``, in up to ``n_jobs`` processes.

    They are forked, so that keys and sums, which are large, are shared and not copied. Where a system
    cannot fork, the work is done one after the other.
    """
    n_jobs = min(n_jobs, count)
    if n_jobs <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        return [work(index) for index in range(count)]
    context = multiprocessing.get_context("fork")
    with context.Pool(n_jobs, initializer=_begin, initargs=(work,)) as pool:
        return pool.map(_run, range(count), chunksize=1)  # type: ignore[arg-type]


def _begin(work: Callable[[int], object]) -> None:
    global _work
    _work = work


def _run(index: int) -> object:
    if _work is None:
        raise AssertionError("a worker begins before it runs")
    return _work(index)
