"""One row of a table: noise, perhaps fabrication, a classifier, its accuracy, and what it tells of members.

A finished row is a line of JSON in a file, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import json
import resource
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from experiments.harness import note, timed
from experiments.kahm.private_data import Division, Rows
from onefold import AutoencoderClassifier, WideKAHM
from onefold.audit import distance_attack, membership_inference_score
from onefold.exceptions import FileFormatError, PrivacyLeakWarning
from onefold.fabrication import Fabricator
from onefold.privacy import Guarantee, OptimalNoise

DELTA, N_LAYERS = 1e-5, 5
# No privacy; the classifier of 000 Def. 12; that of Def. 15 with the document's stopping rule, and with one
# that keeps the guarantee.
METHODS = ("raw", "noisy", "documented", "honest")


@dataclass(frozen=True)
class Setting:
    """What tells one row from the others."""

    table: str
    epsilon: float  # of one entry that changes by at most 1
    n_components: int
    method: str
    seed: int


@dataclass(frozen=True)
class Row:
    """What was measured."""

    setting: Setting
    accuracy: float
    score: float  # 000 eq. 69
    auc: float  # of the attack that calls near rows members; unlike the score it has no unit
    record_epsilon: float
    holds: bool
    error: float  # mean square of private minus raw entries
    steps: tuple[int, float, int]  # fewest, mean and most smoothing steps of a branch
    private_seconds: float
    fit_seconds: float
    distance_seconds: float
    peak_mib: int  # of the process so far


def measure(setting: Setting, data: Division) -> Row:
    """Make the rows private, fit, and look at the test rows once."""
    (private, guarantee, steps), private_seconds = timed(lambda: private_rows(setting, data))
    model, fit_seconds = timed(lambda: classifier(setting).fit(private, data.y))
    distances, seconds = timed(lambda: (model.distances(data.members), model.distances(data.X_test)))
    inside, outside = (found.min(axis=1) for found in distances)  # 000 eq. 67-68
    row = Row(
        setting,
        float(np.mean(model.classes_[distances[1].argmin(axis=1)] == data.y_test)),
        membership_inference_score(inside, outside),
        distance_attack(inside, outside).auc,
        guarantee.record[0],
        guarantee.holds,
        mean_square(private - data.X),
        (min(steps), sum(steps) / len(steps), max(steps)),
        round(private_seconds, 2),
        round(fit_seconds, 2),
        round(seconds, 2),
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    )
    note(f"{setting}: accuracy {row.accuracy:.4f}, score {row.score:.5f}, steps {row.steps}")
    return row


def private_rows(setting: Setting, data: Division) -> tuple[Rows, Guarantee, list[int]]:
    """Rows to train on, what is promised about them, and the smoothing steps of every branch."""
    mechanism = OptimalNoise(setting.epsilon, DELTA)
    if setting.method == "raw":
        nothing = mechanism.guarantee(data.X.shape[1], len(data.X)).voided("no noise was added")
        return data.X, nothing, [0]
    if setting.method == "noisy":
        maker = Fabricator(mechanism)
        return maker.randomise(data.X, data.y, random_state=setting.seed), maker.guarantee_, [0]
    maker = Fabricator(mechanism, setting.n_components, setting.method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # the table says which rows are void
        rows = maker.fabricate(data.X, data.y, random_state=setting.seed)
    return rows, maker.guarantee_, maker.n_steps_


def classifier(setting: Setting) -> AutoencoderClassifier:
    """One wide machine of five layers for every class, branches of about 1000 rows (000 eq. 59)."""
    return AutoencoderClassifier(WideKAHM(setting.n_components, N_LAYERS, random_state=setting.seed))


def mean_square(entries: Rows) -> float:
    return float(np.mean(np.square(entries), dtype=np.float64))


def read(path: Path) -> dict[Setting, Row]:
    """The rows finished before."""
    if not path.exists():
        return {}
    try:
        found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        rows = [Row(Setting(**entry.pop("setting")), **entry) for entry in found]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise FileFormatError(f"{path.name} does not hold rows of this experiment") from None
    return {row.setting: row for row in rows}


def append(path: Path, row: Row) -> None:
    """Save a finished row at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(row)) + "\n")
