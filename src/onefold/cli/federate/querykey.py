"""``onefold federate querykey``: keys of a querier who asks by way of a server elsewhere."""

from __future__ import annotations

import argparse
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.console import busy, print_json, say
from onefold.cli.federate import options, running
from onefold.cli.outputs import check_writable
from onefold.cli.tables import WHOLE
from onefold.exceptions import InvalidInputError


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "querykey",
        aliases=["lock"],
        help="make a query key, for encrypted queries by way of a server elsewhere",
        description="Make a secret key, or take the one made before, and write a query key file: what the "
        "sites encrypt with and what the server computes with. It holds no secret. Give it to the server's "
        "operator, and tell the sites the id of the key by another way. (Called lock in version 0.1.)",
    )
    parser.add_argument("file", metavar="FILE", help="query key file to write, ending in .querykey")
    parser.add_argument(
        "--sites",
        type=kinds.positive_int,
        required=True,
        metavar="N",
        help="largest number of sites that may answer",
    )
    parser.add_argument(
        "--classes", nargs="+", required=True, metavar="CLASS", help="all classes that the sites have"
    )
    options.add_encryption_options(parser, bound_required=True)
    parser.add_argument("--json", action="store_true", help="print what was made as JSON")
    parser.set_defaults(run=running.with_exit_code(run))


def run(args: argparse.Namespace) -> int:
    """Make or take the keys, write the query key file."""
    from onefold.federated.flower import make_query_key
    from onefold.federated.flower.encrypted import Keyring

    check_writable(args.file)
    classes = labels_from(args.classes)
    with busy("making keys", args.json):
        key = make_query_key(
            args.file,
            args.sites,
            classes,
            args.bound,
            bits=args.bits or options.BITS,
            power=args.power or 1.0,
            floor=args.floor or 0.0,
            keys=args.keys,
        )
    lock = key.lock
    if args.json:
        # "lock" is the name that version 0.1 gave to "query_key".
        told = {"query_key": args.file, "lock": args.file, "key": lock.key_id}
        print_json({**told, "classes": list(lock.classes), "bits": lock.bits, "bound": lock.bound})
    else:
        running.tell(f"{args.file}: {len(classes)} classes, {lock.bits} bits, no secret in it")
        running.tell(f"Id of the key, for the sites (--trust-key): {lock.key_id}")
        say(f"the secret key stays in {Keyring(args.keys).folder}", quiet=False)
    return 0


def labels_from(texts: list[str]) -> list[Any]:
    """Class labels as tables have them: whole numbers if all texts are; sorted."""
    if len(set(texts)) < len(texts):
        raise InvalidInputError("--classes must be distinct")
    if all(WHOLE.fullmatch(text) for text in texts):  # 007 is a code, not a number
        return sorted(int(text.partition(".")[0]) for text in texts)
    return sorted(texts)
