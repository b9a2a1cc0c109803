"""Products, Cholesky factorisation, eigenvectors and solutions that let other threads run.

scipy's Python wrappers of BLAS and LAPACK keep the interpreter locked, so machines fitted in several threads
would wait for each other. The same compiled routines are reached here through the pointers scipy publishes
for Cython; a call through ctypes releases the lock.
"""

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas, cython_lapack

from onefold._base.arrays import Array

__all__ = [
    "cholesky",
    "cholesky_solve",
    "eigenvectors",
    "leading_eigenvectors",
    "product",
    "symmetric_product",
    "triangular_solve",
]

LETTERS = {np.dtype(np.float64): "d", np.dtype(np.float32): "s"}


def cholesky(matrix: Array) -> bool:
    """Overwrite the lower triangle of a Fortran-ordered matrix by its factor; False if there is none."""
    size, failed = ctypes.c_int(len(matrix)), ctypes.c_int(0)
    of_size = ctypes.byref(size)
    _routine("potrf", matrix.dtype)(b"L", of_size, _pointer(matrix), of_size, ctypes.byref(failed))
    return failed.value == 0


def cholesky_solve(factor: Array, right: Array) -> None:
    """Overwrite the Fortran-ordered ``right`` by the solution for a matrix with this lower factor."""
    size, columns, failed = ctypes.c_int(len(factor)), ctypes.c_int(right.shape[1]), ctypes.c_int(0)
    n, k, info = ctypes.byref(size), ctypes.byref(columns), ctypes.byref(failed)
    _routine("potrs", factor.dtype)(b"L", n, k, _pointer(factor), n, _pointer(right), n, info)


def triangular_solve(factor: Array, right: Array) -> None:
    """Overwrite ``right`` by the solution for a lower triangular matrix; both are Fortran-ordered."""
    m, k = (ctypes.byref(ctypes.c_int(size)) for size in right.shape)
    one = ctypes.byref(_scalar(right, 1.0))
    _routine("trsm", right.dtype)(b"L", b"L", b"N", b"N", m, k, one, _pointer(factor), m, _pointer(right), m)


def eigenvectors(matrix: Array) -> Array:
    """Eigenvalues, ascending; the Fortran-ordered matrix, of which the lower triangle is read, is overwritten
    by eigenvectors."""
    values = np.empty(len(matrix), dtype=matrix.dtype)
    size, failed = ctypes.c_int(len(matrix)), ctypes.c_int(0)
    n, info = ctypes.byref(size), ctypes.byref(failed)
    solve = partial(_routine("syevd", matrix.dtype), b"V", b"L", n, _pointer(matrix), n, _pointer(values))
    _with_workspace(matrix.dtype, solve, info)
    if failed.value != 0:
        raise np.linalg.LinAlgError("eigenvalues did not converge")
    return values


def leading_eigenvectors(matrix: Array, count: int) -> tuple[Array, Array]:
    """The largest ``count`` eigenvalues, descending, and their eigenvectors as columns; overwrites the
    Fortran-ordered matrix, of which the lower triangle is read."""
    size, dtype = len(matrix), matrix.dtype
    values, vectors = np.empty(size, dtype=dtype), np.empty((size, count), dtype=dtype, order="F")
    support, failed = np.empty(2 * size, dtype=np.intc), ctypes.c_int(0)
    n, first, found = (ctypes.byref(ctypes.c_int(number)) for number in (size, size - count + 1, 0))
    unused, info = ctypes.byref(_scalar(matrix, 0.0)), ctypes.byref(failed)
    solve = partial(
        _routine("syevr", dtype),
        *(b"V", b"I", b"L", n, _pointer(matrix), n, unused, unused, first, n, unused, found),
        *(_pointer(values), _pointer(vectors), n, _pointer(support)),
    )
    _with_workspace(dtype, solve, info)
    if failed.value != 0:
        raise np.linalg.LinAlgError("eigenvalues did not converge")
    return values[:count][::-1], vectors[:, ::-1]


def _with_workspace(dtype: np.dtype[Any], solve: Callable[..., None], info: object) -> None:
    """Ask a routine how much memory it wants to work in, then let it work."""
    numbers, integers = np.empty(1, dtype=dtype), np.empty(1, dtype=np.intc)
    length = ctypes.byref(ctypes.c_int(-1))  # a question
    solve(_pointer(numbers), length, _pointer(integers), length, info)
    wanted = int(np.nextafter(numbers[0], np.inf))  # single precision may have rounded it down
    numbers, integers = np.empty(wanted, dtype=dtype), np.empty(int(integers[0]), dtype=np.intc)
    lengths = (ctypes.byref(ctypes.c_int(len(space))) for space in (numbers, integers))
    solve(_pointer(numbers), next(lengths), _pointer(integers), next(lengths), info)


def product(left: Array, right: Array) -> Array:
    """``left @ right``, C-ordered; ``left`` may be of either order."""
    right = np.ascontiguousarray(right)
    if not left.flags.f_contiguous:
        left = np.ascontiguousarray(left)
    result = np.zeros((len(left), right.shape[1]), dtype=right.dtype)
    if not left.size or not right.size:  # BLAS refuses rows of no length
        return result
    n_rows, length, n_columns = (ctypes.byref(ctypes.c_int(size)) for size in (*left.shape, right.shape[1]))
    one, zero = ctypes.byref(_scalar(right, 1.0)), ctypes.byref(_scalar(right, 0.0))
    # Seen in Fortran's order, everything is transposed: unless it is of that order already.
    way, first, leading = (b"T", left, n_rows) if left.flags.f_contiguous else (b"N", left.T, length)
    a, b, c = _pointer(right.T), _pointer(first), _pointer(result.T)
    multiply = _routine("gemm", right.dtype)
    multiply(b"N", way, n_columns, n_rows, length, one, a, n_columns, b, leading, zero, c, n_columns)
    return result


def symmetric_product(rows: Array, transposed: bool = False) -> Array:
    """Lower triangle of ``rows @ rows.T``, or of ``rows.T @ rows``, Fortran-ordered; the rest is zero."""
    rows = np.ascontiguousarray(rows)
    n_rows, n_columns = rows.shape
    size, length = (n_columns, n_rows) if transposed else (n_rows, n_columns)
    found = np.zeros((size, size), dtype=rows.dtype, order="F")
    n, k, leading = (ctypes.byref(ctypes.c_int(number)) for number in (size, length, n_columns))
    one, zero = ctypes.byref(_scalar(rows, 1.0)), ctypes.byref(_scalar(rows, 0.0))
    # Seen in Fortran's order, the rows are columns.
    way = b"N" if transposed else b"T"
    _routine("syrk", rows.dtype)(b"L", way, n, k, one, _pointer(rows.T), leading, zero, _pointer(found), n)
    return found


def _scalar(like: Array, value: float) -> ctypes.c_double | ctypes.c_float:
    return ctypes.c_double(value) if like.dtype == np.float64 else ctypes.c_float(value)


def _pointer(array: NDArray[Any]) -> ctypes.c_void_p:
    if not array.flags.f_contiguous:
        raise ValueError("LAPACK needs Fortran-ordered matrices")
    return ctypes.c_void_p(array.ctypes.data)


@cache
def _routine(name: str, dtype: np.dtype[Any]) -> Callable[..., None]:
    """The routine as a function of pointers: LAPACK takes every argument by reference."""
    library = cython_lapack if name.startswith(("po", "syev")) else cython_blas
    capsule = library.__pyx_capi__[LETTERS[dtype] + name]
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    counts = {"potrf": 5, "potrs": 8, "syevd": 11, "syevr": 21, "syrk": 10, "trsm": 11, "gemm": 13}
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * counts[name])(address)
