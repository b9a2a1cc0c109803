"""Measures of two digits: the second pass goes on with the clients whose high digit is the smallest.

Let (s_q, t_q) be the digits of client q's minimum. With h1(s) = [s <= smallest high digit], which the zero
test gives, the client is still in the race when h1(s_q) = 1: sigma_q = sum_s h1(s) [s_q = s]. What is
counted over clients in the second pass is weighed by it: G(t) = sum_q sigma_q [t_q < t], and O_c(t) = sum_q
sigma_q [t_q = t, class c attains].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from onefold.federated.fhe._circuit import PLAIN_MODULUS
from onefold.federated.fhe._engine import Engine
from onefold.federated.fhe._layout import Layout
from onefold.federated.fhe._zero_test import ZeroTest

__all__ = ["race"]

V = TypeVar("V")


def race(
    engine: Engine[V],
    layout: Layout,
    n_clients: int,
    counts: V,
    runners: Iterable[tuple[V, V, Sequence[V]]],
) -> tuple[V, list[V]]:
    """h of the low digits and the planes of marks, from all clients that are still in the race.

    Of each client comes the one-hot high digit, the thermometer of the low one, and the planes of marks.
    """
    test = ZeroTest(n_clients, PLAIN_MODULUS)
    first = test.evaluate(engine, counts)
    below: V | None = None
    marks: list[V] = []
    for hot, low, planes in runners:
        still = _total(engine, engine.relinearise(engine.multiply(first, hot)), layout)
        below = _plus(engine, below, engine.multiply(still, low))
        products = [engine.multiply(still, plane) for plane in planes]
        marks = [engine.add(a, b) for a, b in zip(marks, products, strict=True)] if marks else products
    if below is None:
        raise AssertionError("at least one client takes part")
    return test.evaluate(engine, engine.settle(below)), [engine.settle(plane) for plane in marks]


def _total(engine: Engine[V], value: V, layout: Layout) -> V:
    """In every position the sum over all positions of its block."""
    steps = layout.blocks
    while steps < layout.row:
        value = engine.add(value, engine.rotate(value, steps))
        steps *= 2
    return engine.settle(value)


def _plus(engine: Engine[V], a: V | None, b: V) -> V:
    return b if a is None else engine.add(a, b)
