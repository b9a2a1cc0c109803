"""What sources contribute to the default strategy: one source, or several, each by how near it is.

Sources that see rows in the same way have their class means averaged before labelled rows of the target
shrink them; the weights follow from the labelled rows in closed form. Sources that see rows in different ways
(another encoder, radius or centre) cannot be averaged; each group has experts of its own.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.covariance import ledoit_wolf

from onefold._base.arrays import Array, Floats, Index
from onefold.transfer._description import Description
from onefold.transfer._learners import GaussianModel, Projection, TargetModel, project
from onefold.transfer._pool import PRIOR
from onefold.transfer._shrinkage import Prior, combined, fit_shrunk
from onefold.transfer.alignment import DescriptionView, Way, overall_mean, turned_view

RIDGE = 0.05  # added to the covariance inside a class, in units of its mean variance
SHRUNK = (("shrunk", False), ("refined", True))  # and whether unlabelled rows refine it


@dataclass(frozen=True)
class Role:
    """What an expert is there for."""

    kind: str  # its name where there is one source
    way: int | None  # position of the way of the rows that it sees; None: as the target's models see them
    prior: float  # weight before a label is seen


@dataclass(frozen=True)
class Group:
    """Sources that see rows in the same way, and what they say in the target's principal directions."""

    members: tuple[int, ...]
    prefix: str  # of the names of its experts
    projection: Projection
    coordinates: Floats  # of the target's rows
    priors: tuple[Prior, ...]

    @property
    def way(self) -> int:
        """Position of the way that all of them share."""
        return self.members[0]


@dataclass(frozen=True)
class Sources:
    """All sources of a target."""

    ways: tuple[Way, ...]
    placed: tuple[Array, ...]  # rows of the target by the way of each source
    groups: tuple[Group, ...]
    n_classes: int

    @classmethod
    def of(cls, ways: tuple[Way, ...], rows: Array, n_classes: int) -> "Sources":
        """Place the rows, and find sources that see them in the same way."""
        placed = tuple(way(rows) for way in ways)
        asked = [] if ways[0].source is None or ways[0].turns else _alike(placed)
        groups = tuple(_group(members, ways, placed, len(asked) > 1) for members in asked)
        return cls(ways, placed, groups, n_classes)

    @property
    def roles(self) -> dict[str, Role]:
        """Role of each expert by its name; the prior of a kind is divided among the sources."""
        found, count = {}, len(self.ways)
        for group in self.groups:
            share = len(group.members) / count
            for kind, _ in SHRUNK:
                found[group.prefix + kind] = Role(kind, group.way, share * PRIOR[kind])
            found[group.prefix + "mapping"] = Role("mapping", None, share * PRIOR["mapping"])
        for place, name in self._views():
            found[name] = Role("source", place, PRIOR["source"] / count)
        return found

    @property
    def begun(self) -> dict[str, str]:
        """Experts that are models of the target, and the expert with whose beliefs each begins."""
        return {f"{group.prefix}mapping": f"{group.prefix}shrunk" for group in self.groups}

    def fit(self, codes: Index, sample: Index) -> dict[str, TargetModel]:
        """Fit the experts of the sources to known codes and a sample of the rows."""
        found: dict[str, TargetModel] = {}
        everything = np.arange(self.n_classes)
        for group in self.groups:
            coordinates, known = group.coordinates[sample], codes[sample]
            prior = combined(group.priors, coordinates, known)
            for kind, refine in SHRUNK:
                mixture = fit_shrunk(coordinates, known, prior, refine=refine)
                found[group.prefix + kind] = GaussianModel(group.projection, mixture, everything)
        for place, name in self._views():
            found[name] = self._view(place, codes)
        return found

    def _views(self) -> list[tuple[int, str]]:
        """Position of each source, and the name of the expert that is the source as it is."""
        given = [place for place, way in enumerate(self.ways) if way.source is not None]
        return [(place, "source" if len(given) == 1 else f"source {place + 1}") for place in given]

    def _view(self, place: int, codes: Index) -> TargetModel:
        described = _described(self.ways[place])
        if not self.ways[place].turns:
            return DescriptionView(described)
        projection = project(self.placed[place])
        return turned_view(described, projection(self.placed[place]), codes, projection)


def _described(way: Way) -> Description:
    assert way.source is not None
    return way.source.description_


def _alike(placed: tuple[Array, ...]) -> list[tuple[int, ...]]:
    """Group the positions of equal rows: their sources can be averaged."""
    found: list[list[int]] = []
    for place, rows in enumerate(placed):
        for group in found:
            if np.array_equal(placed[group[0]], rows):
                group.append(place)
                break
        else:
            found.append([place])
    return [tuple(group) for group in found]


def _group(members: tuple[int, ...], ways: tuple[Way, ...], placed: tuple[Array, ...], named: bool) -> Group:
    rows = placed[members[0]]
    projection = project(rows)
    coordinates = projection(rows)
    numbers = ", ".join(str(place + 1) for place in members)
    prefix = f"source{'s' * (len(members) > 1)} {numbers}: " if named else ""
    priors = tuple(_prior(_described(ways[place]), projection, coordinates) for place in members)
    return Group(members, prefix, projection, coordinates, priors)


def _prior(described: Description, projection: Projection, coordinates: Floats) -> Prior:
    """Return what one source says, in the target's principal directions."""
    within = described.within(projection.axes)
    if within is None:
        within = ledoit_wolf(coordinates)[0]
    size = len(within)
    floor = max(RIDGE * float(np.trace(within)) / size, np.finfo(float).tiny ** 0.5)
    shift = coordinates.mean(axis=0) - projection(overall_mean(described)[None])[0]
    return Prior(projection(described.means), within + floor * np.eye(size), shift)
