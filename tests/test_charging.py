"""Everything that releases is entered in a ledger: once, before any noise, and not beyond the limit."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import onefold
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
from onefold.federated import LocalModel, MomentFederation, release_moments
from onefold.privacy import (
    AnalyticGaussian,
    Box,
    Laplace,
    Ledger,
    PrivateMoments,
    RandomisedLabels,
    sensitivity,
)
from onefold.privacy.mechanisms.mechanism import Mechanism
from onefold.privacy.mechanisms.rows import RowNoise
from onefold.privacy.moments._release import Noise
from onefold.release import TableCodec, release_bounded, release_iid, release_table
from onefold.tables import Field, Schema
from onefold.transfer import PrivateSource

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


def table(ledger: Any) -> Any:
    columns = {"age": 18.0 + 80.0 * X[:, 0], "weight": 100.0 * X[:, 1]}
    codec = TableCodec(columns, {"age": (18, 98), "weight": (0, 100)})
    return release_table(columns, codec, 0.01, labels=Y, label_mechanism=LABELS, ledger=ledger)


SCHEMA = Schema([*(Field(name, low=0, high=1) for name in "abc"), Field("y", "boolean", role="label")])
TABLE = {**dict(zip("abc", X.T, strict=True)), "y": Y == 1}


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
    path = tmp_path / "ledger.json"
    Ledger(limit_epsilon=10.0).save(path)
    release(path)
    (event,) = Ledger.load(path).events
    assert (event.epsilon, event.delta) == (pytest.approx(epsilon, rel=1e-5), pytest.approx(delta))
    assert (event.count, event.labels) == (1, labels)


@CASES
def test_a_release_whose_noise_fails_is_entered_all_the_same(
    release: Callable, epsilon: float, delta: float, labels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoNoise(Exception):
        pass

    def fail(*_: object, **__: object) -> None:
        raise NoNoise

    for kind in SAMPLERS:
        monkeypatch.setattr(*kind, fail)
    ledger = Ledger()
    with pytest.raises(NoNoise):
        release(ledger)
    assert ledger.total("basic") == (pytest.approx(epsilon, rel=1e-5), pytest.approx(delta))


@CASES
def test_a_release_beyond_the_limit_draws_no_noise(
    release: Callable, epsilon: float, delta: float, labels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        pytest.fail("noise was drawn")

    for kind in SAMPLERS:
        monkeypatch.setattr(*kind, fail)
    ledger = Ledger(limit_epsilon=0.9 * epsilon, how="basic")
    with pytest.raises(BudgetExceededError, match="per record, the limit is"):
        release(ledger)
    assert ledger.events == ()


# Where noise is drawn.
SAMPLERS: list[tuple[Any, str]] = [
    (Mechanism, "_noisy"),
    (RowNoise, "_added"),
    (Noise, "to_counts"),
    (sensitivity, "discrete_laplace"),
    (synthesizer, "with_noise"),
    (RandomisedLabels, "randomise"),
]


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
    file = tmp_path / "ledger.json"
    Ledger().save(file)
    release(Ledger.load(file), (str(file), file))
    assert len(Ledger.load(file).events) == 1


def test_a_model_of_raw_rows_is_refused_with_a_ledger() -> None:
    with pytest.raises(InvalidInputError, match="ledger needs a mechanism"):
        LocalModel(ledger=Ledger()).fit(X, Y)


DRAWING = {
    "randomise",
    "randomise_checked",
    "fabricate_checked",
    "discrete_laplace",
    "to_counts",
    "with_noise",
}


# A share of the noise of a sum: nothing is released before the sum is opened.
NO_RELEASE = {"pair_tables.py"}


def test_every_module_that_adds_noise_charges_a_ledger() -> None:
    """A new release that forgets it fails here. Audits attack data of their own, and commands call others."""
    root = Path(onefold.__file__).parent
    drawing, forgotten = set(), []
    for path in root.rglob("*.py"):
        if path.relative_to(root).parts[0] in ("audit", "cli") or path.parent.name == "mechanisms":
            continue
        tree = ast.parse(path.read_text("utf-8"))
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called = {getattr(call, "attr", None) or getattr(call, "id", None) for call in calls}
        if called & DRAWING and path.name not in NO_RELEASE:
            drawing.add(path.parent.name)
            forgotten += [] if "charge" in called else [path.name]
    assert forgotten == []
    assert drawing == {"fabrication", "federated", "moments", "privacy", "release", "transfer"}
