"""What every source of a table can do: name its columns, and hand out its cells in blocks of rows."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.foreign import NOT_READABLE
from onefold.exceptions import FileFormatError, InvalidInputError, OnefoldError
from onefold.tables.cells import plain_column

__all__ = ["BLOCK_ROWS", "MOST_CELLS", "Source", "own_errors"]

BLOCK_ROWS = 20_000
MOST_CELLS = 2_000_000  # of a block: wide tables have blocks of fewer rows


class Source(AbstractContextManager["Source"]):
    """A table opened for reading.

    Parameters
    ----------
    path : Path or str
        The file or folder, or the address in a database without a password: what messages begin with.
    private : bool, default=False
        Whether no row may decide how others are read, or that something is said.

    Attributes
    ----------
    names : tuple of str
        The columns.
    delimiter : str or None
        What separates the cells of a text file.
    matrix : tuple of str or None
        The columns that stand in one array ``X`` of an NPZ file.
    named : bool
        Whether the file names all its columns; those of an array ``X`` without names are called x0, x1, ...
    """

    def __init__(self, path: Path | str, *, private: bool = False) -> None:
        self.path, self.private = path, private
        self.names: tuple[str, ...] = ()
        self.delimiter: str | None = None
        self.matrix: tuple[str, ...] | None = None
        self.named = True

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""

    def require(self, names: Iterable[str]) -> None:
        """Refuse names of columns that the file does not have.

        Parameters
        ----------
        names : iterable of str
            Columns that are needed.
        """
        for name in names:
            if name not in self.names:
                near = get_close_matches(name, self.names, n=1)
                hint = f", did you mean {near[0]!r}?" if near else ""
                if self.delimiter is not None and len(self.names) == 1:
                    hint = hint or ": does the header line come first, with the names of all columns?"
                raise InvalidInputError(
                    f"{self.path}: there is no column {name!r} among its {len(self.names)}{hint}"
                )

    def blocks(
        self,
        columns: Sequence[str],
        rows: int = BLOCK_ROWS,
        *,
        may_be_empty: bool = False,
        arrow: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Yield the columns asked for, in blocks of rows.

        Parameters
        ----------
        columns : sequence of str
            Columns of the file.
        rows : int, default=20000
            Number of rows in a block, fewer where the table is very wide.
        may_be_empty : bool, default=False
            Whether a file without rows has one block, without rows; otherwise it is an error.
        arrow : bool, default=False
            Whether columns of texts may be arrays of Arrow, which :meth:`Field.read` reads fast.

        Yields
        ------
        dict of str to ndarray
            The columns, in the order asked for.
        """
        empty = True
        with own_errors(self.path):
            for block in self._blocks(columns, rows):
                empty = False
                yield block if arrow else {name: plain_column(cells) for name, cells in block.items()}
        if empty and may_be_empty:
            yield {name: np.empty(0, dtype=object) for name in columns}
        elif empty:
            raise InvalidInputError(f"{self.path}: the table has no rows")

    def _blocks(self, columns: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        """The blocks of this format; texts may be arrays of Arrow."""
        raise NotImplementedError


@contextmanager
def own_errors(path: Path | str) -> Iterator[None]:
    """Let whatever goes wrong while a table is read become one line that begins with its place.

    Parameters
    ----------
    path : Path or str
        Where the table is.
    """
    try:
        yield
    except OnefoldError:
        raise
    except PermissionError as error:
        raise InvalidInputError(f"{path}: permission denied") from error
    except MemoryError:
        raise InvalidInputError(f"{path}: not enough memory for this table; try fewer rows") from None
    except NOT_READABLE as error:
        raise FileFormatError(f"{path}: cannot be read, or is damaged") from error
