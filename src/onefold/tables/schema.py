"""The declared contract of a table: its file, its digest, and the code between tables and rows of numbers."""

import hashlib
import json
import math
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from onefold._base.arrays import AnyArray, Arrays, Floats, Labels, Mask
from onefold._base.files import read_saved, write_whole
from onefold._base.foreign import parse_json
from onefold._base.validation import OneOf, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.tables import declarations
from onefold.tables.cells import cells_of, texts_of
from onefold.tables.columns import Parsed, column_of, count_rows, named, names_of, place_of, unknown_column
from onefold.tables.fields import Field
from onefold.tables.inference import MISSING_TOKENS, guess_fields

__all__ = ["Finding", "Schema", "check_table", "differing"]

PROFILE = "https://datapackage.org/profiles/2.0/tableschema.json"
VERSION = 1

LARGEST_FILE = 20_000_000
SHOWN_NAMES = 8
SHOWN_ROWS = 5
UNNAMED = "#"  # begins the names of columns that have none


class Schema(TransformerMixin, BaseEstimator):
    """The declared contract of a table, from which encoding, sensitivity and output types follow.

    Nothing is learned from rows: ``fit`` only checks that the columns are there.

    Parameters
    ----------
    fields : sequence of Field
        The columns, in the order of the table.
    name : str, default=""
        Name of the table.
    missing_values : tuple of str, default=("",)
        Texts that stand for a missing cell.
    rows_about : int or None, default=None
        How many rows tables of this kind have, roughly, from public knowledge.
    rows_per_person : int or None, default=None
        The most rows that may count for one person.
    source : {"declared", "public", "private"}, default="declared"
        Where the declaration comes from: people, a public sample, or private rows. The last is part of the
        digest, and everything that promises privacy refuses it.

    See Also
    --------
    Field : What is declared about one column.
    read_table : Reads a file by this contract.

    Notes
    -----
    *Guarantees.* :meth:`transform`, :meth:`parse` and :meth:`show` treat every row by itself: which columns,
    types and widths come out depends on the declaration alone.

    Examples
    --------
    >>> from onefold.tables import Field, Schema
    >>> ward = Field("ward", "string", levels=("a", "b"))
    >>> schema = Schema([Field("age", "integer", low=0, high=100), ward])
    >>> schema.transform({"age": [25, 50], "ward": ["b", "a"]}).round(2).tolist()
    [[0.25, 0.0, 0.71], [0.5, 0.71, 0.0]]
    >>> schema.get_feature_names_out().tolist()
    ['age', 'ward=a', 'ward=b']
    """

    def __init__(
        self,
        fields: Sequence[Field],
        *,
        name: str = "",
        missing_values: Sequence[str] = ("",),
        rows_about: int | None = None,
        rows_per_person: int | None = None,
        source: str = "declared",
    ) -> None:
        self.fields = fields
        self.name = name
        self.missing_values = missing_values
        self.rows_about = rows_about
        self.rows_per_person = rows_per_person
        self.source = source
        if isinstance(fields, (str, bytes)) or not all(isinstance(known, Field) for known in fields):
            raise InvalidInputError("fields must be a sequence of Field")
        declarations.check_schema(self)

    @classmethod
    def infer(
        cls,
        X: Any,
        label: str | None = None,
        *,
        source: str = "public",
        name: str = "",
        task: str = "classification",
    ) -> "Schema":
        """Propose a schema from sample rows; every guess is marked, until :meth:`confirm` takes the mark off.

        Parameters
        ----------
        X : table or iterable of tables
            A frame, a dict of columns, a table that was read, or such tables block by block.
        label : str or None, default=None
            The column of classes, or of numbers to predict.
        source : {"public", "private"}, default="public"
            Whether the rows are a public sample. "private" is for models without a promise of privacy:
            ranges and categories give rows away, the digest says so, and everything private refuses it.
        name : str, default=""
            Name of the table.
        task : {"classification", "regression", "auto"}, default="classification"
            Whether the label is a class, or a number to predict, for which a range is proposed. "auto" takes
            a label for a number if it has fractions or more than 20 different whole numbers.

        Returns
        -------
        Schema
            The proposal.

        Examples
        --------
        >>> from onefold.tables import Schema
        >>> rows = {"age": [31, 64, 17], "ill": ["no", "yes", "no"]}
        >>> Schema.infer(rows, label="ill").classes.tolist()
        ['no', 'yes']
        """
        check_parameter("source", source, OneOf(("public", "private")))
        check_parameter("task", task, OneOf(("classification", "regression", "auto")))
        if isinstance(X, (str, os.PathLike)):
            raise InvalidInputError(
                "a schema is inferred from a table, not from a name: give read_table(FILE)"
            )
        blocks = [X] if hasattr(X, "columns") or isinstance(X, Mapping) else X
        fields, n_rows = guess_fields(blocks, label, closed=source == "private", task=task)
        if not n_rows:
            raise InvalidInputError(f"{place_of(X)}the table has no rows")
        return cls(fields, name=name, missing_values=MISSING_TOKENS, source=source)

    @classmethod
    def numbers(
        cls, names: Sequence[str] | int, low: float | None = None, high: float | None = None
    ) -> "Schema":
        """Declare columns of numbers that are used as they stand, such as pixels or an embedding.

        Parameters
        ----------
        names : sequence of str or int
            The columns, or how many there are where only their places are known.
        low : float or None, default=None
            Smallest value of every column; None where nothing is declared, and then nothing can be private.
        high : float or None, default=None
            Largest value.

        Returns
        -------
        Schema
            A schema whose encoding changes nothing.

        Examples
        --------
        >>> from onefold.tables import Schema
        >>> Schema.numbers(["a", "b"]).transform([[1.5, 7.0]]).tolist()
        [[1.5, 7.0]]
        """
        if isinstance(names, int):
            names = [f"{UNNAMED}{number}" for number in range(1, names + 1)]
        first = Field(UNNAMED, scale="plain", low=low, high=high)
        return cls(tuple(first.renamed(name) for name in names))

    @classmethod
    def of(cls, given: "Schema | None") -> "Schema":
        """Return a schema where it was left out: that of numbers as they stand, however many there are.

        Parameters
        ----------
        given : Schema or None
            What somebody declared, if anything.

        Returns
        -------
        Schema
            The same, or one without features that changes no row.

        Raises
        ------
        InvalidInputError
            It is no schema.
        """
        if not isinstance(given, Schema | None):
            raise InvalidInputError("schema must be a Schema, or None: Schema.load reads one from a file")
        return AS_THEY_STAND if given is None else given

    # --- what is declared -----------------------------------------------------------------------------------

    @property
    def features(self) -> tuple[Field, ...]:
        """The columns that are learned from."""
        return tuple(known for known in self.fields if known.role == "feature")

    @property
    def label(self) -> Field | None:
        """The column of classes, if there is one."""
        return next((known for known in self.fields if known.role == "label"), None)

    @property
    def person(self) -> Field | None:
        """The column that says whom a row is about, if there is one."""
        return next((known for known in self.fields if known.role == "person"), None)

    @property
    def classes(self) -> Labels | None:
        """The declared classes, sorted; None without a label or if it is a number."""
        label = self.label
        if label is None or not label.is_category:
            return None
        return np.sort(np.array(label.levels, dtype=label.dtype))

    @property
    def plain(self) -> bool:
        """Whether all features are numbers that are used as they stand."""
        features = self.features
        return all(known.scale == "plain" for known in features) if features else self.unnamed

    @property
    def unnamed(self) -> bool:
        """Whether features are known by their places alone: those of a matrix without names."""
        named = self.features or self.fields
        return all(known.name.startswith(UNNAMED) and not known.is_category for known in named)

    @property
    def to_review(self) -> tuple[Field, ...]:
        """Columns of which something was guessed that nobody has confirmed."""
        return tuple(known for known in self.fields if known.review)

    def field(self, name: str) -> Field:
        """Return what is declared about a column.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        Field
            The declaration.
        """
        for known in self.fields:
            if known.name == name:
                return known
        raise unknown_column(name, [known.name for known in self.fields], "the schema")

    def require_declared(self) -> None:
        """Refuse a schema that was taken from private rows: it would give away what noise protects."""
        if self.source == "private":
            raise InvalidInputError(
                "this schema was inferred from private rows, so its ranges and categories give them away: "
                "declare it from public knowledge, or infer it from a public sample"
            )
        if self.plain and any(known.low is None for known in self.features):
            raise InvalidInputError("numbers as they stand have no declared range: nothing can be promised")

    def require_confirmed(self, where: str = "SCHEMA") -> None:
        """Refuse a schema on which no promise can rest: of private rows, or with guesses nobody confirmed.

        Parameters
        ----------
        where : str, default="SCHEMA"
            The file of the schema, for the message.
        """
        try:
            self.require_declared()
        except InvalidInputError as error:
            raise InvalidInputError(f"{where}: {error}") from None
        names = [repr(known.name) for known in self.to_review]
        if names:
            shown = ", ".join(names[:SHOWN_NAMES])
            more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
            raise InvalidInputError(
                f"{where}: nobody has confirmed what was guessed about {shown}{more}: correct it, "
                f"then run onefold schema confirm {shlex.quote(where)} --column NAME --ground TEXT"
            )

    def confirm(
        self, columns: Sequence[str] | None = None, *, ground: str, by: str, on: str | None = None
    ) -> "Schema":
        """Return the schema after somebody has confirmed what was guessed; guarantees quote the ground.

        Parameters
        ----------
        columns : sequence of str or None, default=None
            Columns that somebody has looked at. None confirms all that are marked, if ``ground`` is the
            public source from which they were inferred.
        ground : str
            From where it is known without the private rows: a code book, a law, a public sample.
        by : str
            Who answers for it.
        on : str or None, default=None
            The day; None is today.

        Returns
        -------
        Schema
            A new schema, whose named columns have no mark.

        See Also
        --------
        infer : Marks what it guesses.

        Examples
        --------
        >>> from onefold.tables import Schema
        >>> guessed = Schema.infer({"age": [31, 64, 17], "ill": ["no", "yes", "no"]}, label="ill")
        >>> [known.name for known in guessed.confirm(["age"], ground="code book", by="anna").to_review]
        ['ill']
        """
        self.require_declared()
        chosen = [known.name for known in self.to_review] if columns is None else list(columns)
        if not chosen:
            raise InvalidInputError("there is nothing to confirm: no column is marked, or none was named")
        for name in chosen:
            self.field(name)
        day = datetime.now(UTC).date().isoformat() if on is None else on
        word = declarations.Confirmation(by, day, ground, columns is None)
        return self.with_fields(
            replace(known, review="", confirmed=word) if known.name in chosen else known
            for known in self.fields
        )

    def with_encoders(self, places: Mapping[str, Any]) -> "Schema":
        """Return the schema with encoders for columns of texts, or with the files of those it declares.

        Parameters
        ----------
        places : mapping of str to path, CellEncoder or encoder
            By the name of a column: an ONNX file or a folder of a sentence encoder, an
            :class:`~onefold.encoders.OnnxEncoder` or the like. Where the schema declares an encoder, another
            one is refused. Where it does not, the column becomes a feature with this encoder, whose missing
            cells are marked.

        Returns
        -------
        Schema
            A new schema.
        """
        changed = {name: self.field(name).with_encoder(place) for name, place in places.items()}
        return self.with_fields(changed.get(each.name, each) for each in self.fields)

    def beside(self, path: Any) -> "Schema":
        """Return the schema for a table in a file: images that cells name are in the folder of the table.

        Parameters
        ----------
        path : Path or object
            Where the table is; anything but a path leaves the schema as it is.

        Returns
        -------
        Schema
            The same, or a new schema.
        """
        fields = tuple(known.beside(path) for known in self.fields)
        if all(new is old for new, old in zip(fields, self.fields, strict=True)):
            return self
        return self.with_fields(fields)

    def with_roles(
        self, label: str | None = None, person: str | None = None, ignore: Iterable[str] = ()
    ) -> "Schema":
        """Return the schema with columns in other roles; what had the role of the label is left out.

        Parameters
        ----------
        label : str or None, default=None
            The column to predict; None keeps what is declared.
        person : str or None, default=None
            The column that says whom a row is about; None keeps what is declared.
        ignore : iterable of str, default=()
            Columns to leave out.

        Returns
        -------
        Schema
            A new schema.
        """
        roles = dict.fromkeys(ignore, "ignored")
        roles |= {name: role for name, role in ((label, "label"), (person, "person")) if name is not None}
        taken = {role for role in roles.values() if role != "ignored"}
        for name, role in roles.items():
            if self.field(name).role == "label" and role != "label" and "label" not in taken:
                raise InvalidInputError(f"column {name!r} is the label: it cannot be {role}")
        return self.with_fields(
            replace(known, role=roles.get(known.name, "ignored" if known.role in taken else known.role))
            if known.name in roles or known.role in taken
            else known
            for known in self.fields
        )

    def without_person(self) -> "Schema":
        """Return the schema for a promise to records: the column of persons is left out.

        Returns
        -------
        Schema
            The same, or a new schema.
        """
        return self if self.person is None else self.with_roles(ignore=[self.person.name])

    def require_feature(self, where: str) -> None:
        """Refuse a schema from which nothing can be learned.

        Parameters
        ----------
        where : str
            The file of the table or the schema, for the message.
        """
        if not self.features:
            raise InvalidInputError(
                f"{where}: no feature column is left: the others are empty, constant, or different in every "
                "row"
            )

    def with_fields(self, fields: Iterable[Field]) -> "Schema":
        """Return the schema with other fields.

        Parameters
        ----------
        fields : iterable of Field
            The columns.

        Returns
        -------
        Schema
            A new schema that says the same about the whole table.
        """
        return Schema(**self.get_params(deep=False) | {"fields": tuple(fields)})

    # --- sensitivity ----------------------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Number of encoded columns of the features."""
        return sum(known.width for known in self.features)

    def width_of(self, X: Any) -> int:
        """Return the number of encoded columns of a table; those of a matrix where nothing is declared.

        Parameters
        ----------
        X : table or array-like of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        int
            How many numbers a row becomes.
        """
        return self.width if self.features else int(np.shape(X)[-1])

    @property
    def row_norm(self) -> float:
        """Largest Euclidean length of an encoded row: what a record more or less changes."""
        return _root(known.norm_squared for known in self.features)

    @property
    def row_change(self) -> float:
        """Largest Euclidean change of an encoded row if the record is replaced."""
        return _root(known.change_squared for known in self.features)

    @property
    def entry_change(self) -> float:
        """Largest Euclidean change of an encoded row if one cell is replaced."""
        return _root([max((known.change_squared for known in self.features), default=0.0)])

    # --- tables in, numbers out -----------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check that a table has the columns of the features; nothing is learned.

        Parameters
        ----------
        X : table
            A frame, a dict of columns or a table that was read.
        y : object, default=None
            Not used.

        Returns
        -------
        Schema
            This object.
        """
        for known in self.features:
            column_of(X, known.name, self.fields)
        return self

    def transform(self, X: Any) -> Floats:
        """Encode the features of a table as rows of numbers from 0 to 1.

        A cell without a value in the contract is encoded as "no value": see :meth:`Field.encode`.

        Parameters
        ----------
        X : table
            A frame, a dict of columns, a table that was read, or an array with one column per feature.

        Returns
        -------
        ndarray of shape (n_rows, width)
            Encoded rows.
        """
        if self.plain and not (self.features and (hasattr(X, "columns") or isinstance(X, Mapping))):
            return X if not self.features else np.asarray(X)
        return self.encode(self.parse(X, strict=False))

    def inverse_transform(self, X: Any) -> Arrays:
        """Return the table that encoded rows stand for.

        Parameters
        ----------
        X : array-like of shape (n_rows, width)
            Encoded rows, also with noise.

        Returns
        -------
        dict of str to ndarray
            Columns of the features, of the declared types.
        """
        return self.show(self.decode(np.asarray(X, dtype=np.float64)))

    def get_feature_names_out(self, input_features: Any = None) -> AnyArray:
        """Return the names of the encoded columns.

        Parameters
        ----------
        input_features : object, default=None
            Not used.

        Returns
        -------
        ndarray of str
            Names such as "age" and "ward=cardio".
        """
        return np.array([name for known in self.features for name in known.names_out], dtype=object)

    def parse(self, X: Any, *, strict: bool = True, roles: Sequence[str] = ("feature",)) -> Arrays:
        """Read the cells of a table.

        Parameters
        ----------
        X : table
            A frame, a dict of columns, a table that was read, or an array with one column per feature.
        strict : bool, default=True
            Refuse a cell that has no value in the contract, naming its row and column. Otherwise it is NaN
            or -1: where privacy is promised an error would be an answer about the data.
        roles : sequence of str, default=("feature",)
            Which columns to read: "feature", "label" or both.

        Returns
        -------
        dict of str to ndarray
            Numbers with NaN for no value, or numbers of categories with -1 for none; rows of numbers for
            cells that have an encoder.
        """
        parsed: Arrays = {}
        for known in self.beside(getattr(X, "path", None)).fields:
            if known.role not in roles or known.role not in declarations.ENCODED_ROLES:
                continue
            column = column_of(X, known.name, self.fields)
            if isinstance(column, Parsed):
                column.check_field(known)
                parsed[known.name], problems = column.values, column.problems
            else:
                parsed[known.name], problems = known.read(column, tuple(self.missing_values))
            if strict:
                known.refuse(problems, where=place_of(X))
        if len({len(values) for values in parsed.values()}) > 1:
            raise InvalidInputError(f"{place_of(X)}the columns of the table must have equally many rows")
        return parsed

    def encode(self, parsed: Mapping[str, AnyArray]) -> Floats:
        """Encode cells that were read.

        Parameters
        ----------
        parsed : dict of str to ndarray
            What :meth:`parse` returned.

        Returns
        -------
        ndarray of shape (n_rows, width)
            Encoded rows.
        """
        if not self.features:
            raise InvalidInputError("the schema has no feature: declare a column that can be learned from")
        return np.hstack([known.encode(parsed[known.name]) for known in self.features])

    def decode(self, encoded: Floats) -> Arrays:
        """Return the cells that encoded rows stand for, also if these carry noise.

        Parameters
        ----------
        encoded : ndarray of shape (n_rows, width)
            Encoded rows.

        Returns
        -------
        dict of str to ndarray
            Cells as :meth:`parse` returns them.
        """
        if encoded.ndim != 2 or encoded.shape[1] != self.width:
            raise InvalidInputError(f"expected encoded rows of {self.width} columns")
        found, at = {}, 0
        for known in self.features:
            found[known.name] = known.decode(encoded[:, at : at + known.width])
            at += known.width
        return found

    def show(self, parsed: Mapping[str, AnyArray]) -> Arrays:
        """Return cells that were read as columns of the declared types.

        Parameters
        ----------
        parsed : dict of str to ndarray
            Cells as :meth:`parse` returns them.

        Returns
        -------
        dict of str to ndarray
            Columns to write, in the order of the schema.
        """
        return {known.name: known.show(parsed[known.name]) for known in self.fields if known.name in parsed}

    def labels(self, X: Any, *, strict: bool = True) -> tuple[Labels, Any]:
        """Return the class of each row, and which rows have one.

        Parameters
        ----------
        X : table
            A frame, a dict of columns or a table that was read.
        strict : bool, default=True
            Refuse a row whose class is missing or not declared.

        Returns
        -------
        labels : ndarray of shape (n_known,)
            Classes of the rows that have one.
        known : ndarray of bool of shape (n_rows,)
            Whether a row has a declared class.
        """
        label, codes = self._labels(X, strict)
        if not label.is_category:
            raise InvalidInputError(
                f"the label {label.name!r} is a number; list its classes in constraints.enum"
            )
        return label.present(codes)

    def _labels(self, X: Any, strict: bool) -> tuple[Field, AnyArray]:
        """The label, and its cells as they were read."""
        if self.label is None:
            raise InvalidInputError('the schema has no label: set "onefold:role" of a field to "label"')
        return self.label, self.parse(X, strict=strict, roles=("label",))[self.label.name]

    @property
    def predicts_number(self) -> bool:
        """Whether the label is a number, with a declared range, instead of a class."""
        label = self.label
        return label is not None and label.is_amount

    def outputs(self, X: Any, *, strict: bool = True) -> tuple[Floats, Mask]:
        """Return the number that the label column holds for each row, and which rows have one.

        Parameters
        ----------
        X : table
            A frame, a dict of columns or a table that was read.
        strict : bool, default=True
            Refuse a row whose label is missing, no number, or outside the declared range.

        Returns
        -------
        outputs : ndarray of shape (n_known,)
            Numbers of the rows that have one, clipped to the declared range.
        known : ndarray of bool of shape (n_rows,)
            Whether a row has a number.
        """
        label, numbers = self._labels(X, strict)
        if not self.predicts_number:
            raise InvalidInputError(
                f"the label {label.name!r} is no number with a range: declare minimum and maximum, no classes"
            )
        found, known = label.present(numbers)
        return np.clip(found, label.low, label.high), known

    def persons(self, X: Any) -> AnyArray:
        """Return whom each row is about, as texts; empty where it is missing.

        Parameters
        ----------
        X : table
            A frame, a dict of columns or a table that was read.

        Returns
        -------
        ndarray of str of shape (n_rows,)
            Texts that are equal for rows of the same person.
        """
        person = self.person
        if person is None:
            raise InvalidInputError('the schema has no person: set "onefold:role" of a field to "person"')
        column = column_of(X, person.name, self.fields)
        values, missing = cells_of(column, person.tokens(tuple(self.missing_values)))
        texts = np.array(list(texts_of(values)), dtype=object)
        texts[missing] = ""
        return texts

    # --- the file, and what sites compare -------------------------------------------------------------------

    def to_dict(self, folder: Path | None = None) -> dict[str, Any]:
        """Return the content of a schema file.

        Parameters
        ----------
        folder : Path or None, default=None
            Folder of the file, for which paths of encoders are written; None leaves them out, as in a model.

        Returns
        -------
        dict
            JSON values in the Frictionless Table Schema format.
        """
        return {
            "$schema": PROFILE,
            **({"name": self.name} if self.name else {}),
            "fields": [known.entry(folder) for known in self.fields],
            "missingValues": list(self.missing_values),
            "onefold": self._own_keys,
        }

    @classmethod
    def from_dict(cls, given: Any, folder: Path | None = None) -> "Schema":
        """Make a schema from the content of a schema file.

        Parameters
        ----------
        given : dict
            JSON values.
        folder : Path or None, default=None
            Folder of the file, where paths of encoders begin; None follows no path.

        Returns
        -------
        Schema
            The schema, checked.
        """
        if not isinstance(given, dict) or not isinstance(given.get("fields"), list):
            raise InvalidInputError('a schema is an object with a list of "fields"')
        declarations.check_count(given["fields"])
        own, missing = given.get("onefold", {}), given.get("missingValues", [""])
        if not isinstance(own, dict) or not isinstance(missing, list):
            raise InvalidInputError('"onefold" must be an object, and missingValues must be a list of texts')
        if own.get("version", VERSION) != VERSION:
            raise InvalidInputError(f"the schema must be of version {VERSION}: this onefold reads no other")
        for key in own.keys() - {"version", *declarations.TABLE_KEYS}:
            raise InvalidInputError(
                f'there is no key {key!r} in "onefold": {", ".join(declarations.TABLE_KEYS)}'
            )
        return cls(
            tuple(Field(**declarations.field_arguments(entry, folder)) for entry in given["fields"]),
            name=given.get("name", ""),
            missing_values=tuple(missing),
            **{declarations.TABLE_KEYS[key][0]: value for key, value in own.items() if key != "version"},
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schema to a file, completely or not at all.

        Parameters
        ----------
        path : str or os.PathLike
            The file, usually ending in .json.
        """
        content = self.to_dict(Path(path).parent)
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        guessed = bool(self.to_review) or self.source == "private"  # from rows that may be private
        write_whole(path, text.encode(), public=not guessed)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Schema":
        """Read a schema from a file.

        Parameters
        ----------
        path : str or os.PathLike
            A JSON file in the Frictionless Table Schema format.

        Returns
        -------
        Schema
            The schema, checked.
        """

        def checked(content: bytes) -> "Schema":
            if len(content) > LARGEST_FILE:
                raise InvalidInputError(f"{path}: larger than a schema may be")
            try:
                return cls.from_dict(parse_json(content), Path(path).parent)
            except InvalidInputError as error:
                raise InvalidInputError(f"{path}: {error}") from None

        return read_saved(path, "there is no schema", checked)

    @property
    def digest(self) -> str:
        """Sum of everything that sites must agree on; texts for people are left out."""
        return digest_of(self._shared_keys | {"fields": [known.contract() for known in self.fields]})

    @property
    def field_digests(self) -> tuple[tuple[str, str], ...]:
        """Name and sum of each field, and of what holds for all: what a site shows of its schema."""
        own = [(known.name, digest_of(known.contract())[:16]) for known in self.fields]
        return (*own, ("", digest_of(self._shared_keys)[:16]))

    @property
    def _own_keys(self) -> dict[str, Any]:
        """What is declared of the whole table beyond the file format; what says nothing is left out."""
        values = {key: getattr(self, name) for key, (name, _) in declarations.TABLE_KEYS.items()}
        told = {key: value for key, value in values.items() if value not in (None, "declared")}
        return {"version": VERSION, **told}

    @property
    def _shared_keys(self) -> dict[str, Any]:
        """What holds for all columns and sites must agree on; a public sample is as good as a declaration."""
        own = {key: value for key, value in self._own_keys.items() if key != "source"}
        return {
            "missingValues": sorted(self.missing_values),
            "onefold": own | {"private": self.source == "private"},
        }

    def difference(self, other: "Schema") -> str | None:
        """Name the first thing in which two schemas differ.

        Parameters
        ----------
        other : Schema
            The schema to compare with.

        Returns
        -------
        str or None
            What differs, in words; None if the digests are equal.
        """
        return differing(self.field_digests, other.field_digests)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


AS_THEY_STAND = Schema([Field(UNNAMED, role="ignored")])


def _root(squares: Iterable[float]) -> float:
    """Root of a sum, rounded up: a sensitivity must not be too small by a rounding error."""
    total = math.fsum(squares)
    root = math.sqrt(total)
    return root if root * root == total else math.nextafter(root, math.inf)


def digest_of(content: Any) -> str:
    """SHA-256 sum of JSON values, in whatever order their keys stand."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def differing(ours: Sequence[tuple[str, str]], theirs: Sequence[tuple[str, str]]) -> str | None:
    """Name the first field in which two lists of :attr:`onefold.tables.Schema.field_digests` differ.

    Parameters
    ----------
    ours : sequence of (str, str)
        Names and sums of the one schema.
    theirs : sequence of (str, str)
        Names and sums of the other.

    Returns
    -------
    str or None
        What differs, in words; None if nothing does.
    """
    for place, (mine, yours) in enumerate(zip(ours, theirs, strict=False), 1):
        if mine == yours:
            continue
        if mine[0] != yours[0]:
            names = [repr(name) if name else "no further field" for name in (mine[0], yours[0])]
            return f"field {place} is {names[0]} in the one schema and {names[1]} in the other"
        if not mine[0]:
            return "missingValues, rowsAbout, rowsPerPerson or the source"
        return f"field {mine[0]!r}"
    return None if len(ours) == len(theirs) else "the number of fields"


# --- where a table breaks its contract: column, row and kind of each finding, never a cell ------------------


@dataclass(frozen=True)
class Finding:
    """One kind of problem in one column.

    Parameters
    ----------
    column : str
        Name of the column.
    problem : str
        What is wrong, in words.
    count : int
        Number of rows with it; 0 if it is about the whole column.
    rows : tuple of int
        Numbers of the first such rows, from 1.

    See Also
    --------
    check_table : Finds them.

    Examples
    --------
    >>> from onefold.tables import Finding
    >>> str(Finding("age", "is missing", 2, (3, 9)))
    "column 'age': is missing in 2 rows (3, 9)"
    """

    column: str
    problem: str
    count: int
    rows: tuple[int, ...]

    def __str__(self) -> str:
        if not self.count:
            return f"column {self.column!r}: {self.problem}"
        shown = ", ".join(map(str, self.rows)) + (", ..." if self.count > len(self.rows) else "")
        return f"column {self.column!r}: {self.problem} in {self.count} row{'s'[: self.count > 1]} ({shown})"


def check_table(schema: Schema, X: Any) -> list[Finding]:
    """Compare a table with its contract.

    Parameters
    ----------
    schema : Schema
        The contract.
    X : table or iterable of tables
        A frame, a dict of columns, a table that was read, or such tables block by block.

    Returns
    -------
    list of Finding
        In the order of the columns; empty if the table keeps the contract.

    See Also
    --------
    Schema.parse : Reads a table, and refuses the first cell that breaks the contract.

    Notes
    -----
    Findings are about the data: whoever sees them learns from them.

    Examples
    --------
    >>> from onefold.tables import Field, Schema, check_table
    >>> schema = Schema([Field("age", "integer", low=0, high=110)])
    >>> [str(finding) for finding in check_table(schema, {"age": ["41", "", "140"]})]
    ["column 'age': is missing in 1 row (2)", "column 'age': is outside the declared range in 1 row (3)"]
    """
    blocks: Iterable[Any] = [X] if hasattr(X, "columns") or isinstance(X, Mapping) else X
    wanted = [known for known in schema.fields if known.role in declarations.ENCODED_ROLES]
    findings: dict[tuple[int, int], Finding] = {}
    persons: Counter[str] = Counter()
    absent: set[str] = set()
    first = 1
    for block in blocks:
        names = set(names_of(block))
        absent |= {known.name for known in wanted} - names
        for place, known in enumerate(wanted):
            if known.name not in names:
                continue
            problems = known.problems(named(block, known.name), tuple(schema.missing_values))
            for code in np.unique(problems[problems > 0]).tolist():
                rows = (np.flatnonzero(problems == code) + first).tolist()
                before = findings.get((place, code), Finding(known.name, known.problem(code), 0, ()))
                shown = (*before.rows, *rows[:SHOWN_ROWS])[:SHOWN_ROWS]
                findings[place, code] = replace(before, count=before.count + len(rows), rows=shown)
        if schema.person is not None and schema.person.name in names:
            persons.update(schema.persons(block))
        first += count_rows(block)
    missing = [Finding(name, "is not in the table", 0, ()) for name in sorted(absent)]
    return [*missing, *(findings[key] for key in sorted(findings)), *_about_persons(schema, persons)]


def _about_persons(schema: Schema, persons: Counter[str]) -> list[Finding]:
    if schema.person is None:
        return []
    name, most = schema.person.name, schema.rows_per_person
    missing = persons.pop("", 0)
    found = [Finding(name, f"is missing in {missing} row{'s'[: missing > 1]}", 0, ())] if missing else []
    if most is not None and persons and max(persons.values()) > most:
        above = sum(count > most for count in persons.values())
        found.append(Finding(name, f"{above} person(s) have more than the declared {most} rows", 0, ()))
    return found
