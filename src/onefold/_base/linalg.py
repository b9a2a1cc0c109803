"""Products, Cholesky factorisation, eigenvectors and solutions that let other threads run.

scipy's Python wrappers of BLAS and LAPACK keep the interpreter locked, so machines fitted in several threads
would wait for each other. numpy's products release it. What numpy has not, the factor in place and the
solution of triangular equations, is reached through the pointers scipy publishes for Cython; a call through
ctypes releases the lock.

Large products and solutions are computed panel by panel, by as many workers as are free. Panels depend on the
sizes of the matrices only and each is computed on one BLAS thread: the digits are the same for any number of
workers.
"""

import ctypes
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import cython_blas, cython_lapack

from onefold._base.arrays import Array
from onefold._base.parallel import run_parallel

LETTERS = {np.dtype(np.float64): "d", np.dtype(np.float32): "s"}
PANEL = 256  # columns
# Below so many multiplications starting a thread takes longer than the work it saves.
WORTH_SHARING = 2e7
# A Cholesky factorisation goes block by block, with the work between two blocks shared, from this size on.
BLOCKED_CHOLESKY = 2048
BLOCK = 512


def cholesky(matrix: Array) -> bool:
    """Overwrite the lower triangle of a Fortran-ordered matrix by its factor; False if there is none."""
    size = len(matrix)
    if matrix.shape != (size, size):
        raise ValueError("LAPACK needs square Fortran-ordered matrices")
    if size < BLOCKED_CHOLESKY:
        return _factor(matrix)
    for start in range(0, size, BLOCK):
        own = slice(start, min(start + BLOCK, size))
        block = np.asfortranarray(matrix[own, own])
        if not _factor(block):
            return False
        matrix[own, own] = block
        below = np.asfortranarray(matrix[own.stop :, own].T)
        triangular_solve(block, below)
        matrix[own.stop :, own] = left = below.T
        rest = matrix[own.stop :, own.stop :]
        run_parallel(partial(_subtract, rest, left), list(_panels(len(left))))
    return True


def _subtract(matrix: Array, left: Array, columns: slice) -> None:
    """Subtract from columns what the rows below a factored block explain of them."""
    matrix[columns.start :, columns] -= left[columns.start :] @ left[columns].T


def _factor(matrix: Array) -> bool:
    n, failed = ctypes.byref(ctypes.c_int(len(matrix))), ctypes.c_int(0)
    _routine("potrf", matrix.dtype)(b"L", n, _pointer(matrix), n, ctypes.byref(failed))
    return failed.value == 0


def cholesky_solve(factor: Array, right: Array) -> None:
    """Overwrite the Fortran-ordered ``right`` by the solution for a matrix with this lower factor."""
    triangular_solve(factor, right)
    triangular_solve(factor, right, transposed=True)


def triangular_solve(factor: Array, right: Array, transposed: bool = False) -> None:
    """Overwrite ``right`` by the solution for a lower triangular matrix; both are Fortran-ordered."""
    n, known = ctypes.byref(ctypes.c_int(len(factor))), _pointer(factor)
    one = (ctypes.c_double if right.dtype == np.float64 else ctypes.c_float)(1.0)
    settings = b"L", b"L", b"T" if transposed else b"N", b"N"

    def solve(columns: slice) -> None:
        k = ctypes.byref(ctypes.c_int(columns.stop - columns.start))
        part = _pointer(right[:, columns])
        _routine("trsm", right.dtype)(*settings, n, k, ctypes.byref(one), known, n, part, n)

    _share(solve, right.shape[1], len(factor) ** 2)


def leading_eigenvectors(matrix: Array, count: int) -> tuple[Array, Array]:
    """The largest ``count`` eigenvalues of a symmetric matrix, descending, and their eigenvectors as columns.

    The lower triangle of the matrix is read.
    """
    size = len(matrix)
    try:
        found = scipy.linalg.eigh(matrix, subset_by_index=(size - count, size - 1), check_finite=False)
    except np.linalg.LinAlgError:
        # LAPACK's quick way gives up at times where many eigenvalues are equal, as of categories with equally
        # many rows; the slower one finds all of them.
        found = scipy.linalg.eigh(matrix, check_finite=False, driver="evd")
    values, vectors = found
    return values[::-1][:count], vectors[:, ::-1][:, :count]


def product(left: Array, right: Array) -> Array:
    """``left @ right``, C-ordered."""
    left, right = (each if each.flags.forc else np.ascontiguousarray(each) for each in (left, right))
    result = np.empty((len(left), right.shape[1]), dtype=right.dtype)

    def multiply(rows: slice) -> None:
        np.matmul(left[rows], right, out=result[rows])

    _share(multiply, len(left), right.size)
    return result


def symmetric_product(rows: Array, transposed: bool = False) -> Array:
    """``rows @ rows.T``, or ``rows.T @ rows``, Fortran-ordered; only the lower triangle is computed."""
    rows = np.ascontiguousarray(rows)
    left = rows.T if transposed else rows
    size, length = left.shape
    found = np.zeros((size, size), dtype=rows.dtype, order="F")

    def multiply(part: slice) -> None:
        """The columns of one panel: a square on the diagonal, and what is below it."""
        right = left[part].T
        np.matmul(left[part], right, out=found[part, part])  # numpy sees that it is symmetric
        np.matmul(left[part.stop :], right, out=found[part.stop :, part])

    _share(multiply, size, size * length // 2)
    return found


def _panels(length: int) -> Iterator[slice]:
    return (slice(first, min(first + PANEL, length)) for first in range(0, length, PANEL))


def _share(work: Callable[[slice], None], length: int, cost: int) -> None:
    """Do the work for all columns, of so many multiplications each: in panels where that is much."""
    if length <= PANEL or length * cost < WORTH_SHARING:
        work(slice(0, length))
    else:
        run_parallel(work, list(_panels(length)))


def _pointer(array: Array) -> ctypes.c_void_p:
    """Address of a matrix LAPACK can read."""
    if not array.flags.f_contiguous:
        raise ValueError("LAPACK needs Fortran-ordered matrices")
    return ctypes.c_void_p(array.ctypes.data)


@cache
def _routine(name: str, dtype: np.dtype[Any]) -> Callable[..., None]:
    """The routine as a function of pointers: LAPACK takes every argument by reference."""
    capsule = (cython_lapack if name == "potrf" else cython_blas).__pyx_capi__[LETTERS[dtype] + name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    counts = {"potrf": 5, "trsm": 11}
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * counts[name])(address)
