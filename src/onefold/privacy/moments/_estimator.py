"""Per-class moments of a set of records, released once, private for whole records and their labels."""

import copy
import math
import warnings
from collections.abc import Sequence
from functools import reduce
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import AnyArray, Floats, Index, Integers, Labels
from onefold._base.fixed_point import MOST_ROWS, exact_gram, shortened, unit_rows
from onefold._base.stored import CLASSES, NamedClass, Stored
from onefold._base.validation import Number, check_parameter, check_parameters, check_rows
from onefold.exceptions import InvalidInputError
from onefold.privacy.contract import encoding_of
from onefold.privacy.guarantee import FLOAT_SAMPLER, Guarantee
from onefold.privacy.ledger import AnyLedger, charge
from onefold.privacy.moments import _release as core
from onefold.privacy.moments._budget import Budget
from onefold.privacy.moments._denoise import (
    LinearHead,
    denoised_discriminant,
    noise_is_moderate,
    plain_discriminant,
)
from onefold.privacy.moments._release import Noise, given_whitening, plain_labels, whitened, whitening_of
from onefold.privacy.persons import limit_rows, person_codes
from onefold.privacy.samplers import RandomState
from onefold.privacy.terms import number_array
from onefold.tables import Schema
from onefold.tables.schema import AS_THEY_STAND, differing

RELEASED = ("counts_", "sums_", "second_moments_")
LEVELS = ("count_noise_", "sum_noise_", "second_noise_")
POOLED = ("second_moments_", "second_noise_")  # one for all classes where second moments are pooled
NO_STEPS = "numbers of the float sampler are no whole steps: use the hardened one"


class PrivateMoments(Stored, BaseEstimator):
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

    kind = "private moments"
    _has_parameters = False
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
        schema: Schema = AS_THEY_STAND,
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
        schema : Schema, default=AS_THEY_STAND
            What the rows were encoded by: the guarantee names it, and moments of another one are not added.
        conditions : sequence of str, default=()
            What else was declared about the rows before they came here: the guarantee and the entry in the
            ledger say so.

        Returns
        -------
        PrivateMoments
            This object, with the release.
        """
        schema = Schema.of(schema)
        budget = Budget.of(self, person is not None)
        if not schema.plain and np.shape(X)[0] == 0:  # to refuse it would tell that there is nobody
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
            Guarantee.provided, conditions, budget.promise(self.sampler, rows.shape[1], schema)
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
        self.guarantee_, self.encoding_ = guarantee, encoding_of(schema)
        self.schema_fields_ = ()
        return self

    def promise(
        self,
        n_features: int,
        *,
        of_persons: bool = False,
        schema: Schema = AS_THEY_STAND,
        conditions: Sequence[str] = (),
    ) -> Guarantee:
        """State what :meth:`fit` will promise, before any noise is drawn.

        Parameters
        ----------
        n_features : int
            Number of columns.
        of_persons : bool, default=False
            Whether :meth:`fit` will be told whose records they are.
        schema : Schema, default=AS_THEY_STAND
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
        check_is_fitted(self)
        check_is_fitted(other)
        where = differing(self.schema_fields_, other.schema_fields_)
        if self.schema_fields_ and other.schema_fields_ and where:  # radius and features follow from it
            raise InvalidInputError(f"moments by different schemas cannot be added: {where}")
        if self.centre_.shape != other.centre_.shape or self.radius != other.radius:
            raise InvalidInputError("moments of different features or radii cannot be added")
        if not np.array_equal(self.centre_, other.centre_):
            raise InvalidInputError("moments about different centres cannot be added: use the same centre")
        if not _same_matrix(self.whitening_, other.whitening_):
            raise InvalidInputError("moments of differently whitened records cannot be added: use one matrix")
        if self.is_pooled != other.is_pooled:
            raise InvalidInputError(
                "a pooled moment and moments of each class cannot be added: agree on second_moments"
            )
        if self.encoding_ != other.encoding_:
            raise InvalidInputError(
                "moments of differently encoded records cannot be added: give all sites the same encoder"
            )
        if _label_kind(self.classes_) != _label_kind(other.classes_):
            raise InvalidInputError("the class labels are numbers at one site, text at another: use one kind")
        self.guarantee_.among_owners(other.guarantee_)  # refuses different relations

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
        if not releases:
            raise InvalidInputError("there are no releases to add up")
        first = releases[0]
        check_is_fitted(first)
        for other in releases[1:]:
            first.check_comparable(other)
        epsilons = [release.epsilon for release in releases]
        found = cls(
            None if None in epsilons else max(epsilon or 0.0 for epsilon in epsilons),
            max(release.delta for release in releases),
            centre=first.centre,
            radius=first.radius,
            neighbours=first.neighbours,
            second_moments="pooled" if first.is_pooled else "class",
            whitening=first.whitening,
        )
        labels = [plain_labels(release.classes_) for release in releases]
        found.classes_ = np.unique(np.concatenate(labels))
        places = [np.searchsorted(found.classes_, own) for own in labels]
        for name in (*RELEASED, *LEVELS):
            power = 2 if name in LEVELS else 1  # variances add up
            one_for_all = first.is_pooled and name in POOLED
            summed = np.zeros((1 if one_for_all else len(found.classes_), *getattr(first, name).shape[1:]))
            with np.errstate(over="ignore"):
                for release, place in zip(releases, places, strict=True):
                    summed[... if one_for_all else place] += getattr(release, name) ** power
            if not np.isfinite(summed).all():
                raise InvalidInputError("the sum of these releases is beyond the largest number")
            if name == "counts_" and found.epsilon is None and summed.sum() > MOST_ROWS:
                raise InvalidInputError("moments of more than 2**25 records do not add up exactly")
            setattr(found, name, np.sqrt(summed) if power == 2 else summed)
        found.centre_, found.n_features_in_ = first.centre_.copy(), first.n_features_in_
        found.whitening_ = first.whitening_
        found.encoding_, found.schema_fields_ = first.encoding_, first.schema_fields_
        found.guarantee_ = reduce(Guarantee.among_owners, (release.guarantee_ for release in releases))
        return found

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
        self.check_comparable(other)
        if self.epsilon is not None or other.epsilon is not None:
            raise InvalidInputError("records leave moments without noise only: release the others anew")
        if FLOAT_SAMPLER in (*self.guarantee_.voided_by, *other.guarantee_.voided_by):
            raise InvalidInputError(NO_STEPS)
        if not np.isin(other.classes_, self.classes_).all():
            raise InvalidInputError("these moments do not hold all the classes that are to leave")
        place = np.searchsorted(self.classes_, other.classes_)
        found = copy.copy(self)
        for name in RELEASED:
            rest = np.array(getattr(self, name))
            rest[... if self.is_pooled and name in POOLED else place] -= getattr(other, name)
            setattr(found, name, rest)
        if found.counts_.min(initial=0.0) < 0.0:
            raise InvalidInputError("these moments do not hold all the records that are to leave")
        return found

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
            raise InvalidInputError(NO_STEPS)
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
        found._restate(guarantee)
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

    # --- files: what is released, and nothing else ------------------------------------------------------

    def _kept(self) -> dict[str, Any]:
        return {
            "radius": float,
            "delta": float,
            "second_moments": Literal["class", "pooled"],
            "guarantee_": Annotated[Guarantee, NamedClass("Guarantee")],
            "classes_": Labels,
            **dict.fromkeys((*RELEASED, *LEVELS, "centre_"), Floats),
            "whitening_": Floats | None,
            "encoding_": str,
            "schema_fields_": tuple[tuple[str, str], ...],
        }

    def _kept_values(self, compact: bool) -> dict[str, Any]:
        above = np.triu_indices(len(self.centre_))  # half a matrix is the other half
        return {name: getattr(self, name) for name in self._kept()} | {
            "radius": float(self.radius),
            "delta": float(self.delta),
            "second_moments": "pooled" if self.is_pooled else "class",
            "classes_": plain_labels(self.classes_),
            "second_moments_": np.ascontiguousarray(self.second_moments_[:, *above]),
        }

    def _kept_parts(self, compact: bool) -> dict[str, Any]:
        # Parameters may have changed since; the guarantee says what they were when the noise was drawn.
        return super()._kept_parts(compact) | {"parameters": {}}

    def _take_over(self, values: dict[str, Any]) -> None:
        super()._take_over(values)
        core.check_release(self)
        self.second_moments_ = core.symmetric(self.second_moments_, self.centre_.size)
        self.n_features_in_ = self.centre_.size
        self._restate(self.guarantee_)
        if self.epsilon is None:
            self.guarantee_ = self.guarantee_.voided(core.NO_NOISE)
        check_parameters(self, core.CONSTRAINTS)

    def _restate(self, guarantee: Guarantee) -> None:
        """Take a guarantee, and the parameters that follow from it."""
        epsilon, delta = core.stated(guarantee)
        self.epsilon, self.delta = (epsilon, delta) if math.isfinite(epsilon) else (None, self.delta)
        self.neighbours, self.rows_per_person = guarantee.neighbours, guarantee.rows_per_person
        self.sampler = "float" if FLOAT_SAMPLER in guarantee.voided_by else "hardened"
        self.guarantee_ = guarantee

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
    refusal = f"centre must be {n_features} finite numbers, one per feature"
    found = number_array(centre, refusal)
    if found.shape != (n_features,):
        raise InvalidInputError(refusal)
    if not math.hypot(*found) <= 1.0 + 1e-9:
        raise InvalidInputError("centre must lie in the unit ball: records are divided by radius first")
    return found


def _same_matrix(one: Floats | None, other: Floats | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


def _label_kind(classes: Labels) -> str:
    kind = plain_labels(classes).dtype.kind
    return "number" if kind in "iuf" else kind


CLASSES.update(PrivateMoments=PrivateMoments, Guarantee=Guarantee)  # what files of moments name
