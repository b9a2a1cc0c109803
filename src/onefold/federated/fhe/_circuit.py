"""What the server computes: a number per class that is not 0 exactly where the class attains the minimum.

For every value t let G(t) count the clients whose minimum is below t, and O_c(t) those whose measure of
class c is their minimum and equal to t. With h(t) = [G(t) = 0] = [t <= global minimum g] the sum over t of
h(t) O_c(t) is O_c(g): below g there are no marks, above it h is 0. It is not 0 exactly when class c attains
the minimum (004 eq. 106). The server multiplies the marks by random non-zero numbers, so O_c(g) itself is
not told, and hides all slots that hold anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from onefold.federated.fhe._engine import Engine
from onefold.federated.fhe._layout import Layout, Slots
from onefold.federated.fhe._randomness import nonzero, uniform

__all__ = ["PLAIN_MODULUS", "blinding", "hidden", "pick", "window_sum"]

V = TypeVar("V")

# The smallest prime that gives every slot of N <= 32768 a number of its own.
PLAIN_MODULUS = 65537


def blinding(layout: Layout) -> Slots:
    """Random non-zero factors for one plane of marks; 1 in the check column, whose sum is to be told."""
    factors = nonzero(2 * layout.row, PLAIN_MODULUS)
    factors[layout.positions() // layout.window == layout.n_columns - 1] = 1
    return factors


def hidden(layout: Layout, n_queries: int) -> Slots:
    """Random numbers for every slot that holds no answer, 0 for the others."""
    pads = uniform(2 * layout.row, PLAIN_MODULUS)
    pads[layout.answers(n_queries)] = 0
    return pads


def pick(
    engine: Engine[V],
    layout: Layout,
    below: V,
    marks: Sequence[V],
    factors: Callable[[Layout], Slots] = blinding,
) -> V:
    """The sum over t of h(t) O_c(t) with a random factor, for all classes at once.

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
    total = window_sum(engine, engine.relinearise(total), layout.window, layout.blocks)
    for steps in layout.block_rotations():
        total = engine.add(total, engine.rotate(total, steps))
    return total


def window_sum(engine: Engine[V], value: V, window: int, unit: int) -> V:
    """In every slot the sum over it and the next ``window - 1`` positions, by doubling."""
    total: V | None = None
    taken, length = 0, 1
    while True:
        if window & length:
            part = engine.rotate(value, taken * unit) if taken else value
            total = part if total is None else engine.add(total, part)
            taken += length
        length *= 2
        if length > window:
            break
        value = engine.add(value, engine.rotate(value, length // 2 * unit))
    if total is None:
        raise AssertionError("a window has at least one position")
    return total
