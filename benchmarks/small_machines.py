"""Hundreds of machines of twenty samples: batched, against Python loops over single machines.

Two opponents: a loop over literal machines in whole-matrix steps, and one over our own single machine. What
batching saves is overhead per machine and call. The more queries are asked at once, the more both sides are
held up by the same matrix product: the ratio falls with their number, and both ends are shown.
"""

import numpy as np

from benchmarks import literal
from benchmarks.data import Sizes
from benchmarks.timing import Row, best
from onefold import KAHM, FoldingClassifier

BATCH, FEATURES, CLASSES = 20, 512, 100
REPEATS = 9  # of calls far below a second: the first ones wait for memory from the system


def rows(sizes: Sizes) -> list[Row]:
    """Fit and predict."""
    rng = np.random.default_rng(0)
    y = np.arange(sizes.small_rows) % CLASSES
    X = rng.normal(size=(CLASSES, FEATURES))[y] + rng.normal(size=(sizes.small_rows, FEATURES))
    queries = X[: sizes.queries]
    few = X[: sizes.queries // 10]
    by_class = [X[y == label] for label in range(CLASSES)]
    batches = [np.array_split(rows, max(1, round(len(rows) / BATCH))) for rows in by_class]

    model = FoldingClassifier(batch_size=BATCH)
    machines = [[KAHM(20).fit(batch) for batch in group] for group in batches]
    model.fit(X, y)

    def loop_predict(rows: np.ndarray) -> np.ndarray:
        lowest = [np.min([one.folding(rows, "rms") for one in group], axis=0) for group in machines]
        return np.argmin(lowest, axis=0)

    if not np.array_equal(loop_predict(queries), model.predict(queries)):
        raise AssertionError("the batched classifier and the loop disagree")
    loop_fit = best(lambda: [[KAHM(20).fit(batch) for batch in group] for group in batches])
    fit = best(lambda: model.fit(X, y), REPEATS)
    loop, predict = best(lambda: loop_predict(queries)), best(lambda: model.predict(queries), REPEATS)
    loop_few, predict_few = best(lambda: loop_predict(few)), best(lambda: model.predict(few), REPEATS)
    one = by_class[0][:BATCH]
    literal_fit = best(lambda: literal.fit(one, BATCH - 1)) * sum(map(len, batches))
    literal_machine = literal.fit(one, BATCH - 1)
    literal_predict = best(lambda: literal_machine.folding(queries)) * sum(map(len, batches))
    what = f"{len(X)} x {FEATURES}, {CLASSES} classes, batches of {BATCH}"
    return [
        Row(
            f"FoldingClassifier.fit, {what}: loop over literal machines (one, times their number) / ours",
            literal_fit / fit,
            ">= 10",
            {"loop_seconds": literal_fit, "seconds": fit},
        ),
        Row(
            f"FoldingClassifier.predict, {len(queries)} rows, {what}: loop over literal machines / ours",
            literal_predict / predict,
            ">= 10",
            {"loop_seconds": literal_predict, "seconds": predict},
        ),
        Row(
            f"FoldingClassifier.fit, {what}: loop over KAHM() / ours",
            loop_fit / fit,
            ">= 10",
            {"loop_seconds": loop_fit, "seconds": fit},
        ),
        Row(
            f"FoldingClassifier.predict, {len(few)} rows, {what}: loop over KAHM() / ours",
            loop_few / predict_few,
            ">= 10",
            {"loop_seconds": loop_few, "seconds": predict_few},
        ),
        Row(
            f"FoldingClassifier.predict, {len(queries)} rows, {what}: loop over KAHM() / ours",
            loop / predict,
            ">= 10",
            {"loop_seconds": loop, "seconds": predict},
        ),
    ]
