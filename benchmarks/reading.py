"""Reading a CSV file of 200 000 rows and 50 columns, against Arrow's own reader on the same file."""

import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from pyarrow import csv

from benchmarks.data import QUICK, Sizes
from benchmarks.timing import Row, best
from onefold.tables import Field, Schema, read_table

N_NUMBERS, N_CATEGORIES, N_DATES = 40, 7, 3
LEVELS = tuple(f"ward {place}" for place in range(8))
SCHEMA = Schema(
    [
        *(Field(f"n{j}", low=-100, high=100, missing="indicator") for j in range(N_NUMBERS)),
        *(Field(f"c{j}", "string", levels=LEVELS) for j in range(N_CATEGORIES)),
        *(Field(f"d{j}", "date", low=0, high=30_000) for j in range(N_DATES)),
    ],
    missing_values=("", "NA"),
)


def write(path: Path, n_rows: int, quoted: bool) -> Path:
    """A file of numbers, of which one in fifty is missing, categories and dates."""
    rng = np.random.default_rng(0)
    columns: list[list[str]] = []
    for _ in range(N_NUMBERS):
        gaps = rng.random(n_rows) < 0.02
        numbers = 10.0 * rng.normal(size=n_rows)
        columns.append(["NA" if gap else f"{number:.6g}" for gap, number in zip(gaps, numbers, strict=True)])
    columns += [[LEVELS[place] for place in rng.integers(8, size=n_rows)] for _ in range(N_CATEGORIES)]
    for _ in range(N_DATES):
        columns.append(rng.integers(20_000, size=n_rows).astype("datetime64[D]").astype(str).tolist())
    mark = '"' if quoted else ""
    between = f"{mark},{mark}"
    lines = [tuple(field.name for field in SCHEMA.fields), *zip(*columns, strict=True)]
    path.write_text("".join(f"{mark}{between.join(line)}{mark}\n" for line in lines))
    return path


def rows(sizes: Sizes) -> list[Row]:
    """Processor time as a multiple of Arrow's, which takes types from the cells."""
    n_rows = 5_000 if sizes is QUICK else 200_000
    result = []
    with tempfile.TemporaryDirectory() as folder:
        for quoted in (False, True):
            path = write(Path(folder) / "table.csv", n_rows, quoted)
            arrow = best(partial(csv.read_csv, path), clock=time.process_time)
            ways = {
                "without a schema": (partial(read_table, path), "<= 6"),
                "with a schema": (partial(read_table, path, schema=SCHEMA), "<= 6"),
                "every cell a Python text": (lambda path=path: dict(read_table(path)), None),
            }
            for way, (read, goal) in ways.items():
                seconds = best(read, clock=time.process_time)
                name = f"reading {'quoted' if quoted else 'unquoted'} CSV {way}, of Arrow's reader"
                details = {"rows": n_rows, "seconds": seconds, "arrow_seconds": arrow}
                result.append(Row(name, seconds / arrow, goal, details))
    return result
