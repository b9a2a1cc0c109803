"""Ten sites with digits, two of which lie: what each rule loses, for equal and unequal shares of the classes.

The data comes with the package. Every rule expects two liars; the weighted one has a hundred labelled rows
that no site has. Losses are against the honest federation by the documents' rule, in points. In the joined
federation liars also send sums in which every label is that of the next class.
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
from onefold.federated import Agreement, JoinedSums, LocalModel, Offset
from onefold.federated.joined_server import agree_on_units, publish
from onefold.federated.rules import checked, decide, minimum, trimmed, weighted
from onefold.federated.simulate import LIES, lie
from onefold.federated.trust import learn_trust

N_CLIENTS, N_LABELLED, N_DIRECTIONS, LARGEST = 10, 100, 200, 1.0
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


def with_liars(answers: Array, liars: tuple[int, ...], kind: str, largest: float = LARGEST) -> Array:
    """The same with some sites that lie in one way."""
    rng, lying = np.random.default_rng(5), answers.copy()
    for client in liars:
        lying[client] = lie(kind, answers[client], largest, rng)
    return lying


class Joined:
    """The joined federation: squared distances of the sites, and their sums, honest and with wrong labels."""

    def __init__(self, data: datasets.Dataset, rows: list[Labels]) -> None:
        units, classes = agree_on_units(data.X_train[mine] for mine in rows), np.arange(10)
        self.agreement = Agreement(classes, 8.0, N_DIRECTIONS)
        self.asked = units.apply(data.X_test)
        self.squares, self.sums = [], []
        for mine in rows:
            X, y = units.apply(data.X_train[mine]), data.y_train[mine]
            model = LocalModel(FoldingClassifier(batch_size=50, measure="euclidean")).fit(X, y)
            self.squares.append(model.answers(self.asked, classes).astype(np.float64) ** 2)
            wrong = JoinedSums.of(self.agreement, X, (y + 1) % 10, model.estimator_.leave_one_out_squares())
            self.sums.append((model.joined_sums(self.agreement), wrong))

    def published(self, liars: tuple[int, ...]) -> Offset:
        """What the server makes of the sums when these sites swap labels."""
        total, *others = (both[number in liars] for number, both in enumerate(self.sums))
        for each in others:
            total = total.add(each)
        return publish(self.agreement, total)

    def stories(self, quick: bool) -> Iterator[tuple[str, list[Array]]]:
        """Each lie with all pairs of liars, nobody lying, and lies in the sums alone."""
        pairs = PAIRS[:1] if quick else PAIRS
        yield "nobody", [np.stack(self.squares) + self.published(()).of(self.asked)]
        moved = [np.stack(self.squares) + self.published(pair).of(self.asked) for pair in pairs]
        yield "sums", moved
        for kind in LIES:
            given = zip(moved, pairs, strict=True)
            yield kind, [with_liars(answers, pair, kind, np.inf) for answers, pair in given]


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
            joined = {"min": minimum, "checked": lambda answers: checked(answers, len(PAIRS[0]))}
            for kind, cases in Joined(data, [rest[part] for part in parts]).stories(args.quick):
                for name, rule in joined.items():
                    found = [np.mean(decide(rule(case)) == data.y_test) for case in cases]
                    key = (share, f"joined {name}", kind)
                    losses.setdefault(key, []).extend(100 * (honest - np.array(found)))
    return outcome(losses)


def outcome(losses: dict[tuple[str, str, str], list[float]]) -> Outcome:
    """Points lost, mean / worst."""
    kinds = ["nobody", *LIES, "sums"]
    rows: list[list[object]] = []
    for share, name in dict.fromkeys(key[:2] for key in losses):
        cells = [losses.get((share, name, kind)) for kind in kinds]
        shown = ("" if cell is None else f"{np.mean(cell):.1f} / {np.max(cell):.1f}" for cell in cells)
        rows.append([share, name, *shown])
    headers = ("sites' shares", "rule", *("nobody lies", *LIES, "wrong sums alone"))
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
