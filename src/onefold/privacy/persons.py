"""Rows that belong to persons: which row is whose, and no more rows of a person than were declared."""

import unicodedata
from typing import Any, Literal

import numpy as np

from onefold._base.arrays import AnyArray, Index, Mask, column_array
from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError
from onefold.privacy.samplers import RandomState, byte_stream

__all__ = ["SAME_PERSON", "kept_rows", "known_persons", "limit_rows", "person_codes", "person_texts"]

FORMS: tuple[Literal["NFD", "NFKD"], ...] = ("NFD", "NFKD", "NFKD")
# A row that went to another person would make that person drop one, and this one keep one more.
SAME_PERSON = "changed rows stay with their persons: whom each row is about is taken as known"


def person_codes(person: Any, n_rows: int) -> Index:
    """Return a number for each row, the same for all rows of a person.

    Parameters
    ----------
    person : array-like of shape (n_rows,)
        Who each row is about: texts or numbers, none of them missing. Capital letters, blanks and the codes
        of a character make no other person.
    n_rows : int
        Number of rows.

    Returns
    -------
    ndarray of shape (n_rows,)
        Numbers from 0, without gaps.

    See Also
    --------
    limit_rows : Drops rows of persons who have too many.

    Examples
    --------
    >>> from onefold.privacy.persons import person_codes
    >>> person_codes(["b", "a", "b"], 3).tolist()
    [1, 0, 1]
    """
    names, known = _names(person, n_rows)
    if not known.all():
        raise InvalidInputError("person is missing in some rows: fill it in, or leave these rows out")
    return np.unique(names, return_inverse=True)[1]


def known_persons(person: Any, n_rows: int) -> Mask:
    """Tell which rows are about somebody: the others can be left out, each by itself.

    Parameters
    ----------
    person : array-like of shape (n_rows,)
        Who each row is about.
    n_rows : int
        Number of rows.

    Returns
    -------
    ndarray of bool of shape (n_rows,)
        Whether :func:`person_codes` would take the row.

    See Also
    --------
    person_codes : Refuses what is missing.

    Examples
    --------
    >>> from onefold.privacy.persons import known_persons
    >>> known_persons(["b", "", "nan", None], 4).tolist()
    [True, False, False, False]
    """
    return _names(person, n_rows)[1]


def person_texts(person: Any) -> list[str]:
    """Return one text for each row, the same for all rows of a person, in whatever table they are.

    Parameters
    ----------
    person : array-like of shape (n_rows,)
        Who each row is about: texts or numbers.

    Returns
    -------
    list of str
        The texts; empty where the person is missing.

    See Also
    --------
    person_codes : Numbers instead of texts, for the rows of one table.

    Examples
    --------
    >>> from onefold.privacy.persons import person_texts
    >>> person_texts([7, "7.0 ", None])
    ['7', '7', '']
    """
    return [_text(name) for name in column_array(person).astype(object).tolist()]


def _names(person: Any, n_rows: int) -> tuple[AnyArray, Mask]:
    """Texts or numbers, and which of them are somebody."""
    names = column_array(person)
    if names.shape != (n_rows,) or names.dtype.kind not in "OUSiufb":
        raise InvalidInputError("person must be a column of texts or numbers, one for each row")
    if names.dtype.kind == "O":
        names = np.array([_text(name) for name in names], dtype=str)
    elif names.dtype.kind in "US":
        distinct, places = np.unique(names, return_inverse=True)
        names = np.array([_text(name) for name in distinct.tolist()], dtype=str)[places]
    if names.dtype.kind == "f":
        return names, ~np.isnan(names)
    return names, names != "" if names.dtype.kind == "U" else np.ones(n_rows, dtype=np.bool_)


def _text(name: Any) -> str:
    """Text of a cell, empty where it is missing: 1, 1.0, "1" and "1.0 " are the same person.

    So are names in other letters, blanks or codes of the same characters: two persons who are taken for one
    are promised more than needed, one who is taken for two would be promised less.
    """
    if name is None:
        return ""
    equal = name == name  # NaN and missing values of pandas are not
    if not isinstance(equal, (bool, np.bool_)) or not equal:
        return ""
    text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
    if isinstance(name, (float, np.floating)) and float(name).is_integer():
        text = str(int(name))
    if text.strip() == "nan":  # as NumPy writes a missing one; Nan is a name
        return ""
    for form in FORMS:  # compatibility caseless matching of Unicode
        text = unicodedata.normalize(form, text).casefold()
    text = " ".join(text.split())
    whole, point, zeros = text.partition(".")
    return whole if point and whole.lstrip("-").isdigit() and not zeros.strip("0") else text


def limit_rows(person: Any, rows_per_person: int, random_state: RandomState = None) -> Index:
    """Choose at random which rows of a person are kept, before anything else looks at them.

    Parameters
    ----------
    person : array-like of shape (n_rows,)
        Who each row is about: texts or numbers, none of them missing.
    rows_per_person : int
        Largest number of rows of a person; what is above is dropped, each row with the same probability.
    random_state : int, Generator or None, default=None
        None takes entropy from the operating system. A seed makes the choice predictable: use it in tests
        only.

    Returns
    -------
    ndarray
        Positions of the rows that are kept, in ascending order.

    See Also
    --------
    onefold.privacy.PrivateMoments : Weighs rows so that a person counts once.

    Notes
    -----
    Which rows of a person remain depends on how many there are: one record more can take the place of
    another. What a record is promised is therefore computed for a replaced one, which belongs to the same
    person as the one it replaces.

    Examples
    --------
    >>> from onefold.privacy.persons import limit_rows
    >>> len(limit_rows(["a", "a", "a", "b"], 2))
    3
    """
    check_parameter("rows_per_person", rows_per_person, Whole(1))
    codes = person_codes(person, len(person))
    order = np.lexsort((byte_stream(random_state).words(len(codes)), codes))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    place = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    return np.sort(order[place < rows_per_person])


def kept_rows(
    person: Any, rows_per_person: int | None, n_rows: int, random_state: RandomState = None
) -> Index | None:
    """Return the positions of the rows that count, where rows belong to persons; None where all count.

    A promise to persons needs both, who each row is about and a limit: one without the other is refused.

    Parameters
    ----------
    person : array-like of shape (n_rows,) or None
        Who each row is about; None if rows do not belong to persons.
    rows_per_person : int or None
        Largest number of rows of a person; None if nothing was said about it.
    n_rows : int
        Number of rows.
    random_state : int, Generator or None, default=None
        None takes entropy from the operating system. A seed makes the choice predictable: use it in tests
        only.

    Returns
    -------
    ndarray or None
        Positions of the rows that are kept, in ascending order.

    See Also
    --------
    limit_rows : Drops rows of persons who have too many.

    Examples
    --------
    >>> from onefold.privacy.persons import kept_rows
    >>> len(kept_rows(["a", "a", "a", "b"], 2, 4)), kept_rows(None, None, 4)
    (3, None)
    """
    if (person is None) != (rows_per_person is None):
        raise InvalidInputError(
            "person= and rows_per_person= go together: whom each row is about, and the most rows of a person"
        )
    if rows_per_person is None:
        return None
    return limit_rows(person_codes(person, n_rows), rows_per_person, random_state)
