"""Random features: a fixed random layer for data of any kind."""

from typing import Literal

import numpy as np

from onefold._base.arrays import Array
from onefold._base.validation import Entry, Number, OneOf, Whole, check_parameters
from onefold.encoders._encoder import Encoder

__all__ = ["RandomFeatures"]

CONSTRAINTS: dict[str, Entry] = {
    "n_outputs": Whole(1),
    "kind": OneOf(("relu", "fourier", "projection")),
    "bandwidth": Number(above=0),
    "random_state": Whole(0),
}


class RandomFeatures(Encoder):
    """A fixed random layer: random projections of a row, or positive parts or cosines of them.

    Rows are scaled to norm one first, so that only their direction matters.

    Parameters
    ----------
    n_outputs : int, default=128
        Number of values of an encoded row.
    kind : {"relu", "fourier", "projection"}, default="relu"
        ``relu``: positive parts of random projections; ``fourier``: cosines of them with random phases, whose
        inner products approximate a Gaussian kernel; ``projection``: the projections themselves.
    bandwidth : float, default=0.5
        Width of the Gaussian kernel, used by ``fourier`` only; rows have norm one.
    random_state : int, default=0
        Seed of the random map. It must be a number, because all sites and all queries must use the same map.

    Attributes
    ----------
    entry_span : float
        Largest difference between two values of an encoded entry.
    n_features_in_ : int
        Number of features of the rows.

    See Also
    --------
    GradientHistograms : Histograms of gradient directions, for images.

    Notes
    -----
    The map depends on its parameters and the number of features, never on data. Rows have norm one; a row of
    zeros stays zero, except with ``fourier``, where it gives the cosines of the phases.

    References
    ----------
    A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NIPS 2007, for ``fourier``.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.encoders import RandomFeatures
    >>> rows = np.random.default_rng(0).random((3, 20))
    >>> RandomFeatures(50, kind="fourier").fit_transform(rows).shape
    (3, 50)
    """

    def __init__(
        self,
        n_outputs: int = 128,
        kind: Literal["relu", "fourier", "projection"] = "relu",
        *,
        bandwidth: float = 0.5,
        random_state: int = 0,
    ) -> None:
        self.n_outputs = n_outputs
        self.kind = kind
        self.bandwidth = bandwidth
        self.random_state = random_state

    def _prepare(self, n_features: int) -> int:
        check_parameters(self, CONSTRAINTS)
        rng = np.random.default_rng(int(self.random_state))
        self._directions = rng.standard_normal((n_features, int(self.n_outputs)))
        self._phases = rng.uniform(0.0, 2.0 * np.pi, int(self.n_outputs))
        return int(self.n_outputs)

    def _encode(self, rows: Array) -> Array:
        projected = rows @ self._directions.astype(rows.dtype)
        if self.kind == "relu":
            return np.maximum(projected, 0.0, dtype=rows.dtype)
        if self.kind == "fourier":
            projected /= rows.dtype.type(self.bandwidth)
            return np.asarray(np.cos(projected + self._phases.astype(rows.dtype)))
        return np.asarray(projected)
