"""A whole table of mixed columns released at once, with what it promises in words."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from onefold.privacy import BoundedFisherNoise, FisherGaussian, Guarantee
from onefold.privacy.samplers import RandomState
from onefold.release.tables import TableCodec

__all__ = ["TableRelease", "release_table"]

Array = NDArray[Any]


@dataclass(frozen=True)
class TableRelease:
    """Columns to publish.

    Attributes
    ----------
    columns : name -> values, in the order and of the types of the original
    guarantee : differential privacy per entry and per record
    standard_errors : per column of numbers and in its units, the least error of an unbiased estimate
    kept : per column of categories, the probability that one is released as it is
    widths : per column of numbers, of its declared range
    """

    columns: dict[str, Array]
    guarantee: Guarantee
    standard_errors: dict[str, float]
    kept: dict[str, float]
    widths: dict[str, float]

    def in_words(self) -> list[str]:
        """What the release means for each column, for people."""
        lines = [
            "From this release alone, without other knowledge and without a bias (root mean square error):"
        ]
        for name, error in self.standard_errors.items():
            wide = " (the declared range alone says more)" if error > self.widths[name] else ""
            lines.append(f"  nobody can estimate a person's {name} better than ± {error:.4g}{wide}")
        for name, share in self.kept.items():
            lines.append(f"  a person's {name} is shown as it is with probability {share:.3g}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without the rows."""
        return {
            **self.guarantee.to_dict(),
            "least_standard_errors": self.standard_errors,
            "categories_kept": self.kept,
            "in_words": self.in_words(),
        }


def release_table(
    columns: Mapping[str, Array],
    codec: TableCodec,
    lam: float,
    *,
    bounded: bool = False,
    delta: float = 1e-5,
    hardened: bool = False,
    random_state: RandomState = None,
) -> TableRelease:
    """Encode, add the optimal noise, decode: the noise is in proportion to the declared width of a column.

    Rounding, clipping and naming the likeliest category look at noisy rows only and cost no privacy.

    Parameters
    ----------
    columns : name -> values
    codec : what is declared about them
    lam : weight of utility, for columns scaled to [0, 1]
    bounded : use noise that keeps every number inside ``codec``'s ``allowed`` ranges instead of clipping
    delta, hardened, random_state : as for :func:`~onefold.release.release_iid`
    """
    options: dict[str, Any] = {"delta": delta, "sensitivity": codec.domain, "hardened": hardened}
    noise: FisherGaussian | BoundedFisherNoise
    if bounded:
        noise = BoundedFisherNoise(lam, codec.bounds(), **options)
    else:
        noise = FisherGaussian(lam, **options)
    noisy = noise.randomise(codec.encode(columns), random_state)
    errors = noise.standard_errors(codec.n_encoded)
    numbers = [column for column in codec.columns if column.range is not None]
    categories = [column for column in codec.columns if column.range is None]
    guarantee = noise.guarantee(codec.n_encoded)
    if bounded and categories:  # a category moves two encoded entries at once: state what always holds
        guarantee = replace(guarantee, entry=guarantee.record)
    return TableRelease(
        codec.decode(noisy),
        replace(guarantee, n_features=len(codec.columns)),
        {c.name: float(errors[codec.position(c.name)]) * c.width for c in numbers},
        {c.name: _kept(len(c.levels), lam**-0.25) for c in categories},
        {c.name: c.width for c in numbers},
    )


def _kept(levels: int, scale: float) -> float:
    """Probability that the true category has the largest entry: E[Phi(z + 1/scale)^(levels - 1)]."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    values = np.exp((levels - 1) * log_ndtr(nodes + 1.0 / scale))
    return float(weights @ values / weights.sum())
