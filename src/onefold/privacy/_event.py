"""One entry of a ledger: releases of the same kind from the same data."""

from dataclasses import dataclass

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.privacy._arguments import check_delta, check_unit, positive
from onefold.privacy.guarantee import Guarantee, check_relation
from onefold.privacy.mechanisms import Mechanism
from onefold.privacy.mechanisms._row_noise import RowNoise

__all__ = ["Event", "check_about", "refuse_void"]


@dataclass(frozen=True)
class Event:
    """``count`` releases of the same kind from the same data.

    Parameters
    ----------
    name, mechanism : words for whoever reads the ledger
    unit : "entry" or "record": what changes
    epsilon, delta : guarantee of one release
    count : number of releases
    family : "laplace" or "gaussian" where the noise itself is known, which RDP and PLD make use of
    noise_multiplier : scale (Laplace) or standard deviation (Gaussian) over the change of one coordinate
    coordinates : coordinates with independent noise that change together
    atom : probability of no noise on one coordinate
    neighbours : for records, "replace" or "add-remove": see :class:`~onefold.privacy.Guarantee`
    """

    name: str
    unit: str
    epsilon: float
    delta: float = 0.0
    mechanism: str = ""
    count: int = 1
    family: str | None = None
    noise_multiplier: float | None = None
    coordinates: int = 1
    atom: float = 0.0
    neighbours: str = "replace"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.mechanism, str):
            raise InvalidInputError("name and mechanism of an event are words")
        check_about(self.unit, self.neighbours)
        check_delta(self.delta, zero=True)
        check_delta(self.atom, zero=True)
        check_whole_number("count", self.count)
        check_whole_number("coordinates", self.coordinates)
        if self.epsilon != 0:
            positive("epsilon", self.epsilon)
        if self.family not in (None, "laplace", "gaussian") or (self.family is None) != (
            self.noise_multiplier is None
        ):
            raise InvalidInputError(
                "family must be 'laplace' or 'gaussian', and comes with a noise_multiplier"
            )
        if self.noise_multiplier is not None:
            positive("noise_multiplier", self.noise_multiplier)

    @classmethod
    def of(
        cls,
        mechanism: Mechanism | RowNoise,
        n_features: int,
        name: str = "release",
        unit: str = "record",
        count: int = 1,
    ) -> "Event":
        """One release (or ``count``) of rows of ``n_features`` entries by a mechanism."""
        guarantee = mechanism.guarantee(n_features)
        refuse_void(guarantee)
        epsilon, delta = guarantee.entry if check_unit(unit) == "entry" else guarantee.record
        parts = mechanism.accounting(unit, n_features)
        return cls(
            name, unit, epsilon, delta, guarantee.mechanism, count, neighbours=guarantee.neighbours, **parts
        )


def check_about(unit: str, neighbours: str) -> None:
    """The unit, and the relation between neighbours that it allows."""
    check_unit(unit)
    if check_relation(neighbours) != "replace" and unit == "entry":
        raise InvalidInputError("entries are changed, not added: neighbours='add-remove' is for records")


def refuse_void(guarantee: Guarantee) -> None:
    """Only what holds can be counted."""
    if not guarantee.holds:
        raise InvalidInputError("a void guarantee cannot be entered in a ledger: no number describes it")
