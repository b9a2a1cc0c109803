"""The comparison behind ``onefold demo``: what does each owner gain by joining?"""

from __future__ import annotations

from onefold import AutoencoderClassifier, WideKAHM, datasets
from onefold.federated import Simulation, simulate
from onefold.report import Comparison, Entry

# Small enough that most owners lack some classes, large enough that most classes have several owners.
CONCENTRATION = 0.3


def compare(dataset: str, data_dir: str | None, n_owners: int, seed: int, n_jobs: int | None) -> Comparison:
    """Spread a dataset over owners with unequal classes and judge everybody on the same test samples."""
    data = datasets.load(dataset, data_dir)
    result = simulate(
        data.X_train,
        data.y_train,
        n_owners,
        "dirichlet",
        estimator=AutoencoderClassifier(WideKAHM(scale="auto", random_state=seed), n_jobs=n_jobs),
        X_test=data.X_test,
        y_test=data.y_test,
        random_state=seed,
        alpha=CONCENTRATION,
    )
    n_classes, n_samples = int(result.classes.size), int(result.class_counts.sum())
    return Comparison(
        title=f"{n_owners} owners, one classifier, one round",
        lead=f"{data.name}: {n_samples} samples of {n_classes} classes spread unequally over "
        f"{n_owners} owners, {result.n_test} for testing. A simulation in one process.",
        entries=_entries(result),
        class_names=[str(label) for label in result.classes],
        counts=result.class_counts.tolist(),
        notes=_notes(n_owners, n_classes, result.n_test),
        settings={
            "dataset": data.name,
            "owners": n_owners,
            "seed": seed,
            "partition": f"Dirichlet, concentration {CONCENTRATION}",
            "classifier": "AutoencoderClassifier(WideKAHM(scale='auto'))",
            "global rule": "smallest distance over the owners",
            "noise": "none",
        },
        facts={
            "alone": list(result.alone),
            "pooled": result.pooled,
            "federated": result.federated,
            "test_samples": result.n_test,
            "rounds": 1,
            "scalars_per_query": n_owners * n_classes,
            "scalars_in_all": n_owners * n_classes * result.n_test,
            "privacy_guarantee": None,
        },
    )


def _entries(result: Simulation) -> list[Entry]:
    samples = result.class_counts.sum(axis=1)
    present = (result.class_counts > 0).sum(axis=1)
    owners = [
        Entry(f"owner {i + 1} alone", "alone", int(samples[i]), int(present[i]), accuracy)
        for i, accuracy in enumerate(result.alone)
    ]
    total, classes = int(samples.sum()), int(result.classes.size)
    return [
        *owners,
        Entry("all data pooled", "pooled", total, classes, result.pooled),
        Entry("federated, one round", "federated", total, classes, result.federated),
    ]


def _notes(n_owners: int, n_classes: int, n_test: int) -> list[str]:
    per_query = n_owners * n_classes
    return [
        "What travelled: each owner answered each query with one number per class, "
        f"{n_owners} x {n_classes} = {per_query} numbers per query, {per_query * n_test} in all. "
        "The queries went to every owner; no training sample and no gradient left its owner.",
        "No noise was added: the answers are distances to raw data and reveal something about it. "
        "This run makes no claim of differential privacy.",
        "Pooled means that all training samples were brought to one place: the yardstick, not an option.",
    ]
