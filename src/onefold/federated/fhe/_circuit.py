"""What the server computes: a number per class that is not 0 exactly where the class attains the minimum.

For every value t let G(t) count the sites whose minimum is below t, and O_c(t) those whose measure of class
c is their minimum and equal to t. With h(t) = [G(t) = 0] = [t <= global minimum g] the sum over t of h(t)
O_c(t) is O_c(g): below g there are no marks, above it h is 0. The sum is not 0 exactly when class c attains
the minimum (004 eq. 106). The querier adds the summands up after decryption, which takes no rotation and
makes no noise.

**The zero test** is a polynomial over Z_t that is 1 at the count 0 and 0 at the counts 1 ... Q. Its roots
are paired: with m = Q rounded up to even, u = G (G - (m + 1)) takes the same value at k and at m + 1 - k.
So the test is a polynomial of half the degree in u, prod_{k <= m/2} (u + k (m + 1 - k)), scaled to 1 at u =
0. Its roots cover every count from 1 to Q, so a site that does not answer changes nothing. It is evaluated
after Paterson and Stockmeyer: powers u ... u^b, sums of b of them with known coefficients, and these sums
joined by u^b, u^2b ... Products that are only added are relinearised together, in an order that keeps the
depth small.

**Two digits.** Let (s_q, t_q) be the digits of the minimum of site q. With h1(s) = [s <= smallest high
digit], which the zero test gives, the site can still attain the minimum when h1(s_q) = 1, that is sigma_q =
sum_s h1(s) [s_q = s]. The second pass weighs by it what it counts over sites: G(t) = sum_q sigma_q [t_q <
t], and O_c(t) = sum_q sigma_q [t_q = t, class c attains].

The circuit is written once against :class:`Engine`. It runs on ciphertexts, on plain slots (mode
``simulate``) and on noise estimates, so the three cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Generic, Protocol, TypeVar

from onefold.federated.fhe import _hiding
from onefold.federated.fhe._layout import PLAIN_MODULUS, Layout, Slots

V = TypeVar("V")

MOST_STEPS = 4  # powers u^b, u^2b ... in one sum, if there are more sums than one


# --- operations -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Combination(Generic[V]):
    """``constant`` plus the sum of coefficient times value; at least one term."""

    terms: Sequence[tuple[int, V]]
    constant: int


class Engine(Protocol[V]):
    """Arithmetic on values that hold one number modulo t per slot."""

    def combine(self, sum_: Combination[V]) -> V:
        """Return a sum of values with known coefficients, plus a constant in every slot."""

    def sum_of_products(
        self,
        pairs: Sequence[tuple[Combination[V], V | None]],
        extra: V | None,
        aim: tuple[V, V] | None = None,
    ) -> V:
        """Return the sum of combinations, each times its partner if it has one, and ``extra``.

        The sum is not relinearised. Without ``extra`` there may be an ``aim``: the sum, once settled and
        multiplied by the first of the two, can then be added to the second.
        """

    def add(self, a: V, b: V) -> V:
        """Add slot by slot."""

    def multiply(self, a: V, b: V) -> V:
        """Multiply slot by slot; sums of products are relinearised later, all at once."""

    def relinearise(self, a: V) -> V:
        """Make a product fit for a rotation."""

    def settle(self, a: V) -> V:
        """Relinearise if necessary, and drop a prime to reduce the noise."""

    def rotate(self, a: V, steps: int) -> V:
        """Shift each row: slot s gets what was in slot s + steps."""

    def scale_slots(self, a: V, slots: Slots) -> V:
        """Multiply by known numbers slot by slot."""

    def shift_slots(self, a: V, slots: Slots) -> V:
        """Add known numbers slot by slot."""


# --- zero test --------------------------------------------------------------------------------------------


def zero_test(engine: Engine[V], n_clients: int, counts: V) -> V:
    """Return 1 where a count (of at most ``n_clients``) is 0, and 0 elsewhere."""
    if n_clients == 1:
        return engine.combine(Combination([(-1, counts)], 1))
    pairs = (n_clients + 1) // 2  # pairs of roots: the degree in u
    shifted = engine.combine(Combination([(1, counts)], -(2 * pairs + 1)))
    u = engine.settle(engine.multiply(counts, shifted))
    return _PatersonStockmeyer(engine, u, _baby_steps(pairs)).run(_coefficients(pairs))


def _baby_steps(degree: int) -> int:
    """Return how many powers are made one by one: a power of two, about as many as there are joints."""
    steps = 2
    while 4 * steps * steps <= degree - 1:
        steps *= 2
    return steps


@cache
def _coefficients(pairs: int) -> tuple[int, ...]:
    """Return the coefficients of 1, u, u^2 ... modulo t; the value at u = 0 is 1."""
    product = [1]
    for k in range(1, pairs + 1):
        root = k * (2 * pairs + 1 - k)
        product = [(root * a + b) % PLAIN_MODULUS for a, b in zip([*product, 0], [0, *product], strict=True)]
    scale = pow(product[0], -1, PLAIN_MODULUS)
    return tuple(scale * each % PLAIN_MODULUS for each in product)


class _PatersonStockmeyer(Generic[V]):
    """One evaluation of a polynomial in u; the powers it made are kept."""

    def __init__(self, engine: Engine[V], u: V, babies: int) -> None:
        self.engine, self.babies = engine, babies
        self.powers = {1: u}

    def run(self, coefficients: Sequence[int]) -> V:
        """Return the value, ready for a product or a rotation."""
        if len(coefficients) <= self.babies + 1:
            return self.engine.combine(self._leaf(coefficients))
        return self.engine.settle(self._joined(coefficients))

    def _joined(self, coefficients: Sequence[int]) -> V:
        """Return a sum of products; the upper half is done first, for the lower one waits for nothing."""
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
        """Return leaves of b coefficients and the powers they are multiplied by."""
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


# --- two digits -------------------------------------------------------------------------------------------


def second_pass(
    engine: Engine[V], layout: Layout, n_clients: int, counts: V, sent: Iterable[tuple[V, V, Sequence[V]]]
) -> tuple[V, list[V]]:
    """Return h of the low digits and the planes of marks, weighed by who can still attain the minimum.

    ``counts`` are those of the high digits. Each site has ``sent`` its high digit one-hot, the thermometer of
    its low digit, and its planes of marks.
    """
    first = zero_test(engine, n_clients, counts)
    below: V | None = None
    marks: list[V] = []
    for hot, low, planes in sent:
        still = _block_sums(engine, engine.relinearise(engine.multiply(first, hot)), layout)
        product = engine.multiply(still, low)
        below = product if below is None else engine.add(below, product)
        products = [engine.multiply(still, plane) for plane in planes]
        marks = [engine.add(a, b) for a, b in zip(marks, products, strict=True)] if marks else products
    if below is None:
        raise AssertionError("at least one site takes part")
    return zero_test(engine, n_clients, engine.settle(below)), [engine.settle(plane) for plane in marks]


def _block_sums(engine: Engine[V], value: V, layout: Layout) -> V:
    """Return, in every position, the sum over all positions of its block."""
    steps = layout.blocks
    while steps < layout.row:
        value = engine.add(value, engine.rotate(value, steps))
        steps *= 2
    return engine.settle(value)


# --- the classes at the minimum ---------------------------------------------------------------------------


def pick(
    engine: Engine[V],
    layout: Layout,
    below: V,
    marks: Sequence[V],
    factors: Callable[[Layout], Slots] = _hiding.factors,
) -> V:
    """Return all h(t) O_c(t) with random factors, the summands of every class in slots of its own.

    ``below`` holds h, and ``marks`` the planes of O. Both have a prime to drop, which removes the noise that
    random factors and rotations add.
    """
    total: V | None = None
    for plane, mark in enumerate(marks):
        if plane:
            below = engine.rotate(below, layout.plane_step)
        blinded = engine.settle(engine.scale_slots(mark, factors(layout)))
        product = engine.multiply(engine.settle(below), blinded)
        total = product if total is None else engine.add(total, product)
    if total is None:
        raise AssertionError("a layout has at least one plane")
    return engine.relinearise(total)
