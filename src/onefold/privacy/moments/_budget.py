"""The budget of one release of moments: how it is divided, the noise that follows, and what is promised.

Blocks, sensitivities and the noise of a block are those of :mod:`onefold.privacy.moments._release`, and
``docs/proofs/private-moments.md`` proves the promise.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onefold._base.arrays import Floats
from onefold._base.validation import OneOf, check_parameter, check_parameters
from onefold.exceptions import InvalidInputError
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.privacy.contract import under_contract
from onefold.privacy.guarantee import FLOAT_SAMPLER, Guarantee
from onefold.privacy.moments import _release as core
from onefold.privacy.moments._denoise import (
    POOLED_PARTS,
    noise_drowns_classes,
    noise_of_moments,
    pooled_part,
)
from onefold.privacy.moments._release import CONSTRAINTS, Blocks
from onefold.privacy.terms import NOTHING, Pair, two_steps
from onefold.tables import Schema

if TYPE_CHECKING:
    from onefold.privacy.moments._estimator import PrivateMoments

# Sixteen times this much noise, in steps of 2**-28, is still a whole number that float64 holds.
LARGEST_EXACT_NOISE = 2.0**21


@dataclass(frozen=True)
class Budget:
    """The privacy of one release and its division among the blocks.

    Parameters
    ----------
    asked : PrivateMoments
        The parameters of the release.
    of_persons : bool
        Whether it is about persons instead of records.
    mu : float or None
        Gaussian privacy of the whole release; None without noise.
    shares : Blocks
        How the budget is divided before the counts are known.
    """

    asked: "PrivateMoments"
    of_persons: bool
    mu: float | None
    shares: Blocks

    @classmethod
    def of(cls, asked: "PrivateMoments", of_persons: bool) -> "Budget":
        """Check the parameters of a release, and return its budget."""
        check_parameters(asked, CONSTRAINTS)
        if asked.rows_per_person is not None and not of_persons:
            raise InvalidInputError("rows_per_person needs person: whose records they are")
        if of_persons and asked.rows_per_person is None and asked.classes is None:
            raise InvalidInputError("finding the classes of persons needs rows_per_person; or give classes")
        given = core.SHARES if asked.shares is None else asked.shares
        shares = core.divided(given, isinstance(asked.centre, str), isinstance(asked.whitening, str))
        if asked.epsilon is None:
            return cls(asked, of_persons, None, shares)
        if asked.classes is None and asked.neighbours == "replace":
            raise InvalidInputError("neighbours='replace' needs classes: the labels there can be")
        share = 1.0 if asked.classes is not None else 1.0 - core.CLASSES_SHARE
        return cls(asked, of_persons, mu_of(asked.epsilon, share * float(asked.delta)), shares)

    # --- noise ----------------------------------------------------------------------------------------------

    @property
    def divisions(self) -> tuple[Blocks, ...]:
        """All ways in which the budget may be divided; the noisy counts decide which one it is."""
        check_parameter("second_moments", self.asked.second_moments, OneOf(core.SECONDS))
        if self.asked.shares is not None or self.asked.second_moments == "class":
            return (self.shares,)
        pooled = tuple(core.divided_anew(self.shares, part) for part in POOLED_PARTS)
        return pooled if self.asked.second_moments == "pooled" else (self.shares, *pooled)

    @property
    def levels(self) -> list[Blocks]:
        """The noise of every way in which the budget may be divided."""
        return [self.deviations(division) for division in self.divisions]

    def division(self, counts: Floats, n_features: int) -> tuple[bool, Blocks]:
        """Return whether there is one second moment for all classes, and how the budget is divided.

        Both follow from public numbers and from the counts, which are released before.
        """
        kind = self.asked.second_moments
        if self.mu is None:
            return kind != "class", self.shares
        bounds = core.SENSITIVITIES[self.asked.neighbours]
        drowned = noise_drowns_classes(counts, self.mu, n_features, bounds.second)
        if kind == "class" or (kind == "auto" and not drowned):
            return False, self.shares
        if self.asked.shares is not None:
            return True, self.shares
        noise = (bounds.total / self.mu, bounds.second / self.mu)
        expected = noise_of_moments(float(counts.sum()), n_features, len(counts), *noise)
        return True, core.divided_anew(self.shares, pooled_part(expected))

    def deviations(self, division: Blocks) -> Blocks:
        """Return the standard deviations of the noise of one way to divide the budget."""
        if self.mu is None:
            return Blocks(0.0, 0.0, 0.0, 0.0)
        return core.deviations(self.mu, division, self.asked.neighbours)

    # --- what is promised -----------------------------------------------------------------------------------

    def promise(self, sampler: str, n_features: int, schema: Schema) -> Guarantee:
        """Return the guarantee of the release, from the noise that may be drawn: what holds for all of it."""
        asked, of_persons, sigmas = self.asked, self.of_persons, self.levels
        if sampler == "hardened" and max(map(max, sigmas)) > LARGEST_EXACT_NOISE:
            raise InvalidInputError("epsilon, delta or a share is too small for the hardened sampler")
        stated = replaced = NOTHING
        if asked.epsilon is not None:
            stated = float(asked.epsilon), float(asked.delta)
            replaced = self._replaced(stated)
        guarantee = Guarantee(
            unit="person" if of_persons else "record",
            entry=replaced,  # a changed entry or label replaces the record
            record=replaced if of_persons else stated,  # and a record more or less, a part of the person's
            replaced=replaced,
            labels=replaced,
            labels_in_record=True,
            n_features=n_features,
            untouched_entries=0.0,
            voided_by=(core.NO_NOISE,) * (self.mu is None) + (FLOAT_SAMPLER,) * (sampler == "float"),
            mechanism=f"{self._noise_words()}, {sampler} sampler",
            sensitivity=1.0,
            neighbours=asked.neighbours,
            person=stated if of_persons else None,
            rows_per_person=asked.rows_per_person,
            clipped=True,
            mu=None if asked.classes is None else self.mu,
        ).seeded(asked.random_state)
        if of_persons:  # a record that went to another person would change the parts of two
            guarantee = guarantee.provided("a changed record stays with its person")
        if asked.classes is None:
            guarantee = guarantee.provided("it is public whether labels are truth values, numbers or text")
        for name, given in (("centre", asked.centre), ("whitening", asked.whitening)):
            if given is not None and not isinstance(given, str):
                guarantee = guarantee.provided(f"the given {name} is public or was released before")
        return under_contract(guarantee, schema)

    def _noise_words(self) -> str:
        if not isinstance(self.asked.whitening, str):
            return "Gaussian on counts, sums and second moments"
        return (
            "Gaussian on two releases that the numbers cover together: counts and one second moment, which "
            "whitens the records, then sums and second moments of whitened records"
        )

    def _replaced(self, record: Pair) -> Pair:
        """Return (epsilon, delta) for a record and its label that are replaced."""
        if self.asked.neighbours == "replace":
            return record
        if self.asked.classes is None:
            return two_steps(record)
        bounds = core.SENSITIVITIES["replace"]
        mu = max(
            math.sqrt(
                sum((bound / level) ** 2 for bound, level in zip(bounds, sigma, strict=True) if level > 0.0)
            )
            for sigma in self.levels
        )
        return epsilon_of(mu, record[1]), record[1]
