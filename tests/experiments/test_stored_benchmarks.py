"""Benchmarks keep the tables of the results page themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import stored

pytest.importorskip("cryptography")
storing = pytest.importorskip("benchmarks.storing", reason="the benchmarks are not in this copy")

COSTS = {
    "plain site seconds": 0.05,
    "plain site bytes": 8e6,
    "plain server seconds": 0.6,
    "site seconds": 0.24,
    "site bytes": 24e6,
    "server seconds": 3.0,
    "busiest holder seconds": 3.1,
    "busiest holder bytes": 8e8,
    "querier seconds": 0.2,
}


def test_costs_of_sums_have_plain_sums_once_for_each_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.timing import Row

    monkeypatch.setattr(storing, "RESULTS", tmp_path / "benchmarks")
    names = [
        f"1000000 numbers, {sites} sites, {way}"
        for sites in (10, 100)
        for way in ("two of two holders", "three of five holders")
    ]
    rows = [
        row
        for name in names
        for row in (Row(f"{name}: time", 5.0, None, dict(COSTS)), Row(f"{name}: bytes", 3.0, None))
    ]
    path = storing.store("sum-costs", rows, ["--full"], 1.25)
    raw = stored.read(path)
    assert raw is not None
    (table,) = raw["tables"]
    assert [line[1:3] for line in table["rows"]] == [
        [sites, way]
        for sites in ("10", "100")
        for way in ("plain", "two of two holders", "three of five holders")
    ]
    assert table["rows"][0][3:] == ["0.050 s", "8.00 MB", "0.600 s", None, None, None]
    assert table["rows"][1][3:] == ["0.240 s", "24 MB", "3.0 s", "3.1 s", "800 MB", "0.200 s"]
    assert raw["runs"][0]["arguments"] == ["--full"]
    assert storing.store("sum-costs", rows[:2], [], 1.0) == path  # a later run replaces its own lines only
    again = stored.read(path)
    assert again is not None
    assert len(again["tables"][0]["rows"]) == len(table["rows"])
