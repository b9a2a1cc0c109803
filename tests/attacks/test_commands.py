"""Once the noise is drawn, nothing that a private command writes may depend on one record.

Every place where noise is added is replaced by numbers that do not depend on the data, and every other source
of randomness by a fixed one. What a command then writes is a function of public things alone: two tables that
differ in one record must give the same files, byte for byte, and the same printed lines.
"""

import csv
import itertools
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tiers import later

from onefold.cli.app import main
from onefold.fabrication import synthesizer
from onefold.federated.flower.folders import SiteFolder
from onefold.federated.flower.keeping import read_profile
from onefold.privacy import RandomisedLabels, ledger, samplers
from onefold.privacy.mechanisms.fisher import RowNoise
from onefold.privacy.mechanisms.mechanism import Mechanism
from onefold.privacy.moments._release import Noise
from onefold.tables import Field, Schema

HEADER = ["age", "ward", "pulse", "seen", "outcome", "patient"]
# Records that a careless reader would treat differently, each beside the same 60 ordinary ones.
ODD_RECORDS = {
    "far outside": ["1e300", "north", "-4e5", "1890-01-01", "home", "0"],
    "text for a number": ["old", "a ward that nobody declared", "", "yesterday", "home", "0"],
    "many digits": ["41.123456789012345678901234567890", "south", "71", "2024-02-29", "stays", "0"],
    "nothing at all": ["", "", "", "", "", "0"],
    "another label": ["50", "north", "70", "2024-01-01", "an outcome of one patient", "0"],
    "words for numbers": ["inf", "nan", "NA", "NULL", "stays", "0"],
    "blanks and signs": [" 50 ", " north ", "+70", " 2024-01-01 ", " home ", "0"],
}
# Whose a row is decides which rows are left out. Releases of rows do not cover that, and say so.
ODD_PERSONS = {
    "nobody": ["50", "north", "70", "2024-01-01", "home", ""],
    "somebody else": ["50", "north", "70", "2024-01-01", "home", "7"],
}
# Whether a record may be more or less, or only another one, and the command without its table and schema.
SITE = "federate site --folder federation/sites/north --fit-only --unit record"
ROWS = "--unit record --label-epsilon 1"
COMMANDS = {
    "fit moments": ("add-remove", "fit --method moments --out m.onefold"),
    "fit tables": ("add-remove", "fit --method tables --out m.onefold"),
    "fit": ("add-remove", "fit --out m.onefold --report p.html"),
    "fit a number": ("add-remove", "fit --label pulse --out m.onefold --report p.html"),
    "synthesize": ("add-remove", "synthesize --out s.csv --report p.html"),
    "synthesize into Parquet": ("add-remove", "synthesize --out s.parquet"),
    "transfer source": ("add-remove", "transfer source --out s.onefold"),
    "transfer source of rows": ("replace", f"transfer source --method noise {ROWS} --out s.onefold"),
    "transfer source of smooth rows": (
        "replace",
        f"transfer source --method fabricated {ROWS} --out s.onefold",
    ),
    "federate site": ("add-remove", f"{SITE} --sites 3 --anyway"),
    "federate site of rows": ("replace", f"{SITE} --method rows --label-epsilon 1"),
    "fabricate": ("replace", f"fabricate {ROWS} --out f.csv --report p.html"),
    "fit per person": ("add-remove", "fit --unit person --out m.onefold"),
    "synthesize per person": ("add-remove", "synthesize --unit person --out s.csv"),
    "transfer source per person": ("add-remove", "transfer source --unit person --out s.onefold"),
    "fabricate per person": ("replace", "fabricate --unit person --label-epsilon 1 --out f.csv"),
    "release": ("replace", "release --label-epsilon 1 --out r.csv --report p.html"),
    "fit a number by moments": ("add-remove", "fit --label pulse --method moments --out m.onefold --json"),
    "fit a number per person": ("add-remove", "fit --label pulse --unit person --out m.onefold"),
    "fit a Parquet file": ("add-remove", "fit --method tables --out m.onefold --json"),
    "synthesize a Parquet file": ("add-remove", "synthesize --out s.csv --json"),
    "synthesize an NPZ file": ("add-remove", "synthesize --unit person --out s.npz"),
    "release a Parquet file": ("replace", "release --label-epsilon 1 --out r.parquet --json"),
    "transfer source of an NPZ file": ("add-remove", "transfer source --out s.onefold --json"),
    "synthesize a database": ("add-remove", "synthesize --out s.csv"),
}


def even(shape: tuple[int, ...], low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """Return numbers of a shape that depend on nothing else."""
    size = int(np.prod(shape))
    return (low + (high - low) * np.modf(0.618 * np.arange(1, size + 1))[0]).reshape(shape)


class Randomness:
    """Repeatable randomness in place of the system's: a run that starts anew draws the same."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._seeds = itertools.count()
        ledger.NEWEST.clear()  # the next ledger has the same identity

    def bytes(self, n: int) -> bytes:
        return np.random.Generator(np.random.PCG64(next(self._seeds))).bytes(n)

    def generator(self, seed: Any = None) -> np.random.Generator:
        return REAL_GENERATOR(next(self._seeds) if seed is None else seed)


REAL_GENERATOR = np.random.default_rng


@pytest.fixture
def randomness(monkeypatch: pytest.MonkeyPatch) -> Randomness:
    """Make noisy values independent of the data, and everything else that is random repeatable."""
    for name, made in NOISY_VALUES:
        monkeypatch.setattr(*name, made)
    source = Randomness()
    monkeypatch.setattr(samplers, "_system_bytes", source.bytes)
    monkeypatch.setattr(ledger, "token_hex", lambda n: source.bytes(n).hex())
    monkeypatch.setattr(np.random, "default_rng", source.generator)
    return source


NOISY_VALUES: list[tuple[tuple[Any, str], Any]] = [
    ((Noise, "to_counts"), lambda _, values, sigma: np.round(even(values.shape, 20, 40))),
    ((Noise, "to_sums"), lambda _, values, sigma: even(values.shape, -5, 5)),
    ((Noise, "to_matrices"), lambda _, values, sigma: values * 0.0 + 9.0 * np.eye(values.shape[-1])),
    ((synthesizer, "with_noise"), lambda layout, vector, *_: even(vector.shape, 0, 9).astype(np.int64)),
    ((Mechanism, "_noisy"), lambda _, values, random_state: even(values.shape)),
    ((RowNoise, "_added"), lambda _, values, random_state: even(values.shape)),
    ((RandomisedLabels, "randomise"), lambda self, y, *_: np.resize(np.asarray(self.classes), len(y))),
]


def records() -> list[list[str]]:
    rng = REAL_GENERATOR(0)
    return [
        [
            f"{rng.uniform(18, 90):.1f}",
            str(rng.choice(["north", "south"])),
            str(rng.integers(50, 120)),
            f"2024-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d}",
            str(rng.choice(["home", "stays"])),
            f"{number // 3}",
        ]
        for number in range(60)
    ]


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schema") / "schema.json"
    Schema(
        [
            Field("age", low=0, high=110),
            Field("ward", "string", levels=("north", "south"), missing="indicator"),
            Field("pulse", "integer", low=30, high=200, missing="indicator"),
            Field("seen", "date", low=18262, high=20089),
            Field("outcome", "string", "label", levels=("home", "stays")),
            Field("patient", "string", "person"),
        ],
        rows_per_person=3,
    ).save(path)
    return path


def written(rows: list[list[str]], source: str, folder: Path) -> str:
    """Write a table as texts, and return what a command in the folder calls it."""
    if source == "database":
        with closing(sqlite3.connect(folder / "data.sqlite")) as base, base:
            base.execute(f"create table data ({', '.join(HEADER)})")
            base.executemany(f"insert into data values ({', '.join('?' * len(HEADER))})", rows)
        return "sqlite:///data.sqlite#data"
    columns = {name: [row[place] for row in rows] for place, name in enumerate(HEADER)}
    if source == "Parquet":
        pq.write_table(pa.table(columns), folder / "data.parquet")
    elif source == "NPZ":
        np.savez(folder / "data.npz", **{name: np.array(cells) for name, cells in columns.items()})
    else:
        with (folder / "data.csv").open("w", newline="") as file:
            csv.writer(file).writerows([HEADER, *rows])
    return f"data.{source.lower()}"


def run(
    command: list[str], rows: list[list[str]], schema: Path, folder: Path, source: str = "CSV"
) -> dict[str, bytes]:
    """Run a command on a table and return all that it wrote, printed lines included."""
    folder.mkdir()
    data = written(rows, source, folder)
    words = [*command, "--schema", str(schema), "--epsilon", "1"]
    place = 2 if command[0] in ("transfer", "federate") else 1
    here = Path.cwd()
    os.chdir(folder)
    try:
        if command[0] == "federate":
            assert main(["federate", "init", "--sites", "north", "--insecure"]) == 0
        assert main([*words[:place], data, *words[place:]]) == 0
    finally:
        os.chdir(here)
    # The store of a site is for the site itself, which fits again with it: what leaves of it is the profile.
    paths = [path for path in folder.rglob("*") if path.is_file() and path.stem not in ("data", "state")]
    results = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
    site = SiteFolder(folder / "federation" / "sites" / "north")
    return results | ({"profile": read_profile(site).to_bytes()} if command[0] == "federate" else {})


def without_seconds(printed: str) -> bytes:
    return re.sub(r'in [0-9.]+ s|"seconds": [0-9.]+', "in some time", printed).encode()


def differences(
    name: str, randomness: Randomness, schema: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> set[tuple[str, str]]:
    """Return (odd record, file) for every file that is not the one of an ordinary record in its place."""
    neighbours, line = COMMANDS[name]
    command = line.split()
    source = next((kind for kind in ("Parquet", "NPZ", "database") if f" {kind}" in name), "CSV")
    rows = records()
    odd_records = ODD_RECORDS | (ODD_PERSONS if neighbours == "add-remove" else {})
    tables = {case: [*rows[1:30], odd, *rows[30:]] for case, odd in odd_records.items()}
    if neighbours == "add-remove":
        tables["one record less"] = rows[1:]
    results = {}
    ordinary = [*rows[1:30], rows[0], *rows[30:]]
    for case, table in {"ordinary": ordinary, "ordinary again": ordinary, **tables}.items():
        randomness.restart()
        results[case] = run(command, table, schema, folder / case, source)
        printed = capsys.readouterr()
        results[case] |= {"printed": without_seconds(printed.out), "said": without_seconds(printed.err)}
    expected = results.pop("ordinary")
    assert results.pop("ordinary again") == expected, "the comparison itself is not repeatable"
    return {
        (case, file)
        for case, files in results.items()
        for file in expected.keys() | files.keys()
        if files.get(file) != expected.get(file)
    }


# Each way of making something private, and each source of rows, once; all commands before a merge.
FAST = ("fit", "fit a number per person", "synthesize a database", "transfer source of rows", "federate site")


@pytest.mark.parametrize("name", later(COMMANDS, FAST))
def test_what_a_private_command_writes_depends_on_a_record_only_through_the_noise(
    name: str, randomness: Randomness, schema: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert differences(name, randomness, schema, tmp_path, capsys) == set()


@pytest.mark.parametrize(
    "name",
    later((name for name, (relation, _) in COMMANDS.items() if relation == "replace"), ["release"]),
)
def test_a_release_of_rows_says_that_the_name_of_a_person_is_not_covered(
    name: str, schema: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(COMMANDS[name][1].split(), records(), schema, tmp_path / "rows")
    assert "Not covered: the number of rows and which rows belong to whom" in capsys.readouterr().out


LEAKS = {
    "fit moments": (Noise, "to_sums", lambda _, values, sigma: values),
    "fit tables": (synthesizer, "with_noise", lambda layout, vector, *_: vector),
    "synthesize": (synthesizer, "with_noise", lambda layout, vector, *_: vector),
    "fabricate": (RandomisedLabels, "randomise", lambda self, y, *_: y),
    "transfer source of rows": (Mechanism, "_noisy", lambda _, values, random_state: values),
    "release": (RowNoise, "_added", lambda _, values, random_state: values),
}


@pytest.mark.parametrize("name", later(LEAKS, ["fit moments", "fit tables", "transfer source of rows"]))
def test_a_record_that_passes_without_noise_is_seen(
    name: str,
    randomness: Randomness,
    schema: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(*LEAKS[name])
    assert len(differences(name, randomness, schema, tmp_path, capsys)) >= len(ODD_RECORDS) // 2
