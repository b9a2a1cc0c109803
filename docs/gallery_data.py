"""What the pages of the gallery are drawn from: data of this machine or stand-ins, and stored results.

The documents' data are taken from the folder that the variable ``ONEFOLD_DATA`` names, if they are there. If
not, data that come with onefold take their place, and the page says so.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.data.named import load
from onefold.datasets import names

EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments"
GROCERIES = "grocery_store_effnetlite0"
BRIGHTEST = 3.0  # features of the network lie in [0, 6] by its construction; larger ones are clipped
SHOWN_GROCERIES = 10  # classes with the most photographs
SHOWN_DIGITS = 1500
NO_MNIST = "in the place of MNIST (ONEFOLD_DATA has no mnist.npz)."


@dataclass(frozen=True)
class Rows:
    """Training and test rows with entries in [0, 1], and the sentence that says what they are."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    said: str


def digits() -> Rows:
    """MNIST, fifteen hundred digits of each part; else the digits that scikit-learn brings along."""
    if "mnist" in names():
        data = load("mnist")
        train, test = (
            np.random.default_rng(0).permutation(len(y))[:SHOWN_DIGITS] for y in (data.y_train, data.y_test)
        )
        rows = data.X_train[train], data.y_train[train], data.X_test[test], data.y_test[test]
        return Rows(*rows, f"Data: MNIST, {SHOWN_DIGITS} training and as many test digits.")
    data = load("digits")
    said = f"Data: digits of 8 x 8 pixels from scikit-learn, {NO_MNIST}"
    return Rows(data.X_train, data.y_train, data.X_test, data.y_test, said)


def ones_of(digit: int, most: int = 1000) -> tuple[np.ndarray, str]:
    """Rows of one digit, and the sentence that says where they come from."""
    if "mnist" in names():
        data = load("mnist")
        chosen = data.X_train[data.y_train == digit][:most]
        return chosen, f"Data: the first {len(chosen)} training digits {digit} of MNIST."
    data = load("digits")
    chosen = data.X_train[data.y_train == digit]
    return chosen, (f"Data: {len(chosen)} digits {digit} of 8 x 8 pixels from scikit-learn, {NO_MNIST}")


def groceries() -> Rows:
    """Photographs of groceries through the features of a public network; else generated clouds."""
    if GROCERIES in names():
        data = load(GROCERIES)
        usual = np.argsort(-np.bincount(data.y_train))[:SHOWN_GROCERIES]
        train, test = np.isin(data.y_train, usual), np.isin(data.y_test, usual)
        X_train, X_test = (np.clip(X / BRIGHTEST, 0, 1) for X in (data.X_train[train], data.X_test[test]))
        said = (
            f"Data: {train.sum()} training and {test.sum()} test photographs of the Grocery Store dataset, "
            f"its {SHOWN_GROCERIES} largest classes, as features of EfficientNet-Lite0. The document has the "
            "Freiburg groceries and another network."
        )
        return Rows(X_train, data.y_train[train], X_test, data.y_test[test], said)
    data = load("blobs")
    X_train, X_test = (np.clip((X + 8) / 16, 0, 1) for X in (data.X_train, data.X_test))
    said = f"Data: four generated clouds, in the place of groceries (ONEFOLD_DATA has no {GROCERIES}.npz)."
    return Rows(X_train, data.y_train, X_test, data.y_test, said)


def stored(name: str) -> dict[str, float]:
    """Numbers that an experiment such as ``kahm/private`` measured at full size, by name."""
    return dict(json.loads((EXPERIMENTS / "results" / f"{name}.json").read_text())["values"])


def documented(document: str, item: str) -> dict[str, float]:
    """Numbers that a document prints in a table, by row, from the register of results."""
    items = tomllib.loads((EXPERIMENTS / "register" / f"{document}.toml").read_text())["item"]
    return {
        row["row"]: row["document"]
        for found in items
        if found["name"] == item
        for row in found["rows"]
        if "document" in row
    }
