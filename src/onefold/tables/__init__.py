"""Tables and their declared contract: what the columns mean, how they are read, encoded and written."""

from onefold.tables.checking import Finding, check_table
from onefold.tables.fields import Field
from onefold.tables.schema import Schema

__all__ = ["Field", "Finding", "Schema", "check_table"]
