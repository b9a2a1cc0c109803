"""Sources and targets of 001 Tables 1-15: pixels, encoded digits, photographs; and how labels are hidden."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.data import named
from onefold.encoders import GradientHistograms

Rows = NDArray[Any]
MNIST = GradientHistograms((28, 28), margin=4)
USPS = GradientHistograms((16, 16))  # the same grid of cells on the images without MNIST's border
OFFICE = "office_caltech10_effnetlite0"
# 001 Sec. 5.2: labelled rows per class of a source; three per class of any target.
SOURCE_ROWS = {"amazon": 20, "caltech10": 8, "dslr": 8, "webcam": 8}
TARGET_LABELS = 3


@dataclass(frozen=True)
class Domain:
    """Rows to learn from and rows to be tested on."""

    X: Rows
    y: Rows
    X_test: Rows
    y_test: Rows


@cache
def digits(name: str, data_dir: str | None) -> Domain:
    """All pixels: MNIST in [0, 1], USPS in [-1, 1]."""
    data = named.load(name, data_dir, dtype=np.float32)
    y, y_test = (labels.astype(np.intp) for labels in (data.y_train, data.y_test))
    return Domain(data.X_train, y, data.X_test, y_test)


@cache
def encoded(name: str, data_dir: str | None) -> Domain:
    """Gradient histograms: 128 numbers for digits of either size."""
    pixels, encoder = digits(name, data_dir), MNIST if name == "mnist" else USPS
    encoder = encoder.fit(pixels.X[:1])
    return Domain(encoder.transform(pixels.X), pixels.y, encoder.transform(pixels.X_test), pixels.y_test)


@cache
def photographs(name: str, data_dir: str | None) -> tuple[Rows, Rows]:
    """Network features of a domain of Office and Caltech, rows of norm one."""
    data = named.load(f"{OFFICE}:{name}", data_dir, dtype=np.float64)
    X, y = np.vstack([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])
    return X / np.linalg.norm(X, axis=1, keepdims=True), y.astype(np.intp)


def part(domain: Domain, n_rows: int, n_test: int, seed: int) -> Domain:
    """A random part of a domain."""
    rng = np.random.default_rng([7, seed])
    rows = rng.permutation(len(domain.X))[:n_rows]
    test = rng.permutation(len(domain.X_test))[:n_test]
    return Domain(domain.X[rows], domain.y[rows], domain.X_test[test], domain.y_test[test])


def divided_test(domain: Domain, n_rows: int, n_test: int, seed: int) -> Domain:
    """001 Sec. 5.1: the target's rows and its test rows both come from MNIST's test part."""
    order = np.random.default_rng([8, seed]).permutation(len(domain.X_test))
    rows, test = order[:n_rows], order[-n_test:]
    X, y = domain.X_test, domain.y_test
    return Domain(X[rows], y[rows], X[test], y[test])


def with_few_labels(y: Rows, per_class: int, seed: int) -> Rows:
    """Labels with -1 for all but some random rows of each class."""
    rng = np.random.default_rng([9, seed])
    seen = np.full(len(y), -1, dtype=np.intp)
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        seen[rng.permutation(own)[:per_class]] = label
    return seen
