"""Everything that releases is entered in a ledger: once, before any noise, and not beyond the limit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold.exceptions import BudgetExceededError, InvalidInputError
from onefold.fabrication import Fabricator, PrivateClassifier
from onefold.privacy import AnalyticGaussian, Box, Laplace, Ledger, RandomisedLabels
from onefold.privacy.mechanisms.mechanism import Mechanism

RNG = np.random.default_rng(0)
X = RNG.random((40, 3))
Y = np.arange(40) % 2
NOISE = AnalyticGaussian(0.5, 1e-6, Box(0.0, 1.0, 3), unit="record")
LABELS = RandomisedLabels(1.5, [0, 1])


def fabricator(ledger: Any) -> Any:
    return Fabricator(NOISE, 2, label_mechanism=LABELS, ledger=ledger).fabricate(X, Y)


def noise_alone(ledger: Any) -> Any:
    return Fabricator(NOISE, 2, ledger=ledger).randomise(X)


def private_classifier(ledger: Any) -> Any:
    return PrivateClassifier(mechanism=NOISE, n_components=2, ledger=ledger).fit(X, Y)


# What each release spends per record: epsilon, delta, and whether labels count.
RELEASES: dict[str, tuple[Callable[[Any], Any], float, float, str]] = {
    "fabricator": (fabricator, 2.0, 1e-6, "counted"),
    "noise alone": (noise_alone, 0.5, 1e-6, "not covered"),
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
    assert (event.epsilon, event.delta) == (pytest.approx(epsilon), pytest.approx(delta))
    assert (event.count, event.labels, event.conditions) == (1, labels, ())


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
    assert ledger.total() == (pytest.approx(epsilon), pytest.approx(delta))


@CASES
def test_a_release_beyond_the_limit_draws_no_noise(
    release: Callable, epsilon: float, delta: float, labels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        pytest.fail("noise was drawn")

    for kind in SAMPLERS:
        monkeypatch.setattr(*kind, fail)
    ledger = Ledger(limit_epsilon=0.9 * epsilon)
    with pytest.raises(BudgetExceededError, match="per record, the limit is"):
        release(ledger)
    assert ledger.events == ()


# Where noise is drawn.
SAMPLERS: list[tuple[Any, str]] = [(Mechanism, "_noisy"), (RandomisedLabels, "randomise")]


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
