"""A table block by block, as it stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onefold.tables.cells import plain_column
from onefold.tables.reading import open_table


def scan(path: Any, rows: int = 20_000, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """The blocks of a file."""
    with open_table(path) as source:
        for block in source.blocks(source.names if columns is None else columns, rows):
            yield {name: plain_column(cells) for name, cells in block.items()}
