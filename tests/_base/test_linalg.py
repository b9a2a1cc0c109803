"""Compiled routines reached by pointer: the numbers numpy gives, and errors instead of wrong memory."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from onefold._base import linalg
from onefold._base.linalg import (
    cholesky,
    cholesky_solve,
    leading_eigenvectors,
    product,
    symmetric_product,
    triangular_solve,
)
from onefold._base.parallel import one_blas_thread

ROUNDING = {np.float64: 1e-12, np.float32: 2e-4}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (3, 7), (120, 50)])
def test_symmetric_products_equal_numpy(dtype: type, shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).normal(size=shape).astype(dtype)
    for transposed, full in ((False, rows @ rows.T), (True, rows.T @ rows)):
        product = symmetric_product(rows, transposed)
        assert product.dtype == dtype
        np.testing.assert_allclose(
            np.tril(product), np.tril(full), rtol=ROUNDING[dtype], atol=ROUNDING[dtype]
        )


@pytest.mark.parametrize("view", ["columns", "reversed", "transposed"])
def test_symmetric_product_of_a_view_equals_numpy(view: str) -> None:
    whole = np.random.default_rng(0).normal(size=(6, 8))
    rows = {"columns": whole[:, ::2], "reversed": whole[::-1], "transposed": whole.T}[view]
    np.testing.assert_allclose(np.tril(symmetric_product(rows)), np.tril(rows @ rows.T))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (1, 5, 3), (4, 1, 6), (30, 70, 20), (3, 4, 0), (0, 4, 2), (3, 0, 2)]
)
def test_products_equal_numpy(dtype: type, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
    for first in (left, np.asfortranarray(left), np.repeat(left, 2, axis=1)[:, ::2]):
        for second in (right, np.asfortranarray(right)):
            found = product(first, second)
            assert found.dtype == dtype
            np.testing.assert_allclose(found, left @ right, atol=ROUNDING[dtype])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_triangular_solution_solves_the_system(dtype: type) -> None:
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
def test_cholesky_factor_solves_the_system(dtype: type) -> None:
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
def test_leading_eigenvectors_are_those_of_the_largest_values(dtype: type, size: int) -> None:
    rows = np.random.default_rng(2).normal(size=(size, size + 3)).astype(dtype)
    matrix, atol = rows @ rows.T, size * ROUNDING[dtype]
    values = np.linalg.eigvalsh(matrix)
    for count in {1, min(size, 3), size}:
        largest, leading = leading_eigenvectors(np.tril(matrix), count)
        assert largest.dtype == leading.dtype == dtype
        assert leading.shape == (size, count)
        np.testing.assert_allclose(largest, values[::-1][:count], atol=atol)
        np.testing.assert_allclose(matrix @ leading, leading * largest, atol=10 * atol)
        np.testing.assert_allclose(leading.T @ leading, np.eye(count), atol=atol)


def test_an_indefinite_matrix_has_no_factor() -> None:
    assert not cholesky(np.asfortranarray(np.diag([1.0, -1.0])))


def test_factor_of_a_c_ordered_array_is_refused() -> None:
    with pytest.raises(ValueError, match="Fortran"):
        cholesky(np.arange(6.0).reshape(2, 3))


@pytest.mark.exact
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_digits_do_not_depend_on_the_number_of_workers(dtype: type) -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(600, 700)).astype(dtype)
    right = np.asfortranarray(rng.normal(size=(600, 520)), dtype=dtype)

    def compute(threads: int) -> list[np.ndarray]:
        with threadpool_limits(threads, user_api="blas"), one_blas_thread():
            factor = symmetric_product(rows)
            factor.flat[::601] += 600.0
            assert cholesky(factor)
            solution, halfway = right.copy(order="F"), right.copy(order="F")
            cholesky_solve(factor, solution)
            triangular_solve(factor, halfway)
            products = [product(rows, rows.T), product(np.asfortranarray(rows), rows.T)]
            return [symmetric_product(rows, transposed=True), factor, solution, halfway, *products]

    for one, several in zip(compute(1), compute(3), strict=True):
        np.testing.assert_array_equal(one, several)


def test_panels_equal_whole_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    rows, other = rng.normal(size=(90, 130)), rng.normal(size=(130, 50))
    matrix, right = rows @ rows.T + 90.0 * np.eye(90), np.asfortranarray(rng.normal(size=(90, 70)))
    for name, value in {"PANEL": 16, "WORTH_SHARING": 0, "BLOCKED_CHOLESKY": 1, "BLOCK": 40}.items():
        monkeypatch.setattr(linalg, name, value)
    np.testing.assert_allclose(np.tril(symmetric_product(rows)), np.tril(rows @ rows.T), atol=1e-11)
    np.testing.assert_allclose(np.tril(symmetric_product(rows, True)), np.tril(rows.T @ rows), atol=1e-11)
    np.testing.assert_allclose(product(rows, other), rows @ other, atol=1e-11)
    np.testing.assert_allclose(product(np.asfortranarray(rows), other), rows @ other, atol=1e-11)
    factor, solution, halfway = np.asfortranarray(matrix), right.copy(order="F"), right.copy(order="F")
    assert cholesky(factor)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), atol=1e-11)
    cholesky_solve(factor, solution)
    np.testing.assert_allclose(matrix @ solution, right, atol=1e-10)
    triangular_solve(factor, halfway)
    np.testing.assert_allclose(np.tril(factor) @ halfway, right, atol=1e-10)
    matrix[70, 70] = -1.0
    assert not cholesky(np.asfortranarray(matrix))
