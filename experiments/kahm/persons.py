"""Every person a site: stress of 15 persons, each with a wrist band of their own (beside 000 Tables 7 and 9).

A person's band adds noise to its windows and fits one machine per class; the smallest distance of all bands
decides (000 eq. 104). Beside it the central classifier of all windows. Tested on the windows that were kept
back of the same persons, and on persons who are no site. A person is the unit that needs protection, so the
table says what the noise promises for all windows of one person.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from experiments.harness import Outcome, Table, main, parser
from experiments.journal import Journal, add_resume, positive
from experiments.kahm.private_data import Division, stress, stress_of_others
from experiments.kahm.private_row import Setting, classifier, private_rows
from onefold import datasets
from onefold.federated import GlobalClassifier, LocalModel

Entry = dict[str, Any]
Load = Callable[[argparse.Namespace, int], Division]
DIVISIONS: dict[str, Load] = {"same persons": stress, "other persons": stress_of_others}
EPSILONS = (8.0, 16.0, 24.0, 32.0)
METHODS = ("noisy", "one-step")
N_COMPONENTS, N_SEEDS = 5, 10
HEADERS = (
    "tested on",
    "epsilon per entry",
    "method",
    "each person a site",
    "± std",
    "central",
    "± std",
    "epsilon per person",
)


def sites_of(data: Division) -> list[Division]:
    """The training windows of one person after the other."""
    assert data.persons is not None
    n_sites = len(np.unique(data.persons))
    owners = datasets.partition(data.y, n_sites, "groups", groups=data.persons, random_state=0)
    return [
        Division(
            data.X[rows],
            data.y[rows],
            data.X_test,
            data.y_test,
            data.members,
            data.persons[rows],
            data.rows_per_person,
        )
        for rows in owners
    ]


def accuracy(setting: Setting, sites: list[Division]) -> Entry:
    """Accuracy of a federation of these sites, each with noise of its own, and what a person is promised."""
    classes = np.unique(np.concatenate([site.y for site in sites]))
    server = GlobalClassifier(classes=classes)
    promise = None
    for number, site in enumerate(sites):
        own = Setting(**{**vars(setting), "seed": 1000 * setting.seed + number})
        rows, guarantee, _ = private_rows(own, site)
        promise = guarantee.person
        model = LocalModel(classifier(own), keep_rows=False).fit(rows, site.y)
        server.add(number, model.answers(site.X_test, classes))
    found = float(np.mean(server.predict() == sites[0].y_test))
    return {"accuracy": found, "person_epsilon": None if promise is None else promise[0]}


def settings(args: argparse.Namespace) -> Iterator[tuple[str, Setting]]:
    """Every division, noise, method and seed; without noise there is one method."""
    seeds = range(1 if args.quick else args.seeds)
    for name in DIVISIONS:
        pairs = [(max(EPSILONS), "raw"), *((epsilon, method) for epsilon in EPSILONS for method in METHODS)]
        for epsilon, method in pairs[:3] if args.quick else pairs:
            for seed in seeds:
                yield name, Setting("stress", epsilon, N_COMPONENTS, method, seed)


def experiment(args: argparse.Namespace) -> Outcome:
    """Both ways of putting the windows together, means over the seeds."""
    journal = Journal(args.resume)
    measured: dict[tuple[str, float, str], dict[str, list[Entry]]] = {}
    for name, setting in settings(args):
        data = functools.cache(functools.partial(DIVISIONS[name], args, setting.seed))
        ways: dict[str, Callable[[], list[Division]]] = {
            "sites": functools.partial(_sites, data),
            "central": functools.partial(_central, data),
        }
        row = measured.setdefault((name, setting.epsilon, setting.method), {way: [] for way in ways})
        for way, parts in ways.items():
            key = f"{name}, {way}, {setting.key(args.quick)}"
            row[way].append(journal.run(key, functools.partial(_measured, setting, parts)))
    rows: list[list[Any]] = []
    values: dict[str, float] = {}
    for (name, epsilon, method), row in measured.items():
        noise = "none" if method == "raw" else f"{epsilon:g}"
        rows.append([name, noise, method])
        for way, entries in row.items():
            found = np.array([entry["accuracy"] for entry in entries])
            rows[-1] += [float(found.mean()), float(found.std(ddof=1)) if len(found) > 1 else None]
            values[f"{name.replace(' ', '-')}/{noise}/{method}/{way}/accuracy"] = float(found.mean())
        promise = row["sites"][0]["person_epsilon"]
        rows[-1].append("nothing" if method == "raw" or promise is None else f"{promise:g}")
    title = f"Stress, n {N_COMPONENTS}, L 5, delta 1e-05 per entry, an entry changes by at most 1"
    table = Table(title, HEADERS, rows, named_by=3)
    sizes = {}
    for name, load in DIVISIONS.items():
        first = load(args, 0)
        sizes |= {f"{name}, training": len(first.X), f"{name}, test": len(first.X_test)}
    return Outcome(values, [table], seeds=list(range(1 if args.quick else args.seeds)), rows=sizes)


def _sites(data: Callable[[], Division]) -> list[Division]:
    return sites_of(data())


def _central(data: Callable[[], Division]) -> list[Division]:
    return [data()]


def _measured(setting: Setting, parts: Callable[[], list[Division]]) -> Entry:
    return accuracy(setting, parts())


def options() -> argparse.ArgumentParser:
    """Common options, and how often the persons' windows are divided."""
    found = parser(__doc__)
    found.add_argument(
        "--seeds", type=positive, default=N_SEEDS, help=f"number of divisions (default: {N_SEEDS})"
    )
    return add_resume(found)


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
