"""What the server computes: a number per class that is not 0 exactly where the class attains the minimum.

For every value t let G(t) count the clients whose minimum is below t, and O_c(t) those whose measure of
class c is their minimum and equal to t. With h(t) = [G(t) = 0] = [t <= global minimum g] the sum over t of
h(t) O_c(t) is O_c(g): below g there are no marks, above it h is 0. It is not 0 exactly when class c attains
the minimum (004 eq. 106). The server multiplies the marks by random non-zero numbers, so O_c(g) itself is
not told.

The sum over t is left to whoever decrypts. The server adds random numbers to its summands that add up to 0:
what is decrypted are *shares* of the sum, uniform among all that have it, so they tell the sum and nothing
else. That takes no rotation and makes no noise. All slots that hold no summand get random numbers as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from onefold.federated.fhe._engine import Engine
from onefold.federated.fhe._layout import Layout, Slots
from onefold.federated.fhe._randomness import nonzero, uniform

__all__ = ["PLAIN_MODULUS", "blinding", "hidden", "pick"]

V = TypeVar("V")

# The smallest prime that gives every slot of N <= 32768 a number of its own.
PLAIN_MODULUS = 65537


def blinding(layout: Layout) -> Slots:
    """Random non-zero factors for one plane of marks; 1 in the check column, whose sum is to be told."""
    factors = nonzero(2 * layout.row, PLAIN_MODULUS)
    factors[layout.positions() // layout.window == layout.n_columns - 1] = 1
    return factors


def hidden(layout: Layout, n_queries: int) -> Slots:
    """Uniform random numbers for all slots, but those of the summands of one answer add up to 0."""
    pads = uniform(2 * layout.row, PLAIN_MODULUS)
    summands = layout.summands(n_queries)
    pads[summands[..., 0]] = -pads[summands[..., 1:]].sum(axis=-1) % PLAIN_MODULUS
    return pads


def pick(
    engine: Engine[V],
    layout: Layout,
    below: V,
    marks: Sequence[V],
    factors: Callable[[Layout], Slots] = blinding,
) -> V:
    """All h(t) O_c(t) with random factors, the summands of every class in slots of its own.

    ``below`` holds h, and ``marks`` the planes of O, both with a prime to drop: it takes off what random
    factors and rotations added to the noise.
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
