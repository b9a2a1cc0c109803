"""What the declared contract of a table means for noise: the domain of its rows, read without a refusal.

Everything here follows from the schema and from one row at a time. A cell without a value in the contract is
encoded by the rule that the schema declares for it; an error message would be an answer about the data.
"""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from onefold._base.arrays import AnyArray, Floats, Index, Labels, column_array
from onefold.encoders.base import TRAINED, condition, learns
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.privacy.domains import Changes, Domain
from onefold.privacy.guarantee import Guarantee
from onefold.privacy.ledger import AnyLedger, charge
from onefold.privacy.persons import known_persons
from onefold.privacy.terms import NOTHING, root, round_up
from onefold.tables import Field, Schema
from onefold.tables.fields import ONE_HOT

__all__ = [
    "DECLARED",
    "LEARNED_ENCODER",
    "NO_LABELS",
    "ContractRows",
    "EncodedBox",
    "behind_encoder",
    "check_domain",
    "contract_pairs",
    "contract_rows",
    "declared_settings",
    "domain_of",
    "encoding_of",
    "refuse_learned",
    "released",
    "under_contract",
]

NO_LABELS = 'y is missing, and the schema has no field of the role "label" with classes'
DECLARED = "the schema was declared without looking at the rows"
LEARNED_ENCODER = "the encoder was fitted to the raw data"
GUESSED = "columns of the schema were guessed from rows and nobody has confirmed them"
PUBLIC_SOURCE = "the schema was inferred from a public source: {ground}"
CONFIRMED = "what the schema says of {n} of its columns is known without the rows: {ground}"


class EncodedCell(NamedTuple):
    """What one cell of a table can be encoded as; how far it can move follows from the same.

    A number is one entry from 0 to 1. One that may be missing has a second entry, which is 1 where the first
    is ``filled``. A category is one entry of its block, and nothing but zeros where none is declared for it.
    """

    width: int
    is_category: bool
    nullable: bool
    filled: float

    @classmethod
    def of(cls, known: Field) -> "EncodedCell":
        """The cell of a field."""
        if known.encoder is not None:
            raise InvalidInputError(
                f"column {known.name!r} has an encoder: noise on rows is not made for it, private "
                "moments of records or persons are (--method moments)"
            )
        filled = 0.0 if known.is_category else float(known.encode(np.array([np.nan]))[0, 0])
        return cls(known.width, known.is_category, known.nullable, filled)

    @property
    def sizes(self) -> tuple[tuple[float, float], ...]:
        """Largest changes of the two entries that can move together, rounded up."""
        if self.is_category:
            return ((ONE_HOT, ONE_HOT if self.width > 1 else 0.0),)
        if not self.nullable:
            return ((1.0, 0.0),)
        filled = Fraction(self.filled)
        return ((1.0, 0.0), (round_up(max(filled, 1 - filled)), 1.0))

    def pairs(self, kinds: Index) -> Index:
        """Which two entries of the block can move together, with no more than two of a kind."""
        if not self.is_category or self.width == 1:
            return np.tile([0, self.width - 1], (len(self.sizes), 1))
        order = np.argsort(kinds, kind="stable")
        third = np.concatenate([[False, False], kinds[order[2:]] == kinds[order[:-2]]])
        chosen = np.sort(order[~third])
        return np.column_stack([chosen[place] for place in np.triu_indices(len(chosen), 1)])

    def inside(self, block: Floats) -> Floats:
        """Blocks that a cell can be encoded as."""
        if self.is_category:
            places, none = np.argmax(block, axis=-1), self.width - 1 if self.nullable else -1
            places = np.where(np.max(block, axis=-1) > 0, places, none)
            return np.where(np.arange(self.width) == places[..., np.newaxis], ONE_HOT, 0.0)
        numbers = np.clip(block[..., :1], 0.0, 1.0)
        if not self.nullable:
            return numbers
        missing = block[..., 1:] > 0.5
        return np.concatenate([np.where(missing, self.filled, numbers), missing], axis=-1)


class EncodedBox(Domain):
    """The set of rows that a schema can encode: another category moves two entries, not all of its block.

    Parameters
    ----------
    features : sequence of Field
        The columns that are encoded, in their order.
    inferred : bool, default=False
        Whether they were taken from the data, which voids every guarantee. A column with a guess that nobody
        has confirmed was.

    See Also
    --------
    domain_of : The domain of a schema.

    Notes
    -----
    *Guarantees.* ``entry`` is about one cell of the table, which can move two encoded entries: its Euclidean
    change is 1 for a number or a category, more for a number that may be missing. ``entry_in(1)`` is the sum
    of its absolute changes. ``clip`` makes of any row one that the schema can encode, cell by cell: the
    largest entry of a block names its category, and more than 1/2 says that a number is missing.

    Examples
    --------
    >>> from onefold.privacy.contract import EncodedBox
    >>> from onefold.tables import Field
    >>> box = EncodedBox([Field("age", low=0, high=100), Field("ward", "string", levels=("a", "b"))])
    >>> box.n_features, box.entry, round(box.l2, 4)
    (3, 1.0, 1.4142)
    """

    def __init__(self, features: Sequence[Field], inferred: bool = False) -> None:
        if not features:
            raise InvalidInputError("the schema has no feature: nothing could be released")
        self.features = tuple(features)
        self.inferred = inferred or any(known.review for known in features)
        self.cells = tuple(map(EncodedCell.of, features))
        self.n_features = sum(cell.width for cell in self.cells)
        self.cell_entries = max(min(cell.width, 2) for cell in self.cells)

    def __repr__(self) -> str:
        return f"EncodedBox(of {len(self.cells)} columns, n_features={self.n_features})"

    def _largest(self, power: int) -> list[Fraction]:
        """Largest sum of absolute changes, or of their squares, of each cell."""
        return [
            max(sum((Fraction(size) ** power for size in pair), Fraction(0)) for pair in cell.sizes)
            for cell in self.cells
        ]

    @property
    def entry(self) -> float:
        """Largest Euclidean change by one cell of the table."""
        return root(max(self._largest(2)))

    def entry_in(self, norm: int) -> float:
        """Return the largest change by one cell of the table, in a norm.

        Parameters
        ----------
        norm : {1, 2}
            Sum of absolute changes, or Euclidean.

        Returns
        -------
        float
            The change, rounded up.
        """
        return self.entry if norm == 2 else round_up(max(self._largest(1)))

    @property
    def l1(self) -> float:
        """Largest sum of absolute changes of a record."""
        return round_up(sum(self._largest(1), Fraction(0)))

    @property
    def l2(self) -> float:
        """Largest Euclidean change of a record."""
        return root(sum(self._largest(2), Fraction(0)))

    @property
    def widths(self) -> Floats:
        """Largest change of each entry."""
        return np.repeat(
            [ONE_HOT if cell.is_category else 1.0 for cell in self.cells], [cell.width for cell in self.cells]
        )

    def changes(self, kinds: Index | None = None) -> Changes:
        """Return which two entries a cell can move together, and how far.

        Parameters
        ----------
        kinds : ndarray of shape (n_features,) or None, default=None
            Kind of each entry: of pairs of categories of the same kinds, one may stand for all.

        Returns
        -------
        Changes
            Pairs of categories, and what a number can do that may be missing.
        """
        kinds = np.arange(self._features()) if kinds is None else kinds
        pairs = [cell.pairs(kinds[start : start + cell.width]) + start for cell, start in self._blocks()]
        sizes = [
            np.broadcast_to(cell.sizes, pair.shape) for cell, pair in zip(self.cells, pairs, strict=True)
        ]
        numbers = np.repeat(np.arange(len(pairs)), [len(pair) for pair in pairs])
        return Changes(np.concatenate(pairs), np.concatenate(sizes), numbers)

    def _blocks(self) -> Iterator[tuple[EncodedCell, int]]:
        """Cells, and where the block of each begins."""
        starts = accumulate((cell.width for cell in self.cells), initial=0)
        return zip(self.cells, starts, strict=False)  # the last one is the end

    def _sized(self, n_features: int) -> Self:
        return self  # their number is always known

    def _inside(self, rows: Floats) -> Floats:
        return np.concatenate(
            [cell.inside(rows[..., start : start + cell.width]) for cell, start in self._blocks()], axis=-1
        )


def released(schema: Schema) -> Schema:
    """Return the schema of rows to release: a label that is a number is a column like the others.

    Parameters
    ----------
    schema : Schema
        A schema that was declared, or inferred from a public sample.

    Returns
    -------
    Schema
        The same unless its label is a number.
    """
    schema.require_declared()
    label = schema.label
    if label is None or label.is_category:
        return schema
    fields = [replace(known, role="feature") if known is label else known for known in schema.fields]
    found: Schema = clone(schema).set_params(fields=fields)
    return found


def domain_of(schema: Schema) -> EncodedBox:
    """Return the domain in which encoded rows of a schema lie; mechanisms take it as ``sensitivity``.

    Parameters
    ----------
    schema : Schema
        A schema that was declared, or inferred from a public sample.

    Returns
    -------
    EncodedBox
        The domain of its features, and of a label that is a number.

    See Also
    --------
    onefold.privacy.Box : The same for rows of numbers.

    Examples
    --------
    >>> from onefold.privacy import Laplace
    >>> from onefold.privacy.contract import domain_of
    >>> from onefold.tables import Field, Schema
    >>> schema = Schema([Field("age", low=0, high=100), Field("sick", "boolean")])
    >>> Laplace(1.0, sensitivity=domain_of(schema)).guarantee(n_features=3).entry
    (1.0, 0.0)
    """
    return EncodedBox(released(schema).features)


def check_domain(domain: Domain | None, schema: Schema) -> None:
    """Refuse noise that was not made for the rows of a schema.

    Parameters
    ----------
    domain : Domain or None
        What the noise was made for.
    schema : Schema
        What is declared about the table.
    """
    if not (isinstance(domain, EncodedBox) and domain.features == released(schema).features):
        raise InvalidInputError("with this schema the mechanism needs sensitivity=domain_of(schema)")


def under_contract(guarantee: Guarantee, schema: Schema) -> Guarantee:
    """Return the guarantee of a release that rests on a schema: with its digest, and the conditions.

    It is void where something was guessed that nobody has confirmed; what people have confirmed is quoted.

    Parameters
    ----------
    guarantee : Guarantee
        What the noise promises.
    schema : Schema
        The schema.

    Returns
    -------
    Guarantee
        The promise with its condition.
    """
    if schema.plain:
        return guarantee
    schema.require_declared()
    found = replace(guarantee, schema=schema.digest).provided(DECLARED)
    confirmed = Counter(known.confirmed[2:] for known in schema.fields if known.confirmed is not None)
    for (ground, public), n in confirmed.items():
        found = found.provided((PUBLIC_SOURCE if public else CONFIRMED).format(n=n, ground=ground))
    encoded = any(known.encoder is not None for known in schema.features)
    found = found.provided(TRAINED) if encoded else found
    return found.voided(GUESSED) if schema.to_review else found


def encoding_of(schema: Schema, then: str = "") -> str:
    """Describe how rows of a table become numbers, in words that are equal for all sites of one schema.

    Parameters
    ----------
    schema : Schema
        The schema.
    then : str, default=""
        Description of a further encoder; empty for none.

    Returns
    -------
    str
        The digest, and the encoder.
    """
    return then if schema.plain else f"schema {schema.digest}" + (f", {then}" if then else "")


def behind_encoder(guarantee: Guarantee, encoder: Any, *, stacklevel: int = 2) -> Guarantee:
    """Return the guarantee of records that went through an encoder first.

    Parameters
    ----------
    guarantee : Guarantee
        What is promised about the encoded records.
    encoder : transformer or None
        What they went through.
    stacklevel : int, default=2
        Whose line a warning names.

    Returns
    -------
    Guarantee
        Void for an encoder that looks at rows; for one that was trained elsewhere with a condition.
    """
    if learns(encoder):
        warnings.warn(
            f"{LEARNED_ENCODER}: the guarantee is void; use one of onefold.encoders",
            PrivacyLeakWarning,
            stacklevel=stacklevel,
        )
        return guarantee.voided(LEARNED_ENCODER)
    trained = condition(encoder)
    return guarantee if trained is None else guarantee.provided(trained)


def refuse_learned(encoder: Any, ledger: AnyLedger, n_features: int, name: str) -> None:
    """Let a ledger refuse records behind an encoder that looks at rows, before there is a release.

    Parameters
    ----------
    encoder : transformer or None
        What records go through first.
    ledger : Ledger, path or None
        The account.
    n_features : int
        Entries of a record.
    name : str
        How the ledger calls the release.
    """
    if learns(encoder):
        charge(ledger, Guarantee("record", NOTHING, NOTHING, n_features).voided(LEARNED_ENCODER), name)


def declared_settings(
    schema: Schema, given: Mapping[str, Any], encoder: Any, of_persons: bool
) -> dict[str, Any]:
    """Return the parameters of private moments that are None and follow from a schema.

    Parameters
    ----------
    schema : Schema
        What is declared about the table.
    given : mapping
        Parameters of :class:`onefold.privacy.PrivateMoments`.
    encoder : transformer or None
        What records go through; encoded records have another length than the rows of the schema.
    of_persons : bool
        Whether it is known whose records they are.

    Returns
    -------
    dict
        Classes, radius and rows of a person, as far as they were None; a radius that nothing declares is 1.

    See Also
    --------
    contract_rows : The rows of the table.

    Examples
    --------
    >>> from onefold.privacy.contract import declared_settings
    >>> from onefold.tables.schema import AS_THEY_STAND
    >>> given = {"classes": [0, 1], "radius": None, "rows_per_person": 2}
    >>> declared_settings(AS_THEY_STAND, given, None, True)
    {'radius': 1.0}
    """
    declared = {
        "classes": schema.classes,
        "radius": 1.0 if schema.plain or encoder is not None else schema.row_norm,
        "rows_per_person": schema.rows_per_person if of_persons else None,
    }
    return {name: value for name, value in declared.items() if given[name] is None}


class ContractRows(NamedTuple):
    """Encoded rows of a table, the class of each, and whom each is about; None where nothing is known."""

    rows: Floats
    labels: Labels | None
    person: AnyArray | None


def contract_rows(
    schema: Schema, X: Any, y: Any = None, person: Any = None, *, leave_out: bool = False
) -> ContractRows:
    """Encode a table for noise: every row by itself, and none of them is refused.

    Parameters
    ----------
    schema : Schema
        What was declared about the table; one that was taken from private rows is refused.
    X : table
        A frame, a dict of columns, a table that was read, or an array with one column per feature. A label
        that is a number is one of its features.
    y : array-like of shape (n_rows,) or None, default=None
        Classes of the rows; None takes the label column of the schema, if it has one.
    person : array-like of shape (n_rows,), False or None, default=None
        Whom each row is about. None takes the person column of the schema if it also declares
        ``rows_per_person``; False takes none. Rows about nobody are left out.
    leave_out : bool, default=False
        Leave out rows whose class is not declared; otherwise they count as the first declared class. Leaving
        out changes the number of rows: only a release that covers it may do so.

    Returns
    -------
    ContractRows
        Rows, classes and persons.

    See Also
    --------
    domain_of : The domain in which the rows lie.

    Examples
    --------
    >>> from onefold.privacy.contract import contract_rows
    >>> from onefold.tables import Field, Schema
    >>> sick = Field("sick", "string", "label", levels=("no", "yes"))
    >>> schema = Schema([Field("age", low=0, high=100), sick])
    >>> contract_rows(schema, {"age": [50, "old"], "sick": ["yes", "?"]}).labels.tolist()
    ['yes', 'no']
    """
    schema = released(schema)
    rows = schema.transform(X)
    if not len(rows) and not leave_out:  # the number of rows is known then
        raise InvalidInputError("the table has no rows")
    labels, kept = _labels(schema, X, y, leave_out)
    return _about_somebody(schema, X, person, rows, labels, kept)


def contract_pairs(schema: Schema, X: Any, y: Any = None, person: Any = None) -> ContractRows:
    """Encode a table and the numbers that are to be predicted, for noise: every row by itself.

    Rows without a number are left out. That changes the number of rows: only a release that covers it may
    use this.

    Parameters
    ----------
    schema : Schema
        What was declared about the table; one that was taken from private rows is refused.
    X : table
        A frame, a dict of columns, a table that was read, or an array with one column per feature.
    y : array-like of shape (n_rows,) or None, default=None
        Numbers to predict; None takes the label column of the schema.
    person : array-like of shape (n_rows,), False or None, default=None
        Whom each row is about, as in :func:`contract_rows`.

    Returns
    -------
    ContractRows
        Rows, numbers clipped to the declared range, and persons.

    See Also
    --------
    contract_rows : The same for classes.

    Examples
    --------
    >>> from onefold.privacy.contract import contract_pairs
    >>> from onefold.tables import Field, Schema
    >>> cost = Field("cost", "number", "label", low=0, high=10)
    >>> schema = Schema([Field("age", low=0, high=100), cost])
    >>> contract_pairs(schema, {"age": [50, 20, 30], "cost": [12, "?", 3]}).labels.tolist()
    [10.0, 3.0]
    """
    schema.require_declared()
    rows = schema.transform(X)
    label = schema.label
    with_label = X if y is None or label is None else {label.name: column_array(y)}
    numbers, kept = schema.outputs(with_label, strict=False)
    if kept.shape != (len(rows),):
        raise InvalidInputError("labels and persons must have one entry for each row of the table")
    outputs = np.zeros(len(rows))
    outputs[kept] = numbers
    return _about_somebody(schema, X, person, rows, outputs, kept)


def _about_somebody(
    schema: Schema, X: Any, person: Any, rows: Floats, labels: Labels | None, kept: AnyArray | None
) -> ContractRows:
    """The rows that count, without those about nobody where persons are asked for."""
    whom: AnyArray | None = None
    if person is None and schema.person is not None and schema.rows_per_person is not None:
        whom = schema.persons(X)
    elif person is not None and person is not False:
        whom = column_array(person)
    for given in (labels, whom):
        if given is not None and given.shape != (len(rows),):
            raise InvalidInputError("labels and persons must have one entry for each row of the table")
    if whom is not None:
        somebody = known_persons(whom, len(rows))
        kept = somebody if kept is None else kept & somebody
    if kept is None:
        return ContractRows(rows, labels, whom)
    return ContractRows(rows[kept], *(None if part is None else part[kept] for part in (labels, whom)))


def _labels(schema: Schema, X: Any, y: Any, leave_out: bool) -> tuple[Labels | None, AnyArray | None]:
    """The class of each row, and which rows count; None for all."""
    label = schema.label
    if label is None:
        return (None if y is None else np.asarray(y)), None
    if y is None:
        codes = schema.parse(X, strict=False, roles=("label",))[label.name]
    else:
        codes = label.read(y, tuple(schema.missing_values))[0]
    known = codes >= 0
    labels = np.array(label.levels, dtype=label.dtype)[np.maximum(codes, 0)]
    return labels, (known if leave_out else None)
