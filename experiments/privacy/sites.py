"""The README's federation commands, run for real: three sites on this machine with TLS and keys.

scikit-learn's breast cancer rows are divided among three sites of 133 rows and 170 new rows. The schema has
ranges and typical values rounded to one digit, which stand for what is known about such measurements without
looking at anybody's rows. Every line of the table is one federation with processes of its own, and one draw
of noise; the last columns are the mean and the spread of ``--draws`` more draws in one process.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer

from experiments import harness
from experiments.harness import Outcome, Table, note
from onefold.exceptions import FederationError
from onefold.federated import MomentFederation, release_moments
from onefold.federated.declared import declared_moments
from onefold.tables import Field, Schema, read_table

SITES = ("north", "south", "west")
ROWS = 133
WAYS = {
    "private moments, epsilon 1 per record": ("--epsilon", "1", "--unit", "record", "--sites", "3"),
    "private moments, epsilon 4 per record": ("--epsilon", "4", "--unit", "record", "--sites", "3"),
    "noise on rows, epsilon 1 per record": ("--epsilon", "1", "--unit", "record", "--method", "rows"),
    "no noise": (),
}
PATIENCE = 180.0


def write_tables(folder: Path) -> Schema:
    """Write a table for each site, one of new rows, and the schema that all of them share."""
    data = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in data.feature_names]
    order = np.random.default_rng(0).permutation(len(data.data))
    labels = np.where(data.target == 1, "benign", "malignant")
    for number, name in enumerate((*SITES, "new")):
        mine = order[ROWS * number : ROWS * (number + 1)] if name != "new" else order[ROWS * number :]
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*names, "diagnosis"])
            writer.writerows([*data.data[row], labels[row]] for row in mine)
    known = zip(names, 1.2 * data.data.max(axis=0), data.data.mean(axis=0), strict=True)
    fields = [
        Field(name, low=0.0, high=_one_digit(top), fill=_one_digit(usual)) for name, top, usual in known
    ]
    label = Field("diagnosis", "string", "label", levels=("benign", "malignant"))
    schema = Schema([*fields, label], rows_about=130)
    schema.save(folder / "schema.json")
    return schema


def _one_digit(value: float) -> float:
    return float(f"{value:.1g}")


def onefold(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One command of the README."""
    command = [sys.executable, "-m", "onefold", "federate", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def run(folder: Path, title: str, options: tuple[str, ...]) -> tuple[float, float, str]:
    """One federation with processes of its own: accuracy, accuracy without one site, and the forecast."""
    name = re.sub(r"\W+", "-", title)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = f"{name}/server"
    # No data owner sits here to approve the queries of those ways that ask the sites.
    _must(onefold(folder, "init", name, "--sites", *SITES, "--port", port, "--answer-anyone"))
    said = ""
    for site in SITES:
        fit = (
            "site",
            f"{site}.csv",
            "--folder",
            f"{name}/sites/{site}",
            "--schema",
            "schema.json",
            "--fit-only",
        )
        said = _must(onefold(folder, *fit, *options))
    started = [_start(folder, "server", "--folder", server)]
    try:
        started += [_start(folder, "site", "--folder", f"{name}/sites/{site}") for site in SITES]
        deadline = time.monotonic() + PATIENCE
        while sum(site["status"] == "member" and site["online"] for site in _status(folder, server)) < 3:
            if time.monotonic() > deadline:
                raise FederationError("the sites did not join in time")
            time.sleep(1.0)
        everyone = _accuracy(folder, server)
        _must(onefold(folder, "remove", "south", "--folder", server))
        two = _accuracy(folder, server)
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(60)
    forecast = re.search(r"expect about (\d+%)", said)
    return everyone, two, forecast[1] if forecast else ""


def _start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "onefold", "federate", *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _must(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode != 0:
        raise FederationError(done.stderr.strip())
    return done.stdout


def _status(folder: Path, server: str) -> list[dict[str, object]]:
    return list(json.loads(_must(onefold(folder, "status", "--folder", server, "--json")))["sites"])


def _accuracy(folder: Path, server: str) -> float:
    query = ("query", "new.csv", "--folder", server, "--schema", "schema.json", "--json")
    return float(json.loads(_must(onefold(folder, *query)))["accuracy"])


def draws(folder: Path, schema: Schema, epsilon: float, number: int) -> list[float]:
    """Accuracies of further draws of noise, in this process."""
    tables = [read_table(folder / f"{site}.csv", schema=schema) for site in SITES]
    new = read_table(folder / "new.csv", schema=schema)
    rows, truth = schema.transform(new), np.asarray(schema.labels(new)[0])
    found = []
    for _ in range(number):
        together = MomentFederation()
        for site, table in zip(SITES, tables, strict=True):
            agreed = declared_moments(epsilon, schema=schema)
            together.add(site, release_moments(table, None, agreed, schema=schema))
        classes, measures = together.answers(rows)
        found.append(float(np.mean(classes[measures.argmin(axis=1)] == truth)))
    return found


def experiment(args: argparse.Namespace) -> Outcome:
    """Run every way."""
    lines, values = [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        schema = write_tables(folder)
        for title, options in WAYS.items():
            everyone, two, forecast = (np.nan, np.nan, "") if args.quick else run(folder, title, options)
            more = draws(folder, schema, float(options[1]), args.draws) if "moments" in title else []
            spread = f"{np.mean(more):.3f} ± {np.std(more):.3f}" if more else ""
            lines.append((title, everyone, two, forecast, spread))
            if more:
                values[title] = float(np.mean(more))
            note(title)
    headers = ("three sites", "accuracy", "after one left", "forecast left", f"mean of {args.draws} draws")
    return Outcome(values, [Table("Breast cancer, 133 rows at each site, 170 new rows", headers, lines)])


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    options = harness.parser(__doc__)
    options.add_argument("--draws", type=int, default=50, help="further draws of noise (default: 50)")
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
