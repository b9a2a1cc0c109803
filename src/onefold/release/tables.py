"""Tables of mixed columns: encoded as rows in a cube, released with the optimal noise, decoded again."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from onefold._base.arrays import AnyArray, Floats
from onefold.exceptions import InvalidInputError
from onefold.privacy import BoundedFisherNoise, FisherGaussian, Guarantee, RandomisedLabels, charge
from onefold.privacy.contract import contract_rows, domain_of, released, under_contract
from onefold.privacy.ledger import AnyLedger
from onefold.privacy.persons import kept_rows
from onefold.privacy.samplers import RandomState, generator
from onefold.release.releases import TOGETHER, noise_bounds, promised
from onefold.tables import Field, Schema

__all__ = ["TableRelease", "measured_columns", "release_table"]

FREE = (-math.inf, math.inf)
LARGEST_WHOLE = 2.0**62


@dataclass(frozen=True)
class TableRelease:
    """Columns to publish, with what they promise.

    Parameters
    ----------
    columns : dict of str to ndarray
        Name and values of each column, in the order of the original and of the declared types.
    guarantee : Guarantee
        Differential privacy per entry, per record and, if rows were limited, per person.
    standard_errors : dict of str to float
        Per column of numbers and in its units, the least error of an unbiased estimate; columns on a scale of
        logarithms have none.
    kept : dict of str to float
        Per column of categories, the probability that one is released as it is.
    widths : dict of str to float
        Per column of numbers, the width of its declared range.
    labels : ndarray or None, default=None
        The labels to publish with the columns.

    See Also
    --------
    release_table : Make the release.

    Examples
    --------
    >>> schema = Schema([Field("age", low=18, high=98)])
    >>> made = release_table({"age": [30, 41]}, schema, lam=1.0)
    >>> print(made.in_words()[1])
      nobody can estimate its age better than ± 80
    """

    columns: dict[str, AnyArray]
    guarantee: Guarantee
    standard_errors: dict[str, float]
    kept: dict[str, float]
    widths: dict[str, float]
    labels: AnyArray | None = None

    def in_words(self) -> list[str]:
        """Say what the release means for each column.

        Returns
        -------
        list of str
            One line per column under a heading, and a line about persons with several records.
        """
        lines = [
            "From one released record alone, without other knowledge and without a bias (root mean square "
            "error):"
        ]
        for name, error in self.standard_errors.items():
            wide = " (the declared range alone says more)" if error > self.widths[name] else ""
            lines.append(f"  nobody can estimate its {name} better than ± {error:.4g}{wide}")
        for name, share in self.kept.items():
            lines.append(f"  its {name} is shown as it is with probability {share:.3g}")
        return [*lines, TOGETHER]


def release_table(
    columns: Any,
    schema: Schema,
    lam: float,
    *,
    allowed: Mapping[str, tuple[float, float]] | None = None,
    bounded: bool = False,
    delta: float = 1e-5,
    sampler: str = "hardened",
    random_state: RandomState = None,
    person: Any = None,
    rows_per_person: int | None = None,
    labels: AnyArray | None = None,
    label_mechanism: RandomisedLabels | None = None,
    ledger: AnyLedger = None,
) -> TableRelease:
    """Encode a table by its schema, add the optimal noise, and decode it.

    The noise is in proportion to the declared width of a column. Rounding, clipping and naming the likeliest
    category look at noisy rows only and cost no privacy.

    Parameters
    ----------
    columns : table
        A frame, a dict of columns or a table that was read.
    schema : Schema
        What is declared about the table: its columns, its label, whom rows are about, and how many rows of a
        person count. One that was inferred from private rows is refused.
    lam : float
        Weight of utility, for columns scaled to [0, 1].
    allowed : dict of str to (float, float) or None, default=None
        Range (low, high) that released values of a column must keep, at least the declared one, which it is
        where nothing is given.
    bounded : bool, default=False
        Use noise that keeps every number inside its allowed range, instead of clipping.
    delta : float, default=1e-5
        Delta of the guarantee.
    sampler : {"hardened", "float"}, default="hardened"
        "hardened" draws exact integers on grids. "float" is open to attacks on floating-point numbers: its
        guarantee is void.
    random_state : int, Generator or None, default=None
        None takes the noise from the system's cryptographic generator. A seed voids the guarantee: for tests
        only.
    person : array-like of shape (n_samples,), False or None, default=None
        Whose each row is, and no column to release. With ``rows_per_person`` the guarantee then covers
        persons. None takes the person column of the schema if it declares ``rows_per_person``; False takes
        none.
    rows_per_person : int, default=None
        Largest number of rows of a person; others, with their labels, are dropped at random before anything
        else. None takes that of the schema.
    labels : ndarray of shape (n_samples,) or None, default=None
        Labels to publish with the columns; None takes those that the schema declares.
    label_mechanism : RandomisedLabels or None, default=None
        Randomises the labels; None publishes them as they are.
    ledger : Ledger, path or None, default=None
        Account of what was spent on the same data: the release is entered there before any noise is drawn,
        and refused beyond its limit. None counts nothing.

    Returns
    -------
    TableRelease
        The columns and what they promise.

    See Also
    --------
    release_iid : The same for rows of numbers.
    onefold.tables.Schema : Declare ranges and categories.

    Notes
    -----
    *Guarantees.* Names, order and types of released columns, the widths of texts and the categories come from
    the schema. Values outside a range, infinite ones too, are clipped; nothing says how many. No cell is
    refused, since a refusal would say something about the data: a cell without a declared value is encoded by
    the rule of the schema, and a row whose class is not declared counts as the first class.

    References
    ----------
    Document 002, Theorems 2.4 to 2.6.

    Examples
    --------
    >>> town = Field("town", "string", levels=("a", "b"))
    >>> schema = Schema([Field("age", "integer", low=18, high=98), town])
    >>> made = release_table({"age": [30, 41], "town": ["b", "a"]}, schema, lam=1e-2)
    >>> {name: str(values.dtype) for name, values in made.columns.items()}, made.guarantee.holds
    ({'age': 'int64', 'town': '<U1'}, True)
    """
    public, domain = released(schema), domain_of(schema)
    fields = public.features
    limits = _limits(fields, allowed or {})
    options: dict[str, Any] = {"delta": delta, "sensitivity": domain, "sampler": sampler}
    noise: FisherGaussian | BoundedFisherNoise
    if bounded:
        noise = BoundedFisherNoise(lam, _bounds(fields, limits), **options)
    else:
        noise = FisherGaussian(lam, **options)
    rows, labels, person = contract_rows(schema, columns, labels, person)
    most = rows_per_person if person is None else rows_per_person or schema.rows_per_person
    if label_mechanism is not None and labels is None:
        raise InvalidInputError("label_mechanism needs labels")
    source = None if random_state is None else generator(random_state)
    kept = kept_rows(person, most, len(rows), source)
    if kept is not None:
        rows, labels = rows[kept], None if labels is None else labels[kept]
    guarantee = promised(noise, rows.shape[1], most, random_state)
    guarantee = under_contract(replace(guarantee, n_features=len(fields)), schema)
    if label_mechanism is not None:
        guarantee = guarantee.with_labels(label_mechanism.epsilon)
    guarantee = charge(ledger, guarantee, "released table")
    noisy = noise.randomise(rows, source)
    if label_mechanism is not None:
        labels = np.asarray(label_mechanism.randomise(labels, source))
    errors, measured = noise.standard_errors(rows.shape[1]), measured_columns(fields)
    return TableRelease(
        _decoded(public, noisy, limits),
        guarantee,
        {name: float(errors[at]) * width for name, (at, width) in measured.items()},
        {known.name: _kept(known.width, lam**-0.25) for known in fields if known.is_category},
        {name: width for name, (_, width) in measured.items()},
        labels,
    )


def measured_columns(fields: Sequence[Field]) -> dict[str, tuple[int, float]]:
    """Find the columns of which an error has a unit: numbers that are not on a scale of logarithms.

    Parameters
    ----------
    fields : sequence of Field
        The columns that are encoded, in their order.

    Returns
    -------
    dict of str to (int, float)
        Place among the encoded columns, and the width of the declared range, by the name of the column.
    """
    found, at = {}, 0
    for known in fields:
        if not known.is_category and known.scale == "linear":
            low, high = _range(known)
            found[known.name] = at, high - low
        at += known.width
    return found


def _range(known: Field) -> tuple[float, float]:
    return float(known.low or 0.0), float(known.high or 0.0)


def _limits(fields: Sequence[Field], allowed: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """What is allowed, of plain numbers only, checked against what is declared."""
    known, found = {each.name: each for each in fields}, {}
    for name, limits in allowed.items():
        column = known.get(name)
        if column is None:
            raise InvalidInputError(f"there is no column {name!r} to release")
        kinds = column.type in ("number", "integer") and column.scale == "linear"
        if column.is_category or column.nullable or not kinds:
            raise InvalidInputError(f"column {name!r}: only plain numbers can be held inside a range")
        try:
            low, high = map(float, limits)
        except (TypeError, ValueError):
            raise InvalidInputError(f"the range of column {name!r} must be two numbers") from None
        if not (low <= _range(column)[0] and _range(column)[1] <= high):
            raise InvalidInputError(f"column {name!r}: what is allowed must contain the declared range")
        found[name] = low, high
    return found


def _bounds(fields: Sequence[Field], limits: Mapping[str, tuple[float, float]]) -> Floats:
    """Bounds of the noise on encoded rows that keep every number inside what is allowed."""
    pairs: list[Any] = []
    for known in fields:
        if known.name in limits:
            low, high = _range(known)
            pairs.append(noise_bounds((low, high), limits[known.name]) / (high - low))
        else:
            pairs += [FREE] * known.width
    return np.array(pairs, dtype=np.float64)


def _decoded(schema: Schema, rows: Floats, limits: Mapping[str, tuple[float, float]]) -> dict[str, AnyArray]:
    """Columns of the declared types, looking at nothing but noisy rows."""
    found, places = schema.decode(rows), measured_columns(schema.features)
    for name, allowed in limits.items():
        at, width = places[name]
        values = np.clip(_range(schema.field(name))[0] + width * rows[:, at], *allowed)
        if schema.field(name).type == "integer":
            least, most = np.ceil(allowed[0]), np.floor(allowed[1])
            values = np.clip(np.rint(values), max(least, -LARGEST_WHOLE), min(most, LARGEST_WHOLE))
        found[name] = values
    return schema.show(found)


def _kept(levels: int, scale: float) -> float:
    """Return the probability E[Phi(z + 1/(sqrt(2) scale))^(levels - 1)] that the true category leads."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    values = np.exp((levels - 1) * log_ndtr(nodes + math.sqrt(0.5) / scale))
    return float(weights @ values / weights.sum())
