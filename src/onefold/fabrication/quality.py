"""What a synthetic table is good for, as far as noisy counts and public noise levels can tell."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Floats, Index
from onefold.fabrication._synthesis import Repaired
from onefold.fabrication.pair_tables import TableCounts

__all__ = ["TableQuality", "expected_errors", "judge_rows"]

ABSOLUTE = math.sqrt(2.0 / math.pi) / 2.0  # half the mean size of a standard Gaussian variable


@dataclass(frozen=True)
class TableQuality:
    """How close synthetic rows are to the table, as far as noisy counts can tell.

    Distances are total variation: the share of rows that would have to move to another cell. *Followed* is
    the distance of synthetic rows from the repaired counts. *Expected* is how far noise has moved these from
    the table, computed from public noise levels.

    Parameters
    ----------
    n_rows : int
        Number of rows, from noisy counts.
    structure : str
        Which pairs rows follow.
    columns : dict of str to (float, float)
        For each column what is followed and what is expected.
    pairs : (float, float)
        The same for pairs of columns, on average.
    worst : tuple of (str, str, float)
        The five pairs that synthetic rows follow worst.

    See Also
    --------
    TableSynthesizer : Makes the rows.

    Examples
    --------
    >>> print(TableQuality(1000, "tree", {"age": (0.01, 0.02)}, (0.02, 0.05), ()))
    About 1000 rows; columns follow a tree of pairs.
    Single columns: 2 in 100 rows are expected in a wrong cell by noise, 1 by drawing (age is the worst).
    Pairs of columns: 5 in 100 rows are expected in a wrong cell by noise, 2 by drawing.
    Rows keep single columns and pairs of columns up to these errors, and no rare combinations.
    """

    n_rows: int
    structure: str
    columns: dict[str, tuple[float, float]]
    pairs: tuple[float, float]
    worst: tuple[tuple[str, str, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON.

        Returns
        -------
        dict
            The fields by name, and the sentences as "text".
        """
        columns = {
            name: {"followed": followed, "expected": expected}
            for name, (followed, expected) in self.columns.items()
        }
        pairs = {"followed": self.pairs[0], "expected": self.pairs[1], "worst": [list(w) for w in self.worst]}
        return {
            "rows": self.n_rows,
            "structure": self.structure,
            "columns": columns,
            "pairs": pairs,
            "text": str(self),
        }

    def __str__(self) -> str:
        follow = {
            "raked": "follow all pairs",
            "tree": "follow a tree of pairs",
            "independent": "are independent within a class",
        }
        worst = max(self.columns, key=lambda name: sum(self.columns[name]))
        followed, expected = self.columns[worst]
        lines = [
            f"About {self.n_rows} rows; columns {follow[self.structure]}.",
            f"Single columns: {_of_hundred(expected)} in 100 rows are expected in a wrong cell by noise, "
            f"{_of_hundred(followed)} by drawing ({worst} is the worst).",
        ]
        if self.structure != "independent":
            lines.append(
                f"Pairs of columns: {_of_hundred(self.pairs[1])} in 100 rows are expected in a wrong cell by "
                f"noise, {_of_hundred(self.pairs[0])} by drawing."
            )
        lines.append(
            "Rows keep single columns up to these errors, and not how columns depend on each other."
            if self.structure == "independent"
            else "Rows keep single columns and pairs of columns up to these errors, and no rare combinations."
        )
        return "\n".join(lines)


def _of_hundred(share: float) -> str:
    hundred = 100.0 * share
    if hundred < 0.1:
        return "less than 0.1"
    return f"{hundred:.2g}" if hundred < 10.0 else f"{hundred:.0f}"


def judge_rows(
    repaired: Repaired, counts: TableCounts, structure: str, cells: AnyArray, classes: Index
) -> TableQuality:
    """Compare drawn rows with the repaired counts, and these with their noise."""
    layout, n_rows = counts.layout, max(float(repaired.sizes.sum()), 1.0)
    drawn = layout.count(lambda column, rows: cells[column][rows], classes)
    scale = n_rows / max(len(classes), 1)
    expected = expected_errors(repaired, counts)
    columns = {
        name: (_distance(own.sum(axis=0) * scale, mine.sum(axis=0), n_rows), expected[name])
        for name, own, mine in zip(layout.names, layout.singles(drawn), repaired.singles, strict=True)
    }
    followed, expected_pairs, worst = [], [], []
    tables = zip(layout.pairs, layout.doubles(drawn), repaired.doubles, repaired.believed, strict=True)
    for (i, j), own, mine, believed in tables:
        distance = _distance(own.sum(axis=0) * scale, mine.sum(axis=0), n_rows)
        followed.append(distance)
        worst.append((layout.names[i], layout.names[j], distance))
        noise = ABSOLUTE * counts.sigmas[1] * math.sqrt(believed.sum()) * own[0].size / n_rows
        expected_pairs.append(min(noise, 1.0))
    worst.sort(key=lambda pair: -pair[2])
    means = (float(np.mean(part)) if part else 0.0 for part in (followed, expected_pairs))
    return TableQuality(round(n_rows), structure, columns, (next(means), next(means)), tuple(worst[:5]))


def expected_errors(repaired: Repaired, counts: TableCounts) -> dict[str, float]:
    """Share of rows that noise is expected to have moved into a wrong cell of each single column."""
    n_rows = max(float(repaired.sizes.sum()), 1.0)
    found = zip(counts.layout.names, repaired.singles, repaired.single_errors, strict=True)
    return {
        name: min(ABSOLUTE * error * math.sqrt(own.shape[0]) * own.shape[1] / n_rows, 1.0)
        for name, own, error in found
    }


def _distance(one: Floats, other: Floats, n_rows: float) -> float:
    return float(min(np.abs(one - other).sum() / (2.0 * n_rows), 1.0))
