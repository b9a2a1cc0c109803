"""Moments of pairs as a regressor: what is released, what is exact, what is learned, and its files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import onefold
from onefold import MomentRegressor, io
from onefold.encoders import FourierLift
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldError, PrivacyLeakWarning
from onefold.fabrication import MomentRegressor as FromFabrication
from onefold.fabrication.maps import checked_range, declared_map
from onefold.privacy import Ledger, PrivateMoments
from onefold.privacy.calibration import mu_of
from onefold.tables import Field, Schema

RANGES = {"x_range": (0.0, 1.0), "y_range": (-5.0, 35.0)}
SCHEMA = Schema(
    [
        Field("age", "integer", low=0, high=100),
        Field("dose", "number", low=0.0, high=10.0, missing="indicator"),
        Field("ward", "string", levels=("a", "b", "c")),
        Field("cost", "number", "label", low=0.0, high=1000.0),
    ]
)


@parametrize_with_checks([MomentRegressor(None)])
def test_regressor_without_noise_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.nightly
@parametrize_with_checks([MomentRegressor(None, lift=8)])
def test_lifted_regressor_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def friedman() -> list:
    X, y = make_friedman1(2000, noise=1.0, random_state=0)
    return train_test_split(X, y, test_size=0.4, random_state=0)


def patients(n_rows: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    age, dose = rng.integers(0, 101, n_rows), rng.uniform(0.0, 10.0, n_rows)
    ward = rng.choice(["a", "b", "c"], n_rows)
    cost = 4.0 * age + 30.0 * dose + 100.0 * (ward == "b") + 20.0 * rng.normal(size=n_rows)
    dose[rng.random(n_rows) < 0.1] = np.nan
    return {"age": age, "dose": dose, "ward": ward, "cost": np.clip(cost, 0.0, 1000.0)}


def test_the_regressor_is_the_same_object_at_top_level() -> None:
    assert onefold.MomentRegressor is FromFabrication


# --- what is learned ----------------------------------------------------------------------------------------


def test_lift_is_taken_where_it_helps_and_errors_are_estimated(friedman: list) -> None:
    X, test, y, truth = friedman
    linear, lifted = MomentRegressor(None, lift=None).fit(X, y), MomentRegressor(None).fit(X, y)
    assert lifted.pair_map_.n_directions == 512
    assert lifted.score(test, truth) > 0.9 > 0.8 > linear.score(test, truth) > 0.65
    for model in (linear, lifted):
        error = np.mean((model.predict(test) - truth) ** 2)
        assert 0.75 * error < model.held_out_error_ < 1.35 * error


def test_units_of_columns_and_outputs_do_not_matter(friedman: list) -> None:
    X, test, y, _ = friedman
    scales = np.logspace(-6, 6, 10)
    shift = 100.0 * scales
    usual = MomentRegressor(None, lift=None).fit(X, y).predict(test)
    moved = MomentRegressor(None, lift=None).fit(X * scales + shift, 1e-7 * y - 4.0)
    # Columns are standardised by constants of six digits, entries have fourteen.
    np.testing.assert_allclose((moved.predict(test * scales + shift) + 4.0) * 1e7, usual, atol=0.05)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_the_stated_share_of_new_rows(friedman: list, level: float) -> None:
    X, test, y, truth = friedman
    exact = MomentRegressor(None, lift=64).fit(X, y)
    private = MomentRegressor(8.0, random_state=0, **RANGES).fit(X, y)
    inside = [
        np.mean((low <= truth) & (truth <= high))
        for low, high in (model.predict_interval(test, level).T for model in (exact, private))
    ]
    assert abs(inside[0] - level) < 0.07
    assert level - 0.03 < inside[1] < 0.99  # a bound for all laws with one peak
    with pytest.raises(InvalidInputError, match="level must be"):
        exact.predict_interval(test, 1.0)


def test_more_epsilon_is_more_accurate_and_predictions_stay_in_range(friedman: list) -> None:
    X, test, y, truth = friedman
    scores = {}
    for epsilon in (0.01, 0.5, 8.0):
        models = [MomentRegressor(epsilon, random_state=seed, **RANGES).fit(X, y) for seed in range(5)]
        scores[epsilon] = np.median([model.score(test, truth) for model in models])
        low, high = RANGES["y_range"]
        assert all(low <= model.predict(test).min() <= model.predict(test).max() <= high for model in models)
    assert scores[0.01] < scores[0.5] < scores[8.0]
    assert scores[0.5] > 0.4
    assert scores[8.0] > 0.68


def test_encoders_may_lift_with_noise(friedman: list) -> None:
    X, test, y, truth = friedman
    model = MomentRegressor(
        50.0, encoder=FourierLift(16, radius=3.2), y_range=RANGES["y_range"], random_state=0
    )
    assert model.fit(X, y).score(test, truth) > 0.6


# --- what is released ---------------------------------------------------------------------------------------


def test_one_record_changes_count_sum_and_products_by_at_most_one() -> None:
    """The sensitivity that the proof of the release needs, for records far outside the ranges too."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(40, 5)), rng.uniform(size=40)
    X[-3:] = 1e9 * rng.normal(size=(3, 5))
    y[-2:] = [1e12, -1e12]
    ranges = {"x_range": (np.zeros(5), np.ones(5)), "y_range": (0.0, 1.0)}
    agreed = MomentRegressor(None, lift=None, **ranges)
    for row in (0, 37, 38, 39):
        alone = agreed.site_moments(X[[row]], y[[row]])
        assert alone.counts_.tolist() == [1.0]
        # The nearest steps of 2^-14 can be a little longer; with noise entries are cut instead.
        assert np.linalg.norm(alone.sums_) <= 1.0 + 1e-4
        assert np.linalg.norm(alone.second_moments_) <= 1.0 + 2e-4
    assert np.linalg.norm(agreed.pair_map_.apply(np.column_stack([np.clip(X, 0, 1), y])), axis=1).max() <= 1.0


@pytest.mark.parametrize("seed", range(3))
def test_no_row_of_a_schema_is_longer_than_its_map_allows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fields = [
        Field("a", low=-3.0, high=4.0, missing="indicator", fill=-3.0),
        Field("b", low=0.0, high=1.0, missing="indicator"),
        Field("c", "string", levels=("x", "y"), missing="indicator"),
    ]
    table = {
        "a": rng.choice(np.array([-3.0, 4.0, 1.0, np.nan]), 200),
        "b": rng.choice(np.array([0.0, 1.0, np.nan]), 200),
        "c": rng.choice(np.array(["x", "y", ""]), 200),
    }
    encoded = Schema(fields).transform(table)
    row_map = declared_map(Schema(fields), None, 0)
    assert row_map.preparation is not None
    assert row_map.radius is not None
    lengths = np.linalg.norm(row_map.preparation.apply(encoded) / np.sqrt(encoded.shape[1]), axis=1)
    assert lengths.max() <= row_map.radius * (1.0 + 1e-12)
    assert lengths.max() > 0.8 * row_map.radius  # and the map does not waste what noise must hide


def test_guarantee_names_unit_conditions_and_what_voids_it(friedman: list) -> None:
    X, _, y, _ = friedman
    model = MomentRegressor(1.0, **RANGES).fit(X, y)
    assert model.guarantee_.holds
    assert model.guarantee_.record == (1.0, 1e-5)
    assert "ranges" in str(model.guarantee_)
    assert model.residuals_ is None
    assert not MomentRegressor(None).fit(X, y).guarantee_.holds
    assert not MomentRegressor(1.0, random_state=0, **RANGES).fit(X, y).guarantee_.holds
    with pytest.warns(PrivacyLeakWarning, match="fitted to the raw data"):
        learned = MomentRegressor(1.0, encoder=StandardScaler(), y_range=(0.0, 30.0)).fit(X, y)
    assert not learned.guarantee_.holds
    assert learned.promise(10).voided_by == learned.guarantee_.voided_by  # said before it happens, too


def test_noise_never_makes_an_error_of_zero_and_intervals_without_width() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 10.0, size=(900, 2))
    y = 3.0 * X[:, 0] + rng.normal(size=900)
    negative = 0
    for seed in range(20):
        model = MomentRegressor(1.0, x_range=(0, 10), y_range=(-5, 40), random_state=seed).fit(X, y)
        low, high = model.predict_interval(X).T
        assert np.mean((low <= y) & (y <= high)) > 0.9
        negative += model._linear.error < 0.0
    assert negative > 0  # as the estimate of some releases is


def test_fit_that_a_ledger_refuses_leaves_the_regressor_as_it_was(friedman: list) -> None:
    X, _, y, _ = friedman
    ledger = Ledger(1.2, 1e-4, neighbours="add-remove")
    model = MomentRegressor(1.0, **RANGES, ledger=ledger).fit(X, y)
    before = model.predict(X[:5])
    with pytest.raises(OnefoldError, match="limit"):
        model.set_params(y_range=(-5000.0, 5000.0)).fit(X, y)
    assert np.array_equal(model.predict(X[:5]), before)


def test_persons_count_once_and_are_promised_epsilon() -> None:
    table = patients(600) | {"who": np.repeat(np.arange(60).astype(str), 10)}
    schema = Schema([*SCHEMA.fields, Field("who", "string", "person")], rows_per_person=10)
    model = MomentRegressor(1.0, schema=schema).fit(table)
    assert model.guarantee_.person == (1.0, 1e-5)
    assert abs(model.moments_.counts_[0] - 60.0) < 8.0 * model.moments_.count_noise_[0]


def test_release_is_entered_in_the_ledger_before_it_is_made(friedman: list) -> None:
    X, _, y, _ = friedman
    ledger = Ledger(2.0, 1e-4)
    MomentRegressor(1.0, ledger=ledger, **RANGES).fit(X, y)
    with pytest.raises(Exception, match="limit"):
        MomentRegressor(1.0, ledger=ledger, **RANGES).fit(X, y)


# --- tables -------------------------------------------------------------------------------------------------


def test_tables_are_fitted_by_their_schema_with_and_without_noise() -> None:
    train, test = patients(3000), patients(1000, seed=1)
    exact = MomentRegressor(None, schema=SCHEMA).fit(train)
    assert exact.score(test, test["cost"]) > 0.85
    private = MomentRegressor(4.0, schema=SCHEMA, random_state=0).fit(train)
    assert private.score(test, test["cost"]) > 0.6
    assert private.guarantee_.schema == SCHEMA.digest
    assert list(private.feature_names_in_) == ["age", "dose", "ward"]


def test_rows_without_a_number_are_left_out() -> None:
    table = patients(500)
    with_gaps = {name: np.concatenate([values, values[:100]]) for name, values in table.items()}
    with_gaps["cost"] = with_gaps["cost"].astype(object)
    with_gaps["cost"][500:] = "unknown"
    usual = MomentRegressor(None, schema=SCHEMA, lift=None).fit(table)
    gaps = MomentRegressor(None, schema=SCHEMA, lift=None).fit(with_gaps)
    assert np.array_equal(usual.moments_.second_moments_, gaps.moments_.second_moments_)


@pytest.mark.parametrize("encoder", [None, FourierLift(4)], ids=["no encoder", "encoder"])
def test_table_without_a_number_is_released_like_any_other(encoder: Any) -> None:
    """A refusal would tell that nobody is in it."""
    nobody: dict[str, Any] = {field.name: [] for field in SCHEMA.fields}
    unknown = {field.name: ["?", "?"] for field in SCHEMA.fields}
    usual = MomentRegressor(1.0, schema=SCHEMA, encoder=encoder).fit(patients(30))
    for table in (nobody, unknown):
        model = MomentRegressor(1.0, schema=SCHEMA, encoder=encoder).fit(table)
        assert model.guarantee_ == usual.guarantee_
        assert model.moments_.sums_.shape == usual.moments_.sums_.shape
        assert len(model.moments_.to_bytes()) == len(usual.moments_.to_bytes())
        assert np.isfinite(model.predict(patients(5))).all()


def test_schema_from_private_rows_is_for_models_without_noise_only() -> None:
    table = patients(300)
    schema = Schema.infer(table, "cost", source="private", task="regression")
    assert MomentRegressor(None, schema=schema).fit(table).score(table, table["cost"]) > 0.8
    with pytest.raises(InvalidInputError, match="inferred from private rows"):
        MomentRegressor(1.0, schema=schema).fit(table)


# --- exactness ----------------------------------------------------------------------------------------------


@pytest.mark.exact
@pytest.mark.parametrize("lift", [None, 40])
def test_sums_of_any_spread_of_rows_are_the_same_bits(lift: int | None) -> None:
    table = patients(400)
    agreed = MomentRegressor(None, schema=SCHEMA, lift=lift)
    whole = agreed.site_moments(table)
    order = np.random.default_rng(0).permutation(400)
    parts = [
        agreed.site_moments({name: values[rows] for name, values in table.items()})
        for rows in np.array_split(order, 7)
    ]
    total = PrivateMoments.total(parts)
    for name in ("counts_", "sums_", "second_moments_"):
        assert np.array_equal(getattr(total, name), getattr(whole, name))
    left = total.without(parts[3])
    assert np.array_equal(
        left.second_moments_, PrivateMoments.total([*parts[:3], *parts[4:]]).second_moments_
    )
    alone, together = (
        MomentRegressor.from_moments(each, schema=SCHEMA, lift=lift) for each in (whole, total)
    )
    fitted = agreed.fit(table)
    assert np.array_equal(alone.predict(table), together.predict(table))
    assert np.array_equal(fitted.predict(table), together.predict(table))


def test_moments_of_other_ranges_or_of_classes_are_refused() -> None:
    X, y = np.random.default_rng(0).uniform(size=(50, 3)), np.linspace(0.0, 1.0, 50)
    own = {"x_range": (0.0, 1.0), "y_range": (0.0, 1.0)}
    moments = MomentRegressor(None, lift=None, **own).site_moments(X, y)
    other = MomentRegressor(None, lift=None, x_range=(0.0, 1.0), y_range=(0.0, 2.0)).site_moments(X, y)
    with pytest.raises(InvalidInputError, match="encoder"):
        moments.add(other)
    with pytest.raises(InvalidInputError, match="another encoder or schema"):
        MomentRegressor.from_moments(moments, x_range=(0.0, 1.0), y_range=(0.0, 3.0))
    of_classes = PrivateMoments(None, centre=None).fit(X, (y > 0.5).astype(int))
    with pytest.raises(InvalidInputError, match="no moments of rows with one output"):
        MomentRegressor.from_moments(of_classes, x_range=(0.0, 1.0), y_range=(0.0, 3.0))


# --- files and mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "ranges", "noise", "schema"])
def test_file_holds_the_whole_regressor(tmp_path: Path, kind: str) -> None:
    table = patients(300)
    X = np.column_stack([table["age"], table["cost"]]) / 1000.0
    y = np.nan_to_num(table["dose"])
    model = {
        "plain": MomentRegressor(None),
        "ranges": MomentRegressor(None, x_range=(0.0, [1.0, 2.0]), y_range=(0.0, 8.0), lift=None),
        "noise": MomentRegressor(2.0, x_range=(0.0, 1.0), y_range=(0.0, 10.0)),
        "schema": MomentRegressor(2.0, schema=SCHEMA),
    }[kind]
    queries = table if kind == "schema" else X
    model.fit(*((table,) if kind == "schema" else (X, y)))
    io.save(model, tmp_path / "model")
    loaded = io.load(tmp_path / "model")
    assert type(loaded) is MomentRegressor
    assert np.array_equal(loaded.predict(queries), model.predict(queries))
    assert np.array_equal(loaded.predict_interval(queries), model.predict_interval(queries))
    assert loaded.guarantee_ == model.guarantee_
    assert loaded.held_out_error_ == model.held_out_error_


def test_loaded_regressor_of_a_schema_can_be_fitted_again(tmp_path: Path) -> None:
    MomentRegressor(2.0, schema=SCHEMA).fit(patients(300)).save(tmp_path / "model")
    again = MomentRegressor.load(tmp_path / "model").fit(patients(300))
    assert again.guarantee_.record == (2.0, 1e-5)


def test_file_with_noise_and_errors_of_rows_is_refused(tmp_path: Path) -> None:
    model = MomentRegressor(2.0, schema=SCHEMA).fit(patients(300))
    model.residuals_ = np.array([1.0, 2.0])  # functions of raw rows, which no guarantee covers
    model.save(tmp_path / "model")
    with pytest.raises(FileFormatError):
        MomentRegressor.load(tmp_path / "model")


def test_file_of_something_else_is_refused(tmp_path: Path) -> None:
    io.save(PrivateMoments(None, centre=None).fit(np.eye(4), [0, 1, 0, 1]), tmp_path / "moments")
    with pytest.raises(FileFormatError):
        MomentRegressor.load(tmp_path / "moments")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "ranges of X and y must be declared"),
        ({"x_range": (0, 1)}, "ranges of X and y must be declared"),
        ({"y_range": (0, 1)}, "ranges of X and y must be declared"),
        ({"x_range": (1, 0), "y_range": (0, 1)}, "x_range must be"),
        ({"x_range": ([0, 0], [1, 1]), "y_range": (0, 1)}, "x_range must be"),
        ({"x_range": (0, 1), "y_range": (0, np.nan)}, "y_range must be"),
        ({"x_range": (0, 1), "y_range": "ab"}, "y_range must be"),
        ({"x_range": (0, 1), "y_range": (0, 1), "lift": 8}, "lift is for moments without noise"),
        ({"schema": SCHEMA, "y_range": (0, 1)}, "y_range is declared by the schema"),
        ({"schema": SCHEMA, "x_range": (0, 1)}, "x_range is for rows of numbers"),
        ({"schema": Schema(SCHEMA.fields[:3])}, "no number with a range"),
        ({"lift": "many", **RANGES}, "lift must be"),
    ],
)
def test_settings_that_make_no_sense_get_one_line(given: dict, told: str) -> None:
    X = np.random.default_rng(0).uniform(size=(20, 3))
    with pytest.raises(InvalidInputError, match=told) as error:
        MomentRegressor(1.0, **given).fit(X, X[:, 0])
    assert "\n" not in str(error.value)


def test_several_outputs_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="one number for each row"):
        MomentRegressor(None).fit(np.eye(4), np.ones((4, 2)))


def test_ranges_are_numbers_or_one_number_per_column() -> None:
    assert checked_range("r", (0, [1, 2]), 2).tolist() == [[0.0, 0.0], [1.0, 2.0]]
    assert checked_range("r", (2, 2), empty=True).tolist() == [2.0, 2.0]


# --- the release itself -------------------------------------------------------------------------------------


def test_noise_of_the_release_is_that_of_its_levels() -> None:
    """Accepts the noise that the levels state, and would not accept two thirds or three halves of it."""
    X, y = np.full((3, 20), 0.5), np.zeros(3)
    ranges = {"x_range": (0.0, 1.0), "y_range": (-1.0, 1.0)}
    moments = MomentRegressor(1.0, **ranges).fit(X, y).moments_
    below = moments.second_moments_[0][np.triu_indices(21, 1)]  # all true products are zero
    expected = moments.second_noise_[0] / np.sqrt(2.0)
    assert 0.8 < np.std(below) / expected < 1.25
    levels = np.array([moments.count_noise_[0], moments.sum_noise_[0], moments.second_noise_[0]])
    assert np.sqrt(np.sum(levels**-2.0)) == pytest.approx(mu_of(1.0, 1e-5), rel=1e-9)


def test_neighbours_are_told_apart_as_well_as_promised_and_no_better() -> None:
    """The best test of a record more or less sees a shift of mu deviations of the noise that is really there.

    The record lies far outside its ranges, so it is as long as one can be. Noise that is 5 % off fails here.
    """
    width, looks, rng = 12, 30, np.random.default_rng(0)
    ranges = {"x_range": (0.0, 1.0), "y_range": (0.0, 1.0)}
    X, y = rng.uniform(size=(5, width)), rng.uniform(size=5)
    neighbour = np.vstack([X, np.full((1, width), 1e9)]), np.append(y, -1e300)
    above = np.triu_indices(width + 1, 1)

    def numbers(found: PrivateMoments, levels: PrivateMoments) -> np.ndarray:
        """All released numbers in units of the stated noise; beside the diagonal it is smaller by sqrt 2."""
        products = found.second_moments_[0] / levels.second_noise_[0]
        sums = found.sums_[0] / levels.sum_noise_[0]
        counts = found.counts_ / levels.count_noise_
        return np.concatenate([counts, sums, np.diag(products), np.sqrt(2.0) * products[above]])

    exact = MomentRegressor(None, lift=None, **ranges)
    noisy = [MomentRegressor(1.0, random_state=rng, **ranges).site_moments(X, y) for _ in range(looks)]
    truth, shifted = (numbers(exact.site_moments(*rows), noisy[0]) for rows in ((X, y), neighbour))
    noise = np.array([numbers(found, noisy[0]) - truth for found in noisy])
    apart = np.linalg.norm(shifted - truth) / np.sqrt(np.mean(noise**2))
    assert apart / mu_of(1.0, 1e-5) == pytest.approx(1.0, abs=0.04)  # of 3150 numbers: three deviations
    blocks = (noise[:, 0], noise[:, 1 : width + 2], noise[:, width + 2 :])
    assert [round(float(np.sqrt(np.mean(block**2)))) for block in blocks] == [1, 1, 1]


def test_nothing_but_the_release_decides_what_is_predicted(friedman: list) -> None:
    X, test, y, _ = friedman
    model = MomentRegressor(1.0, **RANGES).fit(X, y)
    again = MomentRegressor.from_moments(PrivateMoments.from_bytes(model.moments_.to_bytes()), **RANGES)
    assert np.array_equal(again.predict(test), model.predict(test))
    assert np.array_equal(again.predict_interval(test), model.predict_interval(test))
    assert again.held_out_error_ == model.held_out_error_


# --- rows that belong together ------------------------------------------------------------------------------


def of_persons(n_persons: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of persons that are alike; each person has an effect that no column tells."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n_persons), 8)
    base, effect = rng.normal(size=(n_persons, 3))[person], rng.normal(size=n_persons)[person]
    rows = base + 0.1 * rng.normal(size=base.shape)
    return rows, base[:, 0] + effect + 0.1 * rng.normal(size=len(person)), person


@pytest.mark.merge
def test_errors_and_intervals_for_groups_are_those_of_other_groups() -> None:
    rows, outputs, person = of_persons(100, 0)
    others, truth, _ = of_persons(400, 1)
    by_rows = MomentRegressor(None).fit(rows, outputs)
    by_group = MomentRegressor(None).fit(rows, outputs, groups=person)
    real = [np.mean((model.predict(others) - truth) ** 2) for model in (by_rows, by_group)]
    assert by_rows.held_out_error_ < 0.7 * real[0]  # too good to be true
    assert 0.7 < by_group.held_out_error_ / real[1] < 1.4  # 100 persons: a deviation of about 0.14
    assert real[1] < real[0]
    low, high = by_group.predict_interval(others, 0.9).T
    assert abs(np.mean((low <= truth) & (truth <= high)) - 0.9) < 0.08


def test_one_group_changes_nothing_and_noise_takes_persons_instead() -> None:
    rows, outputs, person = of_persons(10, 0)
    one = MomentRegressor(None, lift=None).fit(rows, outputs, groups=np.zeros(len(rows)))
    assert one.held_out_error_ == MomentRegressor(None, lift=None).fit(rows, outputs).held_out_error_
    private = MomentRegressor(1.0, x_range=(-5, 5), y_range=(-5, 5))
    with pytest.raises(InvalidInputError, match="groups are for moments without noise"):
        private.fit(rows, outputs, groups=person)
    with pytest.raises(InvalidInputError, match="one name or number for each row"):
        MomentRegressor(None).fit(rows, outputs, groups=person[1:])
