"""001 Table 16: in how many of the twelve pairs of photographs a method is best or second best.

It counts what ``experiments.membership.office`` has stored, and computes nothing else: the methods of the
document that are run there, the default, and domain adaptation of skada in the place of the methods of other
papers. Methods of equal accuracy share a place, as in the document, whose counts of the best add up to 13.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments import harness, stored
from experiments.harness import Outcome, Table, parser
from experiments.membership import peer
from experiments.membership.office import PAIRS
from onefold.exceptions import InvalidInputError

METHODS = ("SVM", "documented 0.1", "default 0.1", *(f"skada, {name}" for name in peer.METHODS))
PLACES = ("best", "second best")


def places(accuracies: dict[str, float]) -> dict[str, int]:
    """The place of each method, 0 for the best; equal accuracies share a place."""
    order = sorted(set(accuracies.values()), reverse=True)
    return {name: order.index(value) for name, value in accuracies.items()}


def experiment(args: argparse.Namespace) -> Outcome:
    office = stored.read(stored.path_of(Path(__file__).with_name("office.py")))
    if office is None:
        raise InvalidInputError(
            "nothing is stored of experiments.membership.office: run it with --store first"
        )
    found = [places({name: office["values"][f"{_named(pair)} {name}"] for name in METHODS}) for pair in PAIRS]
    counts = {
        name: [sum(of_pair[name] == place for of_pair in found) for place in range(len(PLACES))]
        for name in METHODS
    }
    values = {
        f"{name}, {place}": float(n)
        for name in METHODS
        for place, n in zip(PLACES, counts[name], strict=True)
    }
    rows = [[name, *counts[name]] for name in METHODS]
    title = "In how many of twelve pairs a method is best or second best; ties share a place"
    return Outcome(values, [Table(title, ("method", *PLACES), rows)])


def _named(pair: tuple[str, str]) -> str:
    return " to ".join(pair)


def main(arguments: list[str] | None = None) -> int:
    return harness.main(__file__, parser(__doc__), experiment, arguments)


if __name__ == "__main__":
    sys.exit(main())
