"""What the server keeps of the clients' messages about one ciphertext of queries, and what it makes of it."""

from __future__ import annotations

from collections.abc import Iterator

from onefold.federated.fhe._ciphertexts import Cipher, Ciphertexts
from onefold.federated.fhe._circuit import PLAIN_MODULUS, pick
from onefold.federated.fhe._encoding import check_marks
from onefold.federated.fhe._layout import Layout
from onefold.federated.fhe._shares import message_primes
from onefold.federated.fhe._two_digits import race
from onefold.federated.fhe._wire import PlaneSums, packed_size
from onefold.federated.fhe._zero_test import ZeroTest

__all__ = ["Runners", "Sums"]


class _Share:
    """A part of every message: some ciphertexts of known sizes."""

    def __init__(self, engine: Ciphertexts, layout: Layout, n_rows: int) -> None:
        self.engine, self.layout, self.n_rows = engine, layout, n_rows
        self.n_answered = 0
        primes, degree = engine.contexts.primes, engine.contexts.parameters.degree
        self._n_primes = message_primes(engine.contexts.parameters, layout)
        self._sizes = [packed_size(primes[:n], degree) for n in self._n_primes]
        self.size = sum(self._sizes)

    def _cut(self, data: memoryview) -> list[memoryview]:
        parts, start = [], 0
        for size in self._sizes:
            parts.append(data[start : start + size])
            start += size
        return parts

    def _empty(self, n_primes: int) -> PlaneSums:
        contexts = self.engine.contexts
        return PlaneSums(contexts.primes[:n_primes], contexts.parameters.degree)

    def _test(self) -> ZeroTest:
        return ZeroTest(self.engine.contexts.parameters.n_clients, PLAIN_MODULUS)


class Sums(_Share):
    """One digit: everything is added over the clients at once."""

    def __init__(self, engine: Ciphertexts, layout: Layout, n_rows: int) -> None:
        super().__init__(engine, layout, n_rows)
        self._sums = [self._empty(n_primes) for n_primes in self._n_primes]

    def add(self, data: memoryview) -> None:
        """One more client."""
        for total, part in zip(self._sums, self._cut(data), strict=True):
            total.add(part)
        self.n_answered += 1

    def picked(self) -> Cipher:
        """The result: exact, but not yet fit to be shown to anyone."""
        counts, *marks = (self.engine.load_sum(each.total(), self.n_answered) for each in self._sums)
        return pick(self.engine, self.layout, self._test().evaluate(self.engine, counts), marks)


class Runners(_Share):
    """Two digits: the thermometers of the high ones are added, the rest is kept client by client."""

    def __init__(self, engine: Ciphertexts, layout: Layout, n_rows: int) -> None:
        super().__init__(engine, layout, n_rows)
        self._counts = self._empty(self._n_primes[0])
        self._kept: list[bytes] = []

    def add(self, data: memoryview) -> None:
        """One more client."""
        self._counts.add(self._cut(data)[0])
        self._kept.append(bytes(data))
        self.n_answered += 1

    def _runners(self) -> Iterator[tuple[Cipher, Cipher, list[Cipher]]]:
        for data in self._kept:
            loaded = []
            for part, n_primes in zip(self._cut(memoryview(data))[1:], self._n_primes[1:], strict=True):
                single = self._empty(n_primes)
                single.add(part)
                loaded.append(self.engine.load_sum(single.total(), 1))
            yield loaded[0], loaded[1], loaded[2:]

    def picked(self) -> Cipher:
        """The result: exact, but not yet fit to be shown to anyone."""
        counts = self.engine.load_sum(self._counts.total(), self.n_answered)
        n_clients = self.engine.contexts.parameters.n_clients
        below, marks = race(self.engine, self.layout, n_clients, counts, self._runners())
        checks = check_marks(self.layout, self.n_rows, self.n_answered)
        marks = [
            self.engine.shift_slots(mark, check) if check.any() else mark
            for mark, check in zip(marks, checks, strict=True)
        ]
        return pick(self.engine, self.layout, below, marks)
