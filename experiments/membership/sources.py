"""Several private sources for one target: against the best of them, all of them pooled as one, and none.

Photographs: three collections help the fourth. Persons: the recordings of everybody else help with one
person's stress, one source per person. Neither has noise, so nothing is promised: what is compared is the way
sources are used. Sites: the same persons at three sites, each of which releases moments with an epsilon per
record. "Best single" is chosen by the test rows, which nobody could do in use.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments import harness
from experiments.harness import Outcome, Table, parser
from experiments.journal import Journal, add_resume, positive
from experiments.kahm.private_data import stress_recordings
from experiments.membership import domains
from experiments.membership.domains import Rows
from onefold.exceptions import OnefoldWarning
from onefold.privacy import PrivateMoments
from onefold.transfer import PrivateSource, TransferClassifier

LABELS = (1, 3, 10)  # of each class in the target
EPSILON, DELTA = 4.0, 1e-5  # per record, of a site
N_SITES = 3
METHODS = ("no source", "mean single", "best single", "pooled", "sources")


@dataclass(frozen=True)
class Part:
    """Labelled rows of one source."""

    X: Rows
    y: Rows


@dataclass(frozen=True)
class Case:
    """One target and those who could help it."""

    X: Rows
    y: Rows
    parts: list[Part]
    mechanism: PrivateMoments | None


def photographs(args: argparse.Namespace, seed: int) -> Iterator[tuple[str, Case]]:
    """Each collection in turn; the others have as many labelled rows as in the document."""
    for target in domains.SOURCE_ROWS:
        others = [name for name in domains.SOURCE_ROWS if name != target]
        parts = []
        for name in others:
            X, y = domains.photographs(name, args.data_dir)
            chosen = domains.with_few_labels(y, domains.SOURCE_ROWS[name], seed + 1000) >= 0
            parts.append(Part(X[chosen], y[chosen]))
        yield target, Case(*domains.photographs(target, args.data_dir), parts, None)


def persons(args: argparse.Namespace, seed: int) -> Iterator[tuple[str, Case]]:
    """Each person in turn; everybody else is a source."""
    data = stress_recordings(args)
    rows = {person: data.persons == person for person in np.unique(data.persons)}
    for target, own in rows.items():
        parts = [Part(data.X[mine], data.y[mine]) for person, mine in rows.items() if person != target]
        yield f"person {target}", Case(data.X[own], data.y[own], parts, None)


def sites(args: argparse.Namespace, seed: int) -> Iterator[tuple[str, Case]]:
    """Each person in turn; the others are at three sites, in an order of the seed's."""
    data = stress_recordings(args)
    everybody = np.unique(data.persons)
    longest = float(np.sqrt(data.X.shape[1]))  # of a row whose values are in [0, 1]
    mechanism = PrivateMoments(EPSILON, DELTA, classes=[0, 1], radius=longest)
    for target in everybody:
        others = np.random.default_rng([11, seed]).permutation(everybody[everybody != target])
        divided = [np.isin(data.persons, group) for group in np.array_split(others, N_SITES)]
        own = data.persons == target
        parts = [Part(data.X[mine], data.y[mine]) for mine in divided]
        yield f"person {target}", Case(data.X[own], data.y[own], parts, mechanism)


SETTINGS: dict[str, tuple[str, Callable[[argparse.Namespace, int], Iterator[tuple[str, Case]]]]] = {
    "photographs": ("three collections of photographs, no noise", photographs),
    "persons": ("stress, 14 other persons, no noise", persons),
    "sites": (f"stress, {N_SITES} sites, moments with epsilon {EPSILON:g} per record", sites),
}


def run(case: Case, per_class: int, seed: int) -> dict[str, Any]:
    """Accuracy on the rows without a label, by each way to use the sources."""
    seen = domains.with_few_labels(case.y, per_class, seed)
    free = seen < 0

    def accuracy(**given: Any) -> float:
        with warnings.catch_warnings():  # that few labelled rows are right is what is measured here
            warnings.simplefilter("ignore", OnefoldWarning)
            model = TransferClassifier(**given).fit(case.X, seen)
        return float(np.mean(model.predict(case.X[free]) == case.y[free]))

    def source_of(parts: list[Part], number: int) -> PrivateSource:
        X, y = np.vstack([part.X for part in parts]), np.concatenate([part.y for part in parts])
        # A seed, so that a run can be repeated: it voids the guarantee, in an experiment nobody needs it.
        return PrivateSource.fit(X, y, case.mechanism, random_state=100 * seed + number)

    given = [source_of([part], number) for number, part in enumerate(case.parts)]
    single = [accuracy(source=source) for source in given]
    return {
        "no source": accuracy(),
        "mean single": float(np.mean(single)),
        "best single": max(single),
        "pooled": accuracy(source=source_of(case.parts, len(given))),
        "sources": accuracy(sources=given),
    }


def experiment(args: argparse.Namespace) -> Outcome:
    journal = Journal(args.resume)
    values: dict[str, float] = {}
    rows: list[list[object]] = []
    by_target: list[list[object]] = []
    for setting in args.settings:
        found: dict[int, dict[str, list[dict[str, Any]]]] = {count: {} for count in args.labels}
        for seed in range(1 if args.quick else args.seeds):
            for target, case in _cases(setting, args, seed):
                for count in args.labels:
                    entry = journal.run(
                        f"{setting}, {target}, {count} labels, seed {seed}",
                        lambda case=case, count=count, seed=seed: run(case, count, seed),  # type: ignore[misc]
                    )
                    found[count].setdefault(target, []).append(entry)
        for count, targets in found.items():
            runs = [entry for entries in targets.values() for entry in entries]
            rows.append([SETTINGS[setting][0], count, *_means(runs), *_differences(runs), len(runs)])
            values |= {f"{setting}/{count}/{method}": _mean(runs, method) for method in METHODS}
            by_target += [
                [SETTINGS[setting][0], count, target, *_means(entries), len(entries)]
                for target, entries in targets.items()
            ]
    headers = ("data", "labels per class", *METHODS, *(f"sources minus {name}" for name in COMPARED), "runs")
    single = ("data", "labels per class", "target", *METHODS, "runs")
    tables = [
        Table(
            "Several sources, accuracy in %; differences with their standard error over the runs",
            headers,
            rows,
            2,
        ),
        Table("Several sources, target by target, accuracy in %", single, by_target, 3),
    ]
    return Outcome(values, tables, seeds=range(1 if args.quick else args.seeds))


def _cases(setting: str, args: argparse.Namespace, seed: int) -> Iterator[tuple[str, Case]]:
    """All targets, or those that were named; with --quick the first one."""
    for target, case in SETTINGS[setting][1](args, seed):
        if args.targets is None or target in args.targets:
            yield target, case
        if args.quick:
            return


COMPARED = ("no source", "best single", "pooled")


def _mean(runs: list[dict[str, Any]], method: str) -> float:
    return float(np.mean([entry[method] for entry in runs]))


def _means(runs: list[dict[str, Any]]) -> list[object]:
    return [f"{100 * _mean(runs, method):.1f}" for method in METHODS]


def _differences(runs: list[dict[str, Any]]) -> list[object]:
    """Mean difference to other ways on the same rows and labels, with its standard error."""
    cells: list[object] = []
    for method in COMPARED:
        ahead = 100 * np.array([entry["sources"] - entry[method] for entry in runs])
        error = f" ± {ahead.std(ddof=1) / np.sqrt(len(ahead)):.1f}" if len(ahead) > 1 else ""
        cells.append(f"{ahead.mean():+.1f}{error}")
    return cells


def main(arguments: list[str] | None = None) -> int:
    options = add_resume(parser(__doc__))
    options.add_argument(
        "--settings",
        nargs="+",
        choices=list(SETTINGS),
        default=list(SETTINGS),
        help="what to run (default: all)",
    )
    options.add_argument(
        "--labels", nargs="+", type=positive, default=list(LABELS), help="labels per class (default: 1 3 10)"
    )
    options.add_argument("--seeds", type=positive, default=3, help="number of runs per target (default: 3)")
    options.add_argument(
        "--targets", nargs="+", metavar="NAME", help="targets to measure, such as webcam (default: all)"
    )
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
