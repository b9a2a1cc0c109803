"""Per-class moments of a set of records, released once, private for whole records and their labels."""

import copy
import math
import os
import warnings
from collections.abc import Sequence
from functools import reduce
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import AnyArray, Floats, Index, Integers, Labels
from onefold._base.files import read_saved, write_whole
from onefold._base.fixed_point import MOST_ROWS, exact_gram, shortened, unit_rows
from onefold._base.validation import Number, check_parameter, check_rows
from onefold.exceptions import InvalidInputError
from onefold.privacy.contract import encoding_of
from onefold.privacy.guarantee import FLOAT_SAMPLER, Guarantee
from onefold.privacy.ledger import AnyLedger, charge
from onefold.privacy.moments import _adding
from onefold.privacy.moments import _release as core
from onefold.privacy.moments._budget import Budget
from onefold.privacy.moments._denoise import (
    LinearHead,
    denoised_discriminant,
    noise_is_moderate,
    plain_discriminant,
)
from onefold.privacy.moments._release import Noise
from onefold.privacy.moments._whitening import given_whitening, whitened, whitening_of
from onefold.privacy.persons import limit_rows, person_codes
from onefold.privacy.samplers import RandomState
from onefold.tables import Schema


class PrivateMoments(BaseEstimator):
    r"""Private counts, sums and second moments of the records of each class, in one release.

    Rows are divided by ``radius`` and clipped to the unit ball; with a centre they are moved by it and scaled
    to norm one, with a whitening matrix turned, stretched and scaled again (:meth:`embed`). The release
    depends on nothing else, and gets Gaussian noise. Anything made of the result is post-processing and costs
    no further privacy: classifiers, synthetic records, the repaired ``means_`` and ``covariances_``.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        Privacy loss for a whole record. None adds no noise: use it for comparison only; the guarantee is
        void.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded. Choose it well below one over the number of records.
    classes : array-like or None, default=None
        The possible labels, known without looking at the data. None finds them privately: a class is kept
        if its noisy count exceeds what one record could reach, except with a probability paid from a tenth
        of delta. Small classes are then left out.
    centre : "private", None or array of shape (n_features,), default="private"
        Origin that is subtracted from the records. "private": their noisy mean, paid from the budget; None:
        zero; an array: a public point, or one that was released before, such as another site's ``centre_``.
    radius : float, default=1.0
        Rows are declared to be no longer than this; longer ones are shortened.
    shares : four or five floats, or None, default=None
        How the budget (squared mu) is divided among centre, counts, sums, second moments and, if it is
        private, whitening. None takes (0.05, 0.02, 0.28, 0.70) for second moments of each class. For a pooled
        one centre and counts keep theirs, and a public rule divides the rest once the noisy counts are known.
        A private whitening without a share of its own gets a tenth of the whole.
    neighbours : {"add-remove", "replace"}, default="add-remove"
        How neighbouring datasets differ: one record and its label more or less, or replaced by any other.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact noise on dyadic grids. "float" is open to attacks on floating-point numbers:
        its guarantee is void.
    rows_per_person : int or None, default=None
        For records that belong to persons: the most records of a person that count; others are dropped at
        random before anything else. None keeps all.
    random_state : None, int or Generator, default=None
        None takes fresh entropy of the operating system. A seed makes the noise predictable and the guarantee
        void: use it in tests only.
    ledger : Ledger, path or None, default=None
        Account of what was spent on the same data: the release is entered there before any noise is drawn,
        and refused beyond its limit. None counts nothing.
    second_moments : {"class", "pooled", "auto"}, default="class"
        Release the second moments of each class, or one of all records together: less noise, and a message
        that does not grow with the number of classes. "auto" takes the pooled one without noise, and where
        the noise on one moment per class would drown it; it is decided from the noisy number of records.
    whitening : "private", None or array of shape (n_features, n_features), default=None
        Matrix by which records are turned and stretched, once they are seen from the centre; they then have
        norm one again. "private" makes **two releases under one promise**: the first, of one second moment of
        all records, finds directions and lengths, and the second is about records whitened by it. An array:
        a public matrix, or one that was released before, such as another release's ``whitening_``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the classes.
    counts_ : ndarray of shape (n_classes,)
        Released numbers of records.
    sums_ : ndarray of shape (n_classes, n_features)
        Released sums of records.
    second_moments_ : ndarray of shape (n_classes, n_features, n_features)
        Released sums of outer products of records; of shape (1, n_features, n_features) if pooled.
    count_noise_ : ndarray of shape (n_classes,)
        Public standard deviations of the noise on the counts.
    sum_noise_ : ndarray of shape (n_classes,)
        Public standard deviations of the noise on the sums.
    second_noise_ : ndarray of shape (n_classes,)
        Public standard deviations of the noise on the second moments; of shape (1,) if pooled.
    centre_ : ndarray of shape (n_features,)
        Origin that was subtracted from the records.
    whitening_ : ndarray of shape (n_features, n_features) or None
        Matrix by which the records were multiplied; None if they were not.
    encoding_ : str
        Description of the schema or encoder that the records went through before; empty if none is known.
    schema_fields_ : tuple of (str, str)
        Name and sum of each field of the schema, if sites are to tell where theirs differ; else empty.
    guarantee_ : Guarantee
        What is promised.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    onefold.fabrication.MomentClassifier : Classifies by private moments.
    onefold.fabrication.MomentFabricator : Draws synthetic records from private moments.
    onefold.federated.MomentFederation : Adds up the moments of several sites.

    Notes
    -----
    *Guarantees.* The release is (epsilon, delta) differentially private for a whole record **with its
    label**; under "add-remove" the sizes of the classes are covered too. Where :meth:`fit` is told whose
    records they are, it is private for all records of a person. The proof, also for classes that are
    found privately, is in ``docs/proofs/private-moments.md``. The noise is calibrated by Gaussian privacy: mu
    is the largest number with
    :math:`\Phi(\mu/2 - \epsilon/\mu) - e^\epsilon \Phi(-\mu/2 - \epsilon/\mu) \le \delta`.

    *Several sites.* Moments add up (:meth:`add`) if all sites use the same centre; so do the variances of
    the noise. Each site's records keep the guarantee of their own release.

    References
    ----------
    Dong, Roth and Su, "Gaussian differential privacy", 2022; Balle and Wang, "Improving the Gaussian
    mechanism for differential privacy", 2018, Theorem 8.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.privacy import PrivateMoments
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 5000)
    >>> X = rng.normal(size=(5000, 2)) / 10 + y[:, None] / 2
    >>> moments = PrivateMoments(1.0, classes=[0, 1], random_state=0).fit(X, y)
    >>> moments.counts_.shape, moments.guarantee_.record
    ((2,), (1.0, 1e-05))
    """

    counts_: Floats
    sums_: Floats
    second_moments_: Floats
    count_noise_: Floats
    sum_noise_: Floats
    second_noise_: Floats
    centre_: Floats
    whitening_: Floats | None = None
    classes_: Labels
    guarantee_: Guarantee
    encoding_: str
    schema_fields_: tuple[tuple[str, str], ...] = ()
    n_features_in_: int

    def __init__(
        self,
        epsilon: float | None = 1.0,
        delta: float = 1e-5,
        *,
        classes: ArrayLike | None = None,
        centre: Literal["private"] | ArrayLike | None = "private",
        radius: float = 1.0,
        shares: tuple[float, ...] | None = None,
        neighbours: Literal["add-remove", "replace"] = "add-remove",
        sampler: str = "hardened",
        rows_per_person: int | None = None,
        random_state: RandomState = None,
        ledger: AnyLedger = None,
        second_moments: Literal["class", "pooled", "auto"] = "class",
        whitening: Literal["private"] | ArrayLike | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.centre = centre
        self.radius = radius
        self.shares = shares
        self.neighbours = neighbours
        self.sampler = sampler
        self.rows_per_person = rows_per_person
        self.random_state = random_state
        self.ledger = ledger
        self.second_moments = second_moments
        self.whitening = whitening

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        person: ArrayLike | None = None,
        *,
        schema: Schema | None = None,
        conditions: Sequence[str] = (),
    ) -> Self:
        """Release the moments of labelled rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.
        y : array-like of shape (n_samples,)
            Their labels.
        person : array-like of shape (n_samples,) or None, default=None
            Who each record is about: the release is then private for persons, each of whom counts once
            whatever the number of records.
        schema : Schema or None, default=None
            What the rows were encoded by: the guarantee names it, and moments of another one are not added.
        conditions : sequence of str, default=()
            What else was declared about the rows before they came here: the guarantee and the entry in the
            ledger say so.

        Returns
        -------
        PrivateMoments
            This object, with the release.
        """
        budget = Budget.of(self, person is not None)
        declared = Schema.of(schema)
        if not declared.plain and np.shape(X)[0] == 0:  # to refuse it would tell that there is nobody
            rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
            self.n_features_in_ = rows.shape[1]
        else:
            rows, labels = check_rows(self, X, y)
            with warnings.catch_warnings():
                # A site with few rows and many classes is nothing unusual here.
                warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
                check_classification_targets(labels)
        if person is not None:
            rows, labels, person = self._limited(rows, labels, person)
        candidates, codes = core.candidates_of(labels, self.classes)
        if self.sampler == "hardened" and len(rows) > MOST_ROWS:
            raise InvalidInputError("a hardened release adds at most 2**25 records exactly: split the data")
        noise = Noise.of(self.random_state, self.sampler, person, silent=budget.mu is None)
        guarantee = reduce(
            Guarantee.provided, conditions, budget.promise(self.sampler, rows.shape[1], declared)
        )
        guarantee = charge(self.ledger, guarantee, "private moments")
        sigma = budget.levels[0]  # counts, centre and whitening have the same noise in all of them
        counts = noise.to_counts(noise.sizes(codes, len(candidates)), sigma.number)
        kept = np.ones(len(counts), dtype=bool)
        if self.classes is None and budget.mu is not None:
            kept = core.common_classes(counts, sigma.number, self.delta, self.rows_per_person or 1)
        self.whitening_ = None
        self.centre_ = self._find_centre(rows, counts[kept].sum(), noise, sigma.centre)
        self.whitening_ = self._find_whitening(rows, noise, sigma.whitening)
        # A code of -1 for the rows of classes that are left out.
        renumbered = np.where(kept, np.cumsum(kept) - 1, -1)[codes]
        seen = self.embed(rows)
        pooled, division = budget.division(counts[kept], rows.shape[1])
        sigma = budget.deviations(division)
        totals, seconds = core.class_sums(
            noise.firsts(seen), noise.roots(seen), renumbered, int(kept.sum()), pooled
        )
        self.classes_ = candidates if self.classes is not None else core.found_labels(candidates[kept])
        self.counts_ = counts[kept]
        self.sums_ = noise.to_sums(totals, sigma.total)
        self.second_moments_ = noise.to_matrices(seconds, sigma.second)
        self.count_noise_, self.sum_noise_ = (
            np.full(len(self.classes_), value) for value in (sigma.number, sigma.total)
        )
        self.second_noise_ = np.full(len(seconds), sigma.second)
        self.guarantee_, self.encoding_ = guarantee, encoding_of(declared)
        self.schema_fields_ = ()
        return self

    def promise(
        self,
        n_features: int,
        *,
        of_persons: bool = False,
        schema: Schema | None = None,
        conditions: Sequence[str] = (),
    ) -> Guarantee:
        """State what :meth:`fit` will promise, before any noise is drawn.

        Parameters
        ----------
        n_features : int
            Number of columns.
        of_persons : bool, default=False
            Whether :meth:`fit` will be told whose records they are.
        schema : Schema or None, default=None
            What the rows are encoded by.
        conditions : sequence of str, default=()
            What else was declared about the rows before they came here.

        Returns
        -------
        Guarantee
            The promise.

        Examples
        --------
        >>> PrivateMoments(1.0, classes=[0, 1]).promise(5).record
        (1.0, 1e-05)
        """
        promised = Budget.of(self, of_persons).promise(self.sampler, n_features, Schema.of(schema))
        return reduce(Guarantee.provided, conditions, promised)

    def _limited(self, rows: Floats, labels: Labels, person: Any) -> tuple[Floats, Labels, Index]:
        """Drop the records of persons who have too many."""
        codes = person_codes(person, len(rows))
        if self.rows_per_person is None:
            return rows, labels, codes
        kept = limit_rows(codes, self.rows_per_person, self.random_state)
        return rows[kept], labels[kept], person_codes(codes[kept], len(kept))

    def embed(self, X: ArrayLike) -> Floats:
        """Map rows as the release does: into the unit ball, relative to the centre with norm one, whitened.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Records.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows of norm one at most.
        """
        given = np.asarray(X, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != len(self.centre_):
            raise InvalidInputError(f"expected rows of {len(self.centre_)} numbers")
        rows = shortened(given, float(self.radius))
        if np.any(self.centre_):
            rows = unit_rows(rows - self.centre_)
        return rows if self.whitening_ is None else whitened(rows, self.whitening_)

    @property
    def has_unit_rows(self) -> bool:
        """Whether embedded records have norm one; else they have norm one at most."""
        return bool(np.any(self.centre_)) or self.whitening_ is not None

    def add(self, other: "PrivateMoments") -> "PrivateMoments":
        """Add up two releases from different records; neither of them is changed.

        Parameters
        ----------
        other : PrivateMoments
            Another site's release.

        Returns
        -------
        PrivateMoments
            Moments of both sites' records together.
        """
        return PrivateMoments.total([self, other])

    def check_comparable(self, other: "PrivateMoments") -> None:
        """Refuse a release that cannot be added to this one.

        Parameters
        ----------
        other : PrivateMoments
            Another site's release.

        Raises
        ------
        InvalidInputError
            If schema, features, radius, centre, whitening, encoder, kind of labels or neighbouring relation
            differ.
        """
        _adding.check_comparable(self, other)

    @classmethod
    def total(cls, releases: Sequence["PrivateMoments"]) -> "PrivateMoments":
        """Add up releases from different records, in the given order; none of them is changed.

        Parameters
        ----------
        releases : sequence of PrivateMoments
            One release per site, at least one.

        Returns
        -------
        PrivateMoments
            Moments of all sites' records together.
        """
        return _adding.total(cls, releases)

    def without(self, other: "PrivateMoments") -> "PrivateMoments":
        """Take the records of another release out of this one; neither of them is changed.

        Only without noise: what is left then has the bits of moments that never held these records. With
        noise, whoever holds both releases would see the noise they share.

        Parameters
        ----------
        other : PrivateMoments
            Moments of records that are part of this release.

        Returns
        -------
        PrivateMoments
            Moments of the other records.
        """
        return _adding.without(self, other)

    @property
    def is_pooled(self) -> bool:
        """Whether there is one second moment for all classes."""
        return len(self.second_moments_) == 1 and (len(self.classes_) > 1 or self.second_moments != "class")

    @property
    def vector(self) -> Integers:
        """Counts, sums and second moments (upper triangles) as whole numbers of 2**-28, to be added up.

        Sums of such vectors are exact in any order. Not available for the float sampler, which knows no grid.
        """
        check_is_fitted(self)
        if FLOAT_SAMPLER in self.guarantee_.voided_by:
            raise InvalidInputError(_adding.NO_STEPS)
        return core.to_vector(self.counts_, self.sums_, self.second_moments_)

    def with_vector(
        self, vector: AnyArray, levels: tuple[float, float, float], guarantee: Guarantee
    ) -> "PrivateMoments":
        """Return moments of this description with other numbers: the opened sum of several sites.

        Parameters
        ----------
        vector : ndarray of int64
            The sum of the sites' :attr:`vector`, all of which have the same classes.
        levels : (float, float, float)
            Standard deviations of its noise, on counts, sums and second moments.
        guarantee : Guarantee
            What the protocol of the sum promises; it is stated as given, and the caller answers for it.

        Returns
        -------
        PrivateMoments
            The moments of all sites' records.
        """
        found = copy.copy(self)
        found.counts_, found.sums_, found.second_moments_ = core.from_vector(
            vector, len(self.classes_), len(self.centre_), len(self.second_moments_)
        )
        found.count_noise_, found.sum_noise_ = (np.full(len(self.classes_), level) for level in levels[:2])
        found.second_noise_ = np.full(len(found.second_moments_), levels[2])
        found.guarantee_ = guarantee
        epsilon, delta = guarantee.record if guarantee.person is None else guarantee.person
        found.epsilon, found.delta = (epsilon, delta) if math.isfinite(epsilon) else (None, self.delta)
        return found

    @property
    def means_(self) -> Floats:
        """Repaired mean of each class, of shape (n_classes, n_features), inside the unit ball."""
        check_is_fitted(self)
        return core.means(self.counts_, self.sums_)

    @property
    def covariances_(self) -> Floats:
        """Repaired covariance of each class, positive definite: :meth:`covariances` with its defaults."""
        return self.covariances()

    def covariances(
        self, shrinkage: Literal["auto"] | float = "auto", floor: float = 0.2, least: float = 0.25
    ) -> Floats:
        """Repair the covariances of the classes, from the release and the public noise levels only.

        Parameters
        ----------
        shrinkage : "auto" or float, default="auto"
            How far covariances are shrunk towards the pooled one, from 0 to 1. "auto" takes the share of the
            classes' distance from the pooled covariance that noise and too few records explain.
        floor : float, default=0.2
            Smallest eigenvalue in units of the noise level.
        least : float, default=0.25
            Smallest eigenvalue as a share of the mean variance.

        Returns
        -------
        ndarray of shape (n_classes, n_features, n_features)
            Positive definite matrices.
        """
        check_is_fitted(self)
        check_parameter("shrinkage", shrinkage, ("auto", Number(at_least=0, at_most=1)))
        check_parameter("floor", floor, Number(at_least=0))
        check_parameter("least", least, Number(at_least=0))
        share = None if isinstance(shrinkage, str) else float(shrinkage)
        raw = core.raw_covariances(self.counts_, self.sums_, self.second_moments_, self.sum_noise_)
        if self.is_pooled:  # one covariance for all classes, repaired once
            total = np.maximum(self.counts_, 1.0).sum(keepdims=True)
            found = core.covariances(raw, total, self.second_noise_, 0.0, float(floor), float(least))
            return np.broadcast_to(found, (len(self.classes_), *found.shape[1:]))
        return core.covariances(raw, self.counts_, self.second_noise_, share, float(floor), float(least))

    def linear_discriminant(self) -> LinearHead:
        """Compute a linear discriminant that allows for the noise, from the release only.

        Second moments of classes are added up first. Without noise it is a regularised linear discriminant
        analysis; with much noise the nearest of means that are shrunk. The steps are described in
        ``onefold.privacy.moments._denoise``.

        Returns
        -------
        weights : ndarray of shape (n_features, n_classes)
            Of embedded rows.
        offsets : ndarray of shape (n_classes,)
            What is added to their products.
        """
        check_is_fitted(self)
        noise = float(np.sqrt(np.sum(self.second_noise_**2)))
        given = (self.counts_, self.sums_, self.second_moments_.sum(axis=0), self.sum_noise_, noise)
        if noise_is_moderate(self.counts_, len(self.centre_), noise):
            return plain_discriminant(*given)
        return denoised_discriminant(*given, unit_rows=self.has_unit_rows)

    def to_bytes(self) -> bytes:
        """Return the release as the bytes of a file, which hold nothing but what is released.

        Returns
        -------
        bytes
            The content of a file.
        """
        check_is_fitted(self)
        return core.StoredMoments.of(self).to_bytes()

    @classmethod
    def from_bytes(cls, packed: bytes) -> "PrivateMoments":
        """Read a release; nothing in it is executed, and content that does not fit together is refused.

        Parameters
        ----------
        packed : bytes
            What :meth:`to_bytes` returned.

        Returns
        -------
        PrivateMoments
            The release.
        """
        return core.StoredMoments.from_bytes(packed).give(cls())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to a file, completely or not at all.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        """
        write_whole(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PrivateMoments":
        """Read a release from a file.

        Parameters
        ----------
        path : str or os.PathLike
            A file written by :meth:`save`.

        Returns
        -------
        PrivateMoments
            The release.
        """
        return read_saved(path, "there are no moments", cls.from_bytes)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "guarantee_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _find_centre(self, rows: Floats, size: float, noise: Noise, sigma: float) -> Floats:
        if self.centre is None:
            return np.zeros(rows.shape[1])
        if isinstance(self.centre, str):
            if self.centre != "private":
                raise InvalidInputError("centre must be 'private', None or a vector")
            self.centre_ = np.zeros(rows.shape[1])
            total = noise.firsts(self.embed(rows)).sum(axis=0)
            return np.asarray(core.means(np.array([size]), noise.to_sums(total, sigma)[None])[0])
        return _public_centre(self.centre, rows.shape[1])

    def _find_whitening(self, rows: Floats, noise: Noise, sigma: float) -> Floats | None:
        """Return the matrix that is given, or that of a first release of all records' second moment."""
        if self.whitening is None:
            return None
        if isinstance(self.whitening, str):
            if self.whitening != "private":
                raise InvalidInputError("whitening must be 'private', None or a square matrix")
            second = exact_gram(noise.roots(self.embed(rows)))
            return whitening_of(noise.to_matrices(second[None], sigma)[0], sigma)
        return given_whitening(self.whitening, rows.shape[1])


def _public_centre(centre: Any, n_features: int) -> Floats:
    """Return a public point of the unit ball, where records lie once they are divided by the radius."""
    try:
        found = np.array(centre, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (n_features,) or not np.isfinite(found).all():
        raise InvalidInputError(f"centre must be {n_features} finite numbers, one per feature")
    if not math.hypot(*found) <= 1.0 + 1e-9:
        raise InvalidInputError("centre must lie in the unit ball: records are divided by radius first")
    return found
