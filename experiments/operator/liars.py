"""Ten sites with digits, two of which lie: what each rule loses, for equal and unequal shares of the classes.

The data comes with the package. Every rule expects two liars; the weighted one has a hundred labelled rows
that no site has. Losses are against the honest federation by the documents' rule, in points.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from experiments.harness import Outcome, Table, main, parser
from experiments.journal import positive
from onefold import FoldingClassifier, datasets
from onefold.federated import LocalModel
from onefold.federated.rules import checked, decide, minimum, trimmed, weighted
from onefold.federated.simulate import LIES, lie
from onefold.federated.trust import learn_trust

N_CLIENTS, N_LABELLED, LARGEST = 10, 100, 1.0
SHARES: dict[str, dict[str, float] | None] = {
    "equal": None,
    "Dirichlet 1": {"alpha": 1.0},
    "Dirichlet 0.3": {"alpha": 0.3},
}
PAIRS = ((2, 7), (0, 1), (3, 8), (4, 9), (5, 6))

Array = NDArray[np.floating]
Labels = NDArray[np.intp]
Rule = Callable[[Array, Array], Array]


def rules(labels: Labels) -> dict[str, Rule]:
    """From answers to the test rows and to the labelled ones to one measure per class."""
    f = len(PAIRS[0])
    return {
        "min": lambda answers, _: minimum(answers),
        "trimmed": lambda answers, _: trimmed(answers, f, largest=LARGEST),
        "checked": lambda answers, _: checked(answers, f, LARGEST),
        "weighted": lambda answers, known: weighted(answers, learn_trust(known, labels, LARGEST), LARGEST),
    }


def answers_of(data: datasets.Dataset, rows: list[Labels], labelled: Labels) -> tuple[Array, Array]:
    """What honest sites with these rows answer to the test rows, and to the labelled ones."""
    estimator, classes = (
        FoldingClassifier(n_components=10, batch_size=50, regularisation="documented"),
        np.arange(10),
    )
    asked, known = [], []
    for mine in rows:
        model = LocalModel(estimator, keep_rows=False).fit(data.X_train[mine], data.y_train[mine])
        asked.append(model.answers(data.X_test, classes))
        known.append(model.answers(data.X_train[labelled], classes))
    return np.stack(asked), np.stack(known)


def with_liars(answers: Array, liars: tuple[int, ...], kind: str) -> Array:
    """The same with some sites that lie in one way."""
    rng, lying = np.random.default_rng(5), answers.copy()
    for client in liars:
        lying[client] = lie(kind, answers[client], LARGEST, rng)
    return lying


def stories(answers: Array, known: Array, quick: bool) -> Iterator[tuple[str, list[tuple[Array, Array]]]]:
    """Each lie with all pairs of liars, and nobody lying."""
    yield "nobody", [(answers, known)]
    for kind in LIES:
        pairs = PAIRS[:1] if quick else PAIRS
        yield kind, [(with_liars(answers, p, kind), with_liars(known, p, kind)) for p in pairs]


def experiment(args: argparse.Namespace) -> Outcome:
    """One table: mean and worst loss for every rule, lie and way of sharing."""
    data = datasets.load("digits")
    order = np.random.default_rng(0).permutation(len(data.y_train))
    labelled, rest = order[:N_LABELLED], order[N_LABELLED:]
    losses: dict[tuple[str, str, str], list[float]] = {}
    for share, options in SHARES.items():
        for seed in range(1 if args.quick else args.seeds):
            way = "iid" if options is None else "dirichlet"
            parts = datasets.partition(
                data.y_train[rest], N_CLIENTS, way, random_state=seed, **(options or {})
            )
            answers, known = answers_of(data, [rest[part] for part in parts], labelled)
            honest = np.mean(decide(minimum(answers)) == data.y_test)
            for name, rule in rules(data.y_train[labelled]).items():
                for kind, cases in stories(answers, known, args.quick):
                    found = [np.mean(decide(rule(*case)) == data.y_test) for case in cases]
                    losses.setdefault((share, name, kind), []).extend(100 * (honest - np.array(found)))
    return outcome(losses)


def outcome(losses: dict[tuple[str, str, str], list[float]]) -> Outcome:
    """Points lost, mean / worst."""
    kinds = ["nobody", *LIES]
    rows: list[list[object]] = []
    for share, name in dict.fromkeys(key[:2] for key in losses):
        cells = [losses[share, name, kind] for kind in kinds]
        rows.append([share, name, *(f"{np.mean(cell):.1f} / {np.max(cell):.1f}" for cell in cells)])
    headers = ("sites' shares", "rule", *("nobody lies", *LIES))
    title = "Ten sites with digits, two of which lie: points lost, mean / worst"
    values = {f"liars {' '.join(key)} worst": float(np.max(found)) for key, found in losses.items()}
    return Outcome(values, [Table(title, headers, rows)])


def options() -> argparse.ArgumentParser:
    """Common options, and how many partitions."""
    found = parser(__doc__)
    found.add_argument(
        "--seeds", type=positive, default=3, help="number of partitions per way of sharing (default: 3)"
    )
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
