"""``onefold federate keys``: the keys of those who open encrypted sums."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold._base.files import make_folder
from onefold.cli import arguments as shared
from onefold.cli.arguments import option
from onefold.cli.console import Parser, show
from onefold.cli.outputs import check_writable
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.federated import HolderGroup, HolderKey

__all__ = ["PUBLIC", "add_keys", "whole_from"]

KEY, PUBLIC = ".key", ".public"
SEEN = (
    "whoever ran this command has seen all keys: good for a trial; for real sums let each holder run onefold "
    "federate keys new, and collect the public files with onefold federate keys contract"
)


def whole_from(least: int) -> Any:
    """Return what reads a whole number from a least one on."""

    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number from {least} on")
        return int(text)

    return parse


def add_keys(parts: Any) -> None:
    """Declare ``keys`` and its parts."""
    parser = parts.add_parser(
        "keys",
        help="make the keys of those who open encrypted sums",
        description="Make the keys of those who open encrypted sums (onefold federate sum). In earnest each "
        "holder makes its own: keys new; keys contract collects their public files. keys init makes all of "
        "them at once, for a trial.",
    )
    kinds = parser.add_subparsers(metavar="PART", required=True, parser_class=Parser)
    new = kinds.add_parser(
        "new",
        help="make the key of one holder, or of a site that signs",
        description="Make the key of one holder, or of a site that signs: NAME.key is secret and stays, "
        "NAME.public goes to whoever writes the contract. Compare the printed fingerprint by another way.",
    )
    new.add_argument("name", metavar="NAME", help="name of the holder or site")
    option(new, "--folder DIR", "folder to write both files to", default=".")
    _add_scheme(new)
    shared.add_output_options(new, quiet=False)
    new.set_defaults(run=run_new_key)
    group = kinds.add_parser(
        "contract",
        help="collect the public keys of holders",
        description="Collect the public keys of all holders in one file, and say what the threshold stands.",
    )
    group.add_argument("public", metavar="PUBLIC", nargs="+", help="public files of the holders")
    _add_scheme(group)
    _add_threshold(group)
    option(group, "--out FILE", "file to write", default="holders.json")
    shared.add_output_options(group, quiet=False)
    group.set_defaults(run=run_group)
    trial = kinds.add_parser(
        "init",
        help="make the keys of all holders at once, for a trial",
        description="Make the keys of all holders at once, and the file of their public parts. Whoever runs "
        "this command sees all keys and could open every site's numbers: it is for a trial.",
    )
    names = "names of the holders, or their number (default: 1 with --scheme bfv)"
    option(trial, "--holders NAME", names, nargs="+")
    _add_scheme(trial)
    _add_threshold(trial)
    option(trial, "--out DIR", "folder to write the files to", default="holders")
    shared.add_output_options(trial, quiet=False)
    trial.set_defaults(run=run_trial)


def _add_scheme(parser: Any) -> None:
    what = (
        "shamir: holders share every number, and several of them open a sum; bfv: one holder has the only "
        "key (extra fhe)"
    )
    option(parser, "--scheme", what, default="shamir", choices=("shamir", "bfv"))


def _add_threshold(parser: Any) -> None:
    number = "number of holders that open a sum together (default: 1 with --scheme bfv)"
    option(parser, "--threshold T", number, shared.whole)
    most = "number of holders that may collude with the server (default: the most that the threshold allows)"
    option(parser, "--colluding C", most, whole_from(0))


def _threshold(args: argparse.Namespace) -> int:
    if args.threshold is None and args.scheme != "bfv":
        raise InvalidInputError("--threshold T: say how many of the holders open a sum together")
    return 1 if args.threshold is None else int(args.threshold)


def run_new_key(args: argparse.Namespace) -> int:
    """Write both parts of a key."""
    key, secret, public = _write_key(args.name, Path(args.folder), args.scheme)
    result = {
        "name": key.name,
        "key": str(secret),
        "public": str(public),
        "fingerprint": key.public.fingerprint,
    }
    words = [
        f"key of {key.name} written to {secret}: it is secret and stays here; keep a copy in a safe place",
        f"public part written to {public}, fingerprint {result['fingerprint']}",
    ]
    show(result, words, as_json=args.json)
    return 0


def run_group(args: argparse.Namespace) -> int:
    """Collect public keys."""
    from onefold.federated import HolderGroup, PublicHolder

    check_writable(args.out, *args.public)
    holders = tuple(PublicHolder.load(path) for path in args.public)
    group = HolderGroup(holders, _threshold(args), args.colluding, args.scheme)
    _tell_group(args, group, Path(args.out), [])
    return 0


def run_trial(args: argparse.Namespace) -> int:
    """Write the keys of all holders."""
    from onefold.federated import HolderGroup, PublicHolder

    one = args.scheme == "bfv"
    names = ["1"] if args.holders is None and one else args.holders
    if names is None:
        raise InvalidInputError("--holders NAME: name the holders, or give their number")
    if len(names) == 1 and names[0].isdecimal():
        names = [f"holder{number}" for number in range(1, int(names[0]) + 1)]
    if one and len(names) > 1:
        raise InvalidInputError("--scheme bfv has one key: name one holder")
    blank = tuple(PublicHolder(name, f"{2 * n:064x}", f"{2 * n + 1:064x}") for n, name in enumerate(names))
    HolderGroup(blank, _threshold(args), args.colluding)  # refuses before anything is written
    folder = Path(args.out)
    holders = tuple(_write_key(name, folder, args.scheme)[0].public for name in names)
    group = HolderGroup(holders, _threshold(args), args.colluding, args.scheme)
    _tell_group(args, group, folder / "holders.json", [SEEN])
    return 0


def _write_key(name: str, folder: Path, scheme: str) -> tuple[HolderKey, Path, Path]:
    from onefold.federated import HolderKey

    key = HolderKey.new(name, scheme)
    secret, public = folder / f"{key.name}{KEY}", folder / f"{key.name}{PUBLIC}"
    if secret.exists():
        raise InvalidInputError(
            f"{secret}: is there already; sums that were sent to it need it: choose another name or folder"
        )
    make_folder(folder)
    key.public.save(public)
    key.save(secret)
    return key, secret, public


def _tell_group(args: argparse.Namespace, group: HolderGroup, path: Path, more: list[str]) -> None:
    group.save(path)
    names = [holder.name for holder in group.holders]
    marks = {holder.name: holder.fingerprint for holder in group.holders}
    result = {
        "holders": names,
        "fingerprints": marks,
        "scheme": group.scheme,
        "threshold": group.threshold,
        "colluding": group.colluding,
        "file": str(path),
        "text": list(group.in_words),
    }
    lines = [f"key of {name}: fingerprint {mark}" for name, mark in marks.items()]
    words = [f"public keys of {', '.join(names)} written to {path}", *lines, *group.in_words, *more]
    show(result, words, as_json=args.json)
