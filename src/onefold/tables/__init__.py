"""Tables and their declared contract: what the columns mean, how they are read, encoded and written."""

from onefold.tables.encoded import CellEncoder
from onefold.tables.fields import Field
from onefold.tables.rows import read_table
from onefold.tables.schema import Finding, Schema, check_table
from onefold.tables.writing import write_table

__all__ = [
    "CellEncoder",
    "Field",
    "Finding",
    "Schema",
    "check_table",
    "read_table",
    "write_table",
]
