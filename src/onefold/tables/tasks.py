"""What is predicted of a row, classes or numbers: how labels are read, split and remarked on.

Messages name columns and row numbers and never repeat a cell: the cells may be private.
"""

import re
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Index, Labels, Mask
from onefold.exceptions import InvalidInputError
from onefold.tables.cells import cells_of, text_of
from onefold.tables.fields import MISSING, Field

SOME_CLASSES = 10  # more classes of whole numbers may be amounts
GROUP_SPLITS = 20  # drawn at random; the one with the classes most alike in both parts is taken
# Leading zeros mean a code ("007"), not a number. 18 digits always fit 64 bits.
WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,17})(\.0*)?")
DECIMAL = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.?[0-9]+)([eE][-+]?[0-9]+)?")

Read = tuple[AnyArray, Mask]  # labels of the rows that have one, and which rows these are


class _AnyTask:
    """How labels are read, whatever they are; ``where`` and ``place`` begin messages."""

    def declared(
        self, place: str, column: Any, label: Field, tokens: tuple[str, ...], first: int = 1
    ) -> Read:
        """Read a label column by its field; a cell that says something else is refused, not a missing one."""
        parsed, problems = label.read(column, tokens)
        label.refuse(np.where(problems == MISSING, 0, problems), first, place)
        return label.present(parsed)

    def like(self, place: str, column: Any, label: Field, tokens: tuple[str, ...]) -> Read:
        """Read a label column of another table."""
        return self.declared(place, column, label, tokens)


class ClassTask(_AnyTask):
    """A class is predicted of each row."""

    name, noun, missing = "classification", "class", "is missing"

    def plain(self, where: str, column: AnyArray, first: int = 1) -> Read:
        """Read a label column about which nothing is declared."""
        labels = as_labels(where, as_text(where, column, first), first)
        return labels, np.ones(len(labels), dtype=np.bool_)

    def like(self, place: str, column: Any, label: Field, tokens: tuple[str, ...]) -> Read:
        """Read a label column of another table; a class that is not declared stays, as a text."""
        codes, (values, missing) = label.read(column, tokens)[0], cells_of(column, tokens)
        there: Mask = ~missing
        if np.all(codes[there] >= 0):
            return np.asarray(label.show(codes[there])), there
        shown = label.show(np.maximum(codes, 0)).astype(str)
        texts = [shown[at] if codes[at] >= 0 else text_of(values[at]) for at in np.flatnonzero(there)]
        return np.array(texts, dtype=str), there

    def shortage(self, labels: AnyArray, known: Mask) -> str | None:
        """Return why nothing can be learned from labels; None if something can."""
        if len(np.unique(labels)) > 1:
            return None
        found = "one class only" if len(labels) else "no class"
        if not known.all():
            found += f" ({np.sum(~known)} of {len(known)} cells are empty, or say so)"
        return f"{found}, at least two are needed"

    def split(self, place: str, labels: AnyArray, persons: AnyArray, share: float, seed: int) -> Mask:
        """Choose rows to hold out, classes alike in both parts, and no person in both."""
        units, n_held = _units(place, persons, share)
        codes, totals = np.unique(labels, return_inverse=True, return_counts=True)[1:]
        if units.max() + 1 == len(units):
            return self._alike(place, codes, totals, n_held, seed)
        rng = np.random.default_rng(seed)
        choices = [np.isin(units, rng.permutation(units.max() + 1)[:n_held]) for _ in range(GROUP_SPLITS)]
        counts = [np.bincount(codes[chosen], minlength=len(totals)) for chosen in choices]
        # Where every row of a class is held out, it would not be learned.
        far = [
            np.inf if np.any(count == totals) else np.abs(count / totals - share).sum() for count in counts
        ]
        if min(far) == np.inf:
            raise InvalidInputError(f"{place}--test-size would hold out every person of some class")
        return choices[int(np.argmin(far))]

    def _alike(self, place: str, codes: Index, totals: AnyArray, n_held: int, seed: int) -> Mask:
        from sklearn.model_selection import train_test_split

        several = np.flatnonzero(totals[codes] > 1)  # the only row of a class must be learned from
        n_several = int(np.sum(totals > 1))
        n_held = min(n_held, several.size - n_several)
        if n_held < 1:
            raise InvalidInputError(f"{place}--test-size leaves too few rows for {totals.size} classes")
        alike = codes[several] if n_held >= n_several else None
        test = train_test_split(several, test_size=n_held, stratify=alike, random_state=seed)[1]
        return np.isin(np.arange(len(codes)), test)

    def remarks(self, name: str, labels: AnyArray) -> list[str]:
        """Return what may be wrong with the column of classes: written in several ways, or an amount."""
        classes = np.unique(labels)
        if classes.dtype.kind in "iu":
            amounts = (
                f"{len(classes)} classes of whole numbers: is {name!r} an amount? "
                "--task regression predicts numbers, --task classification leaves out this line"
            )
            return [amounts] if len(classes) > SOME_CLASSES else []
        alike = {" ".join(str(label).casefold().split()) for label in classes.tolist()}
        if len(alike) == len(classes):
            return []
        return [
            f"{len(classes)} classes, but {len(alike)} if upper and lower case and blanks are left aside: "
            f"is a class in {name!r} written in several ways?"
        ]


class NumberTask(_AnyTask):
    """A number is predicted of each row."""

    name, noun, missing = "regression", "number", "has no number"

    def plain(self, where: str, column: AnyArray, first: int = 1) -> Read:
        """Read a label column about which nothing is declared."""
        try:
            values = np.asarray(as_text(where, column, first), dtype=np.float64)
        except ValueError:
            raise InvalidInputError(f"{where} holds cells that are no numbers") from None
        _require_present(where, ~np.isfinite(values), first)
        return values, np.ones(len(values), dtype=np.bool_)

    def shortage(self, labels: AnyArray, known: Mask) -> str | None:
        """Return why nothing can be learned from numbers; None if something can."""
        return None if len(np.unique(labels)) > 1 else "fewer than two numbers"

    def split(self, place: str, labels: AnyArray, persons: AnyArray, share: float, seed: int) -> Mask:
        """Choose rows to hold out, no person in both parts."""
        units, n_held = _units(place, persons, share)
        return np.isin(units, np.random.default_rng(seed).permutation(units.max() + 1)[:n_held])

    def remarks(self, name: str, labels: AnyArray) -> list[str]:
        """Return what may be wrong with numbers: nothing that can be told."""
        return []


Task = ClassTask | NumberTask
CLASSES, NUMBERS = ClassTask(), NumberTask()


def _units(place: str, persons: AnyArray, share: float) -> tuple[Index, int]:
    """Number of each row's person, and how many persons to hold out."""
    units = np.unique(persons, return_inverse=True)[1]
    n_units = int(units.max()) + 1
    n_held = round(share * n_units)
    if not 0 < n_held < n_units:
        who = "rows" if n_units == len(units) else "persons"
        raise InvalidInputError(f"{place}--test-size leaves too few {who}")
    return units, n_held


# --- labels and persons about which nothing is declared -----------------------------------------------------


def as_text(where: str, values: AnyArray, first: int = 1) -> AnyArray:
    """Python objects as texts, everything else as it is; a missing value is refused."""
    if values.dtype.kind != "O":
        return values
    _require_present(where, np.array([cell is None for cell in values], dtype=np.bool_), first)
    return values.astype(str)


def as_labels(where: str, column: AnyArray, first: int = 1) -> Labels:
    """Return a column as class labels, ``int64`` or text; a missing one is refused.

    Text that spells whole numbers becomes numbers: a model fitted on a CSV file understands an NPZ file.

    Parameters
    ----------
    where : str
        Beginning of a message.
    column : ndarray of shape (n_rows,)
        The cells.
    first : int, default=1
        Number of the first of these rows.

    Returns
    -------
    ndarray of shape (n_rows,)
        The labels.
    """
    kind = column.dtype.kind
    if kind in "US":
        return _labels_of_texts(where, column.astype(str), first)
    if kind in "iub":
        return column.astype(str if kind == "b" else np.int64)
    if kind != "f":
        raise InvalidInputError(f"{where} holds neither numbers nor text")
    _require_present(where, np.isnan(column), first)
    _require_whole(where, bool(np.all((np.abs(column) < 2**53) & (column == np.round(column)))))
    return column.astype(np.int64)


def _labels_of_texts(where: str, column: AnyArray, first: int) -> AnyArray:
    distinct, inverse = distinct_texts(where, column, first)
    # Each text by itself: "1.0" is the class 1 also beside a class that is no number.
    classes = [
        str(int(text.partition(".")[0])) if WHOLE.fullmatch(text) else text for text in distinct.tolist()
    ]
    if all(map(WHOLE.fullmatch, distinct)):
        return np.array(classes).astype(np.int64)[inverse]
    has_point = any("." in text for text in distinct)
    _require_whole(where, not (has_point and all(map(DECIMAL.fullmatch, distinct))))
    return np.array(classes)[inverse]


def _require_whole(where: str, are_whole: bool) -> None:
    if not are_whole:
        raise InvalidInputError(f"{where} holds fractions; classes must be text or whole numbers")


def distinct_texts(where: str, column: AnyArray, first: int) -> tuple[AnyArray, AnyArray]:
    """The distinct texts of a column and the number of each row's; an empty cell or ``nan`` is an error."""
    distinct, inverse = np.unique(column, return_inverse=True)
    missing = np.isin(np.char.lower(np.char.strip(distinct)), ["", "nan"])
    _require_present(where, missing[inverse], first)
    return distinct, inverse


def identifiers_of(column: AnyArray) -> AnyArray:
    """Return a column as it stands: text, or ``int64`` when all entries are whole numbers.

    Parameters
    ----------
    column : ndarray of shape (n_rows,)
        The cells.

    Returns
    -------
    ndarray of shape (n_rows,)
        The same to write into another table.
    """
    if column.dtype.kind == "O":
        column = np.array(["" if cell is None else str(cell) for cell in column], dtype=str)
    if column.dtype.kind in "US":
        column = column.astype(str)
        if all(WHOLE.fullmatch(text) and "." not in text for text in column):
            return column.astype(np.int64)
    return column


def _require_present(where: str, missing: AnyArray, first: int) -> None:
    if missing.any():
        raise InvalidInputError(f"{where} has a missing value in row {first + int(np.argmax(missing))}")
