"""Private moments with real processes: sites send them once and go, the server answers, one site leaves."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.federated import MomentFederation
from onefold.federated.flower.folders import SiteFolder
from onefold.federated.messages import PrivateSums, from_bytes
from onefold.privacy import Ledger
from onefold.tables import Field, Schema, read_table
from reference.site_files import sums_file

NAMES = ("north", "south", "west")
SCHEMA = Schema(
    (
        *(Field(name, low=0, high=100) for name in ("age", "pulse", "weight", "height")),
        Field("state", "string", "label", levels=("good", "fair", "bad")),
    ),
    rows_about=600,
)


def write(path: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    cells = 50 + 20 * np.array([[1, 0, -1, 0], [0, 1, 0, -1], [-1, -1, 1, 1]])[kind]
    cells = (cells + 10 * rng.standard_normal((n, 4))).clip(0, 100).round(1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "pulse", "weight", "height", "state"])
        writer.writerows([*row, ("good", "fair", "bad")[one]] for row, one in zip(cells, kind, strict=True))


def content(made: Any, name: str) -> bytes:
    found = from_bytes(sums_file(SiteFolder(made.root / "sites" / name)).read_bytes())
    assert isinstance(found, PrivateSums)
    return found.content


@pytest.mark.nightly
def test_sites_send_private_moments_once_and_the_server_answers_without_them(
    make_federation: Any, tmp_path: Path
) -> None:
    made = make_federation(tmp_path / "f")
    root = made.root
    for seed, name in enumerate(NAMES):
        write(root / f"{name}.csv", 600, seed)
    write(root / "test.csv", 300, 9)
    SCHEMA.save(root / "schema.json")
    asked = SCHEMA.transform(read_table(root / "test.csv", schema=SCHEMA))

    def query(*options: object) -> dict[str, Any]:
        done = made.run("query", root / "test.csv", "--schema", root / "schema.json", "--json", *options)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def expected(*names: str) -> list[str]:
        together = MomentFederation()
        for name in names:
            together.add(name, content(made, name))
        classes, measures = together.answers(asked)
        return list(classes[measures.argmin(axis=1)].tolist())

    try:
        made.start("server")
        noise = ("--epsilon", 1, "--unit", "record", "--sites", 3)
        for name in NAMES:
            made.start(name, root / f"{name}.csv", "--schema", root / "schema.json", *noise)
        made.wait_for_members(*NAMES)
        said = made.output("north")
        assert said.index("Forecast from declared numbers") < said.index("epsilon 1 per record")
        assert said.index("epsilon 1 per record") < said.index("connected")
        assert len(Ledger.load(SiteFolder(root / "sites/north").ledger).events) == 1
        told = query()
        assert told["answered"] == list(NAMES)
        assert told["labels"] == expected(*NAMES)
        assert told["accuracy"] > 0.8
        assert made.run("remove", "south").returncode == 0
        assert query()["labels"] == expected("north", "west")
    finally:
        made.close()
    # Neither a site nor the server has to run: everything that may be known is in the server's folder.
    assert query()["labels"] == expected("north", "west")
