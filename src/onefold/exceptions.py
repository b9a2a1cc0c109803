"""Every error and warning onefold raises, in one place.

Messages are one line, say what to do, and never contain values taken from the data.
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
    "TamperedLogError",
]


class OnefoldError(Exception):
    """Root of all errors raised on purpose by onefold."""


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


class BudgetExceededError(OnefoldError):
    """A release would spend more privacy than the ledger allows; nothing was spent."""


class MissingDependencyError(OnefoldError, ImportError):
    """An optional package is needed and not installed."""


class OnefoldWarning(UserWarning):
    """Root of all warnings issued by onefold."""


class DataScaleWarning(OnefoldWarning):
    """The scale of the data makes the regularisation vanish or dominate."""


class PrivacyLeakWarning(OnefoldWarning):
    """A step that looks at raw data after the noise: the stated guarantee does not hold."""
