"""The total of a ledger against the true loss of the same noise: never below it, and not far above."""

import math
from typing import Any

import numpy as np
import pytest

from onefold.exceptions import BudgetExceededError
from onefold.fabrication import MomentClassifier, TableSynthesizer
from onefold.privacy import (
    AnalyticGaussian,
    Box,
    Event,
    Guarantee,
    Ledger,
    RandomisedLabels,
    calibration,
    composition,
)
from onefold.tables import Field, Schema

MU = calibration.mu_of(1.0, 1e-6)
GAUSSIAN = AnalyticGaussian(1.0, 1e-6, Box(0.0, 1.0, 3), unit="record").guarantee(3)


def entered(guarantee: Guarantee, times: int = 1, **options: Any) -> Ledger:
    ledger = Ledger(**options)
    for _ in range(times):
        ledger.spend_guarantee(guarantee, "release")
    return ledger


def test_ten_gaussian_releases_are_billed_by_their_noise() -> None:
    epsilon, delta = entered(GAUSSIAN, 10).total()
    assert (round(epsilon, 2), delta) == (3.14, pytest.approx(1e-5))
    assert epsilon >= calibration.epsilon_of(math.sqrt(10) * MU, 1e-5) * (1 - 1e-9)
    assert entered(GAUSSIAN, 10).total("basic")[0] == pytest.approx(10.0)


def test_a_budget_of_ten_admits_seventy_one_gaussian_releases() -> None:
    ledger = entered(GAUSSIAN, 71, limit_epsilon=10.0, limit_delta=1e-5)
    with pytest.raises(BudgetExceededError, match=r"epsilon would be 10\.\d+ per record, the limit is 10"):
        ledger.spend_guarantee(GAUSSIAN, "release")
    assert ledger.total()[0] <= 10.0
    assert entered(GAUSSIAN, 10, limit_epsilon=10.0, how="basic").total()[0] == pytest.approx(10.0)
    with pytest.raises(BudgetExceededError):
        entered(GAUSSIAN, 11, limit_epsilon=10.0, how="basic")


def test_randomised_labels_add_up_beside_gaussian_rows() -> None:
    """The labels are coins: ten of them cost ten times their epsilon at no delta, the rows 3.14 as before."""
    labels = RandomisedLabels(0.25, [0, 1]).epsilon
    both = entered(GAUSSIAN.with_labels(labels), 10)
    assert both.total("basic")[0] == pytest.approx(12.5)
    (event, *_) = both.events
    assert (event.family, event.beside) == ("gaussian", (0.25, 0.0))
    assert 3.1398 < both.total()[0] <= 3.1398 + 2.5
    # A changed entry is a feature or the label: no noise covers both, so the pair is all there is.
    entry = entered(GAUSSIAN.with_labels(labels), unit="entry").events[0]
    assert entry.family is None


def test_a_total_below_the_sum_says_that_budgets_were_not_chosen_in_view_of_releases() -> None:
    """Only sums, and Gaussian noise alone, hold whatever decided on the next budget."""
    condition = "if no budget was chosen in view of earlier releases"
    mixed = Ledger(30.0, 1e-5)
    mixed.spend(Event("coins", "record", 0.1, count=300))
    assert mixed.total()[0] < 29.0
    assert condition in mixed.spent
    for ledger in (entered(GAUSSIAN, 10), entered(GAUSSIAN, 1), entered(GAUSSIAN, 10, how="basic")):
        assert condition not in ledger.spent


def test_a_saved_ledger_keeps_the_noise_of_its_events(tmp_path: Any) -> None:
    ledger = entered(GAUSSIAN.with_labels(0.25), 3)
    ledger.save(tmp_path / "ledger.db")
    again = Ledger.load(tmp_path / "ledger.db")
    assert again.events == ledger.events
    assert again.total() == ledger.total()


def test_what_is_not_gaussian_alone_is_not_entered_as_gaussian() -> None:
    laplace = Guarantee("record", (1.0, 0.0), (1.0, 0.0), 3)
    assert entered(laplace).events[0].family is None
    assert entered(GAUSSIAN.join(laplace)).events[0].family is None
    alone = RandomisedLabels(0.7, [0, 1]).guarantee(3)
    assert entered(alone).events[0].family is None


# --- mu of the unit and relation that a ledger is about ---------------------------------------------------

X = np.random.default_rng(0).random((30, 3))
LEDGERS: list[dict[str, Any]] = [
    {"unit": unit, "neighbours": relation}
    for unit in ("entry", "record", "person")
    for relation in ("replace", "add-remove")
    if (unit, relation) != ("entry", "add-remove")
]


def true_mu(unit: str, relation: str, of_person: bool) -> dict[str, float]:
    """Privacy of one count of a table that a person of three rows is in, from the definition of its noise."""
    per_row = MU / 3 if of_person else MU  # noise is for three rows more or less
    rows = 3 if unit == "person" else 1
    return {"add-remove": rows * per_row, "replace": rows * math.sqrt(2) * per_row}


@pytest.mark.parametrize("ledger", LEDGERS, ids=str)
@pytest.mark.parametrize("of_person", [False, True], ids=["records", "persons"])
def test_mu_is_that_of_the_unit_and_relation_of_the_ledger(ledger: dict[str, Any], of_person: bool) -> None:
    schema = Schema([Field(name, low=0, high=1) for name in "abc"])
    options = {"rows_per_person": 3, "person": [f"p{n // 3}" for n in range(30)]} if of_person else {}
    person = options.pop("person", None)
    made = TableSynthesizer(schema, 1.0, 1e-6, neighbours="add-remove", **options)
    made.fit(dict(zip("abc", X.T, strict=True)), person=person)
    if ledger["unit"] == "person" and not of_person:
        return  # nothing is promised, and the ledger says so
    (event,) = entered(made.guarantee_, **ledger).events
    assert event.family == "gaussian"
    stated = 1.0 / event.noise_multiplier
    true = true_mu(ledger["unit"], ledger["neighbours"], of_person)[ledger["neighbours"]]
    assert true * (1 - 1e-9) <= stated
    assert calibration.epsilon_of(stated, event.delta) <= event.epsilon * (1 + 1e-9)


def test_mu_of_a_replaced_record_is_no_less_than_its_noise() -> None:
    moments = MomentClassifier(1.0, 1e-6, classes=[0, 1]).fit(X, np.arange(30) % 2)
    for relation, factor in (("add-remove", 1.0), ("replace", math.sqrt(2.0))):
        (event,) = entered(moments.guarantee_, neighbours=relation).events
        assert event.family == "gaussian"
        assert MU * factor * (1 - 1e-9) <= 1.0 / event.noise_multiplier <= 2.0 * MU * (1 + 1e-9)


# --- random histories against dp-accounting ---------------------------------------------------------------


def history(rng: np.random.Generator) -> list[Event]:
    """Draw up to five kinds of releases, some of them many times."""
    return [random_event(rng) for _ in range(int(rng.integers(1, 6)))]


def random_event(rng: np.random.Generator) -> Event:
    count = int(rng.choice([1, 1, 2, 7, 30]))
    epsilon = float(rng.choice([0.05, 0.2, 0.5, 1.0, 2.0])) / math.sqrt(count)
    delta = float(10.0 ** rng.uniform(-9, -6))
    kind = rng.choice(["laplace", "gaussian", "both", "generic", "pure"])
    if kind == "laplace":
        k = int(rng.integers(1, 5))
        return Event("l", "record", k * epsilon, 0.0, "", count, "laplace", 1 / epsilon, k)
    if kind in ("gaussian", "both"):
        mu, labels = (
            calibration.mu_of(epsilon, delta),
            float(rng.uniform(0.1, 0.5)) if kind == "both" else 0.0,
        )
        total, beside = epsilon + labels, (labels, 0.0)
        return Event("g", "record", total, delta, "", count, "gaussian", 1 / mu, beside=beside)
    return Event("e", "record", epsilon, delta if kind == "generic" else 0.0, "", count)


def accountant(events: list[Event], delta: float, pessimistic: bool) -> float:
    """Compose by dp-accounting alone, release by release, rounded to either side."""
    library = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    grid = {"value_discretization_interval": 5e-4, "pessimistic_estimate": pessimistic}
    options = {**grid, "use_connect_dots": pessimistic}  # which is not there for the optimistic side
    total, kept = None, 1.0
    for event in events:
        coin = event.epsilon if event.family is None else event.beside[0]
        parts = []
        if event.family == "gaussian":
            parts += [(library.from_gaussian_mechanism(event.noise_multiplier, **options), event.count)]
        elif event.family == "laplace":
            one = library.from_laplace_mechanism(event.noise_multiplier, **options)
            parts += [(one, event.count * event.coordinates)]
        if coin:
            one = library.from_randomized_response(2 / (1 + math.exp(coin)), 2, **grid)
            parts += [(one, event.count)]
        kept *= (1 - event.delta) ** event.count if event.family is None else 1.0
        for one, times in parts:
            several = one.self_compose(times)
            total = several if total is None else total.compose(several)
    return float(total.get_epsilon_for_delta(1 - (1 - delta) / kept))


@pytest.mark.parametrize(
    "first",
    [pytest.param(n, marks=pytest.mark.nightly if n else pytest.mark.merge) for n in range(0, 200, 20)],
)
def test_totals_of_random_histories_are_sound_and_tight(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dp_accounting")
    for seed in range(first, first + 20):
        rng = np.random.default_rng(seed)
        events, delta = history(rng), float(10.0 ** rng.uniform(-5, -4))
        added = composition.compose(events, "basic")
        tight = composition.compose(events, delta=delta)[0]
        with monkeypatch.context() as without:
            without.setattr(composition, "_distributions", lambda *_: math.inf)
            closed = composition.compose(events, delta=delta)[0]
            stated = composition.compose(events)
        low, high = (accountant(events, delta, pessimistic) for pessimistic in (False, True))
        assert low - 1e-9 <= tight <= closed, seed
        assert tight <= high * 1.01 + 1e-6, seed  # not more than one part in a hundred above
        assert closed <= added[0] * (1 + 1e-9) or added[1] > delta, seed
        assert stated[0] <= added[0], seed
        assert stated[1] == added[1], seed
