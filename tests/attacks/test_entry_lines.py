"""The entry line of a noise on rows covers the largest change that one cell of a table can make.

A category moves two encoded columns, and so does a number that goes missing. All pairs of encodings of each
cell are tried: what they lose is at most what is stated, and where the bound is tight no less than 99 % of
it. Nothing here is drawn by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest
from tests.tiers import later

from onefold.privacy import (
    AnalyticGaussian,
    BoundedFisherNoise,
    Box,
    FisherGaussian,
    Laplace,
    OptimalNoise,
    domain_of,
)
from onefold.privacy.calibration import epsilon_of
from onefold.release import release_table
from onefold.tables import Field, Schema

DELTA = 1e-5
NUMBER = Field("n", low=-3, high=5)
LOST = Field("m", low=0, high=8, missing="indicator", fill=2.0)
WARD = Field("w", "string", levels=("a", "b", "c"))
SEEN = Field("s", "boolean", missing="indicator")
ALONE = Field("o", "string", levels=("only",))
CELLS: dict[str, list[object]] = {
    "n": [-3, 0, 5, "x"],
    "m": [0, 2, 8, ""],
    "w": ["a", "b", "c", "x"],
    "s": [True, False, ""],
    "o": ["only", "x"],
}
SCHEMAS = {
    "ward": Schema([WARD]),
    "missing": Schema([LOST]),
    "seen": Schema([SEEN]),
    "alone": Schema([ALONE]),
    "both": Schema([LOST, WARD]),
    "all": Schema([NUMBER, LOST, WARD, SEEN, ALONE]),
}
# Ratios of a weight and the next: equal, and each end of the row heavier than the other.
RATIOS = (1.0, 16.0, 1 / 16.0)


def changes(schema: Schema) -> Iterator[np.ndarray]:
    """Every difference of two rows of the table in one cell."""
    first: dict[str, list[object]] = {known.name: [CELLS[known.name][0]] for known in schema.features}
    for known in schema.features:
        cells = [schema.transform(first | {known.name: [cell]})[0] for cell in CELLS[known.name]]
        for one, two in combinations(cells, 2):
            yield one - two


def weights(schema: Schema, ratio: float) -> np.ndarray:
    return ratio ** np.arange(schema.width, dtype=float)


@pytest.mark.parametrize("sampler", ["hardened", "float"])
@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("name", SCHEMAS)
def test_weighted_gaussian_noise_states_the_largest_change_of_a_cell(
    name: str, ratio: float, sampler: str
) -> None:
    schema, lam = SCHEMAS[name], 0.3
    Pi = weights(schema, ratio)
    noise = FisherGaussian(lam, Pi, delta=DELTA, sensitivity=domain_of(schema), sampler=sampler)
    mu = max(lam**0.25 * float(np.linalg.norm(Pi**0.25 * change)) for change in changes(schema))
    stated = noise.guarantee(schema.width).entry
    assert stated[1] == DELTA
    assert 0.99 * stated[0] <= epsilon_of(mu, DELTA) * (1 - 1e-12) <= stated[0]
    told = 1 / noise.accounting("entry", schema.width)["noise_multiplier"]
    assert 0.99 * told <= mu * (1 - 1e-12) <= told
    squares, start = 0.0, 0
    for known in schema.features:  # a record can change all of its cells
        part = Pi[start : start + known.width]
        squares += max(float(np.sum(part**0.5 * change**2)) for change in changes(Schema([known])))
        start += known.width
    record = lam**0.25 * math.sqrt(squares)
    assert 0.99 * noise.mu(schema.width) <= record * (1 - 1e-12) <= noise.mu(schema.width)


@pytest.mark.parametrize("name", ["ward", "missing", "both"])
def test_dependent_columns_state_no_less_than_any_change_of_a_cell(name: str) -> None:
    schema = SCHEMAS[name]
    for seed in range(5):
        form = np.random.default_rng(seed).normal(size=(schema.width, schema.width))
        Pi = form @ form.T + np.eye(schema.width)
        noise = FisherGaussian(1.0, Pi, sensitivity=domain_of(schema), sampler="float")
        values, vectors = np.linalg.eigh(Pi)
        root = (vectors * values**0.25) @ vectors.T
        mu = max(float(np.linalg.norm(root @ change)) for change in changes(schema))
        assert epsilon_of(mu, DELTA) * (1 - 1e-9) <= noise.guarantee(schema.width).entry[0]


def exact_delta(noise: BoundedFisherNoise, change: np.ndarray, epsilon: float) -> float:
    """Probability beyond epsilon of two noises that are independent, by a sum over small cells."""
    parts = []
    for column, size in [(j, abs(float(size))) for j, size in enumerate(change) if size]:
        edges = np.linspace(-4.0, 4.0 + size, 801)  # the bounds are inside
        masses = (np.diff(noise.cdf(edges - moved, column)) for moved in (0.0, size))
        parts.append([np.maximum(mass, 0.0) for mass in masses])
    if len(parts) == 1:
        parts.append([np.ones(1), np.ones(1)])
    (one, one_moved), (two, two_moved) = parts
    likely, moved = np.outer(one, two), np.outer(one_moved, two_moved)
    factor = math.exp(epsilon)
    return max(
        float(np.maximum(likely - factor * moved, 0).sum()),
        float(np.maximum(moved - factor * likely, 0).sum()),
    )


@pytest.mark.parametrize(
    ("name", "ratio"),
    later(product(["ward", "missing", "seen", "both"], [1.0, 4.0, 0.25]), [("missing", 4.0), ("seen", 1.0)]),
)
def test_bounded_noise_states_what_the_worst_cell_loses(name: str, ratio: float) -> None:
    schema, delta = SCHEMAS[name], 0.05
    Pi = weights(schema, ratio)
    noise = BoundedFisherNoise(1.0, (-4, 4), Pi, delta=delta, sensitivity=domain_of(schema), sampler="float")
    epsilon = noise.guarantee(schema.width).entry[0]
    assert 0 < epsilon < 100
    assert max(exact_delta(noise, change, epsilon) for change in changes(schema)) <= delta * (1 + 1e-6)
    hardened = BoundedFisherNoise(1.0, (-4, 4), Pi, delta=delta, sensitivity=domain_of(schema))
    assert epsilon <= hardened.guarantee(schema.width).entry[0] <= 1.5 * epsilon


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("name", SCHEMAS)
def test_noise_whose_bounds_never_matter_states_what_a_gaussian_does(name: str, ratio: float) -> None:
    schema = SCHEMAS[name]
    Pi = weights(schema, ratio)
    for far in (math.inf, 1e4):
        noise = BoundedFisherNoise(
            0.3, (-far, far), Pi, delta=DELTA, sensitivity=domain_of(schema), sampler="float"
        )
        mu = max(0.3**0.25 * float(np.linalg.norm(Pi**0.25 * change)) for change in changes(schema))
        stated = noise.guarantee(schema.width).entry[0]
        assert 0.99 * stated <= epsilon_of(mu, DELTA) * (1 - 1e-9) <= stated


def test_a_single_number_with_bounds_is_stated_exactly() -> None:
    noise = BoundedFisherNoise(1.0, (-4, 4), delta=0.05, sensitivity=Box(0, 1, 3), sampler="float")
    epsilon = noise.guarantee(3).entry[0]
    change = np.array([0.0, 1.0, 0.0])
    assert exact_delta(noise, change, epsilon) <= 0.05 * (1 + 1e-6)
    assert exact_delta(noise, change, 0.99 * epsilon) > 0.05


@pytest.mark.parametrize("unit", ["entry", "record"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_noise_of_one_size_states_the_largest_change_of_a_cell(name: str, unit: str) -> None:
    schema = SCHEMAS[name]
    domain = domain_of(schema)
    for kind in (Laplace, OptimalNoise):
        noise = kind(1.0, sensitivity=domain, unit=unit)
        loss = max(float(np.abs(change).sum()) for change in changes(schema)) / noise.scale
        stated = noise.guarantee(schema.width).entry[0]
        assert 0.99 * stated <= loss * (1 - 1e-12) <= stated
    gaussian = AnalyticGaussian(1.0, sensitivity=domain, unit=unit)
    mu = max(float(np.linalg.norm(change)) for change in changes(schema)) / gaussian.scale
    stated = gaussian.guarantee(schema.width).entry[0]
    assert 0.99 * stated <= epsilon_of(mu, gaussian.delta) * (1 - 1e-12) <= stated


def test_a_table_with_bounded_noise_states_what_a_cell_loses_and_not_more() -> None:
    """Its entry line was that of the record, which is more than the noise knows to be true."""
    schema = Schema([NUMBER, WARD])
    table = {"n": [0.0, 1.0], "w": ["a", "b"]}
    promise = release_table(table, schema, 0.3, allowed={"n": (-300, 500)}, bounded=True).guarantee
    mu = 0.3**0.25 * max(float(np.linalg.norm(change)) for change in changes(schema))
    assert epsilon_of(mu, DELTA) <= promise.entry[0] < promise.record[0]
