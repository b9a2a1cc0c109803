"""Ten statements that were printed with ``holds: True`` and were false: each attack must fail."""

import csv
import json
import warnings

import numpy as np
import pytest
from sklearn.decomposition import PCA

from onefold.cli.app import main
from onefold.exceptions import InvalidInputError, OnefoldError
from onefold.fabrication import Fabricator, MomentClassifier
from onefold.federated import LocalModel
from onefold.models import AutoencoderClassifier
from onefold.privacy import (
    AnalyticGaussian,
    Box,
    Event,
    Guarantee,
    Laplace,
    Ledger,
    OptimalNoise,
    PrivateMoments,
    RandomisedLabels,
    domain_of,
)
from onefold.tables import Field, Schema

pd = pytest.importorskip("pandas")


def table(path, rows):
    """Write a table of two numbers and a class."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b", "outcome"], *rows])
    return str(path)


# --- 1, 2: the sampler that everybody gets -----------------------------------------------------------------


@pytest.mark.parametrize("kind", [Laplace, OptimalNoise, AnalyticGaussian])
def test_one_released_number_does_not_tell_two_neighbours_apart(kind) -> None:
    noise = kind(1.0, sensitivity=Box(0, 1))
    released = [np.asarray(noise.randomise(np.full(4000, pixel / 255))) for pixel in (100, 101)]
    # Which floats can be reached must not depend on the pixel: all lie on one public grid.
    for values in released:
        steps = np.ldexp(values, 22)
        np.testing.assert_array_equal(steps, np.rint(steps))


def test_noise_for_a_record_of_a_box_is_on_one_grid_whoever_is_in_it() -> None:
    noise = Laplace(1.0, sensitivity=Box(0, 1, 3), unit="record")
    rows = np.tile([[0.1, 0.7, 1 / 3], [1.0, 0.0, 2 / 3]], (2000, 1))
    steps = np.ldexp(np.asarray(noise.randomise(rows)), 24)
    np.testing.assert_array_equal(steps, np.rint(steps))
    assert noise.guarantee(3).holds


def test_every_default_that_promises_something_draws_hardened_noise() -> None:
    X, y = np.random.default_rng(0).random((60, 2)), np.arange(60) % 2
    noise = Laplace(1.0, sensitivity=Box(0, 1))
    fabricator = Fabricator(noise)
    fabricator.fabricate(X, y)
    moments = (MomentClassifier(1.0, classes=[0, 1]), PrivateMoments(1.0, classes=[0, 1]))
    site = LocalModel(AutoencoderClassifier(), noise)
    for maker in (fabricator, *(estimator.fit(X, y) for estimator in (*moments, site))):
        assert maker.guarantee_.holds
        assert "hardened" in maker.guarantee_.mechanism


# --- 3, 4, 5: types and lengths ----------------------------------------------------------------------------


def test_moments_do_not_show_the_length_of_a_class_they_left_out() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((2000, 2)) / 2, np.array(["no", "yes"])[rng.integers(0, 2, 2000)]
    rare = y.astype(object)
    rare[7] = "an illness that only one of them has"
    lengths = {len(PrivateMoments(2.0).fit(X, labels.astype(str)).to_bytes()) for labels in (y, rare)}
    assert len(lengths) == 1


def test_a_fabricated_frame_has_the_same_types_whoever_is_in_it() -> None:
    whole = pd.DataFrame({"a": np.arange(50), "b": np.arange(50) % 7})
    other = whole.astype({"a": float})
    other.loc[3, "a"] = 0.5  # one record that is no whole number
    made = [Fabricator(Laplace(1.0, sensitivity=Box(0, 50))).fabricate(frame) for frame in (whole, other)]
    assert made[0].dtypes.equals(made[1].dtypes)
    assert list(made[0].columns) == list(made[1].columns)


# --- 6: no domain, no guarantee ----------------------------------------------------------------------------


def test_fabricating_without_a_domain_is_refused_on_the_command_line(tmp_path, capsys) -> None:
    data = table(tmp_path / "t.csv", [[1001.0, i, "x"] for i in range(30)])
    out = tmp_path / "made.csv"
    assert main(["fabricate", data, "--label", "outcome", "--epsilon", "1", "--out", str(out)]) == 2
    assert "--range" in capsys.readouterr().err
    assert not out.exists()


def test_what_lies_outside_the_range_is_clipped_and_the_lines_say_so(tmp_path) -> None:
    data = table(tmp_path / "t.csv", [[1001.0, i / 30, "x"] for i in range(30)])
    out = tmp_path / "made.csv"
    command = ["fabricate", data, "--label", "outcome", "--epsilon", "1", "--out", str(out)]
    assert main([*command, "--range", "0", "1", "--quiet"]) == 0
    promise = json.loads(next(tmp_path.glob("made*guarantee*.json")).read_text())
    lines = [line for line in promise["text"].splitlines() if "epsilon" in line and "Labels" not in line]
    assert promise["holds"]
    assert all(
        "clipped to the declared domain" in line for line in lines if line.startswith(("One", "A whole"))
    )


@pytest.mark.parametrize("kind", [Laplace, OptimalNoise, AnalyticGaussian])
def test_a_mechanism_needs_a_domain(kind) -> None:
    with pytest.raises(InvalidInputError, match="sensitivity"):
        kind(1.0)


def test_a_declared_change_stands_on_the_entry_and_on_the_record_line() -> None:
    lines = str(Laplace(1.0, sensitivity=2.0).guarantee(5)).splitlines()
    for start in ("One entry", "A whole record"):
        (line,) = [line for line in lines if line.startswith(start)]
        assert "if no entry changes by more than 2 (not checked)" in line


# --- 7: joins ----------------------------------------------------------------------------------------------


def test_a_join_is_never_smaller_than_its_parts() -> None:
    one = Guarantee("entry", (1.0, 1e-2), (3.0, 1e-2), 3, sensitivity=1.0, labels=(1.0, 0.0))
    other = Guarantee("entry", (1.1, 1e-9), (3.3, 1e-9), 3, sensitivity=0.5).voided("a reason")
    joined = one.among_owners(other)
    assert joined.entry == (1.1, 1e-2)
    assert joined.record == (3.3, 1e-2)
    assert joined.labels is None  # raw labels of one site are not covered by the noise of another
    assert joined.sensitivity == 0.5
    assert joined.voided_by == ("a reason",)


# --- 8: what was promised stays ----------------------------------------------------------------------------


def test_a_mechanism_cannot_promise_more_after_it_was_used() -> None:
    noise = AnalyticGaussian(1.0, sensitivity=Box(0, 1))
    for name in ("epsilon", "delta", "domain", "unit", "sampler"):
        with pytest.raises(AttributeError):
            setattr(noise, name, 0.01)
    with pytest.raises(ValueError):
        noise.domain.high[...] = 0.01
    with pytest.raises(AttributeError):
        RandomisedLabels(8.0, 2).epsilon = 0.1


# --- 9: the ledger -----------------------------------------------------------------------------------------


def test_labels_count_in_a_ledger() -> None:
    ledger = Ledger()
    features = Laplace(0.1, sensitivity=Box(0, 1)).guarantee(3)
    ledger.spend_guarantee(features.with_labels(8.0), "features and labels")
    assert ledger.total()[0] == pytest.approx(8.3)
    ledger.spend_guarantee(RandomisedLabels(1.0, 2).guarantee(3), "labels")
    assert ledger.total()[0] == pytest.approx(9.3)


def test_what_was_spent_stays_spent_if_something_fails_afterwards(tmp_path) -> None:
    file = tmp_path / "ledger"
    Ledger(limit_epsilon=3.0).save(file)

    def spend_and_fail() -> None:
        Ledger.load(file).spend(Event("survey", "record", 2.0))
        raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        spend_and_fail()
    assert Ledger.load(file).total()[0] == 2.0


# --- 10: seeds and choices made on raw rows ----------------------------------------------------------------


def test_seeds_void() -> None:
    X, y = np.random.default_rng(0).random((60, 2)), np.arange(60) % 2
    noise = Laplace(1.0, sensitivity=Box(0, 1))
    fabricator = Fabricator(noise)
    fabricator.fabricate(X, y, random_state=0)
    assert not fabricator.guarantee_.holds
    assert not PrivateMoments(1.0, classes=[0, 1], random_state=0).fit(X, y).guarantee_.holds
    assert not MomentClassifier(1.0, classes=[0, 1], random_state=0).fit(X, y).guarantee_.holds


def test_an_encoder_that_learns_from_raw_rows_voids() -> None:
    X, y = np.random.default_rng(0).random((60, 4)), np.arange(60) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MomentClassifier(1.0, classes=[0, 1], encoder=PCA(2)).fit(X, y)
    assert not model.guarantee_.holds


def test_batches_given_from_raw_rows_void_or_stand_as_a_condition() -> None:
    X, y = np.random.default_rng(0).random((80, 2)), np.arange(80) % 2
    batches = (X[:, 0] > 0.5).astype(int)  # as k-means on raw rows would choose them
    noise = Laplace(1.0, sensitivity=Box(0, 1))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LocalModel(AutoencoderClassifier(), noise).fit(X, y, batches=batches)
    except OnefoldError:
        return
    assert not model.guarantee_.holds or model.guarantee_.conditions


# --- tables by a schema: a cell that moves two entries, and rows that no error gives away -------------------


WARD = Schema([Field("ward", "string", levels=("a", "b", "c"))])


def evidence(noise, n: int = 200_000) -> float:
    """How far one seen event shifts the odds between two categories of one cell: a bound for epsilon."""
    rows = WARD.transform({"ward": ["a", "b"]})
    leads = [noise.randomise(np.repeat(rows[[which]], n, axis=0), which) for which in (0, 1)]
    often, seldom = (np.count_nonzero(made[:, 0] - made[:, 1] > 0.7) for made in leads)
    return float(np.log(often / seldom))


@pytest.mark.parametrize("kind", [Laplace, OptimalNoise])
def test_another_category_in_a_cell_is_hidden_as_one_entry(kind) -> None:
    """An encoded category moves two entries: noise for the change of one of them promises too much."""
    assert evidence(kind(1.0, sensitivity=domain_of(WARD))) < 1.0
    assert kind(1.0, sensitivity=domain_of(WARD)).guarantee(3).entry[0] == 1.0
    assert evidence(kind(1.0, sensitivity=Box(0, np.sqrt(0.5)))) > 1.2


@pytest.mark.parametrize("command", ["release", "fabricate", "transfer source"])
@pytest.mark.parametrize("cell", ["", "a ward that nobody declared"])
def test_no_cell_of_a_table_is_answered_by_an_error(tmp_path, capsys, command, cell) -> None:
    fields = [Field("a", low=0, high=1), Field("b", "string", levels=("x", "y"))]
    Schema([*fields, Field("outcome", "string", "label", levels=("no", "yes"))]).save(tmp_path / "s.json")
    lines = []
    for given in ("0.5", cell):
        path = table(
            tmp_path / "in.csv", [[given, "x", "no"], ["0.1", given, "yes"], ["0.9", "y", given]] * 4
        )
        out = ["--schema", str(tmp_path / "s.json"), "--epsilon", "1", "--out", str(tmp_path / "out.csv")]
        assert main([*command.split(), path, *out]) == 0
        printed = capsys.readouterr()
        assert cell not in printed.out or not cell
        lines.append((len(printed.out.splitlines()), printed.err))
    if command != "transfer source":  # which classes are small is read off noisy numbers
        assert lines[0] == lines[1]


def test_a_schema_taken_from_private_rows_promises_nothing_and_is_refused() -> None:
    rows = {"a": [0.1, 0.7, 0.3] * 5, "outcome": ["no", "yes", "no"] * 5}
    seen = Schema.infer(rows, label="outcome", source="private")
    for attempt in (
        lambda: MomentClassifier(1.0, schema=seen).fit(rows),
        lambda: Fabricator(Laplace(1.0, sensitivity=domain_of(seen)), schema=seen).fabricate(rows),
    ):
        with pytest.raises(InvalidInputError, match="inferred from private rows"):
            attempt()
