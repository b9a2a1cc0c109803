"""Every release of onefold, block by block: five columns, ten pairs of them, four classes.

Each is made on the path that users take, and what its numbers are without noise is computed here by hand. The
record that the two datasets differ in lies far outside everything that was declared.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import combinations, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np

from attacks.blocks import Block, BlockRelease, table_law
from onefold._base.arrays import Floats
from onefold.fabrication import (
    Fabricator,
    MomentClassifier,
    MomentFabricator,
    MomentRegressor,
    TableSynthesizer,
    synthesizer,
)
from onefold.federated import HolderKey, SumHolder, release_moments
from onefold.federated.secret.contract import SumParties
from onefold.federated.secret.schema import SchemaSum
from onefold.federated.secret.statistics import MomentSum, TableSum
from onefold.privacy import (
    AnalyticGaussian,
    Ball,
    BoundedFisherNoise,
    Box,
    FisherGaussian,
    Gaussian,
    Laplace,
    OptimalNoise,
    PrivateMoments,
    RandomisedLabels,
    domain_of,
)
from onefold.privacy.moments import _estimator
from onefold.release import release_bounded, release_iid, release_table
from onefold.tables import Field, Schema
from onefold.transfer import PrivateSource

DELTA = 1e-5
N_COLUMNS, N_CLASSES = 5, 4
MANY_OF_ONE = 100  # rows of a person: were they all counted, everybody could see it
MANY = 3500  # rows of the larger datasets
SHARP = 40.0  # epsilon at which one row among thousands is seen
Maker = Callable[[], BlockRelease]


@contextmanager
def tapped(owner: Any, name: str) -> Iterator[list[tuple[Any, Any]]]:
    """Note the arguments and results of a function while it is used, whatever it has become."""
    original, calls = getattr(owner, name), []

    def noting(*given: Any, **options: Any) -> Any:
        result = original(*given, **options)
        calls.append((given, result))
        return result

    with mock.patch.object(owner, name, noting):
        yield calls


# --- counts of tables --------------------------------------------------------------------------------------

CUTS = {"age": (30, 60), "size": (150,), "pulse": (60, 80, 100)}
RANGES = {"age": (0, 100), "size": (50, 250), "pulse": (30, 200)}
LEVELS = {"ward": ("a", "b", "c"), "smoker": ("no", "yes")}
COLUMNS = ("age", "ward", "size", "smoker", "pulse")
SIZES = (3, 3, 2, 2, 4)
Record = tuple[Any, ...]
ODD_RECORD: Record = (1e9, "nowhere", -1e9, "perhaps", 1e9, 3)
OTHER_RECORD: Record = (-1e9, "c", 1e9, "yes", -1e9, 0)


def table_schema(**options: Any) -> Schema:
    fields = [
        Field(name, "string", levels=LEVELS[name])
        if name in LEVELS
        else Field(name, low=RANGES[name][0], high=RANGES[name][1], bins=CUTS[name])
        for name in COLUMNS
    ]
    return Schema([*fields, Field("outcome", "integer", role="label", levels=tuple(range(4)))], **options)


def some_records(n: int) -> list[Record]:
    rng = np.random.default_rng(1)
    return [
        (
            float(rng.uniform(0, 100)),
            str(rng.choice(LEVELS["ward"])),
            float(rng.uniform(50, 250)),
            str(rng.choice(LEVELS["smoker"])),
            float(rng.uniform(30, 200)),
            int(rng.integers(N_CLASSES)),
        )
        for _ in range(n)
    ]


def cells_by_hand(record: Record) -> list[int]:
    """Cell of each column; an undeclared level counts as the first, a number outside as the next inside."""
    found = []
    for name, value in zip(COLUMNS, record[:-1], strict=True):
        if name in LEVELS:
            found.append(LEVELS[name].index(value) if value in LEVELS[name] else 0)
        else:
            found.append(sum(value >= cut for cut in CUTS[name]))
    return found


def counts_by_hand(records: list[Record]) -> Floats:
    """Tables of single columns, then of pairs, each for all classes in turn."""
    tables = [np.zeros((N_CLASSES, size)) for size in SIZES]
    pairs = list(combinations(range(N_COLUMNS), 2))
    tables += [np.zeros((N_CLASSES, SIZES[i], SIZES[j])) for i, j in pairs]
    for record in records:
        cells, label = cells_by_hand(record), record[-1]
        for j, cell in enumerate(cells):
            tables[j][label, cell] += 1
        for table, (i, j) in zip(tables[N_COLUMNS:], pairs, strict=True):
            table[label, cells[i], cells[j]] += 1
    return np.concatenate([table.ravel() for table in tables])


def blocks_of_tables(layout: Any, sigmas: Any, factor: float = 1.0) -> tuple[Block, ...]:
    """A block for each class of each table of a layout."""
    names = [layout.names[j] for j in range(len(layout.sizes))]
    single = [(name, size, sigmas[0]) for name, size in zip(names, layout.sizes, strict=True)]
    double = [
        (f"{names[i]} x {names[j]}", layout.sizes[i] * layout.sizes[j], sigmas[1]) for i, j in layout.pairs
    ]
    return tuple(
        Block(f"{name}, class {label}", size, sigma * factor, 1.0)
        for name, size, sigma in (*single, *double)
        for label in range(layout.n_classes)
    )


def as_table(records: list[Record]) -> dict[str, Any]:
    names = (*COLUMNS, "outcome")
    return {name: list(cells) for name, cells in zip(names, zip(*records, strict=True), strict=True)}


def two_tables(unit: str, neighbours: str, n_rows: int, kept: int = 2) -> list[tuple[Any, Any, Any]]:
    """Records, persons and the records that count, of two neighbours; persons have more rows than count."""
    always = some_records(n_rows)
    copies = MANY_OF_ONE if unit == "person" else 1
    more = [[ODD_RECORD], [OTHER_RECORD]] if neighbours == "replace" else [[], [ODD_RECORD]]
    found = []
    for odd in more:
        counted = kept if unit == "person" else 1
        # In the middle: neither the first nor the last rows are special.
        records = [*always[: n_rows // 2], *odd * copies, *always[n_rows // 2 :]]
        persons = [*range(n_rows // 2), *[n_rows] * len(odd * copies), *range(n_rows // 2, n_rows)]
        found.append((records, persons if unit == "person" else None, [*always, *odd * counted]))
    return found


def table_release(
    unit: str = "record",
    neighbours: str = "add-remove",
    n_rows: int = 30,
    epsilon: float = 1.0,
    **options: Any,
) -> BlockRelease:
    kept = 2
    tables = two_tables(unit, neighbours, n_rows, kept)
    given = [as_table(records) for records, *_ in tables]
    exact = [counts_by_hand(counted) for *_, counted in tables]
    settings: dict[str, Any] = {"neighbours": neighbours, "delta": DELTA}
    if unit == "person":
        settings["rows_per_person"] = kept

    def fitted(side: int) -> Any:
        made = TableSynthesizer(table_schema(), epsilon, **settings)
        return made.fit(given[side], person=tables[side][1]).counts_

    once = fitted(0)
    assert len(once.layout.pairs) == 10
    return BlockRelease(
        f"TableSynthesizer, {unit}, {neighbours}, {n_rows} rows",
        getattr(once.guarantee, unit),
        blocks_of_tables(once.layout, once.sigmas),
        lambda side: fitted(side).vector,
        lambda numbers, side: exact[side],
        **options,
    )


GRADES = 5


def fine_release() -> BlockRelease:
    """A table without declared bins: counts of fine cells, then of tables whose cells follow from them."""
    schema = Schema([Field("grade", "integer", low=0, high=GRADES - 1), Field("paid", "boolean")])
    rows = [[0, 2, 2, 4], [0, 2, 2, 4, 1e9]]
    given = [{"grade": values, "paid": [True] * len(values)} for values in rows]

    def fitted(side: int) -> tuple[Any, list[tuple[Any, Any]]]:
        """The guarantee, and what noise was asked for with what came of it: fine cells, then tables."""
        with tapped(synthesizer, "with_noise") as calls:
            made = TableSynthesizer(schema, 1.0, DELTA).fit(given[side])
        return made.guarantee_, calls

    def exact(numbers: Floats, side: int) -> Floats:
        grades = np.bincount(np.clip(rows[side], 0, GRADES - 1).astype(int), minlength=GRADES)
        return np.array([*grades, 0, len(rows[side])], dtype=float)

    def draw(side: int) -> Floats:
        (_, fine), ((layout, *_), tables) = fitted(side)[1]
        start = layout.sizes[0]  # which follows from the fine counts: the table of "paid" does not
        return np.concatenate([fine, tables[start : start + 2]])

    guarantee, calls = fitted(0)
    sigmas = [asked[2][0] for asked, _ in calls]
    blocks = (Block("fine cells", GRADES, sigmas[0], 1.0), Block("paid", 2, sigmas[1], 1.0))
    return BlockRelease("TableSynthesizer, bins", guarantee.record, blocks, draw, exact, tightness=0.3)


# --- moments -----------------------------------------------------------------------------------------------

EDGE = np.array([30.0, -40.0, 10.0, 0.0, 20.0])
OTHER_EDGE = np.array([-40.0, -30.0, 0.0, 5.0, 0.0])
ABOVE = np.triu_indices(N_COLUMNS, 1)
RELEASED_BLOCKS = {"number": "counts", "total": "sums", "second": "second moments"}  # by their name in Blocks


def in_ball(rows: Floats) -> Floats:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)


def unit_length(rows: Floats) -> Floats:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def triangle(matrix: Floats) -> Floats:
    """Diagonal, then what is above it row by row."""
    rows, columns = np.triu_indices(len(matrix), 1)
    return np.concatenate([np.diagonal(matrix), matrix[rows, columns]])


def matrix_blocks(name: str, size: int, sigma: float, step: float) -> tuple[Block, ...]:
    return (
        Block(f"{name}, diagonal", size, sigma, step),
        Block(f"{name}, beside it", size * (size - 1) // 2, sigma / math.sqrt(2.0), step),
    )


def moments_by_hand(rows: Floats, codes: Any, weights: Floats, n_classes: int, pooled: bool) -> Floats:
    """Counts, sums of each class, second moments of each class or of all, of entries of 14 binary digits."""
    rows = np.trunc(rows * 2.0**14) * 2.0**-14
    masks = [codes == label for label in range(n_classes)]
    sums = [(weights[own, None] * rows[own]).sum(axis=0) for own in masks]
    parts = [np.ones(len(rows), dtype=bool)] if pooled else masks
    seconds = [triangle((weights[own, None] * rows[own]).T @ rows[own]) for own in parts]
    return np.concatenate([[weights[own].sum() for own in masks], *sums, *seconds])


def moment_numbers(moments: Any) -> Floats:
    """All released numbers but centre and whitening, in the order of ``moments_by_hand``."""
    seconds = [triangle(second) for second in moments.second_moments_]
    return np.concatenate([moments.counts_, moments.sums_.ravel(), *seconds])


def blocks_of_moments(moments: Any, of_persons: bool) -> tuple[Block, ...]:
    step = 2.0**-28
    counts = [
        Block(f"count of class {label}", 1, sigma, step if of_persons else 1.0)
        for label, sigma in enumerate(moments.count_noise_)
    ]
    sums = [
        Block(f"sum of class {label}", moments.n_features_in_, sigma, step if of_persons else 2.0**-14)
        for label, sigma in enumerate(moments.sum_noise_)
    ]
    seconds = [
        block
        for label, sigma in enumerate(moments.second_noise_)
        for block in matrix_blocks(f"second moment {label}", moments.n_features_in_, sigma, step)
    ]
    return (*counts, *sums, *seconds)


def two_datasets(unit: str, neighbours: str, n_rows: int, kept: int) -> list[tuple[Floats, Any, Any, Floats]]:
    """Rows, classes, persons and weights of two neighbours; a person has more rows than count."""
    rng = np.random.default_rng(2)
    always = rng.uniform(-0.4, 0.4, (n_rows, N_COLUMNS))
    always[[0, n_rows // 2, -1]] *= 1000.0  # the first row, one between, and the last lie far outside
    codes = np.arange(n_rows) % N_CLASSES
    copies = MANY_OF_ONE if unit == "person" else 1
    replaced = [(EDGE, 3), (OTHER_EDGE, 0)]
    found = []
    for side in (0, 1):
        odd = [replaced[side]] if neighbours == "replace" else [replaced[0]] * side
        extra = np.array([row for row, _ in odd for _ in range(copies)]).reshape(-1, N_COLUMNS)
        labels = np.array([label for _, label in odd for _ in range(copies)], dtype=int)
        weights = np.concatenate([np.ones(n_rows), np.full(len(extra), 1.0 / copies)])
        persons = np.concatenate([np.arange(n_rows), np.full(len(extra), n_rows)])
        found.append(
            (
                np.vstack([extra, always]),
                np.concatenate([labels, codes]),
                np.concatenate([persons[n_rows:], persons[:n_rows]]) if unit == "person" else None,
                np.concatenate([weights[n_rows:], weights[:n_rows]]),
            )
        )
    return found


def moment_release(
    name: str,
    fit: Callable[..., Any],
    unit: str = "record",
    neighbours: str = "add-remove",
    n_rows: int = 24,
    epsilon: float = 1.0,
    kept: int = 2,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> BlockRelease:
    """Describe a release of moments; ``fit(X, y, person, **settings)`` returns the moments."""
    asked: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": DELTA,
        "classes": range(N_CLASSES),
        "neighbours": neighbours,
        "centre": None,
        **(settings or {}),
    }
    if unit == "person":
        asked["rows_per_person"] = kept
    private_centre, private_whitening = asked["centre"] == "private", asked.get("whitening") == "private"
    data = two_datasets(unit, neighbours, n_rows, kept)

    def released(side: int) -> tuple[Any, Floats]:
        rows, codes, persons, _ = data[side]
        with tapped(_estimator, "whitening_of") as calls:
            moments = fit(rows, codes, persons, **asked)
        parts = []
        if private_centre:
            parts.append(moments.centre_ * max(1.0, float(moments.counts_.sum())))
        if private_whitening:
            ((given, _),) = calls
            parts.append(triangle(given[0]))
        numbers = np.concatenate([*parts, moment_numbers(moments)])
        declared[numbers.tobytes()] = moments
        return moments, numbers

    def blocks_of(moments: Any) -> tuple[Block, ...]:
        blocks: list[Block] = []
        if private_centre:
            blocks.append(Block("centre", N_COLUMNS, levels.centre))
        if private_whitening:
            blocks += matrix_blocks("whitening", N_COLUMNS, levels.whitening, 2.0**-28)
        return (*blocks, *blocks_of_moments(moments, unit == "person"))

    def scales(numbers: Floats) -> Floats:
        blocks = blocks_of(declared[numbers.tobytes()])
        return np.concatenate([np.full(block.length, block.scale) for block in blocks])

    def exact(numbers: Floats, side: int) -> Floats:
        rows, codes, _, weights = data[side]
        seen, parts, start = in_ball(rows), [], 0
        if private_centre:
            parts.append((weights[:, None] * seen).sum(axis=0))
            start += N_COLUMNS
        if private_whitening:
            start += N_COLUMNS * (N_COLUMNS + 1) // 2
        if private_centre:
            sizes = numbers[start : start + N_CLASSES]
            seen = unit_length(seen - numbers[:N_COLUMNS] / max(1.0, sizes.sum()))
        if private_whitening:
            parts.append(triangle((weights[:, None] * seen).T @ seen))
            first = numbers[start - N_COLUMNS * (N_COLUMNS + 1) // 2 : start]
            seen = unit_length(seen @ whitening_by_hand(first, levels.whitening))
        pooled = len(once.second_moments_) == 1
        return np.concatenate([*parts, moments_by_hand(seen, codes, weights, N_CLASSES, pooled)])

    declared: dict[bytes, Any] = {}
    with tapped(_estimator.Budget, "deviations") as calls:
        once, _ = released(0)
    levels = calls[-1][1]  # of centre and whitening, which the release does not state
    return BlockRelease(
        f"{name}, {unit}, {neighbours}, {n_rows} rows",
        getattr(once.guarantee_, unit),
        blocks_of(once),
        lambda side: released(side)[1],
        exact,
        scales=scales,
        **options,
    )


def whitening_by_hand(first: Floats, sigma: float) -> Floats:
    """B = sqrt(f) max(A, f)^(-1/2), where f is half the radius of the eigenvalues of the noise."""
    matrix = np.diag(first[:N_COLUMNS])
    matrix[ABOVE] = matrix.T[ABOVE] = first[N_COLUMNS:]
    values, vectors = np.linalg.eigh(matrix)
    floor = 0.5 * sigma * math.sqrt(2.0 * N_COLUMNS)
    return np.asarray((vectors * np.sqrt(floor / np.maximum(values, floor))) @ vectors.T)


def fit_moments(X: Any, y: Any, person: Any, **settings: Any) -> Any:
    return PrivateMoments(**settings).fit(X, y, person)


def fit_classifier(X: Any, y: Any, person: Any, **settings: Any) -> Any:
    return MomentClassifier(**settings).fit(X, y, person).moments_


def fit_fabricator(X: Any, y: Any, person: Any, **settings: Any) -> Any:
    return MomentFabricator(**settings).fit(X, y, person).moments_


def fit_at_a_site(X: Any, y: Any, person: Any, **settings: Any) -> Any:
    return PrivateMoments.from_bytes(release_moments(X, y, PrivateMoments(**settings), person=person))


def fit_source(X: Any, y: Any, person: Any, **settings: Any) -> Any:
    made = PrivateSource.fit(X, y, PrivateMoments(**settings), person=person)
    return PrivateSource.from_bytes(made.to_bytes()).description_.moments


def found_classes_release() -> BlockRelease:
    """Classes that nobody declared: one of a single record, with a long name, leaves nothing behind."""
    rng = np.random.default_rng(0)
    names = np.array([f"class {number}" for number in range(N_CLASSES)])
    rows, labels = rng.uniform(-0.4, 0.4, (1600, N_COLUMNS)), np.repeat(names, 400)
    data = [(rows, labels), (np.vstack([rows, EDGE]), np.append(labels, "a very rare diagnosis"))]
    exact = moments_by_hand(rows, np.repeat(np.arange(N_CLASSES), 400), np.ones(1600), N_CLASSES, False)

    def fitted(side: int) -> Any:
        return PrivateMoments(centre=None).fit(*data[side])

    def about(side: int) -> Any:
        made = fitted(side)
        return made.classes_.tolist(), made.classes_.dtype, len(made.to_bytes()), str(made.guarantee_)

    once = fitted(0)
    return BlockRelease(
        "PrivateMoments, found classes",
        once.guarantee_.record,
        blocks_of_moments(once, False),
        lambda side: moment_numbers(fitted(side)),
        lambda numbers, side: exact,
        tightness=0.0,
        n_draws=80,
        about=about,
    )


def regression_release(
    unit: str = "record", n_rows: int = 24, epsilon: float = 1.0, **options: Any
) -> BlockRelease:
    """Rows of four columns with a number as output: one vector of five entries."""
    low, high, kept = np.array([0.0, -1.0, 10.0, 0.0]), np.array([1.0, 1.0, 14.0, 200.0]), 2
    rng = np.random.default_rng(3)
    always, outputs = rng.uniform(low - 0.2, high + 0.2, (n_rows, 4)), rng.uniform(-60.0, 60.0, n_rows)
    copies = MANY_OF_ONE if unit == "person" else 1
    settings: dict[str, Any] = {"x_range": (low, high), "y_range": (-50.0, 50.0)}
    if unit == "person":
        settings["rows_per_person"] = kept

    def data(side: int) -> tuple[Floats, Floats, Any]:
        n = copies * side
        rows = np.vstack([np.tile(high + 1e6, (n, 1)), always])
        persons = np.concatenate([np.full(n, n_rows), np.arange(n_rows)])
        return rows, np.concatenate([np.full(n, 1e9), outputs]), persons if unit == "person" else None

    def exact(numbers: Floats, side: int) -> Floats:
        rows, numbers_out, _ = data(side)
        inside = (2.0 * np.clip(rows, low, high) - low - high) / (high - low) / math.sqrt(4)
        last = np.clip(numbers_out, -50.0, 50.0) / 50.0
        pairs = np.column_stack([math.sqrt(0.7) * inside, math.sqrt(0.3) * last])
        weights = np.concatenate([np.full(copies * side, 1.0 / copies), np.ones(n_rows)])
        return moments_by_hand(pairs, np.zeros(len(pairs)), weights, 1, True)

    def fitted(side: int) -> Any:
        rows, numbers_out, persons = data(side)
        return MomentRegressor(epsilon, DELTA, **settings).fit(rows, numbers_out, persons).moments_

    once = fitted(0)
    return BlockRelease(
        f"MomentRegressor, {unit}, {n_rows} rows",
        getattr(once.guarantee_, unit),
        blocks_of_moments(once, unit == "person"),
        lambda side: moment_numbers(fitted(side)),
        exact,
        **options,
    )


def schema_regression_release() -> BlockRelease:
    """A number predicted from a table of numbers and levels, mapped by what the schema declares."""
    fields = [field for field in table_schema().fields if field.role == "feature"]
    schema = Schema([*fields, Field("cost", role="label", low=-50, high=50)])
    rng = np.random.default_rng(6)
    always = [(*record[:-1], float(rng.uniform(-60, 60))) for record in some_records(30)]
    tables = [always, [*always, (1e9, "c", -1e9, "yes", 1e9, 1e9)]]
    middle = np.concatenate([[0.0] * len(LEVELS[name]) if name in LEVELS else [0.5] for name in COLUMNS])
    longest = math.sqrt(sum(0.5 if name in LEVELS else 0.25 for name in COLUMNS))

    def exact(numbers: Floats, side: int) -> Floats:
        rows = (encoded_by_hand(tables[side]) - middle) / longest
        outputs = np.clip([record[-1] for record in tables[side]], -50, 50) / 50
        pairs = np.column_stack([math.sqrt(0.7) * rows, math.sqrt(0.3) * outputs])
        return moments_by_hand(pairs, np.zeros(len(pairs)), np.ones(len(pairs)), 1, True)

    def fitted(side: int) -> Any:
        names = (*COLUMNS, "cost")
        columns = dict(zip(names, map(list, zip(*tables[side], strict=True)), strict=True))
        return MomentRegressor(SHARP, DELTA, schema=schema).fit(columns).moments_

    once = fitted(0)
    return BlockRelease(
        "MomentRegressor, schema",
        once.guarantee_.record,
        blocks_of_moments(once, False),
        lambda side: moment_numbers(fitted(side)),
        exact,
    )


# --- rows with noise ---------------------------------------------------------------------------------------

LOW, HIGH = np.array([0.0, -1.0, 10.0, 0.0, -5.0]), np.array([1.0, 1.0, 14.0, 200.0, 5.0])
WIDTHS = HIGH - LOW
WEIGHTS = np.array([3.0, 1.0, 0.01, 0.2, 10.0])
N_ROWS = 12


def two_row_sets(unit: str, n_rows: int, kept: int = 2) -> list[Floats]:
    """Rows inside and outside the box; an entry, a row or two of them are at either end, far outside."""
    rng = np.random.default_rng(4)
    rows = rng.uniform(LOW - 0.3 * WIDTHS, HIGH + 0.3 * WIDTHS, (n_rows, N_COLUMNS))
    rows[-1] = HIGH + 1e6
    changed = {"entry": (slice(0, 1), slice(3, 4)), "record": (slice(0, 1), slice(None))}
    place = changed.get(unit, (slice(0, kept), slice(None)))
    found = [rows.copy(), rows.copy()]
    found[0][place], found[1][place] = -1e7, 1e7
    return found


def row_release(
    name: str,
    unit: str,
    claim: tuple[float, float],
    release: Callable[[Floats], Any],
    blocks: Callable[[int], tuple[Block, ...]],
    n_rows: int = N_ROWS,
    clip: Callable[[Floats], Floats] = lambda rows: np.clip(rows, LOW, HIGH),
    **options: Any,
) -> BlockRelease:
    """Describe rows that get noise: the blocks are their columns; of many rows, the first and the last."""
    data = two_row_sets(unit, n_rows)
    seen = np.arange(n_rows) if n_rows <= 2 * N_ROWS else np.r_[:N_ROWS, -N_ROWS:0]
    return BlockRelease(
        f"{name}, {unit}, {n_rows} rows",
        claim,
        blocks(len(seen)),
        lambda side: np.asarray(release(data[side]))[seen].ravel(order="F"),
        lambda numbers, side: clip(data[side])[seen].ravel(order="F"),
        **options,
    )


def mechanism_release(
    kind: Any, unit: str, n_rows: int = N_ROWS, epsilon: float = 1.0, **options: Any
) -> BlockRelease:
    noise = _calibrated(kind, unit, epsilon)
    claim = getattr(noise.guarantee(N_COLUMNS, rows_per_person=2), unit)
    sized = noise.for_features(N_COLUMNS) if unit != "entry" else noise
    family = "laplace" if issubclass(kind, OptimalNoise) else "gaussian"
    step = sized._lattice.step

    def blocks(n: int) -> tuple[Block, ...]:
        return tuple(Block(f"column {j}", n, sized.scale, step, family) for j in range(N_COLUMNS))

    tightness = 0.0 if kind is Gaussian else 0.999
    options = {"tightness": tightness, "n_draws": 80, **options}
    return row_release(kind.__name__, unit, claim, noise.randomise, blocks, n_rows, **options)


def _calibrated(kind: Any, unit: str, epsilon: float) -> Any:
    options: dict[str, Any] = {"unit": unit, "sensitivity": Box(LOW, HIGH)}
    if unit == "person":
        options["rows_per_person"] = 2
    if kind is Laplace:
        return Laplace(epsilon, **options)
    return kind(min(epsilon, 0.999) if kind is Gaussian else epsilon, DELTA, **options)


def fabricated_release() -> BlockRelease:
    """Rows with noise as a fabricator sees them, of persons who have a row more than may count."""
    honest = mechanism_release(OptimalNoise, "person")
    maker = Fabricator(_calibrated(OptimalNoise, "person", 1.0), 1, n_jobs=1)
    data = two_row_sets("person", N_ROWS)

    def draw(side: int) -> Floats:
        rows = np.vstack([data[side][:1], data[side]])
        return np.asarray(maker.randomise(rows, person=np.arange(len(rows)).clip(2))).ravel(order="F")

    return replace(honest, name="Fabricator, person", draw=draw)


def encoded_by_hand(records: list[Record]) -> Floats:
    """Numbers as parts of their range, levels as one entry of root one half: two levels are one apart."""
    found = []
    for record in records:
        row: list[float] = []
        for name, value in zip(COLUMNS, record[:-1], strict=True):
            if name in LEVELS:
                row += [math.sqrt(0.5) * (value == level) for level in LEVELS[name]]
            else:
                low, high = RANGES[name]
                row.append((min(max(value, low), high) - low) / (high - low))
        found.append(row)
    return np.array(found)


def encoded_release() -> BlockRelease:
    """A table of numbers and levels by its schema: noise on encoded rows."""
    schema = Schema([field for field in table_schema().fields if field.role == "feature"])
    noise = Laplace(30.0, unit="record", sensitivity=domain_of(schema))
    odd = [(1e9, "a", -1e9, "no", 1e9, 0), (-1e9, "c", 1e9, "yes", -1e9, 0)]
    records = [[*some_records(10), record] for record in odd]
    exact = [encoded_by_hand(some) for some in records]
    tables = [{name: as_table(some)[name] for name in COLUMNS} for some in records]
    maker = Fabricator(noise, 1, schema=schema, n_jobs=1)

    def draw(side: int) -> Floats:
        with tapped(Laplace, "randomise") as calls:
            maker.randomise(tables[side])
        ((_, made),) = calls
        return np.asarray(made).ravel(order="F")

    width = exact[0].shape[1]
    sized = noise.for_features(width)
    return BlockRelease(
        "Fabricator, schema",
        noise.guarantee(width).record,
        tuple(Block(f"column {j}", 11, sized.scale, sized._lattice.step, "laplace") for j in range(width)),
        draw,
        lambda numbers, side: exact[side].ravel(order="F"),
        n_draws=100,
    )


def hostile_rows_release() -> BlockRelease:
    """Rows that no table of the schema has, such as several levels at once: clipping makes possible ones."""
    schema = Schema([field for field in table_schema().fields if field.role == "feature"])
    noise = Laplace(30.0, unit="record", sensitivity=domain_of(schema))
    # age, three wards, size, two kinds of smokers, pulse: the largest entry of a level decides.
    always = [[0.5, 0.1, 0.9, 0.8, 0.5, 0.0, 0.7, 0.5], [9.0, 8.0, 8.0, 9.0, -9.0, 0.2, 0.1, 9.0]]
    odd = [[9.0, 9.0, 8.0, 7.0, -9.0, 9.0, 8.0, 9.0], [-9.0, 7.0, 8.0, 9.0, 9.0, 8.0, 9.0, -9.0]]
    one = math.sqrt(0.5)
    clipped = [[0.5, 0.0, one, 0.0, 0.5, 0.0, one, 0.5], [1.0, 0.0, 0.0, one, 0.0, one, 0.0, 1.0]]
    ends = [[1.0, one, 0.0, 0.0, 0.0, one, 0.0, 1.0], [0.0, 0.0, 0.0, one, 1.0, 0.0, one, 0.0]]
    rows = [np.array([*always, record]) for record in odd]
    exact = [np.array([*clipped, record]) for record in ends]
    sized = noise.for_features(8)
    return BlockRelease(
        "rows that no table has",
        noise.guarantee(8).record,
        tuple(Block(f"column {j}", 3, sized.scale, sized._lattice.step, "laplace") for j in range(8)),
        lambda side: np.asarray(noise.randomise(rows[side])).ravel(order="F"),
        lambda numbers, side: exact[side].ravel(order="F"),
        n_draws=200,
    )


def ball_release() -> BlockRelease:
    """Rows shortened to a ball, whose diameter a replaced record can cross."""
    noise = AnalyticGaussian(1.0, DELTA, unit="record", sensitivity=Ball(2.0, n_features=N_COLUMNS))
    step = noise._lattice.step

    def shortened(rows: Floats) -> Floats:
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True) / 2.0, 1.0)

    return row_release(
        "AnalyticGaussian, ball",
        "record",
        noise.guarantee(N_COLUMNS).record,
        noise.randomise,
        lambda n: tuple(Block(f"column {j}", n, noise.scale, step) for j in range(N_COLUMNS)),
        clip=shortened,
        n_draws=80,
    )


def fisher_release(release: str, unit: str) -> BlockRelease:
    noise = FisherGaussian.from_epsilon(1.0, N_COLUMNS, WEIGHTS, delta=DELTA, sensitivity=Box(LOW, HIGH))
    scales = (noise.lam * WEIGHTS) ** -0.25
    steps = [grid.step for grid in noise._grids(N_COLUMNS)]

    def blocks(n: int) -> tuple[Block, ...]:
        pairs = zip(scales, steps, strict=True)
        return tuple(Block(f"column {j}", n, scale, step) for j, (scale, step) in enumerate(pairs))

    def published(rows: Floats) -> Any:
        persons = {"person": np.arange(len(rows)) // 2, "rows_per_person": 2} if unit == "person" else {}
        return release_iid(rows, noise.lam, WEIGHTS, delta=DELTA, sensitivity=Box(LOW, HIGH), **persons).X

    claim = getattr(noise.guarantee(N_COLUMNS, rows_per_person=2), unit)
    make = published if release == "release_iid" else noise.randomise
    return row_release(
        release, unit, claim, make, blocks, n_draws=80, tightness=0.0 if unit == "entry" else 0.999
    )


def bounded_release(release: str) -> BlockRelease:
    scale = 3.0
    bounds = np.outer(WIDTHS * scale * 3.0, (-1.0, 1.0))
    options: dict[str, Any] = {"delta": DELTA, "sensitivity": Box(LOW, HIGH)}
    noise = BoundedFisherNoise(scale**-4, bounds, WIDTHS**-4.0, **options)

    def law(column: int) -> Any:
        """The density by a sum over a fine grid."""
        points = np.linspace(*bounds[column], 20_001)
        density = np.array(noise.density(points, column))
        ends = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
        below = np.interp
        return lambda values: (below(values, points, ends / ends[-1]),) * 2

    def blocks(n: int) -> tuple[Block, ...]:
        return tuple(Block(f"column {j}", n, scale * WIDTHS[j], law=law(j)) for j in range(N_COLUMNS))

    def published(rows: Floats) -> Any:
        return release_bounded(rows, noise.lam, bounds, Pi=WIDTHS**-4.0, **options).X

    make = published if release == "release_bounded" else noise.randomise
    claim = noise.guarantee(N_COLUMNS).record
    return row_release(release, "record", claim, make, blocks, n_draws=80)


def published_table() -> BlockRelease:
    """A table of three columns of numbers, published with noise, whose range is wide enough for the noise."""
    noise = FisherGaussian.from_epsilon(0.5, 3, sensitivity=Box(np.zeros(3), np.ones(3)), delta=DELTA)
    rows = [
        np.array([[50.0, 60.0, 70.0], [1e9, -1e9, 1e9]]),
        np.array([[50.0, 60.0, 70.0], [-1e9, 1e9, -1e9]]),
    ]
    names = ("age", "size", "pulse")
    low, high = np.array([RANGES[name] for name in names], dtype=float).T

    def made(side: int) -> Any:
        columns = {name: rows[side][:, j] for j, name in enumerate(names)}
        schema = Schema([Field(name, low=RANGES[name][0], high=RANGES[name][1]) for name in names])
        allowed = dict.fromkeys(names, (-1e6, 1e6))
        return release_table(columns, schema, noise.lam, allowed=allowed, delta=DELTA)

    def draw(side: int) -> Floats:
        return np.concatenate([np.asarray(made(side).columns[name], dtype=float) for name in names])

    blocks = tuple(Block(name, 2, float(noise.lam**-0.25 * (high - low)[j])) for j, name in enumerate(names))
    return BlockRelease(
        "release_table",
        made(0).guarantee.record,
        blocks,
        draw,
        lambda numbers, side: np.clip(rows[side], low, high).ravel(order="F"),
        n_draws=120,
    )


# --- labels, and the number of rows outside ----------------------------------------------------------------

NAMES = ("a", "bb", "ccc", "a long name")


def label_release(
    name: str, randomised: Callable[[Any], Any], epsilon: float, n_labels: int = 40
) -> BlockRelease:
    """Labels by their distance from the true one, round a circle: 0 if it was kept."""
    labels = [np.resize(NAMES, n_labels), np.resize(NAMES, n_labels)]
    labels[1][0] = NAMES[3]
    kept = math.exp(epsilon) / (math.exp(epsilon) + len(NAMES) - 1)
    law = table_law([kept, *[(1.0 - kept) / (len(NAMES) - 1)] * (len(NAMES) - 1)])

    def draw(side: int) -> Floats:
        codes = [[NAMES.index(label) for label in some] for some in (randomised(labels[side]), labels[side])]
        return np.mod(np.subtract(*codes), len(NAMES)).astype(float)

    return BlockRelease(
        name,
        (epsilon, 0.0),
        (Block("labels", n_labels, 1.0, 1.0, law=law),),
        draw,
        lambda numbers, side: np.zeros(n_labels),
        n_draws=200,
        about=lambda side: np.asarray(randomised(labels[side])).dtype,
    )


def fabricated_labels() -> BlockRelease:
    rows = np.random.default_rng(5).uniform(size=(24, 2))

    def randomised(labels: Any) -> Any:
        noise, mechanism = Laplace(1.0, sensitivity=Box(0, 1)), RandomisedLabels(0.7, NAMES)
        maker = Fabricator(noise, 1, label_mechanism=mechanism, n_jobs=1)
        maker.randomise(rows, labels)
        return maker.labels_

    return label_release("Fabricator, labels", randomised, 0.7, len(rows))


def outside_release() -> BlockRelease:
    rows = [np.full((200, 2), 0.5), np.full((200, 2), 0.5)]
    for side in (0, 1):
        rows[side][: 100 + side] = 9.0
    epsilon = 0.8
    return BlockRelease(
        "count_outside",
        (epsilon, 0.0),
        (Block("number of rows outside", 1, 1.0 / epsilon, 1.0, "laplace"),),
        lambda side: np.array([Box(0, 1).count_outside(rows[side], epsilon)[0]]),
        lambda numbers, side: np.array([100.0 + side]),
        n_draws=1500,
    )


# --- sums of several sites, with noise that they share ------------------------------------------------------

SITES = ("east", "north", "south", "west")
ROUNDS = count()
ENOUGH = 3  # sites whose noise must be enough: one of the four may know its own, or add none
ALL_NOISE = math.sqrt(len(SITES) / ENOUGH)  # of all sites together, in units of what the claim needs
HOLDERS = [HolderKey.new(f"holder-{number}") for number in range(3)]


def parties() -> SumParties:
    return SumParties(SITES, tuple(key.public for key in HOLDERS), 2)


def opened_sum(total: Any, vectors: list[Any]) -> Any:
    with TemporaryDirectory() as folder:
        places = [Path(folder) / name for name in (*SITES, *(key.name for key in HOLDERS))]
        for place in places:
            place.mkdir()
        messages = [
            total.contribute(site, vector, place)
            for site, vector, place in zip(SITES, vectors, places, strict=False)
        ]
        holders = [
            SumHolder(total, key, place) for key, place in zip(HOLDERS, places[len(SITES) :], strict=True)
        ]
        return total.together(messages, holders)


def summed_blocks(contract: Any, steps: float) -> tuple[Block, ...]:
    """Blocks of a contract, as its sites must fill them: the noise of all of them together."""
    factor = ALL_NOISE / steps
    found: list[Block] = []
    for block in contract.blocks:
        if block.triangle:
            n_matrices = 2 * block.length // (block.triangle * (block.triangle + 1))
            for number in range(n_matrices):
                name = f"{block.name} {number}"
                found += matrix_blocks(name, block.triangle, block.sigma * factor, 1.0 / steps)
        else:
            found.append(Block(block.name, block.length, block.sigma * factor, 1.0 / steps))
    return tuple(found)


def diagonal_first(vector: Floats, lengths: list[tuple[int, int]]) -> Floats:
    """Turn upper triangles, row by row, into diagonals and what is beside them."""
    found, start = [], 0
    for length, size in lengths:
        part = vector[start : (start := start + length)]
        if size:
            rows, columns = np.triu_indices(size)
            for matrix in part.reshape(-1, len(rows)):
                found += [matrix[rows == columns], matrix[rows < columns]]
        else:
            found.append(part)
    return np.concatenate(found)


def spread_over_sites(n_rows: int) -> list[Any]:
    return [slice(start, n_rows, len(SITES)) for start in range(len(SITES))]


def moment_sum_release() -> BlockRelease:
    """Moments of four sites by two encrypted sums, with a private centre; one site's noise may be missing."""
    data = two_datasets("record", "add-remove", 320, 2)
    agreed = PrivateMoments(1.0, DELTA, classes=range(N_CLASSES), second_moments="class")
    steps = 2.0**28

    def rounds(side: int) -> tuple[Any, Any, Floats]:
        rows, codes, *_ = data[side]
        total = MomentSum(f"round-{next(ROUNDS)}", parties(), agreed, N_COLUMNS)
        parts = spread_over_sites(len(rows))
        first = opened_sum(total.first, [total.first_vector(rows[part], codes[part]) for part in parts])
        later = total.proceed(first)
        second = opened_sum(later.second, [later.second_vector(rows[part], codes[part]) for part in parts])
        lengths = [(block.length, block.triangle) for block in later.second.contract.blocks]
        numbers = [first.vector / steps, diagonal_first(second.vector / steps, lengths)]
        return total.first.contract, later.second.contract, np.concatenate(numbers)

    def exact(numbers: Floats, side: int) -> Floats:
        rows, codes, _, weights = data[side]
        seen = in_ball(rows)
        sizes, centre = numbers[:N_CLASSES], numbers[N_CLASSES : N_CLASSES + N_COLUMNS]
        about = unit_length(seen - centre / max(1.0, sizes.sum()))
        by_hand = moments_by_hand(about, codes, weights, N_CLASSES, False)
        return np.concatenate([by_hand[:N_CLASSES], seen.sum(axis=0), by_hand[N_CLASSES:]])

    first, second, _ = rounds(0)
    return BlockRelease(
        "MomentSum",
        first.promise.record,
        (*summed_blocks(first, steps), *summed_blocks(second, steps)),
        lambda side: rounds(side)[2],
        exact,
        tightness=0.999 / ALL_NOISE,
        n_draws=24,
    )


def schema_sum_release() -> BlockRelease:
    """Moments of persons' records at four sites by one encrypted sum, about the declared middle."""
    fields = [*table_schema().fields, Field("who", "integer", role="person", low=0, high=10**6)]
    schema = Schema(fields, rows_per_person=2)
    tables = two_tables("person", "add-remove", 40)
    ones = [len(LEVELS[name]) if name in LEVELS else 0 for name in COLUMNS]
    middle = np.concatenate([[0.5] if n == 0 else [math.sqrt(0.5) / n] * n for n in ones])

    def summed(side: int) -> tuple[Any, Floats]:
        records, persons, _ = tables[side]
        made = SchemaSum(f"round-{next(ROUNDS)}", parties(), schema, delta=DELTA)
        parts = [[place for place, who in enumerate(persons) if who % 4 == site] for site in range(4)]
        vectors = [
            made.vector({**as_table([records[k] for k in part]), "who": [persons[k] for k in part]})
            for part in parts
        ]
        lengths = [(block.length, block.triangle) for block in made.total.contract.blocks]
        opened = opened_sum(made.total, vectors)
        return made.total.contract, diagonal_first(opened.vector / 2.0**28, lengths)

    def exact(numbers: Floats, side: int) -> Floats:
        records, persons, _ = tables[side]
        seen = unit_length(encoded_by_hand(records) - middle)
        weights = 1.0 / np.bincount(persons)[persons]
        return moments_by_hand(seen, np.array([record[-1] for record in records]), weights, N_CLASSES, True)

    contract, _ = summed(0)
    return BlockRelease(
        "SchemaSum, person",
        contract.promise.person,
        summed_blocks(contract, 2.0**28),
        lambda side: summed(side)[1],
        exact,
        tightness=0.999 / ALL_NOISE,
        n_draws=24,
    )


def table_sum_release() -> BlockRelease:
    tables = two_tables("record", "add-remove", 40)
    exact = [counts_by_hand(counted) for *_, counted in tables]
    maker = TableSynthesizer(table_schema(), 1.0, DELTA, noise=False)
    of_sites = [
        [maker.count_tables(as_table(records[part])) for part in spread_over_sites(len(records))]
        for records, *_ in tables
    ]

    def summed(side: int) -> Any:
        counts = of_sites[side]
        total = TableSum(f"round-{next(ROUNDS)}", parties(), counts[0], most_rows=1000)
        opened = opened_sum(total.total, [total.vector(own) for own in counts])
        return total, total.opened(counts[0], opened)

    total, once = summed(0)
    assert len(once.layout.pairs) == 10
    assert not total._digits
    return BlockRelease(
        "TableSum",
        total.total.contract.promise.record,
        blocks_of_tables(once.layout, of_sites[0][0].sigmas, ALL_NOISE),
        lambda side: summed(side)[1].vector,
        lambda numbers, side: exact[side],
        tightness=0.999 / ALL_NOISE,
        n_draws=24,
    )


# --- all of them -------------------------------------------------------------------------------------------

MECHANISMS = (Laplace, OptimalNoise, Gaussian, AnalyticGaussian)


def block_releases() -> dict[str, Maker]:
    """Name everything that onefold releases with noise; each is made when it is asked for."""
    moments = partial(moment_release, "PrivateMoments", fit_moments)
    many = {"n_rows": MANY, "epsilon": SHARP, "n_draws": 80}
    found: dict[str, Maker] = {
        "tables": table_release,
        "tables, replace": partial(table_release, neighbours="replace"),
        "tables, person": partial(table_release, "person"),
        "tables, many rows": partial(table_release, n_rows=MANY, epsilon=SHARP, n_draws=60),
        "tables, bins": fine_release,
        "moments": moments,
        "moments, replace": partial(moments, neighbours="replace", tightness=0.9),
        "moments, person": partial(moments, "person"),
        "moments, many rows": partial(moments, **many),
        "moments, pooled": partial(moments, settings={"second_moments": "pooled"}),
        "moments, pooled, replace": partial(
            moments, neighbours="replace", tightness=0.6, settings={"second_moments": "pooled"}
        ),
        "moments, pooled, person": partial(moments, "person", settings={"second_moments": "pooled"}),
        "moments, centre": partial(moments, n_rows=320, settings={"centre": "private"}),
        "moments, whitening": partial(
            moments, n_rows=320, settings={"centre": "private", "whitening": "private"}
        ),
        "moments, found classes": found_classes_release,
        "regression": regression_release,
        "regression, schema": schema_regression_release,
        "regression, person": partial(regression_release, "person"),
        "regression, many rows": partial(regression_release, **many),
        "classifier": partial(
            moment_release, "MomentClassifier", fit_classifier, settings={"second_moments": "class"}
        ),
        "fabricator of moments": partial(moment_release, "MomentFabricator", fit_fabricator),
        "site": partial(moment_release, "release_moments", fit_at_a_site, "person"),
        "source": partial(moment_release, "PrivateSource", fit_source),
        **{
            f"{kind.__name__}, {unit}": partial(mechanism_release, kind, unit)
            for kind in MECHANISMS
            for unit in ("entry", "record", "person")
        },
        "rows, many": partial(mechanism_release, Laplace, "record", n_rows=MANY, epsilon=SHARP),
        "fabricated rows": fabricated_release,
        "encoded rows": encoded_release,
        "rows that no table has": hostile_rows_release,
        "ball": ball_release,
        "FisherGaussian": partial(fisher_release, "FisherGaussian", "record"),
        "release_iid": partial(fisher_release, "release_iid", "person"),
        "BoundedFisherNoise": partial(bounded_release, "BoundedFisherNoise"),
        "release_bounded": partial(bounded_release, "release_bounded"),
        "release_table": published_table,
        "labels": partial(label_release, "RandomisedLabels", RandomisedLabels(1.0, NAMES).randomise, 1.0),
        "labels of fabricated rows": fabricated_labels,
        "rows outside": outside_release,
        "sum of moments": moment_sum_release,
        "sum of tables": table_sum_release,
        "sum by a schema": schema_sum_release,
    }
    return found
