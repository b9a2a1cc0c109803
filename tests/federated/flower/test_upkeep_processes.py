"""A site of a running federation is fitted anew, forgets a person and moves to another folder."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.federated.flower import Site
from onefold.tables import Field, Schema
from reference.site_files import model_file, sums_file

NAMES = ("north", "south", "west")
COLUMNS = ("age", "pulse", "weight", "height")
SCHEMA = Schema(
    (
        Field("patient", "string", "person"),
        *(Field(name, low=0, high=100) for name in COLUMNS),
        Field("state", "string", "label", levels=("good", "fair", "bad")),
    ),
    rows_per_person=2,
)


def write(path: Path, n: int, seed: int, without: str | None = None) -> Path:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    cells = 50 + 20 * np.array([[1, 0, -1, 0], [0, 1, 0, -1], [-1, -1, 1, 1]])[kind]
    cells = (cells + 10 * rng.standard_normal((n, 4))).clip(0, 100).round(1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["patient", *COLUMNS, "state"])
        for place, (row, one) in enumerate(zip(cells, kind, strict=True)):
            if f"{seed}-{place // 2}" != without:
                writer.writerow([f"{seed}-{place // 2}", *row, ("good", "fair", "bad")[one]])
    return path


@pytest.mark.nightly
def test_running_site_is_fitted_anew_and_moved_and_the_server_follows(
    make_federation: Callable[..., Any], wait_for: Callable[..., None], tmp_path: Path
) -> None:
    made = make_federation(tmp_path / "f")
    root = made.root
    SCHEMA.save(root / "schema.json")
    write(root / "test.csv", 60, 9)
    options = ("--schema", root / "schema.json", "--send-plain-sums")

    def query() -> dict[str, Any]:
        asked = ("query", root / "test.csv", "--schema", root / "schema.json", "--json")
        done = made.run(*asked)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def at(name: str, part: str, *words: object) -> None:
        done = made.run("site", part, *words, "--folder", made.site(name).root, "--yes", folder=False)
        assert done.returncode == 0, done.stderr

    def the_server_follows(name: str) -> bool:
        """The server knows the new fit, has its sums and no others."""
        site = Site(made.site(name).root)
        known = made.registry.members.get(name)
        sums = made.server.sums_of(name)
        if known is None or known.profile is None or name not in made.online():
            return False
        if known.profile.to_bytes() != site.profile.to_bytes():
            return False
        return bool(sums.exists() and sums.read_bytes() == sums_file(site.folder).read_bytes())

    try:
        made.start("server")
        for seed, name in enumerate(NAMES):
            made.start(name, write(root / f"{name}.csv", 240, seed), *options)
        made.wait_for_members(*NAMES)
        before = query()
        assert before["answered"] == list(NAMES)

        old = Site(made.site("north").root).profile
        at("north", "update", write(root / "more.csv", 120, 7))
        at("south", "forget", "--person", "1-17")
        assert Site(made.site("north").root).profile.sums != old.sums
        for name in ("north", "south"):
            wait_for(lambda name=name: the_server_follows(name), f"the server to take the new fit of {name}")
            assert "fitted anew; connecting again" in made.output(name)
        after = query()
        assert after["answered"] == list(NAMES)
        assert after["accuracy"] > 0.8
        assert "remove" not in [entry.event for entry in made.registry.log]

        # South is now what it would be without the person, files and all.
        other = make_federation(tmp_path / "g").site("south")
        table = write(root / "without.csv", 240, 1, without="1-17")
        done = made.run("site", table, *options, "--folder", other.root, "--fit-only", folder=False)
        assert done.returncode == 0, done.stderr
        assert model_file(other).read_bytes() == model_file(made.site("south")).read_bytes()
        assert sums_file(other).read_bytes() == sums_file(made.site("south")).read_bytes()

        # West moves: its folder is copied as a whole, and the site is started there.
        assert made.stop("west") == 0
        moved = tmp_path / "new machine" / "west"
        shutil.copytree(made.site("west").root, moved)
        shutil.rmtree(made.site("west").root)
        made.site("west").root.symlink_to(moved)  # where the test starts it
        made.start("west")
        wait_for(lambda: the_server_follows("west"), "the moved site")
        assert query()["labels"] == after["labels"]
    finally:
        made.close()
