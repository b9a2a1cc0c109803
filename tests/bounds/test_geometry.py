"""Document 000's bounds: values by hand, limits, and every query of real fits below them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from onefold import KAHM, DeepKAHM, WideKAHM, bounds
from onefold.exceptions import DataScaleWarning, InvalidInputError


def test_values_worked_out_by_hand() -> None:
    assert bounds.distance_ratio_bound(1.0, 5.0, 0.5) == pytest.approx(4.0)
    assert bounds.image_norm_bound(2.0, 1.0, 5.0, 0.5) == pytest.approx(8.0)
    # p = 3, N = 10, ||Y||_F = 5: 1 + 300/50
    assert bounds.loose_distance_ratio_bound(5.0, n_samples=10, n_features=3) == pytest.approx(7.0)
    assert bounds.loose_image_norm_bound(4.0, 5.0, n_samples=10, n_features=3) == pytest.approx(28.0)
    assert bounds.wide_distance_ratio_bound([5.0, 1.0], [10, 2], n_features=3) == pytest.approx(7.0)
    assert bounds.wide_distance_ratio_bound([5.0, 2.0], [10, 2], n_features=3) == pytest.approx(2.5)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda norm, n, p: 1 + p * n / (2 * norm**2),  # N not squared
        lambda norm, n, p: 1 + p * n**2 / (2 * norm),  # norm not squared
        lambda norm, n, p: 1 + n**2 / (2 * norm**2),  # p forgotten
        lambda norm, n, p: p * n**2 / (2 * norm**2),  # 1 forgotten
    ],
)
def test_the_values_by_hand_tell_plausible_errors_apart(wrong) -> None:
    assert wrong(5.0, 10, 3) != pytest.approx(7.0, rel=0.05)


def test_limits_of_the_ratio() -> None:
    assert bounds.distance_ratio_bound(1e12, 100.0, 0.0) == pytest.approx(1.0)
    assert bounds.distance_ratio_bound(1e-12, 100.0, 1.0) == pytest.approx(100.0)
    assert bounds.loose_distance_ratio_bound(1e9, 100, 10) == pytest.approx(1.0)
    assert np.all(np.diff(bounds.loose_distance_ratio_bound(10.0, [10, 20, 40], 5)) > 0)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("distance_ratio_bound", (0.0, 1.0, 0.0)),
        ("distance_ratio_bound", (math.nan, 1.0, 0.0)),
        ("distance_ratio_bound", (1.0, 1.0, 2.0)),
        ("distance_ratio_bound", (1.0, 1.0, -0.1)),
        ("image_norm_bound", (math.inf, 1.0, 1.0, 0.0)),
        ("loose_distance_ratio_bound", (0.0, 5, 2)),
        ("loose_distance_ratio_bound", (1.0, 2.5, 2)),
        ("loose_image_norm_bound", (3.0, 2.0, 5, 2)),
        ("wide_distance_ratio_bound", ([1.0, 2.0], [3], 2)),
        ("wide_distance_ratio_bound", ([], [], 2)),
        ("wide_distance_ratio_bound", ([1.0, math.nan], [3, 4], 2)),
    ],
)
def test_arguments_out_of_range_are_refused_in_one_line(name: str, arguments: tuple) -> None:
    with pytest.raises(InvalidInputError) as caught:
        getattr(bounds, name)(*arguments)
    assert "\n" not in str(caught.value)


@dataclass
class Literal:
    """000 Def. 1 with full matrices: what the bounds speak about, without any guard."""

    Y: np.ndarray
    P: np.ndarray
    scale: np.ndarray
    K: np.ndarray
    lambda_: float

    def memberships(self, X: np.ndarray) -> np.ndarray:
        G = _kernel(X @ self.P.T, self.Y @ self.P.T, self.scale)
        return np.linalg.solve(self.K + self.lambda_ * np.eye(len(self.Y)), G.T).T


def _kernel(A: np.ndarray, B: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.exp(-cdist(A / scale, B / scale, "sqeuclidean") / (2 * len(scale)))


def _literal(Y: np.ndarray, n: int) -> Literal:
    _, vectors = np.linalg.eigh(np.cov(Y.T))
    P = vectors[:, ::-1][:, :n].T
    scale = np.std(Y @ P.T, axis=0, ddof=1)
    K = _kernel(Y @ P.T, Y @ P.T, scale)
    tau, e = 2 * np.mean(Y**2), 0.5 * np.mean(Y**2)
    for _ in range(200):
        residual = np.linalg.solve(K + (e + tau) * np.eye(len(Y)), (e + tau) * Y)
        e = np.mean(residual**2)
    return Literal(Y, P, scale, K, e + tau)


def _tight(machine: Literal) -> float:
    spectrum = np.linalg.eigvalsh(machine.K)
    return float(bounds.distance_ratio_bound(machine.lambda_, spectrum[-1], max(spectrum[0], 0.0)))


def _spectral_norms(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """||[x - y_1 ... x - y_N]||_2 for every query."""
    return np.linalg.norm(X[:, None, :] - Y[None, :, :], ord=2, axis=(1, 2))


def _samples(scale: float, n_samples: int = 60, n_features: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    Y = scale * rng.normal(size=(n_samples, n_features))
    near = Y + 0.3 * scale * rng.normal(size=Y.shape)
    far = 20 * scale * rng.normal(size=Y.shape)
    return Y, np.vstack([Y, near, far])


@pytest.mark.parametrize("scale", [0.3, 1.0, 10.0])
def test_tight_and_loose_bounds_hold_for_the_literal_machine(scale: float) -> None:
    Y, X = _samples(scale)
    machine = _literal(Y, n=8)
    h = machine.memberships(X[:120])  # the far queries underflow in the literal formula
    images = h @ Y / h.sum(axis=1, keepdims=True)
    tight, loose = _tight(machine), bounds.loose_distance_ratio_bound(np.linalg.norm(Y), *Y.shape)
    assert 1.0 < tight < loose
    ratios = np.linalg.norm(X[:120] - images, axis=1) / _spectral_norms(X[:120], Y)
    assert np.max(ratios) < tight
    norm = np.linalg.norm(Y, 2)
    spectrum = np.linalg.eigvalsh(machine.K)
    largest = np.max(np.linalg.norm(images, axis=1))
    assert largest < bounds.image_norm_bound(norm, machine.lambda_, spectrum[-1], max(spectrum[0], 0.0))
    assert largest < bounds.loose_image_norm_bound(norm, np.linalg.norm(Y), *Y.shape)


def _query_with_vanishing_sum(machine: Literal, seed: int = 0) -> np.ndarray | None:
    """A query on the segment between one with a positive and one with a negative sum of memberships."""
    rng = np.random.default_rng(seed)
    p = machine.Y.shape[1]
    X = 0.05 * rng.normal(size=(20_000, p))  # five times as far out as the samples
    sums = machine.memberships(X).sum(axis=1)
    if not np.any(sums < 0):
        return None
    low, high = X[np.argmin(sums)], X[np.argmax(sums)]

    def total(t: float) -> float:
        return float(machine.memberships((low + t * (high - low))[None]).sum())

    t = brentq(total, 0.0, 1.0, xtol=1e-16, rtol=1e-15)
    return low + t * (high - low)


def _tiny() -> np.ndarray:
    return 0.01 * np.random.default_rng(0).normal(size=(100, 30))


def test_without_a_guard_the_image_bound_fails() -> None:
    """000 eq. 148 is wrong: where the sum of the memberships vanishes the image leaves every bound."""
    machine = _literal(_tiny(), n=20)
    x = _query_with_vanishing_sum(machine)
    assert x is not None
    h = machine.memberships(x[None])[0]
    image = h @ machine.Y / h.sum()
    norm = np.linalg.norm(machine.Y, 2)
    assert np.linalg.norm(image) > norm * _tight(machine)
    assert np.linalg.norm(image) > bounds.loose_image_norm_bound(
        norm, np.linalg.norm(machine.Y), *machine.Y.shape
    )


def test_the_guarded_machine_stays_below_the_bounds_at_that_very_query() -> None:
    Y = _tiny()
    x = _query_with_vanishing_sum(_literal(Y, n=20))
    assert x is not None
    with pytest.warns(DataScaleWarning):  # the scale of the data is the reason, and the machine says so
        machine = KAHM(n_components=20, regularisation="documented").fit(Y)
    around = x + np.vstack([np.zeros(30), 1e-9 * np.random.default_rng(1).normal(size=(200, 30))])
    bound = bounds.loose_image_norm_bound(np.linalg.norm(Y, 2), np.linalg.norm(Y), *Y.shape)
    assert np.all(np.linalg.norm(machine.transform(around), axis=1) < bound)
    ratios = machine.distance(around) / _spectral_norms(around, Y)
    assert np.all(ratios < bounds.loose_distance_ratio_bound(np.linalg.norm(Y), *Y.shape))
    assert np.all(ratios < bounds.distance_ratio_bound(machine.lambda_, len(Y), 0.0))


@pytest.mark.parametrize("scale", [0.3, 1.0, 10.0])
@pytest.mark.parametrize(
    "estimator",
    [
        KAHM(n_components=8, regularisation="documented"),
        DeepKAHM(n_components=8, n_layers=4, regularisation="documented"),
    ],
)
def test_every_query_of_a_fitted_machine_is_below_the_loose_bound(estimator, scale: float) -> None:
    Y, X = _samples(scale)
    machine = estimator.fit(Y)
    loose = bounds.loose_distance_ratio_bound(np.linalg.norm(Y), *Y.shape)
    assert np.all(machine.distance(X) / _spectral_norms(X, Y) < loose)
    norms = np.linalg.norm(machine.transform(X), axis=1)
    assert np.all(norms < bounds.loose_image_norm_bound(np.linalg.norm(Y, 2), np.linalg.norm(Y), *Y.shape))


def test_a_wide_machine_on_digits_is_below_its_bound() -> None:
    X = load_digits().data / 16.0
    train, queries = X[:600], np.vstack([X[600:700], 5.0 * X[700:720], -X[720:740]])
    machine = WideKAHM(
        n_components=10, n_layers=3, branch_size=150, partition="contiguous", regularisation="documented"
    ).fit(train)
    parts = np.split(train, 4)
    # These are the machine's branches: it is the nearest of deep machines fitted on them (000 eq. 167).
    nearest = np.min(
        [
            DeepKAHM(n_components=10, n_layers=3, regularisation="documented").fit(Y).distance(queries)
            for Y in parts
        ],
        axis=0,
    )
    np.testing.assert_allclose(machine.distance(queries), nearest, rtol=1e-6)
    bound = bounds.wide_distance_ratio_bound([np.linalg.norm(Y) for Y in parts], [150] * 4, n_features=64)
    over_all = np.sqrt(cdist(queries, train, "sqeuclidean").sum(axis=1))  # ||[x - y_1 ... x - y_N]||_F
    assert np.all(machine.distance(queries) / over_all < bound)
    # The sharper form of eq. 169 needs each branch's own norm.
    own = np.array([_spectral_norms(queries, Y) for Y in parts])
    factors = [bounds.loose_distance_ratio_bound(np.linalg.norm(Y), *Y.shape) for Y in parts]
    assert np.all(machine.distance(queries) < np.min(own * np.array(factors)[:, None], axis=0))
