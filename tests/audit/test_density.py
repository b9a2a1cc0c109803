"""Density differences: against the literal version, and against normal densities."""

import numpy as np
import pytest

from onefold.audit import density_difference
from onefold.audit.density import _precedes
from onefold.exceptions import InvalidInputError
from reference import density_difference as literal

RNG = np.random.default_rng(11)
SMALL = RNG.normal(size=(23, 1)), RNG.normal(0.7, 1.2, size=(17, 1))
PLANE = RNG.normal(size=(14, 2)), RNG.normal([1.0, 0.0], size=(11, 2))


def pooled(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.concatenate([a, b])


# --- the literal version ----------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [SMALL, PLANE], ids=["line", "plane"])
@pytest.mark.parametrize("width, relative", [(0.3, 0.1), (1.0, 0.01), (2.0, 5.0)])
def test_fit_with_one_width_and_regularisation_matches_the_reference(
    samples, width: float, relative: float
) -> None:
    a, b = samples
    found = density_difference(a, b, widths=[width], regularisations=[relative])
    diagonal = (np.pi * width**2) ** (a.shape[1] / 2)
    theta, H, h = literal.fit(a, b, pooled(a, b), width, relative * diagonal)
    expected = literal.distances(theta, H, h)
    assert (found.l2, found.l2_linear, found.l2_quadratic) == pytest.approx(expected, rel=1e-9)
    assert (found.width, found.regularisation) == pytest.approx((width, relative))
    queries = np.random.default_rng(5).normal(size=(7, a.shape[1]))
    values = [literal.value(x, theta, pooled(a, b), width) for x in queries]
    np.testing.assert_allclose(found(queries), values, rtol=1e-8, atol=1e-12)


def test_cross_validation_chooses_as_the_reference() -> None:
    widths, ridges = [0.2, 0.5, 1.0, 1.7, 3.0], [0.001, 0.03, 1.0, 30.0]
    chosen = set()
    for seed in range(6):
        rng = np.random.default_rng(seed)
        a, b = rng.normal(size=(15, 1)), rng.normal(seed % 3, 1.0, size=(12, 1))
        found = density_difference(a, b, widths=widths, regularisations=ridges, n_folds=3)
        a, b = np.sort(a, axis=0), np.sort(b, axis=0)
        assert _precedes(b, a)  # the shorter sample takes the first seed
        seeds = np.random.SeedSequence(0).spawn(2)
        pairs = ((a, seeds[1]), (b, seeds[0]))
        folds = [np.random.default_rng(seed).permutation(len(rows)) % 3 for rows, seed in pairs]
        expected = literal.choose(a, b, pooled(a, b), widths, ridges, *folds)
        assert (found.width, found.regularisation) == pytest.approx(expected)
        chosen.add(expected)
    assert len(chosen) >= 3  # the data decide


# --- known densities --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean, sd", [(0.5, 1.0), (1.0, 1.0), (2.0, 1.0), (0.0, 2.0), (1.0, 0.5)])
def test_l2_of_two_normal_samples_is_near_the_true_value(mean: float, sd: float) -> None:
    rng = np.random.default_rng(3)
    found = density_difference(rng.normal(size=6000), rng.normal(mean, sd, size=4000)).l2
    assert found / literal.gaussian_l2(0, 1, mean, sd) == pytest.approx(1.0, abs=0.12)  # neither 1/2 nor 2


def test_l2_of_two_samples_of_one_density_is_near_zero() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        found = density_difference(rng.normal(size=6000), rng.normal(size=4000)).l2
        assert 0 <= found < 0.1 * literal.gaussian_l2(0, 1, 0.5, 1)


def test_l2_in_two_dimensions_is_near_the_true_value() -> None:
    rng = np.random.default_rng(4)
    shifted = rng.normal([1.0, 1.0], size=(3000, 2))
    true = (1 - np.exp(-2 / 4)) / (2 * np.pi)
    assert density_difference(rng.normal(size=(3000, 2)), shifted).l2 / true == pytest.approx(1.0, abs=0.2)


def test_calling_the_estimate_gives_the_difference_of_densities() -> None:
    rng = np.random.default_rng(5)
    found = density_difference(rng.normal(size=8000), rng.normal(1.5, 1.0, size=8000))
    x = np.linspace(-4, 6, 2001)
    true = (np.exp(-(x**2) / 2) - np.exp(-((x - 1.5) ** 2) / 2)) / np.sqrt(2 * np.pi)
    assert np.trapezoid((found(x) - true) ** 2, x) < 0.02 * np.trapezoid(true**2, x)
    wide = np.linspace(-15, 15, 60001)
    assert np.trapezoid(found(wide) ** 2, wide) == pytest.approx(found.l2_quadratic, rel=1e-6)


def test_combined_l2_is_nearer_to_the_truth_than_the_plain_estimates() -> None:
    # Strong regularisation shrinks the plain estimates; the combination undoes the first order of it.
    rng = np.random.default_rng(6)
    a, b = rng.normal(size=5000), rng.normal(1.0, 1.0, size=5000)
    found = density_difference(a, b, widths=[1.0], regularisations=[20.0])
    true = literal.gaussian_l2(0, 1, 1, 1)
    assert 0 < found.l2_quadratic < found.l2_linear < found.l2
    assert abs(found.l2 - true) < abs(found.l2_linear - true) < abs(found.l2_quadratic - true)


# --- what must not matter ---------------------------------------------------------------------------------

A, B = np.random.default_rng(7).gamma(3, size=900), np.random.default_rng(8).gamma(4, size=700)


def test_order_of_samples_and_repeated_calls_change_nothing() -> None:
    base = density_difference(A, B)
    assert density_difference(A, B).l2 == base.l2
    assert density_difference(A[::-1], np.random.default_rng(0).permutation(B)).l2 == base.l2
    assert density_difference(A[:, None], B[:, None]).l2 == base.l2


@pytest.mark.parametrize("size", [700, 900])
def test_exchanging_the_samples_changes_only_the_sign(size: int) -> None:
    there, back = density_difference(A[:size], B), density_difference(B, A[:size])
    assert back.l2 == pytest.approx(there.l2, rel=1e-12)
    x = np.linspace(0, 10, 50)
    np.testing.assert_allclose(back(x), -there(x), atol=1e-10)


@pytest.mark.parametrize("factor", [1e-150, 1e-3, 7.0, 1e150])
def test_unit_of_samples_scales_the_estimate_like_a_density(factor: float) -> None:
    base, scaled = density_difference(A, B), density_difference(factor * A, factor * B)
    assert scaled.l2 * factor == pytest.approx(base.l2, rel=1e-8)
    assert scaled.width == pytest.approx(base.width * factor, rel=1e-9)
    np.testing.assert_allclose(scaled(factor * A[:20]) * factor, base(A[:20]), rtol=1e-6, atol=1e-12)


def test_shift_of_both_samples_changes_nothing() -> None:
    assert density_difference(A + 1000, B + 1000).l2 == pytest.approx(density_difference(A, B).l2, rel=1e-6)


def test_equal_samples_have_l2_zero() -> None:
    assert density_difference(A, A).l2 == pytest.approx(0.0, abs=1e-20)
    assert density_difference(np.full(9, 5.0), np.full(30, 5.0)).l2 == pytest.approx(0.0, abs=1e-20)
    assert density_difference(np.full(9, 5.0), np.full(30, 7.0)).l2 > 0.1


def test_seed_changes_only_the_folds() -> None:
    values = {density_difference(A, B, random_state=seed).l2 for seed in range(8)}
    assert len(values) > 1
    assert max(values) < 1.5 * min(values)


def test_few_centres_give_nearly_the_l2_of_many() -> None:
    rng = np.random.default_rng(9)
    a, b = rng.normal(size=3000), rng.normal(1.0, 1.0, size=500)
    few, many = (density_difference(a, b, max_centres=count) for count in (60, 600))
    assert (len(few.centres), len(many.centres)) == (60, 600)
    assert few.l2 == pytest.approx(many.l2, rel=0.05)
    assert density_difference(a[:20], b[:30]).centres.shape == (50, 1)


@pytest.mark.parametrize(
    "arguments, options",
    [
        (([1.0, 2.0], A), {}),
        ((A, [np.nan] * 9), {}),
        ((A, [np.inf] * 9), {}),
        ((A, np.zeros((9, 2))), {}),
        ((A, np.zeros((9, 2, 2))), {}),
        ((A, ["one"] * 9), {}),
        ((A, B), {"n_folds": 1}),
        ((A, B), {"max_centres": 1}),
        ((A, B), {"widths": [0.0]}),
        ((A, B), {"regularisations": [-1.0]}),
        ((A, B), {"widths": []}),
    ],
)
def test_density_difference_refuses_bad_input_in_one_line(arguments, options) -> None:
    with pytest.raises(InvalidInputError) as caught:
        density_difference(*arguments, **options)
    assert "\n" not in str(caught.value)


def test_calling_the_estimate_checks_its_input() -> None:
    found = density_difference(A, B)
    assert found([]).shape == (0,)
    with pytest.raises(InvalidInputError, match="columns"):
        found(np.zeros((3, 2)))
