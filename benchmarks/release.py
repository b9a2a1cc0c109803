"""The machine of 002 eq. 2 against LinearSVC, on the census rows where they can be found."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from benchmarks.data import Sizes
from benchmarks.timing import Row, best
from experiments.data import named
from onefold.exceptions import InvalidInputError
from onefold.release import RobustSVM

NAMES = {"hinge": "LinearSVC, hinge loss", "squared_hinge": "LinearSVC, its default"}


def census(quick: bool) -> tuple[np.ndarray, np.ndarray, str]:
    """All 48842 rows with columns in [0, 1], or a stand-in of the same shape."""
    try:
        data = named.load("adult")
        X, y = np.vstack([data.X_train, data.X_test]), np.concatenate([data.y_train, data.y_test])
        low, high = X.min(axis=0), X.max(axis=0)
        X, what = (X - low) / np.where(high > low, high - low, 1.0), "Adult rows"
    except InvalidInputError:
        rng = np.random.default_rng(0)
        X = (rng.random((48842, 108)) < 0.1) * rng.random((48842, 108))
        y = (X[:, :20].sum(axis=1) + 0.2 * rng.normal(size=len(X)) > 0.8).astype(int)
        what = "generated rows (no Adult found: set ONEFOLD_DATA)"
    return (X[:4000], y[:4000], what) if quick else (X, y, what)


def rows(sizes: Sizes) -> list[Row]:
    """Raw rows, and rows with noise, which leave no zeros for anybody to skip."""
    X, y, what = census(quick=sizes.small_rows < 10000)
    noisy = X + 0.3 * np.random.default_rng(0).normal(size=X.shape)
    found = []
    for kind, table in (("", X), ("noisy ", noisy)):
        svm = RobustSVM()
        ours = best(lambda svm=svm, table=table: svm.fit(table, y))  # type: ignore[misc]
        for loss, name in NAMES.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                peer = LinearSVC(loss=loss)
                theirs = best(lambda peer=peer, table=table: peer.fit(table, y))  # type: ignore[misc]
            details = {
                "seconds": ours,
                "peer_seconds": theirs,
                "kkt_residual": svm.kkt_residual_,
                "accuracy": float(svm.score(table, y)),
                "peer_accuracy": float(peer.score(table, y)),
                "peer_iterations": int(np.max(peer.n_iter_)),
            }
            title = f"RobustSVM, {len(X)} x {X.shape[1]} {kind}{what}: time / {name}"
            found.append(Row(title, ours / theirs, "<= 20", details))
    return found
