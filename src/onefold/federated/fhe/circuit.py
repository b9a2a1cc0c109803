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

**Where numbers lie.** A ciphertext has two rows of ``row`` slots; a slot holds a number modulo t. Slot ``j *
B + b`` of a row belongs to position j = 0 ... T - 1 (T = 2^p values of a digit) of block b = 0 ... B - 1 (B =
row / T). A rotation by B is therefore a *cyclic* shift of the positions inside every block at once, and no
class needs a rotation of its own.

A query owns ``spread`` neighbouring blocks. In its block number i the thermometer at position j is about
the value t = (j + i w) mod T. After a rotation by k' spread w positions it is about t = (j + k w) mod T
with k = k' spread + i. Class c owns the w positions from c w on. As k runs, these positions meet every
value t once. The mark of (c, t) is put where the rotation brings the two together: with x = (t - c w) mod T
= k w + r, it is at position c w + r of plane k' and block i. Once the planes are added, the sum over all t
is a sum over a window of w positions and over the blocks. These slots are the *summands* of the class.

With ``spread = 1`` a batch of queries fills the ciphertext. A lone query takes all blocks of a row and
needs one plane.

**What is hidden.** All random numbers come from the operating system, never from a generator with a seed. The
server uses three kinds:

* *factors*: every mark is multiplied by a random non-zero number, so the querier sees that a class attains
  the minimum, not how many sites say so.
* *pads*: the summands of one answer get random numbers that add up to 0. What the querier decrypts are
  *shares* of the sum, uniform among all that have this sum. All other slots get uniform random numbers.
* *the flood*, on the errors: :func:`onefold.federated.fhe.seal.flood`.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from onefold._base.arrays import Integers, Mask

V = TypeVar("V")

# t: the smallest prime that gives every slot of N <= 32768 a number of its own.
PLAIN_MODULUS = 65537
MISSING = -1  # in place of a quantised measure: the site does not have the class
MOST_STEPS = 4  # powers u^b, u^2b ... in one sum, if there are more sums than one

Slots = Integers  # one number modulo t for each slot of a ciphertext


# --- geometry ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """The geometry of one ciphertext of queries.

    ``n_columns`` counts the classes and the check column behind them.
    """

    n_values: int
    n_columns: int
    row: int
    spread: int

    @property
    def blocks(self) -> int:
        """Blocks in one row."""
        return self.row // self.n_values

    @property
    def capacity(self) -> int:
        """Queries that one ciphertext holds."""
        return 2 * self.blocks // self.spread

    @property
    def window(self) -> int:
        """Positions that a class owns."""
        return self.n_values // self.n_columns

    @property
    def planes(self) -> int:
        """Ciphertexts of marks: rotations of the thermometer until every class has met every value."""
        shifts = -(-self.n_values // self.window)
        return -(-shifts // self.spread)

    @property
    def plane_step(self) -> int:
        """The rotation from one plane to the next."""
        return self.spread * self.window * self.blocks % self.row

    def slots(self, query: Slots, block: Slots, position: Slots) -> Slots:
        """Return the slots of some positions of some blocks of some queries."""
        which = query * self.spread + block
        side, inside = np.divmod(which, self.blocks)
        return np.asarray(side * self.row + position * self.blocks + inside, dtype=np.int64)

    def places(self, query: Slots, column: Slots, value: Slots) -> tuple[Slots, Slots]:
        """Return plane and slot of the mark of (query, column, value)."""
        shift, rest = np.divmod((value - column * self.window) % self.n_values, self.window)
        plane, block = np.divmod(shift, self.spread)
        return plane, self.slots(query, block, column * self.window + rest)

    def values(self) -> Slots:
        """Return the value t that every slot of a thermometer is about, before any rotation."""
        block = np.arange(2 * self.row) % self.blocks % self.spread
        return np.asarray((self.positions() + block * self.window) % self.n_values)

    def positions(self) -> Slots:
        """Return the position of every slot in its block."""
        return np.arange(2 * self.row) % self.row // self.blocks

    def queries(self) -> Slots:
        """Return the query that every slot belongs to."""
        side, inside = np.divmod(np.arange(2 * self.row), self.row)
        return np.asarray((side * self.blocks + inside % self.blocks) // self.spread)

    def summands(self, n_queries: int) -> Slots:
        """Return the slots (n_queries, n_columns, window times spread) whose sums are the answer."""
        sizes = (n_queries, self.n_columns, self.window, self.spread)
        query, column, rest, block = np.indices(sizes, dtype=np.int64)
        return self.slots(query, block, column * self.window + rest).reshape(*sizes[:2], -1)


def layouts(n_values: int, n_columns: int, row: int, n_queries: int) -> list[tuple[Layout, slice]]:
    """Spread ``n_queries`` rows over ciphertexts: full ones, and a last one with wider queries."""
    full = Layout(n_values, n_columns, row, 1)
    shared: list[tuple[Layout, slice]] = []
    for start in range(0, n_queries, full.capacity):
        stop = min(start + full.capacity, n_queries)
        shared.append((_widest(full, stop - start), slice(start, stop)))
    return shared


def _widest(full: Layout, n_queries: int) -> Layout:
    best = full
    while best.planes > 1 and best.spread < best.blocks and 2 * n_queries <= best.capacity:
        best = Layout(full.n_values, full.n_columns, full.row, 2 * best.spread)
    return best


# --- measures to slots, slots to an answer ----------------------------------------------------------------


class Encoded(NamedTuple):
    """What a site says about some rows, slot by slot."""

    thermometer: Slots  # of the minimum, or of its high digit
    hot: Slots | None  # of the high digit, if there are two
    low: Slots | None  # thermometer of the low digit, if there are two
    marks: Slots  # (planes, slots)

    def ciphertexts(self) -> list[Slots]:
        """Return the slots of every ciphertext of the message, in their order."""
        digits = [self.thermometer, self.hot, self.low]
        return [*(each for each in digits if each is not None), *self.marks]


def encode(values: Integers, layout: Layout, digits: int) -> Encoded:
    """Return the slots of rows (n, C) of quantised measures."""
    largest = layout.n_values**digits
    minima = np.where(values == MISSING, largest, values).min(axis=1)  # above all values if nothing is there
    query, column = np.nonzero(values == minima[:, None])
    if digits == 1:
        planes = _marked(layout, query, column, minima[query]) + check_marks(layout, len(values))
        return Encoded(_thermometer(minima, layout, layout.values()), None, None, planes)
    high, low = np.divmod(minima, layout.n_values)
    position = layout.positions()
    return Encoded(
        _thermometer(high, layout, position),
        (_per_slot(high, layout) == position).astype(np.int64),
        _thermometer(low, layout, layout.values()),
        _marked(layout, query, column, low[query]),
    )


def check_marks(layout: Layout, n_rows: int, number: int = 1) -> Slots:
    """Return planes with ``number`` in the check column of every row at t = 0, where h is always 1.

    With one digit each site sends a 1 there, and the sum must be the number of sites. With two the server
    puts the number there, because what sites send is weighed.
    """
    row = np.arange(n_rows)
    return _marked(layout, row, np.full(n_rows, layout.n_columns - 1), np.zeros_like(row)) * number


def _marked(layout: Layout, query: Slots, column: Slots, value: Slots) -> Slots:
    planes = np.zeros((layout.planes, 2 * layout.row), dtype=np.int64)
    planes[layout.places(query, column, value)] = 1
    return planes


def _per_slot(numbers: Slots, layout: Layout) -> Slots:
    """Return the number of a row in all slots of the row; above all values in slots of no row."""
    padded = np.full(layout.capacity, layout.n_values, dtype=np.int64)
    padded[: len(numbers)] = numbers
    return padded[layout.queries()]


def _thermometer(numbers: Slots, layout: Layout, values: Slots) -> Slots:
    """Return [number < t] in every slot, for the value t that the slot is about."""
    return (_per_slot(numbers, layout) < values).astype(np.int64)


def attained(slots: Slots, layout: Layout, n_rows: int) -> tuple[Mask, Slots]:
    """Return which classes attain the minimum (n_rows, C), and what the check column says."""
    numbers = slots[layout.summands(n_rows)].sum(axis=-1) % PLAIN_MODULUS
    return numbers[:, :-1] != 0, numbers[:, -1]


# --- what is hidden ---------------------------------------------------------------------------------------


def random_words(count: int, kind: type[np.unsignedinteger] = np.uint16) -> Integers:
    """Return whole numbers uniform over all that ``kind`` (at most 32 bits) holds."""
    size = np.dtype(kind).itemsize
    return np.frombuffer(os.urandom(size * count), dtype=kind).astype(np.int64)


def _uniform(count: int, modulus: int) -> Integers:
    """Return whole numbers uniform in 0 ... modulus - 1, exactly: numbers that would bias are drawn again."""
    last = 2**32 // modulus * modulus
    drawn = random_words(count, np.uint32)
    while (again := np.flatnonzero(drawn >= last)).size:
        drawn[again] = random_words(again.size, np.uint32)
    return drawn % modulus


def factors(layout: Layout) -> Slots:
    """Return random non-zero factors for one plane of marks; 1 in the check column, whose sum is public."""
    drawn = 1 + _uniform(2 * layout.row, PLAIN_MODULUS - 1)
    drawn[layout.positions() // layout.window == layout.n_columns - 1] = 1
    return drawn


def pads(layout: Layout, n_queries: int) -> Slots:
    """Return uniform random numbers for all slots; those of the summands of one answer add up to 0."""
    drawn = _uniform(2 * layout.row, PLAIN_MODULUS)
    summands = layout.summands(n_queries)
    drawn[summands[..., 0]] = -drawn[summands[..., 1:]].sum(axis=-1) % PLAIN_MODULUS
    return drawn


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
        parts = [] if extra is None else [extra]
        for sum_, partner in pairs:
            value = self.combine(sum_)
            parts.append(value if partner is None else self.multiply(value, partner))
        return reduce(self.add, parts)

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

    def scale_slots(self, a: V, slots: Slots, /) -> V:
        """Multiply by known numbers slot by slot."""

    def shift_slots(self, a: V, slots: Slots, /) -> V:
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
    factors: Callable[[Layout], Slots] = factors,
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
