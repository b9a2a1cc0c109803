"""Everything that onefold releases, under its own attacks and on the path that users take.

Nothing here is seeded: seeds would take the production path out of the audit. Each lower bound is wrong with
probability 0.01 by design and, where the loss of a release is as large as its claim, above the claim with one
of 0.0002; the other looks wait for six standard errors.
"""

import json
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.tiers import later

from attacks.release_targets import all_targets
from attacks.row_targets import mechanism_for
from attacks.targets import fit_moments, moment_target, privacy_targets
from onefold.audit.battery import AttackFinding, AttackTarget, attack
from onefold.exceptions import InvalidInputError

NAMES = [(name, place) for name, makers in all_targets().items() for place in range(len(makers))]
# Each release once in the fast tier, its targets (units, neighbours) in turn; all of them before a merge.
ONCE = [(name, turn % len(makers)) for turn, (name, makers) in enumerate(all_targets().items())]
FEWER, FEW, MANY = 500, 2000, pytest.param(200_000, marks=[pytest.mark.nightly, pytest.mark.timeout(7200)])
# An attack must be able to see what there is to be seen: more than half of these claims.
POWERFUL = ("Laplace", "OptimalNoise", "AnalyticGaussian", "RandomisedLabels")


def target(name: str, place: int = 0, epsilon: float = 1.0) -> AttackTarget:
    made: AttackTarget = all_targets(epsilon)[name][place]()
    return made


@pytest.mark.parametrize(("name", "place"), later(ONCE, ONCE[::2]))
def test_few_releases_contradict_no_claim(name: str, place: int) -> None:
    failed = [str(finding) for finding in attack(target(name, place), FEWER) if not finding.passed]
    assert failed == []


@pytest.mark.parametrize("n_releases", [pytest.param(FEW, marks=pytest.mark.merge), MANY])
@pytest.mark.parametrize(("name", "place"), NAMES, ids=str)
def test_no_attack_contradicts_the_claim_of_a_release(name: str, place: int, n_releases: int) -> None:
    failed = [str(finding) for finding in attack(target(name, place), n_releases) if not finding.passed]
    assert failed == []


@pytest.mark.parametrize("n_releases", [20_000, MANY])
@pytest.mark.parametrize("name", POWERFUL)
def test_attack_finds_more_than_half_of_what_is_claimed(name: str, n_releases: int) -> None:
    makers = privacy_targets()[name]
    if n_releases < 200_000:  # which it takes to see the tails of a Gaussian: a large delta lies further in
        makers = makers[-1:] if name == "AnalyticGaussian" else makers[:1]
    for make in makers:
        found = attack(make(), n_releases, 0.95, ["likelihood ratio"])[0]
        assert found.bound is not None
        assert found.bound > 0.5 * found.epsilon


@pytest.mark.parametrize(
    ("name", "place"),
    later(
        [("Laplace", 0), ("AnalyticGaussian", 3), ("RandomisedLabels", 0), ("PrivateMoments", 1)],
        [("RandomisedLabels", 0)],
    ),
)
def test_attack_on_two_equal_datasets_finds_nothing_in_95_of_100_runs(name: str, place: int) -> None:
    honest = target(name, place)
    releases = iter(honest.draw(0, 20_000).reshape(200, 100, -1))
    nothing = replace(honest, draw=lambda side, n: next(releases))
    found = [attack(nothing, 100, looks=["likelihood ratio"])[0] for _ in range(100)]
    assert sum(finding.bound == 0.0 for finding in found) >= 95


def test_claim_of_a_tenth_is_contradicted_by_every_powerful_attack() -> None:
    for name, place in (
        ("Laplace", 0),
        ("OptimalNoise", 0),
        ("AnalyticGaussian", 3),
        ("RandomisedLabels", 0),
    ):
        honest = target(name, place)
        found = attack(replace(honest, epsilon=0.1), 20_000, looks=["likelihood ratio"])[0]
        assert not found.passed


@pytest.mark.parametrize("unit", ["entry", "record", "person"])
@pytest.mark.parametrize("name", ["Laplace", "OptimalNoise", "AnalyticGaussian", "FisherGaussian"])
def test_float_sampler_gives_close_values_away_and_hardened_does_not(name: str, unit: str) -> None:
    place = ("entry", "record", "person").index(unit)
    maker = privacy_targets()[name][place]
    found = {
        sampler: attack(maker(sampler=sampler), FEW, looks=["low bits"])[0]
        for sampler in ("float", "hardened")
    }
    assert not found["float"].passed
    assert (found["float"].bound or 0.0) > 4.0
    assert found["hardened"].bound == 0.0
    assert not mechanism_for(name, unit, 1.0, sampler="float").guarantee(3).holds


def test_float_sampler_of_moments_gives_close_records_away() -> None:
    for sampler, caught in (("float", True), ("hardened", False)):
        fit = partial(fit_moments, sampler=sampler)
        aim = moment_target("PrivateMoments", "record", "add-remove", 1.0, fit)
        found = attack(aim, FEW, looks=["low bits"])[0]
        assert found.passed is not caught
        assert ((found.bound or 0.0) > 4.0) is caught


def test_battery_covers_every_mechanism_and_every_unit() -> None:
    from onefold import privacy
    from onefold.privacy import mechanisms

    made = all_targets()
    assert set(mechanisms.__all__) - {"Mechanism"} <= set(made)
    assert "PrivateMoments" in privacy.__all__
    for name in (
        "Laplace",
        "OptimalNoise",
        "Gaussian",
        "AnalyticGaussian",
        "FisherGaussian",
        "PrivateMoments",
    ):
        assert {make().unit for make in privacy_targets()[name]} == {"entry", "record", "person"}
    for name in ("Fabricator", "PrivateClassifier", "PrivateSource", "LocalModel", "release_iid"):
        assert {make().unit for make in made[name]} == {"entry", "record", "person"}
    for name in ("MomentClassifier", "MomentFabricator", "MomentFederation", "release_table"):
        assert {make().unit for make in made[name]} == {"record", "person"}


@pytest.mark.merge
def test_other_claims_are_attacked_as_stated() -> None:
    for epsilon in (0.3, 4.0):
        for name in ("Laplace", "AnalyticGaussian", "RandomisedLabels", "PrivateMoments"):
            aim = target(name, 1 if name != "RandomisedLabels" else 0, epsilon)
            assert aim.epsilon == pytest.approx(epsilon)
            assert all(finding.passed for finding in attack(aim, FEWER))


def test_findings_are_plain_values_and_one_line_each() -> None:
    found = attack(target("Laplace"), 64)
    assert [finding.check for finding in found] == [
        "likelihood ratio",
        "noise",
        "independence",
        "low bits",
        "schema",
    ]
    for finding in found:
        assert AttackFinding(**json.loads(json.dumps(asdict(finding)))) == finding
        assert "\n" not in str(finding)
        assert "Laplace" in str(finding)


def test_attack_refuses_too_few_releases() -> None:
    with pytest.raises(InvalidInputError, match="n_releases"):
        attack(target("Laplace"), 63)
    with pytest.raises(InvalidInputError, match="confidence"):
        attack(target("Laplace"), 64, confidence=1.0)


def test_releases_of_different_size_are_a_finding() -> None:
    def draw(side: int, n: int) -> Any:
        return np.random.default_rng().normal(size=(n, 1 + side))

    found = attack(AttackTarget("sizes", "record", 1.0, 1e-5, draw), 64)[0]
    assert not found.passed
    assert "different size" in found.words
