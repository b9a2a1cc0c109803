"""Answers that arrived, sorted into what can be used and what cannot, with a reason for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.federated.messages import Answers, Failure, Profile, Query
from onefold.models import maximum_of

__all__ = ["Reason", "Result", "accept", "constant_sites"]

# So many different queries are never equally far from anything.
CONSTANT_ROWS = 5


class Reason(StrEnum):
    """Why the answers of a site were not used, or are worth a look; a failed site gives its own code."""

    MALFORMED = "malformed"  # not a valid message of answers
    UNEXPECTED = "unexpected"  # not a member
    WRONG_SITE = "wrong-site"  # speaks in the name of another site
    WRONG_QUERY = "wrong-query"  # answers another query, or another number of rows
    WRONG_MEASURE = "wrong-measure"  # another measure or scale than the federation's
    WRONG_CLASSES = "wrong-classes"  # a class the federation does not have, or labels of another kind
    UNLIKE_PROFILE = "unlike-profile"  # other classes or another measure than the site declared at joining
    CONSTANT = "constant"  # the same answer to every query
    DISAGREES = "disagrees"  # does not follow the other owners of its classes
    NOT_TRUSTED = "not-trusted"  # did not predict the labelled queries


@dataclass(frozen=True, eq=False)
class Result:
    """What a federation answers, and who had a part in it.

    Parameters
    ----------
    labels : the predicted label of each query, (n,).
    measures : the combined measure of each query by each class, (n, C).
    classes : labels of the columns, (C,).
    answered : sites whose answers were used.
    missing : expected sites that sent no answers.
    partial : whether the answers of any expected site are missing or were refused.
    refused : sites whose answers were not used, with the reason.
    outliers : sites whose answers were used but look odd, with the reason.
    unprotected : classes that the rule could not protect against the announced number of liars.
    """

    labels: NDArray[Any]
    measures: NDArray[np.floating]
    classes: NDArray[Any]
    answered: tuple[str, ...]
    missing: tuple[str, ...]
    partial: bool
    refused: dict[str, str]
    outliers: dict[str, str]
    unprotected: tuple[Any, ...] = ()


def accept(
    answers: Mapping[str, Answers | Failure],
    expected: Iterable[str],
    *,
    query: Query | None = None,
    profiles: Mapping[str, Profile] | None = None,
    classes: NDArray[Any] | None = None,
    measure: str | None = None,
) -> tuple[dict[str, Answers], dict[str, str]]:
    """Answers that belong together, and reasons for leaving out the others.

    What the query or a site's profile does not settle is settled by the majority: the id and length of the
    query, the measure and scale, the kind of the labels.
    """
    members = set(expected)
    good: dict[str, Answers] = {}
    refused: dict[str, str] = {}
    for site in sorted(answers):
        reason = _objection(site, answers[site], members, (profiles or {}).get(site))
        if reason is not None:
            refused[site] = str(reason)
        else:
            good[site] = answers[site]  # type: ignore[assignment]  # the objection has looked
    known = None if query is None else (query.id, len(query.features))
    steps = (
        (Reason.WRONG_QUERY, lambda a: (a.query_id, len(a.values)), known),
        (Reason.WRONG_MEASURE, lambda a: (a.measure, a.scale), None),
        (Reason.WRONG_CLASSES, lambda a: type(a.classes[0]), None),
    )
    if measure is not None:
        good = _majority(good, refused, Reason.WRONG_MEASURE, lambda a: a.measure, measure)
    for why, what, settled in steps:
        good = _majority(good, refused, why, what, settled)
    if classes is not None:
        foreign = [site for site, each in good.items() if not set(each.classes) <= set(classes.tolist())]
        for site in foreign:
            del good[site]
            refused[site] = str(Reason.WRONG_CLASSES)
    return good, refused


def constant_sites(answers: Mapping[str, Answers], query: Query | None = None) -> list[str]:
    """Sites that give the same answer, and not the maximum, to all of several different queries."""
    found = []
    n_different = None if query is None else len(np.unique(query.features, axis=0))
    for site, each in answers.items():
        if (len(each.values) if n_different is None else n_different) < CONSTANT_ROWS:
            continue
        still = np.all(each.values == each.values[0], axis=0)
        if np.any(still & (each.values[0] < maximum_of(each.measure))):
            found.append(site)
    return found


def _objection(site: str, answer: Any, members: set[str], profile: Profile | None) -> str | None:
    if site not in members:
        return Reason.UNEXPECTED
    if isinstance(answer, Failure):
        return answer.code
    if not isinstance(answer, Answers):
        return Reason.MALFORMED
    if answer.site != site:
        return Reason.WRONG_SITE
    if profile is not None:
        declared = (set(profile.classes), profile.measure, profile.scale)
        if (set(answer.classes), answer.measure, answer.scale) != declared:
            return Reason.UNLIKE_PROFILE
    return None


def _majority(
    good: dict[str, Answers], refused: dict[str, str], why: Reason, what: Any, settled: Any
) -> dict[str, Answers]:
    """Keep those of one kind: the settled one, or the most frequent; of equally frequent ones the first."""
    if not good:
        return good
    kinds = {site: what(each) for site, each in good.items()}
    usual = Counter(kinds.values()).most_common(1)[0][0] if settled is None else settled
    refused.update({site: str(why) for site, kind in kinds.items() if kind != usual})
    return {site: each for site, each in good.items() if kinds[site] == usual}
