"""Membership-mappings as scikit-learn estimators: autoencoders (001 Alg. 2, 3), regression (001 Alg. 1)."""

import math
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Arrays
from onefold._base.parallel import one_blas_thread, run_parallel
from onefold._base.validation import Entry, Flag, Number, Whole, check_parameters, check_rows
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
from onefold.models.pool import Stack, row_blocks
from onefold.models.scale import ScaleOption, unit_of

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


ROWS_AT_ONCE = 2048  # predicted together


class MembershipMapping(MultiOutputMixin, RegressorMixin, BaseEstimator):
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

    def __init__(self, inducing_ratio: float = 0.5, max_inducing: int = 500, centred: bool = True) -> None:
        self.inducing_ratio = inducing_ratio
        self.max_inducing = max_inducing
        self.centred = centred

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the mapping of rows of ``X`` onto ``y``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Outputs.

        Returns
        -------
        MembershipMapping
            The fitted estimator itself.
        """
        self.check_parameters()
        inputs, outputs = check_rows(self, X, y, numeric_outputs=True)
        targets = np.asarray(outputs, dtype=np.float64).reshape(len(inputs), -1)
        self._units = unit_of(inputs), unit_of(targets)
        targets = targets / self._units[1]
        self._mean = targets.mean(axis=0) if self.centred else np.zeros(targets.shape[1])
        rows = inputs.astype(np.float64) / self._units[0]
        at_most = inducing_limit(len(rows), self.inducing_ratio, self.max_inducing)
        with one_blas_thread():
            seen = Targets.of(targets - self._mean, factor=self._units[1])
            self.mapping_, *_ = fit_mapping(rows, seen, at_most)
        self._one_output = np.ndim(outputs) == 1
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Compute the output of each row (001 eq. 60).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Outputs, of the shape that ``y`` had.
        """
        check_is_fitted(self)
        rows: Any = check_rows(self, X, reset=False)

        def outputs(block: slice) -> Array:
            return self.mapping_.outputs(rows[block].astype(np.float64) / self._units[0])

        found = np.concatenate(run_parallel(outputs, row_blocks(len(rows), ROWS_AT_ONCE)))
        found = (found + self._mean) * self._units[1]
        return np.asarray(found[:, 0] if self._one_output else found)

    @property
    def inducing_points_(self) -> Array:
        """The auxiliary inducing points (001 eq. 51)."""
        places = self.mapping_.inputs
        return np.asarray(places.unscaled() * self._units[0])

    @property
    def tau_(self) -> float:
        """Smoothing level at sigma^2 = 1 (001 eq. 54)."""
        return self.mapping_.tau

    @property
    def sigma2_(self) -> float:
        """Variance parameter of the kernel (001 Alg. 1, steps 9-13)."""
        return self.mapping_.sigma2

    def check_parameters(self) -> None:
        """Refuse parameters that break a constraint, before looking at data."""
        check_parameters(self, CONSTRAINTS)

    def state(self) -> Arrays:
        """Return arrays from which :meth:`restore` makes the same mapping.

        Returns
        -------
        dict of str to ndarray
            What the samples left, but no samples.
        """
        mapping = self.mapping_
        return {
            "inducing": mapping.inputs.inducing,
            "shift": mapping.inputs.shift,
            "inverse_range": mapping.inputs.inverse_range,
            "weights": mapping.weights,
            "mean": self._mean,
            "numbers": np.array([mapping.ridge, mapping.tau, mapping.variance, *self._units]),
            "one_output": np.array([self._one_output]),
        }

    def restore(self, state: Arrays, n_features: int) -> None:
        """Become the mapping that :meth:`state` described.

        Parameters
        ----------
        state : dict of str to ndarray
            What :meth:`state` returned.
        n_features : int
            Number of inputs.

        Raises
        ------
        ValueError
            If no fitted mapping could have these arrays.
        """
        self.check_parameters()
        _check_state(state, n_features)
        ridge, tau, variance, *units = (float(number) for number in state["numbers"])
        inputs = Inputs(state["shift"], state["inverse_range"], state["inducing"])
        self.mapping_ = Mapping(inputs, state["weights"], ridge, tau, variance)
        self._units, self._mean = (units[0], units[1]), state["mean"]
        self._one_output = bool(state["one_output"][0])


def _check_state(state: Arrays, n_features: int) -> None:
    """Refuse arrays that no fitted mapping of so many inputs has."""
    n_inducing, n_outputs = state["weights"].shape
    shapes = {
        "inducing": (n_inducing, n_features),
        "shift": (n_features,),
        "inverse_range": (n_features,),
        "weights": (n_inducing, n_outputs),
        "mean": (n_outputs,),
        "numbers": (5,),
    }
    flag = state["one_output"]
    fitting = all(state[name].shape == shape for name, shape in shapes.items())
    fitting = fitting and min(n_inducing, n_outputs) >= 1 and flag.shape == (1,) and flag.dtype == np.bool_
    if not fitting or (flag[0] and n_outputs > 1):
        raise ValueError("the arrays do not fit each other")
    floats = all(state[name].dtype == np.float64 and np.isfinite(state[name]).all() for name in shapes)
    numbers = state["numbers"]
    if not floats or min(numbers.min(), state["inverse_range"].min()) < 0.0 or numbers[3:].min() == 0.0:
        raise ValueError("the numbers are not those of a fitted mapping")
