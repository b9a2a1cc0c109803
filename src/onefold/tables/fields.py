"""What is declared about one column of a table, and everything that follows from it for its cells."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from onefold._base.arrays import AnyArray, Floats, Index, Integers, Mask
from onefold.exceptions import InvalidInputError
from onefold.tables import cells, declarations
from onefold.tables.encoded import CellEncoder

__all__ = ["PROBLEMS", "Field"]

# 1 / sqrt(2), rounded down: a row must not be longer than its declared norm.
ONE_HOT = math.nextafter(math.sqrt(0.5), 0.0)
# Length of an encoded text or image: two that are opposite are as far apart as the ends of a range. A little
# less than a half, so that no rounding error makes a vector longer than declared.
HALF = 0.5 - 2.0**-40
# The texts for truth values that are read where none are declared, as in the file format.
TRUE = ("true", "True", "TRUE", "1")
FALSE = ("false", "False", "FALSE", "0")

NUMPY_TYPES = {
    "number": "float64",
    "integer": "int64",
    "boolean": "bool",
    "date": "datetime64[D]",
    "datetime": "datetime64[s]",
}
# What can be wrong with a cell: the number stands in arrays, the words in messages.
FINE, MISSING, UNREADABLE, UNDECLARED, OUTSIDE, FRACTION = range(6)
PROBLEMS = {
    MISSING: "is missing",
    UNREADABLE: "cannot be read as {type}",
    UNDECLARED: "is not one of the {levels} declared categories",
    OUTSIDE: "is outside the declared range",
    FRACTION: "is not a whole number",
}


@dataclass(frozen=True)
class Field:
    """What is declared about one column of a table.

    Parameters
    ----------
    name : str
        Heading of the column.
    type : {"number", "integer", "string", "boolean", "date", "datetime"}, default="number"
        What its cells say.
    role : {"feature", "label", "ignored", "identifier", "person"}, default="feature"
        What the column is for. A person column says whom a row is about.
    low : float or None, default=None
        Smallest value; days since 1970 for dates, seconds for times. Needed for numbers and dates.
    high : float or None, default=None
        Largest value.
    levels : tuple, default=()
        Declared categories; numbers with declared categories are categories.
    required : bool, default=False
        Whether the file format calls a missing cell an error; ``missing`` says what onefold does.
    format : str, default="default"
        How dates are written in texts: "default" for ISO 8601, or a pattern of ``strptime``.
    written : NumberFormat, default=NumberFormat()
        How numbers are written in texts.
    true_values : tuple of str, default=()
        Texts that mean true; empty for those of the file format.
    false_values : tuple of str, default=()
        Texts that mean false.
    missing_values : tuple of str or None, default=None
        Texts that stand for a missing cell in this column; None for those of the table.
    unit : str, default=""
        Unit of measurement, compared between sites.
    scale : {"linear", "log", "plain"}, default="linear"
        Whether numbers are encoded by their place in the range or by their logarithm, or not at all.
    log_unit : float or None, default=None
        Distance from ``low`` at which the logarithm begins to bend; None for a thousandth of the range.
    missing : {"refuse", "indicator"}, default="refuse"
        Whether missing cells are an error, or are marked in a column of their own.
    fill : float or None, default=None
        Value that stands for a missing number; None for the middle of the encoded range.
    other : str or None, default=None
        The category that takes every text that is not declared.
    bins : tuple of float, default=()
        Declared edges between bins, for synthetic tables.
    encoder : CellEncoder, encoder or None, default=None
        What turns texts, or the image files that texts name, into numbers: a :class:`CellEncoder`, or an
        :class:`~onefold.encoders.OnnxEncoder` or :class:`~onefold.encoders.SentenceEncoder`.
    review : str, default=""
        What was guessed; nothing that rests on it is private until somebody confirms it.
    confirmed : Confirmation or None, default=None
        Who confirmed what was guessed, when and on what ground: see :meth:`Schema.confirm`.
    about : mapping, default={}
        Title, description and other keys for people; not part of the contract.

    See Also
    --------
    Schema : All fields of a table.

    Examples
    --------
    >>> from onefold.tables import Field
    >>> age = Field("age", "integer", low=0, high=100)
    >>> age.encode(age.read(["50", "100"])[0]).ravel().tolist()
    [0.5, 1.0]
    >>> Field("ward", "string", levels=("a", "b")).names_out
    ('ward=a', 'ward=b')
    """

    name: str
    type: str = "number"
    role: str = "feature"
    low: float | None = None
    high: float | None = None
    levels: tuple[Any, ...] = ()
    required: bool = False
    format: str = "default"
    written: cells.NumberFormat = cells.PLAIN_NUMBERS
    true_values: tuple[str, ...] = ()
    false_values: tuple[str, ...] = ()
    missing_values: tuple[str, ...] | None = None
    unit: str = ""
    scale: str = "linear"
    log_unit: float | None = None
    missing: str = "refuse"
    fill: float | None = None
    other: str | None = None
    bins: tuple[float, ...] = ()
    encoder: CellEncoder | None = None
    review: str = ""
    confirmed: declarations.Confirmation | None = None
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.type == "boolean" and not self.levels:
            object.__setattr__(self, "levels", (False, True))
        object.__setattr__(self, "encoder", _of_column(self.encoder))
        declarations.check_field(self)
        # 1 and 1.0 are one declaration: their names, files and digests are the same.
        for name in ("levels", "bins"):
            object.__setattr__(self, name, tuple(map(declarations.plain_number, getattr(self, name))))
        object.__setattr__(self, "log_unit", declarations.plain_number(self.log_unit))

    # --- what follows for the column ----------------------------------------------------------------------

    @property
    def is_category(self) -> bool:
        """Whether cells are one of the declared categories."""
        return bool(self.levels)

    @property
    def is_amount(self) -> bool:
        """Whether cells are numbers of a range: no categories, and no dates."""
        return self.type in ("number", "integer") and not self.is_category

    @property
    def nullable(self) -> bool:
        """Whether missing cells are part of the contract."""
        return self.missing == "indicator"

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        if self.encoder is not None:
            return self.encoder.width + self.nullable
        return (len(self.levels) or 1) + self.nullable

    @property
    def names_out(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        own = tuple(f"{self.name}={_shown(level)}" for level in self.levels) or (self.name,)
        if self.encoder is not None:
            own = tuple(f"{self.name}[{place}]" for place in range(self.encoder.width))
        return own + ((f"{self.name}=missing",) if self.nullable else ())

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values that :meth:`show` returns: it follows from the declaration alone."""
        longest = max([1, *(len(str(level)) for level in self.levels)])
        return np.dtype(f"U{longest}" if self.type == "string" else NUMPY_TYPES[self.type])

    @property
    def norm_squared(self) -> float:
        """Largest squared length of an encoded cell: what a record more or less changes."""
        return self._sizes[0]

    @property
    def change_squared(self) -> float:
        """Largest squared change of an encoded cell that is replaced."""
        return self._sizes[1]

    @property
    def _sizes(self) -> tuple[float, float]:
        if self.is_category:
            return 0.5, 1.0
        if self.encoder is not None:
            return (1.0, 1.25) if self.nullable else (0.25, 1.0)
        if self.scale == "plain":
            low, high = (-math.inf, math.inf) if self.low is None else self._range
            return max(low**2, high**2), (high - low) ** 2
        if not self.nullable:
            return 1.0, 1.0
        return 1.0 + self._filled**2, 1.0 + max(self._filled, 1.0 - self._filled) ** 2

    # --- reading cells ------------------------------------------------------------------------------------

    def read(self, column: Any, missing_values: tuple[str, ...] = ("",)) -> tuple[AnyArray, Integers]:
        """Read the cells of a column, and say what is wrong with each.

        Parameters
        ----------
        column : array-like of shape (n_rows,)
            The cells as they stand.
        missing_values : tuple of str, default=("",)
            Texts that stand for a missing cell, where the field declares none of its own.

        Returns
        -------
        parsed : ndarray of shape (n_rows,)
            Numbers with NaN for no value, or numbers of categories with -1 for none. Cells that have an
            encoder are rows of numbers, of shape (n_rows, encoder.width), NaN for no value.
        problems : ndarray of int of shape (n_rows,)
            0 for a cell that keeps the contract, otherwise a key of ``PROBLEMS``.
        """
        tokens = self.tokens(missing_values)
        if cells.is_texts(column):
            return self._values_of_texts(column, tokens)
        values, missing = cells.cells_of(column, tokens)
        problems = np.where(missing, 0 if self.nullable else MISSING, FINE)
        if self.encoder is not None:
            vectors = np.full((len(values), self.encoder.width), np.nan)
            present = np.flatnonzero(~missing)
            texts = list(cells.texts_of(values[present]))
            places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
            found, readable = self.encoder.vectors(list(places))
            found[~readable] = np.nan
            rows = np.fromiter((places[text] for text in texts), np.intp, len(texts))
            vectors[present] = found[rows]
            problems[present[~readable[rows]]] = UNREADABLE
            return vectors, problems
        if self.is_category:
            codes = self._codes(values, missing)
            unknown = (codes < 0) & ~missing
            if self.other is not None:
                codes[unknown] = self.levels.index(self.other)
            else:
                problems[unknown] = UNDECLARED
            return codes, problems
        if self.type in declarations.CALENDAR:
            return self._judged(
                cells.moments_of(values, missing, self.format, days=self.type == "date"), missing
            )
        return self._judged(cells.numbers_of(values, missing, self.written), missing)

    def tokens(self, missing_values: tuple[str, ...]) -> tuple[str, ...]:
        """Return the texts that stand for a missing cell.

        Parameters
        ----------
        missing_values : tuple of str
            Those of the table.

        Returns
        -------
        tuple of str
            Those of the table, unless the field declares its own.
        """
        return missing_values if self.missing_values is None else self.missing_values

    def _values_of_texts(self, column: Any, tokens: tuple[str, ...]) -> tuple[AnyArray, Integers]:
        """Texts that Arrow holds: all at once, or different ones once each."""
        if isinstance(column, pa.ChunkedArray):
            parts = [
                self._values_of_texts(part, tokens) for part in column.chunks or [pa.array([], pa.string())]
            ]
            return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
        column = cells.stripped(column)
        is_day = self.type == "date" and self.format == "default"
        if is_day or (self.is_amount and self.written.is_plain):
            found = cells.plain_values(column, tokens, days=is_day)
            if found is not None:
                return self._judged(*found)
        encoded = column.dictionary_encode("encode")
        parsed, problems = self.read(encoded.dictionary.to_numpy(zero_copy_only=False), tokens)
        return parsed[encoded.indices], problems[encoded.indices]

    def _judged(self, numbers: Floats, missing: Mask) -> tuple[Floats, Integers]:
        """Numbers or dates, and what is wrong with each."""
        problems = np.where(missing, 0 if self.nullable else MISSING, FINE)
        problems[np.isnan(numbers) & ~missing] = UNREADABLE
        with np.errstate(invalid="ignore"):
            if self.low is not None and self.high is not None:
                problems[(numbers < self.low) | (numbers > self.high)] = OUTSIDE
            if self.type == "integer":
                problems[np.isfinite(numbers) & (numbers != np.rint(numbers))] = FRACTION
        return numbers, problems

    def problems(self, column: Any, missing_values: tuple[str, ...] = ("",)) -> Integers:
        """Say what is wrong with each cell of a column; texts for an encoder need not be encoded for that.

        Parameters
        ----------
        column : array-like of shape (n_rows,)
            The cells as they stand.
        missing_values : tuple of str, default=("",)
            Texts that stand for a missing cell, where the field declares none of its own.

        Returns
        -------
        ndarray of int of shape (n_rows,)
            0 for a cell that keeps the contract, otherwise a key of ``PROBLEMS``.
        """
        if self.encoder is None or self.encoder.kind != "text":
            return self.read(column, missing_values)[1]
        missing = cells.cells_of(column, self.tokens(missing_values))[1]
        return np.where(missing, 0 if self.nullable else MISSING, FINE)

    def present(self, parsed: AnyArray) -> tuple[AnyArray, Mask]:
        """Return what the cells of a label say that have a value, and which these are.

        Parameters
        ----------
        parsed : ndarray of shape (n_rows,)
            Cells as :meth:`read` returns them.

        Returns
        -------
        values : ndarray of shape (n_known,)
            Numbers as they were read; anything else in the declared type.
        known : ndarray of bool of shape (n_rows,)
            Which cells have a value.
        """
        known = parsed >= 0 if self.is_category else np.isfinite(parsed)
        return parsed[known] if self.is_amount else np.asarray(self.show(parsed[known])), known

    def refuse(self, problems: Integers, first_row: int = 1, where: str = "") -> None:
        """Raise the error of the first cell that has no value in the contract.

        Parameters
        ----------
        problems : ndarray of int of shape (n_rows,)
            What is wrong with each cell, from :meth:`read`.
        first_row : int, default=1
            Number of the first of these rows.
        where : str, default=""
            Beginning of the message, such as the name of a file.
        """
        wrong = np.isin(problems, (MISSING, UNREADABLE, UNDECLARED))
        if wrong.any():
            place = int(np.argmax(wrong))
            told = self.problem(int(problems[place]))
            raise InvalidInputError(f"{where}row {first_row + place}, column {self.name!r}: {told}")

    def renamed(self, name: str) -> "Field":
        """Return the same field for another column; what is declared is not checked again.

        Parameters
        ----------
        name : str
            Heading of the other column.

        Returns
        -------
        Field
            A new field.
        """
        field = object.__new__(Field)
        field.__dict__.update(self.__dict__, name=name)
        return field

    def problem(self, code: int) -> str:
        """Return what is wrong with a cell, in words that do not repeat it.

        Parameters
        ----------
        code : int
            A key of ``PROBLEMS``.

        Returns
        -------
        str
            The words.
        """
        kind = declarations.article(self.type)
        if self.encoder is not None:
            text = self.encoder.kind == "text"
            kind = "a text by its encoder" if text else "an image inside the folder of the table"
        return PROBLEMS[code].format(type=kind, levels=len(self.levels))

    def beside(self, path: Any) -> "Field":
        """Return the field for a table in a file: the images that it names are in the folder of the table.

        Parameters
        ----------
        path : Path or object
            Where the table is; anything but a path leaves the field as it is.

        Returns
        -------
        Field
            The same, unless it names images and does not say yet where they are.
        """
        if self.encoder is None or self.encoder.folder is not None or not isinstance(path, Path):
            return self
        return replace(self, encoder=replace(self.encoder, folder=path if path.is_dir() else path.parent))

    def with_encoder(self, place: Any) -> "Field":
        """Return the field with an encoder, or with the files of the one that it declares.

        Parameters
        ----------
        place : path, CellEncoder or encoder
            Where the encoder is, or the encoder; a declared one must be the same.

        Returns
        -------
        Field
            A new field, which keeps its mark: nothing but the encoder is said by naming one.
        """
        given = _of_column(place)
        if self.encoder is None:
            if self.role in ("label", "person"):
                raise InvalidInputError(f"column {self.name!r} is the {self.role}: it takes no encoder")
            return Field(
                self.name,
                "string",
                missing="indicator",
                missing_values=self.missing_values,
                encoder=given if isinstance(given, CellEncoder) else CellEncoder.from_path(given),
                review=self.review,
                confirmed=self.confirmed,
                about=self.about,
            )
        if isinstance(given, CellEncoder):
            if given != self.encoder:
                raise InvalidInputError(f"column {self.name!r}: not the encoder that the schema declares")
            return replace(self, encoder=given)
        try:
            return replace(self, encoder=self.encoder.located(given))
        except InvalidInputError as error:
            raise InvalidInputError(f"column {self.name!r}: {error}") from None

    def _codes(self, values: AnyArray, missing: Mask) -> Index:
        """Numbers of the categories; -1 for a cell that is none of them."""
        book: dict[Any, int] = {level: code for code, level in enumerate(self.levels)}
        keys: Iterable[Any] = cells.texts_of(values[~missing])
        if self.type in ("number", "integer"):
            keys = cells.numbers_of(values, missing, self.written)[~missing].tolist()
        elif self.type == "boolean":
            true, false = self.true_values or TRUE, self.false_values or FALSE
            book = dict.fromkeys(false, 0) | dict.fromkeys(true, 1) | {"False": 0, "True": 1}
        codes = np.full(len(values), -1, dtype=np.intp)
        codes[~missing] = [book.get(key, -1) for key in keys]
        return codes

    # --- encoding and decoding ----------------------------------------------------------------------------

    def encode(self, parsed: AnyArray) -> Floats:
        """Encode parsed cells as columns from 0 to 1, or from -1/2 to 1/2 behind an encoder.

        A number becomes its place in the declared range, to which it is clipped. A category is one-hot, over
        the root of 2: two categories are then as far apart as the ends of a range. A missing number is
        ``fill`` and 1 in a column of its own, a missing category one more category. A cell that has an
        encoder is its vector, at half its length; what is missing is zeros. What has no value and no column
        for it is ``fill`` for a number and nothing but zeros for everything else.

        Parameters
        ----------
        parsed : ndarray of shape (n_rows,)
            Cells as :meth:`read` returns them.

        Returns
        -------
        ndarray of shape (n_rows, width)
            Encoded cells.
        """
        if self.scale == "plain":
            return np.asarray(parsed).reshape(-1, 1)
        encoded = np.zeros((len(parsed), self.width))
        rows = np.arange(len(parsed))
        if self.encoder is not None:
            lost = np.isnan(parsed[:, 0])
            encoded[~lost, : self.encoder.width] = HALF * parsed[~lost]
            if self.nullable:
                encoded[:, -1] = lost
            return encoded
        if self.is_category:
            places = np.where(parsed < 0, self.width - 1 if self.nullable else -1, parsed)
            known = places >= 0
            encoded[rows[known], places[known]] = ONE_HOT
            return encoded
        absent = np.isnan(parsed)
        encoded[:, 0] = self._filled
        encoded[~absent, 0] = self._inside(parsed[~absent])
        if self.nullable:
            encoded[:, 1] = absent
        return encoded

    def decode(self, encoded: Floats) -> AnyArray:
        """Return the cells that encoded columns stand for, also if these carry noise.

        Parameters
        ----------
        encoded : ndarray of shape (n_rows, width)
            Encoded cells.

        Returns
        -------
        ndarray of shape (n_rows,)
            Numbers within the range and NaN for missing, or numbers of categories and -1 for missing.
        """
        if self.encoder is not None:
            raise InvalidInputError(f"column {self.name!r} is encoded: no cell can be made of its numbers")
        if self.scale == "plain":
            return encoded[:, 0]
        if self.is_category:
            codes = np.argmax(encoded, axis=1)
            return np.where(codes == len(self.levels), -1, codes)
        share = np.clip(encoded[:, 0], 0.0, 1.0)
        low, high = self._range
        above = share * (high - low)
        if self.scale == "log":
            above = self._unit * np.expm1(share * math.log1p((high - low) / self._unit))
        values = self.whole(np.clip(low + above, low, high))
        return np.where(encoded[:, 1] > 0.5, np.nan, values) if self.nullable else values

    def whole(self, values: Floats) -> Floats:
        """Round values of whole numbers, dates and times, staying inside the range.

        Parameters
        ----------
        values : ndarray of shape (n_rows,)
            Values inside the range.

        Returns
        -------
        ndarray of shape (n_rows,)
            The same for numbers; otherwise whole.
        """
        if self.type == "number":
            return values
        low, high = self._range
        return np.clip(np.rint(values), math.ceil(low), math.floor(high))

    def show(self, parsed: AnyArray) -> AnyArray:
        """Return parsed cells as they are written to a table, in the declared type.

        Parameters
        ----------
        parsed : ndarray of shape (n_rows,)
            Cells as :meth:`read` returns them.

        Returns
        -------
        ndarray of shape (n_rows,)
            Values of :attr:`dtype`. Whole numbers and truth values that may be missing are a masked array;
            missing texts are empty, other missing values NaN or NaT.
        """
        if self.encoder is not None:
            raise InvalidInputError(f"column {self.name!r} is encoded: its cells cannot be shown")
        if self.is_category:
            absent = parsed < 0
            shown = np.array(self.levels, dtype=self.dtype)[np.maximum(parsed, 0)]
        else:
            absent = np.isnan(parsed)
            values = parsed if self.type == "number" else np.rint(np.where(absent, 0.0, parsed)).astype(int)
            shown = values.astype(self.dtype)
        gap = {"b": None, "i": None, "U": "", "f": np.nan, "M": np.datetime64("NaT")}[self.dtype.kind]
        if gap is None:
            return np.ma.masked_array(shown, mask=absent) if self.nullable else shown
        shown[absent] = gap
        return shown

    @property
    def _range(self) -> tuple[float, float]:
        return float(self.low), float(self.high)  # type: ignore[arg-type]

    @property
    def _unit(self) -> float:
        if self.log_unit is not None:
            return self.log_unit
        low, high = self._range
        unit = (high - low) / 1000.0
        return max(1.0, unit) if self.type == "integer" else unit

    @cached_property
    def _filled(self) -> float:
        return 0.5 if self.fill is None else float(self._inside(np.array([self.fill]))[0])

    def _inside(self, values: Floats) -> Floats:
        """Place of numbers in the declared range, from 0 to 1."""
        low, high = self._range
        above, width = np.clip(values, low, high) - low, high - low
        if self.scale == "log":
            return np.minimum(np.log1p(above / self._unit) / math.log1p(width / self._unit), 1.0)
        return above / width

    # --- the file format ----------------------------------------------------------------------------------

    def entry(self, folder: Path | None = None) -> dict[str, Any]:
        """Return the entry of ``fields`` in a schema file.

        Parameters
        ----------
        folder : Path or None, default=None
            Folder of the schema file, for which the path of an encoder is written; None leaves it out.

        Returns
        -------
        dict
            JSON values.
        """
        return {"name": self.name, "type": self.type, **self.about, **declarations.entry_of(self, folder)}

    def contract(self) -> dict[str, Any]:
        """Return what sites must agree on: the entry without texts for people, marks and confirmations.

        Returns
        -------
        dict
            JSON values.
        """
        return {
            key: value for key, value in declarations.entry_of(self).items() if key not in declarations.MARKS
        }


def _of_column(given: Any) -> Any:
    """The encoder of a column, if a loaded encoder of texts or images is given; else what is given."""
    return CellEncoder.of_map(given.cell_map()) if hasattr(given, "cell_map") else given


def _shown(level: Any) -> str:
    return str(level).lower() if isinstance(level, bool) else str(level)
