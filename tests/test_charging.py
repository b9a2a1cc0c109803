"""Everything that releases is entered in a ledger: once, before any noise, and not beyond the limit."""

import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler
from tests.tiers import later

from onefold.encoders import RandomFeatures
from onefold.exceptions import BudgetExceededError, InvalidInputError
from onefold.fabrication import (
    Fabricator,
    MomentClassifier,
    MomentFabricator,
    MomentRegressor,
    PrivateClassifier,
    TableSynthesizer,
    synthesizer,
)
from onefold.federated import HolderKey, LocalModel, MomentFederation, release_moments
from onefold.federated.secret.contract import SumParties
from onefold.federated.secret.statistics import MomentSum
from onefold.privacy import (
    AnalyticGaussian,
    Box,
    Laplace,
    Ledger,
    PrivateMoments,
    RandomisedLabels,
)
from onefold.release import release_bounded, release_iid, release_table
from onefold.tables import Field, Schema
from onefold.transfer import PrivateSource
from reference import drawing

pytestmark = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")

RNG = np.random.default_rng(0)
X = RNG.random((40, 3))
Y = np.arange(40) % 2
BOX = Box(0.0, 1.0, 3)
NOISE = AnalyticGaussian(0.5, 1e-6, BOX, unit="record")
LABELS = RandomisedLabels(1.5, [0, 1])


def fabricator(ledger: Any) -> Any:
    return Fabricator(NOISE, 2, label_mechanism=LABELS, ledger=ledger).fabricate(X, Y)


def noise_alone(ledger: Any) -> Any:
    return Fabricator(NOISE, 2, ledger=ledger).randomise(X)


def private_classifier(ledger: Any) -> Any:
    return PrivateClassifier(mechanism=NOISE, n_components=2, ledger=ledger).fit(X, Y)


def moments(ledger: Any) -> Any:
    return PrivateMoments(0.5, 1e-6, classes=[0, 1], neighbours="replace", ledger=ledger).fit(X, Y)


def moments_of_a_site(ledger: Any) -> Any:
    agreed = PrivateMoments(0.5, 1e-6, classes=[0, 1], centre=None, neighbours="replace", ledger=ledger)
    return release_moments(X, Y, agreed)


def source_of_moments(ledger: Any) -> Any:
    agreed = PrivateMoments(0.5, 1e-6, classes=[0, 1], neighbours="replace")
    return PrivateSource.fit(X, Y, agreed, ledger=ledger)


def moment_classifier(ledger: Any) -> Any:
    return MomentClassifier(0.5, 1e-6, classes=[0, 1], neighbours="replace", ledger=ledger).fit(X, Y)


def moment_fabricator(ledger: Any) -> Any:
    return MomentFabricator(0.5, 1e-6, classes=[0, 1], neighbours="replace", ledger=ledger).fit(X, Y)


RANGES: dict[str, Any] = {"x_range": (0.0, 1.0), "y_range": (0.0, 1.0)}


def moment_regressor(ledger: Any) -> Any:
    return MomentRegressor(0.5, 1e-6, neighbours="replace", ledger=ledger, **RANGES).fit(X, X[:, 0])


def regressor_of_a_site(ledger: Any) -> Any:
    agreed = MomentRegressor(0.5, 1e-6, neighbours="replace", ledger=ledger, **RANGES)
    return agreed.site_moments(X, X[:, 0])


def iid_rows(ledger: Any) -> Any:
    return release_iid(X, 0.01, sensitivity=BOX, ledger=ledger)


def bounded_rows(ledger: Any) -> Any:
    return release_bounded(X, 1e-4, (-1e3, 1e3), sensitivity=BOX, ledger=ledger)


AGE_WEIGHT = Schema([Field("age", low=18, high=98), Field("weight", low=0, high=100)])


def table(ledger: Any) -> Any:
    columns = {"age": 18.0 + 80.0 * X[:, 0], "weight": 100.0 * X[:, 1]}
    return release_table(columns, AGE_WEIGHT, 0.01, labels=Y, label_mechanism=LABELS, ledger=ledger)


SCHEMA = Schema([*(Field(name, low=0, high=1) for name in "abc"), Field("y", "boolean", role="label")])
TABLE = {**dict(zip("abc", X.T, strict=True)), "y": Y == 1}
MADE = TableSynthesizer(SCHEMA).fit(TABLE)


def synthetic_table(ledger: Any) -> Any:
    return TableSynthesizer(SCHEMA, 0.5, 1e-6, neighbours="replace", ledger=ledger).fit(TABLE)


def tables_of_a_site(ledger: Any) -> Any:
    site = TableSynthesizer(SCHEMA, 0.5, 1e-6, neighbours="replace", ledger=ledger)
    return site.count_tables(TABLE)


def records_outside(ledger: Any) -> Any:
    return BOX.count_outside(X, 0.5, ledger=ledger)


def source_of_noisy_rows(ledger: Any) -> Any:
    return PrivateSource.fit(X, Y, NOISE, label_mechanism=LABELS, ledger=ledger)


def source_of_fabricated_rows(ledger: Any) -> Any:
    return PrivateSource.fit(X, Y, Fabricator(NOISE, 2), ledger=ledger)


def source_with_the_ledger_of_its_fabricator(ledger: Any) -> Any:
    return PrivateSource.fit(X, Y, Fabricator(NOISE, 2, ledger=ledger))


def local_model(ledger: Any) -> Any:
    return LocalModel(mechanism=NOISE, label_mechanism=LABELS, ledger=ledger).fit(X, Y)


def local_model_of_noisy_rows(ledger: Any) -> Any:
    return LocalModel(mechanism=NOISE, fabricate=False, ledger=ledger).fit(X, Y)


def local_private_classifier(ledger: Any) -> Any:
    return LocalModel(PrivateClassifier(mechanism=NOISE), ledger=ledger).fit(X, Y)


# What each release spends per record: epsilon, delta, and whether labels count.
RELEASES: dict[str, tuple[Callable[[Any], Any], float, float, str]] = {
    "fabricator": (fabricator, 2.0, 1e-6, "counted"),
    "noise alone": (noise_alone, 0.5, 1e-6, "not covered"),
    "moments": (moments, 0.5, 1e-6, "counted"),
    "moments of a site": (moments_of_a_site, 0.5, 1e-6, "counted"),
    "source of moments": (source_of_moments, 0.5, 1e-6, "counted"),
    "moment classifier": (moment_classifier, 0.5, 1e-6, "counted"),
    "moment fabricator": (moment_fabricator, 0.5, 1e-6, "counted"),
    "moment regressor": (moment_regressor, 0.5, 1e-6, "counted"),
    "regressor of a site": (regressor_of_a_site, 0.5, 1e-6, "counted"),
    "independent noise on rows": (iid_rows, 2.20706, 1e-5, "not covered"),
    "bounded noise on rows": (bounded_rows, 0.62992, 1e-5, "not covered"),
    "table": (table, 1.76006 + 1.5, 1e-5, "counted"),
    "synthetic table": (synthetic_table, 0.5, 1e-6, "counted"),
    "tables of a site": (tables_of_a_site, 0.5, 1e-6, "counted"),
    "records outside the domain": (records_outside, 0.5, 0.0, "counted"),
    "source of noisy rows": (source_of_noisy_rows, 2.0, 1e-6, "counted"),
    "source of fabricated rows": (source_of_fabricated_rows, 0.5, 1e-6, "not covered"),
    "ledger of a fabricator": (source_with_the_ledger_of_its_fabricator, 0.5, 1e-6, "not covered"),
    "local model": (local_model, 2.0, 1e-6, "counted"),
    "local model of noisy rows": (local_model_of_noisy_rows, 0.5, 1e-6, "not covered"),
    "local private classifier": (local_private_classifier, 0.5, 1e-6, "not covered"),
    "private classifier": (private_classifier, 0.5, 1e-6, "not covered"),
}
CASES = pytest.mark.parametrize(
    ("release", "epsilon", "delta", "labels"), RELEASES.values(), ids=list(RELEASES)
)


@CASES
def test_a_release_is_entered_once(
    release: Callable, epsilon: float, delta: float, labels: str, tmp_path: Path
) -> None:
    path = tmp_path / "ledger.db"
    Ledger(limit_epsilon=10.0).save(path)
    release(path)
    (event,) = Ledger.load(path).events
    assert (event.epsilon, event.delta) == (pytest.approx(epsilon, rel=1e-5), pytest.approx(delta))
    assert (event.count, event.labels) == (1, labels)


@CASES
def test_a_release_whose_noise_fails_is_entered_all_the_same(
    release: Callable, epsilon: float, delta: float, labels: str
) -> None:
    class NoNoise(Exception):
        pass

    ledger = Ledger()
    with drawing.recorded(drawing.Recording(), fail=NoNoise), pytest.raises(NoNoise):
        release(ledger)
    assert ledger.total("basic") == (pytest.approx(epsilon, rel=1e-5), pytest.approx(delta))


@CASES
def test_a_release_beyond_the_limit_draws_no_noise(
    release: Callable, epsilon: float, delta: float, labels: str
) -> None:
    ledger = Ledger(limit_epsilon=0.9 * epsilon, how="basic")
    with (
        drawing.recorded(drawing.Recording()) as recording,
        pytest.raises(BudgetExceededError, match="per record, the limit is"),
    ):
        release(ledger)
    assert (ledger.events, recording.draws) == ((), 0)


def test_void_releases_are_refused_with_a_ledger() -> None:
    looks = Fabricator(NOISE, 2, "documented", ledger=Ledger())
    with (
        pytest.warns(UserWarning, match="raw data"),
        pytest.raises(InvalidInputError, match=r"void guarantee .* looking at the raw data"),
    ):
        looks.fabricate(X)
    inexact = Fabricator(Laplace(1.0, sensitivity=1.0, sampler="float"), 2, ledger=Ledger())
    with pytest.raises(InvalidInputError, match=r"void guarantee .* float sampler"):
        inexact.fabricate(X)


def test_an_entry_of_encoded_rows_counts_like_a_record() -> None:
    """One raw entry may change all encoded ones."""
    per_entry = Laplace(0.5, sensitivity=Box(0.0, 1.0, 8))
    ledger = Ledger(unit="entry")
    PrivateSource.fit(X, Y, per_entry, encoder=RandomFeatures(8), ledger=ledger)
    assert ledger.total()[0] == pytest.approx(4.0)


def test_a_source_with_a_learned_encoder_is_refused_with_a_ledger() -> None:
    ledger = Ledger()
    for maker in (NOISE, Fabricator(NOISE, 2), PrivateMoments(1.0, classes=[0, 1])):
        with pytest.raises(InvalidInputError, match=r"void guarantee .* encoder was fitted to the raw data"):
            PrivateSource.fit(X, Y, maker, encoder=StandardScaler(), ledger=ledger)
    assert ledger.events == ()


def test_rows_added_to_a_private_model_are_a_release_of_their_own() -> None:
    ledger = Ledger(limit_epsilon=0.8)
    model = LocalModel(mechanism=NOISE, ledger=ledger).fit(X, Y)
    model.extend(X + 0.0, Y)
    assert [event.epsilon for event in ledger.events] == [0.5, 0.5]
    with pytest.raises(BudgetExceededError):
        model.extend(X, Y)
    assert len(model.row_numbers_) == 80


def test_a_model_in_given_batches_is_entered_only_on_the_word_that_they_are_public() -> None:
    ledger, batches = Ledger(), np.arange(40) // 20
    model = LocalModel(mechanism=NOISE, ledger=ledger)
    with pytest.raises(InvalidInputError, match=r"void guarantee .* division into batches was given"):
        model.fit(X, Y, batches=batches)
    model.fit(X, Y, batches=batches, batches_are_public=True)
    (event,) = ledger.events
    assert event.conditions == model.guarantee_.conditions
    assert "chosen without looking at the raw rows" in str(ledger)


def test_the_conditions_of_a_release_stay_with_its_event() -> None:
    ledger = Ledger()
    released = release_bounded(X, 1e-4, (-1e3, 1e3), sensitivity=BOX, ledger=ledger)
    assert ledger.events[0].conditions == released.guarantee.conditions != ()


class Brought(RandomFeatures):
    """An encoder of which only its owner knows what it was trained on."""

    trained = True


def test_what_moments_take_for_granted_stays_with_their_event() -> None:
    ledger = Ledger(neighbours="add-remove")
    brought = Brought(4)
    ranges = MomentRegressor(1.0, ledger=ledger, **RANGES).fit(X, X[:, 0])
    behind = MomentRegressor(1.0, encoder=brought, y_range=(0, 1), ledger=ledger).fit(X, X[:, 0])
    classes = MomentClassifier(1.0, encoder=brought, classes=[0, 1], ledger=ledger).fit(X, Y)
    agreed = PrivateMoments(1.0, classes=[0, 1], centre=None, ledger=ledger)
    site = PrivateMoments.from_bytes(release_moments(X, Y, agreed, brought))
    told = [made.guarantee_.conditions for made in (ranges, behind, classes, site)]
    assert [len(conditions) for conditions in told] == [1, 2, 1, 1]
    assert [event.conditions for event in ledger.events] == told
    assert behind.promise(4).conditions == behind.guarantee_.conditions


def test_moments_behind_a_learned_encoder_are_refused_with_a_ledger() -> None:
    ledger = Ledger()
    kinds: tuple[Any, ...] = (
        MomentClassifier(1.0, encoder=StandardScaler(), classes=[0, 1], ledger=ledger),
        MomentFabricator(1.0, encoder=StandardScaler(), classes=[0, 1], ledger=ledger),
        MomentRegressor(1.0, encoder=StandardScaler(), y_range=(0, 1), ledger=ledger),
    )
    for kind in kinds:
        with pytest.raises(InvalidInputError, match=r"void guarantee .* encoder was fitted to the raw data"):
            kind.fit(X, Y)
    assert ledger.events == ()


def test_moments_without_noise_are_refused_with_a_ledger() -> None:
    """A ledger beside a model of raw rows would say that nothing was spent."""
    ledger = Ledger()
    plain: tuple[Callable[[], Any], ...] = (
        lambda: MomentRegressor(None, ledger=ledger).fit(X, X[:, 0]),
        lambda: MomentRegressor(None, lift=None, ledger=ledger, **RANGES).site_moments(X, X[:, 0]),
        lambda: MomentClassifier(None, ledger=ledger).fit(X, Y),
        lambda: MomentFederation(**RANGES).release(X, X[:, 0], ledger=ledger),
        lambda: MomentFederation(classes=[0, 1]).release(X, Y, ledger=ledger),
    )
    for fit in plain:
        with pytest.raises(InvalidInputError, match="a ledger needs epsilon"):
            fit()
    assert ledger.events == ()


def test_a_seed_is_refused_with_a_ledger() -> None:
    seeded = (
        lambda ledger: LocalModel(mechanism=NOISE, random_state=0, ledger=ledger).fit(X, Y),
        lambda ledger: Fabricator(NOISE, 2, ledger=ledger).fabricate(X, random_state=0),
        lambda ledger: PrivateClassifier(mechanism=NOISE, random_state=0, ledger=ledger).fit(X, Y),
        lambda ledger: PrivateMoments(classes=[0, 1], random_state=0, ledger=ledger).fit(X, Y),
        lambda ledger: PrivateSource.fit(X, Y, NOISE, random_state=0, ledger=ledger),
        lambda ledger: PrivateSource.fit(X, Y, Fabricator(NOISE, 2), random_state=0, ledger=ledger),
        lambda ledger: BOX.count_outside(X, 0.5, random_state=0, ledger=ledger),
        lambda ledger: release_iid(X, 0.01, random_state=0, sensitivity=BOX, ledger=ledger),
        lambda ledger: MomentClassifier(classes=[0, 1], random_state=0, ledger=ledger).fit(X, Y),
        lambda ledger: TableSynthesizer(SCHEMA, random_state=0, ledger=ledger).fit(TABLE),
    )
    ledger = Ledger()
    for release in seeded:
        with pytest.raises(InvalidInputError, match=r"void guarantee .* drawn from a seed"):
            release(ledger)
    assert ledger.events == ()


@pytest.mark.parametrize(
    "release",
    [
        lambda inner, outer: LocalModel(
            PrivateClassifier(mechanism=NOISE, n_components=2, ledger=inner), ledger=outer
        ).fit(X, Y),
        lambda inner, outer: PrivateSource.fit(X, Y, Fabricator(NOISE, 2, ledger=inner), ledger=outer),
        lambda inner, outer: PrivateSource.fit(
            X, Y, PrivateMoments(0.5, classes=[0, 1], ledger=inner), ledger=outer
        ),
    ],
)
def test_ledgers_named_in_two_places_both_count_and_one_counts_once(release, tmp_path) -> None:
    inner, outer = Ledger(), Ledger()
    release(inner, outer)
    assert len(inner.events) == len(outer.events) == 1
    release(inner, inner)
    assert len(inner.events) == 2
    file = tmp_path / "ledger.db"
    Ledger().save(file)
    release(Ledger.load(file), (str(file), file))
    assert len(Ledger.load(file).events) == 1


def test_a_model_of_raw_rows_is_refused_with_a_ledger() -> None:
    with pytest.raises(InvalidInputError, match="ledger needs a mechanism"):
        LocalModel(ledger=Ledger()).fit(X, Y)


# --- nothing is left out -----------------------------------------------------------------------------------

PERSONS = np.arange(40) // 2
OF_PERSONS = AnalyticGaussian(0.5, 1e-6, BOX, unit="person", rows_per_person=1)
COLUMNS = {"age": 18.0 + 80.0 * X[:, 0], "weight": 100.0 * X[:, 1]}
NUMBERS = Schema([Field("a", low=0, high=1), Field("y", low=0, high=1, role="label")])


def site_folder() -> Any:
    pytest.importorskip("flwr")
    from onefold.federated.flower import Federation, Site

    folder = Path(tempfile.mkdtemp())
    Federation.create(folder, ["north"], insecure=True)
    return Site(folder / "sites" / "north")


def site_of_rows(ledger: Any) -> Any:
    return site_folder().fit(X, Y, mechanism=NOISE, ledger=ledger)


def site_of_moments(ledger: Any) -> Any:
    agreed = PrivateMoments(0.5, 1e-6, classes=[0, 1], centre=None)
    return site_folder().fit_moments(X, Y, agreed, ledger=ledger)


def site_of_numbers(ledger: Any) -> Any:
    from onefold.federated.number_sums import NumberRelease

    rows = {"a": X[:, 0].tolist(), "y": X[:, 1].tolist()}
    return site_folder().fit_numbers(rows, NumberRelease(NUMBERS, epsilon=0.5), ledger=ledger)


def encrypted_sum(ledger: Any) -> Any:
    pytest.importorskip("cryptography")
    keys = [HolderKey.new(name).public for name in "xyz"]
    parties = SumParties(("a", "b"), tuple(keys), 2)
    total = MomentSum("spring", parties, PrivateMoments(0.5, classes=[0, 1]), 3)
    vector = total.first_vector(X, Y)
    return total.first.contribute("a", vector, tempfile.mkdtemp(), ledger=ledger)


def table_of_persons(ledger: Any) -> Any:
    return release_table(COLUMNS, AGE_WEIGHT, 0.01, person=PERSONS, rows_per_person=1, ledger=ledger)


def rows_of_persons(ledger: Any) -> Any:
    return release_iid(X, 0.01, sensitivity=BOX, person=PERSONS, rows_per_person=1, ledger=ledger)


# Further ways to the same releases. Those of real sites charge the ledger of their folder as well.
MORE: dict[str, tuple[Callable[[Any], Any], int]] = {
    "laplace": (lambda ledger: Fabricator(Laplace(0.5, sensitivity=BOX), 2, ledger=ledger).fabricate(X), 1),
    "fabricator of persons": (
        lambda ledger: Fabricator(OF_PERSONS, 2, ledger=ledger).fabricate(X, person=PERSONS),
        1,
    ),
    "noise of persons": (
        lambda ledger: Fabricator(OF_PERSONS, 2, ledger=ledger).randomise(X, person=PERSONS),
        1,
    ),
    "classifier of persons": (
        lambda ledger: PrivateClassifier(mechanism=OF_PERSONS, n_components=2, ledger=ledger).fit(
            X, Y, person=PERSONS
        ),
        1,
    ),
    "model of persons": (
        lambda ledger: LocalModel(mechanism=OF_PERSONS, ledger=ledger).fit(X, Y, person=PERSONS),
        1,
    ),
    "source of persons": (
        lambda ledger: PrivateSource.fit(X, Y, OF_PERSONS, person=PERSONS, ledger=ledger),
        1,
    ),
    "moments of persons": (
        lambda ledger: PrivateMoments(classes=[0, 1], rows_per_person=1, ledger=ledger).fit(X, Y, PERSONS),
        1,
    ),
    "moments about a private whitening": (
        lambda ledger: PrivateMoments(0.5, classes=[0, 1], whitening="private", ledger=ledger).fit(X, Y),
        1,
    ),
    "synthetic table of persons": (
        lambda ledger: TableSynthesizer(SCHEMA, 0.5, rows_per_person=1, ledger=ledger).fit(TABLE, PERSONS),
        1,
    ),
    "model of a synthetic table": (
        lambda ledger: synthesizer.try_rows(MADE, SCHEMA, TABLE, TABLE, 0.5, ledger=ledger),
        1,
    ),
    "federation of moments": (
        lambda ledger: MomentFederation(classes=[0, 1], epsilon=0.5).release(X, Y, ledger=ledger),
        1,
    ),
    "rows of persons": (rows_of_persons, 1),
    "table of persons": (table_of_persons, 1),
    "encrypted sum": (encrypted_sum, 1),
    "site of rows": (site_of_rows, 2),
    "site of moments": (site_of_moments, 2),
    "site of numbers": (site_of_numbers, 2),
}
ALL = {name: (case[0], 1) for name, case in RELEASES.items()} | MORE

# Calls that draw and release nothing under a claim, by file and function.
NO_RELEASE = {
    "release/choosing.py": "simulated noise of a figure",
    "release/releases.py:release_utility_preserving": "its guarantee is void",
    "privacy/mechanisms/mechanism.py:Mechanism.sample": "noise without data, for whoever wants to look at it",
    "privacy/mechanisms/mechanism.py:Mechanism.randomise_pair": "a bare mechanism, which takes no ledger",
    "privacy/mechanisms/fisher.py:RowNoise.sample": "noise without data",
    "privacy/mechanisms/fisher.py:BoundedFisherNoise._draw": "float noise, whose guarantee is void",
    "privacy/mechanisms/fisher.py:RowNoise._added calls _draw": "float noise, whose guarantee is void",
    "fabrication/moments.py:MomentFabricator.sample_table": "rows of released moments",
    "privacy/moments/_rounds.py:MomentRounds.__init__": "a given centre, of no rows",
    "federated/secret/rounds.py:SumHolder.answer": "adds shares, and has the name of something that draws",
    "federated/secret/rounds.py:SumHolder.sign": "adds shares, and has the name of something that draws",
}
# Hand the file of the account on; tests/attacks/test_web_pages.py looks at what is in it.
HANDED_ON = {"serve/app.py:create_app", "serve/app.py:serve", "serve/tables.py:make"}
HANDED_ON |= {"serve/tables.py:account", "serve/tables.py:open_account"}
HANDED_ON |= {"privacy/contract.py:refuse_learned"}  # it charges a void guarantee, which is refused


@pytest.fixture(scope="module")
def everything() -> tuple[drawing.Recording, dict[str, drawing.Recording]]:
    """What all releases call on their way to a draw and to a charge, together and one by one."""
    drawing.calls_that_draw(drawing.source())  # reads the source once for all tests
    together, alone = drawing.Recording(), {}
    for name, (release, _) in ALL.items():
        ledger = Ledger(neighbours="replace")
        with drawing.recorded(drawing.Recording()) as recording, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release(ledger)
        alone[name] = recording
        together.called |= recording.called
        together.charging |= recording.charging
    return together, alone


def uncovered(files: Mapping[str, str], recording: drawing.Recording) -> list[str]:
    """Calls of the source that may draw and that no release makes."""
    return sorted(
        str(call)
        for call in drawing.calls_that_draw(files)
        if not recording.covers(call)
        and call.file not in NO_RELEASE
        and f"{call.file}:{call.function}" not in NO_RELEASE
        and str(call) not in NO_RELEASE
    )


def test_every_release_is_charged_once_before_it_draws(
    everything: tuple[drawing.Recording, dict[str, drawing.Recording]],
) -> None:
    for name, recording in everything[1].items():
        assert recording.draws > 0, name
        assert recording.charges == ALL[name][1], name
        assert recording.early_draws == 0, name


def test_every_call_that_draws_is_made_by_a_release_that_was_charged(
    everything: tuple[drawing.Recording, dict[str, drawing.Recording]],
) -> None:
    assert len(drawing.calls_that_draw(drawing.source())) > 50
    assert uncovered(drawing.source(), everything[0]) == []


def test_everything_that_takes_a_ledger_charges_it(
    everything: tuple[drawing.Recording, dict[str, drawing.Recording]],
) -> None:
    known = drawing.callables_with_a_ledger(drawing.source())
    assert len(known) > 20
    assert known - everything[0].charging - HANDED_ON == set()
    assert known >= HANDED_ON


FORGETFUL = {
    "a sampler": """
def release_median(rows, epsilon):
    return rows[0] + discrete_laplace(byte_stream(None), laplace_table(epsilon), 1)[0]
""",
    "a mechanism": """
class Medians:
    def fit(self, X, ledger=None):
        self.rows_ = self.mechanism.randomise(X)
""",
    "counts": """
def release_counts(layout, vector):
    return with_noise(layout, vector, (1.0, 1.0), None)
""",
    "noise without data": """
def release_rows(rows, mechanism):
    return rows + mechanism.sample(rows.shape)
""",
}


ROOMS = ("release", "privacy", "federated/flower")


@pytest.mark.parametrize(
    ("kind", "file"),
    later(
        [(kind, f"{room}/medians.py") for kind in FORGETFUL for room in ROOMS],
        lambda case: (list(FORGETFUL).index(case[0]) % 3, case[1].rpartition("/")[0]) in enumerate(ROOMS),
    ),
)
def test_a_new_release_without_a_case_is_found(
    everything: tuple[drawing.Recording, dict[str, drawing.Recording]], kind: str, file: str
) -> None:
    planted = {**drawing.source(), file: FORGETFUL[kind]}
    assert any(line.startswith(file) for line in uncovered(planted, everything[0]))
    if "ledger" in FORGETFUL[kind]:
        assert f"{file}:Medians.fit" in drawing.callables_with_a_ledger(planted) - everything[0].charging


def test_a_release_that_draws_first_or_charges_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = synthesizer.charge

    def twice(*given: Any) -> None:
        honest(*given)
        honest(*given)

    for planted, expected in ((twice, (2, False)), (lambda *_: None, (0, True))):
        monkeypatch.setattr(synthesizer, "charge", planted)
        with drawing.recorded(drawing.Recording()) as recording:
            synthetic_table(Ledger())
        assert (recording.charges, recording.early_draws > 0) == expected
