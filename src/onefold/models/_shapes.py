"""Deep and wide autoencoders of any family: several layers, and branches side by side (000 Def. 3 and 5)."""

from abc import abstractmethod
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from onefold._base.arrays import Array, Index
from onefold._base.parallel import one_blas_thread
from onefold._base.validation import check_whole_number
from onefold.models._autoencoder import Autoencoder
from onefold.models._layers import LayeredStack
from onefold.models._partition import check_partition, split

__all__ = ["DeepAutoencoder", "LayeredAutoencoder", "WideAutoencoder"]


class LayeredAutoencoder(Autoencoder):
    """Machines are layers over the hull of their samples; one branch unless a subclass says otherwise."""

    n_components: int
    n_layers: int = 1

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense, before looking at data."""
        super().check_parameters()
        check_whole_number("n_components", self.n_components)
        check_whole_number("n_layers", self.n_layers)

    def _branches(self, X: Array, rows: Index, unit: float) -> list[Index]:
        return [rows]

    @property
    def _machine(self) -> LayeredStack[Any]:
        """The only machine, where there is one branch."""
        check_is_fitted(self)
        return cast(LayeredStack[Any], self.pool_.stacks[0])


class DeepAutoencoder(LayeredAutoencoder):
    """One machine of several layers."""

    @one_blas_thread()
    def layers(self, X: ArrayLike) -> list[Array]:
        """Image of each row by every layer, least abstract first (000 eq. 51, 001 eq. 63)."""
        check_is_fitted(self)
        queries, _ = self.pool_.to_unit(self._queries(X))
        unit = queries.dtype.type(self.pool_.unit)
        return [np.asarray(images[0] * unit) for images in self._machine.images(queries)]

    @property
    def n_components_(self) -> int:
        """Components used by the first layer."""
        return int(self._machine.hull.n_encoded[0])


class WideAutoencoder(LayeredAutoencoder):
    """Branches side by side, each a deep machine; the nearest of their images is taken."""

    branch_size: int
    partition: str
    random_state: Any

    def check_parameters(self) -> None:
        """Refuse parameters that make no sense, before looking at data."""
        super().check_parameters()
        check_whole_number("branch_size", self.branch_size)
        check_whole_number("n_probe", self.n_probe, or_none=True)
        check_partition(self.partition)

    def _branches(self, X: Array, rows: Index, unit: float) -> list[Index]:
        return split(X, rows, unit, self.branch_size, self.partition, self.random_state)

    def _fitted_branches(self) -> list[Any]:
        """Each branch as a deep autoencoder of its own."""
        check_is_fitted(self)
        pools = [self.pool_.single(machine) for machine in self.pool_.machines(0)]
        return [self._branch().from_pool(pool, self.n_features_in_) for pool in pools]

    @abstractmethod
    def _branch(self) -> DeepAutoencoder:
        """An unfitted deep autoencoder with the settings of a branch."""
