"""Every error and warning onefold raises, in one place.

Messages are one line, say what to do, and never contain values taken from the data. Names in them may come
from files and messages of others: what a terminal would obey is shown escaped, here and nowhere else.
"""

__all__ = [
    "BudgetExceededError",
    "DataScaleWarning",
    "DecryptionError",
    "FederationError",
    "FileFormatError",
    "InvalidInputError",
    "MessageError",
    "MissingDependencyError",
    "OnefoldError",
    "OnefoldWarning",
    "PrivacyLeakWarning",
    "QueryRefused",
    "ServerBusyError",
    "TamperedLogError",
]


def printable(text: str) -> str:
    """Return the text with what a terminal would obey, or could not show, written as an escape.

    Examples
    --------
    >>> printable("a name\\x1b[31m")
    'a name\\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


class OnefoldError(Exception):
    """Root of all errors raised on purpose by onefold."""

    def __str__(self) -> str:
        return printable(super().__str__())


class InvalidInputError(OnefoldError, ValueError):
    """Data or parameters that cannot be used."""


class FileFormatError(InvalidInputError):
    """A file that is damaged, of another format, or of a newer version."""


class TamperedLogError(FileFormatError):
    """A log whose lines were edited, cut or put in another order."""


class MessageError(InvalidInputError):
    """A message between server, sites and queriers that is malformed, too large, or of another version."""


class DecryptionError(InvalidInputError):
    """An encrypted result that cannot be trusted: too much noise, another key, or a check that fails."""


class QueryRefused(OnefoldError):
    """A query that a site does not answer.

    Parameters
    ----------
    code : str
        One of a fixed set of words, never free text.
    """

    def __init__(self, code: str) -> None:
        super().__init__(f"the query is refused: {code}")
        self.code = code


class FederationError(OnefoldError):
    """A process of a federation did not start, did not answer, or is not running."""


class ServerBusyError(FederationError):
    """A server that takes no more queries for now; nothing was asked.

    Parameters
    ----------
    message : str
        One line.
    seconds : float
        In about how many seconds to try again.
    """

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class BudgetExceededError(OnefoldError):
    """A release would spend more privacy than the ledger allows; nothing was spent."""


class MissingDependencyError(OnefoldError, ImportError):
    """An optional package is needed and not installed."""


class OnefoldWarning(UserWarning):
    """Root of all warnings issued by onefold."""

    def __str__(self) -> str:
        return printable(super().__str__())


class DataScaleWarning(OnefoldWarning):
    """The scale of the data makes the regularisation vanish or dominate."""


class PrivacyLeakWarning(OnefoldWarning):
    """A step that looks at raw data after the noise: the stated guarantee does not hold."""
