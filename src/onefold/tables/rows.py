"""The only door from a table to the numbers that something is learned from: rows, labels and persons.

There is always a schema: declared, inferred from the rows, or :meth:`Schema.numbers` for columns that are
used as they stand. Messages name columns and row numbers and never repeat a cell: the cells may be private.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from onefold._base.arrays import AnyArray, Mask
from onefold.exceptions import InvalidInputError
from onefold.tables.cells import PLAIN_NUMBERS, cells_of, numbers_of, plain_column
from onefold.tables.columns import Parsed, place_of, rows_of
from onefold.tables.declarations import CALENDAR, ENCODED_ROLES
from onefold.tables.fields import Field
from onefold.tables.formats import Source
from onefold.tables.inference import MANY_CLASSES, MISSING_TOKENS, cells_like, is_index, names_persons
from onefold.tables.reading import Table, gather, join_blocks, open_table
from onefold.tables.schema import AS_THEY_STAND, Schema
from onefold.tables.tasks import CLASSES, NUMBERS, Task, as_text, distinct_texts

__all__ = ["Rows", "read_table", "row_blocks", "rows"]

Mode = Literal["strict", "lenient", "private"]

SHOWN_NAMES = 5
WIDE = 200  # columns; so many may be pixels or the like
ONE_UNIT = 10.0  # ratio of the largest range to the middle one


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table as a model of its schema takes them, with what the table says besides the features.

    Parameters
    ----------
    X : ndarray or Table
        A matrix where the schema is of plain numbers, else columns that were read by the schema.
    y : ndarray or None
        Classes or numbers of the rows that have one; None if the table has no label or nobody asked for it.
    persons : ndarray of shape (n_rows,)
        Whom each row is about; all different where nobody is named.
    schema : Schema
        The contract of the table: declared, inferred, or of plain numbers.
    task : Task
        What is predicted.
    notes : tuple of str, default=()
        What is worth saying about how the table was read.
    kept : dict of str to ndarray, default={}
        Columns that were asked for besides, as they stand.
    known : ndarray of bool of shape (n_rows,)
        Which rows ``y`` is about.
    path : Path, str or None, default=None
        Where the table is.
    ignored : int, default=0
        Number of columns of the table that were not used.
    """

    X: Any
    y: Any
    persons: AnyArray
    schema: Schema
    task: Task
    notes: tuple[str, ...] = ()
    kept: Mapping[str, AnyArray] = field(default_factory=dict)
    known: Mask = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    path: Path | str | None = None
    ignored: int = 0

    def __len__(self) -> int:
        return len(self.persons)

    def __getitem__(self, which: Any) -> "Rows":
        """Some of the rows, by their numbers, truth values or a slice."""
        X = self.X[which] if isinstance(self.X, np.ndarray) else rows_of(self.X, which)
        y = None
        if self.y is not None:
            places = np.cumsum(self.known) - 1
            y = self.y[places[which][self.known[which]]]
        kept = {name: values[which] for name, values in self.kept.items()}
        return replace(self, X=X, y=y, persons=self.persons[which], kept=kept, known=self.known[which])

    @property
    def labelled(self) -> "Rows":
        """The rows that have a label."""
        return self if self.known.all() else self[self.known]

    @property
    def encoded(self) -> AnyArray:
        """The features as rows of numbers."""
        return np.asarray(self.schema.transform(self.X))

    @property
    def label(self) -> str:
        """Name of the label column that the schema declares; empty if it declares none."""
        return "" if self.schema.label is None else self.schema.label.name

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features; empty where only their places are known."""
        return () if self.schema.unnamed else tuple(known.name for known in self.schema.features)

    @property
    def n_features(self) -> int:
        """Number of columns that are learned from."""
        return len(self.schema.features)

    @property
    def grouped(self) -> bool:
        """Whether some person has several rows."""
        return len(np.unique(self.persons)) < len(self.persons)

    def accuracy(self, predictions: AnyArray) -> float | None:
        """Return the share of rows predicted right; labels of another type are compared as text.

        Parameters
        ----------
        predictions : ndarray of shape (n_rows,)
            A class for each row.

        Returns
        -------
        float or None
            The share among the rows that have a class; None if there is none.
        """
        if self.y is None or not len(self.y):
            return None
        predicted, labels = predictions[self.known], self.y
        if predicted.dtype.kind != labels.dtype.kind:
            predicted, labels = predicted.astype(str), labels.astype(str)
        return float(np.mean(predicted == labels))

    def split(self, share: float | None, seed: int) -> tuple["Rows", "Rows"]:
        """Divide rows that have labels into rows to fit and rows to hold out.

        Parameters
        ----------
        share : float or None
            Share of the rows, or of the persons, to hold out; None for none.
        seed : int
            Seed of the choice.

        Returns
        -------
        train, held : Rows
            Classes in the same proportion, and no person in both.
        """
        assert self.y is not None
        if share is None:
            return self, self[:0]
        held = self.task.split(place_of(self), self.y, self.persons, share, seed)
        return self[~held], self[held]

    @property
    def summary(self) -> str:
        """One line about the columns, and how many of their cells are missing."""
        fields = self.schema.fields
        counts = Counter(map(_kind, self.schema.features))
        parts = [f"{counts[one]} {one if counts[one] == 1 else many}" for one, many in KINDS if counts[one]]
        out = [known.name for known in fields if known.role in ("ignored", "identifier", "person")]
        if out:
            parts.append(f"{len(out)} left out ({_shown(out)})")
        gaps = [column.missing for column in self.X.values()] if isinstance(self.X, Mapping) else []
        missing, cells = sum(int(gap.sum()) for gap in gaps), sum(map(len, gaps))
        share = f"{100 * missing / max(cells, 1):.0f} %" if missing >= 0.01 * cells else "less than 1 %"
        gone = f"; {share} of cells missing" if missing else ""
        return f"{len(fields)} columns: the label, {', '.join(parts)}{gone}"


KINDS = (("number", "numbers"), ("category", "categories"), ("date", "dates"), ("encoded", "encoded"))


def _kind(known: Field) -> str:
    if known.is_category:
        return "category"
    if known.encoder is not None:
        return "encoded"
    return "date" if known.type in CALENDAR else "number"


def rows(
    source: Any,
    schema: Schema | Literal["numbers"] | None = None,
    *,
    label: str | None = None,
    ignore: Collection[str] = (),
    person: str | None = None,
    encoders: Mapping[str, Any] | None = None,
    mode: Mode = "strict",
    task: str = "auto",
    keep: Sequence[str] = (),
) -> Rows:
    """Read a table as rows that something can be learned from, or be said about.

    Parameters
    ----------
    source : path, str or table
        What :func:`read_table` understands, a frame, a dict of columns, or an array of shape
        (n_rows, n_features).
    schema : Schema, "numbers" or None, default=None
        The contract of the table. "numbers" takes every column that is named by nothing else as a number as
        it stands. None infers: a matrix, or many columns of one unit, are numbers as they stand, and for
        anything else a schema is proposed from the rows, on which no promise can rest.
    label : str or None, default=None
        The column of classes or numbers to predict. None takes that of the schema, if the table has it.
    ignore : collection of str, default=()
        Columns to leave out.
    person : str or None, default=None
        The column that says whom a row is about. None takes that of the schema, if the table has it.
    encoders : mapping of str to path or encoder, default=None
        Encoders of columns of texts or images.
    mode : {"strict", "lenient", "private"}, default="strict"
        What becomes of a cell without a value in the schema. "strict" refuses it, naming row and column, and
        leaves rows without a label out. "lenient" is for another table than a model was fitted to: numbers
        and dates may be written in another way, what is still no value is missing, and all rows stay.
        "private" refuses no cell, because an error would be an answer about the data: the schema says what
        stands for it, and a table may have no rows.
    task : {"auto", "classification", "regression"}, default="auto"
        Whether the label is a class or a number; "auto" follows the schema, or the cells where it is
        inferred.
    keep : sequence of str, default=()
        Further columns to hand back as they stand.

    Returns
    -------
    Rows
        Rows, labels, persons, and the schema by which they were read.

    See Also
    --------
    row_blocks : The same, block by block.

    Examples
    --------
    >>> from onefold.tables.rows import rows
    >>> table = {"age": [31, 64, 17], "ill": ["no", "yes", "no"]}
    >>> found = rows(table, label="ill")
    >>> found.y.tolist(), found.schema.label.name, found.task.name
    (['no', 'yes', 'no'], 'ill', 'classification')
    """
    asked = _Asked(label, ignore, person, encoders or {}, mode, task, keep)
    found = joined(list(_blocks(source, schema, asked)))
    if mode == "lenient" and found.ignored:
        count = f"{found.ignored} column{'s' * (found.ignored > 1)}"
        note = f"{count} of {found.path} left out: unknown to the model"
        found = replace(found, notes=(*found.notes, note))
    if found.y is None or mode == "private" or (mode == "lenient" and label is None):
        return found
    return _with_labels(found, label or found.label, asked)


def row_blocks(
    source: Any, schema: Schema | Literal["numbers"] | None = None, **options: Any
) -> Iterator[Rows]:
    """Read a table block by block, so that its length does not matter.

    A schema that is inferred, and a table that is read leniently, need all rows: they come in one block.

    Parameters
    ----------
    source : path, str or table
        As for :func:`rows`.
    schema : Schema, "numbers" or None, default=None
        The contract of the table.
    **options : object
        Further arguments of :func:`rows`.

    Yields
    ------
    Rows
        Consecutive rows, also those without a label.
    """
    yield from _blocks(source, schema, _Asked(**options))


def read_table(
    path: str | Path,
    *,
    schema: Schema | None = None,
    columns: Sequence[str] | None = None,
    private: bool = False,
) -> Table:
    """Read a table from a file, a folder or a database.

    Parameters
    ----------
    path : path or str
        A file ending in .csv, .tsv, .jsonl (an object in every line), .xlsx (its first sheet; extra
        ``excel``), .npz, .parquet or .arrow; also .gz behind .csv, .tsv and .jsonl. A folder of Parquet or
        Arrow files with the same columns, which are read in the order of their names. Or a table in a
        database: ``postgresql://USER@HOST/DATABASE#TABLE`` or ``sqlite:///FILE#TABLE``; ``#FILE.sql`` names
        a file with a SELECT statement instead.
    schema : Schema or None, default=None
        The contract of the table. Features and label are read by it block by block, so that a long table
        takes the memory of its numbers and not that of its texts; :meth:`Schema.parse` says which cells break
        the contract. None leaves the cells as they stand in the file.
    columns : sequence of str or None, default=None
        The columns wanted, in this order; None for all columns of the file, or with a schema for those it has
        a use for: the features, and label, person and identifiers if they are there.
    private : bool, default=False
        Whether privacy is promised for the rows. Then no row decides how others are read, whether there is a
        warning, or whether a table is one: it may have no rows. Which lines of a CSV file are rows is still
        checked, and its errors are about the file.

    Returns
    -------
    Table
        A mapping of columns, for :class:`Schema` and everything that takes one.

    See Also
    --------
    write_table : Writes a table.
    Schema : The contract of a table.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from onefold.tables import Schema, read_table
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "wards.csv"
    ...     _ = path.write_text("age;ward\\n31;a\\n64;b\\n")
    ...     table = read_table(path)
    >>> table["ward"].tolist()
    ['a', 'b']
    """
    with open_table(path, private=private) as source:
        if schema is None:
            names = source.names if columns is None else columns
            source.require(names)
            return gather(source, names)
        blocks = _declared_blocks(source, schema, _Asked(mode="private"), columns)
        table: Table = joined(list(blocks)).X
    return table


@dataclass(frozen=True)
class _Asked:
    """What is wanted of a table: the arguments of :func:`rows`."""

    label: str | None = None
    ignore: Collection[str] = ()
    person: str | None = None
    encoders: Mapping[str, Any] = field(default_factory=dict)
    mode: Mode = "strict"
    task: str = "auto"
    keep: Sequence[str] = ()

    @property
    def others(self) -> list[str]:
        """Columns that are no features."""
        return list(dict.fromkeys(name for name in (self.label, self.person, *self.keep) if name is not None))

    @property
    def named(self) -> list[str]:
        """Columns that the table must have."""
        return [*self.others, *self.ignore, *self.encoders]


def _with_labels(found: Rows, name: str, asked: _Asked) -> Rows:
    """Rows of which the label was asked for, and what is said about those without one."""
    notes, gone = list(found.notes), len(found) - len(found.y)
    if asked.mode == "lenient":
        if not len(found.y):
            raise InvalidInputError(f"{place_of(found)}label column {name!r} is empty")
        notes += [f"{gone} of {len(found)} rows have no {found.task.noun} in {name!r}"] if gone else []
        return replace(found, notes=tuple(notes))
    shortage = found.task.shortage(found.y, found.known)
    if shortage is not None:
        raise InvalidInputError(f"{place_of(found)}label column {name!r} has {shortage}")
    if gone:
        notes.append(f"{gone} of {len(found)} rows left out: {name!r} {found.task.missing} there")
    found = found.labelled
    if not found.schema.plain:
        notes += [found.summary, *(found.task.remarks(name, found.y) if asked.task == "auto" else [])]
    return replace(found, notes=tuple(notes))


def _blocks(source: Any, schema: Schema | Literal["numbers"] | None, asked: _Asked) -> Iterator[Rows]:
    schema = AS_THEY_STAND if schema == "numbers" else schema
    matrix = _as_matrix(source, asked) if schema is None else None
    if matrix is not None:
        yield matrix
        return
    with open_table(source, private=asked.mode == "private") as opened:
        opened.require(asked.named)
        if schema is None:
            yield _inferred_rows(_all_columns(opened, asked), asked)
        elif schema.plain:
            yield from _plain_blocks(opened, schema, asked)
        elif asked.mode == "lenient":
            yield _like(_all_columns(opened, asked, schema), schema, asked)
        else:
            schema = schema.with_encoders(asked.encoders).with_roles(asked.label, asked.person, asked.ignore)
            if asked.mode != "private":
                opened.require(known.name for known in (schema.label, schema.person) if known)
            yield from _declared_blocks(opened, schema, asked)


def joined(parts: list[Rows]) -> Rows:
    """Return the rows of several blocks, or of several tables with the same columns, as one.

    Parameters
    ----------
    parts : list of Rows
        At least one; a person may have rows in several.

    Returns
    -------
    Rows
        All of them, in this order.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first.X, np.ndarray):
        X: Any = np.concatenate([part.X for part in parts])
    else:
        columns = {name: one_column([part.X.columns[name] for part in parts]) for name in first.X}
        X = replace(first.X, columns=columns, n_rows=sum(map(len, parts)))
    return replace(
        first,
        X=X,
        y=None if first.y is None else _labels([part.y for part in parts]),
        persons=one_column([part.persons for part in parts])
        if first.schema.person
        else np.arange(1, 1 + sum(map(len, parts))),
        kept={name: one_column([part.kept[name] for part in parts]) for name in first.kept},
        known=np.concatenate([part.known for part in parts]),
    )


def one_column(parts: list[Any]) -> Any:
    """One column of several blocks or tables; numbers beside texts stay numbers."""
    if isinstance(parts[0], Parsed):
        values, problems = ([getattr(part, name) for part in parts] for name in ("values", "problems"))
        return Parsed(np.concatenate(values), np.concatenate(problems), parts[0].field)
    return join_blocks(parts)


def _labels(parts: list[Any]) -> AnyArray:
    """Labels of several blocks; where some of them are no whole numbers, all are texts."""
    mixed = len({part.dtype.kind for part in parts}) > 1
    return np.concatenate([part.astype(str) for part in parts] if mixed else parts)


# --- columns of numbers as they stand -----------------------------------------------------------------------


def _plain_blocks(source: Source, schema: Schema, asked: _Asked) -> Iterator[Rows]:
    """Matrices of the features that a schema of plain numbers names, or of all other columns."""
    if schema.label is not None and asked.label is None:
        asked = replace(asked, label=schema.label.name)
    wanted = _plain_features(source, schema, {*asked.others, *asked.ignore})
    unused = set(source.matrix or source.names) - {*wanted, *asked.others} if source.named else ()
    if not schema.features:
        schema = Schema.numbers(wanted if source.named else len(wanted))
    if asked.person is not None:
        schema = schema.with_fields((*schema.fields, Field(asked.person, "string", role="person")))
    task, first = NUMBERS if asked.task == NUMBERS.name else CLASSES, 1
    for cells in source.blocks([*wanted, *asked.others]):
        block = {name: plain_column(column) for name, column in cells.items()}
        X = np.column_stack([_numbers(source, name, block[name], first) for name in wanted])
        _require_finite(source, wanted, X, first)
        where = f"{source.path}: column {{!r}}".format
        texts = {name: as_text(where(name), block[name], first) for name in asked.others}
        y, known = None, np.ones(len(X), dtype=np.bool_)
        if asked.label is not None:
            y, known = task.plain(f"{source.path}: label column {asked.label!r}", texts[asked.label], first)
        persons = np.arange(first, first + len(X)) if asked.person is None else texts[asked.person]
        if persons.dtype.kind in "US":
            distinct_texts(where(asked.person), persons.astype(str), first)
        kept = {name: texts[name] for name in asked.keep}
        yield Rows(X, y, persons, schema, task, (), kept, known, source.path, len(unused))
        first += len(X)


def _plain_features(source: Source, schema: Schema, taken: set[str]) -> list[str]:
    """The feature columns in the order they are wanted."""
    features = [known.name for known in schema.features]
    for name in taken & {*features}:
        raise InvalidInputError(f"column {name!r} is a feature of the model: use another column")
    missing = [name for name in features if name not in source.names]
    if not source.named or schema.unnamed:
        named = [name for name in source.names if not is_index(name)]
        chosen = [name for name in source.matrix or named if name not in taken]
        if not chosen:
            raise InvalidInputError(f"{source.path}: no feature column is left")
        if len(chosen) != len(features or chosen):
            raise InvalidInputError(
                f"{source.path}: {len(chosen)} feature(s), the model was fitted with {len(features)}"
            )
        return chosen
    if missing:
        absent = f"{len(missing)} of the model's {len(features)} features missing"
        raise InvalidInputError(f"{source.path}: {absent}: {_shown([*map(repr, missing)])}")
    return features


def _numbers(source: Source, name: str, values: AnyArray, first: int) -> AnyArray:
    """A column as floating-point numbers: ``float32`` stays, everything else becomes ``float64``."""
    where = f"{source.path}: column {name!r}"
    if values.dtype.kind in "fiub":
        single = values.dtype.kind == "f" and values.dtype.itemsize <= 4
        return values.astype(np.float32 if single else np.float64, copy=False)
    cells, missing = cells_of(values)
    numbers = numbers_of(cells, missing, PLAIN_NUMBERS)
    gaps = missing.any()
    wrong = missing if gaps else np.isnan(numbers)
    if wrong.any():
        row = first + int(np.argmax(wrong))
        reason = f"is not numeric (row {row}): a schema declares texts and dates"
        raise InvalidInputError(f"{where} {f'has an empty cell in row {row}' if gaps else reason}")
    return numbers


def _require_finite(source: Source, names: Sequence[str], values: AnyArray, first: int) -> None:
    # One pass without a mask of the whole table: a sum is finite unless an entry is not (or it overflows).
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    row, column = np.unravel_index(np.argmin(np.isfinite(values)), values.shape)
    if not np.isfinite(values[row, column]):
        where = f"column {names[int(column)]!r}" if source.named else f"feature {int(column) + 1}"
        raise InvalidInputError(
            f"{source.path}: {where} has a NaN or infinite value in row {first + int(row)}"
        )


def _as_matrix(source: Any, asked: _Asked) -> Rows | None:
    """A matrix of numbers that needs no other schema: an array, or as many columns of one unit."""
    if asked.person is not None or asked.encoders or asked.task == NUMBERS.name:
        return None
    with open_table(source) as opened:
        opened.require(asked.named)
        is_array = opened.matrix is not None
        if not is_array and len(opened.names) <= WIDE:
            return None
        try:
            found = joined(list(_plain_blocks(opened, AS_THEY_STAND, asked)))
        except InvalidInputError:
            return None  # text or gaps: columns need a schema, and what is wrong with the table is said later
    if is_array:
        return found
    ranges = np.ptp(found.X, axis=0)
    one_unit = not ranges.any() or ranges.max() < ONE_UNIT * np.median(ranges[ranges > 0])
    return found if one_unit and not (asked.task == "auto" and may_be_amounts(found)) else None


def may_be_amounts(found: Rows) -> bool:
    """Whether labels of plain rows look like amounts rather than numbers of classes."""
    return found.y is not None and found.y.dtype.kind in "iu" and len(np.unique(found.y)) > MANY_CLASSES


# --- columns by a schema ------------------------------------------------------------------------------------


def _all_columns(source: Source, asked: _Asked, schema: Schema = AS_THEY_STAND) -> Table:
    """All columns of a file as they stand; those of an array without names are the features of a schema."""
    if source.named or source.matrix is None:
        return gather(source, source.names)
    # Beside an array without names stand others, which are no columns of the same table.
    table = gather(source, (*source.matrix, *asked.named))
    if schema is AS_THEY_STAND:
        return table
    features = [known.name for known in schema.features]
    if len(source.matrix) != len(features):
        features = [known.name for known in schema.fields if known.role != "label"]
    if len(source.matrix) != len(features):
        raise InvalidInputError(
            f"{source.path}: {len(source.matrix)} feature(s) without names, the model was fitted with "
            f"{len(features)}"
        )
    renamed = dict(zip(source.matrix, features, strict=True))
    return replace(table, columns={renamed.get(name, name): values for name, values in table.items()})


def _inferred_rows(table: Table, asked: _Asked) -> Rows:
    """Propose a schema from the rows that are learned from, on which no promise can rest, and read by it.

    Columns that have an encoder are features, whatever is in them.
    """
    persons = [] if asked.person is None else [asked.person]
    for name in asked.encoders:
        if name in (asked.label, *persons, *asked.ignore):
            raise InvalidInputError(f"--encoder names {name!r}, which is the label, the person, or left out")
    apart = {*asked.ignore, *persons, *asked.encoders}
    columns = {name: values for name, values in table.items() if name not in apart}
    try:
        schema = Schema.infer(columns, asked.label, source="private", task=asked.task)
    except InvalidInputError as error:
        raise InvalidInputError(f"{table.path}: {error}") from None
    others = [Field(name, "string", role="ignored") for name in asked.encoders]
    others += [Field(name, "string", role="person") for name in persons]
    schema = schema.with_fields((*schema.fields, *others)).with_encoders(asked.encoders)
    schema.require_feature(str(table.path))
    found = _of_columns(table, schema.beside(table.path), asked, "inferred")
    return replace(found, notes=(*_reason(found, asked.task), *_about_persons(schema, table)))


def _reason(found: Rows, task: str) -> list[str]:
    """Why a label that nobody has declared is not taken for classes, and how to have classes."""
    if task != "auto" or found.task is CLASSES:
        return []
    if np.any(found.y != np.rint(found.y)):
        return [f"{found.label!r} has fractions: it is predicted as a number (regression)"]
    return [
        f"{found.label!r} has {len(np.unique(found.y))} different whole numbers: it is predicted as a number "
        "(regression); --task classification takes them for classes"
    ]


def _about_persons(schema: Schema, table: Table) -> list[str]:
    """A column that looks like whom a row is about, several times, while nobody has said so."""
    if schema.person is not None:
        return []
    for known in schema.fields:
        if known.role == "identifier" and names_persons(known.name):
            values, missing = cells_of(table[known.name], MISSING_TOKENS)
            present = values[~missing].astype(str)
            if len(np.unique(present)) < len(present):
                return [
                    f"several rows have the same {known.name!r}: are they about one person? "
                    f"--person {known.name!r} keeps them together in estimates and tests"
                ]
    return []


def _declared_blocks(
    source: Source, schema: Schema, asked: _Asked, columns: Sequence[str] | None = None
) -> Iterator[Rows]:
    """The columns wanted, else those that a schema has a use for: features, and what is there to be used."""
    if columns is None:
        there = {known.name for known in schema.fields if known.role != "ignored"} & {*source.names}
        columns = [known.name for known in schema.fields if known.role == "feature" or known.name in there]
    source.require(columns)
    schema, first = schema.beside(source.path), 1
    wanted = [*dict.fromkeys((*columns, *asked.keep))]
    for block in source.blocks(wanted):
        table = Table(source.path, dict(block), len(next(iter(block.values()))))
        yield _of_columns(table, schema, asked, asked.mode, first)
        first += table.n_rows


def _of_columns(table: Table, schema: Schema, asked: _Asked, mode: str, first: int = 1) -> Rows:
    """Read columns as they stand by their fields; "strict" refuses a cell without a value.

    Under a promise label and persons are left to what makes the noise, as columns of the table.
    """
    private, place, tokens = mode == "private", f"{table.path}: ", tuple(schema.missing_values)
    columns, labels = dict(table.columns) if private else {}, None
    if schema.label is not None and not private:
        column = table.columns[schema.label.name]
        labels = _task(schema).declared(place, column, schema.label, tokens, first)
    for known in schema.fields:
        if known.name not in table or known.role not in (ENCODED_ROLES if private else ("feature",)):
            continue
        values, problems = known.read(table.columns[known.name], tokens)
        if mode == "strict":
            known.refuse(problems, first, place)
        columns[known.name] = Parsed(values, problems.astype(np.int8), known) if private else Parsed(values)
    return _made(table, columns, schema, labels, asked, first)


def _made(
    table: Table, columns: dict[str, Any], schema: Schema, labels: Any, asked: _Asked, first: int = 1
) -> Rows:
    has_persons = schema.person is not None and schema.person.name in table
    persons = schema.persons(table) if has_persons else np.arange(first, first + table.n_rows)
    y, known = (None, np.ones(table.n_rows, dtype=np.bool_)) if labels is None else labels
    kept = {name: table[name] for name in asked.keep}
    unused = set(table) - {known.name for known in schema.fields} - {asked.label, *asked.keep}
    X = Table(table.path, columns, table.n_rows)
    return Rows(X, y, persons, schema, _task(schema), (), kept, known, table.path, len(unused))


def _task(schema: Schema) -> Task:
    return NUMBERS if schema.predicts_number else CLASSES


# --- rows of another table than a model was fitted to -------------------------------------------------------


def _like(table: Table, schema: Schema, asked: _Asked) -> Rows:
    """Read a table that may write numbers and dates in another way, and say what is strange about it."""
    if asked.label in {known.name for known in schema.features}:
        raise InvalidInputError(f"column {asked.label!r} is a feature of the model: use another column")
    schema.fit(table)
    cells = {
        known.name: cells_like(known, table[known.name], _tokens_like(schema, known))
        for known in schema.beside(table.path).features
    }
    columns = {name: Parsed(values) for name, (values, _, _) in cells.items()}
    rewritten = [name for name, (_, is_rewritten, _) in cells.items() if is_rewritten]
    strange = [name for name, (_, _, is_strange) in cells.items() if is_strange]
    notes = []
    if rewritten:
        how = "written in another way than in the training table, read so"
        notes.append(f"{table.path}: {_listed(rewritten)} {how}")
    if strange:
        what = "say nothing that the model knows: used as if they were missing"
        notes.append(f"{table.path}: many cells of {_listed(strange)} {what}")
    result = _made(table, columns, schema, _labels_like(table, schema, asked), asked)
    return replace(result, notes=tuple(notes))


def _tokens_like(schema: Schema, known: Field) -> tuple[str, ...]:
    """Texts for a missing cell; where nobody declared them, also those that other programs write."""
    tokens = known.tokens(tuple(schema.missing_values))
    others = () if schema.source == "declared" else MISSING_TOKENS
    return (*tokens, *(token for token in others if token not in (*tokens, *known.levels)))


def _labels_like(table: Table, schema: Schema, asked: _Asked) -> Any:
    """Labels in the column that was named, or else in that of the schema, if it is there."""
    label, task = schema.label, _task(schema)
    if asked.label is not None:
        where, column = f"{table.path}: label column {asked.label!r}", table[asked.label]
        if label is None:
            return task.plain(where, column)
        return task.like(f"{where}: ", column, label.renamed(asked.label), _tokens_like(schema, label))
    if label is None or label.name not in table:
        return None
    return (schema.outputs if task is NUMBERS else schema.labels)(table, strict=False)


def _listed(names: Sequence[str]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {_shown([*map(repr, names)])}"


def _shown(names: Sequence[str]) -> str:
    return ", ".join([*names[:SHOWN_NAMES], *["..."] * (len(names) > SHOWN_NAMES)])
