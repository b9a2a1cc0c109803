"""Hundreds of machines of twenty samples: batched, against a Python loop over single machines."""

import numpy as np

from benchmarks.data import Sizes
from benchmarks.timing import Row, best
from onefold import KAHM, FoldingClassifier

BATCH, FEATURES, CLASSES = 20, 512, 100


def rows(sizes: Sizes) -> list[Row]:
    """Fit and predict."""
    rng = np.random.default_rng(0)
    y = np.arange(sizes.small_rows) % CLASSES
    X = rng.normal(size=(CLASSES, FEATURES))[y] + rng.normal(size=(sizes.small_rows, FEATURES))
    queries = X[: sizes.queries]
    by_class = [X[y == label] for label in range(CLASSES)]
    batches = [np.array_split(rows, max(1, round(len(rows) / BATCH))) for rows in by_class]

    model = FoldingClassifier(batch_size=BATCH)
    machines = [[KAHM(20).fit(batch) for batch in group] for group in batches]
    model.fit(X, y)

    def loop_predict() -> np.ndarray:
        lowest = [np.min([one.folding(queries, "rms") for one in group], axis=0) for group in machines]
        return np.argmin(lowest, axis=0)

    if not np.array_equal(loop_predict(), model.predict(queries)):
        raise AssertionError("the batched classifier and the loop disagree")
    loop_fit = best(lambda: [[KAHM(20).fit(batch) for batch in group] for group in batches], 2)
    fit = best(lambda: model.fit(X, y))
    loop, predict = best(loop_predict, 2), best(lambda: model.predict(queries))
    what = f"{len(X)} x {FEATURES}, {CLASSES} classes, batches of {BATCH}"
    return [
        Row(
            f"FoldingClassifier.fit, {what}: loop time / ours",
            loop_fit / fit,
            ">= 10",
            {"loop_seconds": loop_fit, "seconds": fit},
        ),
        Row(
            f"FoldingClassifier.predict, {len(queries)} rows, {what}: loop time / ours",
            loop / predict,
            ">= 10",
            {"loop_seconds": loop, "seconds": predict},
        ),
    ]
