"""Random projections: a fixed random layer, and a lift that keeps the row itself."""

import math
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from onefold._base.arrays import Array, Floats
from onefold._base.fixed_point import DIGITS, shortened
from onefold._base.validation import Entry, Number, OneOf, Whole
from onefold.encoders.base import Encoder, by_itself

__all__ = ["FourierLift", "RandomFeatures", "fitted_lift"]

# Binary digits of a direction, in turns. Of a product with a row only the turns behind the point matter.
TURN_DIGITS = 24
# Angles that are told apart.
N_ANGLES = 4096
TABLE_DIGITS = 20
UNIFORM_PARTS, UNIFORM_DIGITS = 12, 16


@dataclass(eq=False, repr=False)
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

    n_outputs: int = 128
    kind: Literal["relu", "fourier", "projection"] = "relu"
    _: KW_ONLY
    bandwidth: float = 0.5
    random_state: int = 0

    constraints: ClassVar[dict[str, Entry]] = {
        "n_outputs": Whole(1),
        "kind": OneOf(("relu", "fourier", "projection")),
        "bandwidth": Number(above=0),
        "random_state": Whole(0),
    }

    def _prepare(self, n_features: int) -> int:
        rng = np.random.default_rng(int(self.random_state))
        self._directions = rng.standard_normal((n_features, int(self.n_outputs)))
        self._phases = rng.uniform(0.0, 2.0 * np.pi, int(self.n_outputs))
        return int(self.n_outputs)

    def _encode(self, rows: Array) -> Array:
        projected = by_itself(rows, self._directions.astype(rows.dtype))
        if self.kind == "relu":
            return np.maximum(projected, 0.0, dtype=rows.dtype)
        if self.kind == "fourier":
            projected /= rows.dtype.type(self.bandwidth)
            return np.asarray(np.cos(projected + self._phases.astype(rows.dtype)))
        return np.asarray(projected)


@dataclass(eq=False, repr=False)
class FourierLift(Encoder):
    r"""The row itself beside cosines and sines of random projections: a linear model of it is a kernel one.

    Inner products of lifted rows approximate the sum of a linear kernel and a Gaussian one of width one.
    Rows are taken as they are and shortened to ``radius``.

    Parameters
    ----------
    n_directions : int, default=512
        Number of random projections; a lifted row has twice as many columns more.
    radius : float, default=1.0
        Rows are declared to be no longer than this; longer ones are shortened.
    random_state : int, default=0
        Seed of the directions. It must be a number, because all sites and all queries must use the same map.

    Attributes
    ----------
    entry_span : float
        Largest difference between two values of an encoded entry.
    n_features_in_ : int
        Number of features of the rows.

    See Also
    --------
    RandomFeatures : A fixed random layer without the row itself.
    onefold.fabrication.MomentClassifier : Uses it where it helps (``lift``).

    Notes
    -----
    Lifted rows are :math:`[x, \cos(\Omega x) / \sqrt h, \sin(\Omega x) / \sqrt h]` over
    :math:`\sqrt{1 + r^2}` for h directions and radius r: no longer than one.

    *Guarantees.* A row gives the same bits on every processor, with any number of threads and whatever rows
    it comes with. Entries and directions are whole numbers of steps, so their products are exact; angles are
    cut to 4096, whose cosines are in a table of 20 binary digits; the directions are sums of twelve uniform
    whole numbers, which are close to Gaussian ones.

    References
    ----------
    A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NIPS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).random((3, 20)) / 5
    >>> FourierLift(50).fit_transform(rows).shape
    (3, 120)
    """

    n_directions: int = 512
    _: KW_ONLY
    radius: float = 1.0
    random_state: int = 0

    constraints: ClassVar[dict[str, Entry]] = {
        "n_directions": Whole(1),
        "radius": Number(at_least=1e-3, at_most=1e3),
        "random_state": Whole(0),
    }

    def _prepare(self, n_features: int) -> int:
        rng = np.random.default_rng(int(self.random_state))
        shape = (n_features, int(self.n_directions))
        # A sum of twelve uniform numbers has variance one when each lies between 0 and 1.
        whole = np.zeros(shape, dtype=np.int64)
        for _ in range(UNIFORM_PARTS):
            whole += rng.integers(0, 2**UNIFORM_DIGITS, size=shape)
        whole = 2 * whole - UNIFORM_PARTS * (2**UNIFORM_DIGITS - 1)
        # Width one: deviation 1 / sqrt(2) (see E|x - x'|^2 = 2 for rows of length one), in turns.
        turn = 1.0 / (2.0 * math.sqrt(2.0) * 2.0 * math.pi)
        self._turns = np.rint(whole * math.ldexp(turn, TURN_DIGITS - UNIFORM_DIGITS))
        angles = (np.arange(N_ANGLES) + 0.5) * (2.0 * np.pi / N_ANGLES)
        self._table = np.ldexp(np.rint(np.ldexp(np.cos(angles), TABLE_DIGITS)), -TABLE_DIGITS)
        return n_features + 2 * int(self.n_directions)

    def _before(self, rows: Array) -> Array:
        given = np.asarray(rows, dtype=np.float64)
        short = shortened(given, float(self.radius)) * float(self.radius)
        return np.ldexp(np.trunc(np.ldexp(short, DIGITS)), -DIGITS)  # the nearest step could be longer

    def _encode(self, rows: Array) -> Floats:
        # Whole numbers of 2^-(14 + 24) turns: exact in float64 in any order of addition.
        products = np.ldexp(rows, DIGITS) @ self._turns
        behind = np.mod(np.ldexp(products, -DIGITS - TURN_DIGITS), 1.0)
        angles = np.floor(behind * N_ANGLES).astype(np.intp)
        n_features, n_directions = self._turns.shape
        # A little shorter, so that no rounding makes a row longer than one.
        scale = (1.0 - 2.0**-12) / math.sqrt(1.0 + float(self.radius) ** 2)
        lifted = np.empty((len(rows), n_features + 2 * n_directions))
        lifted[:, :n_features] = rows * scale
        scale /= math.sqrt(n_directions)
        lifted[:, n_features:-n_directions] = self._table[angles] * scale
        lifted[:, -n_directions:] = self._table[angles - N_ANGLES // 4] * scale  # a quarter turn back: sine
        return lifted

    def _after(self, rows: Array) -> Array:
        return rows


@lru_cache(maxsize=8)
def fitted_lift(width: int, n_directions: int, radius: float, random_state: int = 0) -> FourierLift:
    """Return the lift of rows of this width, drawn once: drawing the directions takes longer than a query."""
    return FourierLift(n_directions, radius=radius, random_state=random_state).fit(np.zeros((1, width)))
