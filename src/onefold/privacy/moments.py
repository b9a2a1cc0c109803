"""Per-class moments of a set of records, released once, private for whole records and their labels."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from onefold._base.files import atomic_write
from onefold._base.validation import check_rows
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy import _moment_repair as repair
from onefold.privacy._arguments import check_delta, check_epsilon
from onefold.privacy._moment_arguments import (
    check_centre,
    check_classes,
    check_radius,
    check_regularisation,
    check_shares,
)
from onefold.privacy._moment_files import pack_moments, unpack_moments
from onefold.privacy._moment_release import SENSITIVITIES, Blocks, Floats, Noise, class_sums, deviations
from onefold.privacy._moment_sum import check_comparable, sum_into
from onefold.privacy._streams import RandomState
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.privacy.guarantee import Guarantee, check_relation
from onefold.privacy.sensitivity import Ball

__all__ = ["PrivateMoments"]

# Share of delta that pays for finding out privately which classes there are.
CLASSES_SHARE = 0.1
# Products of 14 binary digits have 28; sums of so many of them fit into the 53 of float64.
MOST_EXACT_RECORDS = 2**25
PARAMETERS = ("epsilon", "delta", "radius", "neighbours", "hardened")
ARRAYS = ("counts_", "sums_", "second_moments_", "count_noise_", "sum_noise_", "second_noise_", "centre_")


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

    *Unknown classes.* Let a class have its only record in one of two neighbouring datasets. Its count is 1,
    and it is kept only if 1 + noise is beyond the threshold, with probability at most :math:`1 -
    e^{-\delta'}`. Otherwise the release is that of the same classes, so that in both directions (epsilon,
    delta) grows by at most :math:`\delta'` in delta: up because of that event, down because conditioning on
    its complement costs a factor :math:`e^{\delta'}`, and delta as a function of epsilon has a slope of at
    most one.

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
        candidates, codes = self._candidates(labels)
        if self.hardened and len(rows) > MOST_EXACT_RECORDS:
            raise InvalidInputError(
                "a hardened release adds up at most 2**25 records exactly: split the data"
            )
        noise = Noise.of(self.random_state, self.hardened)
        sigma = Blocks(0.0, 0.0, 0.0, 0.0) if mu is None else deviations(mu, shares, self.neighbours)
        sizes = np.bincount(codes, minlength=len(candidates)).astype(np.float64)
        counts = noise.to_counts(sizes, sigma.number)
        kept = self._kept(counts, sigma.number)
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
        self.guarantee_, self.encoding_ = self._promise(mu, sigma), ""
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
        about = {
            "parameters": {name: getattr(self, name) for name in PARAMETERS},
            "guarantee": self.guarantee_.to_dict(),
            "encoding": self.encoding_,
        }
        return pack_moments(about, self.classes_, {name.rstrip("_"): getattr(self, name) for name in ARRAYS})

    @classmethod
    def from_bytes(cls, packed: bytes) -> "PrivateMoments":
        """The release that ``to_bytes`` wrote; nothing in it is executed, what does not fit is refused."""
        parameters, guarantee, encoding, classes, arrays = unpack_moments(
            packed, PARAMETERS, [name.rstrip("_") for name in ARRAYS]
        )
        found = cls(**parameters)
        for name in ARRAYS:
            setattr(found, name, arrays[name.rstrip("_")])
        found.classes_, found.guarantee_, found.encoding_ = classes, guarantee, encoding
        found.n_features_in_ = len(found.centre_)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to ``path``, whole or not at all."""
        packed = self.to_bytes()
        with atomic_write(path) as file:
            file.write(packed)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "PrivateMoments":
        """The release saved at ``path``."""
        if not Path(path).is_file():
            raise InvalidInputError(f"there are no moments at {os.fspath(path)}")
        try:
            return cls.from_bytes(Path(path).read_bytes())
        except FileFormatError as error:
            raise FileFormatError(f"{os.fspath(path)}: {error}") from None

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

    def _candidates(self, labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """Possible labels in order, and the position of each row's label among them."""
        if self.classes is None:
            candidates, codes = np.unique(labels, return_inverse=True)
            return candidates, codes
        candidates = check_classes(self.classes)
        if not np.isin(labels, candidates).all():
            raise InvalidInputError("y holds labels that are not among classes")
        return candidates, np.searchsorted(candidates, labels)

    def _kept(self, counts: Floats, sigma: float) -> NDArray[np.bool_]:
        """Classes whose noisy count one record alone would hardly reach; all of them if they are public."""
        if self.classes is not None or sigma == 0.0:
            return np.ones(len(counts), dtype=bool)
        quantile = -float(ndtri(-math.expm1(-CLASSES_SHARE * self.delta)))
        kept = counts > 1.0 + sigma * quantile + 0.5 * self.hardened  # hardened counts are rounded
        if not kept.any():
            raise InvalidInputError(
                "not one class has enough records for this epsilon: give classes, or more data"
            )
        return np.asarray(kept)

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

    def _promise(self, mu: float | None, sigma: Blocks) -> Guarantee:
        record: tuple[float, float] = (math.inf, 1.0)
        replaced = record
        if mu is not None and self.epsilon is not None:
            record = (float(self.epsilon), float(self.delta))
            replaced = self._replaced(sigma)
        return Guarantee(
            unit="record",
            entry=replaced,  # a changed entry or label replaces the record
            record=record,
            replaced=replaced,
            labels=replaced,
            labels_in_record=True,
            n_features=self.n_features_in_,
            untouched_entries=0.0,
            mechanism="Gaussian on counts, sums and second moments" + ", hardened" * bool(self.hardened),
            sensitivity=1.0,
            neighbours=self.neighbours,
        )

    def _replaced(self, sigma: Blocks) -> tuple[float, float]:
        """(epsilon, delta) when a record and its label are replaced."""
        epsilon, delta = float(self.epsilon or 0.0), float(self.delta)
        if self.neighbours == "replace":
            return epsilon, delta
        if self.classes is None:  # one record less, then one more
            larger = (1.0 + math.exp(min(epsilon, 700.0))) * delta
            return (2.0 * epsilon, larger) if larger < 1.0 else (math.inf, 1.0)
        pairs = zip(SENSITIVITIES["replace"], sigma, strict=True)
        mu = math.sqrt(sum((bound / level) ** 2 for bound, level in pairs if level > 0.0))
        return epsilon_of(mu, delta), delta
