"""What the parts of ``onefold federate`` share: where the server is, the rule, and stopping in order."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onefold.cli import arguments as shared
from onefold.cli.arguments import option
from onefold.exceptions import InvalidInputError
from onefold.tables import Schema, read_table
from onefold.tables.rows import rows
from onefold.tables.tasks import CLASSES

RULE = (
    "how the answers of the sites are combined. min: the closest site decides, for sites that trust each "
    "other; checked: withstands F lying sites, recommended where most classes are at 2 F + 1 sites or more; "
    "trimmed: like checked, but without looking for the lying sites first; weighted: ignores sites that do "
    "badly on the --held-out rows, recommended where classes are at few sites"
)


def add_folder(parser: Any) -> None:
    """Where the server keeps its things."""
    places = "this folder, server or federation/server"
    option(parser, "--folder DIR", f"folder of the server (default: {places})")


def add_json(parser: Any) -> None:
    """The result for machines."""
    shared.add_output_options(parser, quiet=False)


@contextmanager
def until_stopped() -> Iterator[Callable[[], bool]]:
    """A function that says whether to go on; an interrupt or a termination ends it, in order.

    Until it is called for the first time, while things are being started, they end that at once.
    """
    going, started = True, False

    def stop(*_: object) -> None:
        nonlocal going
        going = False
        if not started:
            raise KeyboardInterrupt

    def is_going() -> bool:
        nonlocal started
        started = True
        return going

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield is_going
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- the schema -------------------------------------------------------------------------------------------


def add_schema(parser: Any) -> None:
    """The contract that all sites share."""
    shared.add_schema(parser, "the same at all sites; it says what --label and --ignore would say")
    shared.add_encoders(parser, "encoder of a column of --schema, the same at all sites")


def schema_of(args: Any, *others: str) -> Any:
    """The schema that was given, or None; options that say what it says are refused."""
    return shared.declared_schema(args, "label", "ignore", *others)


# --- the rule ---------------------------------------------------------------------------------------------


def add_rule_options(parser: Any, *, default: str | None) -> None:
    """Which rule, against how many lying sites, with which held-out rows; without a default, the server's."""
    # The names are checked where the rules are, so that the command line loads nothing for it.
    servers = " (default: the server's)" if default is None else ""
    option(parser, "--rule RULE", RULE + servers, default=default)
    liars = f"number of lying sites that the rule must withstand{servers}"
    option(parser, "--liars F", liars, shared.whole, None if default is None else 1)
    held_out = "table with some rows of each class that no site knows, for --rule weighted"
    option(parser, "--held-out FILE", held_out)


def check_rule(rule: str, held_out: str | None) -> None:
    """Refuse a rule without what it needs, and held-out rows without the rule."""
    if rule == "weighted" and held_out is None:
        raise InvalidInputError("--rule weighted needs --held-out FILE: rows with known classes")
    if rule != "weighted" and held_out is not None:
        raise InvalidInputError("--held-out is for --rule weighted")


def held_out_rows(path: str | None, label: str | None, ignore: list[str], schema: Schema) -> Any:
    """The held-out rows of a table with their classes, by the schema of the sites; None without a table.

    Where that declares a label they are a table, and the classes are those of its label column.
    """
    if path is None:
        return None
    if not schema.plain:
        return read_table(path, schema=schema), None
    if label is None:
        raise InvalidInputError("--held-out needs the name of its column with the classes: give --label COL")
    left_out = ignore if schema.unnamed else []
    found = rows(path, schema, label=label, ignore=left_out, task=CLASSES.name)
    return found.X, found.y
