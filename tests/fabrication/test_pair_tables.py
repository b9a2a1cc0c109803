"""Counts of cells: compared with the literal version, added up, taken apart, written and read."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.fabrication import TableCounts, TableSynthesizer, synthesizer
from onefold.fabrication.bins import Bins, simplex
from onefold.fabrication.counts import CountLayout, spent
from onefold.fabrication.synthetic_rows import repair, spanning_tree
from onefold.privacy import Guarantee
from onefold.privacy.calibration import mu_of
from onefold.tables import Field, Schema
from reference import pair_tables as literal
from reference.damage import refusals


def schema(**options: Any) -> Schema:
    fields = [
        Field("age", "integer", low=0, high=100, bins=(18, 65)),
        Field("dose", "number", low=0.0, high=10.0, bins=(2.5, 5.0), missing="indicator"),
        Field("sex", "string", levels=("f", "m")),
        Field("died", "boolean", role="label"),
    ]
    return Schema(fields, **options)


def table(n: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    dose = rng.uniform(0, 10, n)
    dose[rng.random(n) < 0.2] = np.nan
    died = rng.random(n) < 0.3
    return {
        "age": rng.integers(0, 101, n),
        "dose": dose,
        "sex": np.where(rng.random(n) < 0.3 + 0.4 * died, "f", "m"),
        "died": died,
    }


def counts_of(n: int = 200, seed: int = 0, **options: Any) -> TableCounts:
    return TableSynthesizer(schema(), **{"random_state": seed, **options}).count_tables(table(n, seed))


# --- counting ----------------------------------------------------------------------------------------------

CASES = [
    # rows, sizes, classes
    (60, (3, 2, 4), 2),
    (60, (3,), 1),  # one column
    (40, (1, 3), 2),  # one level
    (30, (2, 2), 3),  # the last class stays empty
    (1, (2, 3, 2), 2),  # a single row
    (0, (2, 3), 2),  # no rows at all
]


def cells(n: int, sizes: tuple[int, ...], n_classes: int) -> tuple[Any, Any, CountLayout]:
    rng = np.random.default_rng(n)
    codes = np.array([rng.integers(0, size, n) for size in sizes], dtype=np.intp).reshape(len(sizes), n)
    classes = rng.integers(-1, max(n_classes - 1, 1), n).astype(np.intp)
    pairs = tuple((i, j) for i in range(len(sizes)) for j in range(i + 1, len(sizes)))
    return codes, classes, CountLayout(tuple(map(str, range(len(sizes)))), sizes, n_classes, pairs)


@pytest.mark.parametrize(("n", "sizes", "n_classes"), CASES)
def test_counts_are_those_of_the_literal_version(n: int, sizes: tuple[int, ...], n_classes: int) -> None:
    codes, classes, layout = cells(n, sizes, n_classes)
    found = layout.count(lambda column, rows: codes[column][rows], classes)
    rows = list(map(tuple, codes.T.tolist()))
    assert found.tolist() == literal.counts(rows, classes.tolist(), sizes, n_classes, layout.pairs)


def test_rows_are_counted_in_blocks_without_losing_any(monkeypatch: pytest.MonkeyPatch) -> None:
    codes, classes, layout = cells(1000, (3, 4), 2)
    whole = layout.count(lambda column, rows: codes[column][rows], classes)
    monkeypatch.setattr("onefold.fabrication.counts.BLOCK_ROWS", 37)
    assert np.array_equal(layout.count(lambda column, rows: codes[column][rows], classes), whole)


def test_one_row_more_changes_one_count_of_every_table_by_one() -> None:
    codes, classes, layout = cells(50, (3, 2, 4), 2)
    classes = np.abs(classes)
    with_it = layout.count(lambda column, rows: codes[column][rows], classes)
    without = layout.count(lambda column, rows: codes[column][:-1][rows], classes[:-1])
    change = with_it - without
    assert sorted(np.unique(change).tolist()) == [0, 1]
    assert change.sum() == len(layout.sizes) + len(layout.pairs)


# --- repair ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "sizes", "n_classes"), CASES)
@pytest.mark.parametrize("sigmas", [(2.0, 3.0), (30.0, 40.0), (0.0, 0.0)])
def test_repaired_tables_are_those_of_the_literal_version(
    n: int, sizes: tuple[int, ...], n_classes: int, sigmas: tuple[float, float]
) -> None:
    codes, classes, layout = cells(n, sizes, n_classes)
    vector = layout.count(lambda column, rows: codes[column][rows], classes).astype(np.float64)
    rng = np.random.default_rng(1)
    edge = layout.singles_length
    vector[:edge] += np.rint(sigmas[0] * rng.normal(size=edge))
    vector[edge:] += np.rint(sigmas[1] * rng.normal(size=len(vector) - edge))
    found = repair(layout, vector, sigmas)
    s1, s2 = (sigma or 1.0 for sigma in sigmas)
    for own in range(n_classes):
        singles = [part[own].tolist() for part in layout.singles(vector)]
        doubles = [part[own] for part in layout.doubles(vector)]
        size = literal.class_size(singles, doubles, s1, s2)
        assert found.sizes[own] == pytest.approx(size, abs=1e-9)
        margins = [
            literal.on_simplex(literal.margin(c, singles, doubles, layout.pairs, s1, s2).tolist(), size)
            for c in range(len(sizes))
        ]
        for column, own_margin in enumerate(margins):
            assert found.singles[column][own] == pytest.approx(own_margin, abs=1e-6 * max(size, 1))
        if size < 1e-6:
            continue
        for k, (i, j) in enumerate(layout.pairs):
            expected = literal.pair(doubles[k], np.array(margins[i]), np.array(margins[j]), size, sigmas[1])
            assert found.doubles[k][own] == pytest.approx(expected, abs=1e-3 * max(size, 1))


def test_repair_of_counts_without_noise_returns_them() -> None:
    codes, classes, layout = cells(500, (3, 2, 4), 2)
    vector = layout.count(lambda column, rows: codes[column][rows], classes)
    found = repair(layout, vector, (0.0, 0.0))
    for mine, given in zip(found.doubles, layout.doubles(vector), strict=True):
        assert mine == pytest.approx(given, abs=1e-3)


def test_tree_has_the_largest_information_of_all_trees() -> None:
    rng = np.random.default_rng(3)
    base = rng.integers(0, 3, 400)
    codes = [np.where(rng.random(400) < 0.2 * k, rng.integers(0, 3, 400), base) for k in range(5)]
    pairs = tuple((i, j) for i in range(5) for j in range(i + 1, 5))
    layout = CountLayout(tuple("abcde"), (3,) * 5, 1, pairs)
    vector = layout.count(lambda column, rows: codes[column][rows], np.zeros(400, dtype=np.intp))
    found = repair(layout, vector, (0.0, 0.0))
    gains = {pair: literal.information(part[0]) for pair, part in zip(pairs, found.doubles, strict=True)}
    tree = spanning_tree(found)
    assert sorted(column for column, _, _ in tree) == [0, 1, 2, 3, 4]
    edges = [tuple(sorted((column, parent))) for column, parent, _ in tree if parent is not None]
    assert sum(gains[edge] for edge in edges) == pytest.approx(literal.best_tree(gains, 5))


def test_simplex_is_the_nearest_point_of_the_literal_version() -> None:
    rng = np.random.default_rng(0)
    for total in (0.0, 5.0, 100.0):
        values = rng.normal(scale=20, size=7)
        assert simplex(values, total) == pytest.approx(literal.on_simplex(values.tolist(), total), abs=1e-9)


# --- sums --------------------------------------------------------------------------------------------------


def test_counts_without_noise_add_up_to_those_of_the_pooled_table_bit_by_bit() -> None:
    whole = table(300)
    parts = [
        {name: column[rows] for name, column in whole.items()} for rows in (slice(0, 90), slice(90, None))
    ]
    maker = TableSynthesizer(schema(), None)
    one, two = (maker.count_tables(part) for part in parts)
    pooled = maker.count_tables(whole)
    assert np.array_equal((one + two).vector, pooled.vector)
    assert np.array_equal((two + one - one).vector, two.vector)
    same = [
        TableSynthesizer.from_counts(schema(), counts).sample(50, random_state=0)
        for counts in (one + two, pooled)
    ]
    assert all(np.array_equal(same[0][name], same[1][name], equal_nan=name == "dose") for name in same[0])


def test_variances_of_the_noise_add_up_and_leave_again() -> None:
    one, two, three = (counts_of(seed=seed) for seed in range(3))
    both = one + two + three
    assert both.sigmas == pytest.approx([sigma * 3**0.5 for sigma in one.sigmas])
    assert both.n_sites == 3
    left = both - two
    assert np.array_equal(left.vector, (one + three).vector)
    assert left.sigmas == pytest.approx((one + three).sigmas)
    assert left.n_sites == 2


def test_what_was_never_added_cannot_leave() -> None:
    one, two = counts_of(seed=0), counts_of(seed=1)
    with pytest.raises(InvalidInputError, match="not part of the sum"):
        one - two
    loud = TableSynthesizer(schema(), 0.1, random_state=0).count_tables(table(50))
    with pytest.raises(InvalidInputError, match="not part of the sum"):
        (one + two) - loud
    with pytest.raises(InvalidInputError, match="not part of the sum"):
        (one + two) - counts_of(seed=2)  # as much noise, and of another site
    with pytest.raises(InvalidInputError, match="cannot leave"):
        replace(one + two, shared=True) - one


def test_no_site_is_counted_twice_also_inside_a_sum() -> None:
    one, two, three = (counts_of(seed=seed) for seed in range(3))
    total = TableCounts.from_bytes((one + two).to_bytes())
    for again in (one, two, one + three, total):
        with pytest.raises(InvalidInputError, match="a site is counted once"):
            total + again
    assert (total + three - one).parts == (two + three).parts
    assert (total - two + two).parts == total.parts
    alone = total - two
    assert alone.parts == one.parts == ()
    without = [TableSynthesizer(schema(), None).count_tables(table(20)) for _ in range(2)]
    assert (without[0] + without[1]).parts == ()  # equal rows may be of two sites


def test_counts_of_other_schemas_cells_or_units_are_not_added() -> None:
    one = counts_of()
    other = TableSynthesizer(schema(rows_about=77), random_state=0).count_tables(table(20))
    with pytest.raises(InvalidInputError, match="different schemas"):
        one + other
    with pytest.raises(InvalidInputError, match="relations"):
        one + counts_of(neighbours="replace")
    bins = Bins(one.bins.cells, tuple(weights + 1 for weights in one.bins.weights))
    with pytest.raises(InvalidInputError, match="different bins"):
        one + replace(one, bins=bins)


def test_sum_promises_what_the_worst_of_its_sites_promises() -> None:
    worst = counts_of(epsilon=2.0) + counts_of(epsilon=0.5, seed=1)
    assert worst.guarantee.record == (2.0, 1e-5)
    assert worst.guarantee.n_owners == 2


# --- shares of the noise -----------------------------------------------------------------------------------


def test_opened_sum_takes_the_place_of_counts_that_wait_for_noise() -> None:
    raw = TableSynthesizer(schema(), 0.3, noise=False).count_tables(table(50))
    assert raw.is_raw
    assert not raw.guarantee.holds
    opened = raw.with_vector(4 * raw.vector, raw.sigmas, counts_of(epsilon=0.3).guarantee)
    assert opened.shared
    assert not opened.is_raw


def test_counts_that_wait_for_noise_are_neither_written_nor_fitted() -> None:
    maker = TableSynthesizer(schema(), noise=False)
    raw = maker.count_tables(table(20))
    with pytest.raises(InvalidInputError, match="not written"):
        raw.to_bytes()
    with pytest.raises(InvalidInputError, match="wait for noise"):
        TableSynthesizer.from_counts(schema(), raw)
    with pytest.raises(InvalidInputError, match="noise=False"):
        maker.fit(table(20))
    with pytest.raises(InvalidInputError, match="cannot be added"):
        raw + counts_of()


# --- files -------------------------------------------------------------------------------------------------


def test_counts_survive_their_file_bit_by_bit(tmp_path: Path) -> None:
    counts = counts_of() + counts_of(seed=1)
    counts.save(tmp_path / "counts")
    read = TableCounts.load(tmp_path / "counts")
    assert np.array_equal(read.vector, counts.vector)
    assert (read.layout, read.sigmas, read.guarantee) == (counts.layout, counts.sigmas, counts.guarantee)
    assert read.to_bytes() == counts.to_bytes()
    assert np.array_equal((read + counts_of(seed=2)).vector, (counts + counts_of(seed=2)).vector)


def test_counts_that_promise_a_single_row_of_a_person_an_epsilon_of_0_survive_their_file() -> None:
    declared = Schema(
        [Field("age", low=0, high=100), Field("who", "string", role="person")], rows_per_person=1000
    )
    counts = TableSynthesizer(declared, 0.05).count_tables({"age": [1, 2], "who": ["a", "b"]})
    assert counts.guarantee.record[0] == 0.0
    again = TableCounts.from_bytes(counts.to_bytes())
    assert again.guarantee == counts.guarantee
    less = replace(counts, sigmas=(counts.sigmas[0] / 1000, counts.sigmas[1]))
    with pytest.raises(FileFormatError, match="too small"):
        TableCounts.from_bytes(less.to_bytes())


def test_stated_noise_that_is_too_small_for_the_guarantee_is_refused() -> None:
    counts = counts_of()
    assert spent(counts.layout, counts.sigmas) == pytest.approx(mu_of(1.0, 1e-5))
    quieter = replace(counts, sigmas=(0.99 * counts.sigmas[0], counts.sigmas[1]))
    with pytest.raises(FileFormatError, match="too small"):
        TableCounts.from_bytes(quieter.to_bytes())
    bolder = replace(counts, guarantee=replace(counts.guarantee, record=(0.5, 1e-5), mu=None))
    with pytest.raises(FileFormatError, match="too small"):
        TableCounts.from_bytes(bolder.to_bytes())


@pytest.mark.parametrize(
    "claim",
    [
        {"entry": (0.01, 1e-5)},
        {"labels": (0.01, 1e-5)},
        {"replaced": (0.01, 1e-5)},
        {"record": (1.0, 1e-5), "mu": 0.01},
        {"person": (9.0, 1e-5), "rows_per_person": 9},
    ],
)
def test_no_line_of_a_stated_guarantee_may_promise_more_than_the_noise(claim: dict[str, Any]) -> None:
    counts = counts_of()
    with pytest.raises(FileFormatError, match=r"too small|not one of table counts"):
        TableCounts.from_bytes(replace(counts, guarantee=replace(counts.guarantee, **claim)).to_bytes())


@pytest.mark.parametrize(
    "change",
    [
        {"layout": CountLayout(("age",), (2,))},
        {"vector": np.zeros(3, dtype=np.int64)},
        {"vector": np.zeros(0)},
    ],
)
def test_counts_that_do_not_fit_their_layout_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="whole numbers of 64 bits"):
        replace(counts_of(), **change)


def test_damaged_files_are_refused_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "counts"
    counts_of(20).save(path)
    places = np.random.default_rng(0).integers(0, path.stat().st_size, 60).tolist()
    found = refusals(path, places, lambda: TableCounts.load(path).vector)
    assert len(found) > 40
    assert not any("\n" in words for words in found)


def test_counts_refuse_a_guarantee_of_something_else() -> None:
    promise = Guarantee("entry", (1.0, 1e-5), (3.0, 1e-5), 3)
    with pytest.raises(FileFormatError, match="not one of table counts"):
        TableCounts.from_bytes(replace(counts_of(), guarantee=promise).to_bytes())


@pytest.mark.parametrize("n_fine", [65, 10**9, 10**15])
def test_a_small_file_cannot_claim_more_fine_cells_than_there_are(n_fine: int) -> None:
    packed = replace(counts_of(), n_fine=n_fine).to_bytes()
    with pytest.raises(FileFormatError, match="damaged"):
        TableCounts.from_bytes(packed)


def test_rows_that_are_drawn_unasked_are_bounded_whatever_counts_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(synthesizer, "MOST_ROWS", 100)
    counts = counts_of()
    claimed = replace(counts, vector=np.full_like(counts.vector, 2**38))
    maker = TableSynthesizer.from_counts(schema(), TableCounts.from_bytes(claimed.to_bytes()))
    assert maker.n_rows_ > 2**38
    assert len(maker.sample()["age"]) == 100
    assert len(maker.sample(200)["age"]) == 200
