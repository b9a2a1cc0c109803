"""Spending: sums, better compositions, labels that count, a limit that holds."""

import copy
import math
import pickle
from dataclasses import replace

import pytest
from sklearn.base import clone

from onefold.exceptions import BudgetExceededError, InvalidInputError
from onefold.privacy import (
    AnalyticGaussian,
    Event,
    Guarantee,
    Laplace,
    Ledger,
    OptimalNoise,
    RandomisedLabels,
    calibration,
    charge,
)


def ledger_of(*events: Event, **options) -> Ledger:
    ledger = Ledger(**options)
    for event in events:
        ledger.spend(event)
    return ledger


SMALL = Event("small", "record", 0.1, 1e-8, count=100)


def test_basic_composition_adds_up() -> None:
    ledger = ledger_of(Event("a", "record", 1.0, 1e-6), Event("b", "record", 0.25, 1e-5, count=4))
    assert ledger.total() == (pytest.approx(2.0), pytest.approx(4.1e-5))
    assert Ledger().total() == (0.0, 0.0)


def test_closed_form_composition_by_hand(block_import) -> None:
    block_import("dp_accounting")
    epsilon, delta = ledger_of(SMALL).total(delta=1e-5)
    left = 1 - (1 - 1e-5) / (1 - 1e-8) ** 100
    drift = 100 * 0.1 * (math.exp(0.1) - 1) / (math.exp(0.1) + 1)
    assert epsilon == pytest.approx(drift + math.sqrt(2 * math.log(1 / left) * 100 * 0.01), rel=1e-6)
    assert delta == 1e-5
    assert epsilon < ledger_of(SMALL).total()[0]
    # one large release: adding up is better, and is what is reported
    assert ledger_of(Event("one", "record", 3.0)).total(delta=1e-5)[0] == 3.0


def test_a_delta_that_is_spent_already_leaves_no_epsilon() -> None:
    assert ledger_of(SMALL).total(delta=1e-7) == (math.inf, 1e-7)


def test_gaussian_releases_add_up_in_mu() -> None:
    ledger = ledger_of(Event.of(AnalyticGaussian(1.0, sensitivity=1.0), 1, count=10))
    exact = calibration.epsilon_of(math.sqrt(10) * calibration.mu_of(1.0, 1e-5), 1e-5)
    assert exact <= ledger.total(delta=1e-5)[0] < exact * 1.001
    assert ledger.total("basic")[0] == pytest.approx(10.0)


def test_a_record_of_gaussian_entries() -> None:
    """One Gaussian at the Euclidean change of the row: the ledger and the guarantee must agree."""
    noise = AnalyticGaussian(1.0, sensitivity=1.0)
    per_record = ledger_of(Event.of(noise, 100)).total(delta=1e-6)[0]
    exact = calibration.gaussian_epsilon(1e-6, noise.scale, 10.0)
    assert exact * (1 - 1e-6) <= per_record < exact * 1.001
    assert ledger_of(Event.of(noise, 100)).total() == pytest.approx(noise.guarantee(100).record)
    halves = replace(Event.of(noise, 1), count=2, coordinates=50)
    assert ledger_of(halves).total(delta=1e-6)[0] == pytest.approx(per_record)


def test_a_record_of_independent_entries() -> None:
    """Laplace noise on each of p entries is p releases: far better than p epsilon at a small delta."""
    pytest.importorskip("dp_accounting")
    ledger = ledger_of(Event.of(Laplace(0.5, sensitivity=1.0), 100))
    assert ledger.total() == (50.0, 0.0)
    # mean of the privacy loss of one entry: epsilon - 1 + exp(-epsilon); it cannot be beaten
    assert 100 * (0.5 - 1 + math.exp(-0.5)) < ledger.total(delta=1e-5)[0] < 30
    with_atom = ledger_of(Event.of(OptimalNoise(0.5, 1e-8, sensitivity=1.0), 100))
    assert with_atom.total(delta=1e-5)[0] > ledger.total(delta=1e-5)[0]
    assert with_atom.total(delta=1e-5)[0] == pytest.approx(ledger.total(delta=1e-5)[0], rel=0.01)
    assert with_atom.total(delta=1e-7)[0] == math.inf
    assert (
        ledger_of(Event.of(Laplace(0.5, sensitivity=1.0), 100, unit="entry"), unit="entry").total()[0] == 0.5
    )


def test_releases_of_unknown_noise(block_import) -> None:
    pytest.importorskip("dp_accounting")
    ledger = ledger_of(SMALL)
    tight = ledger.total(delta=1e-5)[0]
    # the exact optimum for a hundred coins: by the binomial distribution
    assert tight == pytest.approx(_coins(0.1, 100, 1 - (1 - 1e-5) / (1 - 1e-8) ** 100), rel=0.01)
    mixed = ledger_of(
        SMALL, Event.of(AnalyticGaussian(1.0, sensitivity=1.0), 1), Event.of(Laplace(0.2, sensitivity=1.0), 3)
    )
    assert ledger.total(delta=1e-4)[0] < mixed.total(delta=1e-4)[0] < mixed.total("basic")[0]
    block_import("dp_accounting")
    assert tight < ledger.total(delta=1e-5)[0] < ledger.total("basic")[0]  # in closed form


def _coins(epsilon: float, n: int, delta: float) -> float:
    """Smallest total epsilon of n coins at ``delta``, straight from the definition, by bisection."""
    p = 1 / (1 + math.exp(-epsilon))

    def excess(total: float) -> float:
        return sum(
            math.comb(n, k)
            * max(0.0, p**k * (1 - p) ** (n - k) - math.exp(total) * p ** (n - k) * (1 - p) ** k)
            for k in range(n + 1)
        )

    low, high = 0.0, n * epsilon
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) <= delta else (middle, high)
    return high


def test_ledger_refuses_the_event_that_would_exceed_the_limit() -> None:
    ledger = ledger_of(Event("a", "record", 0.7), limit_epsilon=1.0)
    with pytest.raises(BudgetExceededError, match=r"epsilon would be 1\.4 per record, the limit is 1"):
        ledger.spend(Event("b", "record", 0.7))
    assert ledger.total() == (0.7, 0.0)  # nothing was spent
    assert len(ledger.events) == 1
    ledger.spend(Event("c", "record", 0.3))
    assert ledger.total()[0] == pytest.approx(1.0)
    with pytest.raises(BudgetExceededError):
        ledger.spend(Event("d", "record", 1e-6))


def test_ten_releases_of_a_tenth_fit_into_a_budget_of_one() -> None:
    ledger = Ledger(limit_epsilon=1.0)
    for _ in range(10):
        ledger.spend(Event("tenth", "record", 0.1))
    with pytest.raises(BudgetExceededError):
        ledger.spend(Event("tenth", "record", 0.1))


def test_ledger_enforces_the_limit_on_delta() -> None:
    ledger = ledger_of(Event("a", "record", 0.1, 6e-6), limit_delta=1e-5)
    with pytest.raises(BudgetExceededError, match=r"delta would be 1\.2e-05 per record"):
        ledger.spend(Event("b", "record", 0.1, 6e-6))
    pure = Ledger(limit_epsilon=1.0, limit_delta=0.0)
    with pytest.raises(BudgetExceededError):
        pure.spend(Event("b", "record", 0.1, 1e-9))
    pure.spend(Event("c", "record", 0.1))


def test_ledger_enforces_a_limit_by_the_tightest_composition() -> None:
    budget = {"limit_epsilon": 6.0, "limit_delta": 1e-5}
    with pytest.raises(BudgetExceededError):
        ledger_of(SMALL, **budget, how="basic")
    ledger = ledger_of(SMALL, **budget)
    assert ledger.total()[0] <= 6.0
    assert ledger.total()[1] == 1e-5
    with pytest.raises(BudgetExceededError, match="per record"):
        ledger.spend(Event("more", "record", 0.1, 1e-8, count=200))
    assert len(ledger.events) == 1
    with pytest.raises(BudgetExceededError, match=r"delta would be 2\.1e-05 per record, the limit is 1e-05"):
        ledger.spend(Event("more", "record", 0.1, 1e-7, count=200))


def test_ledger_refuses_events_of_another_unit() -> None:
    ledger = Ledger()
    with pytest.raises(InvalidInputError, match="counts per record, the event is per entry"):
        ledger.spend(Event("a", "entry", 1.0))
    noise = OptimalNoise(1.0, 1e-5, sensitivity=1.0)
    ledger.spend_guarantee(noise.guarantee(784), "images")
    assert ledger.total()[0] == 784.0
    by_entry = Ledger(unit="entry")
    by_entry.spend_guarantee(noise.guarantee(784), "images")
    assert by_entry.total() == (1.0, 1e-5)
    with pytest.raises(InvalidInputError, match="void"):
        ledger.spend_guarantee(noise.guarantee(784).voided("raw data"), "images")


def test_ledger_refuses_events_under_another_relation() -> None:
    replaced, more_or_less = Ledger(), Ledger(neighbours="add-remove")
    with pytest.raises(
        InvalidInputError, match="about one record replaced, the event about one more or less"
    ):
        replaced.spend(Event("a", "record", 1.0, neighbours="add-remove"))
    with pytest.raises(
        InvalidInputError, match="about one record more or less, the event about one replaced"
    ):
        more_or_less.spend(Event("a", "record", 1.0))
    promise = Guarantee("record", (1.9, 1e-5), (1.0, 1e-5), 3, neighbours="add-remove", replaced=(1.9, 1e-5))
    more_or_less.spend_guarantee(promise, "moments")
    assert more_or_less.total() == (1.0, 1e-5)
    replaced.spend_guarantee(promise, "moments")  # the number for a replaced record, not the smaller one
    assert replaced.total() == (1.9, 1e-5)
    with pytest.raises(InvalidInputError, match="promises nothing per record more or less"):
        more_or_less.spend_guarantee(Laplace(1.0, sensitivity=1.0).guarantee(3), "table")
    assert len(more_or_less.events) == len(replaced.events) == 1
    with pytest.raises(InvalidInputError, match="entries are changed"):
        Ledger(unit="entry", neighbours="add-remove")
    with pytest.raises(InvalidInputError, match="neighbours must be 'replace' or 'add-remove'"):
        Ledger(neighbours="friends")


# --- labels and persons -----------------------------------------------------------------------------------

FEATURES = Guarantee("record", (0.1, 1e-6), (0.3, 1e-6), 3, clipped=True)


def spent(guarantee: Guarantee, **options) -> tuple[float, float]:
    ledger = Ledger(**options)
    charge(ledger, guarantee, "release")
    return ledger.total()


def test_a_record_ledger_counts_the_labels_with_the_features() -> None:
    both = FEATURES.with_labels(8.0, 1e-7)
    assert spent(both) == (pytest.approx(8.3), pytest.approx(1.1e-6))
    with pytest.raises(BudgetExceededError, match=r"epsilon would be 8\.3 per record, the limit is 1"):
        spent(both, limit_epsilon=1.0)


def test_labels_that_are_part_of_the_record_count_once() -> None:
    moments = Guarantee(
        "record",
        (1.9, 1e-5),
        (1.0, 1e-5),
        3,
        labels=(1.9, 1e-5),
        neighbours="add-remove",
        replaced=(1.9, 1e-5),
        labels_in_record=True,
    )
    assert spent(moments) == spent(moments, unit="entry") == (1.9, 1e-5)
    assert spent(moments, neighbours="add-remove") == (1.0, 1e-5)


def test_labels_beside_a_record_more_or_less_count_in_both_relations() -> None:
    both = Guarantee("record", (1.0, 0.0), (1.0, 0.0), 3, neighbours="add-remove").with_labels(8.0)
    assert spent(both) == (10.0, 0.0)
    assert spent(both, neighbours="add-remove") == (9.0, 0.0)


def test_a_release_of_labels_enters_record_and_entry_ledgers() -> None:
    labels = RandomisedLabels(0.7, 3).guarantee(5)
    assert spent(labels) == spent(labels, unit="entry") == (0.7, 0.0)
    with pytest.raises(InvalidInputError, match="promises nothing per record more or less"):
        spent(labels, neighbours="add-remove")


def test_an_entry_ledger_counts_the_larger_of_a_feature_and_the_label() -> None:
    for labels, larger in (((8.0, 0.0), (8.0, 1e-6)), ((0.05, 1e-3), (0.1, 1e-3))):
        assert spent(FEATURES.with_labels(*labels), unit="entry") == larger
    assert spent(FEATURES, unit="entry") == (0.1, 1e-6)


def test_events_say_whether_labels_count() -> None:
    ledger = Ledger()
    charge(ledger, FEATURES, "rows")
    charge(ledger, FEATURES.with_labels(1.0), "rows and labels")
    ledger.spend(Event.of(Laplace(0.5, sensitivity=1.0), 3, name="table"))
    ledger.spend(Event("by hand", "record", 0.5))
    assert [event.labels for event in ledger.events] == [
        "not covered",
        "counted",
        "not covered",
        "not stated",
    ]
    rows, both, table, by_hand = str(ledger).splitlines()[-4:]
    assert rows.startswith("  1 x rows: epsilon 0.3 per record, delta 1e-06, labels not covered")
    assert both.endswith("labels counted")
    assert "labels not covered, provided that no entry changes by more than 1" in table
    assert by_hand.endswith("labels not stated")
    assert "Not in these numbers: the labels" in str(ledger)


PEOPLE = Guarantee("record", (0.5, 0.0), (0.5, 0.0), 3, person=(2.0, 0.0), rows_per_person=4)


def test_a_person_ledger_counts_all_rows_of_a_person_and_their_labels() -> None:
    assert spent(PEOPLE, unit="person") == (2.0, 0.0)
    assert spent(PEOPLE.with_labels(0.25), unit="person") == (3.0, 0.0)
    assert spent(replace(RandomisedLabels(0.7, 3).guarantee(), rows_per_person=4), unit="person") == (
        pytest.approx(2.8),
        0.0,
    )
    with_labels = replace(PEOPLE, labels=(0.5, 0.0), labels_in_record=True)
    assert spent(with_labels, unit="person") == (2.0, 0.0)
    more_or_less = replace(PEOPLE, neighbours="add-remove", replaced=(1.0, 0.0))
    assert spent(more_or_less, unit="person") == (4.0, 0.0)
    assert spent(more_or_less, unit="person", neighbours="add-remove") == (2.0, 0.0)
    with pytest.raises(InvalidInputError, match="promises nothing per person more or less"):
        spent(PEOPLE, unit="person", neighbours="add-remove")


def test_a_person_ledger_refuses_what_promises_nothing_per_person() -> None:
    for guarantee in (FEATURES, FEATURES.with_labels(1.0), RandomisedLabels(0.7, 3).guarantee()):
        with pytest.raises(InvalidInputError, match="nothing per person: say whose rows they are"):
            spent(guarantee, unit="person")


def test_events_of_a_noise_for_persons_count_all_their_rows() -> None:
    for noise in (
        Laplace(0.5, sensitivity=1.0, unit="record"),
        AnalyticGaussian(0.5, 1e-6, 1.0, unit="record"),
    ):
        with pytest.raises(InvalidInputError, match="needs a noise with rows_per_person"):
            Event.of(noise, 3, unit="person")
    several = Laplace(0.5, sensitivity=1.0, unit="record", rows_per_person=4)
    assert Event.of(several, 3, unit="person").epsilon == pytest.approx(2.0)
    for_persons = AnalyticGaussian(0.5, 1e-6, 1.0, unit="person", rows_per_person=4)
    event = Event.of(for_persons, 3, unit="person")
    assert (event.epsilon, event.delta) == (0.5, 1e-6)
    assert Event.of(for_persons, 3).epsilon < 0.5


def test_one_gaussian_release_for_persons() -> None:
    noise = AnalyticGaussian(0.5, 1e-6, 1.0, unit="person", rows_per_person=4)
    ledger = ledger_of(Event.of(noise, 3, unit="person"), unit="person")
    assert 0.5 * (1 - 1e-6) <= ledger.total(delta=1e-6)[0] <= 0.5


def test_events_keep_the_conditions_of_a_guarantee() -> None:
    ledger = Ledger()
    charge(ledger, replace(FEATURES, sensitivity=1.0, clipped=False).provided("batches are public"), "rows")
    charge(ledger, replace(FEATURES, sensitivity=1.0), "clipped rows")
    first, second = ledger.events
    assert first.conditions == (
        "no record changes by more than 1 (not checked)",
        "batches are public",
    )
    assert second.conditions == ()
    assert "labels not covered, provided that no record changes by more than 1" in str(ledger)
    assert "provided that batches are public" in str(ledger)


def test_labels_without_a_bound_are_refused() -> None:
    for unit in ("record", "entry"):
        with pytest.raises(InvalidInputError, match=f"promises nothing per {unit} replaced"):
            spent(FEATURES.with_labels(math.inf), unit=unit)


# --- charging ---------------------------------------------------------------------------------------------


def test_charge_without_a_ledger_counts_nothing_and_refuses_nothing() -> None:
    charge(None, FEATURES.voided("raw data"), "release")


def test_charge_refuses_a_void_guarantee_with_its_reasons() -> None:
    ledger = Ledger()
    void = FEATURES.voided("the domain was inferred").voided("a seed was used")
    with pytest.raises(InvalidInputError, match=r"void .*: the domain was inferred; a seed was used"):
        charge(ledger, void, "release")
    assert ledger.events == ()


def test_charge_refuses_what_is_no_ledger() -> None:
    with pytest.raises(InvalidInputError, match="ledger must be a Ledger, the path of a ledger's file or"):
        charge(3.0, FEATURES, "release")  # type: ignore[arg-type]


def test_a_copy_of_a_ledger_is_the_ledger() -> None:
    """Cross-validation clones estimators with their parameters: the clones spend on the same data."""
    ledger = Ledger(limit_epsilon=1.0)
    assert copy.copy(ledger) is copy.deepcopy({"ledger": ledger})["ledger"] is ledger
    assert clone(ledger, safe=False) is ledger
    with pytest.raises(InvalidInputError, match="save the ledger to a file before"):
        pickle.dumps(ledger)


def test_every_epsilon_of_a_printed_ledger_names_its_unit() -> None:
    text = str(ledger_of(Event.of(Laplace(0.5, sensitivity=1.0), 4, name="survey", count=2)))
    assert "epsilon 4 per record" in text
    assert "2 x survey" in text
    assert text.count("epsilon") == text.count("per record")


def test_a_printed_ledger_rounds_up() -> None:
    ledger = ledger_of(Event("a", "record", 1.00001, 1.001e-6), Event("b", "record", 2.0000001))
    assert ledger.spent == "epsilon 3.00002 per record replaced, delta 1.01e-06"
    assert "epsilon 1.001 per record, delta 1.01e-06" in str(ledger)


def test_invalid_events_and_calls_are_refused() -> None:
    for options in (
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"delta": 1.0},
        {"delta": math.nan},
        {"unit": "label"},
        {"count": 0},
        {"count": 1.5},
        {"family": "cauchy", "noise_multiplier": 1.0},
        {"family": "laplace"},
        {"noise_multiplier": 1.0},
        {"family": "laplace", "noise_multiplier": 0.0},
        {"coordinates": 0},
        {"atom": 2.0},
        {"beside": (0.5, 0.0)},
        {"family": "gaussian", "noise_multiplier": 1.0, "beside": (2.0, 0.0)},
        {"family": "gaussian", "noise_multiplier": 1.0, "beside": 0.5},
        {"labels": "maybe"},
        {"conditions": "a text"},
        {"conditions": (3,)},
    ):
        with pytest.raises(InvalidInputError):
            Event(**{"name": "a", "unit": "record", "epsilon": 1.0, **options})
    with pytest.raises(InvalidInputError, match="takes an Event"):
        Ledger().spend((1.0, 0.0))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="how must be 'tightest' or 'basic'"):
        Ledger().total("magic")
    with pytest.raises(InvalidInputError, match="leave it out"):
        ledger_of(SMALL).total("basic", 1e-5)
    for limit in (0, -1, math.nan, math.inf):
        with pytest.raises(InvalidInputError, match="limit_epsilon must"):
            Ledger(limit_epsilon=limit)
    with pytest.raises(InvalidInputError, match="delta must"):
        Ledger(limit_delta=1.0)
