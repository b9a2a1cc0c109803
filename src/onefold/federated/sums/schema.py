"""One round for tables of a declared schema: a private classifier, or private synthetic rows, of all sites.

What is summed follows from the schema and from public numbers alone, so that the contract can be written
before anybody looks at a row. Files of contracts hold both: what is summed, and the contract of the sum.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Protocol

import numpy as np

from onefold._base.arrays import Floats, Integers
from onefold._base.files import read_saved, write_whole
from onefold._base.fixed_point import MOST_ROWS
from onefold._base.validation import Instance, Number, OneOf, check_parameter
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.fabrication import MomentClassifier, TableCounts, TableSynthesizer
from onefold.fabrication.plan import CountingPlan
from onefold.federated.sums.contract import SumContract
from onefold.federated.sums.encrypted import EncryptedSum, OpenedSum
from onefold.federated.sums.keys import canonical
from onefold.federated.sums.noise import SumBlock
from onefold.federated.sums.statistics import LARGER, STEPS, SumParties, TableSum, excess_of
from onefold.privacy import PrivateMoments
from onefold.privacy.contract import contract_rows
from onefold.privacy.moments import MomentRounds
from onefold.tables import Schema

__all__ = ["SchemaSum"]

KIND, VERSION = "onefold sum of tables", 1
ROWS_ABOUT = 10_000  # where the schema does not say
SAME = 1e-9  # relative distance within which numbers of two machines are the same
CHANGED = "the contract does not follow from its schema, epsilon and delta: it was changed; ask for another"


class _Summed(Protocol):
    """What is summed, by a schema."""

    contract: SumContract

    def vector(self, table: Any) -> Integers: ...

    def result(self, opened: OpenedSum) -> MomentClassifier | TableSynthesizer: ...


class _Moments(_Summed):
    """Moments of records about the declared middle of the schema."""

    def __init__(
        self, round_id: str, parties: SumParties, schema: Schema, epsilon: float, delta: float
    ) -> None:
        if schema.classes is None:
            raise InvalidInputError("moments need classes: a label with constraints.enum in the schema")
        agreed = PrivateMoments(
            epsilon,
            delta,
            classes=schema.classes,
            centre=middle_of(schema),
            radius=schema.row_norm,
            second_moments="pooled",
        )
        rounds = MomentRounds(agreed, schema.width, schema.person is not None, schema)
        about = schema.rows_about or ROWS_ABOUT
        self._schema, self._rounds = schema, rounds.at_once(about)
        largest = STEPS * _most_rows(parties)
        blocks = [
            SumBlock(part.name, part.length, largest, part.sigma * LARGER, part.change, part.triangle)
            for part in (*self._rounds.first_parts, *self._rounds.second_parts)
        ]
        told = canonical({"what": "moments", "schema": schema.digest, "rows": about})
        digest = hashlib.sha256(told).hexdigest()
        self.contract = parties.contract(round_id, blocks, promise=rounds.promise, agreement=digest)

    def vector(self, table: Any) -> Integers:
        rows, labels, person = contract_rows(self._schema, table, leave_out=True)
        assert labels is not None  # the schema has classes
        parts = [
            part(rows, labels, person) for part in (self._rounds.first_vector, self._rounds.second_vector)
        ]
        return np.concatenate(parts)

    def result(self, opened: OpenedSum) -> MomentClassifier:
        excess, n_counts = excess_of(opened, self.contract), self.contract.blocks[0].length
        rounds = self._rounds.after(opened.vector[:n_counts], excess)
        moments = rounds.finished(opened.vector[n_counts:], excess, opened.guarantee)
        return MomentClassifier.from_moments(moments, schema=self._schema)


class _Tables(_Summed):
    """Counts of single columns and of pairs of columns, by bins that follow from the schema."""

    def __init__(
        self, round_id: str, parties: SumParties, schema: Schema, epsilon: float, delta: float
    ) -> None:
        self._maker = TableSynthesizer(schema, epsilon, delta, noise=False)
        nobody: dict[str, list[Any]] = {known.name: [] for known in schema.fields}
        self._bins: TableCounts | None = None
        if CountingPlan.of(schema, 1).open:
            self._bins = _even(self._maker.count_bins(nobody), schema.rows_about or ROWS_ABOUT)
            self._maker = TableSynthesizer(schema, epsilon, delta, noise=False)  # one that has paid nothing
        self._none = self._maker.count_tables(nobody, self._bins)
        self._sum = TableSum(round_id, parties, self._none, _most_rows(parties))
        self.contract = self._sum.total.contract

    def vector(self, table: Any) -> Integers:
        return self._sum.vector(self._maker.count_tables(table, self._bins))

    def result(self, opened: OpenedSum) -> TableSynthesizer:
        counts = self._sum.opened(self._none, opened)
        return TableSynthesizer.from_counts(self._maker.schema, counts)


def _even(nobody: TableCounts, n_rows: int) -> TableCounts:
    """Return counts of fine cells as if all of a column were equally full: bins without a look at rows."""
    parts = [np.full(size, n_rows // size, dtype=np.int64) for size in nobody.layout.sizes]
    return nobody.with_vector(np.concatenate(parts), nobody.sigmas, replace(nobody.guarantee, voided_by=()))


def _most_rows(parties: SumParties) -> int:
    """Return the largest number of rows of a site: together they add up exactly."""
    return MOST_ROWS // max(len(parties.sites), 1)


def middle_of(schema: Schema) -> Floats:
    """Return the middle of what a schema declares, in the unit ball: ranges halved, categories equal."""
    middle = np.zeros(schema.width)
    start = 0
    for known in schema.features:
        if known.is_category:
            middle[start : start + known.width] = known.encode(np.zeros(1, dtype=np.intp)).max() / known.width
        else:
            middle[start] = 0.5
        start += known.width
    return np.asarray(middle / schema.row_norm)


KINDS = {"moments": _Moments, "tables": _Tables}


class SchemaSum:
    """One round of an encrypted sum of tables: what is summed, and the contract, from a schema alone.

    Parameters
    ----------
    round_id : str
        Name of the round, never used before.
    parties : SumParties
        Who takes part.
    schema : Schema
        What was declared about the tables. A person column makes the guarantee one for persons.
    what : {"moments", "tables"}, default="moments"
        Moments of records, for a classifier; or counts of cells and of pairs of cells, for synthetic rows.
    epsilon : float, default=1.0
        Privacy loss for a record, or for a person.
    delta : float or None, default=None
        Probability with which the loss may be exceeded. None takes 1e-5, or a tenth of one over the declared
        number of rows if that is smaller.

    Attributes
    ----------
    schema : Schema
        The schema.
    what : str
        What is summed.
    total : EncryptedSum
        The sum.

    See Also
    --------
    EncryptedSum : The steps of a round.
    MomentSum : Moments about a private centre, in two rounds.

    Notes
    -----
    Moments are taken about the declared middle (ranges halved, all categories equally frequent), and the
    budget is divided for the declared number of rows: nothing waits for an answer, and one round is enough. A
    private centre is more accurate where rows are far from the middle, and takes two rounds:
    :class:`MomentSum`. Bins of tables are the declared ones; other columns are cut as if all their values
    were equally frequent.

    A file of :meth:`save` holds the schema and the contract; whoever loads it computes the contract anew from
    the schema and refuses one that does not follow from it.

    Examples
    --------
    >>> from onefold.federated import HolderKey, SumParties
    >>> from onefold.tables import Field, Schema
    >>> keys = [HolderKey.new(name) for name in ("ann", "bob", "cy")]
    >>> parties = SumParties(("north", "south", "west"), tuple(key.public for key in keys), 2)
    >>> schema = Schema([Field("age", low=0, high=100), Field("ill", "boolean", role="label")])
    >>> SchemaSum("spring", parties, schema).total.guarantee.record[0]
    1.0
    """

    def __init__(
        self,
        round_id: str,
        parties: SumParties,
        schema: Schema,
        what: Literal["moments", "tables"] = "moments",
        epsilon: float = 1.0,
        delta: float | None = None,
    ) -> None:
        check_parameter("parties", parties, Instance(SumParties, "a SumParties"))
        check_parameter("schema", schema, Instance(Schema, "a Schema"))
        check_parameter("what", what, OneOf(tuple(KINDS)))
        check_parameter("epsilon", epsilon, Number(above=0))
        check_parameter("delta", delta, (Number(above=0, below=1), None))
        schema.require_declared()
        if schema.person is not None and schema.rows_per_person is None:
            raise InvalidInputError("a guarantee for persons needs rowsPerPerson, the most rows of one")
        if delta is None:
            delta = min(1e-5, 1.0 / (10.0 * (schema.rows_about or 1)))
        self.schema, self.what, self._epsilon, self._delta = schema, what, float(epsilon), float(delta)
        kind: Any = KINDS[what]
        self._summed: _Summed = kind(round_id, parties, schema, self._epsilon, self._delta)
        self.total = EncryptedSum(self._summed.contract)

    def vector(self, table: Any) -> Integers:
        """Compute a site's vector; no cell of the table is refused.

        Parameters
        ----------
        table : table
            The site's rows: a frame, a dict of columns or a table that was read.

        Returns
        -------
        ndarray of int64
            What ``total.contribute`` takes.
        """
        return self._summed.vector(table)

    def result(self, opened: OpenedSum) -> MomentClassifier | TableSynthesizer:
        """Return what the opened sum is for, with its guarantee.

        Parameters
        ----------
        opened : OpenedSum
            The opened sum.

        Returns
        -------
        MomentClassifier or TableSynthesizer
            A fitted classifier of moments, or a synthesizer of tables.
        """
        return self._summed.result(opened)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schema and the contract to a file for all participants; it holds nothing secret.

        Parameters
        ----------
        path : str or os.PathLike
            The file.
        """
        plain = {
            "kind": KIND,
            "version": VERSION,
            "what": self.what,
            "epsilon": self._epsilon,
            "delta": self._delta,
            "schema": self.schema.to_dict(),
            "contract": json.loads(self.total.contract.to_bytes()),
        }
        write_whole(path, json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "SchemaSum":
        """Read a file, and refuse a contract that does not follow from what it says about the sum.

        Parameters
        ----------
        path : str or os.PathLike
            A file written by :meth:`save`.

        Returns
        -------
        SchemaSum
            The sum.
        """
        return read_saved(path, "there is no contract of a sum", _read)


def _read(content: bytes) -> SchemaSum:
    try:
        plain = json.loads(content)
        if plain["kind"] != KIND or plain["version"] != VERSION:
            raise ValueError
        contract = SumContract.from_bytes(canonical(plain["contract"]))
        schema = Schema.from_dict(plain["schema"])
        parties = SumParties.of(contract)
        found = SchemaSum(contract.round_id, parties, schema, plain["what"], plain["epsilon"], plain["delta"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        raise FileFormatError("damaged, or not a contract of a sum (onefold federate sum new)") from None
    own = found.total.contract
    if not _alike(json.loads(own.to_bytes()), json.loads(contract.to_bytes())):
        raise FileFormatError(CHANGED)
    found.total = EncryptedSum(contract)  # the same on all machines, to the last digit
    return found


def _alike(one: Any, other: Any) -> bool:
    """Whether JSON values are the same, but for the last digits that processors may compute differently."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=SAME)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return type(one) is type(other) and one == other
