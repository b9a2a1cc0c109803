"""Targets of the battery: every mechanism, randomised labels, private moments, counts of tables.

As in ``row_targets``, the record that the datasets differ in lies outside the declared ball,
and what the numbers and their noise have to be is computed by hand.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from attacks.row_targets import CLOSE, DELTA, NORMS, mechanism_target, needed_mu, reachable
from onefold._base.arrays import Floats
from onefold.audit import AttackTarget
from onefold.privacy import PrivateMoments, RandomisedLabels

LARGE_DELTA = 0.3  # at which few releases show the loss of Gaussian noise

# --- labels ------------------------------------------------------------------------------------------------

CLASSES = ("a", "bb", "long name")


def _label_target(epsilon: float) -> AttackTarget:
    mechanism = RandomisedLabels(epsilon, CLASSES)

    def released(side: int, n: int) -> Any:
        return mechanism.randomise(np.repeat(CLASSES[2 * side], n))

    def draw(side: int, n: int) -> Floats:
        return np.asarray(np.searchsorted(CLASSES, released(side, n)), dtype=np.float64)[:, np.newaxis]

    def schema(side: int) -> dict[str, Any]:
        labels = released(side, 5)
        return {"type": labels.dtype, "bytes": labels.nbytes}

    labels = mechanism.guarantee().labels
    assert labels is not None
    return AttackTarget("RandomisedLabels", "label", labels[0], labels[1], draw, schema=schema)


# --- moments -----------------------------------------------------------------------------------------------

# Of the budget, without a private centre: counts, sums, second moments.
SHARES = (0.02, 0.28, 0.70)
BLOCK_SENSITIVITIES = {
    "add-remove": (1.0, 1.0, 1.0),
    "replace": (math.sqrt(2.0), 2.0, math.sqrt(2.0)),
}
ALWAYS = np.array([[0.3, 0.1], [-0.2, 0.4]])
EDGE, OTHER_EDGE = np.array([30.0, 40.0]), np.array([-40.0, 30.0])  # far outside the unit ball
MANY_ROWS = 20  # of a person: were they counted one by one, everybody could see it
BATCH = 250  # classes of one release: each is a release of its own, since records have one class
Table = list[tuple[int, Floats]]  # (class, row) of one block of classes


def moment_rows(unit: str, neighbours: str, side: int, copies: int = 1) -> Table:
    """Return the rows of two classes, and the record that the neighbours differ in."""
    rows: Table = [(label, row) for label in (0, 1) for row in ALWAYS]
    if unit == "entry":
        return [*rows, (0, np.array([-50.0 if side else 50.0, 0.0]))]
    if neighbours == "replace":
        return [*rows, (1, OTHER_EDGE) if side else (0, EDGE)]
    return [*rows, *([(0, EDGE)] * (copies * side))]


def moments_without_noise(rows: Table) -> Floats:
    """Compute counts, sums and second moments (above and on the diagonal) of two classes, by hand."""
    found = []
    for label in (0, 1):
        own = np.array([row for code, row in rows if code == label])
        own = own / np.maximum(np.linalg.norm(own, axis=1), 1.0)[:, np.newaxis]
        second = own.T @ own
        found.append([len(own), *own.sum(axis=0), second[0, 0], second[1, 1], second[0, 1]])
    return np.array(found, dtype=np.float64).ravel()


def released_moments(moments: Any) -> Floats:
    """Return the released numbers of pairs of classes, one row each."""
    second = moments.second_moments_
    columns = [moments.counts_, *moments.sums_.T, second[:, 0, 0], second[:, 1, 1], second[:, 0, 1]]
    return np.column_stack(columns).reshape(len(moments.counts_) // 2, -1)


def moment_levels(mu: float, neighbours: str) -> Floats:
    """Compute the noise that a budget mu needs on the numbers of two classes."""
    count, total, second = (
        bound / (mu * math.sqrt(share))
        for bound, share in zip(BLOCK_SENSITIVITIES[neighbours], SHARES, strict=True)
    )
    return np.tile([count, total, total, second, second, second / math.sqrt(2.0)], 2)


def moment_target(
    name: str,
    unit: str,
    neighbours: str,
    epsilon: float,
    fit: Callable[..., Any],
    **looks: Any,
) -> AttackTarget:
    """Describe moments of many classes: two classes are one release, since records have one class."""

    # A person has more records than may count, and all of them together must count as one.
    copies = MANY_ROWS + 5 if unit == "person" else 1

    def fitted(side: int, pairs: int) -> Any:
        block = moment_rows(unit, neighbours, side, copies)
        X = np.tile(np.array([row for _, row in block]), (pairs, 1))
        y = np.add.outer(2 * np.arange(pairs), [label for label, _ in block]).ravel()
        options = {"classes": np.arange(2 * pairs), "neighbours": neighbours, "epsilon": epsilon}
        if unit != "person":
            return fit(X, y, None, **options)
        numbers = np.minimum(np.arange(len(block)), 2 * len(ALWAYS))
        person = np.add.outer(len(block) * np.arange(pairs), numbers).ravel()
        return fit(X, y, person, **options, rows_per_person=MANY_ROWS)

    def draw(side: int, n: int) -> Floats:
        parts = [min(BATCH, n - start) for start in range(0, n, BATCH)]
        return np.concatenate([released_moments(fitted(side, pairs)) for pairs in parts])

    def means(releases: Floats, side: int) -> Floats:
        return moments_without_noise(moment_rows(unit, neighbours, side))

    def close(side: int, n: int) -> Floats:
        X = np.zeros((3 * BATCH, 2))
        X[::3, 0] = CLOSE[side]
        person = np.arange(len(X)) if unit == "person" else None
        options = {"classes": np.arange(BATCH), "neighbours": neighbours, "epsilon": epsilon}
        y = np.arange(len(X)) // 3
        parts = [fit(X, y, person, **options).sums_[:, 0] for _ in range(0, n, BATCH)]
        return np.concatenate(parts)[:n]

    once = fitted(0, 1)
    claim = getattr(once.guarantee_, unit)
    factors = (float(once.sum_noise_[0]),)
    levels = moment_levels(needed_mu(epsilon, DELTA), neighbours)
    looks = {
        "close": close,
        "reachable": lambda numbers, side: reachable(numbers, CLOSE[side], factors, "gaussian"),
        **looks,
    }
    return AttackTarget(name, unit, claim[0], claim[1], draw, means, levels, "gaussian", **looks)


def fit_moments(X: Floats, y: Any, person: Any, **options: Any) -> PrivateMoments:
    """Release moments about the origin, as a user would."""
    return PrivateMoments(**{"centre": None, **options}).fit(X, y, person)


PAIRS_OF_FEATURES = 25  # of one release with one second moment: each is a release of its own
POOLED_PART = 0.105  # of what sums and second moments share, for a moment that its noise would drown


def _pooled_target(unit: str, neighbours: str, epsilon: float, fit: Callable[..., Any]) -> AttackTarget:
    """Describe counts, sums and one second moment: two classes and two features are one release.

    Records of a block are zero in the features of all others, so its sums and its place on the diagonal of
    the second moment depend on them alone. There are so few records that "auto" decides for one moment.
    """
    copies = MANY_ROWS + 5 if unit == "person" else 1
    places = np.arange(PAIRS_OF_FEATURES)

    def fitted(side: int) -> Any:
        block = moment_rows(unit, neighbours, side, copies)
        X = np.zeros((len(places), len(block), 2 * len(places)))
        for place in places:
            X[place, :, 2 * place : 2 * place + 2] = [row for _, row in block]
        y = np.add.outer(2 * places, [label for label, _ in block]).ravel()
        options = {"classes": np.arange(2 * len(places)), "neighbours": neighbours, "epsilon": epsilon}
        rows = X.reshape(len(y), -1)
        if unit != "person":
            return fit(rows, y, None, second_moments="auto", **options)
        numbers = np.minimum(np.arange(len(block)), 2 * len(ALWAYS))
        person = np.add.outer(len(block) * places, numbers).ravel()
        return fit(rows, y, person, second_moments="auto", **options, rows_per_person=MANY_ROWS)

    def released(moments: Any) -> Floats:
        sums = moments.sums_.reshape(len(places), 2, len(places), 2)[places, :, places].reshape(-1, 4)
        second = moments.second_moments_[0]
        even, odd = 2 * places, 2 * places + 1
        columns = [second[even, even], second[odd, odd], second[even, odd]]
        return np.column_stack([moments.counts_.reshape(-1, 2), sums, *columns])

    def draw(side: int, n: int) -> Floats:
        return np.concatenate([released(fitted(side)) for _ in range(0, n, len(places))])[:n]

    def means(releases: Floats, side: int) -> Floats:
        parts = moments_without_noise(moment_rows(unit, neighbours, side)).reshape(2, 6)
        return np.concatenate([parts[:, 0], parts[:, 1:3].ravel(), parts[:, 3:].sum(axis=0)])

    mu, rest = needed_mu(epsilon, DELTA), SHARES[1] + SHARES[2]
    shares = SHARES[0], rest * (1.0 - POOLED_PART), rest * POOLED_PART
    count, total, second = BLOCK_SENSITIVITIES[neighbours] / (mu * np.sqrt(shares))
    levels = np.array([count] * 2 + [total] * 4 + [second, second, second / math.sqrt(2.0)])
    claim = getattr(fitted(0).guarantee_, unit)
    name = f"PrivateMoments, pooled{', replace' if neighbours == 'replace' else ''}"
    return AttackTarget(name, unit, claim[0], claim[1], draw, means, levels, "gaussian")


def _moment_schema(side: int) -> dict[str, Any]:
    """Classes that nobody declared: a class of one record, with a long name, must leave nothing behind."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.5, 0.5, (800, 2)), np.repeat(["no", "yes"], 400)
    if side:
        X, y = np.vstack([X, EDGE]), np.append(y, "a very rare diagnosis")
    made = PrivateMoments().fit(X, y)
    return {
        "classes": made.classes_.tolist(),
        "type of classes": made.classes_.dtype,
        "shape": made.sums_.shape,
        "bytes": len(made.to_bytes()),
        "guarantee": str(made.guarantee_),
    }


def _centre_target(epsilon: float) -> AttackTarget:
    """A private centre: one release per fit, and everything after the centre is seen from it."""
    rng = np.random.default_rng(0)
    always = rng.uniform(-0.2, 0.2, (300, 2))
    labels = np.arange(300) % 2
    shares = np.array([0.05, *SHARES]) / 1.05
    mu = needed_mu(epsilon, DELTA)

    def table(side: int) -> tuple[Floats, Any]:
        return (np.vstack([always, EDGE]), np.append(labels, 0)) if side else (always, labels)

    def draw(side: int, n: int) -> Floats:
        X, y = table(side)
        found = []
        for _ in range(n):
            made = PrivateMoments(epsilon, DELTA, classes=[0, 1]).fit(X, y)
            total = made.centre_ * max(1.0, float(made.counts_.sum()))
            found.append([*total, *released_moments(made)[0]])
        return np.array(found)

    def means(releases: Floats, side: int) -> Floats:
        parts = np.array_split(
            releases, max(1, len(releases) // 1000)
        )  # each holds every row once per release
        return np.concatenate([means_of(part, *table(side)) for part in parts])

    def means_of(releases: Floats, X: Floats, y: Any) -> Floats:
        rows = X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, np.newaxis]
        sizes = np.maximum(releases[:, 2] + releases[:, 8], 1.0)
        centres = releases[:, :2] / sizes[:, np.newaxis]
        seen = rows - centres[:, np.newaxis, :]
        seen /= np.linalg.norm(seen, axis=2, keepdims=True)
        found = np.empty(releases.shape)
        found[:, :2] = rows.sum(axis=0)
        for label in (0, 1):
            own, first = seen[:, y == label], 2 + 6 * label
            second = np.einsum("nij,nik->njk", own, own)
            found[:, first] = own.shape[1]
            found[:, first + 1 : first + 3] = own.sum(axis=1)
            found[:, first + 3 : first + 6] = second[:, [0, 1, 0], [0, 1, 1]]
        return found

    centre, count, total, second = 1.0 / (mu * np.sqrt(shares))
    pair = [count, total, total, second, second, second / math.sqrt(2.0)]
    levels = np.array([centre, centre, *pair, *pair])
    return AttackTarget("PrivateMoments, centre", "record", epsilon, DELTA, draw, means, levels, "gaussian")


# --- counts of tables --------------------------------------------------------------------------------------

CLASS_PAIRS = 10  # of a table: each is a release of its own, since records have one class
KEPT_ROWS = 3  # of a person, who has many more: were they all counted, everybody could see it
# (age, ward, class): ages are cut at 50, wards are "a" and "b".
ALWAYS_COUNTED = [(10.0, "a", 0), (80.0, "b", 1), (80.0, "a", 0)]
ODD_ROW, OTHER_ODD_ROW = (1e9, "nowhere", 1), (-1e9, "b", 0)  # what no schema allows
CountedRow = tuple[float, str, int]


def counted_rows(neighbours: str, side: int, copies: int) -> list[CountedRow]:
    """Return the rows of two classes, and the record that the neighbours differ in, so many times."""
    if neighbours == "replace":
        return [*ALWAYS_COUNTED, *[(ODD_ROW, OTHER_ODD_ROW)[side]] * copies]
    return [*ALWAYS_COUNTED, *[ODD_ROW] * (copies * side)]


def counts_without_noise(rows: Sequence[CountedRow]) -> Floats:
    """Count ages, wards and pairs of them in two classes, by hand."""
    found = np.zeros((2, 8))
    for age, ward, label in rows:
        old, second = int(age >= 50.0), int(ward == "b")  # an undeclared ward counts as the first
        for place in (old, 2 + second, 4 + 2 * old + second):
            found[label, place] += 1
    return found.ravel()


def count_target(
    name: str, unit: str, neighbours: str, epsilon: float, count: Callable[..., Any], **looks: Any
) -> AttackTarget:
    """Describe counts of a table of two columns and many classes: two classes are one release."""
    copies, kept = (KEPT_ROWS + 40, KEPT_ROWS) if unit == "person" else (1, 1)

    def counted(side: int) -> Any:
        block = counted_rows(neighbours, side, copies)
        rows = [(age, ward, 2 * k + label) for k in range(CLASS_PAIRS) for age, ward, label in block]
        numbers = np.minimum(np.arange(len(block)), len(ALWAYS_COUNTED))  # the last rows are one person's
        person = np.add.outer(len(block) * np.arange(CLASS_PAIRS), numbers).ravel()
        options: dict[str, Any] = {"neighbours": neighbours, "epsilon": epsilon, "delta": DELTA}
        if unit == "person":
            return count(rows, person, rows_per_person=kept, **options)
        return count(rows, None, rows_per_person=None, **options)

    def draw(side: int, n: int) -> Floats:
        parts = [counted(side)[1].reshape(CLASS_PAIRS, 16) for _ in range(0, n, CLASS_PAIRS)]
        return np.concatenate(parts)[:n]

    def means(releases: Floats, side: int) -> Floats:
        return counts_without_noise(counted_rows(neighbours, side, kept))

    change = kept * (math.sqrt(2.0) if neighbours == "replace" else 1.0) / needed_mu(epsilon, DELTA)
    levels = np.tile([change * math.sqrt(2 / 0.2)] * 4 + [change * math.sqrt(1 / 0.8)] * 4, 2)
    claim = getattr(counted(0)[0], unit)
    return AttackTarget(name, unit, claim[0], claim[1], draw, means, levels, "gaussian", **looks)


# --- all of them -------------------------------------------------------------------------------------------


def privacy_targets(epsilon: float = 1.0) -> dict[str, Sequence[Callable[[], AttackTarget]]]:
    """Name every target of the privacy room; each is made when it is asked for."""
    found: dict[str, Sequence[Callable[[], AttackTarget]]] = {
        name: [partial(mechanism_target, name, unit, epsilon) for unit in ("entry", "record", "person")]
        for name in (*NORMS, "FisherGaussian", "BoundedFisherNoise")
    }
    found["AnalyticGaussian"] = [
        *found["AnalyticGaussian"],
        partial(mechanism_target, "AnalyticGaussian", "entry", epsilon, LARGE_DELTA),
    ]
    found["RandomisedLabels"] = [partial(_label_target, epsilon)]
    found["PrivateMoments"] = [
        partial(moment_target, "PrivateMoments", "entry", "add-remove", epsilon, fit_moments),
        partial(
            moment_target,
            "PrivateMoments",
            "record",
            "add-remove",
            epsilon,
            fit_moments,
            schema=_moment_schema,
        ),
        partial(moment_target, "PrivateMoments", "person", "add-remove", epsilon, fit_moments),
        partial(moment_target, "PrivateMoments, replace", "record", "replace", epsilon, fit_moments),
        partial(_centre_target, epsilon),
    ]
    found["PrivateMoments, pooled"] = [
        partial(_pooled_target, unit, neighbours, epsilon, fit_moments)
        for unit, neighbours in (("record", "add-remove"), ("person", "add-remove"), ("record", "replace"))
    ]
    return found
