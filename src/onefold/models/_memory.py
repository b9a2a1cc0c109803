"""Fitted stacks by what they were fitted on, so that a change of some rows refits only what it touches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from onefold._base.arrays import Array
from onefold.models.compose import Stack

__all__ = ["StackMemory"]


class StackMemory:
    """Remembers the stacks of the last fit; the next gets back those whose samples have not changed by a bit.

    A machine's numbers depend, in the last digits, on the machines it is stacked with. Going by whole stacks
    therefore makes the result that of a fit from scratch, bit for bit.

    Attributes
    ----------
    n_fitted : machines that had to be fitted since :meth:`begin`.
    n_kept : machines that were taken over.
    """

    def __init__(self) -> None:
        self._last: dict[bytes, Stack] = {}
        self._now: dict[bytes, Stack] = {}
        self.n_fitted = self.n_kept = 0

    def begin(self) -> None:
        """A new fit starts: what the last one made is at hand, what was there before it is dropped."""
        self._last, self._now = self._now, {}
        self.n_fitted = self.n_kept = 0

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()  # a worker elsewhere is not sent all machines to compare with

    def fit(self, settings: str, samples: Array, fit_stack: Callable[[Array], Stack]) -> Stack:
        """The stack of samples (S, N, p) under these settings, taken over or fitted."""
        sum_ = hashlib.sha256(f"{settings} {samples.dtype.str} {samples.shape}".encode())
        sum_.update(np.ascontiguousarray(samples).data)  # before fitting, which centres in place
        key = sum_.digest()
        known = self._last.get(key)
        stack = fit_stack(samples) if known is None else known
        self._now[key] = stack
        return stack

    def end(self, stacks: Sequence[Stack]) -> None:
        """The fit is done, with these stacks: count what was kept, and forget what is no longer in use."""
        if len(self._now) < len({id(stack) for stack in stacks}):  # fitted by workers elsewhere
            self._now = {}
            self.n_fitted = sum(stack.n_machines for stack in stacks)
            return
        self.n_kept = sum(stack.n_machines for key, stack in self._now.items() if key in self._last)
        self.n_fitted = sum(stack.n_machines for key, stack in self._now.items() if key not in self._last)
        self._last = {}
