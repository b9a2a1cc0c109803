"""``python -m tests.simulation SEED`` runs a seed and prints what happened; ``--seeds N`` runs 0 to N - 1.

Seeds know nothing of each other: every processor runs some of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import nullcontext
from multiprocessing import get_context

from .planted import FAULTS, planted
from .stage import ready
from .world import Failed, run


def attempt(seed: int) -> tuple[int, list[str], str]:
    """Run a seed: its number, what happened, and why it failed, if it did."""
    try:
        return seed, run(seed), ""
    except Failed as failure:
        return seed, failure.trace, str(failure)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int, nargs="*", help="seeds to run, printing everything that happens")
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="number of seeds to run")
    parser.add_argument("--start", type=int, default=0, metavar="SEED", help="first seed of --seeds")
    parser.add_argument("--planted", choices=list(FAULTS), metavar="FAULT", help="break one thing first")
    options = parser.parse_args()
    seeds = [*options.seed, *range(options.start, options.start + options.seeds)]
    failed = []
    began = time.monotonic()
    broken = nullcontext() if options.planted is None else planted(options.planted)
    with ready(), broken, get_context("fork").Pool(min(len(seeds), os.cpu_count() or 1) or 1) as pool:
        for seed, trace, failure in pool.imap(attempt, seeds):
            if seed in options.seed:
                print("\n".join(trace))
            if failure:
                failed.append(seed)
                print(failure, flush=True)
    print(f"{len(seeds)} seed(s), {len(failed)} failed {failed}; {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
