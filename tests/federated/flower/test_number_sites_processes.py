"""Numbers to predict with real processes: sites send their moments once and go, the server predicts."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold import MomentRegressor
from onefold.federated import MomentFederation
from onefold.federated.flower.folders import SiteFolder
from onefold.federated.messages import PlainSums, PrivateSums, from_bytes
from onefold.federated.number_sums import NumberRelease
from onefold.tables import Field, Schema, read_table
from reference.site_files import sums_file

NAMES = ("north", "south", "west")
SCHEMA = Schema(
    (
        *(Field(name, low=0, high=100) for name in ("age", "pulse", "weight")),
        Field("cost", role="label", low=0, high=1000),
    )
)


def write(path: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = rng.uniform(0, 100, (n, 3)).round(1)
    cost = (200 + 4 * cells[:, 0] - 2 * cells[:, 1] + 20 * rng.standard_normal(n)).clip(0, 1000).round(2)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["age", "pulse", "weight", "cost"])
        rows.writerows([*row, one] for row, one in zip(cells, cost, strict=True))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("options", "epsilon"), [(("--epsilon", 2, "--unit", "record"), 2.0), (("--send-plain-sums",), None)]
)
def test_sites_send_moments_once_and_the_server_predicts_without_them(
    options: tuple[object, ...], epsilon: float | None, make_federation: Any, tmp_path: Path
) -> None:
    made = make_federation(tmp_path / "f")
    root = made.root
    for seed, name in enumerate(NAMES):
        write(root / f"{name}.csv", 600, seed)
    write(root / "test.csv", 300, 9)
    SCHEMA.save(root / "schema.json")
    asked = read_table(root / "test.csv", schema=SCHEMA)
    lift = NumberRelease(SCHEMA, epsilon).n_directions or None

    def query() -> dict[str, Any]:
        done = made.run("query", root / "test.csv", "--schema", root / "schema.json", "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def expected(*names: str) -> list[float]:
        together = MomentFederation(SCHEMA, lift=lift)
        for name in names:
            found = from_bytes(sums_file(SiteFolder(root / "sites" / name)).read_bytes())
            assert isinstance(found, PlainSums if epsilon is None else PrivateSums)
            together.add(name, found.content)
        return list(together.fitted(MomentRegressor).predict(asked).tolist())

    try:
        made.start("server")
        for name in NAMES:
            made.start(name, root / f"{name}.csv", "--schema", root / "schema.json", *options)
        made.wait_for_members(*NAMES)
        told = query()
        assert told["answered"] == list(NAMES)
        np.testing.assert_allclose(told["numbers"], expected(*NAMES), rtol=1e-9)
        assert told["measures"]["rmse"] < 0.6 * told["measures"]["rmse_of_the_mean"]
        assert made.run("remove", "south").returncode == 0
        np.testing.assert_allclose(query()["numbers"], expected("north", "west"), rtol=1e-9)
    finally:
        made.close()
    # Neither a site nor the server has to run: everything that may be known is in the server's folder.
    np.testing.assert_allclose(query()["numbers"], expected("north", "west"), rtol=1e-9)
