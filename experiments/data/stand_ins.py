"""Small files of the same names and arrays as the real ones, for ``--quick`` without a folder of data.

Pictures, photographs and texts are scikit-learn's 8 x 8 digits in other clothes; tables and recordings are
generated with a fixed seed. They show that a script runs. No number measured on them means anything else.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from experiments.data import fingerprints
from experiments.data.encoders import CIFAR_CLASSES
from experiments.data.tables import DOMAINS

Arrays = dict[str, NDArray[Any]]
N_TRAIN = 1400
_PEOPLE, _LOANS = 900, 900


def write(folder: Path) -> None:
    """Every file that an experiment may ask for."""
    digits = load_digits()
    labels = digits.target.astype(np.uint8)
    rng = np.random.default_rng(0)
    files: dict[str, Arrays] = {
        **_pictures(digits.images, labels),
        **_features(digits.data, labels),
        "adult": _adult(rng),
        "wesad_features": _recordings(rng),
        "cogload_rr": _beats(rng),
        "lending_club_openintro": _loans("lending_club_openintro", "c_interest_rate", rng),
        "lending_club_2007_2010": _loans("lending_club_2007_2010", "c_credit.policy", rng),
    }
    for name, arrays in files.items():
        np.savez(folder / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    words = ["".join(chr(97 + int(value)) for value in row) for row in digits.data[:400]]
    articles = {"labels": [f"kind {k}" for k in range(10)], "y": labels[:400].tolist()}
    content = json.dumps({**articles, "title": words, "body": words}).encode()
    (folder / "xglue_nc_de_dev.json.gz").write_bytes(gzip.compress(content))


def _divided(X: NDArray[Any], y: NDArray[Any]) -> Arrays:
    return {"X_train": X[:N_TRAIN], "y_train": y[:N_TRAIN], "X_test": X[N_TRAIN:], "y_test": y[N_TRAIN:]}


def _pictures(images: NDArray[Any], labels: NDArray[Any]) -> dict[str, Arrays]:
    large = np.pad(np.kron(images, np.ones((3, 3))), ((0, 0), (2, 2), (2, 2)))
    large = (15 * large).astype(np.uint8)
    small = (125 * np.kron(images, np.ones((2, 2))) - 1000).astype(np.int16).reshape(-1, 256)
    return {
        "mnist": _divided(large, labels),
        "fashion_mnist": _divided(large[:, ::-1].copy(), labels),
        "usps": {**_divided(small, labels), "scale": np.array(1000, dtype=np.int32)},
    }


def _features(rows: NDArray[Any], labels: NDArray[Any]) -> dict[str, Arrays]:
    unit = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)
    ink = rows.sum(axis=1)
    # Twice as many classes: every digit once with little ink and once with much.
    heavy = ink > np.array([np.median(ink[labels == k]) for k in range(10)])[labels]
    twenty = (labels + 10 * heavy).astype(np.uint8)
    parts = {"train": slice(0, 1000), "val": slice(1000, 1100), "test": slice(1100, None)}
    grocery = {f"X_{part}": (rows[kept] / 16).astype(np.float16) for part, kept in parts.items()}
    for kind, y in (("fine", twenty), ("coarse", labels)):
        grocery |= {f"y_{kind}_{part}": y[kept] for part, kept in parts.items()}
    office: dict[str, Arrays] = {"office_caltech10_effnetlite0": {}, "office_caltech10_surf": {}}
    for place, domain in enumerate(DOMAINS):
        some = slice(place, None, len(DOMAINS))
        names = np.array([f"{domain}/{label}/{k}.jpg" for k, label in enumerate(labels[some])])
        pairs = {f"X_{domain}": (rows[some] / 16).astype(np.float16), f"y_{domain}": labels[some]}
        office["office_caltech10_effnetlite0"] |= {**pairs, f"file_{domain}": names}
        counts = {f"X_{domain}": rows[some].astype(np.uint16), f"y_{domain}": labels[some] + 1}
        office["office_caltech10_surf"] |= counts
    office["office_caltech10_effnetlite0"]["classes"] = np.array(CIFAR_CLASSES)
    return {
        "20newsgroups_use_multilingual": {**_divided(unit, twenty), "classes": np.arange(20).astype("U2")},
        "xglue_nc_de_dev_use_multilingual": {
            "X": unit[:400],
            "y": labels[:400],
            "labels": np.array(CIFAR_CLASSES),
        },
        "cifar10_effnetlite0": {
            **_divided((15 * rows).astype(np.uint8), labels),
            "scale": np.array(1 / 255, dtype=np.float32),
            "classes": np.array(CIFAR_CLASSES),
        },
        "grocery_store_effnetlite0": grocery,
        **office,
    }


_ADULT_NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (20_000, 1_000_000),
    "education_num": (1, 16),
    "capital_gain": (0, 20_000),
    "capital_loss": (0, 3_000),
    "hours_per_week": (1, 99),
}
_ADULT_CATEGORIES = (
    "workclass",
    "education",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native_country",
)


def _adult(rng: np.random.Generator) -> Arrays:
    found: Arrays = {"num_cols": np.array(list(_ADULT_NUMBERS)), "cat_cols": np.array(_ADULT_CATEGORIES)}
    found |= {f"levels_{name}": np.array(["?", "one", "three", "two"]) for name in _ADULT_CATEGORIES}
    for part, size in (("train", _PEOPLE), ("test", _PEOPLE // 3)):
        columns = [rng.integers(low, high + 1, size) for low, high in _ADULT_NUMBERS.values()]
        codes = rng.integers(0, 4, (size, len(_ADULT_CATEGORIES)))
        score = columns[2] / 16 + columns[0] / 90 + (codes[:, 3] == 1) + 0.3 * rng.normal(size=size)
        found[f"num_{part}"] = np.column_stack(columns).astype(np.int32)
        found[f"cat_{part}"] = codes.astype(np.uint8)
        found[f"y_{part}"] = (score > 1.4).astype(np.uint8)
    return found


_SIGNALS = (
    "net_acc",
    "EDA_phasic",
    "EDA_smna",
    "EDA_tonic",
    "BVP",
    "TEMP",
    "ACC_x",
    "ACC_y",
    "ACC_z",
    "Resp",
    "0",
)
_PERSON = (
    "age",
    "height",
    "weight",
    "coffee_today_YES",
    "sport_today_YES",
    "smoker_NO",
    "smoker_YES",
    "feel_ill_today_YES",
)


def _recordings(rng: np.random.Generator) -> Arrays:
    names = [f"{signal}_{what}" for signal in _SIGNALS for what in ("mean", "std", "min", "max")]
    names += ["BVP_peak_freq", "TEMP_slope", *_PERSON]
    persons = np.repeat(np.arange(2, 17), 40)
    y = rng.choice([0, 1, 2], len(persons), p=[0.2, 0.5, 0.3])
    X = np.exp(0.5 * rng.normal(size=(len(persons), len(names))) + 0.2 * y[:, None])
    X[:, [names.index(name) for name in names if name.endswith("_min")]] *= -100
    named = {"feature_names": np.array(names), "label_names": np.array(["amusement", "baseline", "stress"])}
    return {"X": X.astype(np.float32), "y": y.astype(np.uint8), "subject": persons.astype(np.uint8), **named}


def _beats(rng: np.random.Generator) -> Arrays:
    users = np.repeat([f"user{k:02d}" for k in range(18)], 30)
    y = rng.integers(0, 2, len(users))
    found: Arrays = {"y_train": y.astype(np.uint8), "user_train": users}
    for signal, level in (("rr", 0.8), ("hr", 75.0), ("gsr", 2.0), ("temp", 33.0)):
        for part, size in (("train", len(users)), ("test", 60)):
            shift = 0.05 * (y[:, None] if part == "train" else 0.5)
            values = level * (1 + shift + 0.08 * rng.normal(size=(size, 30)))
            found[f"{signal}_{part}"] = values.astype(np.float32)
    return found


def _loans(name: str, outcome: str, rng: np.random.Generator) -> Arrays:
    """Columns of the real file's names and types; the outcome follows from the first three of numbers."""
    found: Arrays = {}
    for key, known in fingerprints.stored()[name].items():
        if known["dtype"] == "text":
            found[key] = rng.choice(["car", "debt", "house"], _LOANS)
        elif key != "columns":
            level, spread = known["mean"], max(known["std"], 1e-6)
            values = np.abs(level + spread * rng.normal(size=_LOANS))
            found[key] = (
                np.rint(values).astype(np.int64) if known["dtype"] == "int64" else values.astype(np.float32)
            )
    numbers = [key for key in found if found[key].dtype.kind in "fi" and key != outcome][:3]
    score = sum((found[key] - found[key].mean()) / (found[key].std() + 1e-9) for key in numbers)
    score = score + 0.3 * rng.normal(size=_LOANS)
    is_rate = found[outcome].dtype.kind == "f"
    found[outcome] = (12 + 3 * score).astype(np.float32) if is_rate else (score > -0.5).astype(np.int64)
    found["columns"] = np.array([key.removeprefix("c_") for key in found if key != "columns"])
    return found
