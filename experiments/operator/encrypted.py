"""Encrypted aggregation (004 Table 6): the same accuracy as in clear, and what few bits cost.

The answers of all sites are made whole numbers of 8 bits (16 with ``--bits 16``) and combined under
encryption; the classes that attain the minimum must be those found in clear. Every test row is computed in
``simulate`` mode, the circuit without the encryption, and some of them encrypted for real. The other tables
count the decisions that change when measures are rounded: by the plain map rint((2^p - 1) d), by the map
fitted to 500 test rows without labels, which are then left out, and by that map with several looks at rows
whose classes tie. Of classes that still tie the first is taken; what a draw among them would give on
average is printed beside it. Whether rounding changes accuracy is tested by McNemar's exact test: rows
right only in clear against rows right only after rounding.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from experiments.harness import Outcome, Table, main, parser, printed_in
from experiments.journal import Journal, add_resume, positive
from experiments.operator.answers import ALPHA, CLIENTS, DIGITS, GERMAN, NEWS, Lazy, Measures, lazily, of_rows
from experiments.operator.quantiser import ArgminInLooks, Quantiser, shifts
from onefold.federated.fhe import EncryptedArgmin
from onefold.federated.fhe.argmin import clear_argmin

TABLE_BITS, FLIP_BITS = 8, (4, 5, 6, 8, 10)
LOOKS = 8  # at a row whose classes tie
CHUNK = 2048  # rows in one piece of simulated work
# Rows of one encrypted piece, and the number of pieces.
ENCRYPTED = {NEWS: (64, 2), GERMAN: (128, 1)}

Whole = NDArray[np.int64]
Wins = NDArray[np.bool_]
Pieces = list[dict[str, Any]]


def argmin_of(found: Measures, mode: str, looks: int = LOOKS, bits: int = TABLE_BITS) -> ArgminInLooks:
    """The document's rule for a federation, in one of the modes, with the fitted map."""
    n_clients, _, n_classes = found.answers.shape
    fitted = Quantiser(bits).fit(found.answers[:, found.held_out])
    return ArgminInLooks(EncryptedArgmin(n_clients, n_classes, bits, mode), fitted, looks)


def right(wins: Wins, y: NDArray[np.intp]) -> int:
    """Rows whose first class at the minimum is the true one."""
    return int(np.sum(wins.argmax(axis=1) == y))


def drawn(wins: Wins, y: NDArray[np.intp]) -> float:
    """Rows that are right on average when one of the classes at the minimum is drawn."""
    return float(np.sum(wins[np.arange(len(y)), y] / wins.sum(axis=1)))


def compared(found: Measures, rows: NDArray[np.intp], wins: Wins) -> dict[str, Any]:
    """Rows that are right in clear, after rounding, and in one of the two only."""
    y = found.y[rows]
    clear, rounded = found.exact[rows] == y, wins.argmax(axis=1) == y
    nearest = np.nanmin(found.answers[:, rows], axis=0, initial=np.inf)
    return {
        "rows": len(rows),
        "exact": int(clear.sum()),
        "exact drawn": drawn(nearest == nearest.min(axis=1, keepdims=True), y),
        "rounded": int(rounded.sum()),
        "drawn": drawn(wins, y),
        "only clear": int(np.sum(clear & ~rounded)),
        "only rounded": int(np.sum(rounded & ~clear)),
    }


def simulated_piece(found: Measures, start: int, bits: int, most: int) -> dict[str, Any]:
    """Plain minima and the simulated circuit on a chunk of rows, and whether they agree in every class.

    With more rows than ``most`` the others are decided by the plain minima of the same whole numbers.
    """
    rows = found.others[start : start + CHUNK]
    answers = found.answers[:, rows]
    plainly = clear_argmin(Quantiser(bits).quantise(answers))
    clear = argmin_of(found, "clear", LOOKS, bits).run(answers)
    simulated = clear.copy()
    simulated[:most] = argmin_of(found, "simulate", LOOKS, bits).run(answers[:, :most])
    return compared(found, rows, simulated) | {
        "plain map": right(plainly, found.y[rows]),
        "one look": right(argmin_of(found, "clear", 1, bits).run(answers), found.y[rows]),
        "differ": int(np.sum(np.any(clear != simulated, axis=1))),
    }


def encrypted_piece(found: Measures, start: int, n_rows: int, bits: int) -> dict[str, Any]:
    """The same with real ciphertexts: keys, encryption by every site, the server's part, decryption."""
    rows = found.others[start : start + n_rows]
    answers = found.answers[:, rows]
    argmin = argmin_of(found, "encrypted", LOOKS, bits)
    argmin.run(answers[:, :1])  # makes the keys
    begin = time.process_time()
    wins = argmin.run(answers)
    seconds = time.process_time() - begin
    clear = argmin_of(found, "clear", LOOKS, bits).run(answers)
    return compared(found, rows, wins) | {
        "differ": int(np.sum(np.any(wins != clear, axis=1))),
        "work_seconds": round(seconds, 2),  # of all sites and the server, all looks
    }


def named(name: str, bits: int) -> str:
    """Name of a data set among the values: that of another number of bits than the table's says so."""
    return name if bits == TABLE_BITS else f"{name} {bits} bits"


def looked_at(nearest: NDArray[np.float64], quantiser: Quantiser, looks: int) -> Wins:
    """Classes at the minimum in every look; the minimum over sites commutes with a monotone map.

    :class:`EncryptedArgmin` does the same, but for 20 classes it takes no fewer than 5 bits.
    """
    wins = np.ones(nearest.shape, dtype=bool)
    for shift in (0.0, *shifts(looks)):
        wins &= clear_argmin(quantiser.quantise(nearest, shift)[None])
    return wins


def flips_piece(found: Measures, bits: int) -> dict[str, Any]:
    """Decisions that rounding changes, and rows with more than one class left, by both maps."""
    nearest = np.nanmin(found.answers[:, found.others], axis=0, initial=1.0)
    exact, y = nearest.argmin(axis=1), found.y[found.others]
    fitted = Quantiser(bits).fit(found.answers[:, found.held_out])
    result: dict[str, Any] = {"bound": fitted.clip_, "power": fitted.power_, "floor": fitted.floor_}
    for name, quantiser, looks in (
        ("plain", Quantiser(bits), 1),
        ("fitted", fitted, 1),
        ("looks", fitted, LOOKS),
    ):
        wins = looked_at(nearest, quantiser, looks)
        decided = wins.argmax(axis=1)
        result[f"{name} flips"] = float(np.mean(decided != exact))
        result[f"{name} ties"] = float(np.mean(wins.sum(axis=1) > 1))
        result[f"{name} change of accuracy"] = float(np.mean(decided == y) - np.mean(exact == y))
    return result


def pieces(name: str, args: argparse.Namespace, journal: Journal, found: Lazy) -> tuple[Pieces, Pieces]:
    """All rows simulated, and some encrypted, piece by piece."""
    key = f"encrypted{' quick' if args.quick else ''} {name}{of_rows(args)} {args.bits} bits"
    key += "" if args.simulate == CHUNK else f", {args.simulate} in the circuit"
    size = journal.run(f"{key} size", lambda: {"rows": len(found().others)})["rows"]
    simulated = [
        journal.run(
            f"{key} simulated {start}", partial(work, simulated_piece, found, start, args.bits, args.simulate)
        )
        for start in range(0, size, CHUNK)
    ]
    each, number = ENCRYPTED[name] if args.encrypt is None else (max(args.encrypt, 1), int(args.encrypt > 0))
    each, number = (16, 1) if args.quick else (each, number)
    encrypted = [
        journal.run(
            f"{key} encrypted {each} {start}", partial(work, encrypted_piece, found, start, each, args.bits)
        )
        for start in range(0, min(size, number * each), each)
    ]
    return simulated, encrypted


def work(piece: Callable[..., dict[str, Any]], found: Lazy, *sizes: int) -> dict[str, Any]:
    """One piece, with the measures made only now."""
    return piece(found(), *sizes)


def share(done: Pieces, what: str) -> float:
    """Part of the rows of some pieces."""
    return float(sum(piece[what] for piece in done) / sum(piece["rows"] for piece in done))


def mcnemar(done: Pieces) -> float:
    """The exact test that rows right only in clear are as many as those right only after rounding."""
    lost, won = (sum(piece[what] for piece in done) for what in ("only clear", "only rounded"))
    return float(binomtest(lost, lost + won).pvalue) if lost + won else 1.0


def table_6(args: argparse.Namespace, journal: Journal, outcome: Outcome, found: dict[str, Lazy]) -> None:
    """Accuracy in clear, simulated and encrypted."""
    rows: list[list[object]] = []
    document = printed_in("004", "Table 6")
    for name, source in zip(ENCRYPTED, ("20 Newsgroups", "XGLUE-NC"), strict=True):
        if name not in args.data:
            continue
        simulated, encrypted = pieces(name, args, journal, found[name])
        values: dict[str, float | None] = {
            "plain": share(simulated, "exact"),
            "plain map": share(simulated, "plain map"),
            "one look": share(simulated, "one look"),
            "simulated": share(simulated, "rounded"),
            "plain drawn": share(simulated, "exact drawn"),
            "simulated drawn": share(simulated, "drawn"),
            "only clear": float(sum(piece["only clear"] for piece in simulated)),
            "only rounded": float(sum(piece["only rounded"] for piece in simulated)),
            "McNemar p": mcnemar(simulated),
            "rows encrypted": float(sum(piece["rows"] for piece in encrypted)),
            "plain there": share(encrypted, "exact") if encrypted else None,
            "encrypted": share(encrypted, "rounded") if encrypted else None,
            "rows that differ": float(sum(piece["differ"] for piece in (*simulated, *encrypted))),
        }
        measured = {what: value for what, value in values.items() if value is not None}
        outcome.values.update({f"{named(name, args.bits)} {what}": value for what, value in measured.items()})
        rows.append([name, *(None if value is None else f"{value:.4g}" for value in values.values())])
        rows[-1] += [share(encrypted, "work_seconds") if encrypted else None]
        rows[-1] += [document[f"{args.bits} bits, {source}, accuracy"]]
    title = f"Dirichlet {ALPHA:g}, measures of {args.bits} bits"
    outcome.tables.append(Table(title, TABLE_6_HEADERS, rows))


TABLE_6_HEADERS = (
    "data",
    "plain",
    "plain map",
    "fitted map, one look",
    f"simulated, {LOOKS} looks",
    "plain, ties drawn",
    "simulated, ties drawn",
    "right only in clear",
    "right only rounded",
    "McNemar p",
    "rows encrypted",
    "plain there",
    "encrypted",
    "rows that differ",
    "CPU s per row, all roles",
    "document",
)


def flips(args: argparse.Namespace, journal: Journal, outcome: Outcome, measures: dict[str, Lazy]) -> None:
    """What rounding to a few bits changes."""
    for name in (DIGITS, NEWS):
        rows: list[list[object]] = []
        for bits in FLIP_BITS:
            key = f"encrypted{' quick' if args.quick else ''} {name} flips{of_rows(args)} at {bits} bits"
            found = journal.run(key, partial(work, flips_piece, measures[name], bits))
            shown: list[object] = [bits]
            for map_ in ("plain", "fitted", "looks"):
                shown += [f"{100 * found[f'{map_} {what}']:.2f} %" for what in ("flips", "ties")]
                shown.append(f"{100 * found[f'{map_} change of accuracy']:+.2f}")
                outcome.values[f"{name} {bits} bits {map_} flips"] = found[f"{map_} flips"]
            rows.append([*shown, *(f"{found[what]:.3g}" for what in ("floor", "bound", "power"))])
        outcome.tables.append(Table(f"{name}: decisions changed by rounding", FLIP_HEADERS, rows))


FLIP_HEADERS = (
    "bits",
    "plain: flips",
    "ties",
    "accuracy, points",
    "fitted: flips",
    "ties",
    "accuracy, points",
    f"{LOOKS} looks: flips",
    "ties",
    "accuracy, points",
    "floor",
    "bound",
    "power",
)


def experiment(args: argparse.Namespace) -> Outcome:
    """The document's table, then the flips."""
    journal, outcome = Journal(args.resume), Outcome({}, [])
    measures = {name: lazily(name, args) for name in CLIENTS}
    if args.part != "flips":
        table_6(args, journal, outcome, measures)
    if args.part != "table":
        flips(args, journal, outcome, measures)
    return outcome


def options() -> argparse.ArgumentParser:
    """Common options, and where to keep what is done."""
    found = add_resume(parser(__doc__))
    found.add_argument(
        "--bits",
        type=int,
        choices=(TABLE_BITS, 16),
        default=TABLE_BITS,
        help=f"bits of a measure in the table (default: {TABLE_BITS})",
    )
    found.add_argument(
        "--test-rows",
        type=positive,
        metavar="N",
        help="number of test rows to ask about, evenly spread (default: all)",
    )
    found.add_argument(
        "--simulate",
        type=positive,
        default=CHUNK,
        metavar="N",
        help=f"rows of each {CHUNK} that go through the circuit without encryption (default: all)",
    )
    found.add_argument(
        "--encrypt", type=int, metavar="N", help="number of rows to encrypt, perhaps 0 (default: 128)"
    )
    found.add_argument(
        "--data",
        nargs="+",
        choices=tuple(ENCRYPTED),
        default=list(ENCRYPTED),
        help="data sets of the table (default: both)",
    )
    found.add_argument("--part", choices=("table", "flips"), help="part to run (default: both)")
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
