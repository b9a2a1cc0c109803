"""Proposing a declaration for each column from sample rows. Every proposal is a guess and says so."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress, product
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Floats
from onefold.exceptions import InvalidInputError
from onefold.tables.cells import PLAIN_NUMBERS, NumberFormat, cells_of, moment_reader, text_of, without_unit
from onefold.tables.columns import named, names_of
from onefold.tables.declarations import CALENDAR, WHOLE_NUMBERS
from onefold.tables.fields import FALSE, OUTSIDE, TRUE, UNDECLARED, UNREADABLE, Field

# Texts that mean "no value" whatever the column is about, and so say nothing about rows; others must be
# declared.
MISSING_TOKENS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "#N/A", "?")
MOST_LEVELS = 40  # more categories than that are rarely a property of a row
MOST_CLASSES = 1000
MANY_CLASSES = 20  # more whole numbers than that are rather an amount than the names of classes
MOST_DISTINCT = 100_000  # distinct cells of a column that are remembered
RANGE = "range rounded outward from the sample"
REGRESSION = "numbers are predicted by the task regression"
TOO_FAR_APART = "its numbers lie too far apart for one range"
RARE = 3  # a category with fewer rows is no category
# So many texts, a tenth of the cells or of the different ones, may stand between numbers or dates: "k.A." may
# be in every third row of an otherwise numeric column.
JUNK_SHARE, MOST_JUNK = 0.1, 5
# Ratio of the range to the typical value from which on numbers are read by their logarithm.
HEAVY_TAIL = 15.0
CODE = re.compile(r"[-+]?0[0-9]")  # a leading zero makes a code of what would be a number
INDEX = re.compile(r"Unnamed: 0(\.[0-9]+)?|__index_level_[0-9]+__")
ROW_NUMBER = re.compile(r"(unnamed(: ?\d+)?|index|row[_ .]?(id|no|nr|num|number|name)?s?|id|)", re.I)
IDENTIFIER = re.compile(r".*(^|[_ .\-])(id|ids|uuid|guid|key|nr|no)$|.*[a-z]Id$|.*ID$", re.I)
PERSON = re.compile(r"patient|person|customer|client|subject|user|member|student|employee", re.I)
# Numbers as they may look where the comma is the decimal mark, and those that can be nothing else.
COMMA_NUMBER = re.compile(r"[-+]?[0-9.]+(,[0-9]+)?")
DECIMAL_COMMA = re.compile(r"[-+]?([0-9.]*,([0-9]{1,2}|[0-9]{4,})|0,[0-9]+)")
MARKS = ((".", ""), (".", ","), (",", ""), (",", "."), (",", " "), (".", " "), (".", "'"), (",", "'"))
NUMBER_FORMATS = tuple(NumberFormat(*marks, bare) for bare, marks in product((True, False), MARKS))
DATE_FORMATS = (
    *("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d-%b-%Y", "%d %b %Y"),
    *("%b %d, %Y", "%B %d, %Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d-%b-%y", "%b-%Y", "%Y-%m", "%m/%Y"),
    *("%b-%y", "%b %Y", "%B %Y"),
)
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
MOMENT_FORMATS = ("default", *map("".join, product(DATE_FORMATS, TIMES)))


def is_index(name: str) -> bool:
    """Tell whether a column is the index of rows that pandas or R wrote into a file.

    Parameters
    ----------
    name : str
        Heading of the column; an empty first heading is read as ``Unnamed: 0``.

    Returns
    -------
    bool
        Whether the column numbers the rows and says nothing about them.
    """
    return bool(INDEX.fullmatch(name))


def names_persons(name: str) -> bool:
    """Tell whether a column is called like one that says whom a row is about.

    Parameters
    ----------
    name : str
        Heading of the column.

    Returns
    -------
    bool
        Whether it is named like the number or the key of a person.
    """
    return bool(PERSON.search(name) and IDENTIFIER.fullmatch(name))


def guess_fields(
    blocks: Iterable[Any], label: str | None = None, *, closed: bool = False, task: str = "classification"
) -> tuple[tuple[Field, ...], int]:
    """Propose a declaration of every column.

    Parameters
    ----------
    blocks : iterable of tables
        Sample rows, block by block.
    label : str or None, default=None
        The column of classes, or of numbers to predict.
    closed : bool, default=False
        Whether the rows are all that will be learned from, so that no category is kept for others and
        missing numbers stand at the median; otherwise they are a sample.
    task : {"classification", "regression", "auto"}, default="classification"
        Whether the label is a class, or a number to predict, with a range. "auto" takes a label for a number
        if it has fractions or more than 20 different whole numbers.

    Returns
    -------
    fields : tuple of Field
        One for each column, marked for review.
    n_rows : int
        Number of rows seen.
    """
    guesses: dict[str, _Column] = {}
    for block in blocks:
        names = names_of(block)
        if len(set(names)) != len(names):
            raise InvalidInputError("two columns of the table have the same name")
        for name in filter(str.strip, names):  # polars keeps the empty heading of an index
            guesses.setdefault(name, _Column(name)).see(named(block, name))
    if not guesses:
        raise InvalidInputError("the table has no columns")
    if label is not None and label not in guesses:
        raise InvalidInputError(f"there is no column {label!r} among the {len(guesses)} of the table")
    if any(guess.has_decimal_comma() for guess in guesses.values()):
        for guess in guesses.values():  # so that "1,234" and "1.234" are read alike in all columns
            guess.in_comma_table = True
    fields = tuple(
        guess.as_feature(closed) if name != label else guess.as_answer(task, closed)
        for name, guess in guesses.items()
    )
    return fields, max(guess.n_rows for guess in guesses.values())


class _Column:
    """What was seen of one column."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.n_rows = self.n_missing = 0
        self.cells: Counter[Any] = Counter()  # texts, numbers, truth values; dates as datetime64
        self.is_cut = False  # there were more distinct cells than are remembered
        self.low, self.high = math.inf, -math.inf  # of numbers that are not remembered
        self.in_comma_table = False  # a column of the table can only be read with the decimal mark ","

    def see(self, column: Any) -> None:
        """Take note of further cells."""
        try:
            values, missing = cells_of(column, MISSING_TOKENS)
        except InvalidInputError as error:
            raise InvalidInputError(f"column {self.name!r}: {error}") from None
        self.n_rows += len(values)
        self.n_missing += int(missing.sum())
        for cell, count in _distinct(values[~missing]).items():
            if cell in self.cells or len(self.cells) < MOST_DISTINCT:
                self.cells[cell] += count
            else:
                self.is_cut = True
                number = PLAIN_NUMBERS.number(cell) if isinstance(cell, str) else cell
                if isinstance(number, float) and math.isfinite(number):
                    self.low, self.high = min(self.low, number), max(self.high, number)

    def has_decimal_comma(self) -> bool:
        """Whether the cells are numbers whose decimal mark can only be the comma."""
        texts = [cell for cell in self.cells if isinstance(cell, str)]
        numbers = sum(bool(COMMA_NUMBER.fullmatch(text)) for text in texts)
        return numbers > 0.9 * len(texts) and any(DECIMAL_COMMA.fullmatch(text) for text in texts)

    # --- the three kinds of proposal -----------------------------------------------------------------------

    def as_answer(self, task: str, closed: bool) -> Field:
        """Propose the classes or the range of numbers, as the task says or the cells suggest."""
        if not self.cells:
            raise self._unfit("is empty")
        reason = self._amount() if task == "auto" else None
        is_number = task == "regression" or reason is not None
        return self.as_output(closed, reason) if is_number else self.as_label()

    def _amount(self) -> str | None:
        """Why a label is an amount and not the name of a class; None if it is not."""
        read = self._best_format()
        numbers = np.empty(0) if read is None else np.unique(read[1])
        if not numbers.size or np.abs(numbers).max() > WHOLE_NUMBERS:  # so large are only codes
            return None
        if np.any(numbers != np.rint(numbers)):
            return "it has fractions"
        more = "more than " if self.is_cut else ""
        return f"it has {more}{len(numbers)} different whole numbers" if len(numbers) > MANY_CLASSES else None

    def as_label(self) -> Field:
        """Propose the classes."""
        if self.is_cut or len(self.cells) > MOST_CLASSES:
            raise self._unfit(f"must hold classes: it has more than {MOST_CLASSES} values; {REGRESSION}")
        kind = self._kind()
        about: dict[str, Any] = {"role": "label", "review": f"{len(self.cells)} classes as in the sample"}
        if kind is bool:
            return Field(self.name, "boolean", **about)
        numbers = np.full(1, np.inf)
        if kind is not np.datetime64 and not self._has_codes():
            numbers = self._numbers(PLAIN_NUMBERS)
        # Beyond 2**53 two codes may be one number: they stay texts, as what is no number does.
        are_numbers = bool(np.all(np.abs(numbers) <= WHOLE_NUMBERS))
        if are_numbers and not np.all(numbers == np.rint(numbers)):
            raise self._unfit(f"holds fractions; classes must be text or whole numbers; {REGRESSION}")
        if len(self.cells) > max(20, 0.5 * (self.n_rows - self.n_missing)):
            raise self._unfit("must hold classes: most rows have a value of their own")
        if are_numbers:
            levels: tuple[Any, ...] = tuple(sorted({int(number) for number in numbers}))
            return Field(self.name, "integer", levels=levels, **about)
        return Field(self.name, "string", levels=tuple(sorted(self._texts())), **about)

    def as_output(self, closed: bool, reason: str | None = None) -> Field:
        """Propose the range of numbers that are to be predicted; a reason says why they are no classes."""
        read = self._best_format()
        if read is None or not read[1].size:
            raise self._unfit("does not hold numbers to predict")
        low, high, whole = self._extent(read[1])
        if not low < high:
            raise self._unfit("holds one number only")
        if not math.isfinite(high - low):
            raise InvalidInputError(f"the label column {self.name!r}: {TOO_FAR_APART}")
        told = RANGE if reason is None else f"guessed: {reason}, so it is a number; {RANGE}"
        own = _outward(low, high, whole, closed) | {"role": "label", "written": read[0], "missing": "refuse"}
        return self._made("integer" if whole else "number", told, "", junk=read[3], **own)

    def _unfit(self, reason: str) -> InvalidInputError:
        return InvalidInputError(f"the label column {self.name!r} {reason}")

    def as_feature(self, closed: bool) -> Field:
        """Propose a type, a range or categories, and whether to use the column at all."""
        if is_index(self.name):
            return self._left_out("identifier", "string", "it numbers the rows")
        if len(self.cells) < 2:
            told = "all cells are equal" if self.cells else "no cell has a value"
            return self._left_out("ignored", "string", told)
        return self._truth() or self._number(closed) or self._date() or self._category(closed)

    # --- types ---------------------------------------------------------------------------------------------

    def _truth(self) -> Field | None:
        if self._kind() is bool:
            return self._made("boolean", "truth values")
        texts = set(self.cells)
        if self._kind() is not str or {text.lower() for text in texts} != {"true", "false"}:
            return None
        own: dict[str, Any] = {}
        if not texts <= {*TRUE, *FALSE}:
            for name in ("true", "false"):
                own[f"{name}_values"] = tuple(sorted(text for text in texts if text.lower() == name))
        return self._made("boolean", "truth values", **own)

    def _number(self, closed: bool) -> Field | None:
        read = self._best_format()
        if read is None:
            return None
        written, values, weights, junk = read
        if len(np.unique(values)) < 2:  # "0.0" and "-0.0", or "1" and "1.0"
            return None if junk else self._left_out("ignored", "string", "all cells are equal")
        low, high, whole = self._extent(values)
        if not math.isfinite(high - low):
            return self._left_out("ignored", "number", TOO_FAR_APART)
        if self._is_identifier(values, weights, whole):
            return self._left_out("identifier", "integer", "looks like the number of a row, record or person")
        own = _outward(low, high, whole, closed) | {"written": written}
        told, middle = RANGE, _median(values, weights)
        above = values > low
        typical = _median(values[above], weights[above]) - low
        if len(values) > 20 and high - low > HEAVY_TAIL * typical:
            own |= {"scale": "log", "log_unit": float(f"{typical:.0e}")}
            told += ", and read by logarithm because large values are rare"
        if closed:
            own["fill"] = float(np.rint(middle) if whole else middle)
        return self._made("integer" if whole else "number", told, junk=junk, **own)

    def _date(self) -> Field | None:
        if self._kind() is np.datetime64:
            moments = np.array(list(self.cells))
            return self._dated(moments, bool(np.any(moments.astype("datetime64[D]") != moments)), "default")
        if self._kind() is not str:
            return None
        texts = list(self.cells)
        most = min(MOST_JUNK, int(JUNK_SHARE * len(texts)))
        if sum(not any(character.isdigit() for character in text) for text in texts) > most:
            return None
        best: tuple[str, Floats] | None = None
        for pattern in MOMENT_FORMATS:
            seconds = _mostly_read(texts, moment_reader(pattern, days=False), most)
            if seconds is not None:
                best = pattern, seconds
                most = int(np.isnan(seconds).sum()) - 1  # another format must read more
                if most < 0:
                    break
        if best is None:
            return None
        written, seconds = best
        known = ~np.isnan(seconds)
        junk = tuple(compress(texts, ~known))
        has_time = ":%M" in written or any("T" in text for text in compress(texts, known))
        seconds = seconds[known]
        has_time = has_time or bool(np.any(seconds % 86_400))
        return self._dated(seconds.astype("datetime64[s]"), has_time, written, junk)

    def _dated(self, moments: AnyArray, has_time: bool, written: str, junk: tuple[str, ...] = ()) -> Field:
        # Whole years, so that the range says little about the rows.
        kind, unit = ("datetime", "s") if has_time else ("date", "D")
        years = np.array([moments.min(), moments.max()]).astype("datetime64[Y]") + np.array([0, 1])
        low, high = (float(edge) for edge in years.astype(f"datetime64[{unit}]").astype(np.int64))
        high = _writable(high - 1.0, unit, written)  # the last day, or second, of a year
        told = "range of years around the sample"
        return self._made(kind, told, junk=junk, low=low, high=high, format=written)

    def _category(self, closed: bool) -> Field:
        counts = self._texts()
        present = self.n_rows - self.n_missing
        if names_persons(self.name):
            told = 'looks like whom a row is about: set onefold:role to "person" if it is'
            return self._left_out("identifier", "string", told)
        if self.is_cut or len(counts) > max(10, 0.5 * present):
            role = "identifier" if len(counts) == present else "ignored"
            return self._left_out(role, "string", "nearly every row has a text of its own")
        common = [text for text, count in counts.most_common(MOST_LEVELS) if count >= RARE]
        kept = common if len(counts) > 10 and len(common) > 1 else list(counts)[:MOST_LEVELS]
        covered = sum(counts[text] for text in kept) / present
        if covered < 0.3:
            return self._left_out("ignored", "string", "too many different texts")
        levels = sorted(kept)
        rest = len(counts) - len(levels)
        other = None
        if rest or (not closed and len(levels) > 2):
            other = next((text for text in levels if text.lower() in ("other", "others")), "other")
            levels += [] if other in levels else [other]
        told = f"{len(levels)} categories" + (f", {rest} rarer texts count as {other!r}" if rest else "")
        return self._made("string", f"{told}; the sample may lack some", levels=tuple(levels), other=other)

    # --- helpers -------------------------------------------------------------------------------------------

    def _made(
        self, kind: str, told: str, mark: str = "guessed: ", *, junk: tuple[str, ...] = (), **own: Any
    ) -> Field:
        own = {"missing": "indicator" if self.n_missing or junk else "refuse"} | own
        if junk:
            own["missing_values"] = (*MISSING_TOKENS, *junk)
            told += "; other texts of the column are read as missing"
        return Field(self.name, kind, review=f"{mark}{told}", **own)

    def _extent(self, numbers: Floats) -> tuple[float, float, bool]:
        """Least and largest number, and whether all are whole."""
        low, high = float(min(numbers.min(), self.low)), float(max(numbers.max(), self.high))
        return low, high, bool(np.all(numbers == np.rint(numbers)) and max(abs(low), abs(high)) < 2**53)

    def _left_out(self, role: str, kind: str, told: str) -> Field:
        return Field(self.name, kind, role=role, review=f"guessed: left out because {told}")

    def _kind(self) -> Any:
        """Type of the cells: str, float, bool or datetime64. Cells of several types become texts."""
        kinds = {type(cell) for cell in self.cells}
        if len(kinds) > 1:
            self.cells = self._texts()
            return str
        return kinds.pop()

    def _texts(self) -> Counter[Any]:
        counts: Counter[Any] = Counter()
        for cell, count in self.cells.items():
            counts[text_of(cell)] += count
        return counts

    def _has_codes(self) -> bool:
        return any(isinstance(cell, str) and CODE.match(cell) for cell in self.cells)

    def _numbers(self, written: NumberFormat) -> Floats:
        cells = (written.number(cell) if isinstance(cell, str) else float(cell) for cell in self.cells)
        return np.fromiter(cells, np.float64, len(self.cells))

    def _best_format(self) -> tuple[NumberFormat, Floats, AnyArray, tuple[str, ...]] | None:
        """The format in which nearly all cells are numbers, these, how often each is there, and the rest."""
        if self._kind() in (bool, np.datetime64) or self._has_codes():
            return None
        counts = np.array(list(self.cells.values()))
        cells = list(self.cells)
        best: tuple[float, NumberFormat, Floats] | None = None
        formats: Sequence[NumberFormat] = NUMBER_FORMATS
        if self.in_comma_table and any(isinstance(cell, str) and {*cell} & {*".,"} for cell in cells):
            formats = sorted(formats, key=lambda written: (not written.bare, written.decimal == "."))
        for written in formats:
            if not written.bare and not self._has_one_unit():  # "12a" and "12b" are no numbers
                break
            numbers = self._numbers(written)
            share = float(counts[~np.isnan(numbers)].sum() / counts.sum())
            if best is None or share > best[0]:
                best = share, written, numbers
            if share == 1.0:
                break
        assert best is not None
        share, written, numbers = best
        junk = tuple(str(cells[place]) for place in np.flatnonzero(np.isnan(numbers)))
        is_rare = share >= 1.0 - JUNK_SHARE or len(junk) <= JUNK_SHARE * len(cells)
        if len(junk) > MOST_JUNK or not is_rare:
            return None
        if not written.bare and any(any(character.isdigit() for character in text) for text in junk):
            return None  # "10+ years" and "< 1 year" say something
        finite = np.isfinite(numbers)
        return written, numbers[finite], counts[finite], junk

    def _has_one_unit(self) -> bool:
        return len({without_unit(cell)[1] for cell in self.cells if isinstance(cell, str)} - {""}) == 1

    def _is_identifier(self, values: Floats, weights: AnyArray, whole: bool) -> bool:
        if not whole or len(values) < 20:
            return False
        if names_persons(self.name):
            return True
        if ROW_NUMBER.fullmatch(self.name) or IDENTIFIER.fullmatch(self.name):
            return bool(len(values) > 0.8 * weights.sum())
        return bool(np.all(weights == 1)) and bool(values.max() - values.min() + 1 == len(values))


def _distinct(values: AnyArray) -> Counter[Any]:
    """Distinct cells and how often each is there, in Python types."""
    counted: Counter[Any] = Counter()
    if values.dtype.kind == "O":
        for cell, count in Counter(values.tolist()).items():
            counted[_plain(cell)] += count
        return counted
    distinct, counts = np.unique(values, return_counts=True)
    cells = list(distinct) if values.dtype.kind == "M" else map(_plain, distinct.tolist())
    return Counter(dict(zip(cells, counts.tolist(), strict=True)))


def _plain(cell: Any) -> Any:
    if isinstance(cell, (bool, np.bool_)):
        return bool(cell)
    if isinstance(cell, (int, float, np.number)):
        return float(cell)
    if hasattr(cell, "isoformat") and not isinstance(cell, str):
        return np.datetime64(cell.isoformat()[:19])
    return text_of(cell)


def _mostly_read(texts: Sequence[str], read: Any, most: int) -> Floats | None:
    """All texts as numbers, NaN where one cannot be read; None as soon as these are more than ``most``."""
    found = np.empty(len(texts))
    unread = 0
    for place, text in enumerate(texts):
        found[place] = read(text)
        if math.isnan(found[place]):
            unread += 1
            if unread > most:
                return None
    return found


def _writable(moment: float, unit: str, written: str) -> float:
    """The last moment not after this one that cells can say: many formats have no day, or no seconds."""
    if written == "default":
        return moment
    text = np.array([int(moment)]).astype(f"datetime64[{unit}]").astype(object)[0].strftime(written)
    read = moment_reader(written, days=unit == "D")(text)
    return moment if math.isnan(read) else min(read, moment)


def _median(values: Floats, weights: AnyArray) -> float:
    order = np.argsort(values)
    heavier = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(heavier, heavier[-1] / 2)])


def _outward(low: float, high: float, whole: bool, closed: bool) -> dict[str, Any]:
    """Round a range outward, so that it is easy to read; a sample may lack the largest values: more there."""
    step = 10.0 ** math.floor(math.log10(high - low))
    steps = (high - low) / step  # from 1 to 10
    step *= 0.1 if closed else 0.2 if steps < 2 else 0.5 if steps < 5 else 1.0
    step = max(step, 1.0) if whole else step
    wide = math.floor(low / step) * step, math.ceil(high / step) * step
    tidy = float(f"{wide[0]:.12g}"), float(f"{wide[1]:.12g}")
    covered = tidy[0] <= low and high <= tidy[1] and math.isfinite(tidy[1] - tidy[0])
    return dict(zip(("low", "high"), tidy if covered else (low, high), strict=True))


# --- another table than a model was fitted to ---------------------------------------------------------------

STRANGE_SHARE = 0.2  # so many cells without a value make a column worth a remark


def cells_like(known: Field, column: Any, tokens: tuple[str, ...]) -> tuple[AnyArray, bool, bool]:
    """The cells of a column, whether they are written in another way, and whether many say nothing."""
    values, problems = known.read(column, tokens)
    wrong, rewritten = _wrong_share(problems), False
    other = _rewritten(known, column, tokens) if wrong > STRANGE_SHARE else None
    if other is not None:
        guess, guess_problems = other.read(column, tokens)
        if _wrong_share(guess_problems) < wrong - STRANGE_SHARE:
            values, problems, rewritten = guess, guess_problems, True
    return values, rewritten, _share_of(problems, UNREADABLE, UNDECLARED) > STRANGE_SHARE


def _share_of(problems: AnyArray, *codes: int) -> float:
    return float(np.mean(np.isin(problems, codes)))


def _wrong_share(problems: AnyArray) -> float:
    """Share of cells that cannot be what the column is about."""
    return _share_of(problems, UNREADABLE, OUTSIDE)


def _rewritten(known: Field, column: Any, tokens: tuple[str, ...]) -> Field | None:
    """The same field for numbers or dates as this column writes them; None if there is no other way."""
    if known.is_category or known.encoder is not None or cells_of(column)[0].dtype.kind != "O":
        return None
    if known.type in CALENDAR:
        guess = guess_fields([{known.name: column}])[0][0]
        return replace(known, format=guess.format) if guess.type in CALENDAR else None
    forms = [replace(known, written=written) for written in NUMBER_FORMATS]
    return min(forms, key=lambda form: _wrong_share(form.read(column, tokens)[1]))
