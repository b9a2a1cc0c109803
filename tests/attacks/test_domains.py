"""A domain clips to the set that it states: no two clipped rows are farther apart than it says.

Every class of domains is found in the code; one without rows to try here fails. Distances are compared as
fractions, so that not even a rounding is missed. Nothing is drawn by chance that could fail by chance.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onefold
from onefold.encoders import RandomFeatures
from onefold.exceptions import InvalidInputError, MissingDependencyError
from onefold.fabrication import Fabricator, PrivateClassifier
from onefold.federated import LocalModel
from onefold.privacy import (
    AnalyticGaussian,
    Ball,
    Box,
    Guarantee,
    Laplace,
    Mechanism,
    PrivateMoments,
    domain_of,
)
from onefold.privacy.contract import EncodedBox
from onefold.privacy.domains import Domain, InferredBox
from onefold.privacy.samplers import Lattice
from onefold.release import release_table
from onefold.tables import CellEncoder, Field, Schema
from onefold.transfer import PrivateSource

LARGEST = float(np.finfo(np.float64).max)
FIELDS = (
    Field("number", low=-3, high=5),
    Field("thirds", low=0, high=3, missing="indicator", fill=1.0),
    Field("nearly", low=0, high=8, missing="indicator", fill=7.9),
    Field("logs", low=0, high=1e6, scale="log", missing="indicator"),
    Field("whole", "integer", low=0, high=10),
    Field("day", "date", low=0, high=40_000),
    Field("alone", "string", levels=("only",)),
    Field("pair", "boolean"),
    Field("ward", "string", levels=tuple("abcde")),
    Field("seen", "string", levels=("yes", "no"), missing="indicator"),
    Field("alone or not", "string", levels=("only",), missing="indicator"),
)

numbers = st.floats(-1e6, 1e6) | st.sampled_from([0.0, 5e-324, 1e-310, 1e-200, 1e200, LARGEST / 8])


@st.composite
def boxes(draw: st.DrawFn, kind: type[Box] = Box) -> Box:
    """Boxes of any width that float64 can hold, with bounds for all columns or for each."""
    n_features = draw(st.integers(1, 5))
    pairs = draw(
        st.lists(
            st.tuples(numbers, numbers).filter(lambda pair: pair[0] != pair[1]),
            min_size=n_features,
            max_size=n_features,
        )
    )
    if draw(st.booleans()):
        return kind(min(pairs[0]), max(pairs[0]), n_features)
    return kind([min(pair) for pair in pairs], [max(pair) for pair in pairs])


def balls() -> st.SearchStrategy[Ball]:
    radius = st.floats(1e-290, 1e300) | st.sampled_from([1.0, 3.0, 1e-290])
    return st.builds(Ball, radius, st.sampled_from([1, 2]), st.integers(1, 9))


def encoded_boxes() -> st.SearchStrategy[EncodedBox]:
    return st.lists(st.sampled_from(FIELDS), min_size=1, max_size=4).map(EncodedBox)


STRATEGIES: dict[type[Domain], st.SearchStrategy[Domain]] = {
    Box: boxes(),
    InferredBox: boxes(InferredBox),
    Ball: balls(),
    EncodedBox: encoded_boxes(),
}


def subclasses(kind: type) -> Iterator[type]:
    for lower in kind.__subclasses__():
        yield lower
        yield from subclasses(lower)


def every_domain() -> set[type]:
    """All classes of domains of the package, wherever they are."""
    for module in pkgutil.walk_packages(onefold.__path__, "onefold."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except (MissingDependencyError, ImportError):
                continue
    return {kind for kind in subclasses(Domain) if kind.__module__.startswith("onefold.")}


def test_every_domain_of_the_package_is_tried_here() -> None:
    assert every_domain() == set(STRATEGIES)


def adversarial_rows(domain: Domain, draw: st.DrawFn) -> np.ndarray:
    """Rows at, just inside and far outside of the domain, and rows that differ from others in one entry."""
    n_features = domain.n_features or 1
    corners = [0.0, -0.0, 0.5, 1.0, -1.0, 5e-324, -5e-324, 1e-310, LARGEST, -LARGEST, math.inf, -math.inf]
    if isinstance(domain, Box):
        ends = np.unique([domain.low, domain.high]).tolist()
        corners += [*ends, *np.nextafter(ends, np.inf).tolist(), *np.nextafter(ends, -np.inf).tolist()]
    if isinstance(domain, Ball):
        corners += [domain.radius, -domain.radius, math.nextafter(domain.radius, 0), domain.radius / 3]
    entries = st.sampled_from(corners) | st.floats(-2, 2) | st.floats(allow_nan=False)
    rows = draw(st.lists(st.lists(entries, min_size=n_features, max_size=n_features), min_size=1, max_size=6))
    other = [list(row) for row in rows]
    for row in other:
        row[draw(st.integers(0, n_features - 1))] = draw(entries)
    ends_of_all = [[math.inf] * n_features, [-math.inf] * n_features]
    one_each = (LARGEST * np.eye(n_features)).tolist()
    return np.array([*rows, *other, *ends_of_all, *one_each, *np.negative(one_each)])


def exactly(row: np.ndarray) -> list[Fraction]:
    return [Fraction(value) for value in row.tolist()]


def blocks_of(domain: Domain) -> list[range]:
    """Which entries of a row belong to one cell."""
    if not isinstance(domain, EncodedBox):
        return [range(j, j + 1) for j in range(domain.n_features or 1)]
    ends = np.cumsum([known.width for known in domain.features]).tolist()
    return [range(end - known.width, end) for known, end in zip(domain.features, ends, strict=True)]


@pytest.mark.parametrize("kind", STRATEGIES, ids=lambda kind: kind.__name__)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_two_clipped_rows_are_farther_apart_than_stated(kind: type[Domain], data: st.DataObject) -> None:
    domain = data.draw(STRATEGIES[kind])
    clipped = domain.clip(adversarial_rows(domain, data.draw))
    assert np.isfinite(clipped).all()
    l1, l2, entry_l1, entry_l2, entry = (
        Fraction(size) if math.isfinite(size) else Fraction(LARGEST) ** 2  # beyond float64
        for size in (domain.l1, domain.l2, domain.entry_in(1), domain.entry_in(2), domain.entry)
    )
    for one, two in combinations(map(exactly, np.unique(clipped, axis=0)), 2):
        apart = [abs(a - b) for a, b in zip(one, two, strict=True)]
        assert sum(apart) <= l1
        assert sum(size**2 for size in apart) <= l2**2
        if isinstance(domain, Ball):  # shortens whole rows: nothing is stated about one entry
            continue
        for block in blocks_of(domain):
            moved = [apart[j] for j in block if apart[j]]
            assert len(moved) <= domain.cell_entries
            assert sum(moved) <= entry_l1
            assert sum(size**2 for size in moved) <= min(entry, entry_l2) ** 2


@pytest.mark.parametrize("kind", STRATEGIES, ids=lambda kind: kind.__name__)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_stated_changes_cover_every_change(kind: type[Domain], data: st.DataObject) -> None:
    """What noises with a metric of their own look at: each change of one cell lies within one of them."""
    domain = data.draw(STRATEGIES[kind])
    clipped = domain.clip(adversarial_rows(domain, data.draw))
    columns, sizes, cells = domain.changes()
    assert cells.tolist() == sorted(cells.tolist())
    assert set(cells.tolist()) == set(range(int(cells[-1]) + 1))
    widths = np.zeros(domain.n_features)
    np.maximum.at(widths, columns, sizes)
    assert bits(domain.widths) == bits(widths)
    blocks = [range(domain.n_features or 0)] if isinstance(domain, Ball) else blocks_of(domain)
    assert len(blocks) == cells[-1] + 1
    covers: list[list[dict[int, Fraction]]] = [[] for _ in blocks]
    for cell, together, far in zip(cells.tolist(), columns.tolist(), sizes.tolist(), strict=True):
        covers[cell].append({j: Fraction(size) for j, size in zip(together, far, strict=True) if size})
    for one, two in combinations(map(exactly, np.unique(clipped, axis=0)), 2):
        apart = [abs(a - b) for a, b in zip(one, two, strict=True)]
        for block, known in zip(blocks, covers, strict=True):
            assert any(all(apart[j] <= cover.get(j, 0) for j in block) for cover in known)


def bits(rows: np.ndarray) -> bytes:
    return np.ascontiguousarray(rows, dtype=np.float64).tobytes()


@pytest.mark.parametrize("kind", STRATEGIES, ids=lambda kind: kind.__name__)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_each_row_is_clipped_by_itself_and_once(kind: type[Domain], data: st.DataObject) -> None:
    domain = data.draw(STRATEGIES[kind])
    rows = adversarial_rows(domain, data.draw)
    clipped = domain.clip(rows)
    assert clipped.shape == rows.shape
    assert bits(domain.clip(clipped)) == bits(clipped)
    for row, expected in zip(rows, clipped, strict=True):
        assert bits(domain.clip(row)) == bits(domain.clip(row[np.newaxis])) == bits(expected)
    assert bits(domain.clip(np.asfortranarray(rows))) == bits(clipped)
    assert bits(domain.clip(rows[::-1])[::-1]) == bits(clipped)
    assert bits(domain.clip(np.repeat(rows, 2, axis=1)[:, ::2])) == bits(clipped)
    assert bits(domain.clip(np.broadcast_to(rows, (2, 2, *rows.shape)))[1, 0]) == bits(clipped)
    if not isinstance(domain, Ball):  # each cell by itself as well
        for block in blocks_of(domain):
            mixed = rows[::-1].copy()
            mixed[:, list(block)] = rows[:, list(block)]
            assert bits(domain.clip(mixed)[:, list(block)]) == bits(clipped[:, list(block)])


@pytest.mark.parametrize("kind", STRATEGIES, ids=lambda kind: kind.__name__)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_other_types_are_clipped_as_float64_and_nan_is_refused(
    kind: type[Domain], data: st.DataObject
) -> None:
    domain = data.draw(STRATEGIES[kind])
    shape = (4, domain.n_features or 1)
    whole = np.random.default_rng(0).integers(-3, 4, shape)
    for rows in (whole, whole.astype(np.float32) / 3, whole.astype(np.float16), whole > 0, whole.tolist()):
        clipped = domain.clip(rows)
        assert clipped.dtype == np.float64
        assert bits(clipped) == bits(domain.clip(np.asarray(rows, dtype=np.float64)))
    lost = whole.astype(float)
    lost[2, -1] = math.nan
    with pytest.raises(InvalidInputError, match="NaN"):
        domain.clip(lost)
    with pytest.raises(InvalidInputError, match="features"):
        domain.clip(np.zeros((2, shape[1] + 1)))
    with pytest.raises(InvalidInputError, match="features"):
        domain.clip(1.0)  # type: ignore[arg-type]
    assert domain.for_features(shape[1]) is domain
    assert domain.clip(np.zeros((0, shape[1]))).shape == (0, shape[1])


@settings(max_examples=30, deadline=None)
@given(boxes() | balls(), st.integers(1, 6))
def test_a_domain_of_any_number_of_features_is_that_of_each(domain: Box | Ball, n_features: int) -> None:
    if isinstance(domain, Ball):
        free: Domain = Ball(domain.radius, domain.norm)
        sized: Domain = Ball(domain.radius, domain.norm, n_features)
    else:
        low, high = float(np.min(domain.low)), float(np.max(domain.high))
        free, sized = Box(low, high), Box(low, high, n_features)
    made = free.for_features(n_features)
    rows = np.random.default_rng(0).standard_cauchy((5, n_features)) * 1e3
    assert (made.entry, made.l1, made.l2) == (sized.entry, sized.l1, sized.l2)
    assert bits(made.clip(rows)) == bits(sized.clip(rows)) == bits(free.clip(rows))
    with pytest.raises(InvalidInputError, match="features"):
        sized.for_features(n_features + 1)


def test_changes_of_a_kind_stand_for_all_of_it() -> None:
    """What is left out moves entries of the same kinds equally far as a change that is listed."""
    domain = EncodedBox(FIELDS)
    for seed in range(20):
        kinds = np.random.default_rng(seed).integers(0, 1 + seed % 4, domain.n_features)
        listed, few = (
            {
                (cell, tuple(sorted(zip(kinds[together].tolist(), far, strict=True))))
                for cell, together, far in zip(cells.tolist(), columns, sizes.tolist(), strict=True)
            }
            for columns, sizes, cells in (domain.changes(), domain.changes(kinds))
        )
        assert listed == few
    many = EncodedBox([Field("code", "string", levels=tuple(map(str, range(3000))))])
    assert len(many.changes(np.arange(3000) % 3).cells) == 15


# --- what a schema can encode -----------------------------------------------------------------------------

CELLS: dict[str, list[object]] = {
    "number": [-3, 5, 0.1, 1e300, -1e300, math.inf, "x", None],
    "thirds": [0, 1, 2, 3, 99, "", None, "x"],
    "nearly": [0, 7.9, 8, "", math.nan],
    "logs": [0, 1, 1e3, 1e6, 1e9, ""],
    "whole": [0, 3, 10, 11, 2.5],
    "day": ["1970-01-01", "2001-02-03", "9999-01-01", "x"],
    "alone": ["only", "x", None],
    "pair": [True, False, "x"],
    "ward": ["a", "e", "x", None],
    "seen": ["yes", "no", "", "x"],
    "alone or not": ["only", "", "x"],
}


def encoded_rows() -> np.ndarray:
    longest = max(map(len, CELLS.values()))
    table = {name: [cells[k % len(cells)] for k in range(longest)] for name, cells in CELLS.items()}
    return Schema(FIELDS).transform(table)


def test_rows_that_a_schema_encodes_are_left_alone() -> None:
    rows = encoded_rows()
    domain = domain_of(Schema(FIELDS))
    assert bits(domain.clip(rows)) == bits(rows + 0.0)


@pytest.mark.parametrize("known", FIELDS, ids=lambda known: known.name)
def test_any_row_becomes_one_that_the_schema_encodes(known: Field) -> None:
    cells: list[object] = [cell for cell in CELLS[known.name] if cell is not None]
    if known.is_category:
        cells = [*known.levels, "not declared"]
    possible = {bits(row) for row in Schema([known]).transform({known.name: cells})}
    rows = np.random.default_rng(0).standard_cauchy((300, known.width))
    for row in EncodedBox([known]).clip(np.vstack([rows, np.zeros(known.width)])):
        if known.is_category:
            assert bits(row) in possible
        else:
            value, *missing = row.tolist()
            assert 0 <= value <= 1
            assert missing in ([], [0.0]) or bits(row) in possible


def test_stated_changes_of_a_schema_are_reached() -> None:
    """Larger than any change by a little more than roundings: a domain that states too much fails."""
    for known in FIELDS:
        domain = EncodedBox([known])
        cells = [*known.levels, ""] if known.is_category else CELLS[known.name]
        rows = Schema([known]).transform({known.name: cells})
        apart = np.abs(rows[:, np.newaxis] - rows)
        assert apart.sum(axis=2).max() == pytest.approx(domain.l1, rel=1e-14)
        assert np.sqrt((apart**2).sum(axis=2)).max() == pytest.approx(domain.l2, rel=1e-14)


# --- the rows that get the noise --------------------------------------------------------------------------

TABLE_SCHEMA = Schema([*FIELDS, Field("outcome", "string", "label", levels=("home", "ward"))])


def hostile_table(n_rows: int = 60) -> dict[str, list[object]]:
    rng = np.random.default_rng(0)
    table = {name: [cells[k] for k in rng.integers(0, len(cells), n_rows)] for name, cells in CELLS.items()}
    return table | {"outcome": rng.choice(["home", "ward"], n_rows).tolist()}


@pytest.fixture
def noised(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Values as they are when exact noise is added to them."""
    values: list[np.ndarray] = []
    plain = Lattice.round

    def recorded(self: Lattice, given: np.ndarray) -> np.ndarray:
        values.append(np.array(given))
        return plain(self, given)

    monkeypatch.setattr(Lattice, "round", recorded)
    return values


def by_fabricator(noise: Mechanism) -> Guarantee | None:
    maker = Fabricator(noise, 2, schema=TABLE_SCHEMA)
    maker.fabricate(hostile_table())
    return maker.guarantee_


def by_rows(noise: Mechanism) -> Guarantee | None:
    maker = Fabricator(noise, 2)
    maker.randomise(np.random.default_rng(0).standard_cauchy((40, noise.n_features or 1)))
    return maker.guarantee_


def by_classifier(noise: Mechanism) -> Guarantee | None:
    return PrivateClassifier(None, noise, schema=TABLE_SCHEMA).fit(hostile_table()).guarantee_


def by_site(noise: Mechanism) -> Guarantee | None:
    return LocalModel(None, noise, schema=TABLE_SCHEMA).fit(hostile_table()).guarantee_


def by_source(noise: Mechanism) -> Guarantee | None:
    return PrivateSource.fit(hostile_table(), mechanism=noise, schema=TABLE_SCHEMA).guarantee_


def by_smooth_source(noise: Mechanism) -> Guarantee | None:
    return PrivateSource.fit(hostile_table(), mechanism=Fabricator(noise, 2), schema=TABLE_SCHEMA).guarantee_


def by_table(noise: Mechanism) -> Guarantee | None:
    return release_table(hostile_table(), schema=TABLE_SCHEMA, lam=1.0).guarantee


@pytest.mark.parametrize(
    "release", [by_fabricator, by_rows, by_classifier, by_site, by_source, by_smooth_source]
)
def test_rows_that_get_noise_lie_in_the_domain_of_the_noise(
    release: Callable[[Mechanism], Guarantee | None], noised: list[np.ndarray]
) -> None:
    domain = domain_of(TABLE_SCHEMA)
    noise = Laplace(1.0, sensitivity=domain, unit="record")
    promise = release(noise)
    assert promise is not None
    assert promise.record == noise.guarantee(domain.n_features).record == (1.0, 0.0)
    [rows] = noised
    assert bits(domain.clip(rows)) == bits(rows)
    assert np.abs(rows[:, np.newaxis] - rows).sum(axis=2).max() <= noise.sensitivity * (1 + 1e-12)


def test_rows_of_a_released_table_lie_in_the_domain_of_the_noise(noised: list[np.ndarray]) -> None:
    schema = Schema([FIELDS[0], FIELDS[4], FIELDS[8], TABLE_SCHEMA.fields[-1]])
    release_table(hostile_table(), schema, 1.0)
    rows, domain = np.column_stack(noised), domain_of(schema)
    assert bits(domain.clip(rows)) == bits(rows)
    far = np.sqrt(((rows[:, np.newaxis] - rows) ** 2).sum(axis=2).max())
    assert far <= domain.l2 * (1 + 1e-12)


def test_noise_on_rows_of_a_schema_is_refused_behind_an_encoder() -> None:
    """The domain is that of the schema's rows; an encoder makes others, farther apart than it says."""
    for unit in ("entry", "record"):
        noise = Laplace(1.0, sensitivity=domain_of(TABLE_SCHEMA), unit=unit)
        for mechanism in (noise, Fabricator(noise, 2)):
            with pytest.raises(InvalidInputError, match="use PrivateMoments"):
                PrivateSource.fit(
                    hostile_table(),
                    mechanism=mechanism,
                    schema=TABLE_SCHEMA,
                    encoder=RandomFeatures(TABLE_SCHEMA.width),
                )
    moments = PrivateMoments(1.0)
    encoder = RandomFeatures(TABLE_SCHEMA.width)
    source = PrivateSource.fit(hostile_table(), mechanism=moments, schema=TABLE_SCHEMA, encoder=encoder)
    assert source.guarantee_.holds


@pytest.mark.parametrize(
    "release", [by_fabricator, by_classifier, by_site, by_source, by_smooth_source, by_table]
)
def test_noise_on_rows_is_refused_where_a_column_has_an_encoder(
    release: Callable[[Mechanism], Guarantee | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows how far apart the rows of such a column are; no other domain is taken in its place."""
    note = CellEncoder.of_entry({"kind": "text", "digest": "0" * 64, "width": TABLE_SCHEMA.width})
    behind = Schema([Field("note", "string", encoder=note), TABLE_SCHEMA.fields[-1]])
    monkeypatch.setitem(globals(), "TABLE_SCHEMA", behind)
    width = behind.width
    for domain in (EncodedBox(FIELDS), Box(0, 1, width), Ball(1.0, n_features=width)):
        with pytest.raises(InvalidInputError, match=r"domain_of|has an encoder"):
            release(Laplace(1.0, sensitivity=domain, unit="record"))


def test_a_word_about_encoded_rows_covers_what_the_encoder_can_do() -> None:
    """Encoded rows have length one: replaced, they move by 2, and by more in the sum of absolute changes."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 2
    encoder = RandomFeatures(9)
    for kind, least in ((Laplace, 6.0), (AnalyticGaussian, 2.0)):
        with pytest.raises(InvalidInputError, match="encoded rows can change by"):
            PrivateSource.fit(
                X, y, kind(1.0, sensitivity=0.99 * least, unit="record", n_features=9), encoder=encoder
            )
        noise = kind(1.0, sensitivity=least, unit="record", n_features=9)
        assert PrivateSource.fit(X, y, noise, encoder=encoder).guarantee_.record[0] == 1.0


def test_a_box_behind_an_encoder_is_that_of_the_encoded_rows(noised: list[np.ndarray]) -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60) % 2
    noise = Laplace(1.0, sensitivity=Box(0, 0.25), unit="record")
    source = PrivateSource.fit(X, y, noise, encoder=RandomFeatures(9))
    assert source.guarantee_.record == source.guarantee_.entry == (1.0, 0.0)
    [rows] = noised
    assert rows.shape == (60, 9)
    assert 0 <= rows.min() < rows.max() <= 0.25
    assert noise.for_features(9).sensitivity == 9 * 0.25


def test_a_row_is_shortened_by_itself_and_once_in_any_order_of_memory() -> None:
    rng = np.random.default_rng(0)
    for norm, n_features in product((1, 2), (3, 8, 40, 200)):
        rows = rng.normal(size=(200, n_features))
        ball = Ball(1.0, norm)
        clipped = ball.clip(rows)
        assert bits(ball.clip(np.asfortranarray(rows))) == bits(clipped)
        assert bits(ball.clip(clipped)) == bits(clipped)
        assert b"".join(bits(ball.clip(row)) for row in rows) == bits(clipped)
