"""Ordinary tables as columns of raw cells: from the data folder, from scikit-learn, and generated ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn import datasets as bundled

from onefold.exceptions import InvalidInputError
from onefold.tables import Schema

Columns = dict[str, np.ndarray]

# What is known of a loan when it is asked for; the interest rate is agreed upon afterwards.
LOAN_COLUMNS = [
    "emp_length",
    "homeownership",
    "annual_income",
    "verified_income",
    "debt_to_income",
    "delinq_2y",
    "months_since_last_delinq",
    "earliest_credit_line",
    "inquiries_last_12m",
    "total_credit_lines",
    "open_credit_lines",
    "total_credit_limit",
    "total_credit_utilized",
    "num_historical_failed_to_pay",
    "months_since_90d_late",
    "current_installment_accounts",
    "accounts_opened_24m",
    "months_since_last_credit_inquiry",
    "num_satisfactory_accounts",
    "num_active_debit_accounts",
    "total_debit_limit",
    "num_total_cc_accounts",
    "num_open_cc_accounts",
    "num_cc_carrying_balance",
    "num_mort_accounts",
    "account_never_delinq_percent",
    "public_record_bankrupt",
    "loan_purpose",
    "application_type",
    "loan_amount",
    "term",
]
QUESTIONNAIRE = 8  # the last columns of WESAD are about the person, not the moment


@dataclass(frozen=True)
class Rows:
    """A table: its columns, the name of the label, and whom each row is about where that is known."""

    name: str
    columns: Columns
    label: str
    groups: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.columns[self.label])

    @property
    def y(self) -> np.ndarray:
        """The labels."""
        return self.columns[self.label]

    def part(self, rows: np.ndarray) -> Columns:
        """Some of the rows."""
        return {name: values[rows] for name, values in self.columns.items()}


def read_file(name: str, folder: str | None) -> dict[str, np.ndarray]:
    """The arrays of a file in the data folder."""
    path = Path(folder or os.environ.get("ONEFOLD_DATA") or ".", f"{name}.npz")
    if not path.is_file():
        raise InvalidInputError(f"{path.name} not found: set ONEFOLD_DATA or --data-dir")
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def adult(folder: str | None) -> Rows:
    """Census rows with gaps; the training part of the file, then the test part."""
    found = read_file("adult", folder)
    columns: Columns = {}
    for place, name in enumerate(found["num_cols"].tolist()):
        columns[name] = np.concatenate([found["num_train"][:, place], found["num_test"][:, place]])
    for place, name in enumerate(found["cat_cols"].tolist()):
        codes = np.concatenate([found["cat_train"][:, place], found["cat_test"][:, place]])
        columns[name] = found[f"levels_{name}"][codes].astype(object)
    income = np.concatenate([found["y_train"], found["y_test"]])
    return Rows("Adult", columns | {"income": np.where(income == 1, ">50K", "<=50K")}, "income")


def lending(folder: str | None) -> Rows:
    """Loans of 2007 to 2010: does the credit policy accept them?"""
    found = read_file("lending_club_2007_2010", folder)
    return Rows("Lending 07-10", {key[2:]: found[key] for key in found if key[:2] == "c_"}, "credit.policy")


def openintro(folder: str | None) -> Rows:
    """Later loans, with gaps: is the interest rate above the median?"""
    found = read_file("lending_club_openintro", folder)
    rate = found["c_interest_rate"]
    columns = {name: found[f"c_{name}"] for name in LOAN_COLUMNS}
    dear = np.where(rate > np.median(rate), "dear", "cheap")
    return Rows("Lending openintro", columns | {"rate": dear}, "rate")


def wesad(folder: str | None) -> Rows:
    """Wrist bands of fifteen persons in raw units: amusement, baseline or stress."""
    found = read_file("wesad_features", folder)
    names = found["feature_names"].tolist()[:-QUESTIONNAIRE]
    columns = {name: found["X"][:, place] for place, name in enumerate(names)}
    return Rows("WESAD", columns | {"state": found["y"]}, "state", found["subject"])


def _bundled(name: str, load: Callable[..., object]) -> Callable[[str | None], Rows]:
    def read(_: str | None) -> Rows:
        found = load()
        names = [str(feature) for feature in found.feature_names]
        columns = {feature: found.data[:, place] for place, feature in enumerate(names)}
        target = found.target
        if len(np.unique(target)) > 20:
            target = (target > np.median(target)).astype(int)
        return Rows(name, columns | {"outcome": target}, "outcome")

    return read


def thresholds(_: str | None) -> Rows:
    """Generated: two rules on ranges of columns, six columns without meaning, one label in ten wrong."""
    rng = np.random.default_rng(1)
    X = np.round(rng.normal(50, 15, (3000, 8)), 1)
    town = rng.choice(["north", "south", "east"], 3000)
    y = ((X[:, 0] > 45) & (X[:, 1] < 60)) | ((town == "east") & (X[:, 2] > 55))
    y ^= rng.random(3000) < 0.1
    columns = {f"x{place}": X[:, place] for place in range(8)}
    return Rows("thresholds", columns | {"town": town, "outcome": np.where(y, "yes", "no")}, "outcome")


def circles(_: str | None) -> Rows:
    """Generated: a class inside a shell of another, in three columns of different units."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1500, 3))
    y = np.where((X**2).sum(axis=1) + 0.3 * rng.normal(size=1500) > 2.4, "outer", "inner")
    units = np.array([1.0, 1000.0, 0.01])
    columns = {name: X[:, place] * units[place] for place, name in enumerate(("a", "b", "c"))}
    return Rows("circles", columns | {"shell": y}, "shell")


def gaps(_: str | None) -> Rows:
    """Generated: skewed amounts, categories and one cell in six missing, more in the one class."""
    rng = np.random.default_rng(3)
    n = 2000
    amount, years = rng.lognormal(7, 1.2, n), rng.integers(0, 40, n).astype(float)
    kind = rng.choice(["car", "house", "boat", "other"], n, p=[0.5, 0.3, 0.1, 0.1]).astype(object)
    score = 0.8 * np.log(amount) - 0.06 * years + (kind == "boat") * 1.5 + rng.normal(size=n)
    hidden = rng.random(n) < 0.1 + 0.2 * (score > np.median(score))
    years[hidden], kind[rng.random(n) < 0.15] = np.nan, ""
    y = np.where(score > np.quantile(score, 0.7), "late", "paid")
    return Rows("gaps", {"amount": amount, "years": years, "kind": kind, "outcome": y}, "outcome")


TABLES: dict[str, Callable[[str | None], Rows]] = {
    "Adult": adult,
    "Lending 07-10": lending,
    "Lending openintro": openintro,
    "WESAD": wesad,
    "wine": _bundled("wine", bundled.load_wine),
    "cancer": _bundled("cancer", bundled.load_breast_cancer),
    "diabetes": _bundled("diabetes", bundled.load_diabetes),
    "iris": _bundled("iris", bundled.load_iris),
    "thresholds": thresholds,
    "circles": circles,
    "gaps": gaps,
}
GRANTED = "ranges and categories rounded from the rows, in place of published ones"
NEEDS_FILES = ("Adult", "Lending 07-10", "Lending openintro", "WESAD")


def declared(table: Rows) -> Schema:
    """A schema with ranges rounded outward to one digit.

    It stands for what an owner would declare from knowledge of the columns; here the rows themselves are
    the only source, so the experiment grants every method the same knowledge of ranges and categories.
    """
    schema = Schema.infer(table.columns, table.label).confirm(ground=GRANTED, by="experiments")
    about = 2 ** int(np.round(np.log2(len(table))))
    return Schema(schema.fields, missing_values=schema.missing_values, rows_about=about)
