"""Rules against lying sites on the command line, and the held-out rows of one of them."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onefold.cli import arguments as kinds
from onefold.cli.labels import labels_of, require_two_classes
from onefold.cli.tables import read_table
from onefold.exceptions import FederationError, FileFormatError, InvalidInputError

if TYPE_CHECKING:
    from onefold.federated import GlobalClassifier
    from onefold.federated.flower.asking import Gathered
    from onefold.federated.flower.folders import ServerFolder
    from onefold.federated.server import Result
    from onefold.federated.trust import HiddenProbes

RULES = ("min", "trimmed", "checked", "weighted")
HELP = (
    "min: the closest site decides, among sites that trust each other{default}; checked: withstands F lying "
    "sites, recommended where most classes have 2 F + 1 owners; trimmed: the same without looking for them "
    "first; weighted: sites that do badly on --held-out rows are not believed, recommended where classes "
    "have few owners"
)

Rows = tuple[NDArray[Any], NDArray[Any]]
Names = tuple[str, ...] | None


def add_rule_options(parser: Any, *, default: str | None) -> None:
    """Which rule, against how many liars, with which held-out rows."""
    said = "" if default is None else " (default)"
    parser.add_argument("--rule", choices=RULES, default=default, help=HELP.format(default=said))
    parser.add_argument(
        "--liars",
        type=kinds.positive_int,
        default=None if default is None else 1,
        metavar="F",
        help="lying sites to withstand (1)",
    )
    parser.add_argument(
        "--held-out", metavar="FILE", help="table of some rows of each class that no site knows, for weighted"
    )


def held_out_rows(path: str, label: str | None, ignore: list[str], names: Names = None) -> Rows:
    """The held-out rows of a table, with their classes; ``names`` are the features, if they have names."""
    if label is None:
        raise InvalidInputError("--held-out needs the name of its column with the classes: give --label COL")
    table = read_table(path, keep=[label], ignore=[] if names else ignore, features=names)
    labels = labels_of(table, label)
    require_two_classes(table, label, labels)
    return table.values, labels


def check_rule(rule: str, held_out: str | None, *, kept: bool = False) -> None:
    """Refuse a rule without what it needs, and held-out rows without the rule."""
    if rule == "weighted" and held_out is None and not kept:
        raise InvalidInputError("--rule weighted needs --held-out FILE: rows with known classes")
    if rule != "weighted" and held_out is not None:
        raise InvalidInputError("--held-out is for --rule weighted")


def keep_rows(folder: ServerFolder, rows: Rows) -> None:
    """Put held-out rows down in the server's folder, for its owner only."""
    from onefold.federated.flower.folders import write_private

    content = io.BytesIO()
    np.savez(content, X=rows[0], y=rows[1])
    write_private(folder.held_out, content.getvalue())


def kept_rows(path: Path) -> Rows:
    """What :func:`keep_rows` wrote."""
    try:
        with np.load(path, allow_pickle=False) as found:
            return found["X"], found["y"]
    except FileNotFoundError:
        raise InvalidInputError("--rule weighted needs --held-out FILE: rows with known classes") from None
    except (OSError, ValueError, KeyError):
        raise FileFormatError(f"{path}: the held-out rows cannot be read") from None


class Combining:
    """From rows to queries, and from what came back to a result, by the rule of a server or of this query."""

    def __init__(self, folder: ServerFolder, args: argparse.Namespace, names: Names) -> None:
        from onefold.federated import GlobalClassifier

        settings = folder.settings
        rule = args.rule or settings.rule
        check_rule(rule, args.held_out, kept=True)
        self.rows: Rows | None = None
        if rule == "weighted" and args.held_out is not None:
            self.rows = held_out_rows(args.held_out, args.held_out_label or args.label, args.ignore, names)
        elif rule == "weighted":
            self.rows = kept_rows(folder.held_out)
        self.server: GlobalClassifier = GlobalClassifier(rule, n_liars=args.liars or settings.n_liars)

    def query(self, rows: NDArray[Any], query_id: str) -> HiddenProbes:
        """What to ask: the rows, with the held-out ones hidden among them."""
        from onefold.federated.trust import hide

        if self.rows is None:
            return hide(rows, None, query_id)
        return hide(rows, self.rows[0].astype(rows.dtype), query_id)

    def result(self, hidden: HiddenProbes, gathered: Gathered) -> Result:
        """One result from what came back; a :class:`FederationError` if none is possible."""
        alone, labelled = hidden.parted(gathered.messages)
        try:
            if self.rows is not None:
                self.server.learn_trust(None, self.rows[1], labelled)
            return self.server.combine(
                alone, gathered.expected, query=hidden.asked, profiles=gathered.profiles
            )
        except InvalidInputError as error:
            raise FederationError(f"no answer to be used: {error}; {_codes(gathered)}") from None


def _codes(gathered: Gathered) -> str:
    from onefold.federated.messages import Failure

    codes = []
    for site in gathered.expected:
        message = gathered.messages.get(site)
        said = "answered" if message is not None else "absent"
        codes.append(f"{site} {message.code if isinstance(message, Failure) else said}")
    return ", ".join(codes) or "there is no member"
