"""Persons who asked to be erased: a list by which later fits of a site leave their rows out.

The list holds no names: of each person a mark, HMAC-SHA256 under a secret of the site's folder. The marks say
nothing without the secret. Whoever has the folder has the secret too, and can try names.
"""

import hashlib
import hmac
import secrets
import sqlite3
from typing import Any

import numpy as np

from onefold._base.arrays import Mask, column_array
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.federated.access.store import Place, opened, put_value, value_of
from onefold.privacy.persons import person_texts
from onefold.tables import Schema
from onefold.tables.columns import rows_of

__all__ = ["ForgottenPersons", "check_named", "without_forgotten"]

NOT_NAMED = (
    "persons were forgotten at this site, and these rows do not say whom they are about: fit with a schema "
    "that has a person column, so that rows of these persons can be left out"
)
NOT_IN_CONTRACT = (
    "persons were forgotten at this site, and the contract's schema has no person column by which their rows "
    "could be left out: this site takes part in sums with a person column only"
)


class ForgottenPersons:
    """The list of a site; without its store nobody was forgotten.

    Parameters
    ----------
    place : Store, str or path
        The store of the site's folder, or a file in a folder that exists.

    Examples
    --------
    >>> import tempfile
    >>> forgotten = ForgottenPersons(tempfile.mkdtemp() + "/site.db")
    >>> forgotten.add("ann")
    True
    >>> forgotten.kept(["ann", "bob", "ann "]).tolist()
    [False, True, False]
    """

    def __init__(self, place: Place) -> None:
        self.store = opened(place)
        self._met: set[str] = set()  # marks of persons whose rows were left out

    def __len__(self) -> int:
        return len(self.marks)

    @property
    def marks(self) -> frozenset[str]:
        """The marks of all persons on the list, to see later whether it has changed."""
        with self.store.reading() as db:
            return _key_and_marks(db)[1]

    def add(self, person: Any) -> bool:
        """Enter a person.

        Parameters
        ----------
        person : str or int
            The person, as tables name them.

        Returns
        -------
        bool
            Whether the person was not on the list yet.
        """
        (text,) = person_texts([person])
        if not text:
            raise InvalidInputError("the person's id is empty")
        with self.store.transaction() as db:
            key, marks = _key_and_marks(db)
            put_value(db, "forgotten.key", key)
            new = marks | {_mark(key, text)}
            _put_marks(db, new)
        return new != marks

    def discard(self, person: Any) -> None:
        """Take a person off the list.

        Parameters
        ----------
        person : str or int
            The person, as tables name them.
        """
        with self.store.transaction() as db:
            key, marks = _key_and_marks(db)
            _put_marks(db, marks - {_mark(key, *person_texts([person]))})

    def has_met(self, person: Any) -> bool:
        """Tell whether the rows that were looked at last were about a person of the list, among others.

        Parameters
        ----------
        person : str or int
            The person, as tables name them.

        Returns
        -------
        bool
            Whether rows of the person were left out.
        """
        with self.store.reading() as db:
            return _mark(_key_and_marks(db)[0], *person_texts([person])) in self._met

    def kept(self, persons: Any) -> Mask:
        """Tell which rows stay: those of others, and those that do not say whom they are about.

        Parameters
        ----------
        persons : array-like of shape (n,)
            Who each row is about.

        Returns
        -------
        ndarray of bool of shape (n,)
            Whether each row stays.
        """
        with self.store.reading() as db:
            key, marks = _key_and_marks(db)
        texts = person_texts(persons)
        named = {text: _mark(key, text) for text in set(texts) if text} if marks else {}
        gone = {text for text, mark in named.items() if mark in marks}
        self._met = {named[text] for text in gone}
        return np.array([text not in gone for text in texts], dtype=np.bool_)


def _key_and_marks(db: sqlite3.Connection) -> tuple[bytes, frozenset[str]]:
    """The secret and the marks; without their secret nothing is fitted, or the erased would come back."""
    key = value_of(db, "forgotten.key", None)
    marks = frozenset(mark for (mark,) in db.execute("SELECT mark FROM forgotten"))
    if key is None and not marks:
        return secrets.token_bytes(32), marks
    if not isinstance(key, bytes) or len(key) != 32:
        raise FileFormatError("the list of forgotten persons is damaged, and nothing is fitted without it")
    return key, marks


def _put_marks(db: sqlite3.Connection, marks: frozenset[str]) -> None:
    """Put all marks anew, in their order, so that the file does not tell who came when."""
    db.execute("DELETE FROM forgotten")
    db.executemany("INSERT INTO forgotten VALUES (?)", ((mark,) for mark in sorted(marks)))


def _mark(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def check_named(forgotten: ForgottenPersons, schema: Schema) -> None:
    """Refuse a sum by a contract that does not say whom rows are about, once somebody is on the list.

    Parameters
    ----------
    forgotten : ForgottenPersons
        The list.
    schema : Schema
        The contract's.
    """
    if schema.person is None and len(forgotten):
        raise InvalidInputError(NOT_IN_CONTRACT)


def without_forgotten(
    forgotten: ForgottenPersons, X: Any, y: Any, person: Any, schema: Schema
) -> tuple[Any, Any, Any]:
    """Leave the rows of forgotten persons out of a fit.

    Parameters
    ----------
    forgotten : ForgottenPersons
        The list.
    X : array-like of shape (n, p), or table
        The rows.
    y : array-like of shape (n,) or None
        Their labels.
    person : array-like of shape (n,), False or None
        Who each row is about; otherwise the person column of the schema says it.
    schema : Schema
        The contract of the table.

    Returns
    -------
    tuple of (Any, Any, Any)
        Rows, labels and persons that are left. Rows that name nobody are refused once somebody is on the
        list.
    """
    if not len(forgotten):
        return X, y, person
    if person is not None and person is not False:
        whom = person
    elif schema.person is not None:
        whom = schema.persons(X)
    else:
        raise InvalidInputError(NOT_NAMED)
    kept = forgotten.kept(whom)
    if kept.all():
        return X, y, person
    columns = [each if each is None or each is False else column_array(each)[kept] for each in (y, person)]
    return rows_of(X, kept), *columns
