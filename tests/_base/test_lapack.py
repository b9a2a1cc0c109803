"""Compiled routines reached by pointer: the numbers numpy gives, and errors instead of wrong memory."""

import numpy as np
import pytest

from onefold._base.lapack import cholesky, cholesky_solve, symmetric_product
from onefold._base.parallel import one_numpy_thread, worker_count

ROUNDING = {np.float64: 1e-12, np.float32: 2e-4}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (3, 7), (120, 50)])
def test_symmetric_products(dtype: type, shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).normal(size=shape).astype(dtype)
    for transposed, full in ((False, rows @ rows.T), (True, rows.T @ rows)):
        product = symmetric_product(rows, transposed)
        assert product.dtype == dtype
        np.testing.assert_allclose(product, np.tril(full), rtol=ROUNDING[dtype], atol=ROUNDING[dtype])


@pytest.mark.parametrize("view", ["columns", "reversed", "transposed"])
def test_symmetric_product_of_a_view(view: str) -> None:
    whole = np.random.default_rng(0).normal(size=(6, 8))
    rows = {"columns": whole[:, ::2], "reversed": whole[::-1], "transposed": whole.T}[view]
    np.testing.assert_allclose(symmetric_product(rows), np.tril(rows @ rows.T))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_factor_and_solution(dtype: type) -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(30, 40)).astype(dtype)
    matrix = np.asfortranarray(rows @ rows.T)
    right = np.asfortranarray(rng.normal(size=(30, 4)).astype(dtype))
    factor, solution = matrix.copy(order="F"), right.copy(order="F")
    assert cholesky(factor)
    cholesky_solve(factor, solution)
    np.testing.assert_allclose(matrix @ solution, right, atol=100 * ROUNDING[dtype])


def test_an_indefinite_matrix_has_no_factor() -> None:
    assert not cholesky(np.asfortranarray(np.diag([1.0, -1.0])))


def test_the_wrong_order_is_refused() -> None:
    with pytest.raises(ValueError, match="Fortran"):
        cholesky(np.arange(6.0).reshape(2, 3))


def test_numpy_gets_its_threads_back() -> None:
    before = worker_count(None)
    with one_numpy_thread():
        pass
    assert worker_count(None) == before
