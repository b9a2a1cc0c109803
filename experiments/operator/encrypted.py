"""Encrypted aggregation (004 Table 6): the same accuracy as in clear, and what few bits cost.

The answers of all clients are made whole numbers of 8 bits and combined under encryption; the classes that
attain the minimum must be those found in clear. Every test row is computed in ``simulate`` mode, the circuit
without the encryption, and some of them encrypted for real. The other tables count the decisions that change
when measures are rounded: by the plain map rint((2^p - 1) d), and by the map fitted to 500 test rows without
labels, which are then left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from experiments.harness import Outcome, Table, documented, main, note, parser
from experiments.journal import Journal, add_resume
from experiments.operator import folding
from experiments.operator.data import Task, german_news, newsgroups
from onefold import FoldingClassifier, datasets
from onefold.federated import LocalModel
from onefold.federated.fhe import EncryptedArgmin, Quantiser
from onefold.federated.fhe.argmin import clear_argmin

ALPHA, BATCH, SEED = 0.1, 100, 0
TABLE_BITS, FLIP_BITS = 8, (4, 5, 6, 8, 10)
N_HELD_OUT = 500
CHUNK = 2048  # rows in one piece of simulated work
NEWS, GERMAN, DIGITS = "20 Newsgroups", "German news", "digits"
# Clients, and rows of one encrypted piece with the number of pieces.
CLIENTS = {NEWS: 100, GERMAN: 20, DIGITS: 4}
ENCRYPTED = {NEWS: (64, 2), GERMAN: (128, 1)}

Whole = NDArray[np.int64]
Wins = NDArray[np.bool_]
Pieces = list[dict[str, Any]]


@dataclass(frozen=True)
class Measures:
    """What the clients answer about the test rows, (Q, n, C) with NaN for missing classes, and the truth."""

    answers: NDArray[np.float64]
    y: NDArray[np.intp]

    @property
    def exact(self) -> NDArray[np.intp]:
        """The decisions of the measures as they are (004 eq. 105 and 106)."""
        return np.asarray(np.nanmin(self.answers, axis=0, initial=np.inf).argmin(axis=1))

    @property
    def held_out(self) -> NDArray[np.intp]:
        """Rows for fitting the map: every so-many-th."""
        n_rows = len(self.y)
        return np.linspace(0, n_rows - 1, min(N_HELD_OUT, n_rows // 2)).astype(np.intp)

    @property
    def others(self) -> NDArray[np.intp]:
        """The rows on which it is judged."""
        return np.setdiff1d(np.arange(len(self.y)), self.held_out)


Lazy = Callable[[], Measures]


def load_task(name: str, args: argparse.Namespace) -> Task:
    """Data scaled as in the other experiments; digits are divided by their largest entry."""
    if name == NEWS:
        return newsgroups(args.data_dir, args.quick)
    if name == GERMAN:
        return german_news(args.data_dir, "sentence", SEED)
    X, y = load_digits(return_X_y=True)
    X_train, y_train, X_test, y_test = datasets.train_test_split(
        X.astype(np.float32) / np.float32(16), y, test_size=0.4, random_state=SEED
    )
    return Task(DIGITS, X_train, y_train, X_test, y_test)


def lazily(name: str, args: argparse.Namespace) -> Lazy:
    """The measures of a federation, made when they are first needed."""

    @cache
    def measures() -> Measures:
        kept = None if args.resume is None or args.quick else answers_file(args.resume, name)
        if kept is not None and kept.exists():
            with np.load(kept, allow_pickle=False) as found:
                return Measures(found["answers"], found["y"])
        made = federation_answers(name, args)
        if kept is not None:
            np.savez(kept, answers=made.answers, y=made.y)
        return made

    return measures


def answers_file(resume: str, name: str) -> Path:
    """Beside the finished pieces: what the clients answered, which is most of the work."""
    return Path(resume).with_name(f"answers-{name.replace(' ', '-')}.npz")


def federation_answers(name: str, args: argparse.Namespace) -> Measures:
    """Every client fits its rows and answers about the test rows."""
    task = load_task(name, args)
    n_clients = min(CLIENTS[name], 5) if args.quick else CLIENTS[name]
    owners = datasets.partition(task.y, n_clients, "dirichlet", alpha=ALPHA, random_state=SEED)
    answers = np.full((len(owners), len(task.X_test), len(task.classes)), np.nan)
    for number, (X, y) in enumerate(folding.clients(task, owners)):
        classifier = FoldingClassifier(batch_size=BATCH, measure="rms", n_jobs=1)
        model = LocalModel(classifier, keep_rows=False).fit(X, y)
        columns = np.searchsorted(task.classes, model.classes_)
        answers[number][:, columns] = model.answers(task.X_test)
    note(f"{name}: {len(owners)} clients answered {len(task.X_test)} rows")
    return Measures(answers, task.y_test)


def argmin_of(found: Measures, mode: str) -> EncryptedArgmin:
    """The document's rule for a federation, in one of the modes."""
    n_clients, _, n_classes = found.answers.shape
    return EncryptedArgmin(n_clients, n_classes, TABLE_BITS, mode=mode)


def whole(found: Measures, rows: NDArray[np.intp]) -> Whole:
    """Measures of some rows as the fitted map gives them."""
    return Quantiser(TABLE_BITS).fit(found.answers[:, found.held_out]).quantise(found.answers[:, rows])


def right(wins: Wins, y: NDArray[np.intp]) -> int:
    """Rows whose first class at the minimum is the true one."""
    return int(np.sum(wins.argmax(axis=1) == y))


def simulated_piece(found: Measures, start: int) -> dict[str, Any]:
    """Plain minima and the simulated circuit on a chunk of rows, and whether they agree in every class."""
    rows = found.others[start : start + CHUNK]
    numbers = whole(found, rows)
    plainly = clear_argmin(Quantiser(TABLE_BITS).quantise(found.answers[:, rows]))
    clear = clear_argmin(numbers)
    simulated = argmin_of(found, "simulate").run_quantised(numbers)
    return {
        "rows": len(clear),
        "exact": int(np.sum(found.exact[rows] == found.y[rows])),
        "plain map": right(plainly, found.y[rows]),
        "simulated": right(simulated, found.y[rows]),
        "differ": int(np.sum(np.any(clear != simulated, axis=1))),
    }


def encrypted_piece(found: Measures, start: int, n_rows: int) -> dict[str, Any]:
    """The same with real ciphertexts: keys, encryption by every client, the server's part, decryption."""
    rows = found.others[start : start + n_rows]
    numbers = whole(found, rows)
    argmin = argmin_of(found, "encrypted")
    argmin.run_quantised(numbers[:, :1])  # makes the keys
    begin = time.process_time()
    wins = argmin.run_quantised(numbers)
    seconds = time.process_time() - begin
    return {
        "rows": len(wins),
        "exact": int(np.sum(found.exact[rows] == found.y[rows])),
        "encrypted": right(wins, found.y[rows]),
        "differ": int(np.sum(np.any(wins != clear_argmin(numbers), axis=1))),
        "work_seconds": round(seconds, 2),  # of all clients and the server
    }


def flips_piece(found: Measures, bits: int) -> dict[str, Any]:
    """Decisions that rounding changes, and rows with more than one class left, by both maps."""
    fitted = Quantiser(bits).fit(found.answers[:, found.held_out])
    nearest = np.nanmin(found.answers[:, found.others], axis=0, initial=1.0)
    exact, y = nearest.argmin(axis=1), found.y[found.others]
    result: dict[str, Any] = {"bound": fitted.clip_, "power": fitted.power_, "floor": fitted.floor_}
    for name, quantiser in (("plain", Quantiser(bits)), ("fitted", fitted)):
        numbers = quantiser.quantise(nearest)  # the minimum commutes with a monotone map
        wins = numbers == numbers.min(axis=1, keepdims=True)
        decided = wins.argmax(axis=1)
        result[f"{name} flips"] = float(np.mean(decided != exact))
        result[f"{name} ties"] = float(np.mean(wins.sum(axis=1) > 1))
        result[f"{name} change of accuracy"] = float(np.mean(decided == y) - np.mean(exact == y))
    return result


def pieces(name: str, args: argparse.Namespace, journal: Journal, found: Lazy) -> tuple[Pieces, Pieces]:
    """All rows simulated, and some encrypted, piece by piece."""
    key = f"encrypted{' quick' if args.quick else ''} {name} {TABLE_BITS} bits"
    size = journal.run(f"{key} size", lambda: {"rows": len(found().others)})["rows"]
    simulated = [
        journal.run(f"{key} simulated {start}", partial(work, simulated_piece, found, start))
        for start in range(0, size, CHUNK)
    ]
    each, number = (16, 1) if args.quick else ENCRYPTED[name]
    encrypted = [
        journal.run(f"{key} encrypted {each} {start}", partial(work, encrypted_piece, found, start, each))
        for start in range(0, min(size, number * each), each)
    ]
    return simulated, encrypted


def work(piece: Callable[..., dict[str, Any]], found: Lazy, *sizes: int) -> dict[str, Any]:
    """One piece, with the measures made only now."""
    return piece(found(), *sizes)


def share(done: Pieces, what: str) -> float:
    """Part of the rows of some pieces."""
    return float(sum(piece[what] for piece in done) / sum(piece["rows"] for piece in done))


def table_6(args: argparse.Namespace, journal: Journal, outcome: Outcome, found: dict[str, Lazy]) -> None:
    """Accuracy in clear, simulated and encrypted."""
    rows: list[list[object]] = []
    document = documented(__file__, "table_6")[str(TABLE_BITS)]
    for name, reported in zip(ENCRYPTED, document, strict=True):
        simulated, encrypted = pieces(name, args, journal, found[name])
        values = {
            "plain": share(simulated, "exact"),
            "plain map": share(simulated, "plain map"),
            "simulated": share(simulated, "simulated"),
            "rows encrypted": float(sum(piece["rows"] for piece in encrypted)),
            "plain there": share(encrypted, "exact"),
            "encrypted": share(encrypted, "encrypted"),
            "rows that differ": float(sum(piece["differ"] for piece in (*simulated, *encrypted))),
        }
        outcome.values.update({f"{name} {what}": value for what, value in values.items()})
        rows.append([name, *(f"{value:.4g}" for value in values.values())])
        rows[-1] += [share(encrypted, "work_seconds"), reported / 100]
    title = f"Dirichlet {ALPHA:g}, measures of {TABLE_BITS} bits"
    outcome.tables.append(Table(title, TABLE_6_HEADERS, rows))


TABLE_6_HEADERS = (
    "data",
    "plain",
    "8 bits, plain map",
    "simulated, fitted map",
    "rows encrypted",
    "plain there",
    "encrypted",
    "rows that differ",
    "CPU s per row, all parties",
    "document",
)


def flips(args: argparse.Namespace, journal: Journal, outcome: Outcome, measures: dict[str, Lazy]) -> None:
    """What rounding to a few bits changes."""
    for name in (DIGITS, NEWS):
        rows: list[list[object]] = []
        for bits in FLIP_BITS:
            key = f"encrypted{' quick' if args.quick else ''} {name} flips at {bits} bits"
            found = journal.run(key, partial(work, flips_piece, measures[name], bits))
            shown: list[object] = [bits]
            for map_ in ("plain", "fitted"):
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
    found.add_argument("--part", choices=("table", "flips"), help="only this (both)")
    return found


if __name__ == "__main__":
    sys.exit(main(__file__, options(), experiment))
