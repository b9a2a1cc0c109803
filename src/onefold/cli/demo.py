"""``onefold demo``: several sites with unequal classes, one private classifier, one round.

The study asks what each site gains by joining, and what privacy costs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from functools import reduce
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import option
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.datasets import Dataset
    from onefold.federated import Simulation
    from onefold.privacy import Guarantee
    from onefold.report import Comparison

WIDTH = 88
# Small enough that most sites lack some classes, large enough that most classes are at several sites.
CONCENTRATION = 0.3
DELTA = 1e-5
# Known from what the features are: pixels, and lengths of petals in centimetres.
RANGES = {"digits": (0.0, 1.0), "iris": (0.0, 10.0)}


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "demo",
        description="Spread a dataset unequally over several sites and compare: each site alone, all data "
        "pooled, one global classifier made in one round from the sites' local models and exact sums of "
        "their rows, and private ones with differential privacy, for one entry and for a whole record. Then "
        "one site leaves, and the others answer as if it had never been there.",
    )
    shared.add_sites(parser)
    option(parser, "--seed N", "seed of everything random except the noise", shared.seed, 0)
    option(parser, "--epsilon E", "epsilon of the guarantee for one entry", shared.positive, 4.0)
    option(parser, "--record-epsilon E", "epsilon of the guarantee for a whole record", shared.positive, 8.0)
    option(parser, "--dataset", "dataset to use", default="digits", choices=tuple(RANGES))
    option(parser, "--n-jobs N", "number of threads (default: all processors)", shared.jobs)
    reports.add_report(parser, card=False)
    shared.ends(parser, run, quiet=False)


def run(args: argparse.Namespace) -> None:
    """Compare, then print a table or JSON and write the page if asked to."""
    from onefold import datasets
    from onefold.report import of_comparison
    from onefold.report.document import package_versions

    if args.sites < 2:
        raise InvalidInputError("--sites must be at least 2: one site alone is no federation")
    reports.check_report(args)
    study = compare(args, datasets.load(args.dataset))
    words = [f"{study.title}\n{fill(study.lead, WIDTH)}\n\n{study.table()}\n"]
    told = [*study.notes, *(f"{name}: {' '.join(lines)}" for name, lines in study.promises.items())]
    words += [fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in told]
    result = asdict(study) | {"versions": package_versions()}
    reports.tell(args, result, words, lambda: of_comparison(study))


# --- the study --------------------------------------------------------------------------------------------


def compare(args: argparse.Namespace, data: Dataset) -> Comparison:
    """Spread a dataset over sites with unequal classes and test every classifier on the same test samples."""
    from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
    from onefold.datasets import partition
    from onefold.federated import simulate
    from onefold.report import Comparison, Entry

    prototype = AutoencoderClassifier(WideKAHM(scale="auto", random_state=args.seed), n_jobs=args.n_jobs)
    rows = partition(data.y_train, args.sites, "dirichlet", random_state=args.seed, alpha=CONCENTRATION)
    result = simulate(
        data.X_train,
        data.y_train,
        args.sites,
        rows,
        estimator=FoldingClassifier(batch_size=50, measure="euclidean", n_jobs=args.n_jobs),
        X_test=data.X_test,
        y_test=data.y_test,
    )
    owned = [(data.X_train[mine], data.y_train[mine]) for mine in rows]
    (noisy, noisy_promise), left = _noisy_federation(args, data, owned, prototype)
    moments, moments_promise = _moment_federation(args, data, owned, result.classes)
    samples, present = result.class_counts.sum(axis=1), result.class_counts > 0
    amounts = {"entry": args.epsilon, "record": args.record_epsilon}
    names = [f"private, epsilon {epsilon:g} per {unit}" for unit, epsilon in amounts.items()]
    total, n_classes = int(samples.sum()), int(result.classes.size)
    gone = left["site"] - 1
    others = np.delete(present, gone, axis=0).any(axis=0)
    return Comparison(
        title=f"{args.sites} sites, one classifier, one round",
        lead=f"{data.name}: {total} samples of {n_classes} classes spread unequally over "
        f"{args.sites} sites, {result.n_test} for testing. A simulation in one process.",
        entries=[
            *(
                Entry(f"site {i + 1} alone", "alone", int(samples[i]), int(present[i].sum()), accuracy)
                for i, accuracy in enumerate(result.alone)
            ),
            Entry("all data pooled", "pooled", total, n_classes, result.pooled),
            Entry("federated, one round", "federated", total, n_classes, result.federated),
            Entry(names[0], "private", total, n_classes, noisy),
            Entry(
                f"the same after site {gone + 1} left",
                "private",
                total - int(samples[gone]),
                int(others.sum()),
                left["accuracy"],
            ),
            Entry(names[1], "private", total, n_classes, moments),
        ],
        class_names=[str(label) for label in result.classes],
        counts=result.class_counts.tolist(),
        notes=_notes(result, left),
        settings=_settings(args, data),
        facts={
            **{name: getattr(result, name) for name in ("pooled", "federated", "method", "sum_bytes")},
            "alone": list(result.alone),
            "test_samples": result.n_test,
            "rounds": 1,
            "scalars_per_query": args.sites * n_classes,
            "scalars_in_all": args.sites * n_classes * result.n_test,
            "federated_guarantee": None,
            "private_entry": {"accuracy": noisy, "guarantee": noisy_promise.to_dict()},
            "private_record": {"accuracy": moments, "guarantee": moments_promise.to_dict()},
            "left": left,
        },
        promises={
            name: "\n".join(shared.promise_in_words(promise)).split("\n")
            for name, promise in zip(names, (noisy_promise, moments_promise), strict=True)
        },
    )


def _noisy_federation(
    args: argparse.Namespace, data: Dataset, owned: Sequence[tuple[Any, Any]], prototype: Any
) -> tuple[tuple[float, Guarantee], dict[str, Any]]:
    """Models of fabricated data, which may travel; then the site with the fewest samples leaves.

    What its leaving changed is told too, and whether every answer is then, bit for bit, that of a federation
    without the site from the start.
    """
    from onefold.federated import GlobalClassifier, LocalModel
    from onefold.privacy import Box, Guarantee, OptimalNoise

    mechanism = OptimalNoise(args.epsilon, delta=DELTA, sensitivity=Box(*RANGES[args.dataset]))
    models = [LocalModel(prototype, mechanism, keep_rows=False).fit(*mine) for mine in owned]
    gone = int(np.argmin([len(labels) for _, labels in owned]))
    server, without = GlobalClassifier(), GlobalClassifier()
    for number, model in enumerate(models):
        server.add(number, model)
        if number != gone:
            without.add(number, model)
    promises = [model.guarantee_ for model in models if model.guarantee_ is not None]
    together = _accuracy(data, server), reduce(Guarantee.among_owners, promises)
    server.remove(gone)
    same = bool(np.array_equal(server.measures(data.X_test), without.measures(data.X_test)))
    return together, {"site": gone + 1, "accuracy": _accuracy(data, server), "exact": same}


def _moment_federation(
    args: argparse.Namespace, data: Dataset, owned: Sequence[tuple[Any, Any]], classes: NDArray[Any]
) -> tuple[float, Guarantee]:
    """Each site sends noisy moments once; they cover whole records with their labels."""
    from onefold.fabrication import MomentClassifier
    from onefold.federated import MomentFederation, release_moments
    from onefold.privacy import PrivateMoments

    agreed = PrivateMoments(args.record_epsilon, DELTA, classes=classes, centre=None)
    federation = MomentFederation()
    for number, (samples, labels) in enumerate(owned):
        federation.add(number, release_moments(samples, labels, agreed))
    return _accuracy(data, federation.fitted(MomentClassifier)), federation.guarantee


def _accuracy(data: Dataset, model: Any) -> float:
    return float(np.mean(model.predict(data.X_test) == data.y_test))


def _notes(result: Simulation, left: dict[str, Any]) -> list[str]:
    n_sites, n_classes = result.class_counts.shape
    per_query = n_sites * n_classes
    same = "the same to the last bit as" if left["exact"] else "NOT the same as"
    return [
        'What travelled in "federated": each site sent sums of its samples once (counts, sums of each class, '
        "one matrix of products, and before that mean and spread of each column), and got scores back, "
        f"{result.sum_bytes / 1e6:.0f} MB for all sites. Then it answered each query with one number per "
        f"class, a distance plus these scores: {n_sites} x {n_classes} = {per_query} numbers per query, "
        f"{per_query * result.n_test} in all. The queries went to every site; no gradient was computed. "
        "No noise was added: a class with one sample sends this very sample as its sum, and answers are "
        "distances to raw data. This line makes no claim of differential privacy.",
        "Private per entry: every site models data fabricated from a noisy copy.",
        f"Site {left['site']} left. The others did nothing, and every answer is {same} that of a "
        "federation that never had it.",
        "Private per record: every site sent noisy counts, sums and second moments, once; the list of "
        "classes is taken as public.",
        "Noise is drawn anew in every run, so the private accuracies change a little.",
        "Pooled means that all training samples were brought to one place: it is a yardstick, not an option.",
    ]


def _settings(args: argparse.Namespace, data: Dataset) -> dict[str, Any]:
    return {
        "dataset": data.name,
        "sites": args.sites,
        "seed": args.seed,
        "partition": f"Dirichlet, concentration {CONCENTRATION}",
        "classifier": "FoldingClassifier(batch_size=50), joined with ridge and LDA from exact sums",
        "private classifier per entry": "AutoencoderClassifier(WideKAHM(scale='auto'))",
        "global rule": "smallest answer over the sites",
        "noise per entry": f"OptimalNoise({args.epsilon:g}, delta={DELTA:g}), then smoothed; honest stopping",
        "range of a feature": f"{RANGES[args.dataset][0]:g} to {RANGES[args.dataset][1]:g}",
        "noise per record": f"PrivateMoments({args.record_epsilon:g}, delta={DELTA:g})",
        "source of noise": "the operating system, whatever the seed",
    }
