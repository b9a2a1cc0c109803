"""001 Tables 1-3: digits from one collection help with another that has few labels.

For every row the accuracy of the strategy, of the target alone and of the source alone. "documented" adds
noise to every pixel, and its epsilon is per **entry** of an image; "default" on gradient histograms releases
moments, and its epsilon is per **record**, an image with its label. Delta is 1e-5.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from experiments import harness
from experiments.harness import Outcome, parser, printed_for
from experiments.journal import Journal, add_resume, positive
from experiments.membership import domains
from experiments.membership.domains import Domain
from experiments.membership.measuring import mean, summary, table, transfer
from onefold import WideMembershipAutoencoder
from onefold.privacy import OptimalNoise, PrivateMoments
from onefold.transfer import PrivateSource

DELTA = 1e-5
CLASSES = range(10)
METHODS = ("documented", "moments")


@dataclass(frozen=True)
class Piece:
    """What is measured for several seeds: a row of a table."""

    pair: str
    method: str  # documented or moments
    epsilon: float | None
    per_class: int  # labels of each class in the target

    @property
    def key(self) -> str:
        """Its name in the journal and in expected.json."""
        noise = "none" if self.epsilon is None else f"{self.epsilon:g}"
        return f"{self.pair} {self.method} epsilon {noise} labels {10 * self.per_class}"


TABLES: dict[str, tuple[str, tuple[Piece, ...]]] = {
    "1": (
        "Table 1, MNIST to MNIST, 10 labels per class",
        (
            Piece("mnist-mnist", "documented", 0.1, 10),
            Piece("mnist-mnist", "documented", None, 10),
            Piece("mnist-mnist", "moments", 0.1, 10),
            Piece("mnist-mnist", "moments", 1.0, 10),
            Piece("mnist-mnist", "moments", 1.0, 1),
        ),
    ),
    "2": (
        "Table 2, MNIST to USPS, 10 labels per class",
        (
            *(Piece("mnist-usps", "documented", epsilon, 10) for epsilon in (0.1, 1.0, None)),
            *(Piece("mnist-usps", "moments", epsilon, 10) for epsilon in (0.1, 1.0, None)),
            Piece("mnist-usps", "moments", 1.0, 1),
        ),
    ),
    "3": (
        "Table 3, USPS to MNIST, 100 to 500 labels",
        (
            *(Piece("usps-mnist", "documented", 0.1, count) for count in (10, 20, 30, 40, 50)),
            *(Piece("usps-mnist", "moments", 1.0, count) for count in (10, 20, 30, 40, 50)),
            Piece("usps-mnist", "moments", 1.0, 1),
        ),
    ),
}


@dataclass(frozen=True)
class Sizes:
    """How much of the data is used: pixels are many, and the documents' mapping takes its time."""

    target: int
    test: int
    source: int | None = None  # None: all rows

    def __str__(self) -> str:
        return f"{self.source or 'all'} rows of the source, {self.target} of the target, {self.test} to test"


def sizes_of(piece: Piece, args: argparse.Namespace) -> Sizes:
    """Encoded digits are cheap."""
    if args.quick:
        return Sizes(300, 100, 3000 if piece.method == "moments" else 600)
    if piece.method == "moments":
        return Sizes(args.encoded_rows, args.test_rows)
    return Sizes(args.pixel_rows, min(500, args.test_rows), args.source_rows)


def target_of(piece: Piece, load: Callable[..., Domain], sizes: Sizes, args: Any, seed: int) -> Domain:
    """Rows of the target with their labels, and test rows."""
    domain = load(piece.pair.split("-")[1], args.data_dir)
    if piece.pair == "mnist-mnist":
        return domains.divided_test(domain, min(9000, sizes.target), min(1000, sizes.test), seed)
    if piece.pair == "mnist-usps":  # the test part is small: all of it
        return domains.part(domain, sizes.target, len(domain.X_test), seed)
    return domains.part(domain, sizes.target, sizes.test, seed)


def run(piece: Piece, sizes: Sizes, args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One seed: other noise, other labels, other rows."""
    load = domains.encoded if piece.method == "moments" else domains.digits
    target = target_of(piece, load, sizes, args, seed)
    seen = domains.with_few_labels(target.y, piece.per_class, seed)
    given = load(piece.pair.split("-")[0], args.data_dir)
    arguments = (target.X, seen, target.X_test, target.y_test)
    if piece.method == "moments":
        moments = PrivateMoments(piece.epsilon, DELTA, classes=CLASSES)
        rows = slice(sizes.source)
        source = PrivateSource.fit(given.X[rows], given.y[rows], moments, random_state=seed)
        return transfer(source, "default", *arguments)
    given = domains.part(given, sizes.source or len(given.X), 0, seed)
    noise = None if piece.epsilon is None else OptimalNoise(piece.epsilon, DELTA, sensitivity=1.0)
    machine = WideMembershipAutoencoder(random_state=0)
    source = PrivateSource.fit(given.X, given.y, noise, estimator=machine, random_state=seed)
    return transfer(source, "documented", *arguments)


def pieces(args: argparse.Namespace) -> Iterator[tuple[str, Piece]]:
    for name in args.tables:
        for piece in TABLES[name][1]:
            if piece.method in args.methods:
                yield name, piece


def experiment(args: argparse.Namespace) -> Outcome:
    journal = Journal(args.resume)
    rows: dict[str, list[list[object]]] = {name: [] for name in args.tables}
    values: dict[str, float] = {}
    for name, piece in pieces(args):
        sizes = sizes_of(piece, args)
        runs = [
            journal.run(
                f"{piece.key}, {sizes}, seed {seed}",
                lambda piece=piece, sizes=sizes, seed=seed: run(piece, sizes, args, seed),  # type: ignore[misc]
            )
            for seed in range(args.seeds)
        ]
        unit = "record" if piece.method == "moments" else "entry"
        epsilon = "none" if piece.epsilon is None else f"{piece.epsilon:g} per {unit}"
        label: list[object] = [piece.method, epsilon, 10 * piece.per_class]
        rows[name].append([*summary(label, runs), printed_for(__file__, piece.key)])
        values[piece.key] = mean(runs)
        values[f"{piece.key}, target alone"] = mean(runs, "target alone")
    tables = [with_document(TABLES[name][0], rows[name]) for name in args.tables]
    return Outcome(values, tables)


def with_document(title: str, rows: list[list[object]]) -> harness.Table:
    """A table with the document's number in its last column."""
    plain = table(title, ("method", "epsilon", "labels"), rows)
    return harness.Table(plain.title, (*plain.headers, "document"), plain.rows)


def main(arguments: list[str] | None = None) -> int:
    options = add_resume(parser(__doc__))
    options.add_argument(
        "--tables",
        nargs="+",
        choices=list(TABLES),
        default=list(TABLES),
        help="tables of the document to run (default: all)",
    )
    options.add_argument(
        "--methods", nargs="+", choices=METHODS, default=list(METHODS), help="methods to run (default: all)"
    )
    options.add_argument(
        "--seeds", type=positive, default=5, help="number of runs per row of the table (default: 5)"
    )
    options.add_argument(
        "--source-rows",
        type=positive,
        default=2000,
        help="number of rows of a source of pixels (default: 2000)",
    )
    options.add_argument(
        "--pixel-rows",
        type=positive,
        default=1000,
        help="number of rows of a target of pixels (default: 1000)",
    )
    options.add_argument(
        "--encoded-rows",
        type=positive,
        default=3000,
        help="number of rows of an encoded target (default: 3000)",
    )
    options.add_argument(
        "--test-rows", type=positive, default=2000, help="largest number of rows to test on (default: 2000)"
    )
    return harness.main(__file__, options, experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
