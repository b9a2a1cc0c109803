"""One second moment for all classes: when it is released, how the budget is divided, and who may decide."""

import math
from typing import Any

import numpy as np
import pytest
from tests.tiers import thinned

from onefold.privacy import PrivateMoments
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.privacy.moments._denoise import POOLED_PARTS
from onefold.privacy.moments._release import SENSITIVITIES
from reference.clouds import cloud

RELATIONS = ("add-remove", "replace")


def release(n: int = 300, p: int = 20, epsilon: float = 1.0, **options: Any) -> PrivateMoments:
    X, y = cloud(n, p)
    return PrivateMoments(epsilon, classes=range(3), random_state=0, **options).fit(X, y)


def spent(moments: PrivateMoments, neighbours: str, centre_share: float) -> float:
    """Squared Gaussian privacy of all blocks, from the noise that was stated for them."""
    levels = (moments.count_noise_, moments.sum_noise_, moments.second_noise_)
    pairs = zip(SENSITIVITIES[neighbours][1:4], levels, strict=True)
    mu = mu_of(moments.epsilon, moments.delta)
    return sum(float((bound / level[0]) ** 2) for bound, level in pairs) + centre_share * mu**2


@pytest.mark.parametrize(
    ("neighbours", "centre", "n", "kind"),
    thinned(RELATIONS, ["private", None], [30, 3000], ["class", "pooled", "auto"]),
)
def test_blocks_of_every_division_cost_the_budget_together(
    kind: Any, n: int, centre: Any, neighbours: Any
) -> None:
    moments = release(n, second_moments=kind, centre=centre, neighbours=neighbours)
    share = 0.05 / 1.05 if centre else 0.0
    assert spent(moments, neighbours, share) == pytest.approx(mu_of(1.0, 1e-5) ** 2)


def test_auto_pools_where_the_noise_would_drown_the_moments_of_classes() -> None:
    few, many = release(60, second_moments="auto"), release(20_000, 3, second_moments="auto")
    assert few.is_pooled
    assert few.second_moments_.shape == (1, 20, 20)
    assert not many.is_pooled
    assert many.second_moments_.shape == (3, 3, 3)


def test_auto_has_the_bits_of_the_kind_it_chooses() -> None:
    for n, p, kind in ((60, 20, "pooled"), (20_000, 3, "class")):
        found, wanted = (release(n, p, second_moments=each) for each in ("auto", kind))
        for name in ("counts_", "centre_", "sums_", "second_moments_", "second_noise_"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_only_released_counts_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever the true counts are, the decision follows those with noise.
    for size, pooled in ((1e9, False), (3.0, True)):
        monkeypatch.setattr(
            "onefold.privacy.moments._release.Noise.to_counts",
            lambda self, counts, sigma, size=size: np.full(len(counts), size),
        )
        assert release(600, second_moments="auto").is_pooled is pooled


def test_counts_and_centre_have_the_same_noise_in_every_division() -> None:
    found = [release(n, second_moments=kind) for n in (60, 2000) for kind in ("class", "pooled", "auto")]  # type: ignore[arg-type]
    assert len({float(moments.count_noise_[0]) for moments in found}) == 1


def test_pooled_moment_gets_one_of_two_public_parts() -> None:
    for n, p, part in ((20_000, 3, POOLED_PARTS[0]), (60, 20, POOLED_PARTS[1])):
        moments = release(n, p, second_moments="pooled")
        squares = moments.second_noise_[0] ** -2, moments.sum_noise_[0] ** -2
        assert squares[0] / sum(squares) == pytest.approx(part)


def test_given_shares_are_kept_for_a_pooled_moment() -> None:
    moments = release(60, second_moments="auto", shares=(0.1, 0.2, 0.3, 0.4))
    assert moments.is_pooled
    assert moments.second_noise_[0] ** -2 / moments.sum_noise_[0] ** -2 == pytest.approx(4 / 3)


@pytest.mark.parametrize("n", [60, 2000])
def test_replaced_record_is_promised_what_holds_for_every_division(n: int) -> None:
    # The promise is made before the counts are drawn, so it may not depend on what they decide.
    promised = {kind: release(n, second_moments=kind).guarantee_.replaced for kind in ("class", "auto")}  # type: ignore[arg-type]
    mu, rest = mu_of(1.0, 1e-5), 0.98 / 1.05
    most = math.sqrt(4 * 0.05 / 1.05 + 2 * 0.02 / 1.05 + rest * (4 - 2 * POOLED_PARTS[1])) * mu
    assert promised["auto"] == pytest.approx((epsilon_of(most, 1e-5), 1e-5))
    assert promised["class"][0] < promised["auto"][0]  # type: ignore[index]


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_pooled_release_of_persons_survives_its_file(neighbours: Any) -> None:
    X, y = cloud(90, 20)
    person = np.arange(90) // 3
    options: dict[str, Any] = {"classes": range(3), "neighbours": neighbours, "rows_per_person": 2}
    moments = PrivateMoments(1.0, second_moments="auto", **options).fit(X, y, person)
    assert moments.is_pooled
    assert moments.guarantee_.person == (1.0, 1e-5)
    again = PrivateMoments.from_bytes(moments.to_bytes())
    np.testing.assert_array_equal(again.second_moments_, moments.second_moments_)
    for one, other in zip(again.linear_discriminant(), moments.linear_discriminant(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_linear_discriminant_of_class_moments_adds_them_up() -> None:
    X, y = cloud(2000)
    options: dict[str, Any] = {"classes": range(3), "centre": None}
    of_classes, of_all = (
        PrivateMoments(None, **options, second_moments=kind).fit(X, y).linear_discriminant()
        for kind in ("class", "pooled")
    )
    for one, other in zip(of_classes, of_all, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
