"""What a user could take instead: closed-form heads, sampled features and averaged gradients, in numpy.

Each peer gets the parts of all sites and returns a :class:`Fitted` head. Preparations, penalties and learning
rates are chosen on training rows that the sites hold out, never on queries: a fifth of the rows, or five such
folds where there are fewer than 500 rows. The closed forms are written out as their papers state them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture

from experiments.operator import gradient_heads

Array = NDArray[np.floating]
Labels = NDArray[np.intp]
Part = tuple[Array, Labels]

FLOAT_BYTES = 4  # what a careful implementation would send
PENALTIES = tuple(10.0 ** np.arange(-4.0, 2.1, 1.0 / 2))  # times the mean eigenvalue
FEW_ROWS = 500
N_FOURIER = 2000
MIXTURES = 5  # Gaussians per class and site, fewer where a class has few rows
LOGISTIC = (0.001, 0.01, 0.1, 1.0)
ROUNDS = 50


@dataclass(frozen=True)
class Fitted:
    """A head: scores of rows, bytes that a site sent and received, and what was chosen."""

    scores: Callable[[Array], Array]
    up: float  # mean over sites, all rounds
    rounds: int
    chosen: str

    def predict(self, X: Array) -> Labels:
        """Class with the largest score."""
        return np.asarray(self.scores(X).argmax(axis=1))


@dataclass(frozen=True)
class Preparation:
    """Columns before a head: x -> row / |row|, or (x - location) / scale."""

    kind: str
    location: Array | None = None
    scale: Array | None = None

    @classmethod
    def fit(cls, kind: str, parts: Sequence[Part]) -> Preparation:
        """Constants from additive sums of all sites."""
        if kind == "unit rows":
            return cls(kind)
        n = sum(len(y) for _, y in parts)
        mean = sum(X.sum(axis=0, dtype=np.float64) for X, _ in parts) / n
        spread = np.sqrt(sum(((X - mean) ** 2).sum(axis=0) for X, _ in parts) / n)
        constant = spread < 1e-6 * spread.max()
        return cls(kind, mean, np.where(constant, np.inf, spread) * np.sqrt(len(mean)))

    def __call__(self, X: Array) -> Array:
        if self.location is None:
            length = np.linalg.norm(X, axis=1, keepdims=True)
            return np.asarray(X / np.maximum(length, 1e-12), dtype=np.float64)
        return np.asarray((X - self.location) / self.scale, dtype=np.float64)

    @property
    def numbers(self) -> int:
        """What a site sends for it: two sums per column, or nothing."""
        return 0 if self.location is None else 2 * len(self.location)


PREPARATIONS = ("unit rows", "standardised")


@dataclass(frozen=True)
class Statistic:
    """Counts (C,), class sums (C, d) and the sum of outer products (d, d): all that ridge and LDA need."""

    counts: Array
    sums: Array
    gram: Array

    @classmethod
    def of(cls, X: Array, y: Labels, n_classes: int) -> Statistic:
        """The statistic of rows."""
        onehot = np.eye(n_classes)[y]
        return cls(onehot.sum(axis=0), onehot.T @ X, X.T @ X)

    def __add__(self, other: Statistic) -> Statistic:
        return Statistic(self.counts + other.counts, self.sums + other.sums, self.gram + other.gram)

    def __sub__(self, other: Statistic) -> Statistic:
        return Statistic(self.counts - other.counts, self.sums - other.sums, self.gram - other.gram)


Linear = tuple[Array, Array]  # weights (d, C) and offsets (C,)


def ridge(statistic: Statistic, penalty: float) -> Linear:
    """Least squares on one-hot labels with a free offset (AFL: analytic federated learning)."""
    n = statistic.counts.sum()
    mean = statistic.sums.sum(axis=0) / n
    covariance = statistic.gram / n - np.outer(mean, mean)
    right = (statistic.sums - np.outer(statistic.counts, mean)).T / n
    weights = _solve(covariance, penalty, right)
    return weights, statistic.counts / n - mean @ weights


def lda(statistic: Statistic, penalty: float) -> Linear:
    """Linear discriminant of class means and one covariance within classes (FedCGS)."""
    n = statistic.counts.sum()
    means = statistic.sums / np.maximum(statistic.counts, 1)[:, None]
    within = statistic.gram / n - (means.T * (statistic.counts / n)) @ means
    weights = _solve(within, penalty, means.T)
    with np.errstate(divide="ignore"):
        offsets = np.log(statistic.counts / n) - 0.5 * (means.T * weights).sum(axis=0)
    return weights, offsets


def _solve(matrix: Array, penalty: float, right: Array) -> Array:
    d = len(matrix)
    added = penalty * max(np.trace(matrix) / d, 1e-12)
    return np.asarray(cho_solve(cho_factor(matrix + added * np.eye(d), check_finite=False), right))


def held_out(n: int, seed: int) -> list[Labels]:
    """Row numbers of each fold that is held out."""
    folds = np.array_split(np.random.default_rng([seed, 5]).permutation(n), 5)
    return [np.sort(fold) for fold in (folds if n < FEW_ROWS else folds[:1])]


def closed_form(
    parts: Sequence[Part],
    n_classes: int,
    seed: int,
    rule: Callable[[Statistic, float], Linear],
    n_fourier: int = 0,
) -> Fitted:
    """Ridge or LDA from one summed statistic, of rows or of random Fourier features.

    The sum is the same however rows are spread, so it is computed from all rows at once.
    """
    X, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    best = (-1.0, "", 1.0)
    penalties = PENALTIES[::2] if n_fourier else PENALTIES  # the large systems take most of the time
    folds = held_out(len(y), seed)
    for kind in PREPARATIONS:
        prepared = fourier(Preparation.fit(kind, parts), X.shape[1], n_fourier)
        F, inside = _within(prepared(X))
        whole = Statistic.of(F, y, n_classes)
        right = np.zeros(len(penalties))
        for fold in folds:
            rest = whole - Statistic.of(F[fold], y[fold], n_classes)
            for place, penalty in enumerate(penalties):
                try:
                    weights, offsets = rule(rest, penalty * F.shape[1] / len(inside))
                except np.linalg.LinAlgError:  # no rows left of a dimension, and a penalty of nothing
                    continue
                right[place] += np.mean((F[fold] @ weights + offsets).argmax(axis=1) == y[fold])
        # The mean with both neighbours: a single lucky penalty does not win.
        smooth = np.convolve(np.pad(right, 1, mode="edge"), [0.25, 0.5, 0.25], mode="valid")
        place = int(smooth.argmax())
        if smooth[place] > best[0]:
            best = (float(smooth[place]), kind, penalties[place])
            final, total, basis = prepared, whole, inside
    d = len(basis)
    weights, offsets = rule(total, best[2] * basis.shape[1] / d)
    weights = basis @ weights
    numbers = n_classes * (d + 1) + d * (d + 1) // 2 + 2 * X.shape[1]
    chosen = f"{best[1]}, penalty {best[2]:.2g}"
    rounds = 1 if best[1] == "unit rows" else 2
    return Fitted(lambda Q: final(Q) @ weights + offsets, FLOAT_BYTES * numbers, rounds, chosen)


def _within(F: Array) -> tuple[Array, Array]:
    """Coordinates of rows in the space they span, and its basis: the same heads, faster if d is large."""
    n, d = F.shape
    basis = np.linalg.qr(F.T)[0] if n < d else np.eye(d)
    return (F @ basis if n < d else F), basis


def fourier(prepare: Callable[[Array], Array], n_columns: int, n_fourier: int) -> Callable[[Array], Array]:
    """Random Fourier features of a Gaussian kernel as wide as two typical rows are apart."""
    if n_fourier == 0:
        return prepare
    rng = np.random.default_rng(20)
    directions = rng.standard_normal((n_columns, n_fourier)) / np.sqrt(2.0)
    phases = rng.uniform(0.0, 2.0 * np.pi, n_fourier)
    return lambda X: np.sqrt(2.0 / n_fourier) * np.cos(prepare(X) @ directions + phases)


def sampled(
    parts: Sequence[Part], n_classes: int, seed: int, strength: float | None = None
) -> tuple[Fitted, float]:
    """FedPFT: sites send Gaussian mixtures of each class; the server trains a head on samples of them."""
    prepare = Preparation.fit("standardised", parts)
    widen = np.sqrt(parts[0][0].shape[1])  # columns of variance one, as logistic regression wants them
    rows = [(widen * prepare(X), y) for X, y in parts]
    if strength is None:
        kept, held = gradient_heads.hold_out(rows, seed)
        F, labels, _ = _samples(kept, seed)
        X, y = (np.concatenate(each) for each in zip(*held, strict=True))
        right = [np.mean(_logistic(F, labels, n_classes, each)(X).argmax(axis=1) == y) for each in LOGISTIC]
        strength = LOGISTIC[int(np.argmax(right))]
    F, labels, sent = _samples(rows, seed)
    head = _logistic(F, labels, n_classes, strength)
    up = FLOAT_BYTES * (sent / len(parts) + prepare.numbers)
    return Fitted(lambda Q: head(widen * prepare(Q)), up, 2, f"C {strength}"), strength


def _samples(parts: Sequence[Part], seed: int) -> tuple[Array, Labels, int]:
    """As many samples of each class of each site as it has rows, and how many numbers were sent."""
    drawn, labels, sent = [], [], 0
    for place, (X, y) in enumerate(parts):
        for label in np.unique(y):
            own = X[y == label]
            k = int(np.clip(len(own) // 10, 1, MIXTURES))
            drawn.append(_draw(own, k, np.random.default_rng([seed, place, int(label)])))
            labels.append(np.full(len(own), label))
            sent += k * (2 * own.shape[1] + 1) + 1
    return np.concatenate(drawn), np.concatenate(labels), sent


def _logistic(F: Array, y: Labels, n_classes: int, strength: float) -> Callable[[Array], Array]:
    model = LogisticRegression(C=strength, max_iter=100, tol=1e-3).fit(F, y)

    def scores(Q: Array) -> Array:
        out = np.full((len(Q), n_classes), -np.inf)
        given = model.decision_function(Q)
        out[:, model.classes_] = np.column_stack([-given, given]) if given.ndim == 1 else given
        return out

    return scores


def _draw(rows: Array, k: int, rng: np.random.Generator) -> Array:
    """As many rows as there are, from a mixture of k Gaussians with diagonal covariances."""
    if len(rows) < 2:
        return rows
    if k == 1:
        return rng.normal(rows.mean(axis=0), rows.std(axis=0) + 1e-6, rows.shape)
    seed = int(rng.integers(2**31))
    mixture = GaussianMixture(k, covariance_type="diag", max_iter=20, reg_covar=1e-4, random_state=seed)
    return np.asarray(mixture.fit(rows).sample(len(rows))[0])


def averaged(
    parts: Sequence[Part], n_classes: int, seed: int, training: gradient_heads.Training | None = None
) -> tuple[Fitted, gradient_heads.Training]:
    """FedAvg: a linear softmax head, every site in each of up to 50 rounds; steps chosen on held-out rows."""
    prepare = Preparation.fit("standardised", parts)
    factor = 10.0  # rows about ten long: what the learning rates of gradient_heads were made for
    clients = [((factor * prepare(X)).astype(np.float32), y) for X, y in parts]
    if training is None:
        start = gradient_heads.Training(rounds=ROUNDS, clients_per_round=len(parts))
        training = gradient_heads.choose(gradient_heads.averaging_candidates(start), clients, n_classes, seed)
        training = replace(training, rounds=max(training.rounds, 10))
    head = gradient_heads.train(clients, n_classes, training, seed)
    sent = training.rounds * head.n_bytes + FLOAT_BYTES * prepare.numbers
    chosen = f"rate {training.rate}, {training.local_epochs} local epochs, {training.rounds} rounds"

    def scores(Q: Array) -> Array:
        return gradient_heads.scores(head.parameters, (factor * prepare(Q)).astype(np.float32))

    return Fitted(scores, sent, training.rounds + 1, chosen), training


def boosting(parts: Sequence[Part], n_classes: int, seed: int) -> Fitted:
    """Gradient boosting with all rows in one place: what tables allow where rows may be pooled."""
    X, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    model = HistGradientBoostingClassifier(random_state=seed).fit(X, y)
    assert len(model.classes_) == n_classes
    size = X.nbytes / len(parts)
    return Fitted(lambda Q: model.predict_proba(Q), size, 1, "defaults")


CLOSED: dict[str, Callable[[Sequence[Part], int, int], Fitted]] = {
    "ridge (AFL)": lambda parts, n, seed: closed_form(parts, n, seed, ridge),
    "LDA (FedCGS)": lambda parts, n, seed: closed_form(parts, n, seed, lda),
    "random-feature ridge": lambda parts, n, seed: closed_form(parts, n, seed, ridge, N_FOURIER),
}
