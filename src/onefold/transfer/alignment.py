"""From a target to a source: the way of its rows, an alignment, and views of what the source knows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.covariance import ledoit_wolf

from onefold._base.arrays import Array, Floats, Index, sizes_of
from onefold.exceptions import InvalidInputError
from onefold.transfer._description import Description, covariance_of, leading_directions
from onefold.transfer.learners import GaussianModel, Mixture, Projection, log_probabilities, project

if TYPE_CHECKING:
    from onefold.transfer.source import PrivateSource

__all__ = ["Way", "mapped_rows", "procrustes", "subspace_alignment", "ways_to"]

PROCRUSTES = "procrustes"  # to_source: use nothing of the source but the shape that its class means form
RIDGE = 0.05  # added to the covariance inside a class, in units of its mean variance
CLOSEST = 0.02  # least squared distance of the domains, in units of a row's variance
LABELLED_ROUNDS, LABELLED_PRIOR = 2, 10.0  # rounds, and rows the source's covariance counts as, per direction
REFINED_ROUNDS, REFINED_PRIOR = 8, 2.0  # the same where unlabelled rows count
SMALLEST = 0.05  # least variance or eigenvalue that is divided by, in units of the mean one


def subspace_alignment(subspace: Floats, rows: Array) -> Floats:
    """Compute the matrix V+^T V that takes a target row to the source space (001 eq. 79).

    Both PCAs keep n_st = min(ceil(p_sr / 2), p_tg) directions. The signs and the order of the two sets of
    eigenvectors have nothing to do with each other, so that nothing is really aligned: it is what the
    document does, and hardly more than chance is left of the source. Rows are not centred, as printed.

    Parameters
    ----------
    subspace : ndarray of shape (n_directions, p_sr)
        Principal directions of the source.
    rows : ndarray of shape (n_samples, p_tg)
        Rows of the target.

    Returns
    -------
    ndarray of shape (p_sr, p_tg)
        The matrix.
    """
    n_st = min(len(subspace), rows.shape[1])
    own = leading_directions(covariance_of(rows), n_st)
    return np.asarray(subspace[:n_st].T @ own)


def mapped_rows(to_source: Any, rows: Array) -> Array:
    """Take rows through a user's map: something with ``transform``, or a function of a table of rows."""
    try:
        found = to_source.transform(rows) if hasattr(to_source, "transform") else to_source(rows)
    except TypeError:
        raise InvalidInputError("to_source must be a fitted transformer or a function of rows") from None
    mapped = np.asarray(found)
    if mapped.ndim != 2 or len(mapped) != len(rows) or mapped.dtype.kind not in "fiu":
        raise InvalidInputError("to_source must give one row of numbers for every row")
    if not np.isfinite(mapped).all():
        raise InvalidInputError("to_source gave a NaN or infinite value")
    return mapped if mapped.dtype in (np.float32, np.float64) else mapped.astype(np.float64)


def procrustes(description: Description, coordinates: Floats, codes: Index) -> Floats:
    """Turn, scale and move the source's class means onto those of labelled rows, (C, k).

    Classes without a labelled row are turned along with the others.
    """
    known = np.unique(codes)
    own = np.stack([coordinates[codes == code].mean(axis=0) for code in known])
    theirs = description.means
    centre = theirs[known].mean(axis=0)
    centred = own - own.mean(axis=0)
    left, sizes, right = np.linalg.svd((theirs[known] - centre).T @ centred, full_matrices=False)
    spread = float(np.sum((theirs[known] - centre) ** 2))
    factor = float(sizes.sum()) / spread if spread > 0.0 else 0.0
    return np.asarray(factor * (theirs - centre) @ (left @ right) + own.mean(axis=0))


# --- the way of a row -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """The way from rows of the target to placed rows of the source space.

    A user's map gives rows like the source's own, or encoded ones; without a map, rows of the same width go
    the way of the source's rows, and others are multiplied by ``matrix`` (001 eq. 79), if there is one.
    """

    source: "PrivateSource | None"
    to_source: Any = None
    matrix: Floats | None = None

    @property
    def description(self) -> Description:
        """What the source knows."""
        assert self.source is not None
        return self.source.description_

    @property
    def turns(self) -> bool:
        """Whether the source's class means are turned onto the target's rows, which stay as they are."""
        return isinstance(self.to_source, str) and self.to_source == PROCRUSTES

    @property
    def encodes(self) -> bool:
        """Whether rows go through an encoder or a user's map."""
        mapped = self.to_source is not None or (self.source is not None and self.source.encoder_ is not None)
        return mapped and not self.turns

    def __call__(self, rows: Array) -> Array:
        """Place rows."""
        if self.source is None or self.turns:
            return rows
        if self.matrix is not None:
            return self.description.place(rows @ self.matrix.T)
        return self._enter(rows if self.to_source is None else mapped_rows(self.to_source, rows))

    def is_open(self, n_features: int) -> bool:
        """Tell whether rows of this width can be placed without an alignment."""
        return self.source is None or self.to_source is not None or n_features == self.source.n_features_in_

    def _enter(self, rows: Array) -> Array:
        if self.source is None:
            return rows
        if rows.shape[1] == self.source.n_features_in_:
            return self.source.encode(rows)
        if rows.shape[1] == self.source.n_encoded_:
            return self.description.place(rows)
        sizes = f"{self.source.n_features_in_} features"
        if self.source.encoder_ is not None:
            sizes += f", or {self.source.n_encoded_} encoded ones"
        raise InvalidInputError(f"to_source must give rows of {sizes}, as the source has")


def ways_to(sources: "Sequence[PrivateSource]", to_source: Any) -> tuple[Way, ...]:
    """Return the way to each source; without a source one that leaves rows as they are."""
    return tuple(Way(source, to_source) for source in sources) or (Way(None, to_source),)


# --- views: ways to ask a source --------------------------------------------------------------------------


@dataclass(frozen=True)
class MeansView:
    """The source's class means, with distances in the target's own principal directions."""

    projection: Projection
    centres: Floats  # (C, k)
    variances: Floats  # (k,)

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit each other, as those of a foreign file."""
        size = sizes_of(self, centres="Ck", variances="k")["k"]
        if size != self.projection.axes.shape[1] or (self.variances <= 0.0).any():
            raise InvalidInputError("the parts of a view do not fit each other")

    def scores(self, rows: Array, n_classes: int) -> Floats:
        """Return minus half the squared distance to each mean, (n, C)."""
        coordinates = self.projection(rows) / np.sqrt(self.variances)
        centres = self.centres / np.sqrt(self.variances)
        squares = np.sum(coordinates**2, axis=1)[:, None] - 2.0 * coordinates @ centres.T
        return np.asarray(-0.5 * (squares + np.sum(centres**2, axis=1)))


def turned_view(description: Description, rows: Array, codes: Index) -> MeansView:
    """Turn the source's class means onto those of the labelled rows, for rows of any width.

    The shape that the source's means form is rigid, so that few labels can place it. ``codes`` of -1 have no
    label; only labelled rows decide.
    """
    projection, labelled = project(rows), codes >= 0
    coordinates = projection(rows)
    centres = procrustes(description, coordinates[labelled], codes[labelled])
    spread = coordinates.var(axis=0)
    variances = np.maximum(spread, SMALLEST * spread.mean()) + np.finfo(float).tiny
    return MeansView(projection, centres, variances)


# --- class means between source and target: empirical Bayes -----------------------------------------------
#
# The source says where classes should be, labelled rows of the target where they seem to be. How far the two
# domains are apart is estimated from the labelled rows in closed form, and says how much each side counts.


@dataclass(frozen=True)
class Prior:
    """What a source says about a target, in the target's coordinates."""

    means: Floats  # (C, k)
    within: Floats  # (k, k), covariance inside a class
    shift: Floats  # (k,), mean of the target's rows minus mean of the source's: known without labels


def shrinking(
    members: Sequence[int], ways: tuple[Way, ...], placed: tuple[Array, ...], n_classes: int
) -> Callable[..., GaussianModel]:
    """Ask the sources at these positions, which see rows in the same way, what labels are then added to."""
    rows = placed[members[0]]
    projection = project(rows)
    coordinates = projection(rows)
    priors = [_prior(ways[place].description, projection, coordinates) for place in members]

    def fit(codes: Index, sample: Index, *, refine: bool) -> GaussianModel:
        """Fit Gaussians to the labelled rows of a sample, or with ``refine`` to all of them."""
        seen, known = coordinates[sample], codes[sample]
        mixture = fit_shrunk(seen, known, combined(priors, seen, known), refine=refine)
        return GaussianModel(projection, mixture, np.arange(n_classes))

    return fit


def _prior(described: Description, projection: Projection, coordinates: Floats) -> Prior:
    """Return what one source says, in the target's principal directions."""
    within = described.within(projection.axes)
    if within is None:
        within = ledoit_wolf(coordinates)[0]
    size = len(within)
    floor = max(RIDGE * float(np.trace(within)) / size, np.finfo(float).tiny ** 0.5)
    overall = described.counts @ described.means / described.counts.sum()  # the mean of all records
    shift = coordinates.mean(axis=0) - projection(overall[None])[0]
    return Prior(projection(described.means), within + floor * np.eye(size), shift)


@dataclass(frozen=True)
class Distance:
    """How far the classes of the target are from where the source has them."""

    means: Floats  # (C, k), of the source, moved by the shift if that explains labelled rows better
    squared: float  # in each direction, in units of the variance inside a class
    is_moved: bool = False


def measure(prior: Prior, means: Floats, counts: Floats, whitening: Floats) -> Distance:
    """Estimate the distance of the domains from class means of ``counts`` labelled rows each.

    In whitened coordinates a mean of n rows is normal around the true one with variance 1/n, and the true one
    around the source's with variance t: the mean square of their difference, over k directions, minus 1/n
    estimates t. The evidence, the density of the labelled means under both, decides about the shift.
    """
    seen, size = counts > 0, means.shape[1]
    found = []
    for is_moved, moved in ((False, prior.means), (True, prior.means + prior.shift)):
        squares = (((means - moved)[seen] @ whitening) ** 2).sum(axis=1)
        t = max(CLOSEST, float(np.average(squares / size - 1.0 / counts[seen], weights=counts[seen])))
        spread = t + 1.0 / counts[seen]
        evidence = -0.5 * float(np.sum(size * np.log(spread) + squares / spread))
        found.append((evidence, Distance(moved, t, is_moved)))
    return max(found, key=lambda pair: pair[0])[1]


def combined(priors: Sequence[Prior], coordinates: Floats, codes: Index) -> Prior:
    """Combine what several sources say, each counted by how near it is to the labelled rows.

    Given its squared distance t, a source's mean is normal around the true one with variance t, so that 1/t
    is its weight. How far the combination is from the target is measured anew by :func:`fit_shrunk`: sources
    may all err in the same direction, and then many are no better than one.
    """
    if len(priors) == 1:
        return priors[0]
    _, counts, labelled = _labelled_means(coordinates, codes, len(priors[0].means))
    # One covariance for all, or the distances would be in different units.
    whitening = _whitening(np.mean([prior.within for prior in priors], axis=0))
    found = [measure(prior, labelled, counts, whitening) for prior in priors]
    weights = np.array([1.0 / distance.squared for distance in found])
    weights /= weights.sum()
    shifts = [
        np.zeros_like(prior.shift) if distance.is_moved else prior.shift
        for prior, distance in zip(priors, found, strict=True)
    ]
    return Prior(
        np.tensordot(weights, [distance.means for distance in found], axes=1),
        np.tensordot(weights, [prior.within for prior in priors], axes=1),
        weights @ np.array(shifts),
    )


def _labelled_means(coordinates: Floats, codes: Index, n_classes: int) -> tuple[Floats, Floats, Floats]:
    """Return indicators of the labelled rows, their number in each class, and the means of the classes."""
    known = codes >= 0
    certain = np.eye(n_classes)[codes[known]]
    counts = certain.sum(axis=0)
    return certain, counts, certain.T @ coordinates[known] / np.maximum(counts, 1.0)[:, None]


def fit_shrunk(coordinates: Floats, codes: Index, prior: Prior, *, refine: bool) -> Mixture:
    """Fit a Gaussian per class with one covariance; ``codes`` are -1 where a row has no label.

    Means are weighed means of the rows and of the source (James and Stein), the covariance that of the rows
    and ``prior.within``. With ``refine`` unlabelled rows count too, as far as each class is believed.
    """
    rounds, strength = (REFINED_ROUNDS, REFINED_PRIOR) if refine else (LABELLED_ROUNDS, LABELLED_PRIOR)
    n_classes, size = prior.means.shape
    known = codes >= 0
    certain, counts, labelled = _labelled_means(coordinates, codes, n_classes)
    beliefs = np.zeros((len(codes), n_classes))
    beliefs[known] = certain
    covariance, rows_of_source = prior.within, strength * size
    for last in [False] * (rounds - 1) + [True]:
        distance = measure(prior, labelled, counts, _whitening(covariance))
        total, sums = beliefs.sum(axis=0)[:, None], beliefs.T @ coordinates
        means = (sums + distance.means / distance.squared) / (total + 1.0 / distance.squared)
        # Scatter around these means, which are not those of the rows.
        crossed = sums.T @ means
        scatter = (coordinates * beliefs.sum(axis=1)[:, None]).T @ coordinates
        scatter += (means * total).T @ means - crossed - crossed.T
        covariance = (scatter + rows_of_source * prior.within) / (total.sum() + rows_of_source)
        # What the determinant of one covariance adds is the same for every class.
        whitening = np.repeat(_whitening(covariance)[None], n_classes, axis=0)
        fitted = Mixture(means, whitening, np.zeros(n_classes))
        if refine and not last:
            beliefs = np.exp(log_probabilities(fitted.scores(coordinates)))
            beliefs[known] = certain
    return fitted


def _whitening(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    least = max(1e-12 * float(values[-1]), np.finfo(float).tiny ** 0.5)
    return np.asarray(vectors / np.sqrt(np.maximum(values, least)))
