"""The encrypted argmin: seconds, bytes, memory per setting, beside the document's counts of TFHE operations.

The counts (004, section 3.9) are Q C minima and C equalities per query. They are multiplied by what one
operation takes in TFHE on this machine, measured in the same run with Concrete when
``ONEFOLD_CONCRETE_PYTHON`` names a Python that has concrete-python; and, in a row of its own, by the
latencies that the document prints for another machine (Table 6). Seconds are processor seconds of the
server and the querier; those of a site are printed beside them. The server's seconds include reading,
checking and adding the messages of all sites.

``python -m benchmarks.encrypted Q,C,bits ... [--operations FILE]`` measures single settings, for a machine
that is quiet only for minutes; FILE is what ``encrypted_tfhe.py`` printed a moment ago.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.data import QUICK, Sizes
from benchmarks.timing import Row
from onefold.exceptions import OnefoldError

SETTINGS = ((4, 10, 8), (10, 10, 8), (10, 10, 16), (100, 20, 8))
GOAL = (100, 20, 8)
PRINTED = {
    8: (0.101, 0.044),
    16: (0.195, 0.082),
}  # 004 Table 6: minimum, equality; seconds on another machine
CONCRETE = "ONEFOLD_CONCRETE_PYTHON"


def rows(sizes: Sizes) -> list[Row]:
    settings = SETTINGS[:1] if sizes == QUICK else SETTINGS
    primitives: dict[int, dict[str, Any] | None] = {}
    found: list[Row] = []
    for setting in settings:
        bits = setting[2]
        if bits not in primitives:
            primitives[bits] = tfhe(4 if sizes == QUICK else bits)
        found += setting_rows(setting, measured(setting), primitives[bits])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Figures of single settings as JSON, a line for each.")
    parser.add_argument(
        "settings",
        nargs="+",
        metavar="Q,C,bits",
        help="number of sites, classes and bits of a setting to measure",
    )
    parser.add_argument(
        "--operations", metavar="FILE", help="JSON file with the seconds of a minimum and an equality in TFHE"
    )
    args = parser.parse_args()
    one = None if args.operations is None else json.loads(Path(args.operations).read_text())
    for text in args.settings:
        n_clients, n_classes, bits = map(int, text.split(","))
        setting = (n_clients, n_classes, bits)
        for row in setting_rows(setting, measured(setting), one if bits == 8 else None):
            print(json.dumps({"name": row.name, "ratio": row.ratio, "goal": row.goal, **row.details}))
    return 0


def measured(setting: tuple[int, int, int]) -> dict[str, Any]:
    """The figures of one setting, from a process of its own (so that the peak of memory is its own)."""
    command = [sys.executable, "-m", "benchmarks.encrypted_setting", *map(str, setting)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise OnefoldError(f"the setting {setting} could not be measured: {last[0]}")
    return dict(json.loads(done.stdout))


def tfhe(bits: int) -> dict[str, Any] | None:
    """One minimum and one equality in TFHE on this machine; None without Concrete, or where it has none."""
    python = os.environ.get(CONCRETE)
    if python is None or bits > 8:  # at 8 bits keys alone take two minutes; more is not tried
        return None
    program = Path(__file__).with_name("encrypted_tfhe.py")
    done = subprocess.run([python, str(program), str(bits)], capture_output=True, text=True, check=False)
    return dict(json.loads(done.stdout)) if done.returncode == 0 else None


def setting_rows(
    setting: tuple[int, int, int], figures: dict[str, Any], one: dict[str, Any] | None
) -> list[Row]:
    n_clients, n_classes, bits = setting
    goals = ("<= 0.06", "<= 1", "<= 12", ">= 500") if setting == GOAL else (None, None, None, None)
    alone, batched = figures["alone"], figures["batched"]
    if not (alone["right"] and batched["right"]):
        raise OnefoldError(f"the setting {setting} answered wrongly")
    cpu, lone = (each["server_cpu"] + each["querier_cpu"] for each in (batched, alone))
    found = [
        Row(f"CPU seconds per query, {setting}, {batched['rows']} at once", cpu, goals[0], figures),
        Row(f"CPU seconds per query, {setting}, alone", lone, goals[1], alone),
        Row(f"wall seconds per query, {setting}, alone", alone["wall"], goals[1]),
        Row(f"KB per measure and query, {setting}, batched", batched["bytes_per_scalar"] / 1e3, goals[2]),
    ]
    minimum, equality = PRINTED[bits]
    counted = n_clients * n_classes * minimum + n_classes * equality
    found.append(Row(f"document's counts and printed latencies / ours, {setting}", counted / cpu, None))
    if one is not None:
        counted = n_clients * n_classes * one["minimum"]["seconds"] + n_classes * one["equality"]["seconds"]
        name = f"document's counts in TFHE on this machine / ours, {setting}"
        found.append(Row(name, counted / cpu, goals[3], {"tfhe": one, "tfhe_seconds": counted}))
    return found


if __name__ == "__main__":
    sys.exit(main())
