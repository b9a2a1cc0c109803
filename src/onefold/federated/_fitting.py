"""Fitting an owner's classifier to prepared rows, and the guarantee of rows that came at different times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onefold.exceptions import InvalidInputError
from onefold.federated._rows import Rows
from onefold.federated._settings import RowChecks, Settings
from onefold.models import ClassModels as Divisible
from onefold.models import StackMemory
from onefold.privacy import Guarantee

__all__ = ["fitted_to", "weaker"]


def fitted_to(
    rows: Rows,
    guarantee: Guarantee | None,
    settings: Settings,
    checks: RowChecks,
    memory: StackMemory | None,
) -> tuple[Any, Rows]:
    """The classifier fitted to these rows in these batches; machines that would come out equal are kept."""
    estimator = settings.prototype()
    if isinstance(estimator, Divisible):
        estimator.fit_batches(rows.values, rows.labels, rows.batches, memory)
        rows = replace(rows, batches=estimator.batches_)
    else:
        estimator.fit(rows.values, rows.labels)
    if hasattr(checks, "feature_names_in_"):
        estimator.feature_names_in_ = checks.feature_names_in_
    if guarantee is not None:
        estimator.guarantee_ = guarantee
    return estimator, rows


def weaker(one: Guarantee, other: Guarantee) -> Guarantee:
    """Of rows with noise of their own, the guarantee that holds for all: the one with the larger epsilon."""
    if (one.unit, one.n_features) != (other.unit, other.n_features):
        raise InvalidInputError("the new rows would have a guarantee of another kind")
    found = max(one, other, key=lambda guarantee: (guarantee.entry, guarantee.record))
    for reason in (*one.voided_by, *other.voided_by):
        found = found.voided(reason)
    return found
