"""The server of a joined federation: units to agree on, the sum of all messages, and what is published."""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from onefold._base.arrays import AnyArray, Array, Floats, Labels
from onefold._base.fixed_point import unit_rows
from onefold._base.validation import Whole, check_parameters
from onefold.exceptions import InvalidInputError
from onefold.federated.contract import class_list
from onefold.federated.joined import WIDE, Agreement, JoinedSums, Offset
from onefold.models.preparation import ColumnSpread, Preparation
from onefold.models.ridge import LinearScores, PooledSpectrum
from onefold.tables import Schema

__all__ = [
    "Influence",
    "JoinedFederation",
    "RowForm",
    "agree_on_form",
    "agree_on_units",
    "declared_agreement",
    "lift_width",
    "publish",
    "usual_radius",
]

# Rows of fewer columns are mostly tables, whose columns have units of their own.
FEW_COLUMNS = 50
# Columns of one kind: the variance is spread over this share of them, counted as (sum v)^2 / sum v^2, and the
# largest deviation is at most so many times the median one. Pixels and embeddings stay below 12, tables in
# their own units are above 70.
LEAST_ALIKE, FARTHEST_APART = 0.25, 32.0
# Rows of few columns differ much in length, and that tells classes apart: so many usual lengths are kept.
LONGEST_OF_FEW = 1.5
N_DIRECTIONS = 512
# Of the small lifts by which forms of rows are compared.
TRIAL_DIRECTIONS = 128
# Another form than the usual one must lower the estimated error to this part of it.
WORTH = 0.85
# Usual lengths of a row within which the narrow form sees rows as alike, and at which it shortens them.
NARROW, LONGEST_NARROW = 0.5, 3.0


# --- before the first message -----------------------------------------------------------------------------


def lift_width(n_features: int, n_rows: int) -> int:
    """Number of directions of the lift that is taken if none is agreed on; none for wide rows.

    Parameters
    ----------
    n_features : int
        Columns of a row.
    n_rows : int
        Rows of all sites, from the first message or by declaration: with few, more directions say nothing.

    Returns
    -------
    int
        The number.

    Examples
    --------
    >>> lift_width(64, 1000), lift_width(1280, 1000)
    (500, 0)
    """
    return 0 if n_features >= WIDE else min(N_DIRECTIONS, max(n_rows // 2, 32))


def agree_on_units(parts: Iterable[ArrayLike]) -> Preparation:
    """Agree on a location and a unit for each column of rows of plain numbers, from sums over the sites.

    Every site tells its number of rows and, for each column, mean and squared deviations: a small message
    before the first round, which carries no guarantee either. Few columns, and columns of very different
    spread, get units of their own; others, such as pixels and embeddings, one common unit. With a schema none
    of this is needed. **After a site has left, these constants still carry its rows**, unless all sites agree
    and fit anew.

    Parameters
    ----------
    parts : iterable of array-like of shape (n, p)
        Rows of each site.

    Returns
    -------
    Preparation
        What all sites and queriers apply to their rows; rounded, so that it does not depend on how the rows
        are spread over sites, except where a digit is about to change.

    Examples
    --------
    >>> agree_on_units([[[0.0, 0.0], [2.0, 2000.0]], [[4.0, 4000.0]]]).scale.tolist()
    [1.625, 1632.0]
    """
    spread = ColumnSpread.total(ColumnSpread.of(part) for part in parts)
    if _are_alike(spread.deviations):
        spread = replace(spread, deviations=np.full_like(spread.mean, spread.deviations.mean()))
    return Preparation.standardising(spread)


@dataclass(frozen=True)
class RowForm:
    """How all sites and queriers bring rows of plain numbers into one form.

    Parameters
    ----------
    preparation : Preparation or None
        Location and unit of each column; None scales every row to length one instead.
    radius : float
        Radius of the :class:`onefold.federated.joined.Agreement` about such rows.
    longest : float, default=1.0
        How many radii long its rows may be.

    See Also
    --------
    agree_on_form : Finds one.

    Examples
    --------
    >>> import numpy as np
    >>> RowForm(None, 1.0).apply(np.array([[3.0, 4.0]])).round(3).tolist()
    [[0.6, 0.8]]
    """

    preparation: Preparation | None
    radius: float
    longest: float = 1.0

    def apply(self, rows: AnyArray) -> Array:
        """Return rows in this form."""
        if self.preparation is None:
            return unit_rows(np.asarray(rows, dtype=np.float64))
        return self.preparation.apply(rows)

    def agreement(self, classes: Labels, n_directions: int) -> Agreement:
        """Return what sites agree on about such rows."""
        return Agreement(classes, self.radius, n_directions, longest=self.longest)


def agree_on_form(
    parts: Sequence[AnyArray], labels: Sequence[ArrayLike], classes: Labels
) -> tuple[RowForm, int]:
    """Agree on the form of rows of plain numbers that tells the classes apart best, from sums over the sites.

    Three forms are compared: columns in the units of :func:`agree_on_units`; the same with a lift that tells
    rows apart that are near each other, for classes that wind around each other; and rows of length one in
    their own units, which no single value can spoil. Every site sends the sums of a small lift for each, and
    the error that these sums estimate decides. Like all sums without noise they reveal rows: the sum of a
    class with one row is this row. Rows of 50 columns and more, which are mostly of one kind, keep the first
    form.

    Parameters
    ----------
    parts : sequence of array-like of shape (n, p)
        Rows of each site.
    labels : sequence of array-like of shape (n,)
        Their labels.
    classes : ndarray of shape (C,)
        All labels there are, sorted.

    Returns
    -------
    form : RowForm
        What all apply to their rows. Like the units, it still carries the rows of a site that has left.
    n_bytes : int
        What the sites sent for the choice, without means and spreads of columns, which are small.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.array([[0.0, 1.0], [0.2, 1.0], [1.0, 0.0], [1.0, 0.1]] * 9), [0, 0, 1, 1] * 9
    >>> form, _ = agree_on_form([X], [y], np.array([0, 1]))
    >>> form.apply(X).shape
    (36, 2)
    """
    units = agree_on_units(parts)
    width, n_rows = parts[0].shape[1], sum(len(part) for part in parts)
    usual = RowForm(units, usual_radius(width))
    if width >= FEW_COLUMNS:
        return usual, 0
    directions = min(TRIAL_DIRECTIONS, lift_width(width, n_rows))
    near = NARROW * math.sqrt(width)
    best, least, n_bytes = usual, math.inf, 0
    for form in (usual, RowForm(units, near, LONGEST_NARROW / NARROW), RowForm(None, 1.0)):
        agreement = form.agreement(classes, directions)
        total: JoinedSums | None = None
        for rows, y in zip(parts, labels, strict=True):
            sums = JoinedSums.of(agreement, form.apply(rows), y, ())
            n_bytes += len(sums.to_bytes())
            total = sums if total is None else total.add(sums)
        assert total is not None  # there is at least one site
        error = _spectrum(total).chosen[1]
        if form is usual or error < least:
            best, least = form, WORTH * error if form is usual else error
    return best, n_bytes


def usual_radius(n_features: int) -> float:
    """Length at which rows in the units of :func:`agree_on_units` are shortened.

    Their mean square length is the number of columns. In many columns hardly a row is much longer; in few,
    classes that surround each other differ in nothing but length.

    Parameters
    ----------
    n_features : int
        Columns of a row.

    Returns
    -------
    float
        The radius of an :class:`onefold.federated.joined.Agreement`.

    Examples
    --------
    >>> usual_radius(4), usual_radius(64)
    (3.0, 8.0)
    """
    return math.sqrt(n_features) * (LONGEST_OF_FEW if n_features < FEW_COLUMNS else 1.0)


def declared_agreement(schema: Schema) -> Agreement:
    """Return what sites agree on by their schema alone: no message, and no constant that carries rows.

    Which rows there are plays no part, so that sites join and leave without anybody computing sums anew. The
    lift has the directions of a federation of many rows.

    Parameters
    ----------
    schema : Schema
        The declared contract of the sites' tables, with its classes.

    Returns
    -------
    Agreement
        Classes, length of a row and lift.

    Examples
    --------
    >>> from onefold.tables import Field
    >>> sick = Field("sick", "string", "label", levels=("no", "yes"))
    >>> agreed = declared_agreement(Schema([Field("age", low=0, high=100), sick]))
    >>> agreed.classes.tolist(), agreed.n_directions
    (['no', 'yes'], 512)
    """
    directions = lift_width(schema.width, 2 * N_DIRECTIONS)
    return Agreement(class_list(schema), float(schema.row_norm), directions, of_table=True)


def _are_alike(squares: Floats) -> bool:
    """Whether columns with these squared deviations are of one kind."""
    known = squares[squares > 0.0]
    if squares.size < FEW_COLUMNS or not known.size:
        return False
    together = float(squares.sum()) ** 2 >= LEAST_ALIKE * squares.size * float(np.sum(squares**2))
    return bool(together and known.max() <= FARTHEST_APART**2 * np.median(known))


# --- the sum ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Influence:
    """What one site does to the published scores.

    Parameters
    ----------
    site : hashable
        Name of the site.
    shift : float
        Root mean square, over the rows of all sites, of how much the scores change when the site is left
        out. Scores of the right class are near one.
    error : float
        Mean squared error, per row and summed over classes, of the others' scores on this site's rows. A row
        of the wrong class adds about two, a row that says nothing about one.
    """

    site: Hashable
    shift: float
    error: float


class JoinedFederation:
    """The server's part: add up the sites' messages and publish scores.

    Parameters
    ----------
    agreement : Agreement
        What all sites know.
    most_rows : int or None, default=None
        Most rows that one site may contribute; None takes any number. A site counts as much as the rows it
        says it has.

    Attributes
    ----------
    sites : tuple of hashable
        Names of the sites that take part.

    See Also
    --------
    Offset : What is published.

    Notes
    -----
    *Guarantees.* Joining and leaving are exact: the sum is, to the last bit, that of the sites that take part
    now, however rows are spread over sites and in whatever order sites join and leave. The distances in it
    are those of machines, which belong to sites. No privacy is promised: see the top of this module.

    One lying site can move the scores as far as the rows it invents: :meth:`add` refuses sums that no rows of
    length one can have, ``most_rows`` bounds their number, and :meth:`influence` measures each site.

    Examples
    --------
    >>> agreed = Agreement(np.array([0, 1]), radius=1.0)
    >>> server = JoinedFederation(agreed)
    >>> for name in ("north", "south"):
    ...     _ = server.add(name, JoinedSums.of(agreed, np.eye(2), [0, 1], []))
    >>> server.total().n_rows, server.remove("south").total().n_rows
    (4, 2)
    """

    def __init__(self, agreement: Agreement, *, most_rows: int | None = None) -> None:
        self.agreement, self.most_rows = agreement, most_rows
        check_parameters(self, {"most_rows": (Whole(1), None)})
        self._members: dict[Hashable, JoinedSums] = {}
        self._sum: JoinedSums | None = None

    @property
    def sites(self) -> tuple[Hashable, ...]:
        """Names of the sites that take part, in the order in which they joined."""
        return tuple(self._members)

    def add(self, site: Hashable, sums: JoinedSums | bytes) -> Self:
        """Let a site join with its message.

        Parameters
        ----------
        site : hashable
            Name of the site.
        sums : JoinedSums or bytes
            Its message.

        Returns
        -------
        JoinedFederation
            This federation.
        """
        if site in self._members:
            raise InvalidInputError("a site of this id takes part already: remove it first")
        found = (JoinedSums.from_bytes(sums) if isinstance(sums, bytes) else sums).check()
        if not np.array_equal(found.moments.classes_, self.agreement.classes):
            raise InvalidInputError("the message of the site is not about the agreed classes")
        if self.most_rows is not None and found.n_rows > self.most_rows:
            raise InvalidInputError("the site has more rows than a site may contribute")
        self._sum = found if self._sum is None else self._sum.add(found)
        self._members[site] = found
        return self

    def remove(self, site: Hashable) -> Self:
        """Let a site leave, with everything it contributed to the sum.

        Parameters
        ----------
        site : hashable
            Name of the site.

        Returns
        -------
        JoinedFederation
            This federation.
        """
        if site not in self._members:
            raise InvalidInputError("no site of this id takes part")
        found = self._members.pop(site)
        self._sum = self.total().without(found) if self._members else None
        return self

    def total(self) -> JoinedSums:
        """Return the sum of the messages of the sites that take part.

        Returns
        -------
        JoinedSums
            The sum.
        """
        if self._sum is None:
            raise InvalidInputError("no site takes part: add a site first")
        return self._sum

    def publish(self) -> Offset:
        """Compute what all sites may know, see :func:`publish`.

        Returns
        -------
        Offset
            What sites join with.
        """
        return publish(self.agreement, self.total())

    def influence(self) -> list[Influence]:
        """Measure what each site does to the scores, by leaving it out.

        It takes an eigendecomposition per site. An unusual site is not a liar: a site that alone has a class
        shows a large error too.

        Returns
        -------
        list of Influence
            One per site; empty for a single site.
        """
        total = self.total()
        everything = _spectrum(total)
        size = everything.chosen[0]
        full, found = everything.scores("ridge", size), []
        for site, mine in self._members.items() if len(self._members) > 1 else ():
            rest = _spectrum(total.without(mine)).scores("ridge", size)
            moved = LinearScores(full.weights - rest.weights, _finite(full) - _finite(rest))
            shift = math.sqrt(max(_mean_square(moved, total, of_labels=False), 0.0))
            found.append(Influence(site, shift, _mean_square(rest, mine, of_labels=True)))
        return found


def publish(agreement: Agreement, total: JoinedSums) -> Offset:
    """Compute what all sites may know: scores from the sum, and their weight.

    The scores are the mean of ridge regression and linear discriminant analysis, the second brought to the
    spread of the first; the ridge is chosen by cross-validation from the sum.

    Parameters
    ----------
    agreement : Agreement
        What all sites know.
    total : JoinedSums
        The sum of the sites' messages.

    Returns
    -------
    Offset
        What sites join with.

    Examples
    --------
    >>> import numpy as np
    >>> agreed = Agreement(np.array([0, 1]), radius=1.0)
    >>> publish(agreed, JoinedSums.of(agreed, np.eye(2), [0, 1], [])).predict(np.eye(2)).tolist()
    [0, 1]
    """
    return Offset(agreement, _scores(total), total.weight_of(agreement) * float(agreement.radius) ** 2)


def _spectrum(sums: JoinedSums) -> PooledSpectrum:
    moments = sums.moments
    return PooledSpectrum(moments.counts_, moments.sums_, moments.second_moments_[0])


def _scores(sums: JoinedSums) -> LinearScores:
    """The mean of ridge and discriminant scores, in the unit of the first."""
    spectrum = _spectrum(sums)
    size = spectrum.chosen[0]
    ridge, lda = spectrum.scores("ridge", size), spectrum.scores("lda", size)
    counts, totals = sums.moments.counts_, sums.moments.sums_
    known = counts > 0
    inside = sums.moments.second_moments_[0] - (totals[known].T / counts[known]) @ totals[known]
    spreads = [float(np.sum(each.weights * (inside @ each.weights))) for each in (ridge, lda)]
    if not min(spreads) > 0.0:  # the rows of every class are all equal: either will do
        return ridge
    ratio = math.sqrt(spreads[0] / spreads[1])
    weights = (ridge.weights + ratio * lda.weights) / 2.0
    return LinearScores(weights, (ridge.offsets + ratio * lda.offsets) / 2.0)


def _finite(scores: LinearScores) -> Floats:
    return np.where(np.isfinite(scores.offsets), scores.offsets, 0.0)


def _mean_square(scores: LinearScores, sums: JoinedSums, *, of_labels: bool) -> float:
    """Mean over rows of |s(x)|^2, or of |e_y - s(x)|^2, from their sums alone."""
    counts, totals = sums.moments.counts_, sums.moments.sums_
    (gram,) = sums.moments.second_moments_
    W, b = scores.weights, _finite(scores)
    square = np.sum(W * (gram @ W)) + 2.0 * (totals.sum(axis=0) @ W) @ b + counts.sum() * (b @ b)
    if of_labels:
        square += counts.sum() - 2.0 * np.sum(totals.T * W) - 2.0 * np.sum(counts * b)
    return float(square / counts.sum())
