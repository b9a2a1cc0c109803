"""Sums for tables of a declared schema: a private classifier or regressor, or private rows, of all sites.

What is summed follows from the schema and from public numbers alone, so that the contract can be written
before anybody looks at a row. Files of contracts hold both: what is summed, and the contract of the sum.
"""

import copy
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import numpy as np
from pydantic_core import core_schema

from onefold._base.arrays import Floats, Integers
from onefold._base.fixed_point import MOST_ROWS
from onefold._base.records import Content, Record, plain_of, record
from onefold._base.validation import Instance, Number, OneOf, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentClassifier, MomentRegressor, TableSynthesizer
from onefold.fabrication.maps import declared_pairs
from onefold.fabrication.moment_regressor import ONE_CLASS, SHARES
from onefold.federated.access.signatures import canonical
from onefold.federated.messages import digest_of
from onefold.federated.secret.contract import SumContract, SumParties
from onefold.federated.secret.rounds import EncryptedSum, OpenedSum
from onefold.federated.secret.statistics import STEPS, MomentSum, TableSum, excess_of, moment_blocks
from onefold.privacy import PrivateMoments
from onefold.privacy.contract import contract_rows
from onefold.privacy.moments import MomentRounds
from onefold.tables import Schema

__all__ = ["SchemaSum"]

ROWS_ABOUT = 10_000  # where the schema does not say
FIRST = "-1"  # how the first round of two is called, after the name of both
SAME = 1e-9  # relative distance within which numbers of two machines are the same
CHANGED = "the contract does not follow from its schema, epsilon and delta: it was changed; ask for another"


class _Summed(Protocol):
    """What is summed, by a schema."""

    contract: SumContract

    def vector(self, table: Any) -> Integers: ...

    def result(
        self, opened: OpenedSum, anyway: bool
    ) -> MomentClassifier | MomentRegressor | TableSynthesizer: ...


class _AtOnce(_Summed):
    """Moments about a public centre: counts, sums and second moments in one round."""

    def __init__(
        self, round_id: str, parties: SumParties, schema: Schema, agreed: PrivateMoments, width: int
    ) -> None:
        rounds = MomentRounds(agreed, width, schema.person is not None, schema)
        about = schema.rows_about or ROWS_ABOUT
        self.schema, self._rounds = schema, rounds.at_once(about)
        parts = (*self._rounds.first_parts, *self._rounds.second_parts)
        blocks = moment_blocks(parts, STEPS * _most_rows(parties))
        told = canonical({"what": "moments", "schema": schema.digest, "rows": about})
        digest = digest_of(told)
        self.contract = parties.contract(round_id, blocks, promise=rounds.promise, agreement=digest)

    def rows(self, table: Any) -> tuple[Any, Any, Any]:
        """Rows, labels and persons of a table."""
        return _encoded(self.schema, table)

    def vector(self, table: Any) -> Integers:
        rows = self.rows(table)
        return np.concatenate([self._rounds.first_vector(*rows), self._rounds.second_vector(*rows)])

    def moments(self, opened: OpenedSum) -> PrivateMoments:
        """The moments of all sites' rows."""
        excess, n_counts = excess_of(opened, self.contract), self.contract.blocks[0].length
        rounds = self._rounds.after(opened.vector[:n_counts], excess)
        return rounds.finished(opened.vector[n_counts:], excess, opened.guarantee)


class _Moments(_AtOnce):
    """Moments of records about the declared middle of the schema."""

    def __init__(self, round_id: str, parties: SumParties, schema: Schema, *loss: float) -> None:
        agreed = _agreed(schema, *loss).set_params(centre=middle_of(schema))
        super().__init__(round_id, parties, schema, agreed, schema.width)

    def result(self, opened: OpenedSum, anyway: bool) -> MomentClassifier:
        return MomentClassifier.from_moments(self.moments(opened), schema=self.schema)


class _Numbers(_AtOnce):
    """Moments of pairs of a record and its number to predict, mapped by their declared ranges."""

    def __init__(self, round_id: str, parties: SumParties, schema: Schema, *loss: float) -> None:
        given: dict[str, Any] = {"classes": ONE_CLASS, "shares": SHARES, "second_moments": "pooled"}
        agreed = PrivateMoments(*loss, centre=None, **given)
        self._map = MomentRegressor(schema=schema).declared_map(schema.width)
        super().__init__(round_id, parties, schema, agreed, schema.width + 1)

    def rows(self, table: Any) -> tuple[Any, Any, Any]:
        rows, outputs, person = declared_pairs(self.schema, table, None, None, noisy=True)
        return self._map.apply(np.column_stack([rows, outputs])), np.zeros(len(rows), dtype=np.int64), person

    def result(self, opened: OpenedSum, anyway: bool) -> MomentRegressor:
        moments = self.moments(opened)
        moments.encoding_ = ""  # of pairs, which the schema alone does not describe
        return MomentRegressor.from_moments(moments, schema=self.schema)


class _Centre(_Summed):
    """The first of two rounds of moments: counts, and a private centre."""

    def __init__(self, round_id: str, parties: SumParties, schema: Schema, *loss: float) -> None:
        agreed = _agreed(schema, *loss)
        persons = schema.person is not None
        self.sum = MomentSum(round_id, parties, agreed, schema.width, of_persons=persons, schema=schema)
        self.schema, self.contract = schema, self.sum.first.contract

    def vector(self, table: Any) -> Integers:
        return self.sum.first_vector(*_encoded(self.schema, table))

    def result(self, opened: OpenedSum, anyway: bool) -> MomentClassifier:
        raise InvalidInputError("this is the first of two rounds: its sum makes the contract of the second")


class _AboutCentre(_Summed):
    """The second of two rounds of moments: sums and second moments about the centre of the first."""

    def __init__(self, first: _Centre, opened: OpenedSum) -> None:
        self._schema, self._sum = first.schema, first.sum.proceed(opened)
        self.contract = self._sum.second.contract

    def vector(self, table: Any) -> Integers:
        return self._sum.second_vector(*_encoded(self._schema, table))

    def result(self, opened: OpenedSum, anyway: bool) -> MomentClassifier:
        return MomentClassifier.from_moments(self._sum.moments(opened, anyway), schema=self._schema)


def _agreed(schema: Schema, epsilon: float, delta: float) -> PrivateMoments:
    """The release that all sites agree on, about a private centre."""
    if schema.predicts_number:
        raise InvalidInputError("a round for a private centre is for classes: numbers to predict take one")
    if schema.classes is None:
        raise InvalidInputError("moments need classes: a label with constraints.enum in the schema")
    return PrivateMoments(
        epsilon, delta, classes=schema.classes, radius=schema.row_norm, second_moments="pooled"
    )


def _encoded(schema: Schema, table: Any) -> tuple[Any, Any, Any]:
    rows, labels, person = contract_rows(schema, table, leave_out=True)
    assert labels is not None  # the schema has classes
    return rows, labels, person


class _Tables(_Summed):
    """Counts of single columns and of pairs of columns, by bins that follow from the schema."""

    def __init__(self, round_id: str, parties: SumParties, schema: Schema, *loss: float) -> None:
        self._maker = TableSynthesizer(schema, *loss, noise=False)
        nobody: dict[str, list[Any]] = {known.name: [] for known in schema.fields}
        self._none = self._maker.count_tables(nobody)
        self._sum = TableSum(round_id, parties, self._none, _most_rows(parties))
        self.contract = self._sum.total.contract

    def vector(self, table: Any) -> Integers:
        return self._sum.vector(self._maker.count_tables(table))

    def result(self, opened: OpenedSum, anyway: bool) -> TableSynthesizer:
        counts = self._sum.opened(self._none, opened)
        return TableSynthesizer.from_counts(self._maker.schema, counts)


def _most_rows(parties: SumParties) -> int:
    """Return the largest number of rows of a site: together they add up exactly."""
    return MOST_ROWS // max(len(parties.sites), 1)


def middle_of(schema: Schema) -> Floats:
    """Return the middle of what a schema declares, in the unit ball: ranges halved, categories equal.

    Vectors of encoders have no direction that is in the middle: they are seen from zero.
    """
    middle = np.zeros(schema.width)
    start = 0
    for known in schema.features:
        if known.is_category:
            middle[start : start + known.width] = known.encode(np.zeros(1, dtype=np.intp)).max() / known.width
        elif known.encoder is None:
            middle[start] = 0.5
        start += known.width
    return np.asarray(middle / schema.row_norm)


KINDS = {"moments": _Moments, "tables": _Tables}


@record
class _Written:
    """What a file says about a sum of tables."""

    what: str
    epsilon: float
    delta: float
    rounds: int
    schema: dict[str, Any]
    contract: SumContract
    first: SumContract | None
    answers: tuple[Content, ...]


class SchemaSum(Record, kind="contract of a sum"):
    """An encrypted sum of tables: what is summed, and the contract, from a schema alone.

    Parameters
    ----------
    round_id : str
        Name of the round, never used before.
    parties : SumParties
        Who takes part.
    schema : Schema
        What was declared about the tables. A person column makes the guarantee one for persons.
    what : {"moments", "tables"}, default="moments"
        Moments of records, for a classifier, or for a regressor where the label is a number; or counts of
        cells and of pairs of cells, for synthetic rows.
    epsilon : float, default=1.0
        Privacy loss for a record, or for a person.
    delta : float or None, default=None
        Probability with which the loss may be exceeded. None takes 1e-5, or a tenth of one over the declared
        number of rows if that is smaller.
    rounds : {1, 2}, default=1
        Rounds of moments: one about the declared middle, or two, of which the first finds a private centre
        and :meth:`proceed` gives the second. Both are covered by one promise; each is charged
        for its own noise.

    Attributes
    ----------
    schema : Schema
        The schema.
    what : str
        What is summed.
    total : EncryptedSum
        The sum of this round.
    first : SchemaSum or None
        The first round, if this is the second of two.
    is_first : bool
        Whether this is the first round of two.

    See Also
    --------
    EncryptedSum : The steps of a round.
    MomentSum : The two rounds for rows of any kind.

    Notes
    -----
    Moments are taken about the declared middle (ranges halved, all categories equally frequent), and the
    budget is divided for the declared number of rows: nothing waits for an answer, and one round is enough. A
    private centre is more accurate where rows are far from the middle, and takes two rounds. The contract of
    the second follows from the key holders' signed answers to the first, which are in its file. Bins of
    tables are the declared ones; other columns are cut as if all their values were equally frequent.

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
        rounds: Literal[1, 2] = 1,
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
        if rounds not in (1, 2) or (rounds == 2 and what != "moments"):
            raise InvalidInputError("rounds must be 1, or 2 for moments")
        kind: Any = KINDS[what] if rounds == 1 else _Centre
        if kind is _Moments and schema.predicts_number:
            kind = _Numbers
        self._rounds, self._answers = rounds, tuple[bytes, ...]()
        self.first: SchemaSum | None = None
        self._summed: _Summed = kind(round_id, parties, schema, self._epsilon, self._delta)
        self.total = EncryptedSum(self._summed.contract)

    @property
    def is_first(self) -> bool:
        """Whether this is the first round of two."""
        return isinstance(self._summed, _Centre)

    def proceed(self, answers: Iterable[bytes]) -> Self:
        """Return the second of two rounds, among the sites that were in the first.

        Parameters
        ----------
        answers : iterable of bytes
            The key holders' answers to the first round; they are kept in the contract of the second.

        Returns
        -------
        SchemaSum
            The second round.
        """
        if not isinstance(self._summed, _Centre):
            raise InvalidInputError("this is not the first of two rounds")
        found = copy.copy(self)
        found.first, found._answers = self, tuple(answers)
        found._summed = _AboutCentre(self._summed, self.total.open(found._answers))
        found.total = EncryptedSum(found._summed.contract)
        return found

    def check_first(self, site: str, folder: str | os.PathLike[str]) -> None:
        """Refuse the second of two rounds to a site that is not in the first.

        Parameters
        ----------
        site : str
            Name of the site.
        folder : str or os.PathLike
            Folder in which the site keeps its messages.

        Raises
        ------
        InvalidInputError
            If the site's message of the first round is not in the folder.
        """
        if self.first is None:
            return
        before = self.first.total.contract
        try:
            before.place(site)
            content = (Path(folder) / before.file(site, "sum")).read_bytes()
            present = self.first.total.site_of(content) == site
        except (FileNotFoundError, InvalidInputError):
            present = False
        if not present:
            raise InvalidInputError(
                "the folder of this site has no message of the first of the two rounds: it takes no part in "
                "the second"
            )

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

    def result(self, opened: OpenedSum, anyway: bool = False) -> MomentClassifier | TableSynthesizer:
        """Return what the opened sum is for, with its guarantee.

        Parameters
        ----------
        opened : OpenedSum
            The opened sum.
        anyway : bool, default=False
            Whether to go on if a site dropped out between two rounds, as in :class:`MomentSum`.

        Returns
        -------
        MomentClassifier or TableSynthesizer
            A fitted classifier of moments, or a synthesizer of tables.
        """
        return self._summed.result(opened, anyway)

    # --- files --------------------------------------------------------------------------------------------

    def _kept_parts(self, compact: bool) -> dict[str, Any]:
        """What :class:`_Written` reads."""
        return {
            "what": self.what,
            "epsilon": self._epsilon,
            "delta": self._delta,
            "rounds": self._rounds,
            "schema": self.schema.to_dict(),
            "contract": self.total.contract,
            "first": None if self.first is None else self.first.total.contract,
            "answers": self._answers,
        }

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(cls._of, handler.generate_schema(_Written))

    @classmethod
    def _of(cls, written: _Written) -> Self:
        """The sum of a file, computed anew; refused if its contract does not follow from what it says."""
        before = written.contract if written.first is None else written.first
        name = before.round_id.removesuffix(FIRST) if written.rounds == 2 else before.round_id
        schema, numbers = Schema.from_dict(written.schema), (written.epsilon, written.delta)
        made = cls(name, SumParties.of(before), schema, written.what, *numbers, written.rounds)  # type: ignore[arg-type]
        made._keep(before)
        if written.first is not None:
            made = made.proceed(written.answers)
            made._keep(written.contract)
        return made

    def _keep(self, contract: SumContract) -> None:
        """Take the contract of a file, which is the same on all machines, to the last digit."""
        if not _alike(plain_of(self.total.contract, {}), plain_of(contract, {})):
            raise InvalidInputError(CHANGED)
        self.total = EncryptedSum(contract)


def _alike(one: Any, other: Any) -> bool:
    """Whether JSON values are the same, but for the last digits that processors may compute differently."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=SAME)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return type(one) is type(other) and one == other
