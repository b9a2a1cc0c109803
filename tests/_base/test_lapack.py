"""Compiled routines reached by pointer: the numbers numpy gives, and errors instead of wrong memory."""

import numpy as np
import pytest

from onefold._base.lapack import (
    cholesky,
    cholesky_solve,
    eigenvectors,
    leading_eigenvectors,
    product,
    symmetric_product,
    triangular_solve,
)
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
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (1, 5, 3), (4, 1, 6), (30, 70, 20), (3, 4, 0), (0, 4, 2), (3, 0, 2)]
)
def test_products(dtype: type, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
    for first in (left, np.asfortranarray(left), np.repeat(left, 2, axis=1)[:, ::2]):
        for second in (right, np.asfortranarray(right)):
            found = product(first, second)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, left @ right, atol=ROUNDING[dtype])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_triangular_solution(dtype: type) -> None:
    rng = np.random.default_rng(1)
    factor = np.asfortranarray(np.tril(rng.normal(size=(30, 30))) + 6.0 * np.eye(30), dtype=dtype)
    right = np.asfortranarray(rng.normal(size=(30, 4)), dtype=dtype)
    upper = np.triu(np.full_like(factor, 1e3), 1)  # which must not matter
    solution = right.copy(order="F")
    triangular_solve(np.asfortranarray(factor + upper), solution)
    np.testing.assert_allclose(factor @ solution, right, atol=100 * ROUNDING[dtype])
    with pytest.raises(ValueError, match="Fortran"):
        triangular_solve(factor, np.ascontiguousarray(right))


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


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1, 2, 7, 150])
def test_eigenvectors(dtype: type, size: int) -> None:
    rows = np.random.default_rng(2).normal(size=(size, size + 3)).astype(dtype)
    matrix, atol = rows @ rows.T, size * ROUNDING[dtype]
    vectors = np.asfortranarray(np.tril(matrix))
    values = eigenvectors(vectors)
    assert (np.diff(values) >= 0.0).all()
    np.testing.assert_allclose(vectors * values @ vectors.T, matrix, atol=atol)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(size), atol=atol)
    for count in {1, min(size, 3), size}:
        largest, leading = leading_eigenvectors(np.asfortranarray(np.tril(matrix)), count)
        assert largest.dtype == leading.dtype == dtype
        assert leading.shape == (size, count)
        np.testing.assert_allclose(largest, values[::-1][:count], atol=atol)
        np.testing.assert_allclose(matrix @ leading, leading * largest, atol=10 * atol)
        np.testing.assert_allclose(leading.T @ leading, np.eye(count), atol=atol)


def test_eigenvectors_of_the_wrong_order_are_refused() -> None:
    with pytest.raises(ValueError, match="Fortran"):
        eigenvectors(np.arange(6.0).reshape(2, 3))
    with pytest.raises(ValueError, match="Fortran"):
        leading_eigenvectors(np.arange(6.0).reshape(2, 3), 1)


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
