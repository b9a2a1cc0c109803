"""Moments of the records of several sites in two sums that are opened as a whole.

A release by one site goes through counts, centre, sums and second moments in this order, each of which may
depend on the noisy result of those before (``PrivateMoments.fit``). Where only sums over sites are ever
seen, the same happens in two rounds: counts and the sum for the centre, then the rest. What is proved for
the release holds for the rounds, with the noise of the sums in place of its noise. With a public centre and a
declared number of records nothing waits for the counts, and one round is enough.
"""

import copy
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import AnyArray, Floats, Index, Integers
from onefold._base.fixed_point import MOST_ROWS
from onefold._base.validation import Flag, Instance, Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.privacy.contract import encoding_of
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.moments import _release as core
from onefold.privacy.moments._budget import Budget
from onefold.privacy.moments._estimator import PrivateMoments
from onefold.privacy.persons import person_codes
from onefold.tables import Schema
from onefold.tables.schema import AS_THEY_STAND


class MomentPart(NamedTuple):
    """Entries of the vector of a round that get the same noise, in steps of 2**-28.

    ``sigma`` is the standard deviation of the noise of one release, ``change`` the Euclidean length by which
    one unit of privacy changes the entries. ``triangle`` is the size of matrices whose upper triangles the
    entries are.
    """

    name: str
    length: int
    sigma: float
    change: float
    triangle: int = 0


class MomentRounds:
    """The agreed moments of all sites' records, in two rounds of sums without noise of their own.

    Parameters
    ----------
    moments : PrivateMoments
        The agreed release; it is not changed. It declares ``classes``, has the hardened sampler and no
        ``rows_per_person``.
    n_features : int
        Number of features of a record.
    of_persons : bool, default=False
        Whether records belong to persons, each of whom counts once.
    schema : Schema, default=AS_THEY_STAND
        What the rows were encoded by.

    Attributes
    ----------
    promise : Guarantee
        What one release with the noise of both rounds promises.

    See Also
    --------
    PrivateMoments : One site's release.
    onefold.federated.EncryptedSum : Adds up vectors that nobody sees.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.privacy import PrivateMoments
    >>> rounds = MomentRounds(PrivateMoments(None, classes=[0, 1], centre=None, second_moments="class"), 2)
    >>> X, y = np.eye(2), [0, 1]
    >>> later = rounds.after(rounds.first_vector(X, y))
    >>> later.finished(later.second_vector(X, y), 1.0, rounds.promise).counts_.tolist()
    [1.0, 1.0]
    """

    def __init__(
        self,
        moments: PrivateMoments,
        n_features: int,
        of_persons: bool = False,
        schema: Schema = AS_THEY_STAND,
    ) -> None:
        check_parameter("moments", moments, Instance(PrivateMoments, "a PrivateMoments"))
        check_parameter("n_features", n_features, Whole(1))
        check_parameter("of_persons", of_persons, Flag())
        self._agreed = copy.copy(moments)
        self._agreed.n_features_in_ = n_features
        self._schema = schema
        if moments.classes is None:
            raise InvalidInputError("a sum over sites needs classes: the labels there can be")
        if isinstance(moments.whitening, str):
            raise InvalidInputError("a sum over sites needs a public whitening, or None")
        if moments.rows_per_person is not None:
            raise InvalidInputError("rows_per_person cannot be used in two rounds: limit the rows beforehand")
        if moments.sampler != "hardened" or moments.random_state is not None:
            raise InvalidInputError("a sum over sites needs the hardened sampler, without a seed")
        self._budget = Budget.of(self._agreed, of_persons)
        self.promise: Guarantee = self._budget.promise("hardened", n_features, self._schema)
        self._classes, _ = core.candidates_of(np.asarray(moments.classes), moments.classes)
        self._sigma = self._budget.levels[0]  # counts and centre have the same noise in all of them
        given = moments.whitening
        self._agreed.whitening_ = None if given is None else core.given_whitening(given, n_features)
        self._first: tuple[Floats, Floats] | None = None
        self._declared: Floats | None = None  # sizes of classes by which the budget is divided beforehand
        if not isinstance(moments.centre, str):
            self._agreed.centre_ = self._agreed._find_centre(
                np.zeros((0, n_features)), 1.0, core.Noise.of(None, "hardened"), 0.0
            )

    # --- the first round: counts, and the sum for the centre -----------------------------------------------

    @property
    def _with_centre(self) -> bool:
        return isinstance(self._agreed.centre, str)

    @property
    def first_parts(self) -> tuple[MomentPart, ...]:
        """What the vector of the first round consists of."""
        bounds = core.SENSITIVITIES[self._agreed.neighbours]
        counts = self._part("counts", len(self._classes), self._sigma.number, bounds.number)
        if not self._with_centre:
            return (counts,)
        return counts, self._part("centre", self._agreed.n_features_in_, self._sigma.centre, bounds.centre)

    def first_vector(self, X: ArrayLike, y: ArrayLike, person: Any = None) -> Integers:
        """Compute a site's vector of the first round.

        Parameters
        ----------
        X : array-like of shape (n, p)
            The site's records.
        y : array-like of shape (n,)
            Their labels.
        person : array-like of shape (n,) or None, default=None
            Who each record is about.

        Returns
        -------
        ndarray of int64
            Whole numbers without noise.
        """
        rows, codes, noise = self._prepared(X, y, person)
        found = [noise.sizes(codes, len(self._classes))]
        if self._with_centre:
            agreed = copy.copy(self._agreed)
            agreed.centre_, agreed.whitening_ = np.zeros(rows.shape[1]), None
            found.append(noise.firsts(agreed.embed(rows)).sum(axis=0))
        return _steps(*found)

    def after(self, opened: AnyArray, excess: float = 1.0) -> "MomentRounds":
        """Return the second round, once the sum of the first is opened.

        Parameters
        ----------
        opened : ndarray of int64
            The sum of all sites' vectors, noise included.
        excess : float, default=1.0
            Variance of its noise in units of what one release needs.

        Returns
        -------
        MomentRounds
            The rounds with a known centre.
        """
        lengths = [part.length for part in self.first_parts]
        values = np.asarray(opened)
        if values.dtype != np.int64 or values.shape != (sum(lengths),):
            raise InvalidInputError(f"the opened sum must be {sum(lengths)} whole numbers of int64")
        counts, *rest = np.split(
            np.ldexp(values.astype(np.float64), -core.STEP_DIGITS), np.cumsum(lengths)[:-1]
        )
        found = copy.copy(self)
        found._agreed = copy.copy(self._agreed)
        if self._with_centre:
            found._agreed.centre_ = np.asarray(core.means(np.array([counts.sum()]), rest[0][None])[0])
        found._first = counts, np.full(len(counts), self._sigma.number * math.sqrt(excess))
        return found

    def at_once(self, n_records: int) -> "MomentRounds":
        """Return rounds that need not wait for each other: vectors of both can be sent in one sum.

        The budget is divided for a declared number of records instead of the noisy one, and the centre must
        be public.

        Parameters
        ----------
        n_records : int
            About how many records there are at all sites together, from public knowledge.

        Returns
        -------
        MomentRounds
            The rounds. After the sum is opened, :meth:`after` takes the entries of the first.
        """
        check_parameter("n_records", n_records, Whole(1))
        if self._with_centre:
            raise InvalidInputError("a private centre takes a round of its own: give a public one, or None")
        found = copy.copy(self)
        found._declared = np.full(len(self._classes), n_records / len(self._classes))
        return found

    # --- the second round: sums and second moments ----------------------------------------------------------

    def _division(self) -> tuple[bool, core.Blocks]:
        sizes = self._declared
        if sizes is None:
            if self._first is None:
                raise InvalidInputError("open the sum of the first round before: rounds.after(opened)")
            sizes = self._first[0]
        pooled, division = self._budget.division(sizes, self._agreed.n_features_in_)
        return pooled, self._budget.deviations(division)

    @property
    def second_parts(self) -> tuple[MomentPart, ...]:
        """What the vector of the second round consists of."""
        pooled, sigma = self._division()
        bounds, size = core.SENSITIVITIES[self._agreed.neighbours], self._agreed.n_features_in_
        n_matrices = 1 if pooled else len(self._classes)
        return (
            self._part("sums", len(self._classes) * size, sigma.total, bounds.total),
            self._part(
                "second moments", n_matrices * (size * (size + 1) // 2), sigma.second, bounds.second, size
            ),
        )

    def second_vector(self, X: ArrayLike, y: ArrayLike, person: Any = None) -> Integers:
        """Compute a site's vector of the second round, of the same records.

        Parameters
        ----------
        X : array-like of shape (n, p)
            The site's records.
        y : array-like of shape (n,)
            Their labels.
        person : array-like of shape (n,) or None, default=None
            Who each record is about.

        Returns
        -------
        ndarray of int64
            Whole numbers without noise.
        """
        pooled, _ = self._division()
        rows, codes, noise = self._prepared(X, y, person)
        seen = self._agreed.embed(rows)
        totals, seconds = core.class_sums(
            noise.firsts(seen), noise.roots(seen), codes, len(self._classes), pooled
        )
        return _steps(totals.ravel(), seconds[:, *np.triu_indices(rows.shape[1])].ravel())

    def finished(self, opened: AnyArray, excess: float, guarantee: Guarantee) -> PrivateMoments:
        """Return the moments of all sites' records, once both sums are opened.

        Parameters
        ----------
        opened : ndarray of int64
            The sum of all sites' vectors of the second round, noise included.
        excess : float
            Variance of its noise in units of what one release needs.
        guarantee : Guarantee
            What the protocol of the sums promises; it is stated as given.

        Returns
        -------
        PrivateMoments
            The moments.
        """
        pooled, sigma = self._division()
        counts, levels = self._first or (np.empty(0), np.empty(0))
        found, factor = copy.copy(self._agreed), math.sqrt(excess)
        found.second_moments = "pooled" if pooled else "class"
        found.classes_, size = self._classes, found.n_features_in_
        n_matrices = 1 if pooled else len(self._classes)
        found.second_moments_ = np.empty((n_matrices, size, size))
        found.encoding_ = encoding_of(self._schema)
        found.schema_fields_ = ()
        whole = np.concatenate([_steps(counts), np.asarray(opened)])
        found = found.with_vector(whole, (1.0, sigma.total * factor, sigma.second * factor), guarantee)
        found.count_noise_ = levels
        return found

    # --- both -----------------------------------------------------------------------------------------------

    def _part(self, name: str, length: int, sigma: float, bound: float, triangle: int = 0) -> MomentPart:
        return MomentPart(
            name, length, math.ldexp(sigma, core.STEP_DIGITS), math.ldexp(bound, core.STEP_DIGITS), triangle
        )

    def _prepared(self, X: ArrayLike, y: ArrayLike, person: Any) -> tuple[Floats, Index, core.Noise]:
        rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
        if rows.ndim != 2 or rows.shape[1] != self._agreed.n_features_in_ or labels.shape != (len(rows),):
            raise InvalidInputError(
                f"expected rows of {self._agreed.n_features_in_} numbers, and one label for each"
            )
        if not np.isfinite(rows).all():
            raise InvalidInputError("the rows hold NaN or infinity: map missing cells before")
        if len(rows) > MOST_ROWS:
            raise InvalidInputError("at most 2**25 records are added exactly: split the data")
        if (person is not None) != self._budget.of_persons:
            raise InvalidInputError("all sites tell whose records they are, or none: see of_persons")
        _, codes = core.candidates_of(labels, self._agreed.classes)
        owners = None if person is None else person_codes(person, len(rows))
        return rows, codes, core.Noise.of(None, "hardened", owners, silent=self._budget.mu is None)


def _steps(*parts: Floats) -> Integers:
    return np.concatenate([np.rint(np.ldexp(part, core.STEP_DIGITS)).astype(np.int64) for part in parts])
