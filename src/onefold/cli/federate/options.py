"""Options that several parts of ``onefold federate`` share: the rule, its held-out rows, and encryption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as kinds
from onefold.cli.tables import labels_of, read_table, require_two_classes
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = tuple[NDArray[Any], NDArray[Any]]

BITS = 8
RULE_HELP = (
    "min: the closest site decides, among sites that trust each other{default}; checked: withstands F lying "
    "sites, recommended where most classes are at 2 F + 1 sites; trimmed: the same without looking for the "
    "lying sites first; weighted: sites that do badly on --held-out rows are not believed, recommended where "
    "classes are at few sites"
)


def add_rule_options(parser: Any, *, default: str | None) -> None:
    """Which rule, against how many lying sites, with which held-out rows."""
    said = "" if default is None else " (default)"
    # The names are checked where the rules are, so that the command line loads nothing for it.
    parser.add_argument("--rule", default=default, metavar="RULE", help=RULE_HELP.format(default=said))
    parser.add_argument(
        "--liars",
        type=kinds.positive_int,
        default=None if default is None else 1,
        metavar="F",
        help="number of lying sites that the rule must withstand (default: 1)",
    )
    parser.add_argument(
        "--held-out",
        metavar="FILE",
        help="table with some rows of each class that no site knows, for --rule weighted",
    )


def check_rule(rule: str, held_out: str | None) -> None:
    """Refuse a rule without what it needs, and held-out rows without the rule."""
    if rule == "weighted" and held_out is None:
        raise InvalidInputError("--rule weighted needs --held-out FILE: rows with known classes")
    if rule != "weighted" and held_out is not None:
        raise InvalidInputError("--held-out is for --rule weighted")


def held_out_rows(
    path: str | None, label: str | None, ignore: list[str], names: tuple[str, ...] | None = None
) -> Rows | None:
    """The held-out rows of a table with their classes; ``names`` are the features, if they have names."""
    if path is None:
        return None
    if label is None:
        raise InvalidInputError("--held-out needs the name of its column with the classes: give --label COL")
    table = read_table(path, keep=[label], ignore=[] if names else ignore, features=names)
    labels = labels_of(table, label)
    require_two_classes(table, label, labels)
    return table.values, labels


def add_encryption_options(parser: Any, *, bound_required: bool) -> None:
    """The map from measures to whole numbers, and where the secret keys are."""
    parser.add_argument(
        "--bits",
        type=kinds.positive_int,
        metavar="P",
        help=f"bits of the whole number that a measure becomes (default: {BITS})",
    )
    spread = "" if bound_required else " (default: 1; for distances the spread of the rows)"
    parser.add_argument(
        "--bound",
        type=kinds.positive,
        required=bound_required,
        metavar="B",
        help=f"largest measure: larger ones are taken for B{spread}",
    )
    parser.add_argument(
        "--floor",
        type=kinds.not_negative,
        metavar="A",
        help="smallest measure: smaller ones are taken for A (default: 0)",
    )
    parser.add_argument(
        "--power",
        type=kinds.positive,
        metavar="E",
        help="exponent applied to the scaled measure before rounding (default: 1)",
    )
    add_keys_option(parser)


def add_keys_option(parser: Any) -> None:
    """Where the secret keys are."""
    parser.add_argument(
        "--keys", metavar="DIR", help="folder of your secret keys (default: ~/.local/share/onefold/keys)"
    )
