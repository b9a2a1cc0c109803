"""Synthetic tables: what they look like, what they promise, what they cost, and what no cell can change."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from onefold import io
from onefold.exceptions import BudgetExceededError, InvalidInputError
from onefold.fabrication import TableCounts, TableSynthesizer, mock_table, synthesizer
from onefold.fabrication.bins import ColumnCells, coarse_bins
from onefold.fabrication.counts import CountingPlan, CountLayout, spent, with_noise
from onefold.privacy import Ledger
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.tables import Field, Schema
from reference.damage import refusals

FIELDS = (
    Field("patient", "string", role="identifier"),
    Field("age", "integer", low=0, high=110),
    Field("income", "number", low=0.0, high=1e6, scale="log", missing="indicator"),
    Field("ward", "string", levels=("cardio", "neuro", "onco", "other"), other="other"),
    Field("admitted", "date", low=16436.0, high=20453.0),
    Field("smoker", "boolean", missing="indicator"),
    Field("died", "string", role="label", levels=("no", "yes")),
)


def schema(**options: Any) -> Schema:
    return Schema(FIELDS, **{"rows_about": 4096, **options})


def table(n: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(55, 18, n), 0, 110).astype(int)
    died = rng.random(n) < 1 / (1 + np.exp(-(age - 65) / 6))
    income = np.where(rng.random(n) < 0.3, 0.0, rng.lognormal(10, 1, n))
    income[rng.random(n) < 0.1] = np.nan
    return {
        "patient": np.arange(n).astype(str),
        "age": age,
        "income": income,
        "ward": np.where(died, "onco", "cardio"),
        "admitted": np.datetime64("2015-01-01") + rng.integers(0, 4000, n),
        "smoker": np.ma.masked_array(rng.random(n) < 0.4, mask=rng.random(n) < 0.05),
        "died": np.where(died, "yes", "no"),
    }


def rows_of(given: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {name: column[rows] for name, column in given.items()}


def shape_of(given: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(name, column.dtype, type(column)) for name, column in given.items()]


# --- what comes out ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> TableSynthesizer:
    return TableSynthesizer(schema(), 2.0, random_state=0).fit(table(6000))


def test_sample_has_the_columns_types_and_levels_of_the_schema(fitted: TableSynthesizer) -> None:
    made = fitted.sample(500, random_state=0)
    assert list(made) == ["age", "income", "ward", "admitted", "smoker", "died"]
    assert {len(column) for column in made.values()} == {500}
    assert made["age"].dtype == np.int64
    assert made["ward"].dtype == np.dtype("U6")
    assert made["admitted"].dtype == np.dtype("datetime64[D]")
    assert set(made["died"].tolist()) <= {"no", "yes"}
    assert 0 <= made["age"].min() <= made["age"].max() <= 110
    assert 0 < np.isnan(made["income"]).mean() < 0.3
    assert 0.2 < (made["income"] == 0.0).mean() < 0.4  # the spike at the lower end
    assert made["smoker"].mask.any()
    schema().parse(made, strict=True, roles=("feature", "label"))


def test_sample_has_the_noisy_number_of_rows_unless_told(fitted: TableSynthesizer) -> None:
    assert len(fitted.sample()["age"]) == fitted.n_rows_ != 6000
    assert fitted.n_rows_ == pytest.approx(6000, abs=200)
    assert len(fitted.sample(0)["age"]) == 0
    with pytest.raises(InvalidInputError, match="n must be"):
        fitted.sample(-1)


def test_sample_repeats_with_a_seed_and_differs_without(fitted: TableSynthesizer) -> None:
    one, two = (fitted.sample(200, random_state=5)["age"] for _ in range(2))
    assert np.array_equal(one, two)
    assert not np.array_equal(fitted.sample(200)["age"], fitted.sample(200)["age"])


@pytest.mark.parametrize("structure", ["raked", "tree", "independent"])
def test_model_trained_on_synthetic_rows_works_on_real_ones(structure: str) -> None:
    made = (
        TableSynthesizer(schema(), 1.0, structure=structure, random_state=0)
        .fit(table(6000))
        .sample(random_state=0)
    )
    real = table(3000, seed=1)
    known, (truth, _) = schema(), schema().labels(real)
    model = LogisticRegression(max_iter=1000).fit(known.transform(made), known.labels(made)[0])
    assert roc_auc_score(truth == "yes", model.predict_proba(known.transform(real))[:, 1]) > 0.95


def test_structure_follows_from_the_noisy_number_of_rows() -> None:
    fits = [TableSynthesizer(schema(), 1.0, random_state=0).fit(table(n)) for n in (30, 2000, 8000)]
    assert [fit.structure_ for fit in fits] == ["independent", "tree", "raked"]


def test_raked_rows_follow_all_pairs_more_closely_than_a_tree() -> None:
    rng = np.random.default_rng(0)
    hidden = rng.random(20_000) < 0.5
    flags = {name: np.where(rng.random(20_000) < 0.3, rng.random(20_000) < 0.5, hidden) for name in "abcd"}
    known = Schema([Field(name, "boolean") for name in flags])
    fits = [
        TableSynthesizer(known, None, structure=structure).fit(flags)
        for structure in ("independent", "tree", "raked")
    ]
    distances = [fit.quality_.pairs[0] for fit in fits]
    assert distances[0] > 3 * distances[1] > 3 * distances[2]
    assert distances[2] < 0.01


def test_without_noise_margins_are_those_of_the_table() -> None:
    given = table(6000)
    made = TableSynthesizer(schema(), None).fit(given).sample(random_state=0)
    assert len(made["age"]) == 6000
    assert (made["died"] == "yes").sum() == pytest.approx((given["died"] == "yes").sum(), abs=2)
    assert np.isnan(made["income"]).sum() == pytest.approx(np.isnan(given["income"]).sum(), abs=90)
    for quantile in (0.1, 0.5, 0.9):
        assert np.quantile(made["age"], quantile) == pytest.approx(np.quantile(given["age"], quantile), abs=2)


# --- what is promised --------------------------------------------------------------------------------------


def test_noise_of_all_tables_together_is_what_the_budget_pays() -> None:
    counts = TableSynthesizer(schema(), 1.0, 1e-6).count_tables(table(50))
    assert spent(counts.layout, counts.sigmas) == pytest.approx(mu_of(1.0, 1e-6))


@pytest.mark.parametrize(("neighbours", "factor"), [("add-remove", 1.0), ("replace", math.sqrt(2.0))])
@pytest.mark.parametrize("rows", [None, 3])
@pytest.mark.parametrize("bins", [(), (18.0, 65.0)], ids=["open", "declared"])
def test_noise_that_a_fit_draws_is_what_the_budget_pays(
    monkeypatch: pytest.MonkeyPatch, bins: tuple[float, ...], rows: int | None, neighbours: Any, factor: float
) -> None:
    drawn: list[tuple[CountLayout, tuple[float, float]]] = []

    def recorded(layout: CountLayout, vector: Any, sigmas: tuple[float, float], noise: Any) -> Any:
        drawn.append((layout, sigmas))
        return with_noise(layout, vector, sigmas, noise)

    monkeypatch.setattr(synthesizer, "with_noise", recorded)
    fields = [
        Field("age", "integer", low=0, high=500, bins=bins),
        Field("sex", "string", levels=("f", "m")),
        Field("died", "boolean", role="label"),
    ]
    columns = {"age": np.arange(50), "sex": np.full(50, "f"), "died": np.arange(50) % 2 == 0}
    maker = TableSynthesizer(Schema(fields), 1.0, 1e-6, neighbours=neighbours, rows_per_person=rows)
    maker.fit(columns, None if rows is None else np.arange(50) // 4)
    assert len(drawn) == (1 if bins else 2)
    squares = sum(spent(*release) ** 2 for release in drawn)
    assert factor * (rows or 1) * math.sqrt(squares) == pytest.approx(mu_of(1.0, 1e-6))


@pytest.mark.parametrize(("neighbours", "factor"), [("add-remove", 1.0), ("replace", math.sqrt(2.0))])
@pytest.mark.parametrize("rows", [None, 1, 4])
def test_noise_grows_with_the_relation_and_the_rows_of_a_person(
    neighbours: Any, factor: float, rows: int | None
) -> None:
    person = None if rows is None else np.arange(50) // 2
    plain = TableSynthesizer(schema(), 1.0).count_tables(table(50))
    made = TableSynthesizer(schema(), 1.0, neighbours=neighbours, rows_per_person=rows).count_tables(
        table(50), person
    )
    assert made.sigmas[0] == pytest.approx(plain.sigmas[0] * factor * (rows or 1))


def test_guarantee_of_a_record_covers_its_label_and_a_replaced_one() -> None:
    promise = TableSynthesizer(schema(), 1.0, 1e-6).fit(table(20)).guarantee_
    assert promise.holds
    assert (promise.unit, promise.record) == ("record", (1.0, 1e-6))
    mu = mu_of(1.0, 1e-6)
    assert promise.replaced == (epsilon_of(math.sqrt(2) * mu, 1e-6), 1e-6)
    assert promise.labels == promise.entry == promise.replaced
    assert "the schema was declared without looking at the rows" in str(promise)
    assert "per record" in str(promise)


def test_guarantee_of_a_person_states_a_record_by_what_a_replaced_one_costs() -> None:
    promise = (
        TableSynthesizer(schema(), 1.0, 1e-6, rows_per_person=3).fit(table(20), np.arange(20) // 5).guarantee_
    )
    assert (promise.unit, promise.person, promise.rows_per_person) == ("person", (1.0, 1e-6), 3)
    assert promise.record == (epsilon_of(math.sqrt(2) * mu_of(1.0, 1e-6) / 3, 1e-6), 1e-6)
    assert any("stays with its person" in condition for condition in promise.conditions)


def test_delta_follows_from_the_declared_number_of_rows_and_never_from_the_table() -> None:
    deltas = [
        TableSynthesizer(schema(rows_about=about)).fit(table(n)).guarantee_.record[1]
        for about, n in ((None, 10), (None, 500), (1000, 500), (10**6, 500))
    ]
    assert deltas == [1e-5, 1e-5, 1e-5, 1e-7]


def test_seed_and_no_noise_void_the_guarantee() -> None:
    assert not TableSynthesizer(schema(), random_state=0).fit(table(20)).guarantee_.holds
    assert not TableSynthesizer(schema(), None).fit(table(20)).guarantee_.holds


def test_schema_from_private_rows_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="private rows"):
        TableSynthesizer(schema(source="private")).fit(table(20))


def test_persons_need_a_declared_number_of_rows() -> None:
    with pytest.raises(InvalidInputError, match="rowsPerPerson"):
        TableSynthesizer(schema()).fit(table(20), np.arange(20))
    with pytest.raises(InvalidInputError, match="needs person"):
        TableSynthesizer(schema(), rows_per_person=2).fit(table(20))


def test_persons_of_the_schema_keep_as_many_rows_as_declared() -> None:
    fields = [replace(FIELDS[0], role="person"), *FIELDS[1:]]
    known = Schema(fields, rows_per_person=2)
    given = table(100)
    given["patient"] = np.array(["a"] * 50 + [f"p{k}" for k in range(49)] + [""], dtype=object)
    counts = TableSynthesizer(known, None).fit(given).counts_
    # Two rows of a, one of each other person, none of nobody.
    assert [part.sum() for part in counts.layout.singles(counts.vector)] == [51] * 5
    assert TableSynthesizer(known).fit(given).guarantee_.unit == "person"


def test_release_is_entered_in_the_ledger_once_before_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(limit_epsilon=1.2, neighbours="add-remove")
    TableSynthesizer(schema(), 1.0, ledger=ledger).fit(table(30))
    assert [event.epsilon for event in ledger.events] == [1.0]
    monkeypatch.setattr(
        "onefold.fabrication.synthesizer.with_noise", lambda *_: pytest.fail("noise was drawn")
    )
    with pytest.raises(BudgetExceededError):
        TableSynthesizer(schema(), 1.0, ledger=ledger).fit(table(30))


def test_every_count_of_tables_is_charged() -> None:
    ledger = Ledger(neighbours="add-remove")
    maker = TableSynthesizer(schema(), 1.0, ledger=ledger)
    for times in (1, 2):
        maker.count_tables(table(30))
        assert len(ledger.events) == times


# --- several sites -----------------------------------------------------------------------------------------


def test_counts_of_sites_without_noise_are_bit_equal_to_those_of_the_pooled_table() -> None:
    whole = table(900)
    parts = [rows_of(whole, rows) for rows in (slice(0, 100), slice(100, 500), slice(500, None))]
    maker = TableSynthesizer(schema(), None)
    sent = [maker.count_tables(part) for part in parts]
    total = TableCounts.from_bytes((sent[2] + sent[0] + sent[1]).to_bytes())
    pooled = maker.count_tables(whole)
    assert np.array_equal(total.vector, pooled.vector)
    total.check_comparable(pooled)  # the bins are equal
    one, two = (
        TableSynthesizer.from_counts(schema(), counts).sample(random_state=1) for counts in (total, pooled)
    )
    assert all(one[name].tobytes() == two[name].tobytes() for name in one)


def test_counts_of_another_schema_are_refused() -> None:
    counts = TableSynthesizer(schema(), 1.0).count_tables(table(30))
    with pytest.raises(InvalidInputError, match="another schema"):
        TableSynthesizer.from_counts(schema(rows_about=7), counts)


# --- no cell stops a release, and none shows ---------------------------------------------------------------

STRANGE = {
    "patient": "x" * 50,
    "age": 10**9,
    "income": math.inf,
    "ward": "a ward that nobody has declared",
    "admitted": np.datetime64("1900-01-01"),
    "smoker": "perhaps",
    "died": "yes",
}


def objects(given: dict[str, Any]) -> dict[str, Any]:
    return {name: np.array(column, dtype=object) for name, column in given.items()}


def with_row(given: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return {name: np.append(objects(given)[name], row[name]) for name in given}


def test_neighbouring_tables_give_the_same_names_types_and_levels() -> None:
    given = table(200)
    neighbours = [
        given,
        with_row(given, STRANGE),
        rows_of(given, slice(1, None)),
        rows_of(given, slice(0, 0)),
    ]
    for structure in ("tree", "raked", "independent"):
        made = [
            TableSynthesizer(schema(), 1.0, structure=structure).fit(each).sample(50) for each in neighbours
        ]
        assert all(shape_of(each) == shape_of(made[0]) for each in made)
    guarantees = [str(TableSynthesizer(schema(), 1.0).fit(each).guarantee_) for each in neighbours]
    assert len(set(guarantees)) == 1


def test_with_the_same_noisy_counts_other_rows_leave_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def fixed(layout: CountLayout, vector: Any, sigmas: tuple[float, float], noise: Any) -> Any:
        return np.random.default_rng(layout.length).integers(-50, 500, layout.length)

    monkeypatch.setattr(synthesizer, "with_noise", fixed)
    found = []
    for rows in (table(0), table(60), table(3000, seed=1)):
        made = TableSynthesizer(schema(), 1.0).fit(rows)
        drawn = made.sample(random_state=0)
        cells = [(name, np.ma.filled(column, 0).tobytes()) for name, column in drawn.items()]
        found.append((made.counts_.to_bytes(), made.n_rows_, made.structure_, made.quality_, cells))
    assert found[0] == found[1] == found[2]


def test_length_of_a_sample_follows_from_released_counts() -> None:
    maker = TableSynthesizer(schema(), 1.0).fit(table(200))
    again = TableSynthesizer.from_counts(schema(), TableCounts.from_bytes(maker.counts_.to_bytes()))
    one, two = maker.sample(random_state=0), again.sample(random_state=0)
    assert all(one[name].tobytes() == two[name].tobytes() for name in one)


@pytest.mark.parametrize("column", [name for name in STRANGE if name != "patient"])
@pytest.mark.parametrize("cell", [None, math.nan, "", "text", -1e300, b"\xff"])
def test_no_cell_stops_a_release(column: str, cell: Any) -> None:
    row = {name: objects(table(1))[name][0] for name in STRANGE} | {column: cell}
    counts = TableSynthesizer(schema(), None).fit(with_row(table(30), row)).counts_
    n_rows = [part.sum() for part in counts.layout.singles(counts.vector)]
    # A row without a declared label is left out; every other cell is in some cell of its column.
    assert n_rows == [30 if column == "died" else 31] * 5


def test_cells_outside_the_contract_are_mapped_by_its_rules() -> None:
    age = ColumnCells.of(FIELDS[1], 8)
    assert age.code(np.array([-5.0, 0.0, 110.0, 1e9, math.nan])).tolist() == [0, 0, 110, 110, 55]
    income = ColumnCells.of(FIELDS[2], 8)
    assert income.code(np.array([-5.0, 0.0, 1e9, math.inf, math.nan])).tolist() == [0, 0, 8, 8, 9]
    ward = ColumnCells.of(FIELDS[3], 8)
    assert ward.code(np.array([0, 3, -1])).tolist() == [0, 3, 0]


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("structure", ["auto", "raked", "tree", "independent"])
def test_tables_of_hardly_any_rows_are_released_and_sampled(n: int, structure: Any) -> None:
    for epsilon in (None, 1.0):
        made = TableSynthesizer(schema(), epsilon, structure=structure).fit(table(n)).sample(20)
        assert len(made["age"]) == 20


DEGENERATE = {
    "one column": ([Field("a", low=0, high=1)], {"a": np.linspace(0, 1, 50)}),
    "one level": (
        [Field("a", "string", levels=("x",)), Field("b", "boolean")],
        {"a": ["x"] * 9, "b": [True] * 9},
    ),
    "an empty class": (
        [Field("a", low=0, high=1), Field("y", "string", role="label", levels=("p", "q", "r"))],
        {"a": np.linspace(0, 1, 40), "y": np.array(["p", "q"] * 20)},
    ),
    "all missing": (
        [Field("a", low=0, high=1, missing="indicator"), Field("b", "boolean", missing="indicator")],
        {"a": np.full(30, np.nan), "b": np.array([None] * 30, dtype=object)},
    ),
    "a constant": (
        [Field("a", "integer", low=0, high=10**6), Field("b", "boolean")],
        {"a": [7] * 30, "b": [True] * 30},
    ),
    "a label of one class": (
        [Field("a", low=0, high=1), Field("y", "string", role="label", levels=("p",))],
        {"a": np.linspace(0, 1, 40), "y": ["p"] * 40},
    ),
    "a label of numbers": (
        [Field("a", low=0, high=1), Field("y", low=0, high=5, role="label")],
        {"a": np.linspace(0, 1, 40), "y": np.linspace(0, 5, 40)},
    ),
    "a label of many classes": (
        [Field("a", low=0, high=1), Field("y", "integer", role="label", levels=tuple(range(25)))],
        {"a": np.linspace(0, 1, 50), "y": np.arange(50) % 25},
    ),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("epsilon", [None, 0.5])
def test_degenerate_tables_are_released_and_sampled(name: str, epsilon: float | None) -> None:
    fields, given = DEGENERATE[name]
    known = Schema(fields)
    for structure in ("raked", "tree", "independent"):
        maker = TableSynthesizer(known, epsilon, structure=structure).fit(given)
        made = maker.sample(30)
        known.parse(made, strict=True, roles=("feature", "label"))
        assert "Traceback" not in str(maker.quality_)
    if epsilon is None and name == "all missing":
        assert np.isnan(made["a"]).all()
    if epsilon is None and name == "an empty class":
        assert set(made["y"].tolist()) == {"p", "q"}


# --- plans and bins ----------------------------------------------------------------------------------------


def test_declared_bins_are_used_as_they_are() -> None:
    known = Schema([Field("a", low=0, high=9, bins=(1, 2, 5)), Field("b", "boolean"), FIELDS[-1]])
    given = {"a": np.linspace(0, 9, 300), "b": np.arange(300) % 2 == 0, "died": np.array(["no", "yes"] * 150)}
    assert TableSynthesizer(known, 1.0).count_tables(given).layout.sizes == (4, 2)


def test_bins_of_a_sum_depend_on_the_schema_and_the_noise_alone() -> None:
    made = [TableSynthesizer(schema(), 1.0).count_tables(table(n, seed=n)) for n in (0, 10, 3000)]
    assert made[0].layout == made[1].layout == made[2].layout
    made[0].check_comparable(made[1])  # the bins are equal
    made[0].check_comparable(made[2])  # the bins are equal


def test_more_than_sixty_columns_are_counted_in_pairs_of_close_ones() -> None:
    known = Schema([Field(f"c{k}", "boolean") for k in range(100)])
    plan = CountingPlan.of(known, 8)
    assert len(plan.pairs) == 1770
    assert {j - i for i, j in plan.pairs} == set(range(1, 21))
    sixty = CountingPlan.of(Schema([Field(f"c{k}", "boolean") for k in range(60)]), 8)
    assert len(sixty.pairs) == 60 * 59 // 2


def test_heavy_cells_stay_alone_and_light_ones_are_merged() -> None:
    column = ColumnCells("x", 6, True, np.arange(7.0))
    counts = np.array([500.0, 10.0, 10.0, 10.0, 10.0, 460.0, 3.0])
    (found,) = coarse_bins([column], [counts], 0.5, 10.0, 1003.0).cells
    assert found.tolist() == [0, 1, 1, 1, 1, 2, 3]


def test_rare_levels_are_put_together() -> None:
    column = ColumnCells("x", 5, False)
    counts = np.array([500.0, 1.0, 300.0, 2.0, 200.0])
    (found,) = coarse_bins([column], [counts], 1.0, 10.0, 1003.0).cells
    assert found.tolist() == [0, 3, 1, 3, 2]
    (few,) = coarse_bins([column], [counts], 1.0, 10.0, 1003.0, most_levels=1).cells
    assert few.tolist() == [0, 1, 1, 1, 1]


def test_too_many_declared_cells_are_refused_from_the_schema_alone() -> None:
    levels = tuple(f"{k:05d}" for k in range(9000))
    known = Schema([Field(name, "integer", low=0, high=9000, bins=tuple(range(1, 9000))) for name in "ab"])
    with pytest.raises(InvalidInputError, match="too many levels"):
        TableSynthesizer(known).fit({"a": [], "b": []})
    many = Schema([Field(name, "string", levels=levels) for name in "ab"])
    TableSynthesizer(many, 1.0).fit({"a": ["00001"] * 50, "b": ["00002"] * 50}).sample(5)


# --- reports and mock tables -------------------------------------------------------------------------------


def test_quality_says_what_noise_and_drawing_do_to_columns_and_pairs(fitted: TableSynthesizer) -> None:
    quality = fitted.quality_
    assert set(quality.columns) == {"age", "income", "ward", "admitted", "smoker"}
    assert all(0 <= part <= 1 for pair in quality.columns.values() for part in pair)
    assert "up to these errors, and no rare combinations" in str(quality)
    assert quality.to_dict()["text"] == str(quality)
    noisy = TableSynthesizer(schema(), 0.05, random_state=0).fit(table(100)).quality_
    worst, noisiest = (max(expected for _, expected in made.columns.values()) for made in (quality, noisy))
    assert noisiest > 4 * worst
    assert noisy.pairs[1] >= 0.0


def test_expected_error_of_a_column_is_the_one_that_noise_makes() -> None:
    """On average over noises, repaired counts are as far from the table as the report expects."""
    known = Schema([Field(name, low=0, high=8, bins=tuple(range(1, 8))) for name in "ab"])
    rng = np.random.default_rng(0)
    given = {name: rng.uniform(0, 8, 4000) for name in "ab"}
    truth = np.histogram(given["a"], 8, (0, 8))[0]
    ratios = []
    for seed in range(40):
        maker = TableSynthesizer(known, 1.0, random_state=seed).fit(given)
        found = maker._repaired.singles[0].sum(axis=0)
        distance = np.abs(found - truth).sum() / (2 * 4000)
        ratios.append(distance / maker.quality_.columns["a"][1])
    assert 0.8 < np.mean(ratios) < 1.2


def test_mock_table_comes_from_the_schema_alone() -> None:
    made = mock_table(schema(), 300, random_state=0)
    assert list(made) == ["age", "income", "ward", "admitted", "smoker", "died"]
    assert shape_of(made) == shape_of(TableSynthesizer(schema()).fit(table(50)).sample(5))
    assert set(made["ward"].tolist()) == {"cardio", "neuro", "onco", "other"}
    assert np.isnan(made["income"]).any()
    assert len(mock_table(schema(), 0)["age"]) == 0
    schema().parse(made, strict=True, roles=("feature", "label"))


def test_synthesizer_survives_its_file(fitted: TableSynthesizer, tmp_path: Path) -> None:
    for save, load in ((fitted.save, TableSynthesizer.load), (partial(io.save, fitted), io.load)):
        save(tmp_path / "maker")
        read = load(tmp_path / "maker")
        assert read.guarantee_ == fitted.guarantee_
        one, two = read.sample(50, random_state=0), fitted.sample(50, random_state=0)
        assert all(one[name].tobytes() == two[name].tobytes() for name in one)
    words = refusals(
        tmp_path / "maker", range(0, 4000, 83), lambda: io.load(tmp_path / "maker").counts_.vector
    )
    assert len(words) > 20
    io.save(fitted.counts_, tmp_path / "counts")
    assert io.load(tmp_path / "counts").to_bytes() == fitted.counts_.to_bytes()


def test_synthesizer_can_be_cloned_and_says_when_it_is_not_fitted() -> None:
    maker = TableSynthesizer(schema(), 0.7, structure="tree")
    assert clone(maker).get_params()["epsilon"] == 0.7
    with pytest.raises(NotFittedError):
        maker.sample()
