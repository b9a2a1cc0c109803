r"""Noise that several sites share: each draws a part, and only the sum of all of them is ever seen.

Every site adds to every entry a Gaussian of standard deviation s, rounded to a whole number. The sum of h
such shares is not the rounding of a Gaussian, but nearly: its probabilities are, one by one, within factors
:math:`e^{\pm\kappa}` of those of a Gaussian of variance :math:`h s^2` plus independent noise, rounded. From
s = 2 on :math:`\kappa` is below :math:`2 \cdot 10^{-17}`, and it is paid for.
``docs/proofs/encrypted-sum.md`` has the proof.
"""

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from onefold._base.arrays import Integers
from onefold._base.records import record
from onefold.exceptions import InvalidInputError
from onefold.privacy.samplers import ByteStream, RandomState, byte_stream, rounded_gaussian
from onefold.privacy.terms import Value

__all__ = ["SPARE", "SumBlock", "aliasing", "draw_shares", "largest_sum", "mu_of_blocks"]

SMALLEST_SHARE = 2.0  # standard deviation of a share, in steps
LARGEST_SHARE = 2.0**50
SPARE = 1e-6  # part by which noise is larger than a promise needs, which pays for what follows
MOST_ALIASING = 1e-9  # largest cost of aliasing, as a part of the Gaussian privacy of a sum
# Probabilities that are right up to factors exp(+-k) cost at most 2.6 k of Gaussian privacy, if k is small.
SHIFT, LARGEST_COST = 2.6, 0.005
TAILS = 16.0  # standard deviations that a sum must have room for

Count = Annotated[int, Field(ge=0)]
AtLeastZero = Annotated[float, Field(ge=0, le=2.0**56)]


@record
class SumBlock(Value):
    """Entries of a vector that get the same noise. All numbers are in steps: entries are whole numbers.

    Parameters
    ----------
    name : str
        What the entries are.
    length : int
        Number of entries.
    largest : int
        Largest absolute value of an entry of one site, from public knowledge.
    sigma : float, default=0.0
        Standard deviation of the noise on the sum of all sites; 0 for none.
    change : float, default=0.0
        Euclidean length by which one unit of privacy (a record, a person) changes the entries; of matrices
        the Frobenius norm.
    triangle : int, default=0
        Size of symmetric matrices whose upper triangles, row by row, are the entries: beside the diagonal the
        noise is smaller by a factor of sqrt 2. 0 for other entries.

    See Also
    --------
    SumContract : All that is agreed on before a sum.

    Examples
    --------
    >>> SumBlock("counts", 10, largest=10_000, sigma=40.0, change=1.0).length
    10
    """

    name: str
    length: Annotated[int, Field(ge=1)]
    largest: Count
    sigma: AtLeastZero = 0.0
    change: AtLeastZero = 0.0
    triangle: Count = 0

    def __post_init__(self) -> None:
        if self.triangle and self.length % (self.triangle * (self.triangle + 1) // 2):
            raise InvalidInputError(f"the block {self.name!r} does not consist of whole matrices")

    def shares(self, n_adding: int) -> tuple[tuple[float, int], ...]:
        """Return the standard deviations of one site's noise, rounded up, and how many entries get them.

        Parameters
        ----------
        n_adding : int
            Number of sites whose noise must be enough.

        Returns
        -------
        tuple of (float, int)
            The deviation in steps; of matrices that on the diagonal, then that beside it.
        """
        own = self.sigma / math.sqrt(n_adding) * (1.0 + 2.0**-50)
        if not self.triangle:
            return ((own, self.length),)
        diagonal = 2 * self.length // (self.triangle + 1)  # p of p (p + 1) / 2 entries
        beside = own / math.sqrt(2.0) * (1.0 + 2.0**-50)
        return ((own, diagonal), (beside, self.length - diagonal))

    def draw(self, stream: ByteStream, n_adding: int) -> Integers:
        """Draw one site's noise.

        Parameters
        ----------
        stream : ByteStream
            Source of the random bits.
        n_adding : int
            Number of sites whose noise must be enough.

        Returns
        -------
        ndarray of int64
            Whole numbers, exact roundings of Gaussians.
        """
        noise = np.zeros(self.length, dtype=np.int64)
        if self.sigma == 0.0:
            return noise
        parts = [rounded_gaussian(stream, share, size) for share, size in self.shares(n_adding)]
        if not self.triangle:
            return parts[0]
        rows, columns = np.triu_indices(self.triangle)
        matrices = noise.reshape(-1, len(rows))
        matrices[:, rows == columns] = parts[0].reshape(len(matrices), -1)
        matrices[:, rows < columns] = parts[1].reshape(len(matrices), -1)
        return noise


def aliasing(share: float, n_sites: int) -> float:
    """Bound how far probabilities of a sum of rounded shares are from ideal: as a logarithm, per entry.

    Parameters
    ----------
    share : float
        Standard deviation of each share, in steps.
    n_sites : int
        Largest number of shares in a sum.

    Returns
    -------
    float
        The bound kappa, rounded up.
    """
    if n_sites < 2:
        return 0.0  # a single rounded Gaussian is the rounding of a Gaussian
    j = np.arange(1, n_sites, dtype=np.float64)
    first = np.exp(-2.0 * math.pi**2 * share**2 * (j / (j + 1.0)))
    ripple = 2.0 * first / (1.0 - first)  # of the sum of a Gaussian over whole numbers
    if ripple[0] >= 0.5:
        return math.inf
    return float(-np.log1p(-ripple).sum() * (1.0 + 1e-9))


def mu_of_blocks(blocks: Sequence[SumBlock], n_sites: int, n_adding: int) -> float:
    """Compute the Gaussian privacy of a sum; refuse shares of noise whose rounding could not be neglected.

    Parameters
    ----------
    blocks : sequence of SumBlock
        All blocks of the sum.
    n_sites : int
        Number of sites.
    n_adding : int
        Number of sites whose noise must be enough.

    Returns
    -------
    float
        Gaussian privacy of the unit, with a spare part of a millionth that pays for the rounding of shares.
    """
    square, cost = 0.0, 0.0
    for block in blocks:
        if block.sigma == 0.0:
            raise InvalidInputError(f"the block {block.name!r} has no noise: give it sigma, or noise=False")
        for share, n_entries in block.shares(n_adding):
            if n_entries and not SMALLEST_SHARE <= share <= LARGEST_SHARE:
                raise InvalidInputError(
                    f"a site's share of the noise on {block.name!r} must be from {SMALLEST_SHARE:g} to 2**50 "
                    "steps: use a finer or a coarser grid"
                )
            cost += n_entries * aliasing(share, n_sites) if n_entries else 0.0
        square += (block.change / block.sigma) ** 2
    found = math.sqrt(square)
    if cost > LARGEST_COST or SHIFT * cost > MOST_ALIASING * found:
        raise InvalidInputError("the shares of the noise are too small for so many entries: use a finer grid")
    return found * (1.0 + SPARE)


def draw_shares(blocks: Sequence[SumBlock], n_adding: int, random_state: RandomState = None) -> Integers:
    """Draw one site's noise for all blocks, from the entropy of the system unless there is a seed.

    Parameters
    ----------
    blocks : sequence of SumBlock
        All blocks of the sum.
    n_adding : int
        Number of sites whose noise must be enough.
    random_state : None, int or Generator, default=None
        A seed is for tests only.

    Returns
    -------
    ndarray of int64
        Whole numbers, exact roundings of Gaussians.
    """
    stream = byte_stream(random_state)
    return np.concatenate([block.draw(stream, n_adding) for block in blocks])


def largest_sum(block: SumBlock, n_sites: int, n_adding: int) -> int:
    """Return what no entry of a sum exceeds, noise included (except with a probability below 10**-50)."""
    share = max(size for size, _ in block.shares(n_adding))
    return n_sites * block.largest + math.ceil(TAILS * share * math.sqrt(n_sites))
