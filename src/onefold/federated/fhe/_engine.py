"""The few operations that the server needs, and the same operations on plain slots.

The circuit is written once against :class:`Engine`. It runs on ciphertexts, on plain slots
(:class:`PlainSlots`, mode ``simulate``) and on noise figures (:mod:`._noise`), so none of the three can
differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Combination", "Engine", "PlainSlots"]

V = TypeVar("V")
Slots = NDArray[np.int64]


@dataclass(frozen=True)
class Combination(Generic[V]):
    """``constant`` plus the sum of coefficient times value; at least one term."""

    terms: Sequence[tuple[int, V]]
    constant: int


class Engine(Protocol[V]):
    """Arithmetic on values that hold one number modulo t per slot."""

    def combine(self, sum_: Combination[V]) -> V:
        """A sum of values with known coefficients, and a constant in every slot."""

    def sum_of_products(
        self,
        pairs: Sequence[tuple[Combination[V], V | None]],
        extra: V | None,
        aim: tuple[V, V] | None = None,
    ) -> V:
        """The sum of combinations, each times its partner if it has one, and ``extra``; not relinearised.

        Without ``extra`` there may be an ``aim``: the sum, once settled and multiplied by the first of the
        two, can then be added to the second.
        """

    def add(self, a: V, b: V) -> V:
        """Slot by slot."""

    def multiply(self, a: V, b: V) -> V:
        """Slot by slot; not yet relinearised, so that sums of products are relinearised once."""

    def relinearise(self, a: V) -> V:
        """Make a product fit for a rotation."""

    def settle(self, a: V) -> V:
        """Relinearise what needs it, and drop a prime to bring the noise down."""

    def rotate(self, a: V, steps: int) -> V:
        """Each row shifted: slot s gets what was in slot s + steps."""

    def scale_slots(self, a: V, slots: Slots) -> V:
        """Slot by slot times known numbers."""

    def shift_slots(self, a: V, slots: Slots) -> V:
        """Slot by slot plus known numbers."""


class PlainSlots:
    """The operations on plain numbers modulo t: what the ciphertexts hold, without the encryption."""

    def __init__(self, modulus: int) -> None:
        self.modulus = modulus

    def combine(self, sum_: Combination[Slots]) -> Slots:
        """A sum with known coefficients; every term is below t^2 < 2^33."""
        total = np.full_like(sum_.terms[0][1], sum_.constant % self.modulus)
        for coefficient, value in sum_.terms:
            total += coefficient % self.modulus * value
        return np.asarray(total % self.modulus)

    def sum_of_products(
        self,
        pairs: Sequence[tuple[Combination[Slots], Slots | None]],
        extra: Slots | None,
        aim: tuple[Slots, Slots] | None = None,
    ) -> Slots:
        """Product by product."""
        parts = [] if extra is None else [extra]
        for sum_, partner in pairs:
            value = self.combine(sum_)
            parts.append(value if partner is None else self.multiply(value, partner))
        return np.asarray(sum(parts) % self.modulus)

    def add(self, a: Slots, b: Slots) -> Slots:
        """Slot by slot."""
        return (a + b) % self.modulus

    def multiply(self, a: Slots, b: Slots) -> Slots:
        """Slot by slot."""
        return a * b % self.modulus

    def relinearise(self, a: Slots) -> Slots:
        """Plain numbers need none."""
        return a

    def settle(self, a: Slots) -> Slots:
        """Plain numbers have no noise."""
        return a

    def rotate(self, a: Slots, steps: int) -> Slots:
        """Each of the two rows shifted."""
        return np.roll(a.reshape(2, -1), -steps, axis=1).ravel()

    def scale_slots(self, a: Slots, slots: Slots) -> Slots:
        """Slot by slot."""
        return a * slots % self.modulus

    def shift_slots(self, a: Slots, slots: Slots) -> Slots:
        """Slot by slot."""
        return (a + slots) % self.modulus
