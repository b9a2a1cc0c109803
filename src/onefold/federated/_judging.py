"""How a server combines the answers of many clients, rule by rule, and what strikes it as odd."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.federated._labelled import LabelledSet
from onefold.federated.aggregate import Array, liars_withstood, minimum, owned_classes, trimmed, weighted
from onefold.federated.client import LocalModel
from onefold.federated.combination import Reason
from onefold.federated.consistency import checked, disagreeing
from onefold.federated.trust import agreement

__all__ = ["RULES", "Judge"]

RULES = ("min", "trimmed", "checked", "weighted")
# Below this rank correlation with the other owners of its classes a site is worth a look.
LOW_AGREEMENT = 0.0

Clients = tuple[Hashable, ...]


class Judge:
    """One rule with what it needs to know; see :class:`~onefold.federated.server.GlobalClassifier`."""

    def __init__(self, rule: str, n_liars: int) -> None:
        if rule not in RULES:
            raise InvalidInputError(f"rule must be one of {', '.join(RULES)}")
        check_whole_number("n_liars", n_liars, at_least=0)
        self.rule, self.n_liars = rule, n_liars
        self.labelled: LabelledSet | None = None

    def combine(
        self,
        stacked: Array,
        clients: Clients | None,
        members: Mapping[Hashable, LocalModel | Array],
        classes: NDArray[Any],
        largest: float,
    ) -> Array:
        """Answers (Q, n, C) of these clients to one measure of each query by each class."""
        if self.rule == "min":
            return minimum(stacked)
        if self.rule == "trimmed":
            return trimmed(stacked, self.n_liars, largest=largest)
        if self.rule == "checked":
            return checked(stacked, self.n_liars, largest)
        if clients is None:
            raise InvalidInputError("the weighted rule needs to know whose answers they are")
        trust = self.trust(clients, members, classes, largest)
        if not trust.any():  # the maximum for every class would look like an answer
            raise InvalidInputError("no client is trusted: the labelled queries speak for none of them")
        return weighted(stacked, trust, largest)

    def trust(
        self,
        clients: Clients,
        members: Mapping[Hashable, LocalModel | Array],
        classes: NDArray[Any],
        largest: float,
    ) -> Array:
        """Weights (Q, C) of the weighted rule."""
        if self.labelled is None:
            raise InvalidInputError("the weighted rule needs a labelled set: call learn_trust first")
        return self.labelled.weights(clients, members, classes, largest)

    def after_checking(self, stacked: Array, n_found: int, largest: float) -> tuple[Judge, NDArray[np.intp]]:
        """What remains to be done, and which clients to do it without.

        The checked rule does without those who disagree; they and the ``n_found`` who were left out before
        count among the liars, and the others that are expected are trimmed. Other rules take all clients.
        """
        if self.rule != "checked":
            return self, np.array([], dtype=np.intp)
        left = max(self.n_liars - n_found, 0)
        odd = disagreeing(stacked, left, largest)
        return Judge("trimmed", left - odd.size), odd

    def outliers(
        self,
        stacked: Array,
        sites: tuple[str, ...],
        members: Mapping[Hashable, LocalModel | Array],
        classes: NDArray[Any],
        largest: float,
    ) -> dict[str, str]:
        """Sites whose answers are used and look odd, with the reason."""
        pairs = zip(sites, agreement(stacked, largest), strict=True)
        found = {site: str(Reason.DISAGREES) for site, value in pairs if value <= LOW_AGREEMENT}
        if self.rule == "weighted":
            weights = self.trust(sites, members, classes, largest)
            dropped = [site for site, mine in zip(sites, weights, strict=True) if not mine.any()]
            found |= dict.fromkeys(dropped, str(Reason.NOT_TRUSTED))
        return found

    def unprotected(self, stacked: Array, classes: NDArray[Any], largest: float) -> tuple[Any, ...]:
        """Classes with too few owners for the liars that are expected."""
        if self.rule != "trimmed":  # the checked rule ends in it
            return ()
        withstood = liars_withstood(owned_classes(stacked, largest).sum(axis=0), self.n_liars)
        return tuple(classes[withstood < self.n_liars].tolist())
