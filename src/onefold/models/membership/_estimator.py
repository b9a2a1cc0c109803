"""Membership-mappings as scikit-learn estimators: autoencoders (001 Alg. 2, 3), regression (001 Alg. 1)."""

import math
from typing import Any, ClassVar, cast

import numpy as np

from onefold._base.arrays import Array, Arrays
from onefold._base.validation import Entry, Flag, Number, Whole
from onefold.models.compose import DeepAutoencoder, LayeredAutoencoder, WideAutoencoder
from onefold.models.membership._core import (
    Inputs,
    Mapping,
    MappingStack,
    Targets,
    fit_mapping,
    fit_stack,
    stack_from_state,
    stack_state,
)
from onefold.models.pool import Stack
from onefold.models.regression import Regression
from onefold.models.scale import ScaleOption

# --- autoencoders --------------------------------------------------------------------------------------


CONSTRAINTS: dict[str, Entry] = {
    "inducing_ratio": Number(above=0, at_most=1),
    "max_inducing": Whole(1),
    "centred": Flag(),
}


def inducing_limit(n_samples: int, ratio: float, at_most: int) -> int:
    """M_max: this part of the samples (001 eq. 68), at least one and not more than ``at_most``."""
    return max(1, min(math.ceil(ratio * n_samples), at_most))


class _MembershipFamily(LayeredAutoencoder):
    """What both share: how a machine is fitted, saved and restored."""

    inducing_ratio: float
    max_inducing: int
    centred: bool
    constraints: ClassVar[dict[str, Entry]] = CONSTRAINTS
    scale_matters = False  # the regularisation is between tau and 2 tau whatever the scale

    @property
    def _largest_stacked(self) -> int:
        return 0  # the number of inducing points differs from machine to machine

    def _fit_stack(self, samples: Array, factor: float) -> Stack:
        at_most = inducing_limit(samples.shape[1], self.inducing_ratio, self.max_inducing)
        return fit_stack(samples, self.n_components, self.n_layers, at_most, factor, bool(self.centred))

    def _stack_state(self, stack: Stack, compact: bool) -> Arrays:
        return stack_state(cast(MappingStack, stack), compact)

    def _stack_from_state(self, state: Arrays, factor: float) -> Stack:
        return stack_from_state(state, self.n_components, self.n_layers, bool(self.centred))


class DeepMembershipAutoencoder(_MembershipFamily, DeepAutoencoder):
    """Conditionally deep membership-mapping autoencoder, CDMMA.

    Layer l encodes what layer l - 1 returned by n - l + 1 principal components and maps it back by Student-t
    membership-mappings. A point's image is that of the layer whose image is nearest to it.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the first encoding; at most N - 1 and the rank of the data are used.
    n_layers : int, default=5
        Number of layers L.
    inducing_ratio : float, default=0.5
        Largest number of inducing points per sample (001 eq. 68); smooth data needs fewer.
    max_inducing : int, default=500
        Largest number of inducing points.
    centred : bool, default=True
        Whether mappings model deviations from the mean of the samples. False models the samples themselves,
        exactly as the document does.
    scale : None, "auto" or float, default=None
        Factor by which the machine multiplies the data. It hardly changes the mappings, but it does change
        the bounded folding measures.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Results do not depend on it.
    random_state : ignored
        One machine draws no random numbers; the parameter exists because all autoencoders have it.

    Attributes
    ----------
    n_inducing_ : list of int
        Inducing points M of each layer.
    taus_ : list of float
        Smoothing level of each layer (001 eq. 54 at sigma^2 = 1).
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
    WideMembershipAutoencoder : Many samples, divided into branches.
    MembershipMapping : The mapping itself, as a regressor.

    Notes
    -----
    The document fits zero-mean mappings to raw data. Far from the samples every kernel value vanishes and the
    image with them, so the origin is its own image and seems near to samples far away from it. With
    ``centred=True`` deviations from the mean are modelled instead, and far points get an image near the mean.
    The document's loop over M does not end once M <= 9; here M loses at least one point per round.

    References
    ----------
    Document 001, Definitions 3 and 11, Algorithm 2.

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
        """Inducing points M of each layer."""
        return [len(mapping.inputs.inducing) for mapping in self._mappings]

    @property
    def taus_(self) -> list[float]:
        """Smoothing level of each layer (001 eq. 54 at sigma^2 = 1)."""
        return [mapping.tau for mapping in self._mappings]


class WideMembershipAutoencoder(_MembershipFamily, WideAutoencoder):
    """Wide membership-mapping autoencoder: one CDMMA per branch of the samples.

    A point's image is that of the branch whose image is nearest to it, so cost grows linearly with the number
    of samples.

    Parameters
    ----------
    n_components : int, default=20
        Dimension of the first encoding; at most N - 1 and the rank of the data are used.
    n_layers : int, default=5
        Number of layers L.
    branch_size : int, default=1000
        Number of samples that a branch should hold. There are N / branch_size branches, rounded, at least
        one.
    partition : {"kmeans", "contiguous"}, default="kmeans"
        How samples are divided: "kmeans" makes clusters and divides a cluster of more than twice
        ``branch_size`` again, "contiguous" takes batches of consecutive rows.
    inducing_ratio : float, default=0.5
        Largest number of inducing points per sample (001 eq. 68); smooth data needs fewer.
    max_inducing : int, default=500
        Largest number of inducing points.
    centred : bool, default=True
        Whether mappings model deviations from the mean of the samples. False models the samples themselves,
        exactly as the document does.
    n_probe : int or None, default=None
        Compare a row only with this many branches, those with the nearest centres. None compares it with all
        branches, which is exact.
    scale : None, "auto" or float, default=None
        Factor by which the machine multiplies the data. It hardly changes the mappings, but it does change
        the bounded folding measures.
    n_jobs : int or None, default=None
        Worker threads; None uses as many as BLAS may use. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the k-means that divides the samples.

    Attributes
    ----------
    branches_ : list of DeepMembershipAutoencoder
        The fitted branches.
    pool_ : Pool
        The fitted machines.
    scale_ : float
        Factor by which the machine multiplies the data.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    DeepMembershipAutoencoder : One branch.
    AutoencoderClassifier : One autoencoder per class.

    References
    ----------
    Document 001, Definition 13, Algorithm 3.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import WideMembershipAutoencoder
    >>> X = np.random.default_rng(0).normal(size=(300, 10))
    >>> machine = WideMembershipAutoencoder(5, 2, branch_size=100, partition="contiguous").fit(X)
    >>> len(machine.branches_)
    3
    """

    _branch_kind = DeepMembershipAutoencoder

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
        """The fitted branches, each as a deep autoencoder of its own."""
        return self._fitted_branches()


# --- regression ----------------------------------------------------------------------------------------


class MembershipMapping(Regression):
    """Regression by Student-t membership-mappings, any number of outputs at once.

    Parameters
    ----------
    inducing_ratio : float, default=0.5
        Largest number of inducing points per sample (001 eq. 68); smooth inputs need fewer.
    max_inducing : int, default=500
        Largest number of inducing points.
    centred : bool, default=True
        Whether deviations from the mean of the outputs are modelled. False models the outputs themselves,
        exactly as the document does.

    Attributes
    ----------
    mapping_ : Mapping
        The fitted mapping, in units of its own.
    inducing_points_ : ndarray of shape (M, n)
        The auxiliary inducing points (001 eq. 51).
    tau_ : float
        Smoothing level at sigma^2 = 1 (001 eq. 54).
    sigma2_ : float
        Variance parameter of the kernel (001 Alg. 1, steps 9-13).
    n_features_in_ : int
        Number of inputs.

    See Also
    --------
    DeepMembershipAutoencoder : Maps encodings of samples back to the samples.
    DeepFuzzyModel : Regression by fuzzy rules.

    Notes
    -----
    The document's mappings have zero mean: far inputs are mapped near zero, however far from zero the outputs
    are. By default deviations from their mean are modelled, so that far inputs are mapped near that mean.
    An input that does not vary is ignored. The kernel is as wide as the range of the inputs, and the number
    of inducing points falls until enough smoothing is left. With one or two inputs the fit is therefore
    coarse whatever the number of samples.

    References
    ----------
    Document 001, Definition 10, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import MembershipMapping
    >>> X = np.random.default_rng(0).normal(size=(300, 6))
    >>> Y = np.column_stack([X[:, 0] + X[:, 1], X[:, 2] - X[:, 3]])
    >>> MembershipMapping().fit(X[:200], Y[:200]).score(X[200:], Y[200:]) > 0.9
    True
    """

    constraints = CONSTRAINTS
    _not_negative = ("inverse_range",)

    def __init__(self, inducing_ratio: float = 0.5, max_inducing: int = 500, centred: bool = True) -> None:
        self.inducing_ratio = inducing_ratio
        self.max_inducing = max_inducing
        self.centred = centred

    @property
    def inducing_points_(self) -> Array:
        """The auxiliary inducing points (001 eq. 51)."""
        places = self.mapping_.inputs
        return np.asarray(places.unscaled() * self._input_unit)

    @property
    def tau_(self) -> float:
        """Smoothing level at sigma^2 = 1 (001 eq. 54)."""
        return self.mapping_.tau

    @property
    def sigma2_(self) -> float:
        """Variance parameter of the kernel (001 Alg. 1, steps 9-13)."""
        return self.mapping_.sigma2

    def _learn(self, rows: Array, targets: Array) -> None:
        at_most = inducing_limit(len(rows), self.inducing_ratio, self.max_inducing)
        seen = Targets.of(targets - self._mean, factor=self._unit)
        self.mapping_, *_ = fit_mapping(rows, seen, at_most)

    def _deviations(self, rows: Array) -> Array:
        return self.mapping_.outputs(rows)

    def _state(self) -> tuple[Arrays, list[float]]:
        mapping = self.mapping_
        arrays = {**vars(mapping.inputs), "weights": mapping.weights}
        return arrays, [mapping.ridge, mapping.tau, mapping.variance]

    def _shapes(self, state: Arrays, n_features: int) -> dict[str, tuple[int, ...]]:
        n_inducing, n_outputs = state["weights"].shape
        return {
            "inducing": (n_inducing, n_features),
            "shift": (n_features,),
            "inverse_range": (n_features,),
            "weights": (n_inducing, n_outputs),
            "mean": (n_outputs,),
            "numbers": (5,),
        }

    def _restore(self, state: Arrays, numbers: list[float]) -> None:
        inputs = Inputs(state["shift"], state["inverse_range"], state["inducing"])
        self.mapping_ = Mapping(inputs, state["weights"], *numbers)
