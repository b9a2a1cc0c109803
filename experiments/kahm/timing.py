"""Time to fit one machine over the sizes of 000 Table 11, and how it grows with p, n and N (eq. 105-107).

Gaussian data with mean 0 and variance 1, one BLAS thread, the best of three runs. The document's seconds come
from another machine and another program: compare the growth exponents (slopes of log time), not the seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from experiments.harness import Outcome, Table, main, note, parser, printed_in, timed
from onefold import KAHM

QUIET_LOAD = 0.7
REPEATS = 3


@dataclass(frozen=True)
class Size:
    """N samples of dimension p, encoded in n components."""

    N: int
    p: int
    n: int = 20


# The document prints only the products N x p. From 2.5 million on they are N x 10 N; the smaller ones are
# products of values in its ranges (105) and (107).
TABLE_11 = [Size(100, 100), Size(100, 1000), Size(300, 1000), Size(400, 2500)] + [
    Size(N, 10 * N) for N in (500, 600, 700, 750, 800, 850, 900, 950, 1000)
]
# What was held fixed while p, n or N grew is not printed, except N = 1000 where p = 20000 is mentioned.
DIMENSIONS = (10, 100, 500, 1000, 2500, 5000, 7500, 10000, 12500, 15000, 17500, 20000)
SWEEPS = {
    "p": [Size(1000, p) for p in DIMENSIONS],
    "n": [Size(1000, 1000, n) for n in (5, 10, 20, 50, 75, 100, 200, 300, 400, 500)],
    "N": [Size(N, 1000) for N in range(100, 1001, 100)],
}


def seconds_to_fit(size: Size, repeats: int) -> float:
    """Shortest of several fits on the same data."""
    X = np.random.default_rng(0).standard_normal((size.N, size.p))
    shortest = min(timed(lambda: KAHM(size.n, regularisation="documented").fit(X))[1] for _ in range(repeats))
    note(f"N = {size.N}, p = {size.p}, n = {size.n}: {shortest:.4f} s")
    return shortest


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log seconds over log size by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def table_11(sizes: Sequence[Size], repeats: int) -> tuple[Table, dict[str, float]]:
    """Measured seconds beside the document's, and both growth exponents in the data size N x p."""
    reported = printed_in("000", "Table 11")
    measured = [seconds_to_fit(size, repeats) for size in sizes]
    entries = [size.N * size.p for size in sizes]
    theirs = [reported[f"{count} entries"] for count in entries]
    rows = [
        [count, f"{size.N} x {size.p}", ours, other, round(other / ours)]
        for count, size, ours, other in zip(entries, sizes, measured, theirs, strict=True)
    ]
    headers = ("entries", "N x p", "measured s", "document s", "document / measured")
    values = {
        "exponent entries": exponent(entries, measured),
        "document exponent entries": exponent(entries, theirs),
        "seconds at the largest size": measured[-1],
    }
    return Table("Time to fit one machine (000 Table 11)", headers, rows), values


def sweep(letter: str, sizes: Sequence[Size], repeats: int) -> tuple[Table, dict[str, float]]:
    """Seconds while one letter grows; the exponent over all sizes and over the upper half."""
    grown = [getattr(size, letter) for size in sizes]
    measured = [seconds_to_fit(size, repeats) for size in sizes]
    half = len(sizes) // 2
    values = {
        f"exponent {letter}": exponent(grown, measured),
        f"exponent {letter} upper half": exponent(grown[half:], measured[half:]),
    }
    fixed = {"p": "N = 1000, n = 20", "n": "N = 1000, p = 1000", "N": "p = 1000, n = 20"}[letter]
    rows = [[value, seconds] for value, seconds in zip(grown, measured, strict=True)]
    return Table(f"Growth with {letter} ({fixed})", (letter, "measured s"), rows), values


def experiment(args: argparse.Namespace) -> Outcome:
    """Table 11, then the three sweeps of Fig. 17."""
    load = os.getloadavg()[0]
    if load > QUIET_LOAD and not args.quick:
        note(f"the machine is busy (load {load:.1f}): times will be too long")
    with threadpool_limits(args.threads, user_api="blas"):
        found = _all_tables(args.quick)
    values = {name: value for _, part in found for name, value in part.items()}
    exponents = [[name, value] for name, value in values.items() if "exponent" in name]
    tables = [table for table, _ in found] + [Table("Growth exponents", ("what", "exponent"), exponents)]
    return Outcome(values, tables, {"load before": load, "blas_threads": args.threads})


def _all_tables(quick: bool) -> list[tuple[Table, dict[str, float]]]:
    repeats = 1 if quick else REPEATS
    seconds_to_fit(Size(200, 200), 1)  # libraries are loaded and threads started outside the measurement
    found = [table_11(TABLE_11[:4] if quick else TABLE_11, repeats)]
    for letter, sizes in SWEEPS.items():
        found.append(sweep(letter, sizes[:4] if quick else sizes, repeats))
    return found


def options() -> argparse.ArgumentParser:
    """Common options, and the number of BLAS threads."""
    found = parser(__doc__)
    found.add_argument("--threads", type=int, default=1, help="number of BLAS threads (default: 1)")
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
