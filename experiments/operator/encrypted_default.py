"""What ``onefold federate query --encrypted`` costs in accuracy by default: its map and its looks.

Sites answer as they do in a federation; the accuracy of the exact measures is compared, row by row, with that
of the whole numbers that the sites would encrypt. *One plain look* is the map rint(255 d / bound) of the
option ``--bound`` with ``--looks 1``. *Default* is the map fitted to the test rows without labels, as a query
fits it to its own rows, with four looks. *64 rows* fits it to 64 of them only, as a query of 64 rows would,
and *public rows* to 200 training rows, as ``--fit-on`` does. A difference is given with its standard error
over rows. Some rows are encrypted for real, all looks, and compared with the same numbers in clear.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits

from experiments.data import named
from experiments.harness import Outcome, Table, main, note, parser
from experiments.operator.data import Task, german_news, images, newsgroups
from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM, datasets
from onefold.federated import LocalModel
from onefold.federated.fhe import Client, Querier, Server
from onefold.federated.fhe.argmin import clear_argmin
from onefold.federated.fhe.quantiser import MeasureMap, in_every_look
from onefold.federated.flower.rounding import chosen_map
from onefold.federated.rules import align

BITS, SEED = 8, 0
FEW, PUBLIC = 64, 200
NEWS, USPS, DIGITS, CANCER = "20 Newsgroups", "USPS", "digits", "breast cancer"
GERMAN, IMAGES = "German news", "CIFAR-10 features"
# Sites, and how unevenly the classes are spread over them (Dirichlet).
SITES = {
    NEWS: (100, 0.1),
    USPS: (20, 0.1),
    DIGITS: (4, 1.0),
    CANCER: (4, 1.0),
    GERMAN: (20, 0.1),
    IMAGES: (20, 0.1),
}
MEASURES = ("rms", "euclidean")
PLAIN = (None, None, None)

Floats = NDArray[np.float64]


def load_task(name: str, args: argparse.Namespace) -> Task:
    """Rows of a length of about one, except embeddings, which are scaled as in the other experiments."""
    if name == NEWS:
        return replace(newsgroups(args.data_dir, args.quick), name=NEWS)
    if name == GERMAN:
        return replace(german_news(args.data_dir, "sentence", SEED), name=GERMAN)
    if name == IMAGES:
        return replace(images(args.data_dir, args.quick).first(6000, 3000), name=IMAGES)
    if name == USPS:
        found = named.load("usps", args.data_dir, dtype=np.float32)
        X, y, X_test, y_test = found.X_train, found.y_train, found.X_test, found.y_test
    else:
        X, y = (load_digits if name == DIGITS else load_breast_cancer)(return_X_y=True)
        X = (X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-9)
        X, y, X_test, y_test = datasets.train_test_split(X, y, test_size=0.4, random_state=SEED)
    length = np.sqrt(np.mean(np.sum(X.astype(np.float64) ** 2, axis=1)))
    X, X_test = ((each / length).astype(np.float32) for each in (X, X_test))
    made = Task(name, X, y.astype(np.intp), X_test, y_test.astype(np.intp))
    return made.first(600, 150) if args.quick else made


def answers_of(task: Task, measure: str, quick: bool) -> Floats:
    """What every site answers about the test rows, (Q, n, C) with NaN for a class that it lacks."""
    n_sites, alpha = SITES[task.name]
    owners = datasets.partition(
        task.y, min(n_sites, 5) if quick else n_sites, "dirichlet", alpha=alpha, random_state=SEED
    )
    found = []
    for rows in owners:
        classifier: Any = AutoencoderClassifier(WideKAHM(scale="auto", random_state=0))
        if measure == "rms":
            classifier = FoldingClassifier(batch_size=100, measure="rms", scale=1.0, n_jobs=1)
        model = LocalModel(classifier, keep_rows=False).fit(task.X[rows], task.y[rows])
        found.append(align(model.answers(task.X_test), model.classes_, task.classes, np.nan))
    note(f"{task.name}, {measure}: {len(owners)} sites answered {len(task.X_test)} rows")
    return np.stack(found).astype(np.float64)


def maps_of(task: Task, measure: str) -> dict[str, MeasureMap]:
    """The maps to compare."""
    about = (measure, 1.0 if measure == "rms" else None, BITS)
    every = np.linspace(0, len(task.X_test) - 1, min(FEW, len(task.X_test))).astype(np.intp)
    public = task.X[np.linspace(0, len(task.X) - 1, PUBLIC).astype(np.intp)]
    plain = chosen_map(*about, (None, 1.0, None), 1, None, task.X_test)
    return {
        "one plain look": MeasureMap(BITS, **plain),
        "default": MeasureMap(BITS, **chosen_map(*about, PLAIN, None, None, task.X_test)),
        "64 rows": MeasureMap(BITS, **chosen_map(*about, PLAIN, None, None, task.X_test[every])),
        "public rows": MeasureMap(BITS, **chosen_map(*about, PLAIN, None, public, task.X_test)),
    }


def encrypted_rows_that_differ(answers: Floats, map_: MeasureMap) -> int:
    """Rows whose closest classes differ between ciphertexts and the same fine numbers in clear."""
    n_sites, _, n_classes = answers.shape
    querier = Querier(n_sites, n_classes, BITS)
    server = Server(querier.evaluation_keys(check=False))
    sent = (
        Client(querier.public_key(), f"site-{number}").encrypt(map_.numbers(own), "q")
        for number, own in enumerate(answers)
    )
    wins = in_every_look(querier.decrypt(server.aggregate(sent)), map_.looks)
    return int(np.sum(np.any(wins != clear_argmin(map_.fine(answers)), axis=1)))


def experiment(args: argparse.Namespace) -> Outcome:
    """One row for each data set and measure."""
    values: dict[str, float] = {}
    rows: list[list[object]] = []
    for name in SITES:
        task = load_task(name, args)
        for measure in MEASURES:
            answers = answers_of(task, measure, args.quick)
            nearest = np.nanmin(np.where(np.isnan(answers), np.inf, answers), axis=0)
            exact = nearest.argmin(axis=1)
            right, key = exact == task.y_test, f"{name} {measure}"
            values[f"{key} exact"] = float(right.mean())
            shown: list[object] = [name, measure, len(right), f"{right.mean():.4f}"]
            maps = maps_of(task, measure)
            for what, map_ in maps.items():  # the minimum over sites commutes with a monotone map
                fine = map_.fine(np.where(np.isinf(nearest), np.nan, nearest))
                found = clear_argmin(fine[None]).argmax(axis=1)
                change = (found == task.y_test).astype(np.float64) - right
                error = change.std(ddof=1) / np.sqrt(len(change))
                values[f"{key} {what}"], values[f"{key} {what} error"] = 100 * change.mean(), 100 * error
                shown.append(f"{100 * change.mean():+.2f} ± {100 * error:.2f}")
            found = clear_argmin(maps["default"].fine(answers)).argmax(axis=1)
            values[f"{key} flips"] = float(np.mean(found != exact))
            few = 8 if args.quick else 16 if name == NEWS else 32
            differ = encrypted_rows_that_differ(answers[:, :few], maps["default"])
            values[f"{key} rows that differ"] = float(differ)
            rows.append([*shown, f"{100 * values[f'{key} flips']:.2f} %", few, differ])
    headers = ["data", "measure", "rows", "exact", *(f"{what}, points" for what in maps)]
    headers += ["default: changed decisions", "rows encrypted", "rows that differ"]
    return Outcome(values, [Table("Accuracy lost by rounding, 8 bits", headers, rows)])


if __name__ == "__main__":
    sys.exit(main(__file__, parser(__doc__), experiment))
