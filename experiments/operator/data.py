"""The documents' datasets as far as they are available, scaled as the document scales its own.

Embeddings times ten, image features through the hyperbolic tangent (004 Sec. 4.2). The encoders are others
than the document's, so trends can be compared and digits cannot.
"""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.random_projection import SparseRandomProjection

from onefold import datasets
from onefold.exceptions import FileFormatError, InvalidInputError

Floats = NDArray[np.float32]
Labels = NDArray[np.intp]

NEWS, IMAGES = "20newsgroups_use_multilingual", "cifar10_effnetlite0"
GERMAN = "xglue_nc_de_dev_use_multilingual"
GERMAN_TEXT = "xglue_nc_de_dev.json.gz"
EMBEDDING_FACTOR = np.float32(10.0)
HASHED_FEATURES = 768


@dataclass(frozen=True)
class Task:
    """Training and test rows, labels as numbers from 0."""

    name: str
    X: Floats
    y: Labels
    X_test: Floats
    y_test: Labels

    @property
    def classes(self) -> Labels:
        """All labels."""
        return np.arange(int(max(self.y.max(), self.y_test.max())) + 1)

    def first(self, n_train: int, n_test: int) -> Task:
        """Every so-many-th row, so that all classes stay."""
        train = np.linspace(0, len(self.X) - 1, min(n_train, len(self.X))).astype(np.intp)
        test = np.linspace(0, len(self.X_test) - 1, min(n_test, len(self.X_test))).astype(np.intp)
        return Task(self.name, self.X[train], self.y[train], self.X_test[test], self.y_test[test])


def newsgroups(data_dir: str | None, quick: bool = False) -> Task:
    """20 Newsgroups by date, 512 numbers of a multilingual sentence encoder each."""
    task = _scaled(NEWS, data_dir)
    return task.first(1500, 300) if quick else task


def images(data_dir: str | None, quick: bool = False) -> Task:
    """20000 of the CIFAR-10 training images, 1280 numbers of EfficientNet-Lite0 each, in [0, 1) by tanh."""
    found = datasets.load(IMAGES, data_dir, dtype=np.float32)
    task = Task(IMAGES, np.tanh(found.X_train), found.y_train, np.tanh(found.X_test), found.y_test)
    return task.first(1500, 200) if quick else task


def german_news(data_dir: str | None, embedding: str, seed: int) -> Task:
    """1000 German articles, a quarter of every class for testing; another division for every seed.

    ``embedding`` is "sentence" (512 numbers), "n-grams" (768 hashed counts of letter sequences) or "both".
    """
    sentence, y = _german_arrays(data_dir)
    parts = [sentence] if embedding in ("sentence", "both") else []
    if embedding in ("n-grams", "both"):
        parts.append(hashed_texts(data_dir, y.tobytes()))
    X = EMBEDDING_FACTOR * np.hstack(parts)
    X_train, y_train, X_test, y_test = datasets.train_test_split(X, y, random_state=seed)
    return Task(f"German news, {embedding}", X_train, y_train, X_test, y_test)


@cache
def hashed_texts(data_dir: str | None, expected: bytes) -> Floats:
    """Letter sequences of every article, hashed and projected at random: a public map that learns nothing."""
    path = _file(data_dir, GERMAN_TEXT)
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            found = json.load(file)
        texts = [f"{title}. {body}"[:1500] for title, body in zip(found["title"], found["body"], strict=True)]
        labels = np.asarray(found["y"], dtype=np.intp)
    except (OSError, ValueError, KeyError, TypeError):
        raise FileFormatError(f"{path.name} is not a readable file of articles") from None
    if labels.tobytes() != expected:
        raise FileFormatError(f"{GERMAN_TEXT} and {GERMAN}.npz do not belong together")
    counts = HashingVectorizer(n_features=2**16, analyzer="char_wb", ngram_range=(3, 5)).transform(texts)
    projection = SparseRandomProjection(HASHED_FEATURES, dense_output=True, random_state=0)
    return np.asarray(projection.fit_transform(counts), dtype=np.float32)


def _german_arrays(data_dir: str | None) -> tuple[Floats, Labels]:
    path = _file(data_dir, f"{GERMAN}.npz")
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["X"].astype(np.float32), arrays["y"].astype(np.intp)


def _file(data_dir: str | None, name: str) -> Path:
    folder = data_dir or os.environ.get("ONEFOLD_DATA")
    if not folder or not (Path(folder) / name).is_file():
        raise InvalidInputError(f"no {name} in the folder given by ONEFOLD_DATA or --data-dir")
    return Path(folder) / name


def _scaled(name: str, data_dir: str | None) -> Task:
    found = datasets.load(name, data_dir, dtype=np.float32)
    X, X_test = EMBEDDING_FACTOR * found.X_train, EMBEDDING_FACTOR * found.X_test
    return Task(name, X, found.y_train, X_test, found.y_test)
