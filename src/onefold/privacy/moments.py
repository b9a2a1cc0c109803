"""Per-class moments of a set of records, released once, private for whole records and their labels."""

import os
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from onefold._base.files import read_saved, write_whole
from onefold._base.validation import check_rows
from onefold.exceptions import InvalidInputError
from onefold.privacy import _moment_repair as repair
from onefold.privacy._arguments import check_delta, check_epsilon
from onefold.privacy._moment_arguments import check_centre, check_radius, check_regularisation, check_shares
from onefold.privacy._moment_classes import CLASSES_SHARE, candidates_of, common_classes
from onefold.privacy._moment_files import pack_moments, unpack_moments
from onefold.privacy._moment_promise import promise
from onefold.privacy._moment_release import Blocks, Floats, Noise, class_sums, deviations
from onefold.privacy._moment_sum import check_comparable, sum_into
from onefold.privacy._streams import RandomState
from onefold.privacy.calibration import mu_of
from onefold.privacy.guarantee import Guarantee, check_relation
from onefold.privacy.sensitivity import Ball

__all__ = ["PrivateMoments"]

# Products of 14 binary digits have 28; sums of so many of them fit into the 53 of float64.
MOST_EXACT_RECORDS = 2**25


class PrivateMoments(BaseEstimator):
    r"""Counts, sums and second moments of the records of each class, with Gaussian noise, in one release.

    Rows are divided by ``radius`` and clipped to the unit ball; with a centre they are moved by it and scaled
    to norm one. That is all the release depends on (:meth:`embed`). Anything made of the result is
    post-processing and costs nothing more: classifiers, synthetic records, the repaired ``means_`` and
    ``covariances_``.

    Parameters
    ----------
    epsilon : float or None, default=1.0
        Privacy loss for a whole record. None adds no noise: for comparison, with a guarantee that says so.
    delta : float, default=1e-5
        Probability with which the loss may be exceeded; well below one over the number of records.
    classes : array-like or None, default=None
        The labels there can be, known without looking at the data. None finds them privately: a class is kept
        if its noisy count is beyond what one record could reach, except with a probability paid from a tenth
        of delta. Small classes are then left out.
    centre : "private", None or array of shape (n_features,), default="private"
        Where the records are seen from. "private": their noisy mean, paid from the budget; None: the origin;
        an array: a public point, or one that was released before, such as another owner's ``centre_``.
    radius : float, default=1.0
        Rows are declared to be no longer than this; longer ones are shortened.
    shares : four floats, default=(0.05, 0.02, 0.28, 0.70)
        How the budget (squared mu) is divided among centre, counts, sums and second moments.
    neighbours : {"add-remove", "replace"}, default="add-remove"
        What the guarantee compares: one record and its label more or less, or replaced by any other.
    hardened : bool, default=False
        Exact noise on dyadic grids, safe against attacks on floating-point numbers, from the operating
        system's cryptographic generator.
    random_state : None, int or Generator, default=None
        None takes fresh entropy of the operating system. A number is for tests: who knows it knows the noise.

    Attributes
    ----------
    classes_ : labels of the classes
    counts_, sums_, second_moments_ : the release, (C,), (C, p) and (C, p, p)
    count_noise_, sum_noise_, second_noise_ : public standard deviations of the noise on them, (C,) each
    centre_ : where records are seen from, (p,)
    encoding_ : what the records went through before, in words; empty if nothing is known of it
    means_, covariances_ : repaired estimates
    guarantee_ : what is promised to whom

    Notes
    -----
    *Guarantees.* The release is (epsilon, delta) differentially private for a whole record **with its
    label**; under "add-remove" the sizes of the classes are covered too. The derivation stands in
    ``onefold.privacy._moment_release``; the noise is calibrated by Gaussian privacy: mu is the largest with
    :math:`\Phi(\mu/2 - \epsilon/\mu) - e^\epsilon \Phi(-\mu/2 - \epsilon/\mu) \le \delta`.

    *Unknown classes* are found with a part of delta; why that is enough stands in
    ``onefold.privacy._moment_classes``.

    *Several owners.* Moments add up (:meth:`add`), if all use the same centre; so do the variances of the
    noise. Each owner's records keep the guarantee of their own release.

    Examples
    --------
    >>> import numpy as np
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
    classes_: NDArray[Any]
    guarantee_: Guarantee
    encoding_: str
    n_features_in_: int

    def __init__(
        self,
        epsilon: float | None = 1.0,
        delta: float = 1e-5,
        *,
        classes: ArrayLike | None = None,
        centre: Literal["private"] | ArrayLike | None = "private",
        radius: float = 1.0,
        shares: tuple[float, float, float, float] = (0.05, 0.02, 0.28, 0.70),
        neighbours: Literal["add-remove", "replace"] = "add-remove",
        hardened: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.centre = centre
        self.radius = radius
        self.shares = shares
        self.neighbours = neighbours
        self.hardened = hardened
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Release the moments of the rows of ``X`` with labels ``y``."""
        mu, shares = self._budget()
        rows, labels = check_rows(self, X, y)
        check_classification_targets(labels)
        candidates, codes = candidates_of(labels, self.classes)
        if self.hardened and len(rows) > MOST_EXACT_RECORDS:
            raise InvalidInputError(
                "a hardened release adds up at most 2**25 records exactly: split the data"
            )
        noise = Noise.of(self.random_state, self.hardened)
        sigma = Blocks(0.0, 0.0, 0.0, 0.0) if mu is None else deviations(mu, shares, self.neighbours)
        sizes = np.bincount(codes, minlength=len(candidates)).astype(np.float64)
        counts = noise.to_counts(sizes, sigma.number)
        kept = np.ones(len(counts), dtype=bool)
        if self.classes is None and mu is not None:
            kept = common_classes(counts, sigma.number, self.delta, self.hardened)
        self.centre_ = self._find_centre(rows, counts[kept].sum(), noise, sigma.centre)
        # A code of -1 for the rows of classes that are left out.
        renumbered = np.where(kept, np.cumsum(kept) - 1, -1)[codes]
        totals, seconds = class_sums(noise.on_grid(self.embed(rows)), renumbered, int(kept.sum()))
        self.classes_, self.counts_ = candidates[kept], counts[kept]
        self.sums_ = noise.to_sums(totals, sigma.total)
        self.second_moments_ = noise.to_matrices(seconds, sigma.second)
        self.count_noise_, self.sum_noise_, self.second_noise_ = (
            np.full(len(self.classes_), value) for value in (sigma.number, sigma.total, sigma.second)
        )
        self.guarantee_, self.encoding_ = promise(self, sigma), ""
        return self

    def embed(self, X: ArrayLike) -> Floats:
        """Rows as the release sees them: in the unit ball, seen from the centre, then of norm one."""
        given = np.asarray(X, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != len(self.centre_):
            raise InvalidInputError(f"expected rows of {len(self.centre_)} numbers")
        # Clipped before it is divided: a quotient beyond float64 would make everything that is released NaN.
        rows = Ball(1.0).clip(Ball(float(self.radius)).clip(given) / float(self.radius))
        if not np.any(self.centre_):
            return np.asarray(rows)
        seen = rows - self.centre_
        norms = np.linalg.norm(seen, axis=1, keepdims=True)
        return np.asarray(Ball(1.0).clip(seen / np.where(norms > 0.0, norms, 1.0)))

    def add(self, other: "PrivateMoments") -> "PrivateMoments":
        """Moments of both owners' records together; neither of the two is changed."""
        return PrivateMoments.total([self, other])

    def check_comparable(self, other: "PrivateMoments") -> None:
        """Refuse, in one line, a release that cannot be added to this one."""
        check_is_fitted(self)
        check_is_fitted(other)
        check_comparable(self, other)

    @classmethod
    def total(cls, releases: Sequence["PrivateMoments"]) -> "PrivateMoments":
        """Moments of all owners' records together, added in the given order; no release is changed."""
        if not releases:
            raise InvalidInputError("there are no releases to add up")
        for release in releases:
            check_is_fitted(release)
        epsilons = [release.epsilon for release in releases]
        found = cls(
            None if None in epsilons else max(epsilon or 0.0 for epsilon in epsilons),
            max(release.delta for release in releases),
            centre=releases[0].centre,
            radius=releases[0].radius,
            neighbours=releases[0].neighbours,
            hardened=all(release.hardened for release in releases),
        )
        sum_into(found, releases)
        return found

    @property
    def means_(self) -> Floats:
        """Mean of each class, (C, p), inside the unit ball."""
        check_is_fitted(self)
        return repair.means(self.counts_, self.sums_)

    @property
    def covariances_(self) -> Floats:
        """Covariance of each class, (C, p, p), positive definite: :meth:`covariances` with its defaults."""
        return self.covariances()

    def covariances(
        self, shrinkage: Literal["auto"] | float = "auto", floor: float = 0.2, least: float = 0.25
    ) -> Floats:
        """Covariances shrunk towards the pooled one, eigenvalues at least ``floor`` times the noise level.

        Nor are they smaller than the share ``least`` of the mean variance.
        Only the release and the public noise levels are used. ``shrinkage`` "auto" is the share of the
        classes' distance from the pooled covariance that noise and too few records explain.
        """
        check_is_fitted(self)
        chosen = check_regularisation(shrinkage, floor, least)
        raw = repair.raw_covariances(self.counts_, self.sums_, self.second_moments_, self.sum_noise_)
        return repair.covariances(raw, self.counts_, self.second_noise_, *chosen)

    def to_bytes(self) -> bytes:
        """The release as the bytes of a file; they hold nothing but what is released."""
        check_is_fitted(self)
        return pack_moments(self)

    @classmethod
    def from_bytes(cls, packed: bytes) -> "PrivateMoments":
        """The release that ``to_bytes`` wrote; nothing in it is executed, what does not fit is refused."""
        parameters, fitted = unpack_moments(packed)
        found = cls(**parameters)
        for name, value in fitted.items():
            setattr(found, name, value)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to ``path``, whole or not at all."""
        write_whole(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PrivateMoments":
        """The release saved at ``path``."""
        return read_saved(path, "there are no moments", cls.from_bytes)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "guarantee_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _budget(self) -> tuple[float | None, Blocks]:
        """Gaussian privacy of the whole release, and how it is divided."""
        check_relation(self.neighbours)
        check_radius(self.radius)
        shares = check_shares(self.shares, private_centre=isinstance(self.centre, str))
        if self.epsilon is None:
            return None, shares
        if self.classes is None and self.neighbours == "replace":
            raise InvalidInputError("neighbours='replace' needs classes: the labels there can be")
        share = 1.0 if self.classes is not None else 1.0 - CLASSES_SHARE
        return mu_of(check_epsilon(self.epsilon), share * check_delta(self.delta)), shares

    def _find_centre(self, rows: Floats, size: float, noise: Noise, sigma: float) -> Floats:
        if self.centre is None:
            return np.zeros(rows.shape[1])
        if isinstance(self.centre, str):
            if self.centre != "private":
                raise InvalidInputError("centre must be 'private', None or a vector")
            self.centre_ = np.zeros(rows.shape[1])
            total = noise.on_grid(self.embed(rows)).sum(axis=0)
            return np.asarray(repair.means(np.array([size]), noise.to_sums(total, sigma)[None])[0])
        return check_centre(self.centre, rows.shape[1])
