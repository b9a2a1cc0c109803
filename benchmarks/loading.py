"""Loading what was fitted: against reading the same arrays with numpy, and against fitting again.

The model is what ``onefold fit`` builds. Loading must not fit anything: ``io.load`` is held against
``numpy.load`` of the same file with every array read, and ``onefold predict``, which loads and answers in a
process of its own, against the time that fitting took.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.data import Sizes
from benchmarks.timing import Row, best
from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM, io

FEATURES, CLASSES, QUERIES = 6, 3, 16_000
SMALL_BATCH = 20
REPEATS = 9  # of calls far below a second


def rows(sizes: Sizes) -> list[Row]:
    """Load a wide model and one of many small machines, and predict with the wide one."""
    X, y = clouds(sizes.loading)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onefold"
        wide = AutoencoderClassifier(WideKAHM(scale="auto", random_state=0))
        started = time.perf_counter()
        wide.fit(X, y)
        fitting = time.perf_counter() - started
        io.save(wide, path)
        what = f"AutoencoderClassifier of {len(X)} x {FEATURES}"
        return [
            against_numpy(what, path, {"fit_seconds": fitting}),
            predicting(what, path, fitting),
            compact(what, wide, Path(folder) / "compact.onefold", fitting),
            small_machines(X, y, Path(folder) / "small.onefold"),
        ]


def clouds(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of several overlapping clusters per class, and their classes."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(CLASSES, 8, FEATURES))
    y = rng.integers(CLASSES, size=n_rows)
    return centres[y, rng.integers(8, size=n_rows)] + 0.5 * rng.normal(size=(n_rows, FEATURES)), y


def against_numpy(what: str, path: Path, details: dict[str, float]) -> Row:
    """Hold ``io.load`` against reading every array of the file."""

    def read() -> None:
        with np.load(path) as archive:
            for name in archive.files:
                archive[name]

    bare, ours = best(read, REPEATS), best(lambda: io.load(path), REPEATS)
    size = path.stat().st_size / 1e6
    seconds = {"seconds": ours, "numpy_seconds": bare, "file_megabytes": size, **details}
    return Row(f"io.load, {what}: time / numpy.load of all arrays", ours / bare, "<= 3", seconds)


def predicting(what: str, path: Path, fitting: float) -> Row:
    """Hold ``onefold predict`` on 16 000 rows, its start and its files included, against the fit."""
    queries, out = path.with_name("queries.csv"), path.with_name("predictions.csv")
    names = ",".join(f"x{number}" for number in range(FEATURES))
    np.savetxt(queries, clouds(QUERIES, seed=2)[0], delimiter=",", header=names, comments="")
    command = [sys.executable, "-m", "onefold", "predict", str(path), str(queries), "--out", str(out)]
    started = time.perf_counter()
    subprocess.run([*command, "--quiet"], check=True)
    seconds = time.perf_counter() - started
    name = f"onefold predict, {QUERIES} rows, {what}: time / fit"
    return Row(name, seconds / fitting, "<= 1", {"seconds": seconds, "fit_seconds": fitting})


def compact(what: str, model: AutoencoderClassifier, path: Path, fitting: float) -> Row:
    """Tell what the small file costs, which is fitted again when it is loaded."""
    io.save(model, path, compact=True)
    seconds = best(lambda: io.load(path), 1)
    details = {"seconds": seconds, "file_megabytes": path.stat().st_size / 1e6}
    return Row(f"io.load of a compact file, {what}: time / fit", seconds / fitting, "<= 1", details)


def small_machines(X: np.ndarray, y: np.ndarray, path: Path) -> Row:
    """Load thousands of machines of twenty samples."""
    io.save(FoldingClassifier(batch_size=SMALL_BATCH, scale="auto").fit(X, y), path)
    what = f"FoldingClassifier of {len(X)} x {FEATURES}, batches of {SMALL_BATCH}"
    return against_numpy(what, path, {})
