"""What fits with noise spend is counted in the site's folder, and a second one must be asked for."""

from pathlib import Path

import numpy as np
import pytest

from onefold.exceptions import BudgetExceededError, InvalidInputError
from onefold.federated.flower.folders import SiteFolder
from onefold.privacy import AnalyticGaussian, Box, Ledger, RandomisedLabels
from reference.site_files import profile_bytes

pytest.importorskip("flwr")
pytestmark = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")

Y = np.arange(40) % 2
X = np.random.default_rng(0).random((40, 3)) * 0.4 + 0.5 * Y[:, None]
NOISE = AnalyticGaussian(0.5, 1e-6, Box(0.0, 1.0, 3), unit="record")
FLOAT = AnalyticGaussian(0.5, 1e-6, Box(0.0, 1.0, 3), unit="record", sampler="float")


@pytest.fixture
def site(tmp_path: Path):
    from onefold.federated.flower import Federation, Site

    Federation.create(tmp_path, ["north"], insecure=True)
    return Site(tmp_path / "sites" / "north")


def spent(folder: SiteFolder) -> list[float]:
    return [event.epsilon for event in Ledger.load(folder.ledger).events]


def test_the_first_fit_with_noise_makes_the_ledger_of_the_folder(site) -> None:
    site.fit(X, Y)
    assert not site.folder.ledger.exists()
    site.fit(X, Y, mechanism=NOISE, label_mechanism=RandomisedLabels(1.5, [0, 1]))
    assert spent(site.folder) == [pytest.approx(2.0)]
    assert Ledger.load(site.folder.ledger).limit_epsilon is None


def test_a_second_fit_with_noise_must_name_a_ledger(site, tmp_path: Path) -> None:
    site.fit(X, Y, mechanism=NOISE)
    before = profile_bytes(site.folder)
    with pytest.raises(
        InvalidInputError, match=r"has spent epsilon 0\.5 per record replaced, delta 1e-06.*ledger\.db"
    ):
        site.fit(X, Y, mechanism=NOISE)
    assert profile_bytes(site.folder) == before
    site.fit(X, Y)  # raw rows spend nothing
    site.fit(X, Y, mechanism=NOISE, ledger=site.folder.ledger)
    assert spent(site.folder) == [0.5, 0.5]
    site.fit(X, Y, mechanism=NOISE, ledger=Ledger.load(site.folder.ledger))
    assert spent(site.folder) == [0.5, 0.5, 0.5]


def test_a_first_fit_for_persons_makes_a_ledger_of_persons(site) -> None:
    noise = AnalyticGaussian(0.5, 1e-6, Box(0.0, 1.0, 3), unit="person", rows_per_person=2)
    site.fit(X, Y, mechanism=noise, person=np.arange(40) // 2)
    assert Ledger.load(site.folder.ledger).unit == "person"
    assert spent(site.folder) == [0.5]
    with pytest.raises(InvalidInputError, match="nothing per person: say whose rows they are"):
        site.fit(X, Y, mechanism=NOISE, ledger=site.folder.ledger)


def test_a_model_fitted_before_there_was_a_ledger_is_counted(site) -> None:
    site.fit(X, Y, mechanism=NOISE)
    site.folder.ledger.unlink()
    with pytest.raises(InvalidInputError, match=r"spent epsilon 0\.5 per record"):
        site.fit(X, Y, mechanism=NOISE)
    site.fit(X, Y, mechanism=NOISE, ledger=site.folder.ledger)
    assert [event.name for event in Ledger.load(site.folder.ledger).events] == [
        "model fitted before there was a ledger",
        "model of a site",
    ]


def test_another_ledger_counts_besides_that_of_the_folder(site, tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    Ledger(limit_epsilon=1.2, how="basic").save(path)
    for _ in range(2):
        site.fit(X, Y, mechanism=NOISE, ledger=path)
    with pytest.raises(BudgetExceededError, match=r"epsilon would be 1\.5 per record, the limit is 1\.2"):
        site.fit(X, Y, mechanism=NOISE, ledger=path)
    assert Ledger.load(path).total()[0] == pytest.approx(1.0)
    assert spent(site.folder) == [0.5, 0.5]


def test_a_limit_that_was_set_beforehand_holds(site) -> None:
    Ledger(limit_epsilon=0.6).save(site.folder.ledger)
    site.fit(X, Y, mechanism=NOISE)
    profile = profile_bytes(site.folder)
    with pytest.raises(BudgetExceededError):
        site.fit(X, Y, mechanism=NOISE, ledger=site.folder.ledger)
    assert profile_bytes(site.folder) == profile


def test_noise_without_a_guarantee_is_not_counted_and_refused_with_a_ledger(site) -> None:
    site.fit(X, Y, mechanism=FLOAT)
    assert not site.folder.ledger.exists()
    with pytest.raises(InvalidInputError, match=r"void guarantee .* float sampler"):
        site.fit(X, Y, mechanism=FLOAT, ledger=Ledger())


def test_a_fit_that_fails_after_the_entry_is_counted(site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no noise")

    monkeypatch.setattr(AnalyticGaussian, "_draw_steps", fail)
    with pytest.raises(RuntimeError):
        site.fit(X, Y, mechanism=NOISE)
    assert spent(site.folder) == [0.5]
