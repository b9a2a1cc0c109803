"""``onefold demo``: several sites with unequal classes, one private classifier, one round.

The study asks what each site gains by joining, and what privacy costs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import option
from onefold.cli.console import busy, show
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.datasets import Dataset
    from onefold.federated import Simulation
    from onefold.privacy import Guarantee
    from onefold.report import Comparison, Entry

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
    option(parser, "--dataset NAME", "dataset to use", default="digits")
    option(parser, "--data-dir DIR", "folder with further datasets, each in a file NAME.npz")
    known = f"{shared.RANGE} (default: known for {' and '.join(RANGES)})"
    option(parser, "--range LOW HIGH", known, float)
    option(parser, "--n-jobs N", "number of threads (default: all processors)", shared.jobs)
    reports.add_report(parser, card=False)
    shared.add_output_options(parser, quiet=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compare, then print a table or JSON and write the page if asked to."""
    from onefold import datasets
    from onefold.report.federations import of_comparison

    if args.sites < 2:
        raise InvalidInputError("--sites must be at least 2: one site alone is no federation")
    reports.check_report(args)
    shared.check_range(args.range)
    data = datasets.load(args.dataset, args.data_dir)
    limits = args.range or RANGES.get(args.dataset)
    if limits is None:
        raise InvalidInputError(
            f"noise on {args.dataset!r} needs --range LOW HIGH: the smallest and largest value of a feature, "
            "known without looking at the data"
        )
    plan = Plan(
        data, args.sites, args.seed, args.n_jobs, args.epsilon, args.record_epsilon, (limits[0], limits[1])
    )
    study = compare(plan)
    words = [f"{study.title}\n{fill(study.lead, WIDTH)}\n\n{study.table()}\n"]
    told = [*study.notes, *(f"{name}: {' '.join(lines)}" for name, lines in study.promises.items())]
    words += [fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in told]
    if args.report is not None:
        with busy("drawing", quiet=False):
            words += ["", reports.written(args.report, of_comparison(study))]
    result = study.to_dict()
    show(result, words, as_json=args.json)
    return 0


# --- the study --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """What is asked for on the command line."""

    data: Dataset
    n_sites: int
    seed: int
    n_jobs: int | None
    epsilon: float  # of one entry of the table
    record_epsilon: float  # of a whole record
    limits: tuple[float, float]  # between which every value of a feature lies by declaration


@dataclass(frozen=True)
class Private:
    """A federation of private models: how well it does, and what it promises."""

    accuracy: float
    guarantee: Guarantee


@dataclass(frozen=True)
class Leaving:
    """What one site's leaving changed."""

    site: int
    accuracy: float
    exact: bool  # every answer is, bit for bit, that of a federation without the site from the start


def compare(plan: Plan) -> Comparison:
    """Spread a dataset over sites with unequal classes and test every classifier on the same test samples."""
    from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM
    from onefold.datasets import partition
    from onefold.federated import simulate
    from onefold.report import Comparison

    data = plan.data
    prototype = AutoencoderClassifier(WideKAHM(scale="auto", random_state=plan.seed), n_jobs=plan.n_jobs)
    rows = partition(data.y_train, plan.n_sites, "dirichlet", random_state=plan.seed, alpha=CONCENTRATION)
    result = simulate(
        data.X_train,
        data.y_train,
        plan.n_sites,
        rows,
        estimator=FoldingClassifier(batch_size=50, measure="euclidean", n_jobs=plan.n_jobs),
        X_test=data.X_test,
        y_test=data.y_test,
    )
    owned = [(data.X_train[mine], data.y_train[mine]) for mine in rows]
    noisy, leaving = _noisy_federation(plan, owned, prototype, data.X_test, data.y_test)
    moments = _moment_federation(plan, owned, result.classes, data.X_test, data.y_test)
    n_samples = int(result.class_counts.sum())
    return Comparison(
        title=f"{plan.n_sites} sites, one classifier, one round",
        lead=f"{data.name}: {n_samples} samples of {result.classes.size} classes spread unequally over "
        f"{plan.n_sites} sites, {result.n_test} for testing. A simulation in one process.",
        entries=_entries(plan, result, noisy, moments, leaving),
        class_names=[str(label) for label in result.classes],
        counts=result.class_counts.tolist(),
        notes=_notes(result, leaving),
        settings=_settings(plan),
        facts=_facts(result, noisy, moments, leaving),
        promises={
            _name_of(plan.epsilon, "entry"): _lines(noisy.guarantee),
            _name_of(plan.record_epsilon, "record"): _lines(moments.guarantee),
        },
    )


def _name_of(epsilon: float, unit: str) -> str:
    return f"private, epsilon {epsilon:g} per {unit}"


def _noisy_federation(
    plan: Plan, owned: Sequence[tuple[Any, Any]], prototype: Any, X: Any, y: Any
) -> tuple[Private, Leaving]:
    """Models of fabricated data, which may travel; then the site with the fewest samples leaves."""
    from onefold.federated import GlobalClassifier, LocalModel
    from onefold.privacy import Box, Guarantee, OptimalNoise

    mechanism = OptimalNoise(plan.epsilon, delta=DELTA, sensitivity=Box(*plan.limits))
    models = [LocalModel(prototype, mechanism, keep_rows=False).fit(*mine) for mine in owned]
    server = GlobalClassifier()
    for number, model in enumerate(models):
        server.add(number, model)
    promises = [model.guarantee_ for model in models if model.guarantee_ is not None]
    guarantee = reduce(Guarantee.among_owners, promises)
    together = Private(_accuracy(server.predict(X), y), guarantee)
    gone = int(np.argmin([len(labels) for _, labels in owned]))
    without = GlobalClassifier()
    for number, model in enumerate(models):
        if number != gone:
            without.add(number, model)
    server.remove(gone)
    same = bool(np.array_equal(server.measures(X), without.measures(X)))
    return together, Leaving(gone, _accuracy(server.predict(X), y), same)


def _moment_federation(
    plan: Plan, owned: Sequence[tuple[Any, Any]], classes: NDArray[Any], X: Any, y: Any
) -> Private:
    """Each site sends noisy moments once; they cover whole records with their labels."""
    from onefold.fabrication import MomentClassifier
    from onefold.federated import MomentFederation, release_moments
    from onefold.privacy import PrivateMoments

    agreed = PrivateMoments(plan.record_epsilon, DELTA, classes=classes, centre=None)
    federation = MomentFederation()
    for number, (samples, labels) in enumerate(owned):
        federation.add(number, release_moments(samples, labels, agreed))
    predicted = federation.fitted(MomentClassifier).predict(X)
    return Private(_accuracy(predicted, y), federation.guarantee)


def _accuracy(predicted: NDArray[Any], truth: NDArray[Any]) -> float:
    return float(np.mean(predicted == truth))


def _entries(
    plan: Plan, result: Simulation, noisy: Private, moments: Private, leaving: Leaving
) -> list[Entry]:
    from onefold.report import Entry

    samples = result.class_counts.sum(axis=1)
    present = result.class_counts > 0
    total, classes = int(samples.sum()), int(result.classes.size)
    left = np.delete(present, leaving.site, axis=0).any(axis=0)
    return [
        *(
            Entry(f"site {i + 1} alone", "alone", int(samples[i]), int(present[i].sum()), accuracy)
            for i, accuracy in enumerate(result.alone)
        ),
        Entry("all data pooled", "pooled", total, classes, result.pooled),
        Entry("federated, one round", "federated", total, classes, result.federated),
        Entry(_name_of(plan.epsilon, "entry"), "private", total, classes, noisy.accuracy),
        Entry(
            f"the same after site {leaving.site + 1} left",
            "private",
            total - int(samples[leaving.site]),
            int(left.sum()),
            leaving.accuracy,
        ),
        Entry(
            _name_of(plan.record_epsilon, "record"),
            "private",
            total,
            classes,
            moments.accuracy,
        ),
    ]


def _notes(result: Simulation, leaving: Leaving) -> list[str]:
    n_sites, n_classes = result.class_counts.shape
    per_query = n_sites * n_classes
    same = "the same to the last bit as" if leaving.exact else "NOT the same as"
    return [
        'What travelled in "federated": each site sent sums of its samples once (counts, sums of each class, '
        "one matrix of products, and before that mean and spread of each column), and got scores back, "
        f"{result.sum_bytes / 1e6:.0f} MB for all sites. Then it answered each query with one number per "
        f"class, a distance plus these scores: {n_sites} x {n_classes} = {per_query} numbers per query, "
        f"{per_query * result.n_test} in all. The queries went to every site; no gradient was computed. "
        "No noise was added: a class with one sample sends this very sample as its sum, and answers are "
        "distances to raw data. This line makes no claim of differential privacy.",
        "Private per entry: every site models data fabricated from a noisy copy.",
        f"Site {leaving.site + 1} left. The others did nothing, and every answer is {same} that of a "
        "federation that never had it.",
        "Private per record: every site sent noisy counts, sums and second moments, once; the list of "
        "classes is taken as public.",
        "Noise is drawn anew in every run, so the private accuracies change a little.",
        "Pooled means that all training samples were brought to one place: it is a yardstick, not an option.",
    ]


def _lines(guarantee: Guarantee) -> list[str]:
    return "\n".join(shared.promise_in_words(guarantee)).split("\n")


def _settings(plan: Plan) -> dict[str, Any]:
    return {
        "dataset": plan.data.name,
        "sites": plan.n_sites,
        "seed": plan.seed,
        "partition": f"Dirichlet, concentration {CONCENTRATION}",
        "classifier": "FoldingClassifier(batch_size=50), joined with ridge and LDA from exact sums",
        "private classifier per entry": "AutoencoderClassifier(WideKAHM(scale='auto'))",
        "global rule": "smallest answer over the sites",
        "noise per entry": f"OptimalNoise({plan.epsilon:g}, delta={DELTA:g}), then smoothed; honest stopping",
        "range of a feature": f"{plan.limits[0]:g} to {plan.limits[1]:g}",
        "noise per record": f"PrivateMoments({plan.record_epsilon:g}, delta={DELTA:g})",
        "source of noise": "the operating system, whatever the seed",
    }


def _facts(result: Simulation, noisy: Private, moments: Private, leaving: Leaving) -> dict[str, Any]:
    n_sites, n_classes = result.class_counts.shape
    gone = leaving.site + 1
    return {
        "alone": list(result.alone),
        "pooled": result.pooled,
        "federated": result.federated,
        "method": result.method,
        "sum_bytes": result.sum_bytes,
        "test_samples": result.n_test,
        "rounds": 1,
        "scalars_per_query": n_sites * n_classes,
        "scalars_in_all": n_sites * n_classes * result.n_test,
        "federated_guarantee": None,
        "private_entry": {"accuracy": noisy.accuracy, "guarantee": noisy.guarantee.to_dict()},
        "private_record": {"accuracy": moments.accuracy, "guarantee": moments.guarantee.to_dict()},
        "left": {"site": gone, "accuracy": leaving.accuracy, "exact": leaving.exact},
    }
