r"""Folding joined with one ridge: each site answers a squared distance plus a public offset.

Before anybody asks, every site sends one message of whole numbers: counts, class sums and one matrix of
products of its rows (or of a public lift of them), and how large the squared leave-one-out distances of its
machines are. The server adds the messages up, computes linear scores :math:`s` from the sum and publishes
them. Each site then answers

.. math:: d_c(x)^2 + a (B - r_c(x)),\quad r_c(x) = \max(s_c(x) - \max_k s_k(x) + B, -B),

with its own distance :math:`d_c` from class c. The offset lies between 0 and 2 a B and **is the same number
at every site**, because scores and weight are public. Adding one number keeps the order of the sites'
answers, and rounding is monotone: the minimum over sites is the minimum of the squared distances plus the
offset, to the last bit, and so is every other order statistic. A site without class c answers infinity, as
for the distance, so it takes no part in c.

**Nothing of this is private.** The sums carry no noise: a class with one row sends that row, columns of zeros
and ones send raw counts of pairs, and whoever sees a sum before and after a site left holds that site's part.
Neither a least number of rows nor encrypting the sum is a guarantee: only noise is. Sums of a model that was
fitted with noise are functions of its noisy rows and keep its guarantee.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from onefold._base.arrays import AnyArray, Array, Floats, Integers, Labels, sizes_of
from onefold._base.records import Record, record
from onefold.encoders.projections import fitted_lift
from onefold.exceptions import InvalidInputError
from onefold.fabrication.exact import check_possible
from onefold.models.probability import softmax
from onefold.models.ridge import LinearScores
from onefold.privacy import PrivateMoments

__all__ = ["Agreement", "JoinedSums", "Offset", "squared_with"]

# Scores of the right class are near one and of others near zero: twice that is further than rows tell apart.
BOUND = 2.0
# Weight of the scores, and largest and least weight of squared distances in units of the mean one, all in the
# exponent of a softmax. On tables of mixed columns distances count little: those of one-hot rows are coarse.
SCORE_WEIGHT, DISTANCE_WEIGHT, LEAST_WEIGHT, TABLE_WEIGHT = 4.0, 5.0, 0.125, 0.25
# Rows this wide are mostly features of a network, which are a lift already. A machine spans little of their
# space: about queries like its rows distances add as much at weight 1 as at 5, about others they mislead.
WIDE, WIDE_WEIGHT = 1024, 1.0
# Squared distances are whole numbers of 2^-24 of the agreed unit, at most 64 units. Their squares have up to
# 60 digits and are added up in two halves, so that sums over 2^25 rows fit into 64 digits.
DIGITS, LARGEST, HALF = 24, 64.0, 30
BLOCK_VALUES = 8_000_000  # values of lifted rows that are in memory together
FARTHEST = 700.0  # beyond, an exponential is zero


# --- what is agreed on --------------------------------------------------------------------------------------


Positive = Annotated[float, Field(gt=0)]
AtLeastZero = Annotated[int, Field(ge=0)]


@record
class Agreement:
    """What all sites know before any of them computes a sum.

    Parameters
    ----------
    classes : ndarray of shape (C,)
        All labels there are, sorted.
    radius : float
        Unit of length: rows are divided by it before the ridge sees them, and its square is the unit of
        squared distances.
    n_directions : int, default=0
        Number of random directions of the public lift that the ridge sees; 0 for the rows themselves.
    random_state : int, default=0
        Seed of the lift.
    of_table : bool, default=False
        Rows are encoded by a schema.
    longest : float, default=1.0
        How many radii long rows may be before the ridge sees them shortened.

    See Also
    --------
    JoinedSums.of : A site's part.

    Examples
    --------
    >>> Agreement(np.array([0, 1]), radius=1.0).rows(np.eye(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    classes: Labels
    radius: Positive
    n_directions: AtLeastZero = 0
    random_state: AtLeastZero = 0
    of_table: bool = False
    longest: Positive = 1.0

    def rows(self, X: ArrayLike) -> Floats:
        """Return what the ridge sees of rows, no longer than one: the same bits on every processor.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows in the units of the machines.

        Returns
        -------
        ndarray of shape (n, d)
            Shortened and lifted rows.
        """
        seen = np.asarray(X, dtype=np.float64) / float(self.radius)
        if self.n_directions:
            longest = float(self.longest)
            lift = fitted_lift(seen.shape[-1], int(self.n_directions), longest, int(self.random_state))
            return np.asarray(lift.transform(seen), dtype=np.float64)
        return np.asarray(seen / float(self.longest))

    @property
    def moments(self) -> PrivateMoments:
        """The release of whole numbers, without noise, that every site fits to its rows."""
        return PrivateMoments(None, classes=self.classes, centre=None, second_moments="pooled")


# --- a site's message ---------------------------------------------------------------------------------------


@record
class JoinedSums(Record, kind="joined sums"):
    """The one message of a site, or the sum of several: whole numbers, so every order of adding is exact.

    Parameters
    ----------
    moments : PrivateMoments
        Counts, class sums and one matrix of products, without noise.
    distances : ndarray of int64 of shape (4,)
        Number of rows that have a leave-one-out distance, sum of the squared distances in steps, and the sum
        of the squares of these numbers in two halves.

    See Also
    --------
    onefold.federated.joined_server.JoinedFederation : Adds them up.

    Examples
    --------
    >>> agreed = Agreement(np.array([0, 1]), radius=1.0)
    >>> sums = JoinedSums.of(agreed, np.eye(2), [0, 1], [0.25, 0.5])
    >>> sums.distances.tolist()[:2] == [2, 12582912]
    True
    """

    moments: PrivateMoments
    distances: Integers

    def __post_init__(self) -> None:
        if self.distances.shape != (4,):
            raise InvalidInputError("the message of a site has no distances")

    @classmethod
    def of(cls, agreement: Agreement, X: ArrayLike, y: ArrayLike, squares: ArrayLike) -> Self:
        """Compute the message of a site.

        Parameters
        ----------
        agreement : Agreement
            What all sites know.
        X : array-like of shape (n, p)
            Rows that the site's machines were fitted on.
        y : array-like of shape (n,)
            Their labels.
        squares : array-like of shape (m,)
            Squared leave-one-out distances of the machines, see
            :meth:`onefold.models.ClassModels.leave_one_out_squares`.

        Returns
        -------
        JoinedSums
            The message.
        """
        rows, labels = np.asarray(X), np.asarray(y)
        step = max(1, BLOCK_VALUES // (rows.shape[1] + 2 * int(agreement.n_directions)))
        blocks = [slice(start, start + step) for start in range(0, len(rows), step)]
        parts = (agreement.moments.fit(agreement.rows(rows[block]), labels[block]) for block in blocks)
        moments = first = next(parts)
        for part in parts:  # lifted rows are wide; blocks of them add up exactly
            moments = moments.add(part)
        moments.guarantee_ = first.guarantee_  # of one site, not of one for each block
        found = np.asarray(squares, dtype=np.float64) / float(agreement.radius) ** 2
        steps = np.rint(np.ldexp(np.minimum(found, LARGEST), DIGITS)).astype(np.int64)
        high, low = np.divmod(steps * steps, 2**HALF)
        return cls(moments, np.array([steps.size, steps.sum(), high.sum(), low.sum()], dtype=np.int64))

    @property
    def vector(self) -> Integers:
        """All of it as one row of whole numbers, to be added up."""
        return np.concatenate([self.moments.vector, self.distances])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.moments.counts_.sum())

    def add(self, other: JoinedSums) -> JoinedSums:
        """Return the sum of two messages from different rows.

        Parameters
        ----------
        other : JoinedSums
            Another site's message.

        Returns
        -------
        JoinedSums
            What one site with the rows of both would send, but for its machines.
        """
        return JoinedSums(self.moments.add(other.moments), self.distances + other.distances)

    def without(self, other: JoinedSums) -> JoinedSums:
        """Return the sum without a message that is in it, as if it had never been added.

        Parameters
        ----------
        other : JoinedSums
            A site's message.

        Returns
        -------
        JoinedSums
            The sum of the others.
        """
        return JoinedSums(self.moments.without(other.moments), self.distances - other.distances)

    def check(self) -> Self:
        """Refuse sums that no rows of length one can have, whatever they are.

        What is left to a liar is to invent rows: as many as it says it has, each no longer than one.

        Returns
        -------
        JoinedSums
            This message.
        """
        if not self.moments.is_pooled or self.moments.epsilon is not None:
            raise InvalidInputError("joined sums need one pooled matrix of products, without noise")
        check_possible(self.moments)
        n_rows, (n_left, total, high, low) = self.n_rows, self.distances.tolist()
        most = int(LARGEST) << DIGITS  # 2^HALF: no half of its square is larger
        sums = (total, high, low)
        if not (0 <= n_left <= n_rows and min(sums) >= 0 and max(sums) <= n_left * most):
            raise InvalidInputError("the distances of a site are none that its rows can have")
        # The mean of squares is no smaller than the square of the mean.
        if (high * 2**HALF + low) * n_left < total * total:
            raise InvalidInputError("the distances of a site contradict each other")
        return self

    def weight_of(self, agreement: Agreement) -> float:
        r"""Return the weight a of the offset, in squared units of the agreement.

        With :math:`m_0` the mean of the squared leave-one-out distances, a squared distance counts
        :math:`-k d^2 / m_0` and a score 4 s, so that :math:`a = 4 m_0 / k`. Squared distances that are
        :math:`m_0 / f` times a chi-square of f degrees have the log likelihood :math:`-(f/2) d^2 / m_0`, and
        :math:`f / 2 = m_0^2 / v` with v their variance. They count twice that, because a query meets the
        nearest of many machines; at most 5, for rows of 1024 columns and more 1, and on tables of mixed
        columns 1/4; times the share of rows that are in machines of five and more. Where a machine's hull
        spans the space, as in tables of few columns, a few unusual rows make up :math:`m_0`, and distances
        then say little. Where rows are as wide as the features of large networks, it spans next to nothing:
        distances are reliable about queries like the rows of the sites and mislead about others.

        Parameters
        ----------
        agreement : Agreement
            What all sites know.

        Returns
        -------
        float
            The weight.
        """
        n_left, total, high, low = self.distances.tolist()
        if n_left == 0:  # nothing is known about distances but the length of a row
            return SCORE_WEIGHT / LEAST_WEIGHT
        # In exact whole numbers up to the division: m0^2 / v = T^2 / (n S - T^2).
        scatter = (high * 2**HALF + low) * n_left - total * total
        width = self.moments.sums_.shape[1] - 2 * int(agreement.n_directions)
        most = TABLE_WEIGHT if agreement.of_table else WIDE_WEIGHT if width >= WIDE else DISTANCE_WEIGHT
        counts = min(most, 2 * total * total / scatter) if scatter > 0 else most
        counts = max(counts * n_left / max(self.n_rows, 1), LEAST_WEIGHT)
        return float(SCORE_WEIGHT * math.ldexp(max(total, 1) / n_left, -DIGITS) / counts)


# --- what is published --------------------------------------------------------------------------------------


@record
class Offset(Record, kind="joined scores"):
    """What the server publishes: linear scores and the weight at which sites add them to their answers.

    Parameters
    ----------
    agreement : Agreement
        What all sites know.
    scores : LinearScores
        Scores of all classes; those of classes without rows are minus infinity.
    weight : float
        The weight a, in the squared units of the rows.

    See Also
    --------
    onefold.federated.LocalModel.join : Lets a site answer with it.

    Examples
    --------
    >>> agreed = Agreement(np.array([0, 1]), radius=1.0)
    >>> Offset(agreed, LinearScores(np.eye(2), np.zeros(2)), 0.5).of(np.eye(2)).tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """

    agreement: Agreement
    scores: LinearScores
    weight: Positive

    def __post_init__(self) -> None:
        n_columns = sizes_of(self.scores, weights="dC", offsets="C")["d"]
        fits = len(self.classes) == len(self.scores.offsets) and 2 * self.agreement.n_directions < n_columns
        if not fits or not (self.scores.offsets < math.inf).all():
            raise InvalidInputError("the scores of an offset do not fit its classes and its lift")

    @property
    def classes(self) -> Labels:
        """Labels of the columns."""
        return self.agreement.classes

    @property
    def largest(self) -> float:
        """Largest offset, 2 a B: answers above the largest squared distance plus this never win."""
        return 2.0 * BOUND * self.weight

    def linear(self, X: ArrayLike) -> Floats:
        """Return the scores of rows by the ridge alone: the largest decides.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n, C)
            Scores.
        """
        rows = self.agreement.rows(X)
        return self.scores.of(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0))

    def predict(self, X: ArrayLike) -> Labels:
        """Return the labels of the largest scores.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Labels.
        """
        return np.asarray(self.classes[self.linear(X).argmax(axis=1)])

    def of(self, X: ArrayLike) -> Floats:
        """Return the offsets of rows for each class, between 0 and :attr:`largest`.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Rows.

        Returns
        -------
        ndarray of shape (n, C)
            The offsets a (B - r).
        """
        scores = self.linear(X)
        behind = scores.max(axis=1, keepdims=True) - scores  # B - r
        return np.asarray(self.weight * np.minimum(behind, 2.0 * BOUND))

    def probabilities(self, answers: ArrayLike) -> Floats:
        """Return the probability of each class from combined answers: the exponential of what they weigh.

        The public weights make scores of the answers whose exponentials are about right where rows are like
        pixels or embeddings, and too sure on many tables. Labelled rows that no site has fitted calibrate
        them: see :meth:`onefold.federated.GlobalClassifier.calibrate`.

        Parameters
        ----------
        answers : array-like of shape (n, C)
            Combined answers in the measure "joined"; infinity for a class that no site has.

        Returns
        -------
        ndarray of shape (n, C)
            The probabilities; the smallest answer has the largest.
        """
        weighed = np.asarray(answers, dtype=np.float64) * (SCORE_WEIGHT / self.weight)
        # Differences count: an answer of infinity is one that is very far, and where all are, all are equal.
        with np.errstate(invalid="ignore"):
            apart = np.minimum(weighed - weighed.min(axis=1, keepdims=True), FARTHEST)
        return softmax(-np.nan_to_num(apart, nan=0.0))


def squared_with(distances: Array, classes: AnyArray, offset: Offset, rows: Any) -> Floats:
    """Squared distances (n, C) from classes of a site plus the offsets of these classes."""
    place = np.searchsorted(offset.classes, classes)
    if not np.array_equal(offset.classes[np.minimum(place, len(offset.classes) - 1)], classes):
        raise InvalidInputError("the site has a class that the published scores do not know: contribute anew")
    return np.asarray(distances.astype(np.float64) ** 2 + offset.of(rows)[:, place])
