"""Files of numbers and tables: digits, loans, census rows, recordings, counts. Needs numpy and scipy only."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes in the format of MNIST's own files: sizes in the header, then the values."""
    content = path.read_bytes()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    n_sizes = content[3]
    sizes = np.frombuffer(content, ">u4", count=n_sizes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * n_sizes).reshape(sizes)


def mnist(folder: Path) -> Arrays:
    """The four original files, whatever the separators in their names."""
    found: Arrays = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        for what, key in (("images", "X"), ("labels", "y")):
            (path,) = sorted(folder.glob(f"{name}-{what}*ubyte*"))
            found[f"{key}_{part}"] = idx(path)
    return found


def usps(folder: Path) -> Arrays:
    """The zip-code files: a label and 256 values in [-1, 1] per line, stored as thousandths."""
    found: Arrays = {}
    for part in ("train", "test"):
        with gzip.open(folder / f"zip.{part}.gz", "rt") as file:
            rows = np.loadtxt(file)
        found[f"X_{part}"] = np.rint(1000 * rows[:, 1:]).astype(np.int16)
        found[f"y_{part}"] = rows[:, 0].astype(np.uint8)
    return {**found, "scale": np.array(1000, dtype=np.int32)}


_ADULT = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
)
_ADULT_NUMBERS = ("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week")


def adult(folder: Path) -> Arrays:
    """Numbers as they are, categories as codes; ``?`` is a category of its own."""
    parts = {
        part: _adult_rows(folder / f"adult.{end}") for part, end in (("train", "data"), ("test", "test"))
    }
    categories = [name for name in _ADULT[:-1] if name not in _ADULT_NUMBERS]
    found: Arrays = {"num_cols": np.array(_ADULT_NUMBERS), "cat_cols": np.array(categories)}
    levels = {
        name: np.unique(np.concatenate([rows[:, _ADULT.index(name)] for rows in parts.values()]))
        for name in categories
    }
    found |= {f"levels_{name}": values for name, values in levels.items()}
    for part, rows in parts.items():
        numbers = [rows[:, _ADULT.index(name)].astype(np.int32) for name in _ADULT_NUMBERS]
        codes = [np.searchsorted(levels[name], rows[:, _ADULT.index(name)]) for name in categories]
        found[f"num_{part}"] = np.column_stack(numbers)
        found[f"cat_{part}"] = np.column_stack(codes).astype(np.uint8)
        found[f"y_{part}"] = np.array([">50K" in cell for cell in rows[:, -1]], dtype=np.uint8)
    return found


def _adult_rows(path: Path) -> NDArray[np.str_]:
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split(",")] for line in lines]
    # Some copies begin with the names of the columns, UCI's test file with a remark.
    return np.array([row for row in rows if len(row) == len(_ADULT) and row[0].isdigit()])


def _columns(path: Path) -> Arrays:
    """Every column of a table with a header: whole numbers, numbers with gaps as NaN, or texts."""
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    found: Arrays = {"columns": np.array(header)}
    for name, cells in zip(header, zip(*rows, strict=True), strict=True):
        found[f"c_{name}"] = _column(cells)
    return found


def _column(cells: Sequence[str]) -> NDArray[Any]:
    try:
        return np.array([int(cell) for cell in cells], dtype=np.int64)
    except ValueError:
        pass
    gaps = ("", "NA")
    try:
        return np.array([np.nan if cell in gaps else float(cell) for cell in cells], dtype=np.float32)
    except ValueError:
        return np.array(["" if cell == "NA" else cell for cell in cells])


def lending_club_openintro(folder: Path) -> Arrays:
    """10000 loans, texts of at most 40 characters."""
    found = _columns(folder / "loans_full_schema.csv")
    return {**found, "c_emp_title": found["c_emp_title"].astype("<U40")}


def lending_club_2007_2010(folder: Path) -> Arrays:
    """9578 loans, names with dots."""
    return _columns(folder / "loan_data.csv")


_WESAD_LABELS = ("amusement", "baseline", "stress")


def wesad_features(folder: Path) -> Arrays:
    """Features of half minutes; the first column of the file is a row number."""
    table = _columns(folder / "m14_merged.csv")
    names = [str(name) for name in table["columns"] if name not in ("", "subject", "label")]
    return {
        "X": np.column_stack([_as_numbers(table[f"c_{name}"]) for name in names]),
        "y": table["c_label"].astype(np.uint8),
        "subject": table["c_subject"].astype(np.uint8),
        "feature_names": np.array(names),
        "label_names": np.array(_WESAD_LABELS),
    }


def _as_numbers(values: NDArray[Any]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = (values == "True" if values.dtype.kind == "U" else values).astype(np.float32)
    return found


def cogload_rr(folder: Path) -> Arrays:
    """Thirty values per signal and row; the training part has labels and persons."""
    found: Arrays = {}
    for part in ("train", "test"):
        for signal in ("rr", "hr", "gsr", "temp"):
            path = folder / part / f"{signal}_{part}.csv"
            found[f"{signal}_{part}"] = np.loadtxt(path, delimiter=",", dtype=np.float32)
    with (folder / "train" / "labels_train.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row and row[0].strip().isdigit()]
    found["y_train"] = np.array([int(row[0]) for row in rows], dtype=np.uint8)
    found["user_train"] = np.array([row[1].strip() for row in rows])
    return found


DOMAINS = ("amazon", "caltech10", "dslr", "webcam")


def office_caltech10_surf(folder: Path) -> Arrays:
    """Counts of 800 visual words, labels 1 to 10."""
    from scipy.io import loadmat

    found: Arrays = {}
    for domain in DOMAINS:
        (path,) = [path for path in folder.glob("*.mat") if path.stem.lower().startswith(domain[:6])]
        content = loadmat(str(path))
        features = next(content[name] for name in ("fts", "feas", "X") if name in content)
        labels = next(content[name] for name in ("labels", "label", "y", "Y") if name in content)
        found[f"X_{domain}"] = np.asarray(features).astype(np.uint16)
        found[f"y_{domain}"] = np.asarray(labels).ravel().astype(np.uint8)
    return found


MAKERS: dict[str, Callable[[Path], Arrays]] = {
    "mnist": mnist,
    "usps": usps,
    "adult": adult,
    "lending_club_openintro": lending_club_openintro,
    "lending_club_2007_2010": lending_club_2007_2010,
    "wesad_features": wesad_features,
    "cogload_rr": cogload_rr,
    "office_caltech10_surf": office_caltech10_surf,
}
