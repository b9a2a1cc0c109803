"""Releases of one dataset, again and again, as rows of numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold._base.parallel import run_parallel
from onefold.audit._samples import Floats
from onefold.exceptions import InvalidInputError

__all__ = ["Trials"]

BLOCKS = 16  # pieces of work with a generator each: the number of threads changes nothing


@dataclass(frozen=True)
class Trials:
    """How releases are made: each becomes a row of numbers, or one number if there is a ``statistic``."""

    release: Callable[..., Any]
    n_trials: int
    statistic: Callable[[Any], float] | None
    n_jobs: int | None
    rng: np.random.Generator

    def one_by_one(self, data: Floats) -> Floats:
        """A call for each release, (n_trials, size)."""
        sizes = [len(part) for part in np.array_split(np.arange(self.n_trials), BLOCKS)]

        def block(job: tuple[int, np.random.Generator]) -> list[Floats]:
            size, own = job
            # A copy each time: a mechanism that writes into its input must not spoil the next trial.
            return [_numbers(self.release(data.copy(), own), self.statistic) for _ in range(size)]

        jobs = list(zip(sizes, self.rng.spawn(BLOCKS), strict=True))
        rows = [row for part in run_parallel(block, jobs, self.n_jobs, "auditing", None) for row in part]
        if len({row.size for row in rows}) != 1:
            raise InvalidInputError("releases must all have the same shape; give a statistic otherwise")
        return np.stack(rows)

    def stacked(self, data: Floats) -> Floats:
        """One call for all releases, the data repeated below themselves, (n_trials, size)."""
        if data.ndim == 0:
            raise InvalidInputError("a stacked audit needs rows")
        repeated = np.concatenate([data] * self.n_trials)
        released = np.asarray(self.release(repeated, self.rng.spawn(1)[0]), dtype=np.float64)
        if len(released) != self.n_trials * len(data):
            raise InvalidInputError("a stacked audit needs a mechanism that returns one row for each row")
        parts = released.reshape(self.n_trials, len(data), *released.shape[1:])
        if self.statistic is None:
            return _checked(parts.reshape(self.n_trials, -1))
        return np.stack([_numbers(part, self.statistic) for part in parts])


def _numbers(output: Any, statistic: Callable[[Any], float] | None) -> Floats:
    values = output if statistic is None else statistic(output)
    try:
        row = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidInputError("a release must be an array of numbers; give a statistic otherwise") from None
    if statistic is not None and row.size != 1:
        raise InvalidInputError("statistic must return one number")
    return _checked(row)


def _checked(values: Floats) -> Floats:
    if not np.isfinite(values).all():
        raise InvalidInputError("a release or its statistic is not finite")
    return values
