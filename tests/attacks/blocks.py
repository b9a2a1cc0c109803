"""One test for the noise of every block of every release: the declared law, on every entry, both ways.

A :class:`BlockRelease` names the blocks of what is released, each with the noise that the release declares,
makes releases of two neighbouring datasets as a user would, and says by hand what the numbers are without
noise. :func:`contradictions` draws many releases, takes the hand-made numbers away, and maps the rest by
the declared distribution function (between its values on both sides of a step, by chance) to standard
normal variables. If the release keeps what it declares these are independent and exactly normal, whatever
the noise is, so that all thresholds are quantiles of exact laws. It also adds up what the two datasets'
numbers differ by, in units of the declared noise: that is the loss, which must be the claimed one, and no
less where the datasets are the worst.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import chi2

from attacks.row_targets import needed_mu
from onefold._base.arrays import Floats

FALSE_ALARM = 1e-8  # of all comparisons of one release together
LOOKED_AT = 8  # releases whose loss is computed: it depends on numbers that were released before
EXACT = 1e-4  # relative: grids and spare parts make noise larger by parts in a million

Law = Callable[[Floats], tuple[Floats, Floats]]  # probabilities of less than, and of at most, these values


@dataclass(frozen=True)
class Block:
    """Entries of a release that have the same noise: one table, one column, the diagonals of one matrix.

    ``scale`` is the standard deviation of Gaussian noise, or the scale of Laplace noise; any other noise has
    a law. Released numbers are whole multiples of the step; 0 says that they lie on no grid.
    """

    name: str
    length: int
    scale: float
    step: float = 0.0
    family: str = "gaussian"
    law: Law | None = None

    def probabilities(self, noise: Floats, scales: Floats) -> tuple[Floats, Floats]:
        """Distribution function on both sides of the steps that hold these values."""
        if self.law is not None:
            return self.law(noise)
        if self.family == "gaussian":
            return ndtr((noise - self.step / 2) / scales), ndtr((noise + self.step / 2) / scales)
        steps = np.rint(noise / self.step)
        return _discrete_laplace(steps - 1, self.step / scales), _discrete_laplace(steps, self.step / scales)


def _discrete_laplace(steps: Floats, rates: Floats) -> Floats:
    """P(K <= k) where P(K = k) is in proportion to exp(-rate |k|)."""
    tails = np.exp(-rates * np.where(steps < 0, -steps, steps + 1)) / (1.0 + np.exp(-rates))
    return np.where(steps < 0, tails, 1.0 - tails)


def table_law(weights: Any) -> Law:
    """Law of the numbers 0, 1, 2, ... with these probabilities."""
    ends = np.concatenate([[0.0], np.cumsum(weights)])
    return lambda noise: (ends[np.rint(noise).astype(int)], ends[np.rint(noise).astype(int) + 1])


@dataclass(frozen=True)
class BlockRelease:
    """A release that is looked at block by block.

    Parameters
    ----------
    name : str
        What makes the release.
    claim : tuple of two float
        Epsilon and delta of the unit in which the two datasets differ.
    blocks : tuple of Block
        All entries of a release, in their order.
    draw : callable
        ``draw(side)`` makes one release of dataset 0 or 1, and returns all of its numbers.
    exact : callable
        ``exact(numbers, side)`` returns them without noise, from plain arithmetic; numbers that were released
        before others, such as a centre, are taken as released.
    tightness : float, default=0.999
        Share of the claim that the two datasets reach at least.
    n_draws : int, default=160
        Releases that the fast test makes.
    about : callable or None, default=None
        ``about(side)`` describes one release but its numbers: equal for both datasets.
    scales : callable or None, default=None
        ``scales(numbers)`` returns the noise that this release declares, where that follows from numbers that
        were released before; None takes that of the blocks.
    """

    name: str
    claim: tuple[float, float]
    blocks: tuple[Block, ...]
    draw: Callable[[int], Any]
    exact: Callable[[Floats, int], Floats]
    tightness: float = 0.999
    n_draws: int = 160
    about: Callable[[int], Any] | None = None
    scales: Callable[[Floats], Floats] | None = None

    def declared(self, numbers: Floats) -> Floats:
        """The noise that a release declares on each of its numbers."""
        if self.scales is not None:
            return self.scales(numbers)
        return np.concatenate([np.full(block.length, float(block.scale)) for block in self.blocks])


def contradictions(release: BlockRelease, n_draws: int | None = None) -> list[str]:
    """Return what contradicts a release's declaration, one line each; nothing for an honest one.

    An honest release is contradicted with a probability of at most ``FALSE_ALARM``.
    """
    return list(_contradictions(release, n_draws or release.n_draws))


def _contradictions(release: BlockRelease, n_draws: int) -> Iterator[str]:
    sides = np.arange(n_draws) % 2
    drawn = [np.asarray(release.draw(side)) for side in sides]
    length = sum(block.length for block in release.blocks)
    if any(one.shape != (length,) for one in drawn):
        yield f"a release has other numbers than the {length} of its blocks"
        return
    numbers = np.array(drawn, dtype=np.float64)
    exact = np.array([release.exact(one, side) for one, side in zip(numbers, sides, strict=True)])
    declared = np.array([release.declared(one) for one in numbers])
    if declared.min() <= 0.0:
        yield "a block declares no noise"
        return
    yield from _loss(release, numbers)
    if release.about is not None and repr(release.about(0)) != repr(release.about(1)):
        yield "what is not noise depends on one record"
    yield from _noise(release, numbers, exact, declared)


def _loss(release: BlockRelease, numbers: Floats) -> Iterator[str]:
    """Compare what the datasets' numbers differ by, in units of the declared noise, with the claim."""
    epsilon, delta = release.claim
    if any(block.law is not None for block in release.blocks):  # their law follows from the claim itself
        return
    changes = [
        (release.exact(one, 1) - release.exact(one, 0)) / release.declared(one) for one in numbers[:LOOKED_AT]
    ]
    if release.blocks[0].family == "laplace":
        loss, allowed = max(float(np.abs(change).sum()) for change in changes), epsilon
    else:
        loss, allowed = max(math.hypot(*change) for change in changes), needed_mu(epsilon, delta)
    if loss > allowed * (1 + EXACT):
        yield f"the declared noise is {loss / allowed:.4f} times too small for the claim"
    if loss < allowed * release.tightness:
        yield f"the worst pair of datasets uses {loss / allowed:.4f} of the claim: too much noise"


def _noise(release: BlockRelease, numbers: Floats, exact: Floats, declared: Floats) -> Iterator[str]:
    n, d = numbers.shape
    rng = np.random.default_rng()
    parts, start = [], 0
    for block in release.blocks:
        entries = slice(start, start := start + block.length)
        if block.step and np.any(
            np.rint(numbers[:, entries] / block.step) * block.step != numbers[:, entries]
        ):
            yield f"{block.name}: not on the grid"
        below, upto = block.probabilities(numbers[:, entries] - exact[:, entries], declared[:, entries])
        uniform = below + rng.random(below.shape) * (upto - below)
        parts.append(ndtri(np.clip(uniform, 1e-300, 1 - 1e-16)))
    normal = np.hstack(parts)
    # Half for blocks, of each two sizes, two places and two sides of a shape; half for entries and pairs.
    names = [*(block.name for block in release.blocks), "all blocks"]
    for name, part in zip(names, [*parts, normal], strict=True):
        yield from (f"{name}: {words}" for words in _wrong_block(part, FALSE_ALARM / (12 * len(names))))
    level = FALSE_ALARM / (2 * (4 * d + d * (d - 1) + 2))
    for block, part in zip(release.blocks, parts, strict=True):
        yield from (f"{block.name}: {words}" for words in _wrong_entries(part, level))
    limit = -float(ndtri(level))
    scores = normal.T @ normal / np.linalg.norm(normal, axis=0)  # standard normal, given the other entry
    np.fill_diagonal(scores, 0.0)
    if np.abs(scores).max() > limit:
        places = np.unravel_index(int(np.abs(scores).argmax()), scores.shape)
        yield f"the noise of {' and '.join(_name_of(release, place) for place in places)} is related"
    first, second = normal[: n // 2 * 2 : 2], normal[1::2]
    if abs(float((first * second).sum())) > limit * np.linalg.norm(second):
        yield "releases that follow each other share their noise"


def _wrong_entries(normal: Floats, level: float) -> Iterator[str]:
    """Compare the size and the place of the noise of each column with those of a standard normal one."""
    squares, size = np.sum(normal**2, axis=0), len(normal)
    wrong = (squares < chi2.ppf(level, size)) | (squares > chi2.isf(level, size))
    if wrong.any():
        yield f"noise has {math.sqrt(squares[wrong][0] / size):.3f} of the declared size"
    if np.any(np.abs(normal.sum(axis=0)) > -ndtri(level) * math.sqrt(size)):
        yield "not what the declared domain allows"


def _wrong_block(normal: Floats, level: float) -> Iterator[str]:
    yield from _wrong_entries(normal.reshape(-1, 1), level)
    ordered = ndtr(np.sort(normal, axis=None))
    ends = np.arange(normal.size + 1) / normal.size
    gap = max(float(np.max(ends[1:] - ordered)), float(np.max(ordered - ends[:-1])))
    if gap > math.sqrt(math.log(2 / level) / (2 * normal.size)):  # Dvoretzky, Kiefer, Wolfowitz; Massart
        yield "the shape of the noise is another one"


def _name_of(release: BlockRelease, place: Any) -> str:
    ends = np.cumsum([block.length for block in release.blocks])
    return release.blocks[int(np.searchsorted(ends, int(place), side="right"))].name
