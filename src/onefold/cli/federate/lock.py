"""``onefold federate lock``: keys of one who asks encrypted queries by way of a server elsewhere."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from onefold.cli import arguments as kinds
from onefold.cli.console import busy, print_json, say
from onefold.cli.federate import running
from onefold.cli.federate.encrypted import BITS, LOCK_SUFFIX, add_map_options, make_lock
from onefold.cli.federate.keyring import Keyring, default_folder
from onefold.cli.labels import WHOLE
from onefold.cli.outputs import check_writable
from onefold.exceptions import InvalidInputError


def add_parser(parts: Any) -> None:
    """Declare the sub-command."""
    parser = parts.add_parser(
        "lock",
        help="make keys for encrypted queries, and what the server may have of them",
        description="Make a secret key, or take the one made before, and write a lock file: what the sites "
        "encrypt with and what the server computes with. It holds no secret. Give it to the server's owner, "
        "and tell the sites' owners the name of the key by another way.",
    )
    parser.add_argument("file", metavar="FILE", help=f"lock file to write, ending in {LOCK_SUFFIX}")
    parser.add_argument("--sites", type=kinds.positive_int, required=True, metavar="N", help="at most")
    parser.add_argument("--classes", nargs="+", required=True, metavar="CLASS", help="all that sites have")
    parser.add_argument(
        "--bits", type=kinds.positive_int, default=BITS, metavar="P", help=f"of a measure ({BITS})"
    )
    parser.add_argument(
        "--bound", type=kinds.positive, required=True, metavar="B", help="measures above are taken for B"
    )
    add_map_options(parser)
    parser.add_argument("--keys", metavar="DIR", help="your secret keys (~/.local/share/onefold/keys)")
    parser.add_argument("--json", action="store_true", help="print what was made as JSON")
    parser.set_defaults(run=running.with_exit_code(run))


def run(args: argparse.Namespace) -> int:
    """Make or take the keys, write the lock."""
    from onefold.cli.federate.sealed_file import save_lock
    from onefold.federated.fhe.messages import to_bytes

    if not args.file.endswith(LOCK_SUFFIX):
        raise InvalidInputError(f"{args.file}: the name must end in {LOCK_SUFFIX}")
    check_writable(args.file)
    classes = _labels(args.classes)
    with busy("making keys", args.json):
        keyring = Keyring(Path(args.keys) if args.keys else default_folder())
        querier = keyring.querier(args.sites, len(classes), args.bits)
        lock = make_lock(querier, classes, (args.bound, args.power or 1.0, args.floor or 0.0))
        save_lock(Path(args.file), lock, to_bytes(querier.evaluation_keys()))
    told = {"lock": args.file, "key": lock.key_id, "classes": classes, "bits": lock.bits, "bound": lock.bound}
    if args.json:
        print_json(told)
    else:
        running.tell(f"{args.file}: {len(classes)} classes, {lock.bits} bits, no secret in it")
        running.tell(f"Name of the key, for the sites' owners (--trust-key): {lock.key_id}")
        say(f"the secret key stays in {keyring.folder}", quiet=False)
    return 0


def _labels(texts: list[str]) -> list[Any]:
    """Whole numbers if all are, as tables have them; sorted, so that ties fall as they do in clear."""
    if len(set(texts)) < len(texts):
        raise InvalidInputError("--classes must be distinct")
    if all(WHOLE.fullmatch(text) for text in texts):  # 007 is a code, not a number
        return sorted(int(text.partition(".")[0]) for text in texts)
    return sorted(texts)
