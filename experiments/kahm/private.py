"""Classifiers on private rows: accuracy, membership-inference score, and what is promised (000 Tables 5-7).

For each epsilon, noise on every entry, and a classifier fitted to the noisy rows (Def. 12) or to rows
fabricated from them (Def. 15): with the document's stopping rule, which looks at raw data and so keeps no
promise, with the honest one, and with one step whatever the data. All methods share their noise. With
``--resume FILE`` every finished row is kept and not measured again.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from experiments.harness import Outcome, Table, main, parser, printed_in
from experiments.journal import Journal, add_resume
from experiments.kahm.private_data import SOURCES, Division, Source
from experiments.kahm.private_row import DELTA, METHODS, N_LAYERS, RAW_CLUSTERS, STOPPING, Setting, measure

Entry = dict[str, Any]
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
    "epsilon per record, and person",
    "seconds of computing: rows, fit, distances",
    "peak MiB",
)
DEFINITIONS = {"noisy": "Def. 12", RAW_CLUSTERS: "Def. 12", **dict.fromkeys(STOPPING, "Def. 15")}
QUICK_SETTINGS = 2


def settings(args: argparse.Namespace) -> Iterator[list[Setting]]:
    """Everything that is asked for, the settings that share rows together."""
    for name in args.data or SOURCES:
        source = SOURCES[name]
        chosen = source.settings[:QUICK_SETTINGS] if args.quick else source.settings
        for seed in range(1 if args.quick else source.n_seeds):
            yield [
                Setting(name, epsilon, n_components, method, seed, args.layers)
                for epsilon, n_components in chosen
                if not args.epsilons or epsilon in args.epsilons
                for method in args.methods or METHODS
                if method != "raw" or epsilon == max(chosen)[0]  # without noise there is one row for each n
                if method != RAW_CLUSTERS or name == "digits"  # elsewhere classes are not divided
            ]


def rows(args: argparse.Namespace) -> list[tuple[Setting, Entry]]:
    """Measure what is not in the file yet."""
    journal = Journal(args.resume)
    found: list[tuple[Setting, Entry]] = []
    for group in settings(args):
        data = functools.cache(functools.partial(SOURCES[group[0].data].load, args, group[0].seed))
        for setting in group:
            work = functools.partial(_measured, setting, data)
            found.append((setting, journal.run(setting.key(args.quick), work)))
    return found


def _measured(setting: Setting, data: Callable[[], Division]) -> Entry:
    return measure(setting, data())


def table(name: str, found: Sequence[tuple[Setting, Entry]]) -> tuple[Table, dict[str, float]]:
    """One line for every setting, means over seeds."""
    source = SOURCES[name]
    reported = printed_in("000", source.document)
    lines: list[list[Any]] = []
    values: dict[str, float] = {}
    for (epsilon, n_components, method), same in _by_setting(source, found).items():
        accuracy = np.array([entry["accuracy"] for entry in same])
        score = float(np.mean([entry["score"] for entry in same]))
        key = f"{epsilon:g}, {n_components}"
        printed = f"epsilon {epsilon:g}, n {n_components}, {DEFINITIONS.get(method)}"
        numbers = [reported.get(f"{printed}, {what}") for what in ("accuracy", "score")]
        spread = float(accuracy.std(ddof=1)) if len(same) > 1 else None
        lines.append([f"{epsilon:g}", n_components, method, float(accuracy.mean()), spread, numbers[0]])
        lines[-1] += [score, numbers[1], float(np.mean([entry["auc"] for entry in same]))]
        lines[-1] += [float(np.mean([entry["error"] for entry in same])), _steps(same)]
        lines[-1] += [_promise(method, same[0]), _seconds(same), max(entry["peak_mib"] for entry in same)]
        path = f"{name} ({key}) {method}"
        values |= {f"{path} accuracy": float(accuracy.mean()), f"{path} score": score}
    values |= means(name, source, values)
    title = f"{source.title}: delta {DELTA:g}, an entry changes by at most 1, L {found[0][0].n_layers}"
    return Table(title, HEADERS, lines, named_by=3), values


def means(name: str, source: Source, values: dict[str, float]) -> dict[str, float]:
    """Means over the rows of the document's table, for the methods of which every row was measured."""
    found: dict[str, float] = {}
    for method, what in itertools.product(METHODS, ("accuracy", "score")):
        names = [
            f"{name} ({epsilon:g}, {n}) {method} {what}" for epsilon, n in (*source.settings, source.twice)
        ]
        if set(names) <= set(values):
            found[f"{name} mean {method} {what}"] = float(np.mean([values[row] for row in names]))
    return found


def _by_setting(
    source: Source, found: Sequence[tuple[Setting, Entry]]
) -> dict[tuple[float, int, str], list[Entry]]:
    """Entries that differ in their seed only, in the order of the document."""
    groups: dict[tuple[float, int, str], list[Entry]] = {
        (epsilon, n_components, method): [] for epsilon, n_components in source.settings for method in METHODS
    }
    for setting, entry in found:
        groups[setting.epsilon, setting.n_components, setting.method].append(entry)
    return {key: entries for key, entries in groups.items() if entries}


def _steps(same: Sequence[Entry]) -> str:
    fewest, most = min(entry["steps"][0] for entry in same), max(entry["steps"][2] for entry in same)
    return f"{fewest} to {most}, mean {np.mean([entry['steps'][1] for entry in same]):.1f}"


def _promise(method: str, entry: Entry) -> str:
    """Of a whole record under the noise of its entries; its label is not covered."""
    if method == "raw":
        return "nothing"
    noise = f"{entry['record_epsilon']:g}"
    if entry.get("person_epsilon") is not None:
        noise += f", {entry['person_epsilon']:g}"
    return noise if entry["holds"] else f"void ({noise} for the noise alone)"


def _seconds(same: Sequence[Entry]) -> str:
    return ", ".join(f"{seconds:.1f}" for seconds in np.mean([entry["cpu"] for entry in same], axis=0))


def experiment(args: argparse.Namespace) -> Outcome:
    """The chosen tables."""
    found = rows(args)
    tables: list[Table] = []
    values: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for name in args.data or SOURCES:
        lines, numbers = table(name, [pair for pair in found if pair[0].data == name])
        tables.append(lines)
        values |= numbers
        first = SOURCES[name].load(args, 0)
        sizes |= {f"{name}, training": len(first.X), f"{name}, test": len(first.X_test)}
    return Outcome(values, tables, seeds=sorted({setting.seed for setting, _ in found}), rows=sizes)


def options() -> argparse.ArgumentParser:
    """Common options, and which rows to measure."""
    found = parser(__doc__)
    found.add_argument("--data", nargs="+", choices=list(SOURCES), help="data to run (default: all)")
    found.add_argument(
        "--epsilons", nargs="+", type=float, metavar="E", help="values of epsilon to run (default: all)"
    )
    found.add_argument("--methods", nargs="+", choices=METHODS, help="methods to run (default: all)")
    found.add_argument(
        "--layers",
        type=int,
        default=N_LAYERS,
        help=f"number of layers of the classifier (default: {N_LAYERS})",
    )
    return add_resume(found)


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
