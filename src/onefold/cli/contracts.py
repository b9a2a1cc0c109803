"""Tables of any kind for a model: a schema inferred or given, and rows read by it."""

import argparse
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Floats, Labels, Mask
from onefold.cli.console import busy
from onefold.exceptions import InvalidInputError
from onefold.tables import Field, Schema
from onefold.tables.cells import NumberFormat, cells_of, text_of
from onefold.tables.columns import Parsed
from onefold.tables.databases import is_address
from onefold.tables.fields import OUTSIDE, UNDECLARED, UNREADABLE
from onefold.tables.inference import (
    MANY_CLASSES,
    MISSING_TOKENS,
    NUMBER_FORMATS,
    guess_fields,
    names_persons,
)
from onefold.tables.reading import Table, columns_of, gather
from onefold.tables.sources import open_table

Rows = dict[str, Parsed]

SHOWN_NAMES = 5
SUFFIXES = (".gz", ".csv", ".tsv", ".npz", ".parquet", ".pq", ".sql")
WIDE = 200  # columns
ONE_UNIT = 10.0  # ratio of the largest range to the middle one
SOME_CLASSES = 10  # more classes of whole numbers may be amounts
STRANGE_SHARE = 0.2  # so many cells without a value make a column worth a remark


# --- files ------------------------------------------------------------------------------------------------


def read_columns(
    path: str,
    needed: Collection[str] = (),
    quiet: bool = True,
    *,
    schema: Schema | None = None,
    private: bool = False,
) -> Table:
    """All columns of a file as they stand there; ``needed`` ones must be among them.

    An array without names has the features of ``schema`` in their order, or all its columns but the label.
    """
    with busy(f"reading {path}", quiet), open_table(path, private=private) as source:
        source.require(needed)
        # Beside an array without names stand others, which are no columns of the same table.
        names = source.names if source.named or source.matrix is None else (*source.matrix, *needed)
        columns = gather(source, names, may_be_empty=private)
    if schema is not None and not source.named and source.matrix is not None:
        told = _named(path, source.matrix, schema)
        columns = {told.get(name, name): values for name, values in columns.items()}
    return Table(source.path, columns, len(next(iter(columns.values()))))


def _named(path: str, matrix: Sequence[str], schema: Schema) -> dict[str, str]:
    names = [known.name for known in schema.features]
    if len(matrix) != len(names):
        names = [known.name for known in schema.fields if known.role != "label"]
    if len(matrix) != len(names):
        raise InvalidInputError(
            f"{path}: {len(matrix)} feature(s) without names, the model was fitted with {len(names)}"
        )
    return dict(zip(matrix, names, strict=True))


def stem_of(path: str) -> str:
    """The name of a table without folder and suffixes, from which the names of results are made."""
    name = Path(path.rpartition("#")[2] if is_address(path) else path).name
    while Path(name).suffix.lower() in SUFFIXES:
        name = Path(name).stem
    return name


def is_matrix(path: str) -> bool:
    """Whether a file holds its features in one array, which needs no schema."""
    with open_table(path) as source:
        return source.matrix is not None


def is_wide(path: str) -> bool:
    """Whether a file has so many columns that they may be pixels or the like."""
    return len(columns_of(path)) > WIDE


def may_be_amounts(path: str, labels: AnyArray) -> bool:
    """Whether labels look like amounts; the whole numbers beside an array of features number classes."""
    many = labels.dtype.kind in "iu" and len(np.unique(labels)) > MANY_CLASSES
    return bool(many and not is_matrix(path))


def of_one_unit(rows: AnyArray) -> bool:
    """Whether the ranges of columns are alike, as those of pixels or of an embedding are."""
    ranges = np.ptp(rows, axis=0)
    return bool(ranges.max() < ONE_UNIT * np.median(ranges[ranges > 0])) if ranges.any() else True


# --- the schema of a fit ----------------------------------------------------------------------------------


def inferred(
    table: Table,
    label: str,
    ignore: Collection[str] = (),
    person: str | None = None,
    encoders: Mapping[str, str] | None = None,
    task: str = "classification",
) -> Schema:
    """Propose a schema from the rows that are learned from; nothing private may use it.

    Columns that have an encoder are features, whatever is in them.
    """
    encoders = encoders or {}
    for name in encoders:
        if name in (label, person, *ignore):
            raise InvalidInputError(f"--encoder names {name!r}, which is the label, the person, or left out")
    apart = {*ignore, *([] if person is None else [person]), *encoders}
    columns = {name: values for name, values in table.items() if name not in apart}
    try:
        found = Schema.infer(columns, label, source="private", task=task)
    except InvalidInputError as error:
        raise InvalidInputError(f"{table.path}: {error}") from None
    if person is not None:
        found = _with_fields(found, (*found.fields, Field(person, "string", role="person")))
    if encoders:
        texts = [Field(name, "string", role="ignored") for name in encoders]
        found = _with_fields(found, (*found.fields, *texts)).with_encoders(encoders)
    return _with_feature(found, str(table.path))


def declared(
    path: str,
    label: str | None,
    ignore: Collection[str] = (),
    person: str | None = None,
    encoders: Mapping[str, str] | None = None,
    task: str = "classification",
) -> Schema:
    """The schema in a file, with the columns that the command line names in their roles."""
    schema = Schema.load(path).with_encoders(encoders or {})
    for role, name in (("label", label), ("person", person)):
        if name is not None:
            schema = _with_role(schema, name, role)
    for name in ignore:
        schema = _with_role(schema, name, "ignored")
    if schema.label is None:
        raise InvalidInputError(
            f'{path}: the schema has no label: give --label COL, or set "onefold:role" of a field to "label"'
        )
    if task == "regression":
        if not schema.predicts_number:
            raise InvalidInputError(f"{path}: the label {schema.label.name!r} is no number with a range")
    elif not schema.label.is_category:
        raise InvalidInputError(
            f"{path}: the label {schema.label.name!r} is a number; list its classes in constraints.enum, or "
            "give --task regression"
        )
    return _with_feature(schema, path)


NO_TEST = (
    "--test-size does not go with --epsilon: an accuracy on held-out rows is an answer about them that no "
    "epsilon covers; keep rows aside and give them to onefold predict --label, for your eyes only"
)
NO_SCHEMA = (
    "--epsilon needs --schema FILE: what noise has to hide follows from declared ranges and categories, "
    "never from the rows (onefold schema infer proposes one from a public sample)"
)


def private_schema(
    args: argparse.Namespace, encoders: Mapping[str, str], task: str = "classification"
) -> Schema:
    """The declared schema on which a promise can rest, for records or for persons."""
    if args.test_size is not None:
        raise InvalidInputError(NO_TEST)
    if args.schema is None or args.raw:
        raise InvalidInputError(NO_SCHEMA)
    schema = declared(args.schema, args.label, args.ignore, args.person, encoders, task)
    if args.unit == "person" and schema.person is None:
        raise InvalidInputError("--unit person needs a column of persons: give --person COL")
    if args.unit == "record":
        return without_person(schema)
    if schema.person is not None and schema.rows_per_person is None:
        raise InvalidInputError(
            f'{args.schema}: a guarantee for persons needs "rowsPerPerson" under "onefold", the most rows '
            "of one that count; --unit record promises nothing for persons"
        )
    return schema


def without_person(schema: Schema) -> Schema:
    """The same schema for a promise to records: the column of persons is left out."""
    return schema if schema.person is None else _with_role(schema, schema.person.name, "ignored")


def _with_role(schema: Schema, name: str, role: str) -> Schema:
    if schema.field(name).role == "label" and role != "label":
        raise InvalidInputError(f"column {name!r} is the label: it cannot be {role}")
    single = role in ("label", "person")
    fields = [
        replace(known, role=role)
        if known.name == name
        else (replace(known, role="ignored") if single and known.role == role else known)
        for known in schema.fields
    ]
    return _with_fields(schema, fields)


def _with_fields(schema: Schema, fields: Sequence[Field]) -> Schema:
    return Schema(tuple(fields), **{k: v for k, v in schema.get_params(deep=False).items() if k != "fields"})


def _with_feature(schema: Schema, where: str) -> Schema:
    if not schema.features:
        raise InvalidInputError(
            f"{where}: no feature column is left: the others are empty, constant, or different in every row"
        )
    return schema


def in_one_line(schema: Schema, rows: Rows, model: str | None = None) -> str:
    """What a schema says about its columns, how many cells are missing, and which model shows it all."""
    kinds = [_kind(known) for known in schema.features]
    words = (("number", "numbers"), ("category", "categories"), ("date", "dates"), ("encoded", "encoded"))
    counts = [(kinds.count(one), one, many) for one, many in words]
    parts = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
    out = [known.name for known in schema.fields if known.role in ("ignored", "identifier", "person")]
    if out:
        more = ", ..." if len(out) > SHOWN_NAMES else ""
        parts.append(f"{len(out)} left out ({', '.join(out[:SHOWN_NAMES])}{more})")
    cells = sum(len(column) for column in rows.values())
    missing = sum(int(no_value(column.values).sum()) for column in rows.values())
    told = [f"{len(schema.fields)} columns: the label, {', '.join(parts)}"]
    told += [f"{_percent(missing / max(cells, 1))} of cells missing"] if missing else []
    return "; ".join(told if model is None else [*told, f"onefold schema show {model} shows it"])


def _kind(known: Field) -> str:
    if known.encoder is not None:
        return "encoded"
    if known.is_category:
        return "category"
    return "date" if known.type in ("date", "datetime") else "number"


def no_value(values: AnyArray) -> Mask:
    """Which cells that were read have no value."""
    if values.ndim == 2:  # behind an encoder
        values = values[:, 0]
    return np.asarray(np.isnan(values) if values.dtype.kind == "f" else values < 0, dtype=np.bool_)


def _percent(share: float) -> str:
    return "less than 1 %" if share < 0.01 else f"{100 * share:.0f} %"


# --- rows -------------------------------------------------------------------------------------------------


def rows_of(schema: Schema, table: Table, *, strict: bool) -> Rows:
    """Read the features; ``strict`` refuses a cell without a value in the schema, naming row and column."""
    schema.fit(table)
    rows = {}
    for known in schema.beside(table.path).features:
        values, problems = known.read(table[known.name], tuple(schema.missing_values))
        if strict:
            known.refuse(problems, where=f"{table.path}: ")
        rows[known.name] = _settled(values)
    return rows


def take(rows: Mapping[str, Parsed], which: Any) -> Rows:
    """Some of the rows."""
    return {name: column[which] for name, column in rows.items()}


def answers_of(schema: Schema, table: Table) -> tuple[AnyArray, Mask]:
    """The class or number of each row that has one, and which rows have; what is none is refused."""
    label = schema.label
    assert label is not None
    if label.name not in table:
        schema.labels(table)  # names the column that is near
    values, problems = label.read(table[label.name], tuple(schema.missing_values))
    wrong = (UNREADABLE,) if schema.predicts_number else (UNREADABLE, UNDECLARED)
    label.refuse(np.where(np.isin(problems, wrong), problems, 0), where=f"{table.path}: ")
    known = ~no_value(values)
    return np.asarray(values[known] if schema.predicts_number else label.show(values[known])), known


def wants_numbers(args: argparse.Namespace) -> bool:
    """Whether a number is to be predicted: by ``--task``, or because the schema declares one."""
    if args.task is not None or args.schema is None:
        return bool(args.task == "regression")
    schema = Schema.load(args.schema)
    label = schema.label if args.label is None else schema.field(args.label)
    return label is not None and not label.is_category and label.type in ("number", "integer")


def why_a_number(name: str, outputs: Floats) -> str:
    """Why a label that nobody has declared is not taken for classes, and how to have classes."""
    if np.any(outputs != np.rint(outputs)):
        return f"{name!r} has fractions: it is predicted as a number (regression)"
    return (
        f"{name!r} has {len(np.unique(outputs))} different whole numbers: it is predicted as a number "
        "(regression); --task classification takes them for classes"
    )


def about_classes(name: str, labels: Labels) -> list[str]:
    """What may be wrong with the column of classes: a class written in several ways, or an amount."""
    classes = np.unique(labels)
    if classes.dtype.kind in "iu":
        if len(classes) <= SOME_CLASSES:
            return []
        return [
            f"{len(classes)} classes of whole numbers: is {name!r} an amount? "
            "--task regression predicts numbers, --task classification leaves out this line"
        ]
    alike = {" ".join(str(label).casefold().split()) for label in classes.tolist()}
    if len(alike) == len(classes):
        return []
    return [
        f"{len(classes)} classes, but {len(alike)} if upper and lower case and blanks are left aside: "
        f"is a class in {name!r} written in several ways?"
    ]


def about_persons(schema: Schema, table: Table) -> list[str]:
    """A column that looks like whom a row is about, several times, while nobody has said so."""
    if schema.person is not None or schema.source != "private":
        return []
    named = (
        known.name for known in schema.fields if known.role == "identifier" and names_persons(known.name)
    )
    for name in named:
        values, missing = cells_of(table[name], MISSING_TOKENS)
        present = values[~missing].astype(str)
        if len(np.unique(present)) < len(present):
            return [
                f"several rows have the same {name!r}: are they about one person? "
                f"--person {name!r} keeps them together in estimates and tests"
            ]
    return []


def _settled(values: AnyArray) -> Parsed:
    """Cells about which everything is said: without a value they are encoded as the schema declares."""
    return Parsed(values, np.zeros(len(values), dtype=np.int8))


# --- rows of another file than the model was fitted on ------------------------------------------------------


def rows_like(schema: Schema, table: Table) -> tuple[Rows, list[str]]:
    """Read the features of a table that may write numbers and dates in another way, and what to say of it."""
    schema.fit(table)
    rows, rewritten, strange = {}, [], []
    for known in schema.beside(table.path).features:
        tokens = _tokens(schema, known)
        column, name = table[known.name], known.name
        values, problems = known.read(column, tokens)
        wrong = _wrong(problems)
        other = _in_its_own_way(known, column, tokens) if wrong > STRANGE_SHARE else None
        if other is not None:
            guess, guess_problems = other.read(column, tokens)
            if _wrong(guess_problems) < wrong - STRANGE_SHARE:
                values, problems = guess, guess_problems
                rewritten.append(name)
        if float(np.mean(np.isin(problems, (UNREADABLE, UNDECLARED)))) > STRANGE_SHARE:
            strange.append(name)
        rows[name] = _settled(values)
    told = []
    if rewritten:
        told.append(
            f"{table.path}: {_listed(rewritten)} written in another way than in the training table, read so"
        )
    if strange:
        told.append(
            f"{table.path}: many cells of {_listed(strange)} say nothing that the model knows: "
            "used as if they were missing"
        )
    return rows, told


def _tokens(schema: Schema, known: Field) -> tuple[str, ...]:
    """Texts for a missing cell; where nobody declared them, also those that other programs write."""
    own = tuple(schema.missing_values) if known.missing_values is None else tuple(known.missing_values)
    if schema.source == "declared":
        return own
    return (*own, *(token for token in MISSING_TOKENS if token not in own and token not in known.levels))


def _wrong(problems: AnyArray) -> float:
    """Share of cells that cannot be what the column is about."""
    return float(np.mean(np.isin(problems, (UNREADABLE, OUTSIDE))))


def _in_its_own_way(known: Field, column: Any, tokens: tuple[str, ...]) -> Field | None:
    """The same field for numbers or dates as this column writes them; None if there is no other way."""
    if known.is_category or known.encoder is not None or cells_of(column)[0].dtype.kind != "O":
        return None
    if known.type in ("date", "datetime"):
        guess = guess_fields([{known.name: column}])[0][0]
        return replace(known, format=guess.format) if guess.type in ("date", "datetime") else None
    ways: list[tuple[float, NumberFormat]] = []
    for written in NUMBER_FORMATS:
        ways.append((_wrong(replace(known, written=written).read(column, tokens)[1]), written))
    return replace(known, written=min(ways, key=lambda way: way[0])[1])


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:SHOWN_NAMES])
    return f"column{'s' if len(names) > 1 else ''} {shown}{', ...' if len(names) > SHOWN_NAMES else ''}"


def answers_like(schema: Schema, table: Table, name: str) -> tuple[AnyArray, Mask]:
    """True classes or numbers in the column ``name`` and which rows have one.

    Classes that the model lacks stay as texts.
    """
    label = schema.label
    assert label is not None
    tokens = _tokens(schema, label)
    codes, problems = label.read(table[name], tokens)
    if schema.predicts_number:
        if np.any(problems == UNREADABLE):
            raise InvalidInputError(f"{table.path}: label column {name!r} holds cells that are no numbers")
        return np.asarray(codes[np.isfinite(codes)]), np.isfinite(codes)
    values, missing = cells_of(table[name], tokens)
    present: Mask = ~missing
    if np.all(codes[present] >= 0):
        return np.asarray(label.show(codes[present])), present
    shown = label.show(np.maximum(codes, 0)).astype(str)
    texts = [
        shown[place] if codes[place] >= 0 else text_of(values[place]) for place in np.flatnonzero(present)
    ]
    return np.array(texts, dtype=str), present
