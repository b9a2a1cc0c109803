"""Encrypted sums: the accuracy of noise that sites share, beside one release and noise of their own."""

import os
import tempfile
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.data import QUICK, Sizes
from benchmarks.timing import Row
from onefold import datasets
from onefold.encoders import GradientHistograms
from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentClassifier
from onefold.federated import (
    EncryptedSum,
    HolderKey,
    MomentFederation,
    MomentSum,
    SumHolder,
    SumParties,
)
from onefold.privacy import PrivateMoments

EPSILONS = (1.0, 2.0, 4.0, 8.0)
N_TRAIN, N_SITES = 1400, 10


def rows(sizes: Sizes) -> list[Row]:
    """Accuracies on bundled digits, then on MNIST."""
    digits = accuracies(EPSILONS[:1] if sizes is QUICK else EPSILONS, 1 if sizes is QUICK else 10)
    return [*digits, *mnist(sizes)]


def accuracies(epsilons: tuple[float, ...], repeats: int) -> list[Row]:
    """Bundled digits, ten sites: shared noise, one release of all records, noise of each site's own."""
    X, y = load_digits(return_X_y=True)
    encoder = GradientHistograms(image_shape=(8, 8)).fit(X)
    rows_ = encoder.transform(X)
    found = []
    for epsilon in epsilons:
        scores: dict[str, list[float]] = {}
        for repeat in range(repeats):
            order = np.random.default_rng(repeat).permutation(len(rows_))
            train, test = order[:N_TRAIN], order[N_TRAIN:]
            for name, moments in _released(rows_, y, train, epsilon).items():
                score = MomentClassifier.from_moments(moments).score(rows_[test], y[test])
                scores.setdefault(name, []).append(score)
        mean = {name: float(np.mean(each)) for name, each in scores.items()}
        error = {
            f"{name}, standard error": float(np.std(each) / repeats**0.5) for name, each in scores.items()
        }
        title = f"digits, epsilon {epsilon:g} per record, {N_SITES} sites"
        found.append(Row(f"{title}: accuracy of shared noise", mean["shared"], None, mean | error))
    return found


def _released(X: Any, y: Any, train: Any, epsilon: float) -> dict[str, PrivateMoments]:
    options: dict[str, Any] = {"classes": range(10), "second_moments": "auto"}
    parts = np.array_split(train, N_SITES)
    found = {
        "shared": shared(X, y, parts, PrivateMoments(epsilon, **options), 1),
        "shared, 3 sites may fail": shared(X, y, parts, PrivateMoments(epsilon, **options), 3),
        "one release": PrivateMoments(epsilon, **options).fit(X[train], y[train]),
    }
    for kind in ("class", "pooled"):
        federation = MomentFederation(epsilon=epsilon, classes=range(10), second_moments=kind)
        for place, part in enumerate(parts):
            federation.add(str(place), federation.release(X[part], y[part]))
        found[f"own noise, {kind} moments"] = federation.moments()
    return found


def mnist(sizes: Sizes) -> list[Row]:
    """MNIST with gradient histograms, epsilon 1 per record, ten sites; nothing where the file is missing."""
    if sizes is QUICK:
        return []
    try:
        data = datasets.load("mnist", os.environ.get("ONEFOLD_DATA"), dtype=np.float32)
    except InvalidInputError:
        return []
    encoder = GradientHistograms((28, 28), margin=4).fit(data.X_train[:10])
    X, test = encoder.transform(data.X_train), encoder.transform(data.X_test)
    options: dict[str, Any] = {"classes": np.unique(data.y_train), "second_moments": "class"}
    # Sites that release by themselves need a centre that is known beforehand.
    public = np.full(X.shape[1], 0.7 / X.shape[1] ** 0.5)
    scores: dict[str, list[float]] = {}
    for repeat in range(3):
        parts = np.array_split(np.random.default_rng(repeat).permutation(len(X)), N_SITES)
        own = [PrivateMoments(1.0, centre=public, **options).fit(X[p], data.y_train[p]) for p in parts]
        found = {
            "shared": shared(X, data.y_train, parts, PrivateMoments(1.0, **options), 1),
            "shared, 3 sites may fail": shared(X, data.y_train, parts, PrivateMoments(1.0, **options), 3),
            "one release": PrivateMoments(1.0, **options).fit(X, data.y_train),
            "own noise": PrivateMoments.total(own),
        }
        for name, moments in found.items():
            model = MomentClassifier.from_moments(moments)
            scores.setdefault(name, []).append(float(model.score(test, data.y_test)))
    mean = {name: float(np.mean(each)) for name, each in scores.items()}
    title = f"MNIST, epsilon 1 per record, {N_SITES} sites"
    return [Row(f"{title}: accuracy of shared noise", mean["shared"], None, mean)]


def shared(X: Any, y: Any, parts: Any, moments: PrivateMoments, failing: int) -> PrivateMoments:
    """Both rounds of an encrypted sum of moments."""
    keys = [HolderKey.new(f"holder{i}") for i in range(3)]
    names = tuple(f"site{i}" for i in range(len(parts)))
    parties = SumParties(names, tuple(key.public for key in keys), 2, colluding_sites=failing)
    rounds = MomentSum("round", parties, moments, X.shape[1])

    def opened(total: EncryptedSum, vector: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            messages = [
                total.contribute(name, vector(X[part], y[part]), folder)
                for name, part in zip(names, parts, strict=True)
            ]
            return total.together(messages, [SumHolder(total, key, folder) for key in keys])

    later = rounds.proceed(opened(rounds.first, rounds.first_vector))
    return later.moments(opened(later.second, later.second_vector))
