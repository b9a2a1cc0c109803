"""Classifiers on private rows: accuracy, membership-inference score, and what is promised (000 Tables 5-7).

For each epsilon, noise on every entry, and a classifier fitted to the noisy rows (Def. 12) or to rows
fabricated from them (Def. 15): with the document's stopping rule, which looks at raw data and so keeps no
promise, and with the honest one. All methods share their noise. With ``--keep FILE`` every finished row is
saved and not measured again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness import Outcome, Table, documented, main, note, parser
from experiments.kahm.private_data import SOURCES, Source
from experiments.kahm.private_row import DELTA, METHODS, Row, Setting, append, measure, read

HEADERS = (
    "epsilon per entry",
    "n",
    "method",
    "accuracy",
    "± std",
    "document",
    "score",
    "document",
    "attack AUC",
    "mean square error",
    "smoothing steps",
    "epsilon per record",
    "seconds: private, fit, distances",
    "peak MiB",
)
DEFINITIONS = {"noisy": "Def. 12", "documented": "Def. 15", "honest": "Def. 15"}
QUICK_SETTINGS = 2


def settings(args: argparse.Namespace) -> Iterator[list[Setting]]:
    """Everything that is asked for, the settings that share rows together."""
    for table in args.tables or SOURCES:
        source = SOURCES[table]
        chosen = source.settings[:QUICK_SETTINGS] if args.quick else source.settings
        for seed in range(1 if args.quick else source.n_seeds):
            yield [
                Setting(table, epsilon, n_components, method, seed)
                for epsilon, n_components in chosen
                if not args.epsilons or epsilon in args.epsilons
                for method in args.methods or METHODS
                if method != "raw" or epsilon == max(chosen)[0]  # without noise there is one row for each n
            ]


def rows(args: argparse.Namespace) -> list[Row]:
    """Measure what is not yet in the file."""
    known = read(Path(args.keep)) if args.keep else {}
    found: list[Row] = []
    for group in settings(args):
        missing = [setting for setting in group if setting not in known]
        if missing:
            data = SOURCES[group[0].table].load(args, group[0].seed)
            note(f"{group[0].table}, seed {group[0].seed}: {len(data.X)} rows, {len(data.X_test)} to test")
        for setting in missing:
            known[setting] = measure(setting, data)
            if args.keep:
                append(Path(args.keep), known[setting])
        found += [known[setting] for setting in group]
    return found


def table(name: str, source: Source, found: Sequence[Row]) -> tuple[Table, dict[str, float]]:
    """One line for every setting, means over seeds."""
    reported = documented(__file__, name)
    lines: list[list[Any]] = []
    values: dict[str, float] = {}
    by_setting = sorted(found, key=lambda row: _order(source, row))
    for _, group in groupby(by_setting, key=lambda row: _order(source, row)):
        same = list(group)
        setting = same[0].setting
        accuracy = np.array([row.accuracy for row in same])
        score = float(np.mean([row.score for row in same]))
        key = f"{setting.epsilon:g}, {setting.n_components}"
        numbers = reported.get(key, {}).get(
            "Def. 12" if setting.method == "noisy" else "Def. 15", (None, None)
        )
        spread = float(accuracy.std(ddof=1)) if len(same) > 1 else None
        lines.append([setting.epsilon, setting.n_components, setting.method, float(accuracy.mean()), spread])
        lines[-1] += [numbers[0], score, numbers[1], float(np.mean([row.auc for row in same]))]
        lines[-1] += [float(np.mean([row.error for row in same])), _steps(same), _promise(same[0])]
        lines[-1] += [_seconds(same), max(row.peak_mib for row in same)]
        values[f"{name} ({key}) {setting.method} accuracy"] = float(accuracy.mean())
        values[f"{name} ({key}) {setting.method} score"] = score
    title = f"{source.title}: delta {DELTA:g}, an entry changes by at most 1, {source.n_seeds} seed(s)"
    return Table(title, HEADERS, lines), values


def _order(source: Source, row: Row) -> tuple[int, int]:
    setting = row.setting
    return source.settings.index((setting.epsilon, setting.n_components)), METHODS.index(setting.method)


def _steps(same: Sequence[Row]) -> str:
    fewest, most = min(row.steps[0] for row in same), max(row.steps[2] for row in same)
    return f"{fewest} ... {most}, mean {np.mean([row.steps[1] for row in same]):.1f}"


def _promise(row: Row) -> str:
    """Of a whole record under the noise of its entries; its label is not covered."""
    if row.setting.method == "raw":
        return "nothing"
    return f"{row.record_epsilon:g}" if row.holds else f"void ({row.record_epsilon:g} for the noise alone)"


def _seconds(same: Sequence[Row]) -> str:
    names = ("private_seconds", "fit_seconds", "distance_seconds")
    return ", ".join(f"{np.mean([getattr(row, name) for row in same]):.1f}" for name in names)


def experiment(args: argparse.Namespace) -> Outcome:
    """The chosen tables."""
    found = rows(args)
    tables: list[Table] = []
    values: dict[str, float] = {}
    for name in args.tables or SOURCES:
        lines, numbers = table(name, SOURCES[name], [row for row in found if row.setting.table == name])
        tables.append(lines)
        values |= numbers
    return Outcome(values, tables)


def options() -> argparse.ArgumentParser:
    """Common options, and which rows to measure."""
    found = parser(__doc__)
    found.add_argument("--tables", nargs="+", choices=list(SOURCES), help="only these (all)")
    found.add_argument("--epsilons", nargs="+", type=float, metavar="E", help="only these (all)")
    found.add_argument("--methods", nargs="+", choices=METHODS, help="only these (all)")
    found.add_argument("--keep", metavar="FILE", help="save every finished row, and do not measure it again")
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
