"""Loading what was fitted: against reading the same arrays with safetensors, and against fitting again.

The model is what ``onefold fit`` builds. Loading must not fit anything: ``io.load`` is held against
``load_file`` of safetensors on the same file, and the command ``onefold predict`` against the command
``onefold fit``: each reads a table, works in a process of its own and writes a file.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from benchmarks.data import Sizes
from benchmarks.timing import Row, best
from onefold import FoldingClassifier, io

FEATURES, CLASSES, QUERIES = 6, 3, 16_000
SMALL_BATCH = 20
REPEATS = 9  # of calls far below a second


def rows(sizes: Sizes) -> list[Row]:
    """Load a wide model and one of many small machines, and predict with the wide one."""
    X, y = clouds(sizes.loading)
    with tempfile.TemporaryDirectory() as folder:
        path, table = Path(folder) / "model.onefold", Path(folder) / "rows.csv"
        write_csv(table, np.column_stack([X, y]), "kind")
        fitting = command("fit", table, "--label", "kind", "--out", path)
        what = f"AutoencoderClassifier of {len(X)} x {FEATURES}"
        return [
            against_reading(what, path, {"fit_seconds": fitting}),
            predicting(what, path, fitting),
            compact(what, path, Path(folder) / "compact.onefold", fitting),
            small_machines(X, y, Path(folder) / "small.onefold"),
        ]


def write_csv(path: Path, values: np.ndarray, *labels: str) -> None:
    """Write columns x0, x1, ... and then those with names of their own."""
    names = ",".join([*(f"x{number}" for number in range(FEATURES)), *labels])
    kinds = ["%.9g"] * FEATURES + ["%d"] * len(labels)
    np.savetxt(path, values, delimiter=",", header=names, comments="", fmt=kinds)


def command(*arguments: object) -> float:
    """Run a command of onefold and return its seconds, start and files included."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "onefold", *map(str, arguments), "--quiet"], check=True)
    return time.perf_counter() - started


def clouds(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of several overlapping clusters per class, and their classes."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(CLASSES, 8, FEATURES))
    y = rng.integers(CLASSES, size=n_rows)
    return centres[y, rng.integers(8, size=n_rows)] + 0.5 * rng.normal(size=(n_rows, FEATURES)), y


def against_reading(what: str, path: Path, details: dict[str, float]) -> Row:
    """Hold ``io.load`` against reading every array of the file."""
    bare, ours = best(lambda: load_file(path), REPEATS), best(lambda: io.load(path), REPEATS)
    size = path.stat().st_size / 1e6
    seconds = {"seconds": ours, "bare_seconds": bare, "file_megabytes": size, **details}
    return Row(f"io.load, {what}: time / safetensors' load_file", ours / bare, "<= 5", seconds)


def predicting(what: str, path: Path, fitting: float) -> Row:
    """Hold ``onefold predict`` on 16 000 rows against ``onefold fit``."""
    queries = path.with_name("queries.csv")
    write_csv(queries, clouds(QUERIES, seed=2)[0])
    seconds = command("predict", path, queries, "--out", path.with_name("predictions.csv"))
    name = f"onefold predict, {QUERIES} rows, {what}: time / onefold fit"
    return Row(name, seconds / fitting, "<= 1", {"seconds": seconds, "fit_seconds": fitting})


def compact(what: str, path: Path, small: Path, fitting: float) -> Row:
    """Tell what the small file costs, which is fitted again when it is loaded."""
    io.save(io.load(path), small, compact=True)
    seconds = best(lambda: io.load(small), 1)
    details = {"seconds": seconds, "file_megabytes": small.stat().st_size / 1e6}
    return Row(f"io.load of a compact file, {what}: time / onefold fit", seconds / fitting, "<= 1", details)


def small_machines(X: np.ndarray, y: np.ndarray, path: Path) -> Row:
    """Load thousands of machines of twenty samples."""
    io.save(FoldingClassifier(batch_size=SMALL_BATCH, scale="auto").fit(X, y), path)
    what = f"FoldingClassifier of {len(X)} x {FEATURES}, batches of {SMALL_BATCH}"
    return against_reading(what, path, {})
