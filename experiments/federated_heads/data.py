"""The data of the comparison: rows as every method gets them, split and spread over sites by a seed.

Embeddings, image features and pixels are taken as they are stored; columns of tables are encoded by a
declared schema (ranges and categories are public). Nothing here depends on labels of test rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets as bundled
from sklearn.cluster import KMeans

from experiments.tables import data as tables
from onefold import datasets
from onefold.encoders import GradientHistograms
from onefold.exceptions import InvalidInputError
from onefold.tables import Schema

Floats = NDArray[np.float32]
Labels = NDArray[np.intp]
Rows = NDArray[np.intp]

# Small alpha: a site has few classes. With a hundred sites most would have one row of a class at 0.05.
ALPHA = {10: 0.05, 100: 0.1}
ROWS_PER_SITE = 4  # small sets have fewer sites than asked for


@dataclass(frozen=True)
class Source:
    """Rows, labels from 0; the last ``n_fixed`` rows are the official test set, ``groups`` are persons."""

    name: str
    kind: str  # "embedding", "pixels" or "table"
    X: Floats
    y: Labels
    n_fixed: int = 0
    groups: NDArray[np.generic] | None = None
    table: tables.Rows | None = None  # the cells before they were encoded
    schema: Schema | None = None

    def split(self, seed: int, most: int, most_test: int, validate: str | None = None) -> Task:
        """Training and test rows of one seed; ``validate`` splits the training rows instead.

        "rows" holds out some of them, "clusters" rows that are unlike those that are left.
        """
        rng = np.random.default_rng([seed, 15])
        train, test = self._two(np.arange(len(self.X)), rng)
        if validate == "clusters":
            train, test = self._clusters(np.sort(train[:most]), seed)
        elif validate == "rows":
            train, test = _random(train, 0.25, rng) if self.n_fixed else self._by_group(train, 0.3, rng)
        train, test = train[:most], test[:most_test]
        known = np.isin(self.y[test], self.y[train])  # nobody can name a class that no site has
        return Task(self, seed, np.sort(train), np.sort(test[known]))

    def _two(self, rows: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
        if self.n_fixed:
            train, test = rows[: -self.n_fixed], rows[-self.n_fixed :]
            # One order of the test rows for all seeds: the same test rows whatever the cap.
            return rng.permutation(train), np.random.default_rng(0).permutation(test)
        return self._by_group(rows, 0.4, rng)

    def _clusters(self, rows: Rows, seed: int) -> tuple[Rows, Rows]:
        """Hold out one of four clusters of each class that has eight rows or more, at most half of it."""
        rng, held = np.random.default_rng(seed), np.zeros(len(rows), dtype=bool)
        unit = self.X[rows] / np.maximum(np.linalg.norm(self.X[rows], axis=1, keepdims=True), 1e-12)
        for label in np.unique(self.y[rows]):
            own = np.flatnonzero(self.y[rows] == label)
            if len(own) < 8:
                continue
            clusters = KMeans(4, n_init=1, random_state=seed).fit_predict(unit[own])
            for cluster in rng.permutation(4):
                inside = clusters == cluster
                if 0 < inside.sum() <= len(own) / 2:
                    held[own[inside]] = True
                    break
        return rows[~held], rows[held]

    def _by_group(self, rows: Rows, share: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
        if self.groups is None:
            return _random(rows, share, rng)
        names = rng.permutation(np.unique(self.groups[rows]))
        held = np.isin(self.groups[rows], names[: round(share * len(names))])
        return rng.permutation(rows[~held]), rng.permutation(rows[held])


def _random(rows: Rows, share: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    order = rng.permutation(rows)
    cut = round(share * len(rows))
    return order[cut:], order[:cut]


@dataclass(frozen=True)
class Task:
    """One split: training rows that sites share out, and queries."""

    source: Source
    seed: int
    train: Rows
    test: Rows

    @property
    def X(self) -> Floats:
        """Training rows."""
        return self.source.X[self.train]

    @property
    def y(self) -> Labels:
        """Their labels, numbered from 0 without gaps."""
        return np.searchsorted(self.classes, self.source.y[self.train])

    @property
    def X_test(self) -> Floats:
        """Queries."""
        return self.source.X[self.test]

    @property
    def y_test(self) -> Labels:
        """Their labels."""
        return np.searchsorted(self.classes, self.source.y[self.test])

    @property
    def classes(self) -> Labels:
        """Classes of the training rows."""
        return np.unique(self.source.y[self.train])

    @property
    def groups(self) -> NDArray[np.generic] | None:
        """Whom each training row is of."""
        return None if self.source.groups is None else self.source.groups[self.train]

    def sites(self, n_sites: int) -> list[Rows]:
        """Numbers of training rows of every site: by person where rows have persons, else Dirichlet."""
        if self.groups is not None and n_sites >= len(np.unique(self.groups)):
            return [np.flatnonzero(self.groups == name) for name in np.unique(self.groups)]
        alpha = ALPHA.get(n_sites, 0.1)
        most = max(2, len(self.train) // ROWS_PER_SITE)
        n_sites = min(n_sites, most)
        return datasets.partition(self.y, n_sites, "dirichlet", alpha=alpha, random_state=self.seed)


def _file(name: str, folder: str | None) -> dict[str, NDArray[np.generic]]:
    return tables.read_file(name, folder)


def _fixed(name: str, kind: str, train: Sequence[NDArray], test: Sequence[NDArray]) -> Source:
    X = np.concatenate([train[0], test[0]]).astype(np.float32)
    y = np.concatenate([train[1], test[1]]).astype(np.intp)
    return Source(name, kind, X.reshape(len(X), -1), y, len(test[1]))


def newsgroups(folder: str | None) -> Source:
    """20 Newsgroups by date: 512 numbers of a sentence encoder."""
    f = _file("20newsgroups_use_multilingual", folder)
    return _fixed("20 Newsgroups", "embedding", (f["X_train"], f["y_train"]), (f["X_test"], f["y_test"]))


def german_news(folder: str | None) -> Source:
    """German news, ten very unequal classes, 512 numbers of a sentence encoder."""
    f = _file("xglue_nc_de_dev_use_multilingual", folder)
    return Source("XGLUE news, German", "embedding", f["X"].astype(np.float32), f["y"].astype(np.intp))


def cifar(folder: str | None) -> Source:
    """CIFAR-10: 1280 numbers of EfficientNet-Lite0."""
    f = _file("cifar10_effnetlite0", folder)
    scale = np.float32(f["scale"])
    train, test = ((f[f"X_{part}"] * scale, f[f"y_{part}"]) for part in ("train", "test"))
    return _fixed("CIFAR-10 features", "embedding", train, test)


def grocery(folder: str | None) -> Source:
    """Groceries, 81 classes: 1280 numbers of EfficientNet-Lite0."""
    f = _file("grocery_store_effnetlite0", folder)
    train = np.concatenate([f["X_train"], f["X_val"]]), np.concatenate([f["y_fine_train"], f["y_fine_val"]])
    return _fixed("grocery, 81 classes", "embedding", train, (f["X_test"], f["y_fine_test"]))


def _office(file: str, name: str, kind: str) -> Callable[[str | None], Source]:
    def read(folder: str | None) -> Source:
        f = _file(file, folder)
        domains = ("amazon", "caltech10", "dslr", "webcam")
        X, y = (np.concatenate([f[f"{part}_{domain}"] for domain in domains]) for part in ("X", "y"))
        return Source(name, kind, X.astype(np.float32), y.astype(np.intp))

    return read


def mnist(folder: str | None) -> Source:
    """Digits of 28 by 28 pixels."""
    f = _file("mnist", folder)
    train, test = ((f[f"X_{part}"] / np.float32(255), f[f"y_{part}"]) for part in ("train", "test"))
    return _fixed("MNIST pixels", "pixels", train, test)


def histograms(folder: str | None) -> Source:
    """The same digits as gradient histograms; only the first 20000 training rows are encoded."""
    f = _file("mnist", folder)
    encode = GradientHistograms((28, 28)).fit(f["X_train"][:1].reshape(1, -1) / np.float32(255)).transform
    flat = [f["X_train"][:20000], f["X_test"]]
    X, X_test = (encode(part.reshape(len(part), -1) / np.float32(255)) for part in flat)
    return _fixed("MNIST histograms", "embedding", (X, f["y_train"][:20000]), (X_test, f["y_test"]))


def usps(folder: str | None) -> Source:
    """Digits of 16 by 16 pixels."""
    f = _file("usps", folder)
    train, test = ((f[f"X_{part}"] / np.float32(1000), f[f"y_{part}"]) for part in ("train", "test"))
    return _fixed("USPS", "pixels", train, test)


def digits(_: str | None) -> Source:
    """Digits of 8 by 8 pixels, from scikit-learn."""
    found = bundled.load_digits()
    return Source(
        "digits 8 x 8", "pixels", (found.data / 16).astype(np.float32), found.target.astype(np.intp)
    )


def _encoded(table: tables.Rows, n_fixed: int = 0) -> Source:
    """Rows as a declared schema encodes them."""
    schema = tables.declared(table)
    X = schema.transform(table.columns).astype(np.float32)
    y = np.unique(table.y, return_inverse=True)[1].astype(np.intp)
    return Source(table.name, "table", X, y, n_fixed, table.groups, table, schema)


def _table(name: str) -> Callable[[str | None], Source]:
    # The test part of Adult's file comes last.
    return lambda folder: _encoded(tables.TABLES[name](folder), 16281 if name == "Adult" else 0)


def cognitive_load(folder: str | None) -> Source:
    """Wrist bands of 18 persons at rest or at work: mean and spread of four signals."""
    f = _file("cogload_rr", folder)
    columns = {
        f"{signal} {name}": each(f[f"{signal}_train"], axis=1)
        for signal in ("rr", "hr", "gsr", "temp")
        for name, each in (("mean", np.mean), ("spread", np.std))
    }
    columns["rr change"] = np.abs(np.diff(f["rr_train"], axis=1)).mean(axis=1)
    return _encoded(tables.Rows("cognitive load", columns | {"rest": f["y_train"]}, "rest", f["user_train"]))


SOURCES: dict[str, Callable[[str | None], Source]] = {
    "news": newsgroups,
    "german": german_news,
    "cifar": cifar,
    "grocery": grocery,
    "office": _office("office_caltech10_effnetlite0", "office, four domains", "embedding"),
    "surf": _office("office_caltech10_surf", "SURF counts", "embedding"),
    "mnist": mnist,
    "histograms": histograms,
    "usps": usps,
    "digits": digits,
    "adult": _table("Adult"),
    "lending": _table("Lending 07-10"),
    "openintro": _table("Lending openintro"),
    "wesad": _table("WESAD"),
    "cogload": cognitive_load,
    "wine": _table("wine"),
    "cancer": _table("cancer"),
}
BUNDLED = ("digits", "wine", "cancer")  # need no files


def read(name: str, folder: str | None) -> Source:
    """One of the sources, by its short name."""
    if name not in SOURCES:
        raise InvalidInputError(f"no data is called {name!r}: choose from {', '.join(SOURCES)}")
    if folder is not None and not Path(folder).is_dir():
        raise InvalidInputError("--data-dir must be a folder with the .npz files")
    return SOURCES[name](folder)
