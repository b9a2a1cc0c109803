"""Threads: order, errors, and BLAS limited while they run."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from onefold._base.optional import require
from onefold._base.parallel import one_blas_thread, run_parallel, track, worker_count
from onefold.exceptions import MissingDependencyError


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_results_come_in_order():
    barrier = threading.Barrier(2)

    def slow_first(item):
        if item < 2:
            barrier.wait(timeout=10)  # passes only when two threads really run
        return item * item

    assert run_parallel(slow_first, list(range(20)), n_jobs=2) == [i * i for i in range(20)]


def test_one_blas_thread_inside_and_the_old_number_after():
    with threadpool_limits(2, user_api="blas"):
        inside = run_parallel(lambda _: blas_threads(), [0, 1, 2], n_jobs=2)
        assert blas_threads() == {2}
    assert inside == [{1}, {1}, {1}]


def test_the_first_error_is_raised_and_blas_restored():
    def fail(item):
        raise RuntimeError("worker")

    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(RuntimeError, match="worker"):
            run_parallel(fail, [0, 1], n_jobs=2)
        assert blas_threads() == {2}


def test_contexts_that_overlap_leave_the_old_number():
    """Two fits at once: the one that came first goes first, and must not be undone by the other."""
    with threadpool_limits(2, user_api="blas"):
        early, late = one_blas_thread(), one_blas_thread()
        early.__enter__()
        late.__enter__()
        early.__exit__(None, None, None)
        assert blas_threads() == {1}  # still held
        late.__exit__(None, None, None)
        assert blas_threads() == {2}


def test_a_single_piece_of_work_uses_one_blas_thread_too():
    with threadpool_limits(2, user_api="blas"):
        assert run_parallel(lambda _: blas_threads(), [0]) == [{1}]
        assert run_parallel(lambda _: blas_threads(), [0, 1], n_jobs=1) == [{1}, {1}]


@pytest.mark.parametrize(("n_items", "expected"), [(1, 4), (2, 2), (3, 1), (9, 1)])
def test_pieces_of_work_share_the_workers(n_items, expected):
    found = run_parallel(lambda _: (worker_count(None), worker_count(8)), list(range(n_items)), n_jobs=4)
    assert found == [(expected, expected)] * n_items


def test_the_limit_of_another_thread_does_not_change_the_number_of_workers():
    with threadpool_limits(2, user_api="blas"), one_blas_thread():
        assert worker_count(None) == 2


def test_default_number_of_workers_follows_the_blas_limit():
    for limit in (1, 2):
        with threadpool_limits(limit, user_api="blas"):
            assert worker_count(None) == limit
            assert worker_count(-1) == limit


@pytest.mark.parametrize("bad", [0, -2, 1.5, "two", True])
def test_invalid_numbers_of_jobs_are_refused(bad):
    with pytest.raises(ValueError, match="n_jobs"):
        worker_count(bad)


def test_numpy_integers_are_accepted_as_n_jobs():
    assert worker_count(np.int64(3)) == 3


# --- bars, and optional packages ----------------------------------------------------------------------------


@pytest.mark.parametrize("show", [None, True, False])
def test_items_pass_unchanged(show, capsys):
    assert list(track(range(5), 5, "counting", show)) == [0, 1, 2, 3, 4]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("counting" in captured.err) == (show is True)


def test_a_missing_dependency_names_the_extra():
    with pytest.raises(
        MissingDependencyError, match=r"absent_package is needed here: pip install 'onefold\[report\]'"
    ):
        require("absent_package.part", "report")


def test_a_present_dependency_is_returned():
    assert require("json", "report").dumps([1]) == "[1]"
