"""Machines side by side: branches of one wide machine, classes of a classifier, or both at once.

The global answer of independent machines is a minimum (000 eq. 56 and 62, 004 eq. 121), whatever family
they come from. A *pool* keeps all machines of all groups (a group is one class, or the one model of an
autoencoder), stacks those of equal size, and takes the minimum per group, one block of rows at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, make_dataclass
from functools import cache, cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from onefold._base.arrays import Array, Index, Mask
from onefold._base.parallel import one_blas_thread, run_parallel, run_spread, worker_count
from onefold.exceptions import InvalidInputError
from onefold.models.folding import WITHOUT_ANGLES, Folding, check_measure

if TYPE_CHECKING:
    from onefold.models.few import GatheredMachines

# Working memory of one worker thread while it folds a block of rows. Prediction allocates this much per
# thread and the (rows, groups) result, however many rows there are.
BLOCK_BYTES = 32 * 2**20
CACHED_BYTES = 6 * 2**20
PRODUCT_WIDTH = 32
SMALLEST_BLOCK = 16
# Queries of more rows than the first number are divided into this many blocks or more, for several workers.
ROWS_OF_A_BLOCK = 128
LEAST_BLOCKS = 4
BLOCK_STEP = 8  # rows: products lose time at odd numbers
# So few rows are asked one by one of all machines side by side: see ``few``.
FEW_ROWS = 4
# Rows larger than this (in units of the data) are shrunk before folding, so that squares cannot overflow.
LARGEST_ENTRY = {np.dtype(np.float64): 1e100, np.dtype(np.float32): 1e12}
# Samples in one stack of small machines: large enough for one efficient product, small enough for the cache.
STACKED_SAMPLES = 1024


class Stack(Protocol):
    """S fitted machines of equal size; what every model family provides."""

    @property
    def n_machines(self) -> int:
        """Number S of machines."""

    @property
    def centres(self) -> Array:
        """Mean of each machine's samples, (S, p)."""

    @property
    def rows_at_once(self) -> int:
        """How many query rows to fold together, within the working memory."""

    def select(self, index: int) -> Stack:
        """One machine, on the same memory."""

    def fold(self, queries: Array, angles: bool = False) -> Folding:
        """Foldings (S, M) of queries (M, p)."""

    def best_images(self, queries: Array) -> tuple[Array, Array]:
        """Images (S, M, p) and their squared distances (S, M)."""


@dataclass(frozen=True)
class Pool:
    """Fitted machines of one or more groups."""

    stacks: tuple[Stack, ...]
    owners: tuple[Index, ...]  # group of each machine, ascending within a stack
    positions: tuple[Index, ...]  # place of each machine within its group
    n_groups: int
    unit: float  # a power of two the data is divided by, so that extreme scales stay representable
    factor: float  # scale at which the machines see data in that unit

    def measures(
        self,
        X: Array,
        name: str,
        n_probe: int | None = None,
        n_jobs: int | None = None,
        skip: Index | None = None,
    ) -> Array:
        """Folding measure of each row by each group, the minimum over its machines: (M, groups).

        ``skip`` is for each row the number, over all stacks, of a machine that is not asked.
        """
        check_measure(name)
        found = None if skip is not None else self._few(X, name, n_probe, n_jobs)
        return self._measures(X, name, n_probe, n_jobs, skip) if found is None else found

    def _measures(
        self,
        X: Array,
        name: str,
        n_probe: int | None,
        n_jobs: int | None,
        skip: Index | None = None,
        stacks: Sequence[int] | None = None,
    ) -> Array:
        """Measures of any number of rows by all stacks, or by some of them, a block of rows at a time."""
        lowest = np.full((len(X), self.n_groups), np.inf, dtype=self.dtype)
        lock = Lock()
        firsts = np.cumsum([0, *(stack.n_machines for stack in self.stacks)])

        def fold(task: tuple[slice, Sequence[int]]) -> None:
            rows, indices = task
            queries, divisor = self.to_unit(X[rows])
            probed = self._probed(queries, n_probe)
            for index in indices:
                values = self._values(index, queries, probed[index], name, divisor)
                if skip is not None:
                    own = skip[rows] - firsts[index]
                    mine = np.flatnonzero((own >= 0) & (own < len(values)))
                    values[own[mine], mine] = np.inf
                starts = np.flatnonzero(np.diff(self.owners[index], prepend=-1))
                least, groups = np.minimum.reduceat(values, starts, axis=0).T, self.owners[index][starts]
                with lock:  # a minimum is the same in any order
                    lowest[rows, groups] = np.minimum(lowest[rows, groups], least)

        every = range(len(self.stacks)) if stacks is None else stacks
        blocks = self._blocks(len(X))
        tasks: list[tuple[slice, Sequence[int]]] = [(rows, every) for rows in blocks]
        if len(X) > 1 and len(blocks) < worker_count(n_jobs) and n_probe is None:
            tasks = [(rows, (index,)) for rows in blocks for index in every]
        run_parallel(fold, tasks, n_jobs)
        return lowest

    @cached_property
    def _gathered(self) -> GatheredMachines | None:
        """Machines that can be asked side by side; made when a few rows are asked for the first time."""
        gather = getattr(self.stacks[0], "gather", None)  # what not every family can do
        return None if gather is None else gather(self.stacks, self.owners, self.n_groups)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_gathered"}

    @one_blas_thread()
    def _few(self, X: Array, name: str, n_probe: int | None, n_jobs: int | None) -> Array | None:
        """Measures of a few rows, one by one; None where that does not pay."""
        if len(X) > FEW_ROWS or n_probe is not None or self._gathered is None:
            return None
        gathered, queries = self._gathered, self.to_unit(X)
        others = [index for index in range(len(self.stacks)) if index not in gathered.indices]
        lowest = np.empty((len(X), self.n_groups), dtype=self.dtype)
        for row, (query, divisor) in enumerate(zip(*queries, strict=True)):
            one, seen = slice(row, row + 1), self.seen(divisor[None])
            least = gathered.least(query, name, divisor[None], seen)
            if others:
                least = np.minimum(least, self._measures(X[one], name, None, n_jobs, stacks=others)[0])
            lowest[row] = least
        return lowest

    def images(self, X: Array, n_probe: int | None = None, n_jobs: int | None = None) -> Array:
        """Image of each row by the machine that folds it least (000 eq. 55-56); for a single group."""

        def fold(rows: slice) -> Array:
            queries, divisor = self.to_unit(X[rows])
            winners = self._winners(queries, n_probe, divisor)
            images = np.empty_like(queries)
            offset = 0
            for stack in self.stacks:
                for index in np.unique(winners[(winners >= offset) & (winners < offset + stack.n_machines)]):
                    mine = np.flatnonzero(winners == index)
                    machine = stack.select(int(index) - offset)
                    images[mine] = machine.best_images(queries[mine])[0][0]
                offset += stack.n_machines
            return np.asarray(images * self.dtype.type(self.unit))

        return np.concatenate(run_parallel(fold, self._blocks(len(X)), n_jobs))

    def group(self, index: int) -> Pool:
        """The machines of one group as a pool of their own, on the same memory."""
        return self.single(*self.machines(index))

    def single(self, *machines: Stack) -> Pool:
        """A pool of one group with the given machines."""
        zeros = tuple(np.zeros(1, dtype=np.intp) for _ in machines)
        places = tuple(np.array([place], dtype=np.intp) for place in range(len(machines)))
        return Pool(machines, zeros, places, 1, self.unit, self.factor)

    def machines(self, index: int) -> list[Stack]:
        """The machines of one group, each as a stack of one, in the order of its branches."""
        found = [
            (int(place), stack.select(machine))
            for stack, owners, places in zip(self.stacks, self.owners, self.positions, strict=True)
            for machine, place in enumerate(places)
            if owners[machine] == index
        ]
        return [machine for _, machine in sorted(found, key=lambda pair: pair[0])]

    def check(self, n_features: int) -> None:
        """Refuse machines of other features or groups than those claimed, as in a foreign file."""
        sizes = [stack.n_machines for stack in self.stacks]
        shapes = [[(size,) for size in sizes], [(size, n_features) for size in sizes]]
        numbers = [[array.shape for array in arrays] for arrays in (self.owners, self.positions)]
        if (
            not sizes
            or numbers != [shapes[0]] * 2
            or [each.centres.shape for each in self.stacks] != shapes[1]
        ):
            raise InvalidInputError("the arrays do not fit each other")
        owners = np.unique(np.concatenate(self.owners))
        ascending = all((np.diff(each) >= 0).all() for each in self.owners)
        one_type = len({each.centres.dtype for each in self.stacks}) == 1
        owned = ascending and len(owners) == self.n_groups == owners[-1] + 1 and owners[0] == 0
        layered = all(getattr(each, "layers", True) for each in self.stacks)
        if not (owned and one_type and layered and self.unit > 0.0 and self.factor > 0.0):
            raise InvalidInputError("the groups of machines are not those of a fitted model")

    @property
    def dtype(self) -> np.dtype:
        """The precision the machines were fitted in."""
        return np.dtype(self.stacks[0].centres.dtype)

    def to_unit(self, X: Array) -> tuple[Array, Array]:
        """Rows in the pool's unit, none too large to square, and what each was divided by for that."""
        if X.dtype != self.dtype:  # what is beyond the range of the precision becomes its largest number
            greatest = np.finfo(self.dtype).max
            X = np.clip(X, -greatest, greatest).astype(self.dtype)
        X = np.ascontiguousarray(X)
        largest = np.abs(X).max(axis=1, initial=0.0)
        divisor = np.maximum(largest / X.dtype.type(LARGEST_ENTRY[X.dtype]), X.dtype.type(self.unit))
        if self.unit == 1.0 and not (divisor > 1.0).any():
            return X, divisor
        return X / divisor[:, None], divisor

    def _values(self, index: int, queries: Array, probed: Mask | None, name: str, divisor: Array) -> Array:
        """Measures of one stack, (S, M); infinite for machines that are not probed."""
        stack = self.stacks[index]

        def fold(rows: Index | slice) -> Array:
            folding = stack.fold(queries[rows], angles=name not in WITHOUT_ANGLES)
            return folding.measure(name, divisor[rows], self.seen(divisor[rows]), queries.shape[1])

        if probed is None:
            return fold(slice(None))
        values = np.full(probed.shape, np.inf, dtype=queries.dtype)
        if stack.n_machines == 1:  # a large machine: fold only the rows that ask for it
            rows = np.flatnonzero(probed[0])
            values[0, rows] = fold(rows)[0]
        else:
            np.copyto(values, fold(slice(None)), where=probed)
        return values

    def seen(self, divisor: Array) -> Array:
        """How many times larger than in its divided form the machines see each row; finite."""
        with np.errstate(over="ignore"):
            seen = divisor.astype(np.float64) / self.unit * self.factor
        return np.minimum(seen, np.finfo(divisor.dtype).max).astype(divisor.dtype)

    def _winners(self, queries: Array, n_probe: int | None, divisor: Array) -> Index:
        """Index, over all stacks, of the machine with the smallest distance to its image, per row."""
        nearest = np.full(len(queries), np.inf)
        winners = np.zeros(len(queries), dtype=np.intp)
        offset = 0
        for index, probed in enumerate(self._probed(queries, n_probe)):
            values = self._values(index, queries, probed, "euclidean", divisor)
            best = values.argmin(axis=0)
            value = values[best, np.arange(len(queries))]
            closer = value < nearest
            nearest[closer], winners[closer] = value[closer], best[closer] + offset
            offset += len(values)
        return winners

    def _probed(self, queries: Array, n_probe: int | None) -> list[Mask | None]:
        """Which machines each row is folded by: the ``n_probe`` per group whose centres are nearest."""
        owners = np.concatenate(self.owners)
        if n_probe is None or n_probe >= np.bincount(owners).max():
            return [None] * len(self.stacks)
        centres = np.concatenate([stack.centres for stack in self.stacks])
        # |x - c|^2 up to |x|^2, which is the same for all centres.
        scores = np.einsum("kp,kp->k", centres, centres)[:, None] - 2.0 * (centres @ queries.T)
        probed = np.zeros(scores.shape, dtype=bool)
        for group in range(self.n_groups):
            mine = np.flatnonzero(owners == group)
            nearest = np.argsort(scores[mine], axis=0, kind="stable")[:n_probe]
            probed[mine[nearest], np.arange(len(queries))] = True
        splits = np.cumsum([stack.n_machines for stack in self.stacks])[:-1]
        return list(np.split(probed, splits))

    def _blocks(self, n_rows: int) -> list[slice]:
        return row_blocks(n_rows, min(stack.rows_at_once for stack in self.stacks))


@cache
def pool_type(stack: type) -> type[Pool]:
    """A pool of stacks of one type, as a file is read."""
    return make_dataclass("Pool", [("stacks", tuple[stack, ...])], bases=(Pool,), frozen=True)  # type: ignore[valid-type]


def row_blocks(n_rows: int, fitting: int) -> list[slice]:
    """Blocks of about one size, of at most ``fitting`` rows, and a few of them where there are many rows.

    A product of another shape has other last digits: blocks depend on the number of rows, not on workers.
    """
    count = max(-(-n_rows // fitting), min(-(-n_rows // ROWS_OF_A_BLOCK), LEAST_BLOCKS))
    size = max(n_rows, 1)
    if count > 1:
        size = -(-n_rows // (count + count % 2))  # an even number of blocks for an even number of cores
        size = min(-(-size // BLOCK_STEP) * BLOCK_STEP, fitting)
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def fit_pool(
    X: Array,
    groups: Sequence[Sequence[Index]],
    fit_stack: Callable[[Array], Stack],
    largest_stacked: int,
    unit: float,
    factor: float,
    n_jobs: int | None = None,
    show_progress: bool | None = False,
) -> Pool:
    """Fit one machine to every branch of every group, given as rows of X; equal small sizes together.

    Threads of this process do the work, or the workers of the joblib backend the caller has chosen.
    """
    jobs = _plan([[len(rows) for rows in group] for group in groups], largest_stacked)

    def samples_of(job: list[tuple[int, int]]) -> Array:
        rows = np.stack([groups[group][place] for group, place in job])
        samples = X[rows]  # a copy, to be centred in place
        if unit != 1.0:
            samples /= samples.dtype.type(unit)
        return samples

    # The largest machines first, so that no worker is left alone with one at the end.
    order = sorted(range(len(jobs)), key=lambda job: -len(groups[jobs[job][0][0]][jobs[job][0][1]]))
    jobs = [jobs[job] for job in order]
    stacks = run_spread(fit_stack, samples_of, jobs, n_jobs, "fitting", show_progress)
    owners = tuple(np.array([group for group, _ in job], dtype=np.intp) for job in jobs)
    positions = tuple(np.array([place for _, place in job], dtype=np.intp) for job in jobs)
    return Pool(tuple(stacks), owners, positions, len(groups), unit, factor)


def _plan(sizes: list[list[int]], largest_stacked: int) -> list[list[tuple[int, int]]]:
    """Jobs of (group, place) pairs: small machines of equal size together, large ones alone."""
    by_size: dict[int, list[tuple[int, int]]] = {}
    jobs: list[list[tuple[int, int]]] = []
    for group, members in enumerate(sizes):
        for place, size in enumerate(members):
            if size > largest_stacked:
                jobs.append([(group, place)])
            else:
                by_size.setdefault(size, []).append((group, place))
    for size, members_of_size in by_size.items():
        step = max(STACKED_SAMPLES // size, 1)
        jobs += [members_of_size[start : start + step] for start in range(0, len(members_of_size), step)]
    return jobs


# --- what a fit remembers ------------------------------------------------------------------------------


class StackMemory:
    """Stacks of the last fit, which the next fit takes over where their samples have not changed by a bit.

    A machine's numbers depend, in the last digits, on the machines it is stacked with. Whole stacks are
    therefore compared, and the result is that of a fit from scratch, bit for bit.

    Attributes
    ----------
    n_fitted : int
        Machines that had to be fitted since :meth:`begin`.
    n_kept : int
        Machines that were taken over.

    See Also
    --------
    ClassModels.fit_checked : Uses it.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import FoldingClassifier
    >>> from onefold.models import StackMemory
    >>> X, y, memory = np.random.default_rng(0).random((40, 3)), np.arange(40) % 2, StackMemory()
    >>> for _ in range(2):
    ...     model = FoldingClassifier(batch_size=10).fit_checked(X, y, memory=memory)
    >>> memory.n_fitted, memory.n_kept
    (0, 4)
    """

    def __init__(self) -> None:
        self._last: dict[bytes, Stack] = {}
        self._now: dict[bytes, Stack] = {}
        self.n_fitted = self.n_kept = 0

    def begin(self) -> None:
        """Start a new fit: keep what the last one made, drop what was there before it."""
        self._last, self._now = self._now, {}
        self.n_fitted = self.n_kept = 0

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()  # a worker elsewhere is not sent all machines to compare with

    def fit(self, settings: str, samples: Array, fit_stack: Callable[[Array], Stack]) -> Stack:
        """Return the stack of some samples, taken over or fitted.

        Parameters
        ----------
        settings : str
            Everything besides the samples that the stack depends on.
        samples : ndarray of shape (S, N, p)
            Samples of the S machines of the stack.
        fit_stack : callable
            Fits a stack to samples.

        Returns
        -------
        Stack
            The stack.
        """
        sum_ = hashlib.sha256(f"{settings} {samples.dtype.str} {samples.shape}".encode())
        sum_.update(np.ascontiguousarray(samples).data)  # before fitting, which centres in place
        key = sum_.digest()
        known = self._last.get(key)
        stack = fit_stack(samples) if known is None else known
        self._now[key] = stack
        return stack

    def end(self) -> None:
        """Count, after a fit, which machines were kept, and forget those no longer in use."""
        self.n_kept = sum(stack.n_machines for key, stack in self._now.items() if key in self._last)
        self.n_fitted = sum(stack.n_machines for key, stack in self._now.items() if key not in self._last)
        self._last = {}
