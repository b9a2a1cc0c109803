"""The study behind ``onefold demo``: what does each site gain by joining, and what does privacy cost?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold import AutoencoderClassifier, WideKAHM, datasets
from onefold.fabrication import MomentClassifier
from onefold.federated import (
    GlobalClassifier,
    LocalModel,
    MomentFederation,
    Simulation,
    release_moments,
    simulate,
)
from onefold.privacy import Guarantee, OptimalNoise, PrivateMoments
from onefold.report import Comparison, Entry

__all__ = ["Plan", "compare"]

# Small enough that most sites lack some classes, large enough that most classes are at several sites.
CONCENTRATION = 0.3
DELTA = 1e-5


@dataclass(frozen=True)
class Plan:
    """What is asked for on the command line."""

    dataset: str
    data_dir: str | None
    n_sites: int
    seed: int
    n_jobs: int | None
    epsilon: float  # of one entry of the table
    record_epsilon: float  # of a whole record


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
    data = datasets.load(plan.dataset, plan.data_dir)
    prototype = AutoencoderClassifier(WideKAHM(scale="auto", random_state=plan.seed), n_jobs=plan.n_jobs)
    rows = datasets.partition(
        data.y_train, plan.n_sites, "dirichlet", random_state=plan.seed, alpha=CONCENTRATION
    )
    result = simulate(
        data.X_train,
        data.y_train,
        plan.n_sites,
        rows,
        estimator=prototype,
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
        notes=_notes(result, noisy, moments, leaving),
        settings=_settings(plan, data.name),
        facts=_facts(result, noisy, moments, leaving),
    )


def _noisy_federation(
    plan: Plan, owned: Sequence[tuple[Any, Any]], prototype: Any, X: Any, y: Any
) -> tuple[Private, Leaving]:
    """Models of fabricated data, which may travel; then the site with the fewest samples leaves."""
    mechanism = OptimalNoise(plan.epsilon, delta=DELTA)
    models = [LocalModel(prototype, mechanism, keep_rows=False).fit(*mine) for mine in owned]
    server = GlobalClassifier()
    for number, model in enumerate(models):
        server.add(number, model)
    guarantee = models[0].guarantee_
    assert guarantee is not None  # there is a mechanism
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
        Entry(f"private, epsilon {plan.epsilon:g} per entry", "private", total, classes, noisy.accuracy),
        Entry(
            f"the same after site {leaving.site + 1} left",
            "private",
            total - int(samples[leaving.site]),
            int(left.sum()),
            leaving.accuracy,
        ),
        Entry(
            f"private, epsilon {plan.record_epsilon:g} per record",
            "private",
            total,
            classes,
            moments.accuracy,
        ),
    ]


def _notes(result: Simulation, noisy: Private, moments: Private, leaving: Leaving) -> list[str]:
    n_sites, n_classes = result.class_counts.shape
    per_query = n_sites * n_classes
    same = "the same to the last bit as" if leaving.exact else "NOT the same as"
    return [
        'What travelled in "federated": each site answered each query with one number per class, '
        f"{n_sites} x {n_classes} = {per_query} numbers per query, {per_query * result.n_test} in all. "
        "The queries went to every site; no training sample and no gradient left its site. "
        "No noise was added: these answers are distances to raw data and reveal something about it. "
        "This line makes no claim of differential privacy.",
        "Private per entry: every site models data fabricated from a noisy copy. " + _plain(noisy.guarantee),
        f"Site {leaving.site + 1} left. The others did nothing, and every answer is {same} that of a "
        "federation that never had it.",
        "Private per record: every site sent noisy counts, sums and second moments, once; the list of "
        "classes is taken as public. " + _plain(moments.guarantee),
        "Noise is drawn anew in every run, so the private accuracies change a little.",
        "Pooled means that all training samples were brought to one place: it is a yardstick, not an option.",
    ]


def _plain(guarantee: Guarantee) -> str:
    return " ".join(str(guarantee).split())


def _settings(plan: Plan, name: str) -> dict[str, Any]:
    return {
        "dataset": name,
        "sites": plan.n_sites,
        "seed": plan.seed,
        "partition": f"Dirichlet, concentration {CONCENTRATION}",
        "classifier": "AutoencoderClassifier(WideKAHM(scale='auto'))",
        "global rule": "smallest distance over the sites",
        "noise per entry": f"OptimalNoise({plan.epsilon:g}, delta={DELTA:g}), then smoothed; honest stopping",
        "noise per record": f"PrivateMoments({plan.record_epsilon:g}, delta={DELTA:g})",
        "source of noise": "the operating system, whatever the seed",
    }


def _facts(result: Simulation, noisy: Private, moments: Private, leaving: Leaving) -> dict[str, Any]:
    n_sites, n_classes = result.class_counts.shape
    return {
        "alone": list(result.alone),
        "pooled": result.pooled,
        "federated": result.federated,
        "test_samples": result.n_test,
        "rounds": 1,
        "scalars_per_query": n_sites * n_classes,
        "scalars_in_all": n_sites * n_classes * result.n_test,
        "federated_guarantee": None,
        "private_entry": {"accuracy": noisy.accuracy, "guarantee": noisy.guarantee.to_dict()},
        "private_record": {"accuracy": moments.accuracy, "guarantee": moments.guarantee.to_dict()},
        "left": {
            "site": leaving.site + 1,
            "owner": leaving.site + 1,  # its name in version 0.1
            "accuracy": leaving.accuracy,
            "exact": leaving.exact,
        },
    }
