"""A polynomial over Z_t that is 1 at the count 0 and 0 at the counts 1 ... Q.

The roots are paired: with m = Q rounded up to even, u = G (G - (m + 1)) takes the same value at k and m + 1
- k, so the test is a polynomial of half the degree in u, prod_{k <= m/2} (u + k (m + 1 - k)), made 1 at u =
0. Its roots cover every count from 1 to Q: a client that drops out changes nothing.

It is evaluated after Paterson and Stockmeyer: powers u ... u^b, sums of b of them with known coefficients,
and these sums joined by u^b, u^2b ... Products that are only added are relinearised together, and the order
is such that as few as possible follow each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Generic, TypeVar

from onefold.federated.fhe._engine import Combination, Engine

__all__ = ["ZeroTest"]

V = TypeVar("V")

MOST_STEPS = 4  # powers u^b, u^2b ... in one sum, if there are more sums than one


@dataclass(frozen=True)
class ZeroTest:
    """The test of counts of at most ``n_clients``."""

    n_clients: int
    modulus: int

    @property
    def pairs(self) -> int:
        """Pairs of roots: the degree in u."""
        return (self.n_clients + 1) // 2

    def coefficients(self) -> list[int]:
        """Of 1, u, u^2 ...; the value at u = 0 is 1."""
        return list(_coefficients(self.pairs, self.modulus))

    def evaluate(self, engine: Engine[V], counts: V) -> V:
        """1 where the count is 0, and 0 elsewhere."""
        if self.n_clients == 1:
            return engine.combine(Combination([(-1, counts)], 1))
        shifted = engine.combine(Combination([(1, counts)], -(2 * self.pairs + 1)))
        u = engine.settle(engine.multiply(counts, shifted))
        return _Evaluation(engine, u, baby_steps(self.pairs)).run(self.coefficients())


def baby_steps(degree: int) -> int:
    """How many powers are made one by one: about as many as there are joints afterwards, a power of two."""
    steps = 2
    while 4 * steps * steps <= degree - 1:
        steps *= 2
    return steps


@cache
def _coefficients(pairs: int, modulus: int) -> tuple[int, ...]:
    product = [1]
    for k in range(1, pairs + 1):
        root = k * (2 * pairs + 1 - k)
        product = [(root * a + b) % modulus for a, b in zip([*product, 0], [0, *product], strict=True)]
    scale = pow(product[0], -1, modulus)
    return tuple(scale * each % modulus for each in product)


class _Evaluation(Generic[V]):
    """One evaluation; the powers it made are kept."""

    def __init__(self, engine: Engine[V], u: V, babies: int) -> None:
        self.engine, self.babies = engine, babies
        self.powers = {1: u}

    def run(self, coefficients: Sequence[int]) -> V:
        """The value, ready for a product or a rotation."""
        if len(coefficients) <= self.babies + 1:
            return self.engine.combine(self._leaf(coefficients))
        return self.engine.settle(self._joined(coefficients))

    def _joined(self, coefficients: Sequence[int]) -> V:
        """A sum of products; the upper half is done first, for the lower one waits for nothing."""
        joint = self.babies
        while 2 * joint < len(coefficients) - 1:
            joint *= 2
        power = self._power(joint)
        upper = coefficients[joint:]
        if len(upper) <= self.babies + 1:
            return self.engine.sum_of_products(
                [*self._steps(coefficients[:joint]), (self._leaf(upper), power)], None
            )
        total, lower = self.engine.multiply(self.run(upper), power), coefficients[:joint]
        while len(lower) > MOST_STEPS * self.babies:  # one sum more is cheaper than many high powers
            half = len(lower) // 2
            power = self._power(half)
            part = self.engine.sum_of_products(self._steps(lower[half:]), None, (power, total))
            total = self.engine.add(total, self.engine.multiply(self.engine.settle(part), power))
            lower = lower[:half]
        return self.engine.sum_of_products(self._steps(lower), total)

    def _steps(self, coefficients: Sequence[int]) -> list[tuple[Combination[V], V | None]]:
        """Leaves of b coefficients and the powers they are multiplied by."""
        return [
            (self._leaf(coefficients[start : start + self.babies]), self._power(start) if start else None)
            for start in range(0, len(coefficients), self.babies)
        ]

    def _leaf(self, coefficients: Sequence[int]) -> Combination[V]:
        terms = [(c, self._power(i)) for i, c in enumerate(coefficients) if i]
        return Combination(terms, coefficients[0])

    def _power(self, exponent: int) -> V:
        if exponent not in self.powers:
            most = 1 << (exponent - 1).bit_length() - 1  # the largest power of two below the exponent
            product = self.engine.multiply(self._power(most), self._power(exponent - most))
            self.powers[exponent] = self.engine.settle(product)
        return self.powers[exponent]
