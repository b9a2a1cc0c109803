"""Autoencoders composed of machines: what every family shares, several layers, and branches side by side.

A family says how a stack of machines is fitted and what it consists of; the rest is common: images, distances
and folding measures of a pool of machines, deep machines of several layers, and wide ones of several branches
(000 Def. 3 and 5).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from operator import methodcaller
from typing import Any, ClassVar, NotRequired, Self, cast

import numpy as np
from joblib import parallel_config
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    MultiOutputMixin,
    OneToOneFeatureMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Floats, Index
from onefold._base.parallel import one_blas_thread, run_parallel
from onefold._base.stored import Stored
from onefold._base.validation import Entry, OneOf, Whole, check_parameters, check_rows
from onefold.exceptions import InvalidInputError
from onefold.models.clusters import PARTITIONS, split
from onefold.models.folding import SCALES, ScaleOption, unit_and_factor, unit_of
from onefold.models.layers import LayeredStack
from onefold.models.pool import Pool, Stack, StackMemory, fit_pool, pool_type, row_blocks

__all__ = ["Autoencoder", "DeepAutoencoder", "LayeredAutoencoder", "Regression", "WideAutoencoder"]


class Autoencoder(Stored, OneToOneFeatureMixin, TransformerMixin, BaseEstimator, ABC):
    """Base class: a model of one set of samples that maps any point to an image near them.

    A family says how samples are divided into branches, how a stack of equally large branches is fitted, and
    which dataclass of arrays a stack is, for files; everything else is common.

    Attributes
    ----------
    pool_ : Pool
        The fitted machines.
    scale_ : float
        Factor by which the machines multiply the data.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    KAHM : Kernel affine hull machine.
    DeepMembershipAutoencoder : Membership-mappings.
    DeepFuzzyAutoencoder : Fuzzy rules.

    Notes
    -----
    Every machine is fitted, rebuilt and asked on one BLAS thread, in blocks whose sizes depend on the data
    only. The same call gives the same bits for any number of threads and workers. Another processor gives
    other last digits.

    Examples
    --------
    >>> from onefold import KAHM
    >>> from onefold.models import Autoencoder
    >>> isinstance(KAHM(), Autoencoder)
    True
    """

    scale: ScaleOption
    n_jobs: int | None = None
    n_probe: int | None = None
    pool_: Pool
    constraints: ClassVar[dict[str, Entry]] = {"scale": SCALES}
    # What a stack is, and what it is fitted again from; None where nothing smaller is enough.
    stack_types: ClassVar[tuple[type, type | None]]
    scale_matters = True  # whether the regularisation depends on the scale, so that users must be told

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Model the rows of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Samples.
        y : ignored
            The parameter exists because scikit-learn passes it.

        Returns
        -------
        Autoencoder
            The fitted estimator itself.
        """
        self.__dict__.pop("guarantee_", None)  # it was about the rows of an earlier fit
        check_parameters(self)
        samples: Array = check_rows(self, X)
        with one_blas_thread():
            unit, factor = unit_and_factor(samples, self.scale, self.scale_matters)
            self.pool_ = self.fit_groups(samples, [np.arange(len(samples))], unit, factor, self.n_jobs)
        self.scale_ = factor / unit
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Compute the image of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to compare with the samples.

        Returns
        -------
        ndarray of shape (n_rows, n_features)
            Images, in the units of ``X``.
        """
        queries = self._queries(X)
        return self.pool_.images(queries, self.n_probe, self.n_jobs)

    def distance(self, X: ArrayLike) -> Array:
        """Compute the distance of each row from its image (000 Def. 2, 4 and 6).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to compare with the samples.

        Returns
        -------
        ndarray of shape (n_rows,)
            Distances, in the units of ``X``.
        """
        return self.folding(X, "euclidean")

    def folding(self, X: ArrayLike, measure: str = "rms") -> Array:
        """Measure how much each row must be folded to reach its image (004 eq. 102).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to compare with the samples.
        measure : {"euclidean", "rms", "product", "min", "max", "fuzzy"}, default="rms"
            The measure; "euclidean" is the distance.

        Returns
        -------
        ndarray of shape (n_rows,)
            Measures; the smaller, the more a row resembles the samples.
        """
        queries = self._queries(X)
        return self.pool_.measures(queries, measure, self.n_probe, self.n_jobs)[:, 0]

    def score_samples(self, X: ArrayLike) -> Array:
        """Return minus the distance of each row from its image.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to compare with the samples.

        Returns
        -------
        ndarray of shape (n_rows,)
            Scores; the higher, the more a row resembles the samples.
        """
        return -self.distance(X)

    def fit_groups(
        self, X: Array, groups: Sequence[Index], unit: float, factor: float, n_jobs: int | None
    ) -> Pool:
        """Fit machines of this kind to several groups of rows at once.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Checked rows.
        groups : sequence of ndarray
            Numbers of the rows of each group.
        unit : float
            Power of two by which the data is divided first.
        factor : float
            Factor by which machines multiply data in that unit.
        n_jobs : int or None
            Worker threads.

        Returns
        -------
        Pool
            Machines of all groups.
        """
        return self.fit_branches(X, self.split_groups(X, groups, unit), unit, factor, n_jobs)

    def split_groups(self, X: Array, groups: Sequence[Index], unit: float) -> list[list[Index]]:
        """Divide the rows of each group into branches.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Checked rows.
        groups : sequence of ndarray
            Numbers of the rows of each group.
        unit : float
            Power of two by which the data is divided first.

        Returns
        -------
        list of list of ndarray
            Numbers of the rows of each branch of each group.
        """
        if isinstance(getattr(self, "random_state", None), (int, np.integer)):
            return run_parallel(lambda rows: self._branches(X, rows, unit), groups)
        # A generator, or the global one, must be asked in a fixed order.
        return [self._branches(X, rows, unit) for rows in groups]

    def fit_branches(
        self,
        X: Array,
        branches: Sequence[Sequence[Index]],
        unit: float,
        factor: float,
        n_jobs: int | None,
        memory: StackMemory | None = None,
    ) -> Pool:
        """Fit a machine to every branch of every group.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Checked rows.
        branches : sequence of sequence of ndarray
            Numbers of the rows of each branch of each group.
        unit : float
            Power of two by which the data is divided first.
        factor : float
            Factor by which machines multiply data in that unit.
        n_jobs : int or None
            Worker threads.
        memory : StackMemory or None, default=None
            Machines of an earlier fit, taken over where a fit would give the same.

        Returns
        -------
        Pool
            Machines of all groups.
        """
        parameters = self.get_params(deep=False)
        # Not this object, which may be fitted: the work may travel to other processes.
        fit = partial(type(self)(**parameters)._fit_stack, factor=factor)
        stacked = self._largest_stacked
        if memory is None:
            return fit_pool(X, branches, fit, stacked, unit, factor, n_jobs, show_progress=None)
        parameters.pop("random_state", None)
        settings = f"{type(self).__name__} {sorted(parameters.items())!r} {unit!r} {factor!r}"
        memory.begin()
        with parallel_config(backend="threading"):  # the memory is in this process
            recall = partial(memory.fit, settings, fit_stack=fit)
            pool = fit_pool(X, branches, recall, stacked, unit, factor, n_jobs, show_progress=None)
        memory.end()
        return pool

    def from_pool(self, pool: Pool, n_features: int) -> Self:
        """Make this unfitted estimator one with machines that exist already.

        Parameters
        ----------
        pool : Pool
            The machines.
        n_features : int
            Number of features.

        Returns
        -------
        Autoencoder
            The estimator itself.
        """
        self.pool_, self.n_features_in_, self.scale_ = pool, n_features, pool.factor / pool.unit
        return self

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept: the machines, or the samples that they are fitted again from."""
        return super()._kept() | self._pool_kept()

    def _kept_values(self, compact: bool) -> dict[str, Any]:
        """The machines, or samples if compact."""
        values = super()._kept_values(compact)
        return values | self._pool_values(values.pop("pool_"), compact)

    def _take_over(self, values: dict[str, Any]) -> None:
        """Become fitted with these machines."""
        self.from_pool(
            self._pool_from(values, values["n_features_in_"], self.n_jobs), values["n_features_in_"]
        )
        super()._take_over({name: values[name] for name in Stored._kept(self) if name in values})

    def _pool_kept(self) -> dict[str, Any]:
        """Types under which a file holds machines of this family."""
        full, samples = self.stack_types
        found: dict[str, Any] = {"pool_": NotRequired[pool_type(full)]}
        return found if samples is None else {**found, "samples_": NotRequired[pool_type(samples)]}

    def _pool_values(self, pool: Pool, compact: bool) -> dict[str, Any]:
        """Machines of this family as a file holds them."""
        if not compact or self.stack_types[1] is None:
            return {"pool_": pool}
        stacks: tuple[Any, ...] = pool.stacks
        return {"samples_": replace(pool, stacks=tuple(stack.samples() for stack in stacks))}

    def _pool_from(self, values: Mapping[str, Any], n_features: int, n_jobs: int | None) -> Pool:
        """The machines that a file held, fitted again where it held samples."""
        check_parameters(self)
        if ("pool_" in values) == ("samples_" in values):
            raise InvalidInputError("it has no machines, or has them twice")
        parts: Pool = values.get("pool_", values.get("samples_"))
        parts.check(n_features)
        stacks = parts.stacks
        if "samples_" in values:
            again = partial(self._fit_again, factor=parts.factor)
            stacks = tuple(run_parallel(again, stacks, n_jobs, "loading", show_progress=None))
        found = Pool(stacks, parts.owners, parts.positions, parts.n_groups, parts.unit, parts.factor)
        found.check(n_features)
        return found

    @one_blas_thread()
    def leave_one_out(self, pool: Pool) -> Floats:
        """Compute squared distances of samples from their images under machines that do not hold them.

        The image is that of the first layer, with the encoding and the regularisation of the machine kept:
        a closed form, at about the cost of fitting one layer.

        Parameters
        ----------
        pool : Pool
            Fitted machines of this kind.

        Returns
        -------
        ndarray of shape (n_rows,)
            Squared Euclidean distances in the units of the data, of the samples of machines of at least five.

        Raises
        ------
        AttributeError
            If the machines are not kernel affine hull machines: no others have a closed form.
        """
        if not hasattr(pool.stacks[0], "leave_one_out"):
            raise AttributeError(
                f"a {type(self).__name__} has no leave-one-out distances in closed form: use KAHM, DeepKAHM, "
                "WideKAHM or a FoldingClassifier"
            )
        found = run_parallel(methodcaller("leave_one_out"), pool.stacks, self.n_jobs)
        # Twice, because the square of an extreme unit would overflow where the result does not.
        return np.asarray(np.concatenate(found) * pool.unit * pool.unit)

    def _queries(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        return cast(Array, check_rows(self, X, reset=False))

    @property
    @abstractmethod
    def _largest_stacked(self) -> int:
        """Size up to which machines of equal size are fitted together."""

    @abstractmethod
    def _branches(self, X: Array, rows: Index, unit: float) -> list[Index]:
        """The rows of a group, divided into branches."""

    @abstractmethod
    def _fit_stack(self, samples: Array, factor: float) -> Stack:
        """Machines for samples (S, N, p)."""

    def _fit_again(self, samples: Any, factor: float) -> Stack:
        """Machines from what they are fitted again from; only where ``stack_types`` says so."""
        raise NotImplementedError


# --- deep and wide -------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class LayeredAutoencoder(Autoencoder):
    """Machines are layers over the hull of their samples; one branch unless a subclass says otherwise."""

    n_components: int = 20
    _: KW_ONLY
    scale: ScaleOption = None
    random_state: Any = None

    n_layers = 1
    constraints: ClassVar[dict[str, Entry]] = {"n_components": Whole(1), "n_layers": Whole(1)}

    def _branches(self, X: Array, rows: Index, unit: float) -> list[Index]:
        return [rows]

    @property
    def _machine(self) -> LayeredStack[Any]:
        """The only machine, where there is one branch."""
        check_is_fitted(self)
        return cast(LayeredStack[Any], self.pool_.stacks[0])


@dataclass(eq=False, repr=False)
class DeepAutoencoder(LayeredAutoencoder):
    """One machine of several layers."""

    n_layers: int = 5
    _: KW_ONLY
    n_jobs: int | None = None

    @one_blas_thread()
    def layers(self, X: ArrayLike) -> list[Array]:
        """Compute the image of each row by every layer, the least abstract first (000 eq. 51, 001 eq. 63).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Rows to compare with the samples.

        Returns
        -------
        list of ndarray of shape (n_rows, n_features)
            Images by each layer.
        """
        rows = self._queries(X)
        queries, _ = self.pool_.to_unit(rows)
        unit = queries.dtype.type(self.pool_.unit)
        return [np.asarray(images[0] * unit) for images in self._machine.images(queries)]

    @property
    def n_components_(self) -> int:
        """Number of components of the first layer."""
        return int(self._machine.hull.n_encoded[0])


@dataclass(eq=False, repr=False)
class WideAutoencoder(LayeredAutoencoder):
    """Branches side by side, each a deep machine; the nearest of their images is taken."""

    n_layers: int = 5
    branch_size: int = 1000
    partition: str = "kmeans"
    _: KW_ONLY
    n_probe: int | None = None
    n_jobs: int | None = None

    _branch_kind: ClassVar[type[DeepAutoencoder]]  # a branch as an autoencoder of its own
    constraints: ClassVar[dict[str, Entry]] = {
        "branch_size": Whole(1),
        "n_probe": (Whole(1), None),
        "partition": OneOf(PARTITIONS),
    }

    def _branches(self, X: Array, rows: Index, unit: float) -> list[Index]:
        return split(X, rows, unit, self.branch_size, self.partition, self.random_state)

    @property
    def branches_(self) -> list[Any]:
        """The fitted branches, each as a deep autoencoder of its own."""
        check_is_fitted(self)
        shared = self._branch_kind().get_params().keys() & self.get_params().keys() - {"random_state"}
        settings = {name: getattr(self, name) for name in shared}
        if self.scale is not None:  # one that followed from all rows, not from those of the branch
            settings["scale"] = self.scale_
        pools = [self.pool_.single(machine) for machine in self.pool_.machines(0)]
        return [self._branch_kind(**settings).from_pool(pool, self.n_features_in_) for pool in pools]


# --- regression: what membership-mappings and fuzzy rules share ------------------------------------------


ROWS_AT_ONCE = 2048  # predicted together


class Regression(Stored, MultiOutputMixin, RegressorMixin, BaseEstimator, ABC):
    """Base class: outputs of any number, as deviations from their mean, in units of the model's own."""

    constraints: ClassVar[dict[str, Entry]]
    centred: bool = True  # whether deviations from the mean are modelled, or the outputs themselves

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the outputs ``y`` of rows of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            Outputs.

        Returns
        -------
        Regression
            The fitted estimator itself.
        """
        self.__dict__.pop("guarantee_", None)  # it was about the rows of an earlier fit
        check_parameters(self)
        inputs, outputs = check_rows(self, X, y, numeric_outputs=True)
        targets = np.asarray(outputs, dtype=np.float64).reshape(len(inputs), -1)
        self._one_output = np.ndim(outputs) == 1
        self._input_unit, self._unit = unit_of(inputs), unit_of(targets)
        targets = targets / self._unit
        self._mean = targets.mean(axis=0) if self.centred else np.zeros(targets.shape[1])
        with one_blas_thread():
            self._learn(inputs.astype(np.float64) / self._input_unit, targets)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Compute the output of each row (001 eq. 60; 003 eq. 2.113, 2.116).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_rows,) or (n_rows, n_outputs)
            Outputs, of the shape that ``y`` had.
        """
        rows = self._inputs(X)
        blocks = row_blocks(len(rows), ROWS_AT_ONCE)
        found = np.concatenate(run_parallel(lambda block: self._deviations(rows[block]), blocks))
        found = (found + self._mean) * self._unit
        return np.asarray(found[:, 0] if self._one_output else found)

    def _kept(self) -> dict[str, Any]:
        """Types of what is kept: what the samples left, but no samples."""
        units = {"_input_unit": float, "_unit": float, "_mean": Floats, "_one_output": bool}
        return super()._kept() | units

    def _take_over(self, values: dict[str, Any]) -> None:
        """Become fitted; what does not fit together is refused."""
        super()._take_over(values)
        shape = self._mean.shape
        fitting = len(shape) == 1 and shape[0] >= 1 and (shape == (1,) or not self._one_output)
        units = min(self._input_unit, self._unit) > 0.0
        if not fitting or not units or not self._fits(self.n_features_in_, shape[0]):
            raise InvalidInputError("the numbers are not those of a fitted model")

    def _inputs(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        rows: Any = check_rows(self, X, reset=False)
        return np.asarray(rows.astype(np.float64) / self._input_unit)

    @abstractmethod
    def _learn(self, rows: Array, targets: Array) -> None:
        """Fit to rows and outputs in the model's units; ``_mean`` is what to subtract from the outputs."""

    @abstractmethod
    def _deviations(self, rows: Array) -> Array:
        """Outputs of rows as deviations from the mean, all in the model's units."""

    @abstractmethod
    def _fits(self, n_features: int, n_outputs: int) -> bool:
        """Whether what was learned is for so many inputs and outputs."""
