"""Kernel affine hull machines as scikit-learn estimators: one layer, deep, and wide (000 Def. 1, 3 and 5)."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Index
from onefold._base.parallel import one_blas_thread, run_parallel
from onefold._base.validation import Entry, Number
from onefold.models.compose import DeepAutoencoder, LayeredAutoencoder, WideAutoencoder
from onefold.models.hull import LARGEST_STACKED
from onefold.models.kahm.core import (
    MachineStack,
    fit_stack,
    rebuild_stack,
)
from onefold.models.layers import Samples
from onefold.models.pool import Pool, Stack

# Lambda where it is a number: see the notes of :class:`KAHM`.
LAMBDA = 0.2
REGULARISATIONS: Entry = ("auto", "documented", Number(above=0))


@dataclass(eq=False, repr=False)
class _MachineFamily(LayeredAutoencoder):
    """What the three share: how stacks of machines are fitted, saved and restored."""

    _: KW_ONLY
    regularisation: str | float = "auto"

    constraints: ClassVar[dict[str, Entry]] = {"regularisation": REGULARISATIONS}
    stack_types = MachineStack, Samples

    @property
    def _fixed_lambda(self) -> float | None:
        """The regularisation where it is a number, None for the documents' fixed point."""
        if self.regularisation == "auto":
            return LAMBDA if self.scale is None else None
        return None if self.regularisation == "documented" else float(self.regularisation)

    @property
    def scale_matters(self) -> bool:  # type: ignore[override]
        """Whether the regularisation depends on the scale."""
        return self._fixed_lambda is None

    @property
    def _largest_stacked(self) -> int:
        return LARGEST_STACKED

    def _fit_stack(self, samples: Array, factor: float) -> Stack:
        return fit_stack(samples, self.n_components, self.n_layers, factor, self._fixed_lambda)

    def distances_at(self, pool: Pool, X: Array, lambdas: Sequence[float]) -> Array:
        """Measure rows by the first layer of fitted machines at other lambdas, which share all but little.

        Parameters
        ----------
        pool : Pool
            Fitted machines of this kind.
        X : ndarray of shape (n_rows, n_features)
            Checked rows.
        lambdas : sequence of float
            The L regularisations.

        Returns
        -------
        ndarray of shape (L, n_rows, n_groups)
            Distances of the rows from their images by the nearest machine of each group.
        """
        queries, divisor = pool.to_unit(X)
        lowest = np.full((len(lambdas), pool.n_groups, len(X)), np.inf)

        def fold(numbered: tuple[Stack, Index]) -> tuple[Index, Array]:
            stack, owners = numbered
            starts = np.flatnonzero(np.diff(owners, prepend=-1))
            squares = cast(MachineStack, stack).fold_at(queries, lambdas)
            return owners[starts], np.minimum.reduceat(squares, starts, axis=1)

        pairs = list(zip(pool.stacks, pool.owners, strict=True))
        for groups, squares in run_parallel(fold, pairs, self.n_jobs):
            lowest[:, groups] = np.minimum(lowest[:, groups], squares)
        return np.asarray(np.sqrt(lowest).transpose(0, 2, 1) * divisor[:, None])

    def _fit_again(self, samples: Samples, factor: float) -> Stack:
        known = samples.lambdas
        return rebuild_stack(
            samples.centred, samples.mean, self.n_components, self.n_layers, factor, self._fixed_lambda, known
        )


@dataclass(eq=False, repr=False)
class KAHM(_MachineFamily):
    """Kernel affine hull machine: maps any point onto the affine hull of the samples.

    The image of a point is an affine combination of the samples. Its coefficients are kernel ridge
    regressions of indicator functions on a principal-component encoding; the regularisation needs no tuning.
    A point is close to the samples when it is close to its image.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the encoding; fewer are used when the data has fewer (004 Alg. 1).
    scale : None, "auto" or float, default=None
        Factor by which the machine multiplies the data; images and distances stay in the units of ``X``.
        "auto" brings the mean square of the entries to 0.1, where the regularisation neither vanishes nor
        dominates.
    random_state : ignored
        One machine draws no random numbers; the parameter exists because all autoencoders have it.
    regularisation : {"auto", "documented"} or float, default="auto"
        Lambda of the kernel ridge regression. "documented" is the fixed point of 000 eq. 40; "auto" is 0.2
        where ``scale`` is None and "documented" where a scale is given; see the notes.

    Attributes
    ----------
    lambda_ : float
        The regularisation: that asked for, or the fixed point for data multiplied by ``scale_``.
    n_components_ : int
        Number of components in use.
    modelling_error_ : float
        Sum of the distances of the samples from their own images (000 eq. 88).
    pool_ : Pool
        The fitted machines.
    scale_ : float
        Factor by which the machine multiplies the data.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    DeepKAHM : Several layers.
    WideKAHM : Many samples, divided into branches.
    AutoencoderClassifier : One machine per class.

    Notes
    -----
    The documents claim that the denominator of the image is positive, which is false. A query whose
    denominator is below the bound they derive is mapped onto the sample farthest from it: it comes out as
    far, and the image is always finite and within the bound of 000 Thm 2.

    The fixed point of 000 eq. 40 lies between 2 and 3 times the mean square of the data, so it has a unit.
    The kernel has none: encodings are whitened, and kernel values between samples are about 1/e whatever the
    data. The fixed point therefore compares a number with a unit to one without, and only data with a mean
    square near 0.1, to which ``scale="auto"`` brings it, gets a lambda of 0.2 to 0.3. The rule "auto" takes
    0.2 itself, for every machine and in every unit. Components are then dropped when they hardly vary
    compared with the first one, not compared with a range of 0.001.

    References
    ----------
    Document 000, Definition 1, eq. 33-48; document 004, Appendix A.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import KAHM
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> machine = KAHM(n_components=5).fit(X)
    >>> near, far = machine.distance([X[0], X[0] + 100.0])
    >>> bool(near < far)
    True
    """

    @one_blas_thread()
    def membership(self, X: ArrayLike) -> Array:
        """Compute the kernel-smoothed membership h_i(Px) of each row to each sample (000 eq. 38).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to compare with the samples.

        Returns
        -------
        ndarray of shape (n_rows, n_samples)
            Memberships; those of a row need not add up to one.
        """
        check_is_fitted(self)
        queries, _ = self.pool_.to_unit(self._queries(X))
        return cast(MachineStack, self._machine).memberships(queries)

    @property
    def lambda_(self) -> float:
        """The regularisation: that asked for, or the fixed point for data multiplied by ``scale_``."""
        return float(self._machine.layers[0].lambdas[0, 0])

    @property
    def n_components_(self) -> int:
        """Number of components in use."""
        return int(self._machine.hull.n_encoded[0])

    @property
    def modelling_error_(self) -> float:
        """Sum of the distances of the samples from their own images (000 eq. 88)."""
        hull = self._machine.hull
        samples = (hull.centred[0] + hull.mean[0]) * hull.mean.dtype.type(self.pool_.unit)
        return float(self.pool_.measures(samples, "euclidean").sum(dtype=np.float64))


@dataclass(eq=False, repr=False)
class DeepKAHM(_MachineFamily, DeepAutoencoder):
    """Conditionally deep machine: layers of decreasing dimension, the nearest of them per point.

    Layer l maps what layer l - 1 returned, with n - l + 1 components. A point's image is that of the layer
    whose image is nearest to it.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the encoding; fewer are used when the data has fewer (004 Alg. 1).
    n_layers : int, default=5
        Number of layers L; there are never more than components.
    scale : None, "auto" or float, default=None
        Factor by which the machine multiplies the data; images and distances stay in the units of ``X``.
        "auto" brings the mean square of the entries to 0.1, where the regularisation neither vanishes nor
        dominates.
    random_state : ignored
        One machine draws no random numbers; the parameter exists because all autoencoders have it.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Results do not depend on it.
    regularisation : {"auto", "documented"} or float, default="auto"
        Lambda of the kernel ridge regression. "documented" is the fixed point of 000 eq. 40; "auto" is 0.2
        where ``scale`` is None and "documented" where a scale is given, see :class:`KAHM`.

    Attributes
    ----------
    lambdas_ : list of float
        The regularisation of each layer.
    n_components_ : int
        Number of components of the first layer.
    pool_ : Pool
        The fitted machines.
    scale_ : float
        Factor by which the machine multiplies the data.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    KAHM : One layer.
    WideKAHM : Many samples, divided into branches.

    References
    ----------
    Document 000, Definition 3, eq. 51-52.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import DeepKAHM
    >>> X = np.random.default_rng(0).normal(size=(100, 10))
    >>> machine = DeepKAHM(n_components=5, n_layers=3).fit(X)
    >>> len(machine.layers(X[:4]))
    3
    """

    @property
    def lambdas_(self) -> list[float]:
        """The regularisation of each layer: that asked for, or the fixed points at ``scale_``."""
        return [float(layer.lambdas[0, 0]) for layer in self._machine.layers]


@dataclass(eq=False, repr=False)
class WideKAHM(_MachineFamily, WideAutoencoder):
    """Wide machine: the samples are divided into branches, each modelled by a deep machine.

    A point's image is that of the branch whose image is nearest to it, so cost grows linearly with the number
    of samples.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the encoding; fewer are used when the data has fewer (004 Alg. 1).
    n_layers : int, default=5
        Number of layers L; there are never more than components.
    branch_size : int, default=1000
        Number of samples that a branch should hold. There are N / branch_size branches, rounded, at least
        one.
    partition : {"kmeans", "contiguous"}, default="kmeans"
        How samples are divided: "kmeans" makes clusters and divides a cluster of more than twice
        ``branch_size`` again, "contiguous" takes batches of consecutive rows.
    scale : None, "auto" or float, default=None
        Factor by which the machine multiplies the data; images and distances stay in the units of ``X``.
        "auto" brings the mean square of the entries to 0.1, where the regularisation neither vanishes nor
        dominates.
    random_state : int, RandomState or None, default=None
        Seed of the k-means that divides the samples.
    n_probe : int or None, default=None
        Compare a row only with this many branches, those with the nearest centres. None compares it with all
        branches, which is exact.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Results do not depend on it.
    regularisation : {"auto", "documented"} or float, default="auto"
        Lambda of the kernel ridge regression. "documented" is the fixed point of 000 eq. 40; "auto" is 0.2
        where ``scale`` is None and "documented" where a scale is given, see :class:`KAHM`.

    Attributes
    ----------
    branches_ : list of DeepKAHM
        The fitted branches.
    pool_ : Pool
        The fitted machines.
    scale_ : float
        Factor by which the machine multiplies the data.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    DeepKAHM : One branch.
    AutoencoderClassifier : One wide machine per class.

    References
    ----------
    Document 000, Definition 5, eq. 55-59.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import WideKAHM
    >>> X = np.random.default_rng(0).normal(size=(300, 10))
    >>> machine = WideKAHM(n_components=5, n_layers=2, branch_size=100, partition="contiguous").fit(X)
    >>> len(machine.branches_)
    3
    """

    _branch_kind = DeepKAHM
