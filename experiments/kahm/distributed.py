"""MNIST spread over sites: what distribution costs (000 Tables 8 to 10).

Every site adds noise to its rows, smooths them once, and fits one wide machine per class it has. The global
answer for a class is the smallest of the sites' answers (000 eq. 104). With one class per site these are
the very machines of the central classifier, so Scenario 1 is computed twice only with noise drawn anew.
``--stopping documented`` takes the document's rule for the number of smoothing steps instead, which looks at
raw rows and so voids the guarantee.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Outcome, Table, main, note, parser, printed_in
from experiments.journal import Journal, add_resume, positive
from onefold import AutoencoderClassifier, WideKAHM, datasets
from onefold.datasets import Dataset
from onefold.exceptions import PrivacyLeakWarning
from onefold.fabrication import Fabricator
from onefold.federated import GlobalClassifier, LocalModel
from onefold.privacy import OptimalNoise

EPSILONS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0, 16.0)
SITES = (2, 5, 10, 20, 50, 100)
SCENARIOS = (1, 2, 3)
TABLE_10_EPSILON = 16.0
DELTA = 1e-5
# The documents stop by looking at raw data, which voids the guarantee. A number fixed in advance does not,
# and one step is what their rule takes on most branches.
STOPPING: dict[str, str | int] = {"one-step": 1, "documented": "documented"}
N_COMPONENTS, N_LAYERS = 20, 5

Rows = NDArray[np.intp]


def private_party(
    X: NDArray[np.floating],
    y: NDArray[np.intp],
    epsilon: float,
    seed: Sequence[int],
    n_layers: int,
    stopping: str,
) -> LocalModel:
    """A site's model of its rows after noise and smoothing; one step uses nothing else of the rows."""
    mechanism = OptimalNoise(epsilon, DELTA, sensitivity=1.0)
    maker = Fabricator(mechanism, N_COMPONENTS, STOPPING[stopping], n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # the titles of the tables say so
        rows = maker.fabricate(X, y, random_state=list(seed))
    machine = WideKAHM(N_COMPONENTS, n_layers, random_state=0, regularisation="documented")
    return LocalModel(AutoencoderClassifier(machine), keep_rows=False).fit(rows, y)


def accuracy(
    data: Dataset,
    sites: Sequence[Rows],
    epsilon: float,
    seed: Sequence[int],
    n_layers: int = N_LAYERS,
    stopping: str = "one-step",
) -> float:
    """Test accuracy of the federation of these sites, each with noise of its own."""
    classes = np.unique(data.y_train)
    server = GlobalClassifier(classes=classes)
    for number, rows in enumerate(sites):
        X, y = data.X_train[rows], data.y_train[rows]
        model = private_party(X, y, epsilon, (*seed, number), n_layers, stopping)
        server.add(number, model.answers(data.X_test, classes))
    return float(np.mean(server.predict() == data.y_test))


def by_class(y: NDArray[np.intp], n_sites: int) -> list[Rows]:
    """Scenarios 1 and 2: every class is at so many sites, in equal parts."""
    return [rows for label in np.unique(y) for rows in np.array_split(np.flatnonzero(y == label), n_sites)]


def experiments(
    args: argparse.Namespace, data: Dataset
) -> Iterator[tuple[str, list[Rows], float, list[int]]]:
    """Name, sites, epsilon and seed of every federation, those first that the summary needs most."""
    for epsilon in sorted(args.epsilons, key=lambda value: (value not in (1.0, 4.0, 16.0), -value)):
        level = int(10 * epsilon)
        # The central classifier is the federation of one class per site: class by class the same machines.
        yield f"central epsilon={epsilon:g}", by_class(data.y_train, 1), epsilon, [0, level]
        if 2 in args.scenarios:
            yield f"halves epsilon={epsilon:g}", by_class(data.y_train, 2), epsilon, [2, level]
    for repeat in range(args.repeats if 3 in args.scenarios else 0):
        for number in args.sites:
            seed = [3, number, repeat]
            owners = datasets.partition(data.y_train, number, "iid", random_state=1000 * number + repeat)
            yield f"random Q={number} repeat={repeat}", owners, TABLE_10_EPSILON, seed
    for epsilon in args.epsilons if 1 in args.scenarios else ():
        seed = [1, int(10 * epsilon)]
        yield f"classes epsilon={epsilon:g}", by_class(data.y_train, 1), epsilon, seed


def load(args: argparse.Namespace) -> Dataset:
    """The first digits as float32 rows in [0, 1]."""
    data = datasets.load("mnist", args.data_dir, dtype=np.float32)
    train, test = (600, 200) if args.quick else (args.digits, len(data.X_test))
    return Dataset(
        data.X_train[:train],
        data.y_train[:train],
        data.X_test[:test],
        data.y_test[:test],
        data.name,
        data.feature_names,
        data.description,
    )


def experiment(args: argparse.Namespace) -> Outcome:
    """All federations, and the three tables."""
    if args.quick:
        args.epsilons, args.sites, args.repeats = [1.0, 16.0], [2, 10], 1
    data = load(args)
    note(f"{len(data.X_train)} digits for training, {len(data.X_test)} for testing")
    journal = Journal(args.resume)
    scores: dict[str, float] = {}
    for name, sites, epsilon, seed in experiments(args, data):
        key = f"mnist {len(data.X_train)}/{len(data.X_test)} L={args.layers} {_rule(args)}{name}"
        if args.only_recorded and key not in journal.entries:
            continue

        def work(
            sites: list[Rows] = sites, epsilon: float = epsilon, seed: list[int] = seed
        ) -> dict[str, float]:
            return {"accuracy": accuracy(data, sites, epsilon, seed, args.layers, args.stopping)}

        scores[name] = journal.run(key, work)["accuracy"]
    label = f"{len(data.X_train)} {_rule(args)}".rstrip()
    rows = {"training": len(data.X_train), "test": len(data.X_test)}
    return Outcome(values(scores, label), tables(scores, args), rows=rows)


def _rule(args: argparse.Namespace) -> str:
    """What stands before a name where the document's rule decides."""
    return "" if args.stopping == "one-step" else f"{args.stopping} "


def values(scores: dict[str, float], label: str) -> dict[str, float]:
    """Accuracies, and the losses by distribution that the document's are compared with."""
    named = {f"{label} {name}": score for name, score in scores.items()}
    for scenario, prefix in (("1, noise drawn anew", "classes"), ("2", "halves")):
        losses = [loss for epsilon in EPSILONS if (loss := loss_of(scores, prefix, epsilon)) is not None]
        if losses:
            named[f"{label} mean loss, scenario {scenario}"] = float(np.mean(losses))
    for prefix in ("central", "classes", "halves"):
        names = [f"{prefix} epsilon={epsilon:g}" for epsilon in EPSILONS]
        if set(names) <= set(scores):
            named[f"{label} mean {prefix}"] = float(np.mean([scores[name] for name in names]))
    for number in SITES:
        found = repeats_of(scores, number)
        if found:
            named[f"{label} random Q={number}"] = float(np.mean(found))
        central = scores.get(f"central epsilon={TABLE_10_EPSILON:g}")
        if found and central is not None:
            named[f"{label} loss Q={number}"] = central - float(np.mean(found))
    return named


def loss_of(scores: dict[str, float], prefix: str, epsilon: float) -> float | None:
    """Central accuracy minus that of the federation, where both were measured."""
    central = scores.get(f"central epsilon={epsilon:g}")
    spread = scores.get(f"{prefix} epsilon={epsilon:g}")
    return None if central is None or spread is None else central - spread


def repeats_of(scores: dict[str, float], number: int) -> list[float]:
    return [score for name, score in scores.items() if name.startswith(f"random Q={number} ")]


def tables(scores: dict[str, float], args: argparse.Namespace) -> list[Table]:
    """The document's three tables with its numbers beside ours."""
    size = f"{600 if args.quick else args.digits} digits, L {args.layers}"
    if args.stopping == "documented":
        size += ", the document's stopping rule: no guarantee"
    found = []
    for number, prefix, title in (
        (8, "classes", "Scenario 1, one class per site, noise drawn anew"),
        (9, "halves", "Scenario 2, two sites per class"),
    ):
        document = printed_in("000", f"Table {number}")
        rows = []
        for epsilon in args.epsilons:
            reported = [document[f"epsilon {epsilon:g}, {where}"] for where in ("distributed", "centralised")]
            central = scores.get(f"central epsilon={epsilon:g}")
            rows.append(
                [
                    f"{epsilon:g}",
                    f"{784 * epsilon:g}",
                    scores.get(f"{prefix} epsilon={epsilon:g}"),
                    central,
                    loss_of(scores, prefix, epsilon),
                    *reported,
                    reported[1] - reported[0],
                ]
            )
        found.append(Table(f"{title} (000 Table {number}), {size}", HEADERS, rows))
    return [*found, table_10(scores, args, size)]


HEADERS = (
    "epsilon per entry",
    "per record",
    "distributed",
    "central",
    "loss",
    "document: distributed",
    "central",
    "loss",
)


def table_10(scores: dict[str, float], args: argparse.Namespace, size: str) -> Table:
    """Random sites, mean over the repeats."""
    document = printed_in("000", "Table 10")
    central = scores.get(f"central epsilon={TABLE_10_EPSILON:g}")
    rows: list[list[object]] = []
    for number in args.sites:
        found = repeats_of(scores, number)
        reported = [document[f"{number} parties, distributed, mean"], document["centralised"]]
        mean = float(np.mean(found)) if found else None
        loss = None if mean is None or central is None else central - mean
        rows.append([number, len(found), mean, central, loss, *reported, reported[1] - reported[0]])
    headers = ("sites", "repeats", "distributed", *HEADERS[3:])
    title = f"Scenario 3, random sites, epsilon {TABLE_10_EPSILON:g} per entry (000 Table 10), {size}"
    return Table(title, headers, rows)


def options() -> argparse.ArgumentParser:
    """Common options, sizes, and where to keep what is done."""
    found = add_resume(parser(__doc__))
    found.add_argument(
        "--digits", type=positive, default=60000, help="number of training digits (default: 60000)"
    )
    found.add_argument(
        "--layers",
        type=positive,
        default=N_LAYERS,
        help=f"number of layers of each machine (default: {N_LAYERS})",
    )
    found.add_argument(
        "--epsilons",
        nargs="+",
        type=float,
        choices=EPSILONS,
        default=list(EPSILONS),
        help="values of epsilon to run (default: all)",
    )
    found.add_argument(
        "--sites",
        "--parties",
        nargs="+",
        type=int,
        choices=SITES,
        default=list(SITES),
        help="numbers of sites to run in scenario 3 (default: all)",
    )
    found.add_argument(
        "--scenarios",
        nargs="+",
        type=int,
        choices=SCENARIOS,
        default=list(SCENARIOS),
        help="scenarios to run (default: all)",
    )
    found.add_argument(
        "--repeats", type=int, default=10, help="number of partitions per number of sites (default: 10)"
    )
    found.add_argument(
        "--stopping",
        choices=list(STOPPING),
        default="one-step",
        help="one smoothing step, or as many as the document's rule finds in raw rows (default: one-step)",
    )
    found.add_argument(
        "--only-recorded", action="store_true", help="print only what --resume FILE already holds"
    )
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
