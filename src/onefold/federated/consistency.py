"""Clients that contradict the other owners of their classes, and the rule that goes on without them.

Liars hide among few owners, not among many queries: over a table of queries the answers of honest owners of a
class rise and fall together, whatever their number of rows; those of a client that swaps classes or invents
numbers do not. No labels are needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold._base.validation import check_whole_number
from onefold.federated.aggregate import Array, check_answers, owned_classes, trimmed
from onefold.federated.trust import agreement

__all__ = ["checked", "disagreeing"]

# Share of the usual agreement below which a client is not one of the others.
LOWEST_SHARE = 0.5


def disagreeing(answers: ArrayLike, n_liars: int = 1, largest: float = np.inf) -> NDArray[np.intp]:
    """Numbers of at most ``n_liars`` clients whose answers do not follow the other owners', the worst first.

    A client is one of them if its :func:`~onefold.federated.trust.agreement` is below half of the usual one
    (the median over clients), by a standard error of a rank correlation. Only classes count that have 2 f + 1
    other owners, f the liars still expected: their median then lies between honest answers, so that liars
    cannot make an honest client look odd at will. With fewer than a handful of queries nobody is found.

    Parameters
    ----------
    answers : (Q, n, C).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> distance = rng.random((1, 50, 2))
    >>> answers = distance + 0.1 * rng.random((5, 50, 2))
    >>> answers[3] = answers[3, :, ::-1]  # swaps the classes
    >>> disagreeing(answers).tolist()
    [3]
    """
    check_whole_number("n_liars", n_liars, at_least=0)
    values = check_answers(answers, 3, largest)
    clients = np.arange(len(values))
    found: list[int] = []
    while len(found) < n_liars:
        left = np.delete(clients, found)
        others = 2 * (n_liars - len(found)) + 1
        agrees = agreement(values[left], largest, least_others=others)
        if np.isnan(agrees).all():
            break
        worst = int(np.nanargmin(agrees))
        chance = 1.0 / np.sqrt(values.shape[1] - 1)
        if not agrees[worst] < LOWEST_SHARE * np.nanmedian(agrees) - chance:
            break
        found.append(int(left[worst]))
    return np.array(found, dtype=np.intp)


def checked(
    answers: ArrayLike,
    n_liars: int = 1,
    largest: float = np.inf,
    found: ArrayLike | None = None,
) -> Array:
    """The trimmed rule without those who disagree: (Q, n, C) -> (n, C).

    Whoever is found by :func:`disagreeing` counts as one of the f liars, and only as many as are left are
    trimmed. Where all liars are found this is the minimum over the others, which loses nothing where owners
    have unequal shares of a class; the trimmed rule does. Where none is found it is the trimmed rule. If
    somebody is found who did not lie, one liar less is withstood.

    Parameters
    ----------
    found : clients to do without, when they are known already.

    Examples
    --------
    >>> checked([[[0.0]], [[0.3]], [[0.4]]], n_liars=1).tolist()  # one query says nothing: trimmed
    [[0.3]]
    """
    values = check_answers(answers, 3, largest)
    odd = disagreeing(values, n_liars, largest) if found is None else np.asarray(found, dtype=np.intp)
    kept = np.delete(values, odd, axis=0)
    return trimmed(kept, max(n_liars - odd.size, 0), owned_classes(kept, largest), largest)
