"""Encrypted sums of what the library releases: moments of records, and counts of the cells of tables.

Both are vectors of whole numbers with a known change per record, so one release of all sites' records
follows from sums that are opened as a whole: the noise is that of a single release, and nobody sees a site's
part.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import Integers
from onefold._base.fixed_point import MOST_ROWS
from onefold._base.validation import Instance, Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.fabrication import TableCounts
from onefold.fabrication.counts import RAW
from onefold.federated.access.signatures import canonical
from onefold.federated.messages import digest_of
from onefold.federated.secret.contract import NO_NOISE, SumContract, SumParties
from onefold.federated.secret.noise import SPARE, SumBlock
from onefold.federated.secret.rounds import EncryptedSum, OpenedSum
from onefold.privacy import PrivateMoments
from onefold.privacy.moments import MomentPart, MomentRounds
from onefold.tables import Schema
from onefold.tables.schema import AS_THEY_STAND

__all__ = ["MomentSum", "TableSum"]

STEPS = 2**28  # of the grid of moments
LARGER = (
    1.0 + 2.0 * SPARE
)  # noise of a sum in units of what the promise needs: the rounding of shares is paid
FINEST = 8  # binary digits by which counts may be refined, so that a share of the noise is not too small


class MomentSum:
    """Moments of all sites' records by two encrypted sums: counts and centre first, then the rest.

    Every site and the querier make this object from the same public parameters. ``first`` is the sum of the
    first round; after it is opened, :meth:`proceed` gives the second.

    Parameters
    ----------
    round_id : str
        Name of the two rounds, never used before.
    parties : SumParties
        Who takes part.
    moments : PrivateMoments
        The agreed release, with ``classes``; see :class:`onefold.privacy.moments.MomentRounds`. With
        ``epsilon=None`` sums have no noise: they are exact, and nothing is promised.
    n_features : int
        Number of features of an encoded record.
    most_rows : int or None, default=None
        Largest number of records of a site, from public knowledge; None takes 2^25 divided by the number of
        sites.
    of_persons : bool, default=False
        Whether records belong to persons.
    schema : Schema, default=AS_THEY_STAND
        What the rows were encoded by.
    encoding : str, default=""
        Description of the encoder that all sites use.

    See Also
    --------
    EncryptedSum : The protocol of each round.
    MomentFederation : Moments with noise of each site's own.
    TableSum : The same for counts of tables.

    Examples
    --------
    >>> from onefold.federated import HolderKey
    >>> keys = [HolderKey.new(name) for name in ("ann", "bob", "cy")]
    >>> parties = SumParties(("north", "south", "west"), tuple(key.public for key in keys), 2)
    >>> agreed = PrivateMoments(1.0, classes=[0, 1])
    >>> MomentSum("spring", parties, agreed, n_features=2).first.contract.length
    4
    """

    def __init__(
        self,
        round_id: str,
        parties: SumParties,
        moments: PrivateMoments,
        n_features: int,
        *,
        most_rows: int | None = None,
        of_persons: bool = False,
        schema: Schema = AS_THEY_STAND,
        encoding: str = "",
    ) -> None:
        check_parameter("parties", parties, Instance(SumParties, "a SumParties"))
        check_parameter("most_rows", most_rows, (Whole(1, MOST_ROWS), None))
        self._rounds = MomentRounds(moments, n_features, of_persons, Schema.of(schema))
        self._parties, self._id, self._noise = parties, round_id, moments.epsilon is not None
        self._largest = STEPS * (MOST_ROWS // len(parties.sites) if most_rows is None else most_rows)
        told = {
            "classes": [str(label) for label in np.unique(np.asarray(moments.classes))],
            "radius": float(moments.radius),
            "neighbours": moments.neighbours,
            "encoding": encoding,
            "schema": None if schema.plain else schema.digest,
            "features": n_features,
            "persons": of_persons,
            **_given_points(moments),
        }
        self._encoding, self._agreement = encoding, told
        self.first = EncryptedSum(self._contract("1", parties, self._rounds.first_parts, 0.0, b""))

    def _contract(
        self, number: str, parties: SumParties, parts: Sequence[MomentPart], earlier: float, before: bytes
    ) -> SumContract:
        blocks = moment_blocks(parts, self._largest)
        told = canonical({**self._agreement, "before": digest_of(before)})
        return parties.contract(
            f"{self._id}-{number}",
            blocks,
            promise=self._rounds.promise,
            noise=self._noise,
            earlier_mu=earlier,
            agreement=digest_of(told),
        )

    def first_vector(self, X: ArrayLike, y: ArrayLike, person: Any = None) -> Integers:
        """Compute a site's vector of the first round.

        Parameters
        ----------
        X : array-like of shape (n, p)
            The site's encoded records.
        y : array-like of shape (n,)
            Their labels.
        person : array-like of shape (n,) or None, default=None
            Who each record is about.

        Returns
        -------
        ndarray of int64
            What ``first.contribute`` takes.
        """
        return self._rounds.first_vector(X, y, person)

    def proceed(self, opened: OpenedSum) -> "MomentSecondSum":
        """Return the second round, among the sites that were in the first.

        Parameters
        ----------
        opened : OpenedSum
            The opened sum of the first round.

        Returns
        -------
        MomentSecondSum
            The second round.
        """
        excess = excess_of(opened, self.first.contract)
        rounds = self._rounds.after(opened.vector, excess)
        earlier = self.first.contract.mu if self._noise else 0.0
        before = opened.vector.astype("<i8").tobytes() + canonical({"sites": sorted(opened.sites)})
        parties = self._parties.only(opened.sites)
        contract = self._contract("2", parties, rounds.second_parts, earlier, before)
        return MomentSecondSum(rounds, EncryptedSum(contract), opened, self._encoding)


class MomentSecondSum:
    """The second round of :class:`MomentSum`, which makes it.

    Parameters
    ----------
    rounds : MomentRounds
        The rounds, with a known centre.
    second : EncryptedSum
        The sum of the second round.
    before : OpenedSum
        The opened sum of the first round.
    encoding : str
        Description of the encoder.

    See Also
    --------
    MomentSum : The first round.

    Examples
    --------
    >>> later = total.proceed(opened)  # doctest: +SKIP
    >>> later.second.contribute("north", later.second_vector(X, y), folder)  # doctest: +SKIP
    """

    def __init__(self, rounds: MomentRounds, second: EncryptedSum, before: OpenedSum, encoding: str) -> None:
        self.second, self._rounds, self._before, self._encoding = second, rounds, before, encoding

    def second_vector(self, X: ArrayLike, y: ArrayLike, person: Any = None) -> Integers:
        """Compute a site's vector of the second round, of the same records as before.

        Parameters
        ----------
        X : array-like of shape (n, p)
            The site's encoded records.
        y : array-like of shape (n,)
            Their labels.
        person : array-like of shape (n,) or None, default=None
            Who each record is about.

        Returns
        -------
        ndarray of int64
            What ``second.contribute`` takes.
        """
        return self._rounds.second_vector(X, y, person)

    def moments(self, opened: OpenedSum, anyway: bool = False) -> PrivateMoments:
        """Return the moments of all sites' records, for ``MomentClassifier.from_moments``.

        Parameters
        ----------
        opened : OpenedSum
            The opened sum of the second round.
        anyway : bool, default=False
            Whether to go on if a site dropped out between the rounds: its records are then counted, but they
            are not in the sums.

        Returns
        -------
        PrivateMoments
            One release, with the guarantee of both rounds.
        """
        lost = sorted(set(self._before.sites) - set(opened.sites))
        if lost and not anyway:
            raise InvalidInputError(
                f"site {', '.join(lost)} dropped out between the two rounds: its records are in the counts "
                "only; begin anew, or say anyway=True"
            )
        guarantee = opened.guarantee
        for reason in self._before.guarantee.voided_by:
            guarantee = guarantee.voided(reason)
        found = self._rounds.finished(opened.vector, excess_of(opened, self.second.contract), guarantee)
        if self._encoding:
            found.encoding_ = self._encoding
        return found


def moment_blocks(parts: Iterable[MomentPart], largest: int) -> list[SumBlock]:
    """Return the blocks of parts of moments, whose numbers are at most so large at one site."""
    return [
        SumBlock(part.name, part.length, largest, part.sigma * LARGER, part.change, part.triangle)
        for part in parts
    ]


def excess_of(opened: OpenedSum, contract: SumContract) -> float:
    """Return the variance of the noise of an opened sum, in units of what one release needs."""
    return len(opened.sites) / contract.least_adding * LARGER**2


def _given_points(moments: PrivateMoments) -> dict[str, str]:
    """Digests of a public centre and whitening: vectors about others must not be added up unnoticed."""
    given = {"centre": moments.centre, "whitening": moments.whitening}
    return {
        name: digest_of(np.asarray(value, dtype="<f8").tobytes())
        for name, value in given.items()
        if value is not None and not isinstance(value, str)
    }


class TableSum:
    """Counts of all sites' tables by an encrypted sum.

    Parameters
    ----------
    round_id : str
        Name of the round, never used before.
    parties : SumParties
        Who takes part.
    counts : TableCounts
        Counts of this site, from ``TableSynthesizer(..., noise=False)``. Only their public description is
        used.
    most_rows : int
        Largest number of rows of a site, from public knowledge.

    Attributes
    ----------
    total : EncryptedSum
        The sum, the same at all sites.

    See Also
    --------
    onefold.fabrication.TableSynthesizer : Counts a table, and makes synthetic rows of the sum.

    Examples
    --------
    >>> total = TableSum("spring", parties, counts, most_rows=10_000)  # doctest: +SKIP
    >>> message = total.total.contribute("north", total.vector(counts), folder)  # doctest: +SKIP
    """

    def __init__(self, round_id: str, parties: SumParties, counts: TableCounts, most_rows: int) -> None:
        check_parameter("parties", parties, Instance(SumParties, "a SumParties"))
        check_parameter("counts", counts, Instance(TableCounts, "a TableCounts"))
        check_parameter("most_rows", most_rows, Whole(1, 2**40))
        if not counts.is_raw:
            raise InvalidInputError("an encrypted sum is of counts that wait for noise: use noise=False")
        promise = replace(
            counts.guarantee, voided_by=tuple(why for why in counts.guarantee.voided_by if why != RAW)
        )
        noise = promise.mu is not None
        layout = counts.layout
        sizes = (layout.singles_length, layout.length - layout.singles_length)
        tables = (len(layout.sizes), len(layout.pairs))
        unit = (promise.rows_per_person or 1) * (math.sqrt(2.0) if promise.neighbours == "replace" else 1.0)
        used = [place for place in (0, 1) if sizes[place]]
        least = min((counts.sigmas[place] for place in used), default=0.0)
        self._digits = _finer(least, parties.least_adding) if noise else 0
        step = float(2**self._digits)
        blocks = [
            SumBlock(
                ("single columns", "pairs of columns")[place],
                sizes[place],
                most_rows * 2**self._digits,
                counts.sigmas[place] * step * LARGER,
                unit * math.sqrt(tables[place]) * step,
            )
            for place in used
        ]
        told = {
            "schema": counts.schema,
            "n_fine": counts.n_fine,
            "sizes": list(layout.sizes),
            "classes": layout.n_classes,
            "pairs": [list(pair) for pair in layout.pairs],
            "digits": self._digits,
            "bins": [own.tolist() for own in counts.bins.cells],
        }
        self.total: EncryptedSum = EncryptedSum(
            parties.contract(
                round_id,
                blocks,
                promise=promise,
                noise=noise,
                agreement=digest_of(canonical(told)),
            )
        )

    def vector(self, counts: TableCounts) -> Integers:
        """Return a site's counts in the steps of the sum.

        Parameters
        ----------
        counts : TableCounts
            Counts of this site.

        Returns
        -------
        ndarray of int64
            What ``total.contribute`` takes.
        """
        return np.asarray(counts.vector << self._digits)

    def opened(self, counts: TableCounts, opened: OpenedSum) -> TableCounts:
        """Return the counts of all sites, from the opened sum.

        Parameters
        ----------
        counts : TableCounts
            Counts of any site, for the description.
        opened : OpenedSum
            The opened sum.

        Returns
        -------
        TableCounts
            Counts with noise. No site can leave them.
        """
        factor = math.sqrt(excess_of(opened, self.total.contract))
        vector = np.rint(np.ldexp(opened.vector.astype(np.float64), -self._digits)).astype(np.int64)
        guarantee = opened.guarantee
        if not self.total.contract.noise and NO_NOISE not in guarantee.voided_by:
            guarantee = guarantee.voided(NO_NOISE)
        return counts.with_vector(
            vector if self._digits else opened.vector,
            (counts.sigmas[0] * factor, counts.sigmas[1] * factor),
            guarantee,
        )


def _finer(sigma: float, n_adding: int) -> int:
    """Binary digits by which counts are refined, so that a share of the noise has a deviation of 4 steps."""
    if sigma <= 0.0 or n_adding < 1:
        return 0
    needed = math.ceil(math.log2(4.0 * math.sqrt(n_adding) / sigma))
    return min(max(needed, 0), FINEST)
