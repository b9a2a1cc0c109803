"""Kernel affine hull machines as scikit-learn estimators: one layer, deep, and wide (000 Def. 1, 3 and 5)."""

from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Arrays
from onefold._base.parallel import one_blas_thread
from onefold.models.compose import DeepAutoencoder, LayeredAutoencoder, WideAutoencoder
from onefold.models.kahm._core import (
    LARGEST_STACKED,
    MachineStack,
    fit_stack,
    memberships,
    stack_from_state,
    stack_state,
)
from onefold.models.pool import Stack
from onefold.models.scale import ScaleOption

__all__ = ["KAHM", "DeepKAHM", "WideKAHM"]


class _MachineFamily(LayeredAutoencoder):
    """What the three share: how stacks of machines are fitted, saved and restored."""

    @property
    def _largest_stacked(self) -> int:
        return LARGEST_STACKED

    def _fit_stack(self, samples: Array, factor: float) -> Stack:
        return fit_stack(samples, self.n_components, self.n_layers, factor)

    def stack_state(self, stack: Stack, compact: bool = False) -> Arrays:
        return stack_state(cast(MachineStack, stack), compact)

    def stack_from_state(self, state: Arrays, factor: float) -> Stack:
        return stack_from_state(state, self.n_components, self.n_layers, factor)


class KAHM(_MachineFamily):
    """Kernel affine hull machine: maps any point onto the affine hull of the samples (000 Def. 1).

    The image of a point is an affine combination of the samples whose coefficients are kernel ridge
    regressions of indicator functions on a principal-component encoding; the regularisation is a fixed
    point and needs no tuning. A point is close to the samples when it is close to its image.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the encoding; fewer are used when the data has fewer (004 Alg. 1).
    scale : None, "auto" or float, default=None
        Factor at which the data is seen; images and distances stay in the units of ``X``. "auto" brings
        the mean square of the entries to 0.1, where the regularisation is neither vanishing nor dominant.
    random_state : ignored
        There is nothing random in one machine; accepted so that all autoencoders take it.

    Attributes
    ----------
    lambda_ : float
        The regularisation, in the scale at which the data is seen (000 eq. 40).
    n_components_ : int
        Components really used.
    modelling_error_ : float
        Sum of the distances of the samples from their own images (000 eq. 88).
    scale_ : float
        The factor at which the data is seen.

    Notes
    -----
    The documents claim that the denominator of the image is positive, which is false. A query whose
    denominator is below the bound they derive is mapped onto the sample farthest from it: it comes out as
    far, and the image is always finite and within the bound of 000 Thm 2.

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

    def __init__(
        self, n_components: int = 20, *, scale: ScaleOption = None, random_state: Any = None
    ) -> None:
        self.n_components = n_components
        self.scale = scale
        self.random_state = random_state

    @one_blas_thread()
    def membership(self, X: ArrayLike) -> Array:
        """Kernel-smoothed membership h_i(Px) of each row to each sample, (n, N) (000 eq. 38)."""
        check_is_fitted(self)
        queries, _ = self.pool_.to_unit(self._queries(X))
        return memberships(self._machine, queries)

    @property
    def lambda_(self) -> float:
        return float(self._machine.layers[0].lambdas[0, 0])

    @property
    def n_components_(self) -> int:
        return int(self._machine.hull.n_encoded[0])

    @property
    def modelling_error_(self) -> float:
        hull = self._machine.hull
        samples = (hull.centred[0] + hull.mean[0]) * hull.mean.dtype.type(self.pool_.unit)
        return float(self.pool_.measures(samples, "euclidean").sum(dtype=np.float64))


class DeepKAHM(_MachineFamily, DeepAutoencoder):
    """Conditionally deep machine: layers of decreasing dimension, the best of them per point (000 Def. 3).

    Layer l folds what layer l - 1 returned, with n - l + 1 components; a point's image is that of the layer
    nearest to it. There are never more layers than components.

    Parameters
    ----------
    n_components, scale, random_state : as in :class:`KAHM`
    n_layers : int, default=5
        Number of layers L.
    n_jobs : int or None, default=None
        Worker threads for blocks of queries; None uses as many as BLAS may use.

    Attributes
    ----------
    lambdas_ : list of float
        The regularisation of each layer.
    n_components_ : int
        Components used by the first layer.
    """

    def __init__(
        self,
        n_components: int = 20,
        n_layers: int = 5,
        *,
        scale: ScaleOption = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.scale = scale
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def lambdas_(self) -> list[float]:
        return [float(layer.lambdas[0, 0]) for layer in self._machine.layers]


class WideKAHM(_MachineFamily, WideAutoencoder):
    """Wide machine: the samples are split into branches, each modelled by a deep machine (000 Def. 5).

    A point's image is that of the branch nearest to it, so cost grows linearly with the number of samples.

    Parameters
    ----------
    n_components, n_layers, scale, n_jobs : as in :class:`DeepKAHM`
    branch_size : int, default=1000
        About how many samples a branch holds; there are N / branch_size branches, rounded, at least one.
    partition : {"kmeans", "contiguous"}, default="kmeans"
        Branches are clusters, or batches of consecutive rows. Clusters of more than twice ``branch_size`` are
        split again, since the cost of a branch grows with the cube of its size.
    n_probe : int or None, default=None
        Fold a point only by this many branches, those with the nearest centres. None folds by all: exact.
    random_state : int, RandomState or None, default=None
        Seeds k-means.

    Attributes
    ----------
    branches_ : list of DeepKAHM
        The fitted branches.
    """

    def __init__(
        self,
        n_components: int = 20,
        n_layers: int = 5,
        branch_size: int = 1000,
        partition: str = "kmeans",
        *,
        n_probe: int | None = None,
        scale: ScaleOption = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.branch_size = branch_size
        self.partition = partition
        self.n_probe = n_probe
        self.scale = scale
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def branches_(self) -> list[DeepKAHM]:
        return self._fitted_branches()

    def _branch(self) -> DeepKAHM:
        return DeepKAHM(self.n_components, self.n_layers, scale=self.scale_, n_jobs=self.n_jobs)
