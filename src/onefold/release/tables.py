"""Tables of mixed columns: encoded as rows in a cube, released with the optimal noise, decoded again."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from onefold._base.arrays import AnyArray
from onefold.exceptions import InvalidInputError
from onefold.privacy import BoundedFisherNoise, FisherGaussian, Guarantee, RandomisedLabels, charge
from onefold.privacy.contract import contract_rows, under_contract
from onefold.privacy.ledger import AnyLedger
from onefold.privacy.persons import kept_rows
from onefold.privacy.samplers import RandomState, generator
from onefold.release.columns import Column, TableCodec
from onefold.release.releases import TOGETHER, promised
from onefold.tables import Schema

__all__ = ["Column", "TableCodec", "TableRelease", "release_table"]


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
    >>> columns = {"age": np.array([30, 41])}
    >>> made = release_table(columns, TableCodec(columns, {"age": (18, 98)}), lam=1.0)
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the rows.

        Returns
        -------
        dict
            The guarantee, the errors, the probabilities and the words.
        """
        return {
            **self.guarantee.to_dict(),
            "least_standard_errors": self.standard_errors,
            "categories_kept": self.kept,
            "in_words": self.in_words(),
        }


def release_table(
    columns: Any,
    codec: TableCodec | None = None,
    lam: float | None = None,
    *,
    schema: Schema | None = None,
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
    """Encode a table, add the optimal noise, and decode it.

    The noise is in proportion to the declared width of a column. Rounding, clipping and naming the likeliest
    category look at noisy rows only and cost no privacy.

    Parameters
    ----------
    columns : dict of str to ndarray, or table
        Name and values of each column; with a schema also a frame or a table that was read.
    codec : TableCodec or None, default=None
        What is declared about the columns; None makes it of the schema.
    lam : float or None, default=None
        Required: weight of utility, for columns scaled to [0, 1].
    schema : Schema or None, default=None
        What is declared about the table: also its label, whom rows are about, and how many rows of a person
        count. A row whose class is not declared counts as the first class.
    bounded : bool, default=False
        Use noise that keeps every number inside the codec's ``allowed`` ranges, instead of clipping.
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
        Labels to publish with the columns.
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
    TableCodec : Declare ranges and categories.

    References
    ----------
    Document 002, Theorems 2.4 to 2.6.

    Examples
    --------
    >>> columns = {"age": np.array([30, 41]), "town": np.array(["b", "a"])}
    >>> codec = TableCodec(columns, {"age": (18, 98)}, {"town": ["a", "b"]}, types={"age": "int64"})
    >>> made = release_table(columns, codec, lam=1e-2)
    >>> {name: str(values.dtype) for name, values in made.columns.items()}, made.guarantee.holds
    ({'age': 'int64', 'town': '<U1'}, True)
    """
    if schema is not None:
        codec = TableCodec.from_schema(schema) if codec is None else codec
        rows, labels, person = contract_rows(schema, columns, labels, person)
        rows_per_person = None if person is None else rows_per_person or schema.rows_per_person
    if codec is None or lam is None:
        raise InvalidInputError("release_table needs lam, and a codec or a schema")
    options: dict[str, Any] = {"delta": delta, "sensitivity": codec.domain, "sampler": sampler}
    noise: FisherGaussian | BoundedFisherNoise
    if bounded:
        noise = BoundedFisherNoise(lam, codec.bounds(), **options)
    else:
        noise = FisherGaussian(lam, **options)
    if schema is None:
        rows, person = codec.encode(columns), None if person is False else person
    if label_mechanism is not None and labels is None:
        raise InvalidInputError("label_mechanism needs labels")
    if labels is not None and np.shape(labels) != (len(rows),):
        raise InvalidInputError("labels must hold one entry per row")
    source = None if random_state is None else generator(random_state)
    kept = kept_rows(person, rows_per_person, len(rows), source)
    if kept is not None:
        rows, labels = rows[kept], None if labels is None else np.asarray(labels)[kept]
    guarantee = promised(noise, codec.n_encoded, rows_per_person, random_state)
    # On a scale of logarithms an error has no unit.
    numbers = [c for c in codec.columns if c.range is not None and c.field.scale == "linear"]
    categories = [column for column in codec.columns if column.range is None]
    guarantee = replace(guarantee, n_features=len(codec.columns))
    if schema is not None:
        guarantee = under_contract(guarantee, schema)
    if label_mechanism is not None:
        guarantee = guarantee.with_labels(label_mechanism.epsilon)
    charge(ledger, guarantee, "released table")
    noisy = noise.randomise(rows, source)
    if label_mechanism is not None:
        labels = np.asarray(label_mechanism.randomise(labels, source))
    errors = noise.standard_errors(codec.n_encoded)
    return TableRelease(
        codec.decode(noisy),
        guarantee,
        {c.name: float(errors[codec.position(c.name)]) * c.width for c in numbers},
        {c.name: _kept(c.field.width, lam**-0.25) for c in categories},
        {c.name: c.width for c in numbers},
        labels,
    )


def _kept(levels: int, scale: float) -> float:
    """Return the probability E[Phi(z + 1/(sqrt(2) scale))^(levels - 1)] that the true category leads."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    values = np.exp((levels - 1) * log_ndtr(nodes + math.sqrt(0.5) / scale))
    return float(weights @ values / weights.sum())
