"""One row of a table: noise, perhaps fabrication, a classifier, its accuracy and what it gives away."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.kahm.private_data import Division, Rows
from onefold import AutoencoderClassifier, WideKAHM
from onefold.audit import distance_attack, membership_inference_score
from onefold.exceptions import PrivacyLeakWarning
from onefold.fabrication import Fabricator
from onefold.models import split
from onefold.privacy import Guarantee, OptimalNoise
from onefold.privacy.guarantee import SEEDED

DELTA, N_LAYERS, BRANCH_SIZE = 1e-5, 5, 1000
# No privacy; the classifier of 000 Def. 12, and the same with clusters found before the noise; that of
# Def. 15 with the document's stopping rule, and two that keep the guarantee: Stein's estimate, and one step.
RAW_CLUSTERS = "noisy-raw-clusters"
STOPPING: dict[str, str | int] = {"documented": "documented", "honest": "honest", "one-step": 1}
METHODS = ("raw", "noisy", RAW_CLUSTERS, *STOPPING)


@dataclass(frozen=True)
class Setting:
    """What tells one row from the others."""

    data: str
    epsilon: float  # of one entry that changes by at most 1
    n_components: int
    method: str
    seed: int
    n_layers: int = N_LAYERS

    def key(self, quick: bool) -> str:
        """Its name in a file of finished rows."""
        size = " of a small part" if quick else ""
        return (
            f"{self.data}{size}, {self.method}, epsilon {self.epsilon:g}, n {self.n_components}, "
            f"L {self.n_layers}, seed {self.seed}"
        )


def measure(setting: Setting, data: Division) -> dict[str, Any]:
    """Make the rows private, fit, and look at the test rows once."""
    (private, guarantee, steps), private_seconds = computing(lambda: private_rows(setting, data))
    model: Any = RawClusters(setting, data.X) if setting.method == RAW_CLUSTERS else classifier(setting)
    _, fit_seconds = computing(lambda: model.fit(private, data.y))
    (members, others), query_seconds = computing(
        lambda: (model.distances(data.members), model.distances(data.X_test))
    )
    inside, outside = members.min(axis=1), others.min(axis=1)  # 000 eq. 67-68
    return {
        "accuracy": float(np.mean(model.classes_[others.argmin(axis=1)] == data.y_test)),
        "score": membership_inference_score(inside, outside),  # 000 eq. 69
        "auc": distance_attack(inside, outside).auc,  # unlike the score it has no unit
        "record_epsilon": guarantee.record[0],
        "person_epsilon": None if guarantee.person is None else guarantee.person[0],
        # The seed of an experiment is known; with noise from the system nothing else would void it.
        "holds": set(guarantee.voided_by) <= {SEEDED},
        "error": float(np.mean(np.square(private - data.X), dtype=np.float64)),
        "steps": [min(steps), sum(steps) / len(steps), max(steps)],
        "cpu": [round(private_seconds, 2), round(fit_seconds, 2), round(query_seconds, 2)],
    }


def private_rows(setting: Setting, data: Division) -> tuple[Rows, Guarantee, list[int]]:
    """Rows to train on, what is promised about them, and the smoothing steps of every branch."""
    mechanism = OptimalNoise(setting.epsilon, DELTA, sensitivity=1.0, rows_per_person=data.rows_per_person)
    if setting.method == "raw":
        nothing = mechanism.guarantee(data.X.shape[1], len(data.X)).voided("no noise was added")
        return data.X, nothing, [0]
    if setting.method.startswith("noisy"):
        maker = Fabricator(mechanism)
        rows = maker.randomise(data.X, data.y, random_state=setting.seed, person=data.persons)
        leak = setting.method == RAW_CLUSTERS
        promise = maker.guarantee_.voided("clusters were found on raw rows") if leak else maker.guarantee_
        return rows, promise, [0]
    maker = Fabricator(mechanism, setting.n_components, STOPPING[setting.method])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # the table says which rows are void
        rows = maker.fabricate(data.X, data.y, random_state=setting.seed, person=data.persons)
    return rows, maker.guarantee_, maker.n_steps_


def classifier(setting: Setting, branch_size: int = BRANCH_SIZE) -> AutoencoderClassifier:
    """One wide machine for every class, branches of about 1000 rows (000 eq. 59)."""
    machine = WideKAHM(
        setting.n_components,
        setting.n_layers,
        branch_size,
        random_state=setting.seed,
        regularisation="documented",
    )
    return AutoencoderClassifier(machine)


class RawClusters:
    """The same classifier with branches that are clusters of raw rows, which no noise covers.

    Every cluster is a class of its own; a class is as far as its nearest cluster (000 Def. 5 and 6).
    """

    def __init__(self, setting: Setting, raw: Rows) -> None:
        self.setting, self.raw = setting, raw

    def fit(self, rows: Rows, y: Rows) -> RawClusters:
        """Machines of the noisy rows."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        clusters, self.class_of = np.empty(len(y), dtype=np.intp), []
        for code in range(len(self.classes_)):
            members = np.flatnonzero(codes == code)
            for part in split(self.raw, members, 1.0, BRANCH_SIZE, "kmeans", self.setting.seed):
                clusters[part] = len(self.class_of)
                self.class_of.append(code)
        self.model_ = classifier(self.setting, branch_size=len(y)).fit(rows, clusters)
        return self

    def distances(self, X: Rows) -> Rows:
        """Distance of every row from every class."""
        found = self.model_.distances(X)
        classes = np.array(self.class_of)
        return np.stack([found[:, classes == code].min(axis=1) for code in range(len(self.classes_))], axis=1)


def computing(function: Callable[[], Any]) -> tuple[Any, float]:
    """Result and seconds of computing of one call, which a busy machine does not change much."""
    start = time.process_time()
    result = function()
    return result, time.process_time() - start
