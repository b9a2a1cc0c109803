"""Products, Cholesky factorisation, eigenvectors and solutions that let other threads run.

scipy's Python wrappers of BLAS and LAPACK keep the interpreter locked, so machines fitted in several threads
would wait for each other. The same compiled routines are reached here through the pointers scipy publishes
for Cython; a call through ctypes releases the lock.

Large products and solutions are computed panel by panel, by as many workers as are free. Panels depend on the
sizes of the matrices only and each is computed on one BLAS thread: the digits are the same for any number of
workers.
"""

import ctypes
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
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
        return _factor(matrix, 0, size)
    for start in range(0, size, BLOCK):
        stop = min(start + BLOCK, size)
        if not _factor(matrix, start, stop):
            return False
        run_parallel(partial(_solve_below, matrix, start, stop), list(_panels(stop, size)))
        run_parallel(partial(_update, matrix, start, stop), list(_panels(stop, size)))
    return True


def _factor(matrix: Array, start: int, stop: int) -> bool:
    """Factor the square block of these rows and columns in place."""
    n, leading, failed = _int(stop - start), _int(len(matrix)), ctypes.c_int(0)
    _routine("potrf", matrix.dtype)(b"L", n, _pointer(matrix, start, start), leading, ctypes.byref(failed))
    return failed.value == 0


def _solve_below(matrix: Array, start: int, stop: int, rows: slice) -> None:
    """Rows below a factored block L, X = A L^-T, in place."""
    m, n, leading = _int(rows.stop - rows.start), _int(stop - start), _int(len(matrix))
    block, below = _pointer(matrix, start, start), _pointer(matrix, rows.start, start)
    one = _scalar(matrix, 1.0)
    _routine("trsm", matrix.dtype)(b"R", b"L", b"T", b"N", m, n, one, block, leading, below, leading)


def _update(matrix: Array, start: int, stop: int, columns: slice) -> None:
    """Subtract from columns what the rows below a factored block explain of them."""
    m, n, k = (
        _int(size) for size in (len(matrix) - columns.start, columns.stop - columns.start, stop - start)
    )
    below, leading = _pointer(matrix, columns.start, start), _int(len(matrix))
    left = _pointer(matrix, columns.start, columns.start)
    less, one = _scalar(matrix, -1.0), _scalar(matrix, 1.0)
    _routine("gemm", matrix.dtype)(
        b"N", b"T", m, n, k, less, below, leading, below, leading, one, left, leading
    )


def cholesky_solve(factor: Array, right: Array) -> None:
    """Overwrite the Fortran-ordered ``right`` by the solution for a matrix with this lower factor."""
    n, known = _int(len(factor)), _pointer(factor)

    def solve(columns: slice) -> None:
        k, info = _int(columns.stop - columns.start), ctypes.byref(ctypes.c_int(0))
        _routine("potrs", factor.dtype)(b"L", n, k, known, n, _pointer(right, 0, columns.start), n, info)

    _share(solve, right.shape[1], 2 * len(factor) ** 2)


def triangular_solve(factor: Array, right: Array) -> None:
    """Overwrite ``right`` by the solution for a lower triangular matrix; both are Fortran-ordered."""
    n, known, one = _int(len(factor)), _pointer(factor), _scalar(right, 1.0)

    def solve(columns: slice) -> None:
        k, mine = _int(columns.stop - columns.start), _pointer(right, 0, columns.start)
        _routine("trsm", right.dtype)(b"L", b"L", b"N", b"N", n, k, one, known, n, mine, n)

    _share(solve, right.shape[1], len(factor) ** 2)


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
    unused, info = _scalar(matrix, 0.0), ctypes.byref(failed)
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
    length, n_columns = (_int(size) for size in right.shape)
    one, zero, other = _scalar(right, 1.0), _scalar(right, 0.0), _pointer(right.T)
    # Seen in Fortran's order, everything is transposed: unless it is of that order already.
    way, leading = (b"T", _int(len(left))) if left.flags.f_contiguous else (b"N", length)

    def multiply(rows: slice) -> None:
        mine = _pointer(left, rows.start, 0) if left.flags.f_contiguous else _pointer(left.T, 0, rows.start)
        n_rows, target = _int(rows.stop - rows.start), _pointer(result.T, 0, rows.start)
        _routine("gemm", right.dtype)(
            *(b"N", way, n_columns, n_rows, length, one, other, n_columns, mine, leading, zero),
            *(target, n_columns),
        )

    _share(multiply, len(left), right.size)
    return result


def symmetric_product(rows: Array, transposed: bool = False) -> Array:
    """Lower triangle of ``rows @ rows.T``, or of ``rows.T @ rows``, Fortran-ordered; the rest is zero."""
    rows = np.ascontiguousarray(rows)
    n_rows, n_columns = rows.shape
    size, length = (n_columns, n_rows) if transposed else (n_rows, n_columns)
    found = np.zeros((size, size), dtype=rows.dtype, order="F")
    # Seen in Fortran's order, the rows are columns.
    way, other = (b"N", b"T") if transposed else (b"T", b"N")
    columns = rows.T
    n, k, leading = _int(size), _int(length), _int(n_columns)
    one, zero = _scalar(rows, 1.0), _scalar(rows, 0.0)

    def start_of(place: int) -> ctypes.c_void_p:
        return _pointer(columns, place, 0) if transposed else _pointer(columns, 0, place)

    def multiply(part: slice) -> None:
        """The columns of one panel: a square on the diagonal, and what is below it."""
        first, width = start_of(part.start), _int(part.stop - part.start)
        square = _pointer(found, part.start, part.start)
        _routine("syrk", rows.dtype)(b"L", way, width, k, one, first, leading, zero, square, n)
        if part.stop < size:
            second, below = start_of(part.stop), _pointer(found, part.stop, part.start)
            _routine("gemm", rows.dtype)(
                *(way, other, _int(size - part.stop), width, k, one, second, leading, first, leading),
                *(zero, below, n),
            )

    _share(multiply, size, size * length // 2)
    return found


def _panels(start: int, stop: int) -> Iterator[slice]:
    return (slice(first, min(first + PANEL, stop)) for first in range(start, stop, PANEL))


def _share(work: Callable[[slice], None], length: int, cost: int) -> None:
    """Do the work for all columns, of so many multiplications each: in panels where that is much."""
    if length <= PANEL or length * cost < WORTH_SHARING:
        work(slice(0, length))
    else:
        run_parallel(work, list(_panels(0, length)))


def _int(number: int) -> Any:
    return ctypes.byref(ctypes.c_int(number))


def _scalar(like: Array, value: float) -> Any:
    return ctypes.byref(ctypes.c_double(value) if like.dtype == np.float64 else ctypes.c_float(value))


def _pointer(array: NDArray[Any], *place: int) -> ctypes.c_void_p:
    """Address of an entry, by default the first, of a matrix LAPACK can read."""
    if not array.flags.f_contiguous:
        raise ValueError("LAPACK needs Fortran-ordered matrices")
    steps = zip(array.strides, place, strict=True) if place else ()
    return ctypes.c_void_p(array.ctypes.data + sum(stride * index for stride, index in steps))


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
