"""Beside what people use: accuracy, fit and predict time, and peak memory, on the same MNIST digits."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from benchmarks.data import Sizes
from benchmarks.timing import Row, peak_above
from onefold import AutoencoderClassifier, WideKAHM, datasets

PEER, OURS = "sklearn.svm.SVC(C=10)", "AutoencoderClassifier(WideKAHM()), documented"


def models() -> dict[str, ClassifierMixin]:
    """The contestants; probing fewer branches is shown beside the exact evaluation."""
    return {
        PEER: SVC(C=10),
        "1-NN": KNeighborsClassifier(1),
        OURS: AutoencoderClassifier(WideKAHM(random_state=0, regularisation="documented")),
        "... n_probe=2": AutoencoderClassifier(
            WideKAHM(n_probe=2, random_state=0, regularisation="documented")
        ),
        "... n_probe=1": AutoencoderClassifier(
            WideKAHM(n_probe=1, random_state=0, regularisation="documented")
        ),
    }


def table(n_train: int) -> list[dict[str, Any]]:
    """One line per contestant; all of them get the same float32 pixels in [0, 1]."""
    mnist = datasets.load("mnist")
    train, test = (np.asarray(X, dtype=np.float32) for X in (mnist.X_train[:n_train], mnist.X_test))
    lines = []
    for name, model in models().items():
        _, fit_seconds, fit_peak = peak_above(lambda m=model: m.fit(train, mnist.y_train[:n_train]))
        predicted, seconds, peak = peak_above(lambda m=model: m.predict(test))
        lines.append(
            {
                "model": name,
                "n_train": n_train,
                "accuracy": float(np.mean(predicted == mnist.y_test)),
                "fit_seconds": fit_seconds,
                "predict_seconds": seconds,
                "fit_peak_mib": fit_peak / 2**20,
                "predict_peak_mib": peak / 2**20,
            }
        )
    return lines


def rows(sizes: Sizes) -> list[Row]:
    """Ratios of times against the support vector machine, with the whole table in the details."""
    found = []
    for n_train in sizes.peers:
        lines = table(n_train)
        peer, ours = (next(line for line in lines if line["model"] == name) for name in (PEER, OURS))
        errors = (1 - peer["accuracy"]) / (1 - ours["accuracy"])
        what = f"{n_train} MNIST digits, SVC / ours"
        found += [
            Row(f"errors on 10000 test digits, {what}", errors, ">= 1", {"table": lines}),
            Row(f"fit time, {what}", peer["fit_seconds"] / ours["fit_seconds"], ">= 1"),
            Row(f"predict time, {what}", peer["predict_seconds"] / ours["predict_seconds"], ">= 1"),
        ]
    return found
