"""Deep and wide membership-mapping autoencoders as scikit-learn estimators (001 Alg. 2 and 3)."""

import math
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array
from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.models._scale import ScaleOption
from onefold.models._shapes import DeepAutoencoder, LayeredAutoencoder, WideAutoencoder
from onefold.models.compose import Stack
from onefold.models.membership._core import Mapping
from onefold.models.membership._stack import MappingStack, fit_stack, rebuild_stack, stack_state

__all__ = [
    "DeepMembershipAutoencoder",
    "WideMembershipAutoencoder",
    "check_centred",
    "check_ratio",
    "inducing_limit",
]


def check_ratio(value: Any) -> None:
    """Refuse a ratio outside (0, 1]."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0.0 < value <= 1.0:
        raise InvalidInputError("inducing_ratio must be a number above 0 and at most 1")


def check_centred(value: Any) -> None:
    """Refuse anything but a yes or no."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidInputError("centred must be True or False")


def inducing_limit(n_samples: int, ratio: float, at_most: int) -> int:
    """M_max: this part of the samples (001 eq. 68), at least one and not more than ``at_most``."""
    return max(1, min(math.ceil(ratio * n_samples), at_most))


class _MembershipFamily(LayeredAutoencoder):
    """What both share: how a machine is fitted, saved and restored."""

    inducing_ratio: float
    max_inducing: int
    centred: bool
    scale_matters = False  # the regularisation is between tau and 2 tau whatever the scale

    def check_parameters(self) -> None:
        super().check_parameters()
        check_ratio(self.inducing_ratio)
        check_whole_number("max_inducing", self.max_inducing)
        check_centred(self.centred)

    @property
    def _largest_stacked(self) -> int:
        return 0  # the number of inducing points differs from machine to machine

    def _fit_stack(self, samples: Array, factor: float) -> Stack:
        at_most = inducing_limit(samples.shape[1], self.inducing_ratio, self.max_inducing)
        return fit_stack(samples, self.n_components, self.n_layers, at_most, factor, bool(self.centred))

    def stack_state(self, stack: Stack) -> dict[str, NDArray[Any]]:
        return stack_state(cast(MappingStack, stack))

    def stack_from_state(self, state: dict[str, NDArray[Any]], factor: float) -> Stack:
        return rebuild_stack(state, self.n_components, self.n_layers, bool(self.centred))


class DeepMembershipAutoencoder(_MembershipFamily, DeepAutoencoder):
    """Conditionally deep membership-mapping autoencoder, CDMMA (001 Def. 3, Alg. 2, Def. 11).

    Layer l encodes what layer l - 1 returned by n - l + 1 principal components and maps it back by Student-t
    membership-mappings; a point's image is that of the layer nearest to it.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the first encoding; at most N - 1 and the rank of the data are used.
    n_layers : int, default=5
        Number of layers L.
    inducing_ratio : float, default=0.5
        Inducing points per sample, at most (001 eq. 68); fewer are used where the data is smooth.
    max_inducing : int, default=500
        Inducing points, at most.
    centred : bool, default=True
        Whether mappings model deviations from the mean of the samples; False: the samples themselves, exactly
        as in the document.
    scale : None, "auto" or float, default=None
        Factor at which the data is seen. It hardly changes the mappings, but the bounded folding measures.
    n_jobs : int or None, default=None
        Worker threads for blocks of queries; None uses as many as BLAS may use.
    random_state : ignored
        There is nothing random in one machine; accepted so that all autoencoders take it.

    Attributes
    ----------
    n_inducing_ : list of int
        Inducing points M of each layer.
    taus_ : list of float
        Smoothing level of each layer (001 eq. 54 at sigma^2 = 1).
    n_components_ : int
        Components used by the first layer.

    Notes
    -----
    The document fits zero-mean mappings to raw data: far from the samples every kernel value vanishes and the
    image with them, so that the origin is its own image and seems near to samples far away from it. Hence the
    default: deviations from the mean are modelled, and far points get an image near the mean.
    The document's loop over M does not end once M <= 9; here M loses at least one point per round.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import DeepMembershipAutoencoder
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> machine = DeepMembershipAutoencoder(n_components=5, n_layers=3).fit(X)
    >>> near, far = machine.distance([X[0], X[0] + 100.0])
    >>> bool(near < far)
    True
    """

    def __init__(
        self,
        n_components: int = 20,
        n_layers: int = 5,
        *,
        inducing_ratio: float = 0.5,
        max_inducing: int = 500,
        centred: bool = True,
        scale: ScaleOption = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.inducing_ratio = inducing_ratio
        self.max_inducing = max_inducing
        self.centred = centred
        self.scale = scale
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def _mappings(self) -> list[Mapping]:
        return [layer.mapping for layer in self._machine.layers]

    @property
    def n_inducing_(self) -> list[int]:
        return [len(mapping.inputs.inducing) for mapping in self._mappings]

    @property
    def taus_(self) -> list[float]:
        return [mapping.tau for mapping in self._mappings]


class WideMembershipAutoencoder(_MembershipFamily, WideAutoencoder):
    """Wide membership-mapping autoencoder: one CDMMA per branch of the samples (001 Alg. 3, Def. 13).

    A point's image is that of the branch nearest to it, so cost grows linearly with the number of samples.

    Parameters
    ----------
    n_components, n_layers, inducing_ratio, max_inducing, centred, scale, n_jobs : as in
        :class:`DeepMembershipAutoencoder`
    branch_size : int, default=1000
        About how many samples a branch holds; there are N / branch_size branches, rounded, at least one.
    partition : {"kmeans", "contiguous"}, default="kmeans"
        Branches are clusters, or batches of consecutive rows.
    n_probe : int or None, default=None
        Fold a point only by this many branches, those with the nearest centres. None folds by all: exact.
    random_state : int, RandomState or None, default=None
        Seeds the k-means of the branches.

    Attributes
    ----------
    branches_ : list of DeepMembershipAutoencoder
        The fitted branches.
    """

    def __init__(
        self,
        n_components: int = 20,
        n_layers: int = 5,
        branch_size: int = 1000,
        partition: str = "kmeans",
        *,
        inducing_ratio: float = 0.5,
        max_inducing: int = 500,
        centred: bool = True,
        n_probe: int | None = None,
        scale: ScaleOption = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.branch_size = branch_size
        self.partition = partition
        self.inducing_ratio = inducing_ratio
        self.max_inducing = max_inducing
        self.centred = centred
        self.n_probe = n_probe
        self.scale = scale
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def branches_(self) -> list[DeepMembershipAutoencoder]:
        return self._fitted_branches()

    def _branch(self) -> DeepMembershipAutoencoder:
        return DeepMembershipAutoencoder(
            self.n_components,
            self.n_layers,
            inducing_ratio=self.inducing_ratio,
            max_inducing=self.max_inducing,
            centred=self.centred,
            scale=self.scale_,
            n_jobs=self.n_jobs,
        )
