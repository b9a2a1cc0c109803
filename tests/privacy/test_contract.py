"""What a schema means for noise: its domain bounds every change, and reading rows refuses none of them."""

import math
from itertools import product

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.privacy import AnalyticGaussian, Box, FisherGaussian, Laplace, OptimalNoise, PrivateMoments
from onefold.privacy.contract import (
    DECLARED,
    EncodedBox,
    contract_rows,
    domain_of,
    encoding_of,
    under_contract,
)
from onefold.privacy.mechanisms.fisher import Weights
from onefold.tables import Field, Schema

NUMBER = Field("n", low=-3, high=5)
NULLABLE = Field("m", low=0, high=8, missing="indicator", fill=2.0)
WARD = Field("w", "string", levels=("a", "b", "c"))
SEEN = Field("s", "boolean", missing="indicator")
LABEL = Field("y", "string", "label", levels=("no", "yes"))
PERSON = Field("p", "string", "person")
SCHEMA = Schema([NUMBER, NULLABLE, WARD, SEEN, LABEL, PERSON], rows_per_person=2)
CELLS = {
    "n": [-3, 5, 1e9, "nonsense", None],
    "m": ["", 0, 8, 2.5, math.nan],
    "w": ["a", "b", "c", "undeclared and far longer than any level", None],
    "s": [True, "false", "", "maybe"],
}


def encoded(**cells: object) -> np.ndarray:
    row = {"n": 1, "m": 1, "w": "a", "s": True} | cells
    return SCHEMA.transform({name: [cell] for name, cell in row.items()})[0]


def test_domain_bounds_every_change_of_a_cell_and_reaches_it() -> None:
    domain = domain_of(SCHEMA)
    for norm in (1, 2):
        largest = 0.0
        for name, cells in CELLS.items():
            for one, two in product(cells, cells):
                apart = encoded(**{name: one}) - encoded(**{name: two})
                assert np.count_nonzero(apart) <= domain.cell_entries
                largest = max(largest, float(np.linalg.norm(apart, norm)))
        assert largest <= domain.entry_in(norm) * (1 + 1e-15)
        assert largest == pytest.approx(domain.entry_in(norm))
    assert domain.entry == domain.entry_in(2) == pytest.approx(SCHEMA.entry_change)
    assert domain.l2 == pytest.approx(SCHEMA.row_change)


def test_domain_bounds_every_change_of_a_record() -> None:
    domain = domain_of(SCHEMA)
    rows = np.array([encoded(**dict(zip(CELLS, row, strict=True))) for row in product(*CELLS.values())])
    apart = rows[:, None, :] - rows[None, :, :]
    assert np.abs(apart).sum(axis=2).max() == pytest.approx(domain.l1)
    assert np.sqrt((apart**2).sum(axis=2)).max() == pytest.approx(domain.l2)
    assert np.linalg.norm(rows, axis=1).max() <= SCHEMA.row_norm
    assert np.array_equal(domain.clip(rows), rows)


def test_numbers_alone_have_the_domain_of_a_unit_box() -> None:
    domain, box = EncodedBox([NUMBER, NUMBER]), Box(0, 1, 2)
    assert (domain.entry, domain.l1, domain.l2, domain.cell_entries) == (box.entry, box.l1, box.l2, 1)


def test_noise_per_entry_is_calibrated_for_a_whole_cell() -> None:
    categories = Schema([WARD])
    domain = domain_of(categories)
    assert Laplace(1.0, sensitivity=domain).scale == pytest.approx(math.sqrt(2), rel=1e-3)
    assert AnalyticGaussian(1.0, sensitivity=domain).scale == pytest.approx(
        AnalyticGaussian(1.0, sensitivity=1.0).scale, rel=1e-3
    )
    for noise in (Laplace(1.0, sensitivity=domain), OptimalNoise(1.0, 0.1, sensitivity=domain)):
        promise = noise.guarantee(n_features=3)
        assert promise.holds
        assert promise.entry == (1.0, noise.delta)
        assert promise.record[0] == pytest.approx(1.0, rel=1e-5)
        assert noise.accounting("entry", 3) == {}
    # Two entries move, so each may stay untouched with less than delta.
    assert OptimalNoise(1.0, 0.1, sensitivity=domain).untouched_share == pytest.approx(1 - math.sqrt(0.9))
    assert OptimalNoise(1.0, 0.1, sensitivity=Box(0, 1)).untouched_share == 0.1


def test_record_noise_follows_the_change_of_a_row() -> None:
    domain = domain_of(SCHEMA)
    promise = AnalyticGaussian(1.0, sensitivity=domain, unit="record").guarantee(domain.n_features)
    assert promise.record == (1.0, 1e-5)
    assert promise.entry[0] < 1.0
    assert FisherGaussian(1.0, sensitivity=domain).mu(domain.n_features) == pytest.approx(domain.l2, rel=1e-3)


@pytest.mark.parametrize("dependent", [False, True])
def test_reach_of_weighted_noise_is_that_of_the_worst_cell_and_record(dependent: bool) -> None:
    """Columns that weigh differently: all pairs of cells are tried, and all pairs of rows."""
    domain = domain_of(SCHEMA)
    matrix = np.diag(np.linspace(0.2, 5.0, domain.n_features) ** 2)
    if dependent:
        matrix = matrix + 0.05
    values, vectors = np.linalg.eigh(matrix)
    fourth = (vectors * values**0.25) @ vectors.T
    rows = np.array([encoded(**dict(zip(CELLS, row, strict=True))) for row in product(*CELLS.values())])
    worst = 0.0
    for name, cells in CELLS.items():
        each = np.array([encoded(**{name: cell}) for cell in cells]) @ fourth
        worst = max(worst, float(np.linalg.norm(each[:, None] - each[None], axis=2).max()))
    apart = np.linalg.norm((rows[:, None] - rows[None]) @ fourth, axis=2).max()
    cell, record = Weights(matrix if dependent else np.diag(matrix)).reach(domain)
    if dependent:  # an upper bound: entries may move with any signs
        assert worst <= cell * (1 + 1e-12)
        assert apart <= record * (1 + 1e-12)
        assert cell == pytest.approx(worst, rel=0.1)
    else:
        assert (cell, record) == (pytest.approx(worst), pytest.approx(apart))
    columns, sizes, cells_of = domain.changes()
    assert columns.shape == sizes.shape
    assert sorted(set(cells_of.tolist())) == list(range(len(CELLS)))


def test_schema_from_private_rows_is_refused() -> None:
    private = Schema([NUMBER, LABEL], source="private")
    for attempt in (lambda: domain_of(private), lambda: contract_rows(private, {"n": [1], "y": ["no"]})):
        with pytest.raises(InvalidInputError, match="inferred from private rows"):
            attempt()
    assert domain_of(Schema([NUMBER], source="public")).n_features == 1
    with pytest.raises(InvalidInputError, match="no feature"):
        domain_of(Schema([LABEL]))


TABLE = {
    "n": [1, "nonsense", math.inf, None],
    "m": [1, "", 9, 1],
    "w": ["a", "?", "c", None],
    "s": [True, "", "x", False],
    "y": ["yes", "perhaps", "no", "no"],
    "p": ["u", "u", "", "v"],
}


def test_rows_are_read_without_a_refusal() -> None:
    rows, labels, person = contract_rows(SCHEMA, TABLE)
    assert rows.shape == (3, SCHEMA.width)  # the third is about nobody
    assert labels.tolist() == ["yes", "no", "no"]  # what is not declared counts as the first class
    assert person.tolist() == ["u", "u", "v"]
    rows, labels, person = contract_rows(SCHEMA, TABLE, leave_out=True)
    assert labels.tolist() == ["yes", "no"]
    assert person.tolist() == ["u", "v"]
    assert contract_rows(SCHEMA, TABLE, person=False).person is None
    assert contract_rows(SCHEMA, TABLE, person=[1, 2, 3, 4]).person.tolist() == [1, 2, 3, 4]
    assert contract_rows(SCHEMA, TABLE, ["no", "no", "yes", ""], False).labels.tolist() == [
        "no",
        "no",
        "yes",
        "no",
    ]
    with pytest.raises(InvalidInputError, match="one entry for each row"):
        contract_rows(SCHEMA, TABLE, ["no"])


def test_moments_name_the_schema_and_are_not_added_to_those_of_another() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 1)), rng.choice(["no", "yes"], 40)
    options = {"classes": ["no", "yes"], "centre": None}
    schema, other = Schema([NUMBER, LABEL]), Schema([Field("n", low=0, high=1), LABEL])
    one = PrivateMoments(1.0, **options).fit(X, y, schema=schema)
    two = PrivateMoments(1.0, **options).fit(X, y, schema=other)
    assert one.guarantee_.schema == schema.digest
    assert DECLARED in one.guarantee_.conditions
    assert one.guarantee_ == under_contract(PrivateMoments(1.0, **options).fit(X, y).guarantee_, schema)
    assert one.encoding_ == encoding_of(schema) != two.encoding_
    with pytest.raises(InvalidInputError, match="differently encoded"):
        one.add(two)
    assert PrivateMoments.from_bytes(one.to_bytes()).guarantee_ == one.guarantee_
    assert one.guarantee_.join(two.guarantee_).schema is None


def test_no_promise_rests_on_a_schema_that_was_taken_from_private_rows() -> None:
    schema = Schema([NUMBER], source="private")
    with pytest.raises(InvalidInputError, match="inferred from private rows"):
        under_contract(Laplace(1.0, sensitivity=Box(0, 1)).guarantee(1), schema)
