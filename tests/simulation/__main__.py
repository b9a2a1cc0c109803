"""``python -m tests.simulation SEED`` runs a seed and prints what happened; ``--seeds N`` runs 0 to N - 1."""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext

from .planted import FAULTS, planted
from .stage import ready
from .world import Failed, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int, nargs="*", help="seeds to run, printing everything that happens")
    parser.add_argument("--seeds", type=int, default=0, metavar="N", help="number of seeds to run")
    parser.add_argument("--start", type=int, default=0, metavar="SEED", help="first seed of --seeds")
    parser.add_argument("--planted", choices=list(FAULTS), metavar="FAULT", help="break one thing first")
    options = parser.parse_args()
    failed = []
    began = time.process_time()
    broken = nullcontext() if options.planted is None else planted(options.planted)
    with ready(), broken:
        made = time.process_time()
        for seed in (*options.seed, *range(options.start, options.start + options.seeds)):
            try:
                trace = run(seed)
                if seed in options.seed:
                    print("\n".join(trace))
            except Failed as failure:
                failed.append(seed)
                print("\n".join(failure.trace) if seed in options.seed else "")
                print(failure, flush=True)
    count = len(options.seed) + options.seeds
    each = (time.process_time() - made) / max(count, 1) * 1000
    print(
        f"{count} seed(s), {len(failed)} failed {failed}; {each:.0f} ms each, {made - began:.1f} s to begin"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
