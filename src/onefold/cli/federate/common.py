"""What the parts of ``onefold federate`` share: where the server is, the rule, and stopping in order."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as shared
from onefold.cli.arguments import option
from onefold.exceptions import InvalidInputError
from onefold.tables import Schema, read_table
from onefold.tables.rows import rows
from onefold.tables.tasks import CLASSES

if TYPE_CHECKING:
    from onefold.federated.flower import Federation, Site

RULE = "how answers are combined: min, checked, trimmed or weighted; see docs/deploy.md"


def add_folder(parser: Any) -> None:
    """Where the server keeps its things."""
    option(parser, "--folder DIR", "folder of the server (default: ., server or federation/server)")


def add_site_folder(parser: Any) -> None:
    """Where a site keeps its things."""
    option(parser, "--folder DIR", "folder of the site", default=".")


def add_querier(parser: Any) -> None:
    """Who asks, and what for."""
    option(parser, "--querier NAME", "name of the querier, or its .signkey file (default: your user name)")
    purpose = "what the answers are for: a line that is signed and shown to the data owners"
    option(parser, "--purpose TEXT", purpose, default="")


def table_of(args: argparse.Namespace) -> Any:
    """The table that was named, as DATA or by ``--data``."""
    if None not in (args.table, args.data):
        raise InvalidInputError("DATA and --data name a table each: give one of them")
    return args.table if args.data is None else args.data


def federation_of(args: argparse.Namespace) -> Federation:
    """The federation whose server's folder was named."""
    from onefold.federated.flower import Federation

    return Federation(args.folder)


def site_of(args: argparse.Namespace) -> Site:
    """The site whose folder was named."""
    from onefold.federated.flower import Site

    return Site(args.folder)


def ends(parser: Any, run: Callable[[argparse.Namespace], int], **more: Any) -> None:
    """The result for machines, and what a command runs."""
    shared.ends(parser, run, quiet=False, **more)


def refuse(args: argparse.Namespace, names: Iterable[str], why: str, usual: Any = None) -> None:
    """Refuse options that were given; ``why`` goes on after the first of them."""
    for name in names:
        if getattr(args, name, None) not in (None, False, usual):
            raise InvalidInputError(f"--{name.replace('_', '-')} {why}")


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
    shared.add_encoders(parser, "encoder, the same at all sites, of a column")


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
