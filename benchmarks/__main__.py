"""Ratios, and whether goals are met: ``python -m benchmarks [names] [--json] [--quick|--full] [--store]``."""

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_limits

from benchmarks import (
    encrypted,
    fabrication,
    federation,
    fitting,
    fuzzy,
    load,
    loading,
    membership,
    noise,
    peers,
    querying,
    reading,
    release,
    small_machines,
    state,
    storing,
    sum_costs,
    sums,
    sums_network,
    tables,
)
from benchmarks.data import FULL, QUICK, Sizes
from benchmarks.timing import Row
from onefold.exceptions import DataScaleWarning, OnefoldError

SUITES: dict[str, Callable[[Sizes], list[Row]]] = {
    "fitting": fitting.rows,
    "querying": querying.rows,
    "membership": membership.rows,
    "fuzzy": fuzzy.rows,
    "small": small_machines.rows,
    "loading": loading.rows,
    "noise": noise.rows,
    "fabrication": fabrication.rows,
    "federation": federation.rows,
    "load": load.rows,
    "encrypted": encrypted.rows,
    "peers": peers.rows,
    "release": release.rows,
    "tables": tables.rows,
    "reading": reading.rows,
    "state": state.rows,
    "sums": sums.rows,
    "sum-costs": sum_costs.rows,
    "sums-network": sums_network.rows,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[*SUITES, []], help="names of the suites to run (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help="run small sizes, only to see that everything works"
    )
    size.add_argument(
        "--full", action="store_true", help="run the largest sizes; loading then takes about ten minutes"
    )
    parser.add_argument(
        "--store", action="store_true", help="keep what was measured in experiments/results/benchmarks"
    )
    parser.add_argument(
        "--threads", type=int, default=min(2, os.cpu_count() or 1), help="number of BLAS threads (default: 2)"
    )
    plan = load.Plan()
    for option, default, what in (
        ("minutes", plan.minutes, "minutes of load"),
        ("queries", plan.queries, "queries in that time"),
        ("sites", plan.sites, "sites"),
    ):
        parser.add_argument(
            f"--{option}", type=type(default), default=default, help=f"load: {what} (default: {default})"
        )
    args = parser.parse_args()
    if args.quick and args.store:
        parser.error("a quick run only shows that everything works: it is never stored")
    if args.store and not set(args.names or SUITES) <= set(storing.TABLES):
        parser.error(f"only these are stored: {', '.join(storing.TABLES)}")
    SUITES["load"] = partial(load.rows, plan=load.Plan(args.minutes, args.queries, args.sites))
    warnings.simplefilter("ignore", DataScaleWarning)
    sizes = QUICK if args.quick else FULL if args.full else Sizes()
    found: list[Row] = []
    with threadpool_limits(args.threads, user_api="blas"):
        for name in args.names or SUITES:
            start = time.monotonic()
            try:
                rows = SUITES[name](sizes)
            except OnefoldError as error:  # most likely: no MNIST here
                print(f"{name}: left out: {error}", file=sys.stderr)
                continue
            found += rows
            if args.store and rows:
                arguments = [word for word in sys.argv[1:] if word not in {*SUITES, "--json", "--store"}]
                path = storing.store(name, rows, arguments, time.monotonic() - start)
                print(f"{name}: stored in {path.name}", file=sys.stderr)
            if not args.json:
                for row in rows:
                    show(row)
    if args.json:
        print(
            json.dumps({"machine": machine(args.threads), "rows": [as_json(row) for row in found]}, indent=1)
        )
    return 0


def machine(threads: int) -> dict[str, object]:
    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "blas_threads": threads,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def as_json(row: Row) -> dict[str, object]:
    return {"name": row.name, "ratio": row.ratio, "goal": row.goal, "met": row.met, **row.details}


def show(row: Row) -> None:
    goal = "no goal set" if row.goal is None else f"goal {row.goal}, {'met' if row.met else 'NOT met'}"
    print(f"{row.ratio:8.2f}  ({goal})  {row.name}")
    numbers = {name: value for name, value in row.details.items() if isinstance(value, int | float)}
    if numbers:
        print("          " + ", ".join(f"{name} {value:.6g}" for name, value in numbers.items()))
    for line in row.details.get("table", []):
        print(
            f"          {line['model']:36s} accuracy {line['accuracy']:.4f}  fit {line['fit_seconds']:7.1f} s"
            f"   predict {line['predict_seconds']:6.1f} s   peak memory +{line['fit_peak_mib']:.0f}"
            f" / +{line['predict_peak_mib']:.0f} MiB"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
